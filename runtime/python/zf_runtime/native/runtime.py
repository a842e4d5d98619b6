"""The C ABI as a Python object: open, views, submit, wait, close."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import math
import numbers
import os
import signal
import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ..errors import ZfTimeout, ZfWorkerDied
from . import abi, checks, keeping
from .group import Group, as_numpy, as_tensor, element_type, grads_buffer, moments_kind
from .handle import Handle
from .library import check
from .scalars import Scalars

if TYPE_CHECKING:
    import numpy as np
    import torch

_PIECE_MS = 100  # signals do not end zf_wait: between two pieces Python handles Ctrl-C
_YEAR_S = 365 * 24 * 60 * 60
_CLOSE_TIMEOUT_S = 10.0  # the library's default


class Norm(NamedTuple):
    """The result of submit_norm()."""

    sum_of_squares: float  #: of the gradients as they are
    finite: bool  #: False if any gradient is infinite or NaN


class Runtime(Handle):
    """An optimizer process with its parameters, gradients and moments in shared memory.

    plan: path of a zf-tune plan; None: the environment's ZF_BINDING or ZF_PLAN, which `zf-tune exec` sets.
    rank: the local rank; None: ZF_RANK, then the launcher's variables, then 0 if the plan has one rank.
    groups: cannot be added or removed later; a group is named by its index.
    spin_us: how long a wait stays on its CPU before it sleeps, in microseconds; None: the library's default.
    start_timeout, close_timeout: in seconds; None: 120 and 10.
    max_restarts: how often a dead optimizer is restarted within restart_window_s seconds. It finishes the step, with
    the same result, bit for bit. None: the library's default (3, in 3600 s). 0: never, so that its death ends every
    wait.
    chunk_bytes: progress() counts in chunks of this many bytes of copy(), or of params() if there is no copy; None:
    256 MiB.
    huge_pages: "try" (a refusal is a note in stats()), "no" or "must" (a refusal is a ZfError): pages of 2 MiB.
    lock_memory: the same choices: memory that is never swapped out.
    narrow: the same choices. If `zf-tune exec` started the process on its whole home, its threads get the training
    CPUs until close(). If torch is imported then and still has the number of threads that exec set, that number
    follows, too.
    keep: a name; None: nothing is kept. If the process ends without close(), its memory is kept for keep_s seconds
    (None: 600), and the next Runtime of the same user with the same name, rank and groups goes on from the last
    step: see stats().was_kept and note(). `with` does not close it when an exception leaves the block. Several ranks
    come back at one step only if they use prepare() and go().
    note_bytes: the size of the notes of submit().
    export_room: whether the memory for the copy of export_begin() is got now, and not by the first export.

    Views. params(), grads() and so on are views of the shared memory, of shape (elements,), at the same place
    until close(). They keep the memory alive: after close() they hold the last values, and nothing reads what is
    written to them. New views are then refused.

    Threads. Any thread may call submit and stats, and take views. One thread at a time may wait. Call close last.

    fork. A forked child must not use it; the optimizer reads what it writes to a view. There close() only refuses
    further calls.
    """

    def __init__(self, plan: str | os.PathLike[str] | None = None, rank: int | None = None,
                 groups: Sequence[Group] = (), *, spin_us: int | None = None,
                 start_timeout: float | None = None, close_timeout: float | None = None,
                 max_restarts: int | None = None, chunk_bytes: int | None = None, huge_pages: str = "try",
                 lock_memory: str = "no", narrow: str = "try", restart_window_s: int | None = None,
                 keep: str | None = None, keep_s: int | None = None, note_bytes: int = 0,
                 export_room: bool = False):
        options = abi.sized(
            abi.Options, abi_version=abi.ABI_VERSION, plan_path=None if plan is None else checks.path(plan),
            rank=checks.option("rank", rank, checks.INT32_MAX, -1),
            spin_us=checks.option("spin_us", spin_us, checks.INT32_MAX, -1),
            start_timeout_ms=_milliseconds("start_timeout", start_timeout),
            close_timeout_ms=_milliseconds("close_timeout", close_timeout), max_restarts=_restarts(max_restarts),
            chunk_bytes=checks.option("chunk_bytes", chunk_bytes, checks.UINT64_MAX, 0),
            huge_pages=_strictness("huge_pages", huge_pages), lock_memory=_strictness("lock_memory", lock_memory),
            narrow=_strictness("narrow", narrow),
            restart_window_s=checks.option("restart_window_s", restart_window_s, _YEAR_S, 0, least=1),
            export_room=checks.option("export_room", export_room, 1, 0), **keeping.options(keep, keep_s, note_bytes))
        described = (abi.Group * len(groups))(*(group.as_abi() for group in groups))
        self._groups = list(groups)
        self._note_bytes = note_bytes
        self._close_timeout = _CLOSE_TIMEOUT_S if close_timeout is None else close_timeout
        self._standstill: tuple[float, float] | None = None  # what the process had computed, and when: see end_waits()
        self._stands_still = False
        super().__init__(options, described)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._keeps:
            return
        try:
            self.close()
        except Exception:
            if kind is None:
                raise  # else the first exception is the one to read

    def close(self) -> None:
        """Finishes what is submitted and ends the process. The second call does nothing.

        Raises ZfTimeout if the process had not finished within close_timeout and was killed, and ZfWorkerDied if it
        had died before. The runtime is closed then, too. Ctrl-C while the process is stopped leaves it open."""
        if self.closed or self.forked:
            super().close()
            return
        self.end_waits()
        with contextlib.suppress(ZfTimeout):
            self.await_running()
        if self._stands_still:
            self._kill()
        try:
            super().close()
            if not self._stands_still:
                return
        except ZfWorkerDied:
            if not self._stands_still:
                raise
        except ZfTimeout:
            pass
        raise ZfTimeout(f"the optimizer process was killed: it had not finished after {self._close_timeout:g} s; "
                        "close_timeout may be longer", "ZF_TIMEOUT")

    def _kill(self) -> None:
        """Kills the process, since zf_end would wait for it once more. The one that is started again for what is
        submitted ends at once."""
        stats = self.stats()
        if stats.worker_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stats.worker_pid, signal.SIGKILL)

    def end_waits(self) -> None:
        """Is called before close(), while threads may still wait. From now on a wait raises ZfTimeout when the process
        has computed nothing for close_timeout, as one that is stopped. A long step is waited for."""
        if self._standstill is None:
            self._standstill = (-1.0, 0.0)

    def await_running(self) -> None:
        """Waits while the process is stopped, as end_waits() says. Ctrl-C ends this wait; it would not end
        that of zf_end."""
        began = time.monotonic()
        while _is_stopped(self.stats().worker_pid):
            self._refuse_standstill(began, is_stopped=True)
            time.sleep(_PIECE_MS / 1000)

    @property
    def stands_still(self) -> bool:
        """Whether a wait was refused since end_waits(), and the process has computed nothing since."""
        return self._stands_still

    def _refuse_standstill(self, began: float, *, is_stopped: bool = False) -> None:
        """began: when the wait did. is_stopped: it computes nothing, also where its clock is unknown."""
        if self._standstill is None:
            return
        computed, now = _computed_s(self.stats().worker_pid), time.monotonic()
        if computed != self._standstill[0] and not (is_stopped and math.isnan(computed)):
            self._standstill, self._stands_still = (computed, now), False
        elif self._stands_still or now - max(began, self._standstill[1]) > self._close_timeout:
            self._stands_still = True
            raise ZfTimeout(f"the optimizer process has computed nothing for {self._close_timeout:g} s, and is killed: "
                            "it is stopped, or has no CPU", "ZF_TIMEOUT")

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups that it was opened with."""
        return tuple(self._groups)

    def params(self, group: int) -> np.ndarray:
        """Returns the fp32 master parameters. You may write them while no submission of the group is pending. There are
        none with split masters: see read_state()."""
        return self.numpy(group, abi.PARAMS)

    def exp_avg(self, group: int, moment_set: int = 0) -> np.ndarray:
        """Returns the first moments: fp32, or bf16 (as uint16). Write them only when params() may be written. Set 1
        needs Group.moment_sets=2."""
        return self.numpy(group, moments_kind(abi.MOMENT_1, moment_set))

    def exp_avg_sq(self, group: int, moment_set: int = 0) -> np.ndarray:
        """Returns the second moments, as exp_avg() does the first."""
        return self.numpy(group, moments_kind(abi.MOMENT_2, moment_set))

    def grads(self, group: int, buffer: int = 0) -> np.ndarray:
        """Returns gradient buffer 0 or 1, of the group's grad_type (bf16 as uint16, because NumPy has no bf16). You may
        write it from the end of its last submission to the next."""
        return self.numpy(group, abi.GRADS_0 + grads_buffer(buffer))

    def stale(self, group: int) -> np.ndarray:
        """Returns the fp32 snapshot of the last step's result; only with Group.stale."""
        return self.numpy(group, abi.STALE)

    def copy(self, group: int) -> np.ndarray:
        """Returns the last step's result rounded to Group.copy_type (bf16 as uint16)."""
        return self.numpy(group, abi.COPY)

    def numpy(self, group: int, kind: int) -> np.ndarray:
        """Returns a NumPy view of an array, by its kind in zf_runtime.h (ZF_PARAMS is 0)."""
        return as_numpy(*self._array(group, kind))

    def tensor(self, group: int, kind: int) -> torch.Tensor:
        """Returns the same view as a torch tensor on the CPU, bf16 as torch.bfloat16."""
        return as_tensor(*self._array(group, kind))

    def _array(self, group: int, kind: int) -> tuple[ctypes.Array[ctypes.c_char], str, int]:
        """Returns the memory of an array, its element type, and its number of elements."""
        group, kind = self._index(group), checks.integer("kind", kind, abi.MOMENT_2_SET_1)
        memory = self._memory(self._library.zf_buffer, self._open_pointer, group, kind)
        settings = self._groups[group]
        return memory, element_type(settings, kind), settings.elements

    def _index(self, group: int) -> int:
        return checks.index("group", group, len(self._groups))

    def read_state(self, group: int, kind: int, begin: int = 0, count: int | None = None) -> np.ndarray:
        """Returns a copy of parameters or moments as fp32, in any state format: `count` elements from `begin` on (None:
        all). kind: that of zf_runtime.h (ZF_PARAMS is 0). Raises ZfBusy while submitted work is not done."""
        import numpy

        left = max(0, self._groups[self._index(group)].elements - _number("begin", begin))
        values = numpy.empty(left if count is None else _number("count", count), numpy.float32)
        self._state_range("zf_read_state", group, kind, begin, len(values), values.ctypes.data)
        return values

    def write_state(self, group: int, kind: int, values: Any, begin: int = 0) -> None:
        """Writes parameters or moments from `begin` on, given as fp32. They are rounded to nearest where the state
        format has fewer bits. Raises ZfBusy while submitted work is not done."""
        import numpy

        given = numpy.ascontiguousarray(values, numpy.float32)
        self._state_range("zf_write_state", group, kind, begin, given.size, given.ctypes.data)

    def _state_range(self, function: str, group: int, kind: int, begin: int, count: int, address: int) -> None:
        """Calls zf_read_state or zf_write_state for `count` floats at an address."""
        kind = checks.integer("kind", kind, abi.MOMENT_2_SET_1)
        floats = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
        check(getattr(self._library, function)(self._open_pointer, self._index(group), kind, _number("begin", begin),
                                           count, floats))

    def submit(self, scalars: Scalars | Sequence[Scalars], groups: Sequence[int] | None = None, *, buffer: int = 0,
               scalars_of: Sequence[int] | None = None, note: bytes | None = None, _prepares: int = 0) -> int:
        """Hands groups (None: all) and their gradients to the optimizer, and returns a ticket at once.

        scalars: the factors of the step, with its number: one for all groups, or a list. scalars_of: for each group
        the index of its scalars; None: one for each. adam_scalars() computes them.
        buffer: which gradients, 0 or 1.
        groups and scalars_of may be an array("I"), which takes the least time.
        note: at most note_bytes bytes that belong to this step; note() returns them, filled up with zeros.
        Raises ZfBusy if a group's last submission with this buffer is not done; then nothing is submitted."""
        if note is None:
            return self._submit_scalars(scalars, groups, buffer, scalars_of, abi.STEP)
        if len(note) > self._note_bytes:
            raise ValueError(f"the note has {len(note)} bytes; note_bytes is {self._note_bytes}")
        return self._submit_scalars(scalars, groups, buffer, scalars_of, abi.STEP, prepares=_prepares,
                                    note=note.ljust(self._note_bytes, b"\0"))

    def prepare(self, scalars: Scalars | Sequence[Scalars], groups: Sequence[int] | None = None, *, buffer: int = 0,
                scalars_of: Sequence[int] | None = None, note: bytes) -> None:
        """Writes all that submit() needs into the memory that is kept, and submits nothing: go() does that. Several
        ranks that all prepare, then wait for each other, and then go, can come back at one step after a death."""
        self.submit(scalars, groups, buffer=buffer, scalars_of=scalars_of, note=note, _prepares=1)

    def go(self) -> int:
        """Submits what was prepared, and returns a ticket. Raises ZfError if nothing is."""
        ticket = ctypes.c_uint64()
        check(self._library.zf_go(self._open_pointer, ctypes.byref(ticket)))
        return ticket.value

    def speculate(self, scalars: Scalars | Sequence[Scalars], groups: Sequence[int] | None = None, *, buffer: int = 0,
                  scalars_of: Sequence[int] | None = None, elements: tuple[int, int] = (0, 0)) -> int:
        """Begins a step that may be taken back, bit for bit, for groups with Group.speculative. The next submit() of
        the group and buffer has the results that it would have without this. It keeps the step if its scalars are
        equal. Until that or take_back() is done, do not touch parameters and moments, and do not write these
        gradients. read_state(), export_state() and others raise ZfBusy meanwhile.

        elements: (begin, end): of each group only these, which no other call for this step has. Both are multiples of
        Group.chunk_elements(), or end is the group's. A step may have 64 such calls. (0, 0): all."""
        begin, end = map(_number, ("begin", "end"), elements)
        return self._submit_scalars(scalars, groups, buffer, scalars_of, abi.SPECULATE, begin=begin, end=end)

    def take_back(self, groups: Sequence[int] | None = None, *, buffer: int = 0) -> int:
        """Takes a speculated step back, and returns a ticket."""
        return self._submit(groups, buffer, work=abi.TAKE_BACK)

    def _submit_scalars(self, scalars: Scalars | Sequence[Scalars], groups: Sequence[int] | None, buffer: int,
                        scalars_of: Sequence[int] | None, work: int, note: bytes | None = None, **more: int) -> int:
        given = [scalars] if isinstance(scalars, Scalars) else scalars
        fields: dict[str, Any] = {
            "scalars": (abi.Scalars * len(given))(*(abi.Scalars(*members) for members in given)),
            "scalar_count": len(given), "scalars_size": ctypes.sizeof(abi.Scalars),
            "note": ctypes.cast(ctypes.c_char_p(note), ctypes.c_void_p), **more}
        if scalars_of is not None:
            wanted = len(self._groups if groups is None else groups)
            if len(scalars_of) != wanted:
                raise ValueError(f"scalars_of has length {len(scalars_of)}; the number of groups is {wanted}")
            fields["scalars_of"] = _words("scalars_of", scalars_of)
        return self._submit(groups, buffer, work=work, **fields)

    def submit_norm(self, groups: Sequence[int] | None = None, *, buffer: int = 0) -> int:
        """Submits the sums of squares of the groups' gradients (None: all groups), and returns a ticket. After wait(),
        norm() has the sums. A submit() of the same buffer may follow at once."""
        return self._submit(groups, buffer, work=abi.NORM)

    def _submit(self, groups: Sequence[int] | None, buffer: int, **fields: Any) -> int:
        args = abi.sized(abi.SubmitArgs, buffer=grads_buffer(buffer), **fields)
        if groups is not None:
            if len(groups) == 0:
                raise ValueError("no groups to submit; None means all of them")
            args.groups = _words("groups", groups, self._index)
            args.n_groups = len(groups)
        ticket = ctypes.c_uint64()
        check(self._library.zf_submit(self._open_pointer, ctypes.byref(args), ctypes.byref(ticket)))
        return ticket.value

    def wait(self, ticket: int = 0, timeout: float | None = None) -> None:
        """Waits until a submission and all before it are done. Ticket 0 means everything that is submitted now.

        timeout: in seconds; None: as long as the optimizer lives. Raises ZfTimeout if the work is not done yet, and
        ZfWorkerDied if the optimizer is dead and max_restarts are used up. Other Python threads run meanwhile, and
        Ctrl-C works."""
        ticket = _number("ticket", ticket)
        if not self._ask(lambda ms: self._library.zf_wait(self._open_pointer, ticket, ms), timeout):
            raise ZfTimeout(f"submission {ticket or 'all'} is not done after {timeout} s; the optimizer lives",
                            "ZF_TIMEOUT")

    def progress(self, group: int, at_least: int = 0, *, ticket: int = 0, timeout: float | None = None) -> int:
        """Waits until the group's last step up to `ticket` (0: of those submitted now) has finished at_least elements
        from the start of the group. Returns how many are finished, which is fewer if `timeout` was too short. They
        are final: their params, moments, copy and stale may be read while the step goes on.

            sent = 0
            while sent < n:
                done = runtime.progress(0, sent + 1)
                gpu[sent:done].copy_(copy[sent:done], non_blocking=True)
                sent = done
        """
        group, at_least, ticket = self._index(group), _number("at_least", at_least), _number("ticket", ticket)
        elements = ctypes.c_uint64()
        self._ask(lambda ms: self._library.zf_progress(self._open_pointer, ticket, group, at_least, ms,
                                                   ctypes.byref(elements)), timeout)
        return elements.value

    def norm(self, group: int, buffer: int = 0) -> Norm:
        """Returns the result of the last submit_norm() of the group's gradients."""
        total, finite = ctypes.c_double(), ctypes.c_int32()
        check(self._library.zf_norm(self._open_pointer, self._index(group), grads_buffer(buffer),
                                ctypes.byref(total), ctypes.byref(finite)))
        return Norm(total.value, bool(finite.value))

    def note(self) -> tuple[int, bytes] | None:
        """Returns the note of the last submit() that had one, behind the number of its step. None: there is none."""
        return self._read_note("zf_get_note")

    def prepared(self) -> tuple[int, bytes] | None:
        """Returns that of the step that is prepared and not submitted."""
        return self._read_note("zf_get_prepared")

    def _read_note(self, function: str) -> tuple[int, bytes] | None:
        memory, step = ctypes.create_string_buffer(max(1, self._note_bytes)), ctypes.c_uint64()
        check(getattr(self._library, function)(self._open_pointer, memory, self._note_bytes, ctypes.byref(step)))
        return (step.value, memory.raw[:self._note_bytes]) if step.value else None

    def overwriting(self, begins: bool) -> None:
        """Says that the program begins, or has ended, to write params or moments. If it dies in between, what is kept
        of it is refused."""
        check(self._library.zf_overwriting(self._open_pointer, begins))

    def step(self, group: int) -> int:
        """Returns the number of the group's last step; 0 before the first. Raises ZfBusy while submitted work is not
        done."""
        number = ctypes.c_uint64()
        check(self._library.zf_get_step(self._open_pointer, self._index(group), ctypes.byref(number)))
        return number.value

    def export_state(self, path: str | os.PathLike[str]) -> None:
        """Writes parameters, moments and step counts of all groups to a file, atomically, with checksums. Raises ZfBusy
        while submitted work is not done, and ZfError if the file cannot be written, or its folder not synced: the text
        says which."""
        check(self._library.zf_export_state(self._open_pointer, checks.path(path)))

    def export_begin(self, path: str | os.PathLike[str]) -> None:
        """Begins to write that file beside training, with the state that all groups have when everything submitted is
        done. The optimizer makes a copy of it, up to 12 bytes a parameter, before it does what is submitted later.
        wait() also waits for the copy: until then do not write params and moments. close() waits for the file, for
        close_timeout. Raises ZfBusy if an export is under way, and ZfError if memory has no room for the copy or the
        file cannot be written."""
        check(self._library.zf_export_begin(self._open_pointer, checks.path(path)))

    def export_wait(self, timeout: float | None = None) -> None:
        """Waits until the file of export_begin() is there. timeout: in seconds; None: as long as it takes. Raises
        ZfTimeout if it is not there yet, and once what the export has failed with; the old file is then untouched."""
        if not self._ask(lambda ms: self._library.zf_export_wait(self._open_pointer, ms), timeout):
            raise ZfTimeout(f"the export is not done after {timeout} s", "ZF_TIMEOUT")

    def save_begin(self) -> None:
        """Begins to copy the state as export_begin() does, for a program that writes it itself. Raises ZfBusy before
        save_end() of the last copy, and ZfError if memory has no room for it."""
        check(self._library.zf_save_begin(self._open_pointer))

    def save_wait(self, timeout: float | None = None) -> None:
        """Waits until that copy is made, as export_wait() does."""
        if not self._ask(lambda ms: self._library.zf_save_wait(self._any_pointer(), ms), timeout):
            raise ZfTimeout(f"the state is not copied after {timeout} s", "ZF_TIMEOUT")

    def saved(self, group: int, kind: int) -> tuple[torch.Tensor, Any]:
        """Returns the parameters, which are fp32, or moments in that copy, and the memory object that holds them. They
        are valid until save_end()."""
        memory = self._memory(self._library.zf_saved, self._any_pointer(), self._index(group), kind)
        settings = self._groups[group]
        element = "f32" if kind == abi.PARAMS else element_type(settings, kind)
        return as_tensor(memory, element, settings.elements), memory

    def save_end(self) -> None:
        """See Handle.save_end()."""
        if not self._stands_still:  # that has had its close_timeout
            super().save_end()

    def import_state(self, path: str | os.PathLike[str]) -> None:
        """Reads such a file back. Training continues from it bit for bit, on any number of threads. Raises ZfStateError
        if the file is damaged or has other groups; then nothing is changed."""
        check(self._library.zf_import_state(self._open_pointer, checks.path(path)))

    def done(self, ticket: int = 0) -> bool:
        """Returns whether wait(ticket) would return at once."""
        try:
            self.wait(ticket, timeout=0)
        except ZfTimeout:
            return False
        return True

    def _ask(self, call: Callable[[int], int], timeout: float | None) -> bool:
        """Repeats call(milliseconds) while it returns ZF_TIMEOUT. Returns False after `timeout` seconds."""
        began = time.monotonic()
        deadline = None if timeout is None else began + timeout
        while True:
            left_ms = _PIECE_MS if deadline is None else max(0, round((deadline - time.monotonic()) * 1000))
            status = call(min(left_ms, _PIECE_MS))
            if status != abi.TIMEOUT:
                check(status)
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            self._refuse_standstill(began)


