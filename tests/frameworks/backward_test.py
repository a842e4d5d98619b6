"""AdamW(overlap="backward") leaves the bits of mode off, or says why it does not step within backward.

The cases are in backward/, and run in the environment of the frameworks."""

import warm
from frameworks_case import HERE, PYTHON, FrameworkTest, framework_environment
from inplace_test import LIBRARY
from zf_cli import SOURCE


class Backward(FrameworkTest):
    def need_two_cpus(self):
        """One will do."""

    def test_bits_are_those_of_mode_off_or_it_is_refused(self):
        """Costs 20 s."""
        environment = framework_environment(PYTHONPATH=str(SOURCE / "runtime/python"), ZF_RUNTIME_LIBRARY=LIBRARY,
                                            OMP_WAIT_POLICY="passive")
        done = warm.run([PYTHON, "-B", "-m", "unittest", "-v", "ddp_cases", "bits_cases", "refusal_cases"], warm.TORCH,
                        cwd=HERE / "backward", env=environment, timeout=250)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, f"\n{done.stdout}\n{done.stderr}")
        self.assertNotIn("Ran 0 tests", done.stderr)
