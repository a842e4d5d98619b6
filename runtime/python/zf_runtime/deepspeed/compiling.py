"""Lets jobs start where DeepSpeed cannot compile an operator, and says what a start waits for."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from typing import Any, Callable

from .messages import say, say_once

_PATIENCE_S = 10.0  # so long a compiler may take before its lock is named


def without_compiler(build: Callable[[], Any]) -> Callable[[], Any]:
    """Wraps DeepSpeed's build_shm_op. It returns None, as where that operator is not compatible, if it fails and this
    system has no compiler or no ninja. torch's backend then does what the operator would."""

    @functools.wraps(build)
    def build_shm_op() -> Any:
        try:
            return build()
        except Exception as error:
            missing = _missing_program()
            if not missing:
                raise
            say_once(f"no {missing} in PATH, so DeepSpeed's deepspeed_shm_comm is not compiled "
                     f"({type(error).__name__}): torch's backend does its work")
            return None

    return build_shm_op


def naming_the_lock(wait: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wraps torch's FileBaton.wait(), which waits without a word, and for ever if the process that compiled was
    killed."""

    @functools.wraps(wait)
    def named(baton: Any) -> None:
        timer = threading.Timer(_PATIENCE_S, say, [
            f"still waiting for the process that compiles in {os.path.dirname(baton.lock_file_path)}. If none does, "
            f"because it was killed, remove {baton.lock_file_path}"])
        timer.daemon = True
        timer.start()
        try:
            wait(baton)
        finally:
            timer.cancel()

    return named


def _missing_program() -> str | None:
    compiler = (os.environ.get("CXX") or "c++").split()[0]
    return next((name for name in (compiler, "ninja") if shutil.which(name) is None), None)
