"""scripts/run_ctest.py: ctest's output goes on, and before its summary stands why tests were skipped."""

import contextlib
import os
import signal
import subprocess
import sys
import time

from zf_cli import SOURCE, CommandTest

CTEST = os.environ.get("ZF_CTEST", "ctest")

GOOGLETEST = r"printf '[ RUN      ] A.B\n/x/a_test.cpp:12: Skipped\nno GPU here\n\n[  SKIPPED ] A.B (0 ms)\n'"
UNITTEST = """printf "test_x (m.C.test_x)\\nIts promise. ... skipped \\"it's dark\\"\\n\\nOK (skipped=1)\\n" """
SUMMARY_OF_ANOTHER = "printf '100%% tests passed, 0 tests failed out of 2\\n'"


class RunCtest(CommandTest):
    def start(self, **tests: str) -> subprocess.Popen:
        """Starts the script with these tests: each is a command of the shell, and is skipped if it ends with 77."""
        lines = [f"add_test({name} sh -c [==[{command}]==])\n"
                 f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)\n" for name, command in tests.items()]
        (self.folder / "CTestTestfile.cmake").write_text("".join(lines))
        process = subprocess.Popen(
            [sys.executable, SOURCE / "scripts/run_ctest.py", self.folder, CTEST, "--test-dir", self.folder,
             "--output-on-failure"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(self.kill_group, process.pid)
        return process

    @staticmethod
    def kill_group(group: int) -> None:
        """Ends the script, ctest and its tests, if they have not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)

    def said(self, code: int, **tests: str) -> str:
        process = self.start(**tests)
        text = process.communicate(timeout=50)[0]
        self.assertEqual(process.returncode, code, text)
        return text

    def test_the_time_of_each_room_is_told(self):
        """scripts/part_times.py, which .ci/run calls last."""
        self.said(0, a="sleep 1", b="true", c="true")
        with (self.folder / "CTestTestfile.cmake").open("a") as file:
            file.write('set_tests_properties(a b PROPERTIES LABELS "heavy;cli;cli.a")\n')
        (self.folder / "parts").write_text("build\t70\t100\t30\n")
        said = subprocess.run([sys.executable, SOURCE / "scripts/part_times.py", self.folder / "parts", self.folder,
                               CTEST], capture_output=True, text=True, check=True).stdout
        self.assertRegex(said, r"(?m)^build +70 +130$")
        self.assertRegex(said, r"(?m)^cli +1 +2  a 1 s$")
        self.assertRegex(said, r"(?m)^others +0 +1  c 0 s$")

    def test_reasons_have_counts_and_stand_before_the_summary(self):
        text = self.said(0, a=f"{GOOGLETEST}; exit 77", b="echo 'skipped: no GPU here'; exit 77",
                         c=f"{UNITTEST}; exit 77", d="exit 77", e="true")
        reasons = ("skipped: 2 tests: no GPU here\nskipped: 1 test: it's dark\nskipped: 1 test: no reason given\n\n"
                   "100% tests passed")
        self.assertIn(reasons, text)
        self.assertLess(text.rindex("Test #5: e"), text.index(reasons))
        self.assertEqual(text.count("tests passed"), 1)

    def test_without_skipped_tests_nothing_is_added(self):
        text = self.said(0, a="true")
        self.assertNotIn("skipped", text)
        self.assertRegex(text, r"\n100% tests passed[^\n]* out of 1\n")

    def test_failed_tests_give_the_exit_status_and_their_output(self):
        text = self.said(8, a=f"{SUMMARY_OF_ANOTHER}; exit 1", b="echo 'skipped: dark'; exit 77")
        self.assertLess(text.index("out of 2\n"), text.index("Test #2: b"))
        self.assertRegex(text, r"skipped: 1 test: dark\n\n50% tests passed, 1 tests? failed out of 2\n")

    def test_lines_come_while_tests_run_and_a_signal_ends_both(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start(a="true", b="exec sleep 40")
            started = time.monotonic()
            while "Test #1: a" not in (line := process.stdout.readline()):
                self.assertTrue(line, "it ended")
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # Ctrl-C goes to ctest too
            else:
                process.send_signal(number)
            self.assertNotIn("tests passed", process.communicate(timeout=30)[0])
            self.assertEqual(process.returncode, -number)
            self.assertLess(time.monotonic() - started, 30)
