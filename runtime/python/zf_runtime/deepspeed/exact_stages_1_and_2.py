"""Lets the next forward begin while the optimizer process still steps, in stages 1 and 2: the same bits.

ZeRO's step() ends without new weights. A thread (publisher.py) gives them to the model, piece by piece in the order of
the flat partitions, which is that of the model's parameters. Each use of a parameter waits for the parameter's last
piece. The next backward waits for the whole step, since it writes the gradients that the step reads."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import torch

from ..native.scalars import Scalars
from ..optim.overlap import compiled
from ..optim.overlap.gates import Order
from ..optim.overlap.ranks import timeout_of_program
from ..optim.overlap.reads import Reads, are_seen
from ..optim.tensors.streams import REACHED, device_of
from .arena import FlatArena
from .beside import hooks_of, make_beside
from .messages import say_once
from .publisher import Piece, Publication, Publisher
from .ranges import Ranges, Weight
from .replacing import Function, replace
from .speculation import Span, Speculation, begin_behind, calls_of_next

_PLACE = "copy_grads_in_partition", "async_inplace_copy_grad_to_fp32_buffer_from_gpu"
SPECULATION_NEEDS = (*_PLACE, "is_gradient_accumulation_boundary", "grad_position", "params_in_partition")
_GATHER = "all_gather_dp_groups"
_NEEDED = ("bit16_groups", "bit16_groups_flat", "parallel_partitioned_bit16_groups", "real_dp_process_group",
           "process_gradients")
_WHOLE_MEMORY = {torch.Tensor.untyped_storage, torch.Tensor.storage, torch.Tensor.as_strided, torch.as_strided}


def refusal(zero: Any) -> str:
    """Returns why the step of a ZeRO optimizer of stage 1 or 2 cannot run beside the next forward; "" if it can. All
    ranks answer the same."""
    missing = [name for name in _NEEDED if not hasattr(zero, name)]
    if missing or _GATHER not in type(zero).step.__globals__:
        return f"{type(zero).__name__} has no {(missing or [_GATHER])[0]}"
    if getattr(zero, "has_moe_layers", False):
        return "ranks share the experts of this model in groups of their own"
    ranks = torch.distributed.get_world_size(zero.dp_process_group)
    if ranks == 1:
        return ""
    if ranks != torch.distributed.get_world_size():
        return f"{ranks} of {torch.distributed.get_world_size()} ranks share a partition"
    if zero.bit16_groups_flat[0].device.type != "cpu":
        return "there are several ranks with a GPU, and gathers beside those of forward were not run there"
    return ""


def make_exact(zero: Any, arena: FlatArena, unclipped: Callable[[int], float]) -> None:
    """Lets the step run beside the next forward. All ranks call this."""
    forward = NextForward(zero, arena)
    if arena.speculation is not None:
        _begin_in_backward(zero, arena, arena.speculation, unclipped, forward)

    @replace(zero, "step")
    def step_without_gather(step: Function, *args: Any, **keywords: Any) -> Any:
        with _without_gather(zero) if arena.is_open else contextlib.nullcontext():
            return step(*args, **keywords)

    @replace(zero, "process_gradients")
    def process_gradients(process: Function, param: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        forward.gradient_comes(param)
        return process(param, *args, **keywords)

    make_beside(zero, arena, forward.hides, functools.partial(forward.hand_over, weakref.ref(zero)))
    zero.step = forward.looking_away(zero.step)


def _begin_in_backward(zero: Any, arena: FlatArena, speculation: Speculation,
                       unclipped: Callable[[int], float], forward: NextForward) -> None:
    """Lets steps begin when ZeRO has put gradients into the arena."""
    partitions, spans, slots = zero.single_partition_of_fp32_groups, {}, {}
    for group, partition in enumerate(partitions):
        slot = arena.slot_of(partition)
        if slot is None:
            continue
        slots[group] = slot
        for number in map(zero.get_param_id, zero.params_in_partition[group]):
            begin, elements = zero.grad_position[number][-2:]
            spans[number] = Span(number, slot.index, begin, begin + elements)
    speculation.expect(spans.values())

    def expected() -> Iterator[tuple[int, Scalars]]:
        calls = calls_of_next(zero.optimizer, zip(partitions, zero.optimizer.param_groups))
        for group, call in enumerate(calls):
            if group in slots:
                yield slots[group].index, call.scaled(unclipped(group))

    def span_of(param: torch.Tensor) -> Span | None:
        return spans.get(zero.get_param_id(param)) if zero.is_gradient_accumulation_boundary() else None

    for name in _PLACE:  # the first calls the second, but not always; and it is called alone
        setattr(zero, name, forward.looking_away(getattr(zero, name)))
        begin_behind(zero, arena, name, span_of, expected, lambda _: forward.guard_state(speculation))


@contextlib.contextmanager
def _without_gather(zero: Any) -> Iterator[None]:
    """Lets ZeRO's step() gather nothing: that is done beside."""
    names = type(zero).step.__globals__
    gather, names[_GATHER] = names[_GATHER], lambda *_, **__: None
    try:
        yield
    finally:
        names[_GATHER] = gather


