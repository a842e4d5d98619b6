"""zf-tune record: the user's own job becomes a workload file. The jobs here import an imitated torch, which sleeps.
Tests record/attach.py, record/sitecustomize.py."""

import json
import os
import signal
import subprocess
import sys
import unittest

import zf_cli
from zf_cli import BINARY, DONE, RUNTIME_ERROR, SOURCE, USAGE

TORCH = {
    "torch/__init__.py": """
from . import autograd, cuda, optim
__version__ = "2.13"
def get_num_threads(): return 2
class Tensor: pass
""",
    "torch/autograd.py": "import time\ndef backward(tensors, grad_tensors=None): time.sleep(0.004)\n",
    "torch/cuda.py": "def is_initialized(): return False\n",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": """
import time
before, after = [], []
class Handle:
    def __init__(self, hooks, hook): self.hooks, self.hook = hooks, hook; hooks.append(hook)
    def remove(self): self.hooks.remove(self.hook)
def register_optimizer_step_pre_hook(hook): return Handle(before, hook)
def register_optimizer_step_post_hook(hook): return Handle(after, hook)
class Parameter:
    is_cuda = False
    def numel(self): return 1000
class Adam:
    def __init__(self): self.param_groups = [{"params": [Parameter(), Parameter()]}]
    def step(self):
        for hook in before: hook(self, (), {})
        time.sleep(0.002)
        for hook in after: hook(self, (), {})
""",
}
TRAIN = """
import os, signal, sys, torch
from torch.optim.optimizer import Adam
adam, steps, ending = Adam(), int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "0"
for step in range(steps):
    torch.autograd.backward(torch.Tensor())
    torch.autograd.backward(torch.Tensor())
    adam.step()
print("trained", sys.stdin.readline().strip())
if ending == "killed": os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(ending))
"""


class Record(zf_cli.CommandTest):
    def setUp(self):
        super().setUp()
        self.write_files({f"job/{name}": text for name, text in (TORCH | {"train.py": TRAIN}).items()})

    def record(self, *command: str, options=(), **environment: str):
        return self.run_tune("record", *options, "--", *command, **environment)

    def job(self, *arguments) -> list[str]:
        return [sys.executable, "job/train.py", *map(str, arguments)]

    def workload(self, name="workload.json") -> dict:
        return json.loads((self.folder / name).read_text())

    def assert_nothing_recorded(self, result, code: int, reason: str):
        self.assert_exit(result, code)
        said = [line for line in result.stderr.splitlines() if line.startswith("zf-tune")]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("no workload was written", said[0])
        self.assertIn(reason, said[0])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["job"])

    def test_a_job_becomes_a_workload_that_tune_reads(self):
        result = self.record(*self.job(30))
        self.assert_exit(result, DONE)
        workload = self.workload()
        self.assertEqual({name: workload[name] for name in ("params", "ranks", "update_interval", "mode", "framework")},
                         {"params": 2000, "ranks": 1, "update_interval": 2, "mode": "wait", "framework": "torch"})
        recorded = workload["recorded"]
        self.assertGreaterEqual(recorded["backward_ns"], 4_000_000)
        self.assertGreaterEqual(recorded["step_ns"], 2_000_000)
        self.assertGreaterEqual(recorded["period_ns"], 10_000_000)
        self.assertEqual(recorded["threads"], 2)
        self.assertIn("training.parallel_ns", workload["estimates"])  # there is no OpenMP to ask
        self.assertGreater(workload["step_factor"], 0)
        self.assertIn("job/train.py 30", workload["source"])
        self.assertIn("torch in mode wait, update interval 2, 2000 parameters, 1 rank", result.stdout)
        self.assertTrue(result.stdout.startswith("trained \n"), result.stdout)
        self.assertEqual(result.stderr, "wrote workload.json\n")
        tuned = self.run_tune("tune", "-w", "workload.json", "--simulate",
                              str(SOURCE / "configs/machines/desktop-4p-4e.json"), "-o", "-")
        self.assert_exit(tuned, DONE)
        self.assertIn("estimates, not measured: training.launch_ns, training.parallel_ns", tuned.stderr)
        plan = json.loads(tuned.stdout)
        zf_cli.validate(plan)
        self.assertEqual(plan["workload"]["step_factor"], workload["step_factor"])
        self.assertEqual(plan["workload"]["training"]["parallel_ns"], workload["training"]["parallel_ns"])

    def test_the_job_has_our_streams_and_arguments(self):
        result = subprocess.run([BINARY, "record", "-q", "--", *self.job(9)], cwd=self.folder, input="hello\n",
                                text=True, capture_output=True, timeout=50, env=zf_cli.clean_environment(), check=False)
        self.assert_exit(result, DONE)
        self.assertEqual((result.stdout, result.stderr), ("trained hello\n", ""))

    def test_with_a_dash_stdout_has_the_workload_alone(self):
        result = self.record(*self.job(30), options=["-o", "-"])
        self.assert_exit(result, DONE)
        self.assertEqual(json.loads(result.stdout)["params"], 2000)
        self.assertTrue(result.stderr.startswith("trained \n"), result.stderr)
        self.assertIn("torch in mode wait, update interval 2, 2000 parameters, 1 rank", result.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["job"])

    def test_a_stdout_that_takes_nothing_changes_the_exit_code_only(self):
        with open("/dev/full", "w") as full:
            for target in ("workload.json", "-"):
                silent = ["sh", "-c", 'exec "$@" >/dev/null', "sh", *self.job(30)]
                process = subprocess.run([BINARY, "record", "-o", target, "--", *silent], cwd=self.folder, text=True,
                                         stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=50,
                                         env=zf_cli.clean_environment(), check=False)
                with self.subTest(target=target):
                    self.assertEqual(process.returncode, RUNTIME_ERROR, process.stderr)
                    self.assertEqual(process.stderr.splitlines()[-1],
                                     "zf-tune: cannot write standard output: No space left on device")
        self.assertEqual(self.workload()["params"], 2000)

    def test_tune_ends_with_the_recorded_period_and_the_forecasts(self):
        self.assert_exit(self.record(*self.job(30), options=["-q"]), DONE)
        for budget in ("2s", "10s", "80s"):
            tuned = self.run_tune("tune", "--fresh", "-w", "workload.json", "--budget", budget, timeout=200)
            self.assert_exit(tuned, DONE)
            self.assertNotIn("recorded period", tuned.stderr)
            if "recorded period" in tuned.stdout:
                break  # on a busy machine a short sweep does not reach the unbound control, which the forecast needs
        self.assertRegex(tuned.stdout, "(?m)^.*recorded period .*; forecast unbound .*, under the plan .*"
                         "(this plan, unbound (is|was) .* expect plan / unbound [0-9.]+ \\(|How unbound compares with)")

    def test_a_job_that_fails_ends_with_its_own_status_and_nothing_is_written(self):
        self.assert_nothing_recorded(self.record(*self.job(30, 7)), 7, "the command ended with status 7")
        self.assert_nothing_recorded(self.record(*self.job(30, "killed")), 128 + signal.SIGKILL,
                                     "was killed by signal 9")
        self.assert_nothing_recorded(self.record("./absent"), 127, "the command ended with status 127")

    def test_a_job_that_never_steps_ends_with_1(self):
        self.assert_nothing_recorded(self.record(*self.job(0)), RUNTIME_ERROR, "no backward was seen")
        self.assert_nothing_recorded(self.record(*self.job(3)), RUNTIME_ERROR,
                                     "3 optimizer steps seen, 1 usable: let the job run longer")
        self.assert_nothing_recorded(self.record("true"), RUNTIME_ERROR,
                                     "no Python process of the command imported torch")

    def test_a_temporary_folder_with_a_colon_is_refused(self):
        (self.folder / "job/a:b").mkdir()
        result = self.record("touch", "job/started", TMPDIR=str(self.folder / "job/a:b"))
        self.assert_refused(result, zf_cli.USAGE, "TMPDIR=", "a colon", "set TMPDIR to another folder")
        self.assertEqual(sorted(os.listdir(self.folder / "job/a:b")), [])
        self.assertFalse((self.folder / "job/started").exists())

    def test_stop_also_ends_what_the_command_leaves_behind(self):
        """A process in a session of its own that ignores SIGTERM, as a daemon of the job could."""
        (self.folder / "job/daemon.py").write_text(
            "import signal, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "print('ready', flush=True)\n"
            "time.sleep(99)\n")
        (self.folder / "job/train.py").write_text(
            "import subprocess, sys\n"
            "words = [sys.executable, 'job/daemon.py']\n"
            "left = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)\n"
            "left.stdout.readline()\n"
            "open('left', 'w').write(str(left.pid))\n" + TRAIN.replace("range(steps)", "iter(int, 1)"))
        self.assert_exit(self.record(*self.job(1), options=("-q", "--stop")), DONE)
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.folder / "left").read_text()), 0)

    def test_a_job_that_ctrl_c_ends_was_recorded_if_it_had_stepped_enough(self):
        for signum in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signum):
                (self.folder / "job/train.py").write_text(
                    TRAIN.replace("print(", f"os.kill(os.getpid(), {int(signum)})\nprint("))
                result = self.record(*self.job(30))
                self.assert_exit(result, 128 + signum)
                self.assertIn("after enough was recorded", result.stderr)
                self.assertEqual(self.workload()["params"], 2000)
                (self.folder / "workload.json").unlink()
                self.assert_nothing_recorded(self.record(*self.job(3)), 128 + signum, "was killed by signal")

    def test_a_job_that_ctrl_c_ends_is_recorded_to_its_last_step(self):
        """Enough for a workload, less than was asked for."""
        (self.folder / "job/train.py").write_text(
            TRAIN.replace("print(", f"os.kill(os.getpid(), {int(signal.SIGINT)})\nprint("))
        self.assert_exit(self.record(*self.job(30), options=("-u", "1000")), 128 + signal.SIGINT)
        self.assertEqual(self.workload()["params"], 2000)

    def test_ctrl_c_is_told_whatever_the_command_makes_of_it(self):
        """The signal of a terminal goes to both, whether the command is a job with torch or not."""
        for name, text in (("a program", "import os, time\n"), ("a job", "import torch, time, os\n")):
            for signum, status in ((signal.SIGINT, 0), (signal.SIGINT, 7), (signal.SIGTERM, 0), (signal.SIGTERM, 1)):
                with self.subTest(name, signum=signum, status=status):
                    (self.folder / "job/train.py").write_text(
                        f"{text}import signal\nsignal.signal({int(signum)}, lambda *_: os._exit({status}))\n"
                        "print('ready', flush=True)\ntime.sleep(30)\n")
                    process = self.start_tune("record", "--", *self.job(), start_new_session=True)
                    self.assertEqual(process.stdout.readline(), "ready\n")
                    os.killpg(process.pid, signum)
                    self.assert_nothing_recorded(self.finish(process), 128 + signum, f"status {status}")

    def measuring(self, output: str) -> subprocess.Popen:
        """Returns a record that has seen its job end, and measures our step over 320 MB now."""
        optimizer = self.folder / "job/torch/optim/optimizer.py"
        optimizer.write_text(optimizer.read_text().replace("return 1000", "return 10_000_000"))
        process = self.start_tune("record", "-o", output, "--", *self.job(30))
        self.addCleanup(process.kill)
        job_output = process.stderr if output == "-" else process.stdout
        self.assertEqual(job_output.readline(), "trained \n")
        while process.poll() is None:
            # The processes of ranks are forks of the recorder's, which has no other forks.
            ranks = ["pgrep", "-x", "-P", str(process.pid), "zf-tune"]
            if subprocess.run(ranks, stdout=subprocess.PIPE, check=False).returncode == 0:
                break
        self.assertIsNone(process.poll(), "it is over")
        return process

    def test_a_signal_after_the_job_has_ended_loses_nothing(self):
        for signum, output in ((signal.SIGINT, "workload.json"), (signal.SIGTERM, "-"),
                               (signal.SIGKILL, "killed.json")):
            with self.subTest(signum):
                process = self.measuring(output)
                process.send_signal(signum)
                said, errors = process.communicate(timeout=30)
                self.assertEqual(process.returncode, -signum if signum == signal.SIGKILL else 128 + signum, errors)
                workload = json.loads(said) if output == "-" else self.workload(output)
                self.assertEqual(workload["params"], 20_000_000)
                self.assertIn("step_factor", workload["estimates"])
                self.assertNotIn("step_factor", workload)
                if signum != signal.SIGKILL:
                    self.assertIn("as fast as ours: a signal ended the measurement of ours", errors)

    def test_an_old_torch_is_named(self):
        (self.folder / "job/torch/optim/optimizer.py").write_text("class Adam:\n    def step(self): pass\n")
        self.assert_nothing_recorded(self.record(*self.job(9)), RUNTIME_ERROR,
                                     "torch 2.13 cannot be recorded; 2.0 or newer is needed")

    def test_two_ranks_are_one_workload(self):
        result = self.record("sh", "-c", '"$@" & "$@"; wait', "sh", *self.job(30))
        self.assert_exit(result, DONE)
        workload = self.workload()
        self.assertEqual((workload["ranks"], workload["params"]), (2, 4000))

    def test_stop_ends_a_job_that_would_go_on(self):
        result = self.record(*self.job(1_000_000), options=["--stop", "--updates", "5", "-o", "short.json"])
        self.assert_exit(result, DONE)
        self.assertNotIn("trained", result.stdout)
        self.assertGreaterEqual(self.workload("short.json")["recorded"]["updates"], 5)

    def start(self, at_signal: str, **how) -> subprocess.Popen:
        """Starts a job that never trains, and calls at_signal(number, frame) on SIGTERM and SIGUSR1.

        at_signal may come while the job is still in its print("ready"): print() refuses to be called within itself."""
        (self.folder / "job/train.py").write_text(TRAIN.replace(
            "import os,", "import os, time\nimport", 1).replace("adam, steps", at_signal + """
