"""Keeps ZeRO's flat fp32 partitions in an arena of the runtime, and steps them there."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import torch

from ..binding import moved_threads
from ..errors import ZfError, ZfTimeout, ZfWorkerDied
from ..native import abi
from ..native.cuda import HostRegistration
from ..native.group import Group, piece_bytes
from ..native.runtime import Runtime
from ..native.scalars import Scalars
from ..optim.overlap.follower import Follower
from ..optim.overlap.steps import Steps
from ..optim.tensors.engine import Entry
from .speculation import Speculation

COPY_TYPES = {torch.bfloat16: "bf16", torch.float16: "f16"}
_OWN_NOTE_BYTES = 1 << 14  # beside those of the program: see keeping.py
MODES = ("wait", "exact", "late", "zenflow")
#: What a partition's moments are called in the optimizer's state. ZenFlow has the second set.
MOMENTS = ("exp_avg", "exp_avg_sq", "exp_avg_set_1", "exp_avg_sq_set_1")


@dataclasses.dataclass
class Partition:
    """A flat fp32 partition of this rank, as ZeRO made it."""

    param: torch.Tensor  #: fp32, on the CPU, one dimension
    copy_dtype: torch.dtype  #: the element type that ZeRO copies the result to
    first_element: int = 0  #: the number of its first element, for moments in bf16


class Owed:
    """A factor of gradients that a step used and did not write. ZeRO would have multiplied the gradients in place."""

    def __init__(self, factor: float):
        self.factor = factor
        self.unpaid = torch.ones(1)  # a tensor, so that one call multiplies the gradients and clears it

    @property
    def paid(self) -> bool:
        return self.factor == 1.0 or self.unpaid.item() == 0


def hand_out(mine: torch.Tensor) -> torch.Tensor:
    """Returns another tensor over the same memory, for the optimizer and the program. If they give that tensor other
    memory through `.data`, ours keeps its own."""
    tensor = torch.empty(0, dtype=mine.dtype)
    tensor.data = mine
    return tensor


def is_over(mine: torch.Tensor, given: torch.Tensor | None) -> bool:
    """Returns whether a tensor of the program still lies in the arena, at the place of ours."""
    return given is not None and given.data_ptr() == mine.data_ptr()


class Slot:
    """A partition that lies in the arena: a group of the runtime. Its tensors are never handed out: see hand_out()."""

    def __init__(self, index: int, runtime: Runtime, param: torch.Tensor):
        self.index = index
        self.param = param
        self.grad_scale = 1.0  #: of the next step
        self.owed: dict[int, Owed] = {}  #: by the address of a gradient buffer: see fused.py
        self.master = runtime.tensor(index, abi.PARAMS)
        group = runtime.groups[index]
        self.grads = [runtime.tensor(index, kind) for kind in (abi.GRADS_0, abi.GRADS_1)[:group.grad_buffers]]
        sets = [(abi.MOMENT_1, abi.MOMENT_2), (abi.MOMENT_1_SET_1, abi.MOMENT_2_SET_1)][:group.moment_sets]
        self.moments = [runtime.tensor(index, kind) for kinds in sets for kind in kinds]
        result = abi.STALE if group.stale else abi.COPY if group.copy_type else None
        self.result = None if result is None else runtime.tensor(index, result)  #: the last step's, for ZeRO's copy

    @property
    def transferred(self) -> list[torch.Tensor]:
        """The arrays that are copied to or from the GPU. Moments are not."""
        return [self.master, *self.grads, *([] if self.result is None else [self.result])]

    def take_grad_scale(self) -> float:
        scale, self.grad_scale = self.grad_scale, 1.0
        return scale


class Noted(NamedTuple):
    """A step that submit() hands over."""

    slot: Slot
    scalars: Scalars


class FlatArena:
    """The partitions of one ZeRO optimizer in the arena of one Runtime.

    mode "wait": there is one gradient buffer, and step() returns when the step is done. "exact": the same, but where
    is_beside is set, step() only notes the step. hand_over() hands over all that were noted, and wait_piece() and
    wait() wait for them. "late": step() only notes the step; submit() hands over all that were noted and changes the
    gradient buffer, and wait() ends them. "zenflow": note() and submit(buffer), with a set of moments for each gradient
    buffer and a snapshot of the result.

    in_step() runs a step. It may be interrupted by an exception, as of a signal handler. wait() then waits for all that
    was handed over, and settle() takes back the counts of what was not. A signal handler that calls them and lets the
    step go on loses nothing.

    It is not thread-safe, like the optimizer above it, except for wait() and wait_piece().
    """

    def __init__(self, partitions: Sequence[Partition], mode: str, options: dict[str, Any], state: str = "fp32", *,
                 speculates: bool = False, steps: Steps | None = None, kinds: Callable[[], Sequence[Any]] = list):
        """steps: which keep them, in modes "wait" and "exact". kinds: see Steps.open()."""
        assert mode in MODES
        zenflow = mode == "zenflow"
        groups = []
        for partition in partitions:
            copy_type = COPY_TYPES.get(partition.copy_dtype)
            groups.append(Group(elements=partition.param.numel(), copy_type=copy_type,
                                stale=zenflow and copy_type is None, moment_sets=2 if zenflow else 1,
                                grad_buffers=1 if mode in ("wait", "exact") else 2,
                                state_format=state, first_element=partition.first_element, speculative=speculates))
        self.mode = mode
        self.state = state
        #: In mode exact a step is done in pieces, which are waited for one by one: so many bytes of the result.
        self.piece_bytes = options.get("chunk_bytes") or piece_bytes(sum(group.result_bytes for group in groups))
        if mode == "exact":
            options = {**options, "chunk_bytes": self.piece_bytes}
        self.steps = Steps(None) if steps is None else steps
        self.runtime = self.steps.open(groups, options, kinds, more_bytes=_OWN_NOTE_BYTES, needs_log=self.steps.keeps)
        #: Begins steps in backward, in mode exact. Only then may something be begun that wait() takes back.
        can_begin = speculates and not self.steps.refusal
        self.speculation = Speculation(self.runtime, self.piece_bytes) if can_begin else None
        self.slots = [Slot(index, self.runtime, partition.param) for index, partition in enumerate(partitions)]
        self._at = {slot.master.data_ptr(): slot for slot in self.slots}
        self.state_of: Callable[[Slot], Entry] = lambda slot: {}  # the optimizer's state of a partition
        self._before: list[Any] | None = None  # the counts at the beginning of a step; None outside
        self._noted: list[Noted] = []
        self._submitted = 0  # groups, over all submissions before this step
        self._order: list[Slot] = []  # of those that this step has handed over, or was about to
        self._taken: list[Slot] = []  # of those, the ones that the runtime is known to have
        # How often a submission began or ended, and how far all was waited for. If they differ, one may be under way.
        self._handed_over = self._finished = 0
        self._waiting = threading.RLock()  # one thread at a time may wait for the runtime
        self.is_beside = False  # hand_over() follows the step that is running
        self.publish: Callable[[], None] = lambda: None  # is called before all is waited for
        self.note_of_job: Callable[[], bytes] = lambda: b""  # what is kept with a step
        self.may_begin: Callable[[bool], None] = lambda _: None  # is told whether steps may begin in the next backward
        self.follower: Follower[Any] | None = None  # the thread that publishes steps, which ends before the runtime
        self.at_end: Callable[[], None] = lambda: None  # is called when all was waited for, for good
        self._buffer = 0  # that ZeRO writes the next gradients to, in mode late
        self._result_is_old = True  # other code has written the masters since the last step
        self.registration: HostRegistration | None = None
        self.before_first_step: Callable[[], None] | None = None

    def register(self) -> str:
        """Pins the arena for CUDA. Returns why memory stays pageable; "" if it is pinned."""
        self.registration = HostRegistration(array for slot in self.slots for array in slot.transferred)
        return self.registration.note

    @property
    def is_open(self) -> bool:
        return bool(self._at)

    def slot_of(self, params: torch.Tensor) -> Slot | None:
        """Returns the slot of these master parameters; None if they lie elsewhere."""
        return self._at.get(params.data_ptr())

    def step(self, slot: Slot, scalars: Scalars, grads: torch.Tensor, moments: Sequence[torch.Tensor]) -> None:
        """Does a step of a partition, or notes it. Gradients that lie elsewhere are copied into the arena, and so are
        moments."""
        self.finish()
        at_once = self.mode in ("wait", "exact") and not self.is_beside
        if at_once:
            self._noted = []  # of a step() that failed
        self.adopt(slot, moments)
        self.adopt_gradients(slot, self._buffer, grads)
        self.note(slot, scalars)
        if at_once:
            self.submit(0)
            self.wait()
        moved_threads.look(scalars.step)

    def adopt(self, slot: Slot, moments: Sequence[torch.Tensor | None]) -> None:
        """Copies moments that lie elsewhere into the arena: a checkpoint was loaded, or the program gave them other
        memory. Where there are none, they begin at zero. The given tensors lie in the arena from then on. If the arena
        has moments of another type, other tensors take their places in the optimizer's state."""
        for name, mine, given in zip(MOMENTS, slot.moments, moments):
            if is_over(mine, given):
                continue
            self.wait()
            self.steps.overwrite()
            with torch.no_grad():
                mine.zero_() if given is None else mine.copy_(given.reshape(-1))
            if given is not None and given.dtype == mine.dtype:
                given.data = mine
            else:
                self.state_of(slot)[name] = hand_out(mine)

    def adopt_gradients(self, slot: Slot, buffer: int, given: torch.Tensor) -> None:
        """Copies gradients that lie elsewhere into a buffer of the arena. The given tensor stays where it is."""
        if not is_over(slot.grads[buffer], given):
            self.take_back()
            slot.grads[buffer].copy_(given.reshape(-1))

    def _adopt_masters(self) -> None:
        """Copies masters that the program gave other memory into the arena, where they lie from then on."""
        for slot in self.slots:
            if not is_over(slot.master, slot.param):
                self.take_back()
                self.steps.overwrite()
                with torch.no_grad():
                    slot.master.copy_(slot.param)
                slot.param.data = slot.master
                self.masters_written()

    def note(self, slot: Slot, scalars: Scalars) -> None:
        """Remembers a step of a partition for submit()."""
        if self.before_first_step is not None:
            first, self.before_first_step = self.before_first_step, None
            first()
        self._noted.append(Noted(slot, scalars))

    def noted(self) -> list[Noted]:
        """Returns what the next submit() hands over."""
        return list(self._noted)

    def submit(self, buffer: int) -> None:
        """Hands over the steps that were noted, with the gradients of a buffer."""
        # From here on an exception may come after the runtime has taken a step, and before we know. So no ticket is
        # relied on: wait() waits for all there is, and settle() asks the runtime which steps it did.
        self._handed_over += 1
        noted, before = self._noted, self.handed_over()
        factors = {each.slot.index: each.scalars for each in noted}

        def submit() -> None:
            if self.speculation is not None:  # what it has submitted counts, too
                self._submitted = self.runtime.stats().submitted - len(before)
            self._order = [*before, *(each.slot for each in noted)]
            self.steps.submit(self._note, list(factors.values()), list(factors), buffer=buffer)

        try:
            if self.speculation is None:
                submit()
            else:
                self.speculation.decide(factors, submit)
        finally:
            self._handed_over += 1  # a signal handler or another thread may have waited in between, for nothing
        self._noted = []

    def _note(self) -> tuple[torch.Tensor, bytes]:
        """Returns what is kept with a step: the counts of partitions, and the note of the job."""
        return torch.tensor([float(self.state_of(slot).get("step", 0)) for slot in self.slots]), self.note_of_job()

    @property
    def has_noted(self) -> bool:
        """Whether steps were noted that are not handed over."""
        return bool(self._noted)

    def hand_over(self, first: Callable[[Slot], Any]) -> None:
        """Hands over what was noted where is_beside was set, in ascending order of first(slot). It is stepped in that
        order, and each partition from its first element to its last."""
        self._handed_over += 1  # also without any: what was stepped at once is published, too
        if self._noted:
            self._noted.sort(key=lambda noted: first(noted.slot))
            self.submit(0)

    def in_step(self, step: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Runs a step of the optimizer. It counts in its state before it calls us."""
        self._begin()
        result = step(*args, **keywords)
        self._before = None  # all that it counted was handed over
        return result

    def _begin(self) -> None:
        self._take_back_counts()
        self._adopt_masters()
        for slot in self.slots:
            slot.grad_scale = 1.0  # of a step that was interrupted
        self._submitted, self._order, self._taken = self.runtime.stats().submitted, [], []
        self._before = [self.state_of(slot).get("step") for slot in self.slots]

    def handed_over(self) -> list[Slot]:
        """Returns the partitions that this step has handed over."""
        if len(self._taken) < len(self._order):
            self._taken = self._order[:self.runtime.stats().submitted - self._submitted]
        return self._taken

    def settle(self) -> None:
        """Waits for all steps that were handed over. If step() was interrupted, also takes back the counts of the steps
        that it did not hand over. In a signal handler, while step() is still running, only waits."""
        self.wait()
        if not is_running(self.in_step):
            self._take_back_counts()

    def _take_back_counts(self) -> None:
        self.finish()
        done = self.handed_over() if self._before else []
        for slot, count in zip(self.slots, self._before or []):
            state = self.state_of(slot)
            if state.get("step") != count and slot not in done:
                if count is None:
                    state.pop("step")
                else:
                    state["step"] = count
        self._noted = []
        self._before = None

    def before_writing(self) -> None:
        """Waits, so that other code may write the masters. That code may be interrupted, so nothing is kept from now
        until the next step."""
        self.wait()
        self.steps.overwrite()
        self.masters_written()

    def masters_written(self) -> None:
        """Says that other code has written the masters: in mode late the next step must not publish an older
        result."""
        self._result_is_old = True

    def before_late_step(self) -> None:
        """Copies the masters to the results that are published next, if other code has written the masters."""
        if self._result_is_old:
            for slot in self.slots:
                if slot.result is not None:
                    slot.result.copy_(slot.master)
            self._result_is_old = False

    def submit_and_turn(self, turned: Callable[[], Any] = lambda: None) -> None:
        """Gives ZeRO the other buffer for its next gradients, and then hands over the noted steps. turned(): tells ZeRO
        of the new buffer. If this is interrupted, ZeRO goes on with the buffer that it has."""
        if not self._noted:
            return
        buffer = self._buffer
        try:
            self._turn(buffer ^ 1)
            turned()
        except BaseException:
            self._turn(buffer)
            turned()
            raise
        self.submit(buffer)

    def _turn(self, buffer: int) -> None:
        for slot in self.slots:
            slot.param.grad = hand_out(slot.grads[buffer])
        self._buffer = buffer

    def take_back(self) -> None:
        """Takes back what is begun in backward."""
        if self.speculation is not None:
            self.speculation.take_back()

    def end_speculation(self) -> None:
        """Takes back what is begun in backward. From now on no step begins in backward."""
        speculation, self.speculation = self.speculation, None
        if speculation is not None:
            speculation.end()

    def wait(self, timeout: float | None = None) -> None:
        """Takes back what is begun in backward, and does what finish() does. Other code may then read and write
        masters, moments and gradients."""
        self.take_back()
        self.finish(timeout)

    def finish(self, timeout: float | None = None) -> None:
        """Waits until all that was handed over is done, and published in mode exact. Raises ZfTimeout after `timeout`
        seconds, which only ZenFlow gives."""
        handed_over = self._handed_over
        if self._finished != handed_over:
            self.publish()
            with self._waiting:
                self.runtime.wait(timeout=timeout)
            self._finished = handed_over

    def is_done_within(self, seconds: float) -> bool:
        """Returns whether the optimizer process does in this time all that it was given. Publishes nothing. Raises
        ZfTimeout if the process stands still: see Runtime.end_waits()."""
        if self._finished == self._handed_over:
            return True
        with self._waiting:
            try:
                self.runtime.wait(timeout=seconds)
            except ZfTimeout:
                if self.runtime.stands_still:
                    raise
                return False
        return True

    def wait_piece(self, slot: Slot, begin: int, length: int) -> None:
        """Waits until the step that was handed over last has done a range of a partition. What it has done is final:
        master, moments and result may be read. Pieces are done from the first element to the last, so what lies before
        the range is done, too."""
        if length and self._finished != self._handed_over:
            with self._waiting:
                self.runtime.progress(slot.index, begin + length)

    def drop_views(self) -> None:
        """Gives up all tensors over the arena, so that its memory is freed. Call it after close(), if nothing uses the
        partitions any more."""
        for slot in self.slots:
            self.state_of(slot).clear()
            slot.param.data, slot.param.grad = torch.empty(0), None
            slot.master, slot.grads, slot.moments, slot.result = torch.empty(0), [], [], None

    def close(self) -> None:
        """Finishes what was submitted and ends the process. The tensors stay readable. The second call does nothing."""
        if self.runtime.closed:
            return
        self._at.clear()  # from now on the step is in place, and what was fused is ZeRO's again
        if self.runtime.forked:  # process and memory are the parent's
            self.runtime.close()
            return
        self.runtime.end_waits()
        try:
            with contextlib.suppress(ZfWorkerDied):  # runtime.close() reports it
                self.wait()
        finally:
            self.at_end()
            with contextlib.suppress(ZfError):  # runtime.close() reports what matters
                self.end_speculation()
            if self.registration is not None:
                self.registration.release()
            self.runtime.close()


def is_running(method: Any) -> bool:
    """Returns whether this thread is inside a call of a bound method, for the same object. A signal handler may call us
    while we are inside that method."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is method.__func__.__code__ and frame.f_locals.get("self") is method.__self__:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
