"""What goes wrong, as exceptions. The text is the library's own: what, where, and what to do next."""

from __future__ import annotations


class ZfError(RuntimeError):
    """A call of the runtime failed. `status` is the C status' name, such as "ZF_ERROR_USAGE"."""

    def __init__(self, text: str, status: str = "ZF_ERROR_USAGE"):
        super().__init__(text)
        self.status = status


class ZfTimeout(ZfError, TimeoutError):
    """Not yet; the optimizer lives. Ask again."""


class ZfWorkerDied(ZfError):
    """The optimizer process has ended; the text says of what. What it had finished counts, every view stays
    readable, and groups that were being stepped may be half old and half new."""


class ZfPlanError(ZfError):
    """No plan, a broken one, or one for other CPUs than there are here."""


class ZfBusy(ZfError):
    """The last submission of this gradient buffer is not done, or another thread waits."""


class ZfStateError(ZfError):
    """A state file that is damaged, or of another version, or of other groups; nothing was changed."""


_BY_STATUS = {
    "ZF_TIMEOUT": ZfTimeout,
    "ZF_WORKER_DIED": ZfWorkerDied,
    "ZF_ERROR_PLAN": ZfPlanError,
    "ZF_ERROR_BUSY": ZfBusy,
    "ZF_ERROR_STATE": ZfStateError,
}


def error_of(status: str, text: str) -> ZfError:
    """The exception for a status' name."""
    return _BY_STATUS.get(status, ZfError)(text or status, status)
