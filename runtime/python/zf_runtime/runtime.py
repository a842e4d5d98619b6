"""The C ABI as a Python object: open, views, submit, wait, close."""

from __future__ import annotations

import ctypes
import os
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Sequence

from . import _abi, _checks, _views
from ._handle import Handle
from ._library import check, library
from .errors import ZfTimeout
from .group import Group
from .stats import Stats

if TYPE_CHECKING:
    import numpy as np

_PIECE_MS = 100  # zf_wait does not end for signals: between two pieces Python handles Ctrl-C
_YEAR_S = 365 * 24 * 60 * 60


class Norm(NamedTuple):
    sum_of_squares: float  #: of the gradients as they are, without grad_scale
    finite: bool  #: False: some gradient is infinite or NaN


class Runtime:
    """An optimizer process with its parameters, gradients and moments in shared memory.

    plan: path of a zf-tune plan; None: the environment's ZF_PLAN, which `zf-tune exec` sets.
    rank: the local rank; None: ZF_RANK, then the launcher's variables, then 0 if the plan has one rank.
    groups: fixed for the runtime's life; a group is named by its index.
    spin_us: how long a wait stays on its CPU before it sleeps, in microseconds; None: the library's default.
    start_timeout, close_timeout: in seconds; None: 120 and 10.
    max_restarts: how often a dead optimizer is started again, over the runtime's life: it finishes the step, with
    the same result, bit for bit. None: the library's default (3). 0: never, its death ends every wait.
    chunk_bytes: progress() counts in chunks of so many bytes of copy() (without one, of params()); None: 256 MiB.
    huge_pages, lock_memory: "no", "try" (a refusal is a note in stats()) or "must" (a refusal is a ZfError).

    Views. params(), grads() and so on are views of the shared memory, of shape (elements,), at the same place
    until close(). They keep the memory alive: after close() they hold the last values, and writing to them
    reaches no one. New ones are refused then.

    Threads. submit, set_group, stats and views from any thread; one thread at a time in wait; close last.

    fork. A forked child must not use it; what it writes to a view, the optimizer reads. close() does nothing there
    but refuse further calls.
    """

    def __init__(self, plan: str | os.PathLike[str] | None = None, rank: int | None = None,
                 groups: Sequence[Group] = (), *, spin_us: int | None = None,
                 start_timeout: float | None = None, close_timeout: float | None = None,
                 max_restarts: int | None = None, chunk_bytes: int | None = None, huge_pages: str = "no",
                 lock_memory: str = "no"):
        options = _abi.sized(
            _abi.Options, abi_version=_abi.ABI_VERSION, plan_path=os.fsencode(plan) if plan is not None else None,
            rank=_checks.option("rank", rank, _checks.INT32_MAX, -1),
            spin_us=_checks.option("spin_us", spin_us, _checks.INT32_MAX, -1),
            start_timeout_ms=_milliseconds("start_timeout", start_timeout),
            close_timeout_ms=_milliseconds("close_timeout", close_timeout), max_restarts=_restarts(max_restarts),
            chunk_bytes=_checks.option("chunk_bytes", chunk_bytes, _checks.UINT64_MAX, 0),
            huge_pages=_wish("huge_pages", huge_pages), lock_memory=_wish("lock_memory", lock_memory))
        array = (_abi.Group * len(groups))(*(group.as_abi() for group in groups))
        self._groups = list(groups)
        self._handle = Handle(options, array)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except Exception:
            if kind is None:
                raise  # else the first exception is the one to read

    def close(self) -> None:
        """Finishes what is submitted and ends the process; the second call does nothing.

        ZfTimeout: it had not finished in close_timeout and was killed. ZfWorkerDied: it had died before.
        The runtime is closed whatever is raised."""
        self._handle.close()

    @property
    def closed(self) -> bool:
        return self._handle.is_closed

    @property
    def forked(self) -> bool:
        """Whether this is a forked child of the process that opened it, which must not use it."""
        return self._handle.is_forked

    @property
    def groups(self) -> tuple[Group, ...]:
        """The settings that the next submission uses."""
        return tuple(self._groups)

    def params(self, group: int) -> np.ndarray:
        """fp32 master parameters; yours to write while no submission of the group is under way."""
        return self.numpy(group, _abi.PARAMS)

    def exp_avg(self, group: int) -> np.ndarray:
        """fp32 first moments; likewise."""
        return self.numpy(group, _abi.MOMENT_1)

    def exp_avg_sq(self, group: int) -> np.ndarray:
        """fp32 second moments; likewise."""
        return self.numpy(group, _abi.MOMENT_2)

    def grads(self, group: int, buffer: int = 0) -> np.ndarray:
        """Gradients 0 or 1, of the group's grad_type (bf16 as uint16: NumPy has no such type); yours from the
        end of the last submission of this buffer to the next."""
        return self.numpy(group, _abi.GRADS_0 + _views.grads_buffer(buffer))

    def stale(self, group: int) -> np.ndarray:
        """fp32 snapshot of the last step's result; only with Group.stale."""
        return self.numpy(group, _abi.STALE)

    def copy(self, group: int) -> np.ndarray:
        """The same, rounded to Group.copy_type (bf16 as uint16)."""
        return self.numpy(group, _abi.COPY)

    def numpy(self, group: int, kind: int) -> np.ndarray:
        """A NumPy view of an array, by its kind in zf_runtime.h (ZF_PARAMS is 0)."""
        return _views.as_numpy(*self._array(group, kind))

    def tensor(self, group: int, kind: int) -> Any:
        """The same as a torch tensor on the CPU, bf16 as torch.bfloat16."""
        return _views.as_tensor(*self._array(group, kind))

    def _array(self, group: int, kind: int) -> tuple[ctypes.Array, str, int]:
        """An array's memory, its element type and how many elements it has."""
        group, kind = self._index(group), _checks.integer("kind", kind, _abi.COPY)
        memory, settings = self._handle.memory(group, kind), self._groups[group]
        return memory, _views.element_type(settings, kind), settings.elements

    def _index(self, group: int) -> int:
        return _checks.index("group", group, len(self._groups))

    def set_group(self, group: int, settings: Group) -> None:
        """New settings for the submissions from now on; elements and types must be what they were."""
        group = self._index(group)
        check(library().zf_set_group(self._handle.pointer, group, ctypes.byref(settings.as_abi())))
        self._groups[group] = settings

    def submit(self, groups: Sequence[int] | None = None, *, buffer: int = 0, grad_scale: float = 1.0,
               step: int = 0) -> int:
        """Hands groups (None: all) and their gradients to the optimizer, and returns a ticket at once.

        buffer: which gradients, 0 or 1. grad_scale multiplies each gradient as it is read (unscale, clip).
        step: the step's number, from 1, for the bias correction; 0: each group's next.
        ZfBusy: a group's last submission with this buffer is not done; then nothing is submitted."""
        return self._submit(groups, buffer, grad_scale=grad_scale, step=_number("step", step))

    def submit_norm(self, groups: Sequence[int] | None = None, *, buffer: int = 0) -> int:
        """Has the squares of the groups' (None: all) gradients summed up; after wait(), norm() has the sums. A
        submit() of the same buffer may follow at once."""
        return self._submit(groups, buffer, grad_scale=1.0, work=_abi.NORM)

    def _submit(self, groups: Sequence[int] | None, buffer: int, **fields: Any) -> int:
        args = _abi.sized(_abi.SubmitArgs, buffer=_views.grads_buffer(buffer), **fields)
        if groups is not None:
            if len(groups) == 0:
                raise ValueError("no groups to submit; None means all of them")
            args.groups = (ctypes.c_uint32 * len(groups))(*map(self._index, groups))
            args.n_groups = len(groups)
        ticket = ctypes.c_uint64()
        check(library().zf_submit(self._handle.pointer, ctypes.byref(args), ctypes.byref(ticket)))
        return ticket.value

    def wait(self, ticket: int = 0, timeout: float | None = None) -> None:
        """Waits until a submission, and all before it, are done; 0: all that are submitted now.

        timeout: in seconds; None: as long as the optimizer lives. ZfTimeout: not yet, ask again.
        ZfWorkerDied: it is dead, and max_restarts are used up. Other Python threads run meanwhile, and Ctrl-C works."""
        ticket = _number("ticket", ticket)
        if not _ask(lambda ms: library().zf_wait(self._handle.pointer, ticket, ms), timeout):
            raise ZfTimeout(f"submission {ticket or 'all'} is not done after {timeout} s; the optimizer lives",
                            "ZF_TIMEOUT")

    def progress(self, group: int, at_least: int = 0, *, ticket: int = 0, timeout: float | None = None) -> int:
        """How many elements from the group's start the last step of it, up to `ticket` (0: that is submitted now),
        has finished, after waiting for at_least of them; fewer when `timeout` was too short. They are final: params,
        moments, copy and stale of [0, that) may be read while the step goes on.

            sent = 0
            while sent < n:
                done = runtime.progress(0, sent + 1)
                gpu[sent:done].copy_(copy[sent:done], non_blocking=True)
                sent = done
        """
        group, at_least, ticket = self._index(group), _number("at_least", at_least), _number("ticket", ticket)
        elements = ctypes.c_uint64()
        _ask(lambda ms: library().zf_progress(self._handle.pointer, ticket, group, at_least, ms, ctypes.byref(elements)),
             timeout)
        return elements.value

    def norm(self, group: int, buffer: int = 0) -> Norm:
        """What the last submit_norm() of the group's gradients found."""
        total, finite = ctypes.c_double(), ctypes.c_int32()
        check(library().zf_norm(self._handle.pointer, self._index(group), _views.grads_buffer(buffer),
                                ctypes.byref(total), ctypes.byref(finite)))
        return Norm(total.value, bool(finite.value))

    def step(self, group: int) -> int:
        """The number of the group's last step; 0 before the first. ZfBusy while anything is under way."""
        number = ctypes.c_uint64()
        check(library().zf_get_step(self._handle.pointer, self._index(group), ctypes.byref(number)))
        return number.value

    def set_step(self, group: int, step: int) -> None:
        """The number that the group's next step comes after. ZfBusy while anything is under way."""
        check(library().zf_set_step(self._handle.pointer, self._index(group), _number("step", step)))

    def export_state(self, path: str | os.PathLike[str]) -> None:
        """Writes parameters, moments and step counts of all groups to a file, atomically, with checksums. ZfBusy while
        anything is under way."""
        check(library().zf_export_state(self._handle.pointer, os.fsencode(path)))

    def import_state(self, path: str | os.PathLike[str]) -> None:
        """Reads such a file back, and goes on from it bit for bit, on any number of threads. ZfStateError: damaged, or
        of other groups; nothing is changed then."""
        check(library().zf_import_state(self._handle.pointer, os.fsencode(path)))

    def done(self, ticket: int = 0) -> bool:
        """Whether wait(ticket) would return at once."""
        try:
            self.wait(ticket, timeout=0)
        except ZfTimeout:
            return False
        return True

    def stats(self) -> Stats:
        """A reading; works after the optimizer has died, and while views live after close()."""
        return self._handle.stats()


