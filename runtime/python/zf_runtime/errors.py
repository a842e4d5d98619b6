"""The exceptions. Their text is the library's own: what is wrong, where, and what to do next."""

from __future__ import annotations

import re


class ZfError(RuntimeError):
    """A call of the runtime failed. `status` is the name of the C status, such as "ZF_ERROR_USAGE"."""

    def __init__(self, text: str, status: str = "ZF_ERROR_USAGE"):
        super().__init__(text)
        self.status = status


class ZfTimeout(ZfError, TimeoutError):
    """The work is not done yet, and the optimizer lives. Ask again."""


class ZfWorkerDied(ZfError):
    """The optimizer process has died; the text says why. Finished work counts, and every view stays readable.
    Groups that were being stepped may be half old and half new."""


class ZfPlanError(ZfError):
    """There is no plan, or it is broken, or it is for CPUs that are not available here."""


class ZfBusy(ZfError):
    """Submitted work is not done, or another thread waits."""


class ZfStateError(ZfError):
    """A state file is damaged, or has another version or other groups. Nothing was changed."""


_BY_STATUS = {
    "ZF_TIMEOUT": ZfTimeout,
    "ZF_WORKER_DIED": ZfWorkerDied,
    "ZF_ERROR_PLAN": ZfPlanError,
    "ZF_ERROR_BUSY": ZfBusy,
    "ZF_ERROR_STATE": ZfStateError,
}


# What the library calls by its name in C, and the keywords and methods that a Python program has for it.
_IN_PYTHON = (
    (r"zf_options\.plan_path\b", "plan="),
    (r"zf_options\.(\w+) at ZF_TRY\b", r'\1= at "try"'),
    (r"zf_options\.(\w+_timeout)_ms\b", r"\1="),
    (r"zf_options\.(\w+)", r"\1="),
    (r"zf_group\.(\w+)", r"\1= of the Group"),
    (r"\bzf_(wait|close|progress|read_state|write_state)\b", r"\1()"),
)


def error_of(status: str, text: str) -> ZfError:
    """Returns the exception for the name of a status and the library's text, with the names of Python in it."""
    for in_c, in_python in _IN_PYTHON:
        text = re.sub(in_c, in_python, text)
    return _BY_STATUS.get(status, ZfError)(text or status, status)