signal.signal(signal.SIGTERM, at_signal)
signal.signal(signal.SIGUSR1, at_signal)
print("ready", flush=True)
while True: time.sleep(60)
adam, steps""", 1))
        process = self.start_tune("record", "--", *self.job(1_000_000), **how)
        self.addCleanup(process.kill)  # the job dies with it
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_sigterm_reaches_the_job_once(self):
        process = self.start("""
def at_signal(*_):
    os.write(1, b"asked\\n")
    time.sleep(0.5)
    sys.exit(9)
""")
        process.terminate()
        said, errors = process.communicate(timeout=30)
        self.assertEqual((process.returncode, said), (128 + signal.SIGTERM, "asked\n"), errors)
        self.assertIn("the command ended with status 9: no workload was written", errors)

    def test_signals_of_a_batch_system_reach_the_job_each_time(self):
        process = self.start("""
left = 3
def at_signal(number, _):
    global left
    left -= 1
    os.write(1, f"{int(number)}\\n".encode())
    if left == 0: sys.exit(9)
""")
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM):
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_under_nohup_the_job_survives_the_end_of_its_terminal(self):
        process = self.start("def at_signal(*_): sys.exit(9)\n",
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        job = int(subprocess.check_output(["pgrep", "-P", str(process.pid)], text=True))
        for target in (process.pid, job):
            os.kill(target, signal.SIGHUP)
        process.send_signal(signal.SIGUSR1)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 9)

    def test_a_fault_of_the_recorder_leaves_the_job_alone(self):
        with open(self.folder / "job/torch/optim/optimizer.py", "a") as file:
            file.write("def register_optimizer_step_pre_hook(hook): raise RuntimeError('another torch')\n")
        result = self.record(*self.job(3))
        self.assert_exit(result, RUNTIME_ERROR)
        self.assertEqual(result.stdout, "trained \n")
        self.assertIn("no workload was written: the recorder failed: RuntimeError: another torch", result.stderr)

    def test_switched_off_it_only_runs_the_job(self):
        result = self.record(*self.job(30, 5), ZF_TUNE="off")
        self.assert_exit(result, 5)
        self.assertEqual((result.stdout, result.stderr), ("trained \n", ""))

    def test_the_users_own_sitecustomize_still_runs(self):
        own = self.folder / "job/own"
        own.mkdir()
        (own / "sitecustomize.py").write_text("print('mine')")
        result = self.record(*self.job(9), options=["-q"], PYTHONPATH=str(own))
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, "mine\ntrained \n")

    def test_a_command_is_needed(self):
        result = self.run_tune("record")
        self.assert_exit(result, USAGE)
        self.assertIn("no command given", result.stderr)


if __name__ == "__main__":
    unittest.main()
