"""Runs a step of stage 3 beside the next forward, with the same bits.

ZeRO-3 gathers each weight from the ranks' partitions, `ds_tensor`, before a module uses it. A step that is handed over
leaves the partitions as they are. A partition gets its result just before a gather reads it; the gather waits until
zf-optimizer has done that result. So a rank waits for its own zf-optimizer alone. Time changes neither the weights
that are gathered nor the calls that gather them.

Without a GPU, a partition in 16 bits gets its result without a copy: its `ds_tensor` lies in the arena from then on,
until something other than a gather reads or writes the weights, or a child is forked. (A thread that copied them ahead
hid no more, and a signal handler had to wait for it.)
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, NamedTuple

import torch

from ..errors import ZfError
from ..native import abi, local_calls
from ..native.group import STATE_FORMATS, Group
from ..native.scalars import Scalars
from ..optim.overlap import follower
from .arena import FlatArena, Noted, Slot, is_over
from .beside import hooks_of, make_beside, reassign_later
from .fused import has_part
from .messages import say, say_once
from .replacing import Function, replace, wrap
from .speculation import Span, begin_behind, calls_of_next

#: What is used beside what fused.py and layout.py name: of the optimizer, and of its coordinator.
NEEDED = ("partition_grads", "persistent_parameters", "_post_step", "fp16_partitioned_groups")
SPECULATION_NEEDS = ("_offload_grad_partition_at_boundary", "sub_group_to_group_id")
_BUCKET = "_PartitionedParameterCoordinator__prefetch_bucket_sz"
AVAILABLE = "_ensure_availability_of_partitioned_params"  # of Init; each gather calls it with what it gathers
# These read or write the weights where ZeRO has them, and no gather comes first.
_OTHERS = ("state_dict", "load_state_dict", "_restore_from_bit16_weights", "refresh_fp32_params", "offload_states",
           "reload_states", "load_hp_checkpoint_state_from_checkpoint_dir_stage3",
           "load_module_checkpoint_state_from_checkpoint_dir_stage3")
# Behind a step, so much of the model is gathered ahead at a time: a gather waits for all that it reads.
PREFETCHES = 32
# Persistent parameters are stepped twice, unless they are more of a partition than this.
PERSISTENT_SHARE = 0.25
_GRAIN = 32  # elements: a range of the local engine begins at a multiple


class Part(NamedTuple):
    """The place of one parameter's result in the result of a partition."""

    param: torch.nn.Parameter
    slot: Slot
    sub_group: int
    begin: int
    end: int
    may_share: bool  #: the arena may hold its weights

    @property
    def elements(self) -> int:
        return self.end - self.begin

    @property
    def padded(self) -> int:
        """The number of elements, rounded up so that a range of the local engine may begin behind them."""
        return -(-self.elements // _GRAIN) * _GRAIN

    @property
    def result(self) -> torch.Tensor:
        return _result_of(self.slot)[self.begin:self.end]


class Unpublished:
    """Knows which parameters have a `ds_tensor` without the last step's result, or with it in the arena."""

    def __init__(self, arena: FlatArena, parts: Iterable[Part], flats: Sequence[torch.Tensor]):
        """parts: of all slots. flats: where ZeRO has the weights, by sub-group."""
        self._arena, self._all, self._flats = arena, list(parts), flats
        self._parts: dict[int, Part] = {}  # by ds_id
        self._lock = threading.RLock()  # autograd's threads gather, too; and so may a signal handler
        _open.add(self)

    def set(self, parts: Iterable[Part]) -> None:
        self._parts = {part.param.ds_id: part for part in parts}
        for part in self._parts.values():
            part.param.zf_unpublished = self

    def publish(self, params: Iterable[torch.nn.Parameter]) -> None:
        """Waits for the unpublished results of these parameters, and gives them to the parameters. Leaves out the
        results of partitions that are not handed over yet, as a signal handler in step() may find them."""
        with self._lock, torch.no_grad():
            parts = [part for param in params if (part := self._parts.get(param.ds_id)) is not None]
            handed_over = self._arena.handed_over() if parts else []
            for part in parts:
                if part.slot in handed_over:
                    self._arena.wait_piece(part.slot, part.begin, part.elements)
                    if part.param.ds_id in self._parts:  # else a signal handler has been here
                        self.give(part, part.result)

    def publish_all(self) -> None:
        self.publish([part.param for part in list(self._parts.values())])

    def give(self, part: Part, result: torch.Tensor) -> None:
        """Gives a parameter its result."""
        if part.may_share:
            part.param.ds_tensor.data = result
        else:
            part.param.ds_tensor.data.copy_(result)
        self._parts.pop(part.param.ds_id, None)

    def bring_home(self) -> None:
        """Waits for the step that is under way. Afterwards all weights are where ZeRO has them, and the arena has
        none."""
        self._arena.wait()
        self._move_home()

    def leave(self, waits: str) -> str:
        """Brings the weights home before a child is forked or the engine ends. waits: says what
        waits if the step comes late. Returns why the step has failed; "" if it has not."""
        if self._arena.runtime.forked:
            return ""
        error = ""
        try:
            if not self._arena.is_done_within(follower.PATIENCE_S):
                say(follower.LATE + waits)
            self._arena.wait()
        except ZfError as failed:  # such as ZfWorkerDied, which the next use raises
            error = str(failed)
        self._move_home()
        return error

    def _move_home(self) -> None:
        with self._lock, torch.no_grad():
            for part in self._all:
                param, partition = part.param, part.param.ds_tensor
                if part.may_share and is_over(part.result, partition):
                    home = self._flats[part.sub_group][part.begin:part.end]
                    home.copy_(partition)
                    partition.data = home
                    if is_over(part.result, param.data):  # gathered, with one rank: it shows the partition
                        param.data = home.view(param.ds_shape)

    def forget(self) -> None:
        """Drops all references to the arena: the parameters would keep it as long as the model lives."""
        _open.discard(self)
        parts, self._all, self._parts = self._all, [], {}
        for part in parts:
            if getattr(part.param, "zf_unpublished", None) is self:
                del part.param.zf_unpublished


_open: weakref.WeakSet[Unpublished] = weakref.WeakSet()


def _before_fork() -> None:
    """Moves the weights out of the arena before a fork: parent and child share the arena."""
    for unpublished in list(_open):
        if error := unpublished.leave(follower.FORK_WAITS):
            say(f"a forked child has old weights: their step has failed ({error})")


os.register_at_fork(before=_before_fork)


class Persistent:
    """Steps copies of the persistent parameters in this process, with the bits that zf-optimizer will have.

    ZeRO gathers these parameters at the end of step(). They lie all over a partition, so waiting for them would be
    waiting for all of it. They have few elements."""

    def __init__(self, parts: dict[int, list[Part]], params: Sequence[torch.nn.Parameter], groups: Sequence[Group]):
        """parts: of all slots, by their index. params: those that are persistent. groups: of the arena."""
        persistent = {id(param) for param in params}
        found = {index: [part for part in each if id(part.param) in persistent] for index, each in parts.items()}
        few = _elements(found) <= PERSISTENT_SHARE * _elements(parts)
        self._parts = found if few else {index: [] for index in parts}
        self._groups = groups
        self._kept: dict[int, list[torch.Tensor]] = {}

    def keep(self, slot: Slot) -> None:
        """Remembers their state before a step of the partition is begun in backward."""
        if self._parts[slot.index]:
            self._kept[slot.index] = self._copies(slot, (slot.master.detach(), *slot.moments))

    def results(self, noted: Sequence[Noted], is_begun: Callable[[int], bool]) -> list[tuple[Part, torch.Tensor]]:
        """Returns the results of noted steps for the persistent parameters. is_begun(): returns whether the step of a
        partition may have begun in backward."""
        return [result for slot, scalars in noted if self._parts[slot.index]
                for result in self._step(slot, scalars, is_begun(slot.index))]

    def _copies(self, slot: Slot, sources: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.cat([torch.nn.functional.pad(source[part.begin:part.end], (0, part.padded - part.elements))
                           for part in self._parts[slot.index]]) for source in sources]

    def _step(self, slot: Slot, scalars: Scalars, is_begun: bool) -> Iterable[tuple[Part, torch.Tensor]]:
        parts, shape = self._parts[slot.index], self._groups[slot.index]
        kept = self._kept.pop(slot.index, None)
        state = kept if is_begun and kept else self._copies(slot, (slot.master.detach(), *slot.moments))
        arrays = [state[0], *self._copies(slot, slot.grads[:1]), *state[1:]]
        begins = list(itertools.accumulate((part.padded for part in parts), initial=0))
        master, gradient, first, second = (each.data_ptr() for each in arrays)
        tensor = abi.Tensor(p=master, g=gradient, state=(first, second), elements=begins[-1], grad_type=abi.F32,
                            format=STATE_FORMATS[shape.state_format])
        ranges = [abi.Range(0, begin, shape.first_element + part.begin) for begin, part in zip(begins, parts)]
        count = ctypes.c_float()
        local_calls.engine().step(array("Q", bytes(tensor)), [scalars], array("Q", [ctypes.addressof(count)]),
                                  begins[-1], torch.get_num_threads(), array("Q", b"".join(map(bytes, ranges))))
        result = arrays[0].to(_result_of(slot).dtype)
        return [(part, result[begin:begin + part.elements]) for begin, part in zip(begins, parts)]


def refusal(zero: Any) -> str:
    """Returns why the step of an optimizer of stage 3 cannot run beside the next forward; "" if it can."""
    from deepspeed.runtime.zero.partition_parameters import Init

    missing = [name for owner, names in ((zero, NEEDED), (Init, (AVAILABLE,)), (_coordinator_of(zero), (_BUCKET,)))
               for name in names if not hasattr(owner, name)]
    if missing:
        return f"this DeepSpeed has no {missing[0]} where it is expected"
    return "ZeRO-3's weights are on NVMe" if any(flat is None for flat in zero.fp16_partitioned_groups_flat) else ""


def make_exact(zero: Any, arena: FlatArena, unclipped: Callable[[int], float]) -> None:
    """Lets ZeRO's step() end when all is handed over, and each gather wait for what it reads."""
    slots = [arena.slot_of(partition) for partition in zero.fp32_partitioned_groups_flat]
    parts = {slot.index: _parts_of(zero, sub_group, slot) for sub_group, slot in enumerate(slots) if slot is not None}
    unpublished = Unpublished(arena, itertools.chain(*parts.values()), zero.fp16_partitioned_groups_flat)
    persistent = Persistent(parts, zero.persistent_parameters, arena.runtime.groups)
    arena.publish = unpublished.publish_all
    arena.at_end = unpublished.forget

    def hand_over() -> None:
        noted = arena.noted()
        if not noted:
            return
        speculation = arena.speculation
        ahead = persistent.results(noted, lambda group: speculation is not None and speculation.has(group))
        try:
            unpublished.set(part for slot, _ in noted for part in parts[slot.index])
            arena.hand_over(lambda slot: slot.index)
        except BaseException:
            if not arena.handed_over():
                unpublished.set([])
            raise
        with torch.no_grad():
            for part, result in ahead:
                unpublished.give(part, result)

    reassign_later(zero, arena)
    wrap(zero, ("_post_step",), hand_over)  # it gathers the persistent parameters
    wrap(zero, _OTHERS, unpublished.bring_home)
    wrap(zero, ("destroy",), functools.partial(unpublished.leave, follower.END_WAITS))
    if arena.speculation is not None:
        _begin_in_backward(zero, arena, parts, persistent, unclipped)
    wrap(zero, ("partition_grads", "_offload_grad_partition_at_boundary"), arena.finish)
    hooks = hooks_of(zero.optimizer)
    make_beside(zero, arena, lambda: not any(hooks) and _reads_are_seen(zero), hand_over)
    _cut_prefetch(zero)


def _begin_in_backward(zero: Any, arena: FlatArena, parts: dict[int, list[Part]], persistent: Persistent,
                       unclipped: Callable[[int], float]) -> None:
    """Lets steps begin when ZeRO has put gradients into the arena."""
    of = {part.param.ds_id: part for each in parts.values() for part in each}
    spans = {number: Span(number, part.slot.index, part.begin, part.end) for number, part in of.items()
             if has_part(zero, part.param)}
    assert arena.speculation is not None
    arena.speculation.expect(spans.values())

    def expected() -> Iterator[tuple[int, Scalars]]:
        stepped = [(number, partition, slot) for number, partition in enumerate(zero.fp32_partitioned_groups_flat)
                   if (slot := arena.slot_of(partition)) is not None]  # with a `ratio`, some are stepped on the GPU
        steps = ((partition, zero.optimizer.param_groups[zero.sub_group_to_group_id[number]])
                 for number, partition, _ in stepped)
        for (number, _, slot), call in zip(stepped, calls_of_next(zero.optimizer, steps)):
            yield slot.index, call.scaled(unclipped(number))

    begin_behind(zero, arena, "_offload_grad_partition_at_boundary", lambda param: spans.get(param.ds_id), expected,
                 lambda span: persistent.keep(of[span.param].slot))


def _reads_are_seen(zero: Any) -> bool:
    """Returns whether all gathers are DeepSpeed's in Python. DeepCompile takes its hooks away."""
    if getattr(zero, "_grad_acc_hooks", True) or getattr(zero, "_leaf_module_hooks", True):
        return True
    say_once("the model is compiled by DeepCompile, which reads weights unseen: training waits for each step")
    return False


def _result_of(slot: Slot) -> torch.Tensor:
    return slot.master if slot.result is None else slot.result


def _elements(parts: dict[int, list[Part]]) -> int:
    return sum(part.elements for each in parts.values() for part in each)


def _coordinator_of(zero: Any) -> Any:
    return zero.parameter_offload.get_param_coordinator()


def _parts_of(zero: Any, sub_group: int, slot: Slot) -> list[Part]:
    parts, begin, result = [], 0, slot.result
    persistent = {id(param) for param in zero.persistent_parameters}  # the program writes those when it likes
    for param, partition in zip(zero.fp16_groups[sub_group], zero.fp16_partitioned_groups[sub_group]):
        may_share = (result is not None and id(param) not in persistent
                     and (partition.dtype, partition.device) == (result.dtype, result.device)
                     and not torch.cuda.is_initialized())  # a transfer may read it in the next step: not tried
        parts.append(Part(param, slot, sub_group, begin, begin + partition.ds_numel, may_share))
        begin += partition.ds_numel
    return parts


def gathering(function: Function) -> Function:
    """Returns what each gather calls with its parameters, which publishes first what the gather reads."""
    return _publishing(function, lambda params: params)


def taking_over(function: Function) -> Function:
    """Returns what a new engine calls with its param_groups, which publishes them first: they may be of another one."""
    return _publishing(function, lambda groups: (param for group in groups for param in group["params"]))


def is_open() -> bool:
    """Returns whether any engine of this process needs the two above."""
    return bool(_open)


def _publishing(function: Function, params_of: Callable[[Any], Iterable[torch.nn.Parameter]]) -> Function:
    @functools.wraps(function)
    def publish_first(self: Any, given: Any) -> Any:
        params = list(params_of(given))
        for unpublished in {param.zf_unpublished for param in params if hasattr(param, "zf_unpublished")}:
            unpublished.publish(params)
        return function(self, given)

    return publish_first


def _cut_prefetch(zero: Any) -> None:
    """Makes gathers ahead small from a step to the backward after it. All ranks do the same: neither time decides, nor
    whether the step of a rank runs beside."""
    coordinator = _coordinator_of(zero)
    whole = getattr(coordinator, _BUCKET)
    elements = sum(param.ds_numel for group in zero.fp16_groups for param in group)

    @replace(coordinator, "fetch_sub_module")
    def fetch_sub_module(fetch: Function, module: Any, forward: bool) -> None:
        if not forward:
            setattr(coordinator, _BUCKET, whole)
        fetch(module, forward)

    def cut() -> None:
        setattr(coordinator, _BUCKET, min(whole, elements // PREFETCHES))

    wrap(zero, ("_post_step",), lambda: None, cut)