class _Reads(Reads[Weight]):
    """All parameters of a group share memory."""

    def _look_at_call(self, func: Any, args: Any, kwargs: Any) -> None:
        if func in _WHOLE_MEMORY and self._memory.of(args[0]):
            self._wait_for_all()
        super()._look_at_call(func, args, kwargs)


class NextForward:
    """Waits for the parameters of a step that runs beside training, where they are used."""

    def __init__(self, zero: Any, arena: FlatArena):
        group = None
        if torch.distributed.get_world_size(zero.dp_process_group) > 1:
            group = torch.distributed.new_group(backend=torch.distributed.get_backend(zero.dp_process_group),
                                                timeout=timeout_of_program())
        self._arena = arena
        self._device = device_of(zero.bit16_groups_flat[0].device)
        self._publisher = Publisher(arena, self._device.sender(), group)
        self._thread = threading.get_ident()
        self._hooks = hooks_of(zero.optimizer)
        self._turn: Publication | None = None  # until no parameter needs a wait
        self._weights: list[Weight] = []
        self._addresses: list[int] = []  # of all partitions, when that list was made
        self._pieces: list[Piece] = []
        self._unseen: dict[int, Weight] = {}  # by the id of a parameter: no use has waited for it
        self._reads = _Reads(self, self._ranges)
        self._order = Order(self, "Call engine.optimizer.state_dict() before such a forward, or use mode \"wait\"")
        compiled.tell(self)
        # The thread has the arena in a turn. Parameters, which this object has, hold their ZeRO optimizer.
        publish, end, stay = (weakref.WeakMethod(method) for method in (self._publish, self._end, self._stay))
        arena.publish = lambda: _called(publish)
        arena.at_end = lambda: _called(end)
        arena.may_begin = lambda may: _called(stay, may)
        arena.follower = self._publisher

    # ---- a step that is begun in backward ----

    def _stay(self, may_begin: bool) -> None:
        self._reads.stay(may_begin)
        if may_begin:
            self._order.watch(is_told=True)  # some modules must not find our mode

    def guard_state(self, speculation: Speculation) -> None:
        """Is called before a step is begun in backward. The first use of the state from outside takes back."""
        arena = self._arena
        if not self._reads.stays:
            speculation.stop()  # it would not be seen
        state = [Weight(slot.param, -1, 0, 0) for slot in arena.slots]
        self._reads.guard(Ranges(state, _state_of(arena)), state)

    def looking_away(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Lets a function of ZeRO's own use the state."""

        @functools.wraps(function)
        def unguarded(*args: Any, **keywords: Any) -> Any:
            with self._reads.looking_away():
                return function(*args, **keywords)

        return unguarded

    # ---- a step ----

    def hides(self) -> bool:
        """Returns whether a step may go on when step() returns: what other threads read is not seen, nor what is
        compiled, and hooks of the optimizer's step may read what they like."""
        if not are_seen(self._thread) or any(self._hooks):
            return False
        if compiled.has_compiled():
            say_once("mode \"exact\" with torch.compile: what it has compiled reads unseen, so each step is waited for")
            return False
        return True

    def hand_over(self, its: Any) -> None:
        """Hands over what ZeRO's step has noted, and lets it be published."""
        arena, zero = self._arena, its()
        if not arena.is_open or not (arena.has_noted or arena.handed_over()):
            return  # ZeRO has skipped it
        self._look_where_all_lies(zero)
        try:
            self._begin(Publication(self._pieces, self._device.current().record()))
        except BaseException:
            if not arena.handed_over():  # there is nothing to wait for
                self._turn = None
                self._rest()
            raise
        if len(self._unseen) < len(self._weights):  # a signal handler has used some in the meantime
            self._begin_waiting()
        if not self.hides():
            arena.wait()

    def _begin(self, turn: Publication) -> None:
        self._turn = turn
        self._begin_waiting()  # first, so that an interrupt leaves no step that is not waited for
        self._order.want(weight.param for weight in self._weights)
        self._order.watch(is_told=True)
        self._publisher.turn = turn
        self._arena.hand_over(_smallest_first)
        self._publisher.call()

    def _begin_waiting(self) -> None:
        self._unseen = {id(weight.param): weight for weight in self._weights}
        self._reads.begin(self._weights)

    def _look_where_all_lies(self, zero: Any) -> None:
        """Cuts the partitions into pieces, in the order in which they are stepped. Finds the last piece of each
        parameter."""
        addresses = [part.data_ptr() for parts in zero.parallel_partitioned_bit16_groups for part in parts]
        if addresses == self._addresses:
            return
        found = (self._arena.slot_of(partition) for partition in zero.single_partition_of_fp32_groups)
        groups = [(slot, group) for group, slot in enumerate(found) if slot is not None]
        groups.sort(key=lambda each: _smallest_first(each[0]))
        length = self._arena.piece_bytes // zero.bit16_groups_flat[0].element_size()
        self._pieces, self._weights, self._addresses = [], [], addresses
        for slot, group in groups:
            flat, targets = zero.bit16_groups_flat[group], zero.parallel_partitioned_bit16_groups[group]
            first, elements, size = len(self._pieces), slot.param.numel(), flat.element_size()
            rank = torch.distributed.get_rank(zero.real_dp_process_group[group])
            self._pieces += [Piece(slot, begin, min(begin + length, elements), targets, rank)
                             for begin in range(0, elements, length)]
            for param in zero.bit16_groups[group]:
                begin = (param.data_ptr() - flat.data_ptr()) // size
                last = _last_in_a_partition(begin, begin + param.numel(), elements)
                self._weights.append(Weight(param, first + last // length, param.data_ptr(),
                                            param.data_ptr() + param.numel() * size))

    def _ranges(self, weights: Sequence[Weight]) -> Ranges:
        return Ranges(weights, _state_of(self._arena) if weights else [])

    # ---- who waits ----

    def wait_for(self, weights: Sequence[Weight]) -> list[Weight] | None:
        """Waits for parameters. Returns those that need no wait any more, on any stream; None: all."""
        turn, done = self._turn, []
        if self._is_begun:
            self._arena.wait()
        if turn is None:
            return None
        for weight in weights:
            event = self._publisher.wait_for(turn, weight.piece)
            if event is not REACHED:
                self._device.current().wait(event)
            self._unseen.pop(id(weight.param), None)
            if event.is_done():
                done.append(weight)
        return done

    def is_done(self, weight: Weight) -> bool:
        """Returns whether a parameter needs no wait any more, on any stream."""
        turn = self._turn
        if turn is None or self._is_begun:
            return not self._is_begun
        return turn.published[weight.piece].is_set and turn.events[weight.piece].is_done()

    @property
    def _is_begun(self) -> bool:
        return self._arena.speculation is not None and self._arena.speculation.is_begun

    def wait_for_all(self) -> None:
        """Waits for the whole step."""
        self._arena.wait()

    def backward_begins(self, roots: Any) -> None:
        """Waits for the whole step. Raises ZfError if what was built since then has read a parameter unseen."""
        turn = self._turn
        if turn is not None:
            self._order.refuse_unseen([weight.param for weight in self._unseen.values()], turn.first_node, roots)
        self._arena.finish()

    def gradient_comes(self, param: torch.Tensor) -> None:
        """Is called before ZeRO takes a gradient. Raises ZfError if its backward began unseen."""
        if id(param) in self._unseen:
            raise self._order.was_read_unseen(param)
        self._arena.finish()

    def before_forward(self, module: torch.nn.Module, params: Sequence[int]) -> None:
        """Waits for the parameters of a module that is called, or for all if what its forward reads is not seen."""
        if self._reads.is_waiting or self._reads.stays:
            self._reads.before_forward(module, params)
        if not self._reads.is_waiting:
            self._rest()

    def listen_to(self, module: torch.nn.Module) -> None:
        """Is called for a DistributedDataParallel, which no engine of ZeRO has."""

    def compiles(self) -> None:
        """Is called before torch.compile compiles something: it must not find our mode, nor our hook."""
        self._arena.wait()
        self._reads.end()
        self._order.rest()

    def _publish(self) -> None:
        """Waits until the whole step is on its way to the model."""
        turn = self._turn
        if turn is None:
            return
        self._publisher.finish(turn)
        if turn.events and turn.events[-1] is not REACHED:
            self._device.current().wait(turn.events[-1])
        self._unseen = {}
        self._rest()

    def _rest(self) -> None:
        """Leaves the stack of modes, and looks at no module, where nothing has to be waited for any more."""
        self._reads.look_again()
        if not self._reads.is_waiting:
            self._turn = None
        if self._turn is None:
            self._unseen = {}
        if self._reads.leave():  # else the next module's call takes it out of the stack
            self._order.rest()

    def _end(self) -> None:
        self._publisher.end()
        self._reads.end()
        self._order.close()
        self._turn, self._weights, self._pieces, self._addresses, self._unseen = None, [], [], [], {}


def _called(method: weakref.WeakMethod[Any], *args: Any) -> None:
    alive = method()
    if alive is not None:
        alive(*args)


def _state_of(arena: FlatArena) -> list[torch.Tensor]:
    return [each for slot in arena.slots for each in (*slot.transferred, *slot.moments)]


def _smallest_first(slot: Any) -> tuple[int, int]:
    """Returns what orders the groups of a step: norms and biases, which forward reads everywhere, are a small group."""
    return slot.param.numel(), slot.index


def _last_in_a_partition(begin: int, end: int, elements: int) -> int:
    """Returns the highest place that elements begin to end of a group have in a partition of one of the ranks."""
    return elements - 1 if begin // elements != (end - 1) // elements else (end - 1) % elements
