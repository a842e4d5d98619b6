"""The example trains, agrees with torch, and survives a kill of its optimizer."""

import re
import subprocess
import unittest

from frameworks_case import PYTHON, FrameworkTest, framework_environment
from zf_cli import BINARY, SOURCE

EXAMPLE = SOURCE / "runtime/python/examples/train_tiny_lm.py"


class Example(FrameworkTest):
    def run_example(self, *arguments, program=(EXAMPLE,), **environment):
        self.make_plan("--ranks", "1", "--mode", "exact")
        words = [PYTHON, "-B", *program, "--text", EXAMPLE, "--steps", "12", "--batch", "2", *arguments]
        return subprocess.run([BINARY, "exec", "--plan", self.folder / "plan.json", "--", *words], capture_output=True,
                              text=True, timeout=250, check=False, env=framework_environment(**environment))

    def test_it_agrees_with_torch_and_a_kill_changes_no_loss(self):
        ran = self.run_example("--kill-at", "5")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        differences = {name: float(re.search(rf"losses, {name}: (\S+)", ran.stdout)[1])
                       for name in ("torch and waiting", "waiting and exact", "waiting and late")}
        self.assertLess(differences["torch and waiting"], 1e-4)
        self.assertEqual(differences["waiting and exact"], 0)
        self.assertTrue(0 < differences["waiting and late"] < 1.0)
        self.assertRegex(ran.stdout, r"step 5, [1-9]\d* restarts?; maximum difference to the undisturbed run: 0\n")

    def test_a_kill_that_kills_nothing_is_no_success(self):
        harmless = f"import os, runpy; os.kill = lambda *_: None; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
        ran = self.run_example("--kill-at", "5", program=("-c", harmless))
        self.assertEqual((ran.returncode, ran.stderr), (1, ""))
        self.assertIn("never started again", ran.stdout)

    def test_what_is_missing_is_said_before_anything_is_trained(self):
        for arguments, environment, missing in (((), {"ZF_RUNTIME_LIBRARY": "/no/lib.so"}, "/no/lib.so"),
                                                ((), {"ZF_OPTIMIZER": "/no/program"}, "/no/program"),
                                                (("--plan", "/no/plan.json"), {}, "/no/plan.json")):
            with self.subTest(missing):
                ran = self.run_example(*arguments, **environment)
                self.assertEqual((ran.returncode, ran.stdout), (1, ""))
                self.assertRegex(ran.stderr, rf"\A\S+train_tiny_lm.py: .*{missing}.*\n\Z")

    def test_a_kill_beyond_the_last_step_is_refused(self):
        ran = self.run_example("--kill-at", "13")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertEqual(ran.stderr, "train_tiny_lm.py: --kill-at 13: there are steps 1 to 12 (--steps)\n")


if __name__ == "__main__":
    unittest.main()
