"""AdamW of zf_runtime with an optimizer process, in each of its modes, trains as torch's, and bit for bit as in place.

The cases are in overlap/, one file for an idea, and run in the environment of the frameworks. Parameters on the CPU
stand in for those on a GPU where overlap="off" shall have a process."""

from frameworks_case import FrameworkTest


class Overlap(FrameworkTest):
    CASES = "overlap"

    def test_each_part_alone_does_what_the_others_count_on(self):
        """Starts no process."""
        self.run_cases("clips_cases", "compiled_cases", "gates_cases", "turn_cases")

    def test_it_trains_as_torch_and_as_in_place(self):
        """Costs 18 s: every state format in every mode."""
        self.run_cases("like_torch_cases", "near_torch_cases", "late_cases", "formats_cases", "state_cases")

    def test_what_is_loaded_may_lie_where_it_goes(self):
        """Costs 14 s: with torch.distributed.checkpoint, which loads so."""
        self.run_cases("loading_cases")

    def test_optimizers_over_the_same_parameters_step_in_turn(self):
        """Costs 12 s: each pair of modes, while the optimizer processes stand still."""
        self.run_cases("two_cases")

    def test_what_a_program_writes_is_taken_or_refused(self):
        """Costs 18 s: with what comes when it closes or dies, and when a model is saved beside its step."""
        self.run_cases("written_cases", "ends_cases", "module_cases", "memory_cases")

    def test_an_interrupt_anywhere_leaves_whole_steps(self):
        """Costs 9 s."""
        self.run_cases("interrupt_cases")

    def test_the_next_forward_hides_the_step_and_changes_no_bit(self):
        """Costs 18 s: mode exact."""
        self.run_cases("exact_reading_cases", "exact_gradients_cases", "exact_models_cases", "exact_ends_cases",
                       "exact_code_cases", "rare_cases")

    def test_a_step_that_begins_in_backward_changes_no_bit(self):
        """Costs 15 s: clipped or not, read, written and killed before step()."""
        self.run_cases("speculation_cases")

    def test_what_a_killed_trainer_leaves_is_gone_on_with(self):
        """Costs 15 s: kills of trainers in waiting and exact modes, and what is refused."""
        self.run_cases("keep_cases")

    def test_a_save_beside_training_has_one_moment(self):
        """Costs 10 s: each mode and state format, DCP, and kills of trainers."""
        self.run_cases("save_cases")

    def test_ranks_come_back_at_one_step(self):
        """Costs 40 s: two ranks that skip a step together or not, and a kill of one under torchrun."""
        self.run_cases("keep_rank_cases")

    def test_with_steps_that_begin_in_backward_nothing_else_changes(self):
        """Costs 15 s: cases of mode exact."""
        self.run_cases("exact_reading_cases", "exact_gradients_cases", "exact_ends_cases", "rare_cases",
                       ZF_SPECULATES="1")

    def test_every_use_of_a_parameter_waits(self):
        """Costs 30 s: 170 small jobs, each with the bits of overlap="off"."""
        self.run_cases("reads_cases")

    def test_each_wait_is_needed_on_a_device(self):
        """Costs 10 s: a stand-in for a GPU."""
        self.run_cases("device_cases")

    def test_ddp_trains_bit_for_bit(self):
        """Costs 15 s: two ranks."""
        self.run_cases("ddp_cases")

    def test_fsdp2_trains_bit_for_bit(self):
        """Costs 35 s: one rank, and two."""
        self.run_cases("fsdp_cases.Ranks")

    def test_libraries_clip_as_with_torch(self):
        """Costs 15 s: Trainer, accelerate, Lightning; torch.compile."""
        self.run_cases("library_cases")

    def test_every_use_of_a_parameter_waits_5_times(self):
        """The short form runs each job once."""
        self.run_cases("reads_cases", timeout=3500, ZF_READS="5")

    def test_2000_kills_change_no_bit(self):
        """The short form has 20."""
        self.run_cases("exact_ends_cases.Killed", timeout=3500, ZF_KILLS="2000")

    def test_500_kills_of_steps_that_begin_in_backward_change_no_bit(self):
        """The short form has 30."""
        self.run_cases("speculation_cases.Speculated.test_a_kill_at_any_moment_changes_no_bit", timeout=3500,
                       ZF_KILLS="500")

    def test_50_programs_of_fsdp2_and_200_kills_change_no_bit(self):
        """The short form has 3 and 10."""
        self.run_cases("fsdp_cases.Long", timeout=3500, ZF_PROGRAMS="50", ZF_KILLS="200")

    def test_700_kills_of_trainers_change_no_bit(self):
        """Costs 300 s."""
        self.run_cases("keep_cases.Keep.test_kills_of_the_trainer_change_no_bit", timeout=3500, ZF_KILLS="100")

    def test_30_kills_of_a_rank_of_two_change_no_bit(self):
        """Costs 300 s: DDP, waiting and exact, and FSDP2, which has a process in mode exact alone."""
        self.run_cases("keep_rank_cases.Restarted", timeout=3500, ZF_KILLS="10")

    def test_2000_interrupts_and_all_lines(self):
        """The short form is the one above."""
        self.run_cases("interrupt_cases", timeout=3500, ZF_INTERRUPTS="2000")
