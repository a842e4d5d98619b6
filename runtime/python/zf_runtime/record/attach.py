"""Records the process that it is loaded into, once that imports torch. zf-tune record puts it into each Python process
of the job, by sitecustomize.py."""

from __future__ import annotations

import atexit
import contextlib
import importlib.abc
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from .recorder import Recorder


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function when a module was imported for the first time."""

    def __init__(self, module: str, call: Callable[[], None]):
        self._module = module
        self._call = call
        self._looking = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Returns the spec that the other finders have for the module, changed so that the import calls the function.
        Programs also look for a module that they do not import: then there is no call."""
        if name != self._module or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self._call()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def attach(folder: str, updates: int) -> None:
    """Records this process and writes FOLDER/PID.json, or FOLDER/STEPS-PID.why if that cannot be. It does so when
    enough was seen, else at exit. A forked child records nothing."""
    pid = os.getpid()
    recorders: list[Recorder] = []

    def finish() -> None:
        if not recorders or os.getpid() != pid:
            return
        recorder = recorders.pop()
        recorder.stop()
        from .recorder import text_of
        from .workload import TooLittle

        try:
            write(f"{pid}.json", text_of(recorder.workload()))
        except TooLittle as reason:
            say_why(reason, recorder.steps)
        except Exception as error:
            say_why(failure(error), recorder.steps)

    def write(name: str, text: str) -> None:
        """Writes a file as a whole. The folder is this user's alone."""
        path = os.path.join(folder, name)
        with open(path + ".tmp", "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".tmp", path)

    def say_why(reason: object, steps: int = 0) -> None:
        with contextlib.suppress(OSError):  # the folder is gone, or the disk is full: the job goes on
            write(f"{steps:09}-{pid}.why", str(reason))

    def failure(error: Exception) -> str:
        return f"the recorder failed: {type(error).__name__}: {error}"

    def guarded(watch: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that, if it fails, ends the recording, not the job's import."""
        def call() -> None:
            try:
                watch()
            except Exception as error:
                for recorder in recorders:
                    recorder.stop()
                recorders.clear()
                say_why(failure(error))

        return call

    def watch_torch() -> None:
        from .recorder import Recorder
        from .workload import TooLittle

        recorder = Recorder(updates, finish)
        try:
            recorder.watch_torch()
        except TooLittle as reason:
            say_why(reason)
            return
        recorders.append(recorder)

    def watch_deepspeed() -> None:
        for recorder in recorders:
            recorder.watch_deepspeed()

    sys.meta_path[:0] = [AfterImport("torch", guarded(watch_torch)), AfterImport("deepspeed", guarded(watch_deepspeed))]
    atexit.register(finish)