def _ask(call: Callable[[int], int], timeout: float | None) -> bool:
    """call(milliseconds) until it answers something else than ZF_TIMEOUT; False: not in `timeout` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left_ms = _PIECE_MS if deadline is None else max(0, round((deadline - time.monotonic()) * 1000))
        status = call(min(left_ms, _PIECE_MS))
        if status != _abi.TIMEOUT:
            check(status)
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False


def _wish(name: str, value: str) -> int:
    wishes = {"no": _abi.NO, "try": _abi.TRY, "must": _abi.MUST}
    if value not in wishes:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, wishes))}")
    return wishes[value]


def _number(name: str, value: int) -> int:
    return _checks.integer(name, value, _checks.UINT64_MAX)


def _milliseconds(name: str, seconds: float | None) -> int:
    """As the C ABI has it: 0 is the default, so a wish for less than one millisecond is one. More than a year is a
    year, there as here."""
    if seconds is None:
        return 0
    if not seconds >= 0:
        raise ValueError(f"{name} is {seconds} s; it must be 0 or more, or None for the default")
    return max(1, round(min(seconds, _YEAR_S) * 1000))


def _restarts(count: int | None) -> int:
    """As the C ABI has it: 0 is the default, so never is -1."""
    return 0 if count is None else _checks.integer("max_restarts", count, _checks.INT32_MAX, ", or None") or -1
