"""Lets jobs on the CPU accelerator start without a compiler, where DeepSpeed compiles an operator."""

from __future__ import annotations

import functools
import os
import shutil
from typing import Any, Callable

from .messages import say_once


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


def _missing_program() -> str | None:
    compiler = (os.environ.get("CXX") or "c++").split()[0]
    return next((name for name in (compiler, "ninja") if shutil.which(name) is None), None)
