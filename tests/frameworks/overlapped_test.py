"""OverlappedAdamW with the torch of frameworks-env: see overlapped_cases.py."""

import subprocess
import unittest

from frameworks_case import HERE, PYTHON, FrameworkTest, framework_environment
from zf_cli import SOURCE


class Overlapped(FrameworkTest):
    def cases(self, name):
        self.make_plan("--ranks", "1", "--mode", "overlap")
        done = subprocess.run([PYTHON, "-B", "-W", "ignore", "-m", "unittest", f"overlapped_cases.{name}"], cwd=HERE,
                              env=framework_environment(ZF_PLAN=str(self.folder / "plan.json"),
                                                        PYTHONPATH=str(SOURCE / "runtime/python")),
                              capture_output=True, text=True, timeout=250, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_checkpoint_is_of_one_step(self):
        self.cases("OneStep")

    def test_waiting_for_parameters_on_the_cpu_is_in_place(self):
        self.cases("InPlace")


if __name__ == "__main__":
    unittest.main()