#: What Runtime can be told besides its plan, its groups and a name to keep them under.
OPTIONS = [name for name in inspect.signature(Runtime).parameters if name not in ("plan", "rank", "groups", "keep")]


def _computed_s(pid: int) -> float:
    """Returns how long a process has computed. Returns NaN, which no value equals, if that is unknown: the process has
    ended and may be started again, or a sandbox does not say it."""
    with contextlib.suppress(OSError):
        return time.clock_gettime(~pid << 3 | 2)  # its CPU clock: see clock_getcpuclockid(3)
    return math.nan


def _is_stopped(pid: int) -> bool:
    """Returns whether a process is stopped, by a signal or a debugger."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    return False


def _words(name: str, values: Sequence[int], checked: Callable[[int], int] | None = None) -> Any:
    """Returns indexes as an array for the C ABI, which checks an array("I") itself."""
    words = ctypes.c_uint32 * len(values)
    if isinstance(values, array) and values.typecode == "I" and values:
        return words.from_buffer(values)
    return words(*map(checked or (lambda value: checks.integer(name, value, checks.UINT32_MAX)), values))


def _strictness(name: str, value: str) -> int:
    values = {"no": abi.NO, "try": abi.TRY, "must": abi.MUST}
    if value not in values:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, values))}")
    return values[value]


def _number(name: str, value: int) -> int:
    return checks.integer(name, value, checks.UINT64_MAX)


def _milliseconds(name: str, seconds: float | None) -> int:
    """Returns milliseconds for the C ABI. 0 is the default there, so less than one millisecond becomes one. More than a
    year becomes a year, as in the library."""
    if seconds is None:
        return 0
    if not isinstance(seconds, numbers.Real):
        raise TypeError(f"{name} is {seconds!r}; it must be a number of seconds, or None for the default")
    if not seconds >= 0:
        raise ValueError(f"{name} is {seconds} s; it must be 0 or more, or None for the default")
    return max(1, round(min(seconds, _YEAR_S) * 1000))


def _restarts(count: int | None) -> int:
    """Returns max_restarts for the C ABI, where 0 is the default and -1 means never."""
    return 0 if count is None else checks.integer("max_restarts", count, checks.INT32_MAX, ", or None") or -1
