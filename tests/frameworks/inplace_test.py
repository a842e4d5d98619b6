"""AdamW and Adam of zf_runtime step a job's own tensors: as torch's do, whatever the job does with them.

The cases are in in_place/, one file for an idea, and run in the environment of the frameworks."""

from frameworks_case import FrameworkTest, job
from zf_cli import LIBRARY, SOURCE


class InPlace(FrameworkTest):
    CASES = "in_place"

    def need_two_cpus(self):
        """One will do."""

    def test_what_jobs_do_with_their_tensors_holds(self):
        """Costs 8 s."""
        self.run_cases("user_cases")

    def test_every_state_format_trains_and_loads(self):
        """Costs 5 s."""
        self.run_cases("format_cases")

    def test_no_trap_is_silent(self):
        """Costs 15 s."""
        self.run_cases("trap_cases", "form_cases")

    def test_steps_are_close_to_torch_fused(self):
        """Costs 10 s."""
        self.run_cases("fused_cases")

    def test_sharded_models_train_as_with_torch(self):
        """Costs 20 s."""
        self.run_cases("sharded_cases")

    def test_an_interrupt_anywhere_leaves_whole_steps(self):
        """Costs 8 s."""
        self.run_cases("interrupt_cases")

    def test_random_sequences_are_as_with_torch(self):
        """Costs 8 s."""
        self.run_cases("sequence_cases")

    def test_deepspeed_cpu_adam_by_hand_gives_the_same_bits(self):
        """Costs 10 s."""
        self.run_cases("deepspeed_bits_cases", "deepspeed_operator_cases")

    def test_deepspeed_cpu_adam_by_hand_needs_no_compiler(self):
        """A script as it is, where no program is in PATH and no compiled operator in reach. Nothing is compiled."""
        python, script = job("by_hand")
        variables = {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_RUNTIME_LIBRARY": LIBRARY}
        (self.folder / "empty").mkdir()
        said, = self.launch(python, "-m", "zf_runtime.deepspeed", script, PATH=str(self.folder / "empty"),
                            TORCH_EXTENSIONS_DIR=str(self.folder / "extensions"), **variables)
        self.assertIn("zf_runtime.deepspeed: DeepSpeedCPUAdam steps in place: ", self.output)
        self.assertFalse((self.folder / "extensions").exists())
        own, = self.launch(python, script, **variables)
        self.assertEqual(said["losses"], own["losses"])
        self.assertEqual(len(set(own["losses"])), 12, "nothing was trained")

    def test_2000_interrupts_and_4000_sequences(self):
        """The short forms are the three above."""
        self.run_cases("interrupt_cases", timeout=3500, ZF_INTERRUPTS="2000")
        self.run_cases("sequence_cases", timeout=3500, ZF_SEQUENCES="4000")
        self.run_cases("deepspeed_operator_cases", timeout=3500, ZF_SEQUENCES="4000")
