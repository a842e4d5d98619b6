"""Mode exact on a stand-in for a GPU is right, and a wait that is removed is missed. Costs 25 s. Tests
optim/overlap/gradients.py, optim/overlap/turn.py, optim/tensors/streams.py."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest

import exact
import exact_job  # this and the next are imported once, for all cases
import torch._dynamo
import zf_runtime

PACKAGE = pathlib.Path(zf_runtime.__file__).parent
DEADLINE_S = 30
TRIES = 3  # on a busy machine a step may be over before a missing wait matters
TURN, READS, GRADIENTS, ENGINE, OPENED = (
    f"optim/overlap/{name}.py" for name in ("turn", "reads", "gradients", "engine", "opened"))

# How a case finds that something is missing. Whatever else goes wrong is a fault of these cases. IndexError: two
# threads were in the engine at once, seen once in some hundred runs.
FOUND = (r"double\.Race|AssertionError|IndexError: list index|.*got a gradient of a forward that had not waited|"
         r"UserWarning: .*gradients were written between backward and step")

# What is removed: file, text, what stands there instead, and the case that catches it.
REMOVED = {
    "the optimizer waits for gradients": (
        TURN, "            event.synchronize()\n        began", "            pass\n        began", "plain"),
    "the sender waits for readers of old weights": (
        TURN, "self._streams[device].wait(event)", "pass", "plain"),
    "the sender waits for the step": (
        TURN, "runtime.progress(share.last.index, share.ends[0], ticket=ticket)", "pass", "plain"),
    "a step is waited for to its end": (TURN, "        runtime.wait(ticket)\n", "", "plain"),
    "an event after the sent weights": (TURN, "share.event = stream.record()", "pass", "plain"),
    "step() waits for its count": (TURN, "        self._wait(turn.submitted, turn)\n\n    def readers",
                                   "\n    def readers", "plain"),
    "forward waits on the host": (TURN, "            self._wait(share.sent, turn)\n", "", "plain"),
    "forward waits on its stream": (
        TURN, "self.devices[share.device].current().wait(share.event)", "pass", "plain"),
    "the wait for a whole step": (TURN, "        self._wait(turn.ended, turn)\n", "", "plain"),
    "a late step is sent at the next one": (
        TURN, "while not turn.publishing.wait(60.0):", "while False:", "late"),
    "a late step waits for readers": (TURN, "turn.readers = self.readers()", "pass", "late"),
    "a use that is seen waits": (
        READS, "            done = waiter.wait_for(some)\n", "            done = some\n", "by hand"),
    "a forward in another thread waits": (
        READS, "if not self.is_of_this_thread or is_closed_to_us(module):\n            self.stays = False\n"
        "            self._wait_for_all()\n",
        "if not self.is_of_this_thread:\n            pass\n", "in a thread"),
    "another stream waits, too": (
        READS, "for place in done or ():", "for place in [*(done or ()), *some]:", "two streams"),
    "the copy waits for backward": (
        GRADIENTS, "                stream.wait(event)\n", "                pass\n", "plain"),
    "a write of gradients waits for their copies": (
        GRADIENTS, "                self._devices[device].current().wait(stream.record())",
        "                pass", "plain"),
    "a second copy waits for the first": (
        GRADIENTS, "                    current.wait(last.event)", "                    pass",
        "averaged twice"),
    "a gradient lives until it is copied": (
        GRADIENTS, "        self.gradient, self.pointer, self.version = gradient, gradient.data_ptr(), version\n",
        "        import weakref\n        self._it, self.pointer, self.version = weakref.ref(gradient), "
        "gradient.data_ptr(), version\n        type(self).gradient = property(lambda self: self._it())\n", "dropped"),
    "one more backward waits for the copies": (
        ENGINE, "            live.gradients.begin()\n", "            pass\n", "micro batches"),
    "a copy waits for each stream that made gradients": (
        GRADIENTS, "[current.record()] if made is None else made[device]", "[current.record()]",
        "gradients of two streams"),
    "a late step that is not waited for waits for readers": (
        OPENED, "            self.overlap.publish()\n", "", "late, collected"),
    "memory stays until the sender has read it": (
        OPENED, "            share.event.synchronize()  # a GPU reads the arena until then\n",
        "            pass\n", "grown"),
    "memory stays until gradients are copied to it": (
        GRADIENTS, "        for copied in self._copied.values():\n            copied.event.synchronize()\n",
        "", "grown"),
    "gradients of two devices come one after the other": (
        GRADIENTS, "        with self._arriving:\n            self._arrived",
        "        if True:\n            self._arrived", "gradients of two devices"),
    "step() waits for the step before": (
        ENGINE, "            self._wait_for_steps()\n        self._refuse_graphs()\n", "            pass\n",
        "stepped again"),
    "averages wait for the step before": (
        ENGINE, "if param in of and not live.overlap.is_under_way(of[param])]", "if param in of]",
        "averaged unseen"),
    "close() waits for copies of gradients": (OPENED, "            self.gradients.close()\n", "", "closed"),
    "the arena stays until its last reader is done": (
        TURN, "            stream.close()  # it reads the arena", "            pass", "late, collected"),
}


def result_in_a_child(package: pathlib.Path, case: str) -> str:
    """Runs a case with a package in a forked child. Returns "right", or what went wrong."""
    report = package.parent / "report"
    os.environ["ZF_PLAN"] = exact.plan()
    child = os.fork()
    if child == 0:
        try:
            sys.stderr.flush()
            torch.set_num_threads(1)  # OpenMP hangs in a child of a process that has used its threads
            for name in [name for name in sys.modules if name.split(".")[0] in ("zf_runtime", "double", "exact_job")]:
                del sys.modules[name]
            sys.path.insert(0, str(package.parent))
            import exact_job as fresh

            fresh.run(case)
            report.write_text("right")
        except BaseException:
            report.write_text(traceback.format_exc().strip().splitlines()[-1])
        finally:
            os._exit(0)
    ends = time.monotonic() + DEADLINE_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "it hangs"
        time.sleep(0.01)
    return report.read_text() if report.exists() else "it crashed"


class OnADevice(unittest.TestCase):
    def result(self, case, file=None, text="", instead=""):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "zf_runtime"
            shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "deepspeed", "record"))
            if file is not None:
                source = (package / file).read_text()
                self.assertEqual(source.count(text), 1, f"{file}: {text}")
                (package / file).write_text(source.replace(text, instead))
            return result_in_a_child(package, case)

    def test_it_is_as_waiting_bit_for_bit(self):
        for case in exact_job.CASES:
            with self.subTest(case):
                self.assertEqual(self.result(case), "right")

    def test_each_wait_event_and_keep_alive_is_needed(self):
        for name, (file, text, instead, case) in REMOVED.items():
            with self.subTest(name):
                found = "right"
                for _ in range(TRIES):
                    found = self.result(case, file, text, instead) if found == "right" else found
                print(f"{name}: {found[:150]}")
                self.assertRegex(found, rf"^({FOUND})")


if __name__ == "__main__":
    unittest.main()
