"""Sees each use of a parameter from Python while a step is under way, so that it waits.

A TorchFunctionMode of the thread that called step() sees all calls of torch's Python functions and all accesses to a
tensor's attributes. Modes form a stack, and users leave theirs in any order: ours lies at the bottom, and is taken out
by identity, wherever it lies. Inside its own handler it is off the stack, and torch puts it back afterwards, as
autograd does with what lay there before a backward. Other threads cannot reach it. Then it leaves later, when the
thread that it lies in calls a module or step().

docs/torch.md lists what is not seen."""

from __future__ import annotations

import bisect
import collections
import contextlib
import functools
import operator
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, Callable, Generic, Protocol, TypeVar

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from ..tensors.eligibility import is_sharded, local_of
from .arena import Place
from .gates import is_closed_to_us

_T = torch.Tensor
#: What reads no values does not wait. `is_complex` and the like do: torch.distributed calls nothing else of a tensor.
WITHOUT_VALUES = {
    _T.requires_grad_, _T.size, _T.stride, _T.numel, _T.dim, _T.is_contiguous, _T.__len__, _T.register_hook,
    _T.register_post_accumulate_grad_hook, torch.empty_like, torch.zeros_like, torch.ones_like,
    torch.rand_like, torch.randn_like, torch.empty_strided, _T.new_empty, _T.new_zeros, _T.new_ones,
    _T.new_empty_strided,
    _T.element_size, _T.get_device, _T.storage_offset,
    _T.grad.__set__, _T.grad.__delete__, _T.requires_grad.__set__,
    *(getattr(_T, name).__get__ for name in ("shape", "dtype", "device", "grad", "is_leaf", "requires_grad",
                                             "_version", "ndim", "layout", "grad_fn", "nbytes", "itemsize", "is_sparse",
                                             "is_cuda", "is_meta", "retains_grad"))}
#: They read no values of their first argument.
FILLING = {torch.full_like, _T.new_full, torch.randint_like}
#: There nothing is seen, and any parameter may be read.
_BACKWARD = {_T.backward, torch.autograd.backward, torch.autograd.grad}
_OF_TORCH = {torch.Tensor.__torch_function__.__func__, torch.nn.Parameter.__torch_function__}
_OPERATIONS = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)
_READING_ARGUMENTS = ("aten.", "prims.", "profiler.", "fsdp.")  # operations that read nothing else
# ReduceOp.SUM is callable, and a call of it runs no code of the program. torch may be built without it.
_REDUCTION: Any = getattr(getattr(torch.distributed, "ReduceOp", None), "RedOpType", ())
_PARAMETER = torch.nn.Parameter
_autograd = torch._C._autograd
_CALL = operator.methodcaller("__call__")


class Placed(Protocol):
    """A parameter, and where it is stepped."""

    @property
    def param(self) -> torch.Tensor: ...


P = TypeVar("P", bound=Placed)
P_co = TypeVar("P_co", bound=Placed, covariant=True)


class Found(Protocol[P_co]):
    """Knows where places lie, as Memory does."""

    def of(self, tensor: torch.Tensor) -> Sequence[P_co]:
        """Returns the places that a tensor shows."""


class Waiter(Protocol[P]):
    """What waits for the steps of an optimizer."""

    def wait_for(self, places: Sequence[P]) -> Iterable[P] | None:
        """Waits for these. Returns those that need no wait any more; None: all."""

    def is_done(self, place: P) -> bool:
        """Returns whether a place needs no wait any more."""

    def wait_for_all(self) -> None:
        """Waits for the whole step."""

    def backward_begins(self, roots: Any) -> None:
        """Waits for the whole step, before a backward of these roots."""


class Reads(TorchFunctionMode, Generic[P]):
    """The parameters and moments of one optimizer that a step under way writes."""

    def __init__(self, waiter: Waiter[P], memory: Callable[[Sequence[P]], Found[P]]):
        """memory: makes what Memory is for places."""
        super().__init__()
        self._memory_of = memory
        self._waiter = weakref.ref(waiter)
        self._owner = 0  # the process that has begun
        self._threads: set[int] = set()  # in which it may lie on the stack
        self._memory = self._memory_of(())
        self._left: dict[int, P] = {}  # by the id of their parameter
        self._stepped: set[int] = set()  # the ids of all, as long as one is left
        self._guards = False  # moments and masters alone: parameters are old until step()
        self.stays = False  # on the stack

    @property
    def is_waiting(self) -> bool:
        """Whether a use of a parameter may have to wait."""
        return bool(self._left) and not self._guards

    @property
    def is_of_this_thread(self) -> bool:
        """Whether it sees what the calling thread reads."""
        return threading.get_ident() in self._threads

    def begin(self, places: Sequence[P]) -> None:
        """Is called before a step of these places is handed over."""
        self._memory, self._left = self._memory_of(places), {id(place.param): place for place in places}
        self._stepped, self._guards = set(self._left), False
        self._enter()

    def _enter(self) -> None:
        self._owner = os.getpid()
        self._threads.add(threading.get_ident())
        if not _is_on_the_stack(self):
            _put_lowest(self)

    def stay(self, stays: bool) -> None:
        """Says whether a step may begin in the next backward: then this lies on the stack until the next step."""
        self.stays = stays
        if stays:
            self._enter()

    def guard(self, memory: Found[P], places: Sequence[P]) -> None:
        """Is called in backward, when steps of these places may begin before step(). memory: what such a step
        writes."""
        if not (self._guards and self._left):
            self._memory, self._left = memory, {id(place.param): place for place in places}
            self._stepped, self._guards = set(), True

    def unseen(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which nothing waits where guard() was called."""
        return torch._C.DisableTorchFunction() if self._guards else contextlib.nullcontext()

    @contextlib.contextmanager
    def looking_away(self) -> Iterator[None]:
        """Returns a context in which nothing waits, either. All other modes and subclasses stay active in it."""
        left = self._left if self._guards else {}
        if left:
            self._left = {}
        try:
            yield
        finally:
            if self._guards and not self._left:  # else what begins meanwhile is guarded already, or a step is under way
                self._left = left

    def end(self) -> None:
        """Is called when no parameter needs a wait any more."""
        self._memory, self._left, self.stays = self._memory_of(()), {}, False
        if not self.leave():
            self._leave_later()

    def look_again(self) -> None:
        """Is called when the whole step was waited for: on a device, another stream may still have to."""
        waiter = self._waiter()
        for key, place in list(self._left.items()):  # another thread may wait, too
            if waiter is None or waiter.is_done(place):
                self._left.pop(key, None)
        self.leave()

    def leave(self) -> bool:
        """Leaves the stack, if nothing is left to be waited for and it is there. Returns whether it is on none, and
        it is not put back."""
        if self._left or self.stays:
            return False
        if _is_on_the_stack(self):
            _take_out(lambda mode: mode is self)
        if self.is_of_this_thread and torch._C._current_graph_task_id() == -1 and not self._is_inside():
            self._threads.discard(threading.get_ident())
        if self._threads:
            self._threads &= sys._current_frames().keys()  # those that live
        return not self._threads

    def _leave_later(self) -> None:
        """Leaves when the thread that it lies in calls a module."""

        @torch._disable_dynamo
        def before(*_: object) -> None:
            if self.leave():
                handle.remove()

        handle = register_module_forward_pre_hook(before)

    def wait_for(self, params: Iterable[int]) -> None:
        """Waits for those of these parameters, by their ids, that a step under way writes."""
        waiter, left = self._waiter(), self._left
        some = [left[key] for key in params if key in left]
        if some and waiter is not None:
            done = waiter.wait_for(some)
            if done is None:
                self._left = {}
            for place in done or ():
                left.pop(id(place.param), None)

    def before_forward(self, module: torch.nn.Module, params: Sequence[int]) -> None:
        """Waits for the parameters of a module that is called, by their ids, or for all if what its forward reads is
        not seen."""
        if not self.is_of_this_thread or is_closed_to_us(module):
            self.stays = False
            self._wait_for_all()
        elif params and self.is_waiting:
            self.wait_for(params)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._left and self._owner == os.getpid():
            if _runs_other_code(func, types):
                self._wait_for_all()
            elif func not in WITHOUT_VALUES:
                self._look_at_call(func, args, kwargs)
        return func(*args, **(kwargs or {}))

    def _is_inside(self) -> bool:
        """Returns whether this thread is in __torch_function__()."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and (frame.f_code is not _HANDLER or frame.f_locals["self"] is not self):
            frame = frame.f_back
        return frame is not None

    def _look_at_call(self, func: Any, args: Any, kwargs: Any) -> None:
        if func in _BACKWARD:
            self._backward_begins(args[0] if args else (kwargs or {}).get("tensors", (kwargs or {}).get("outputs")))
        else:
            self._look(args[1:] if func in FILLING else args)
            if kwargs:
                self._look(kwargs.values())

    def _look(self, values: Iterable[object]) -> None:
        for value in values:
            kind = type(value)
            if kind is _PARAMETER and id(value) in self._stepped:
                self.wait_for([id(value)])
            elif kind is _T or kind is _PARAMETER:
                try:
                    found = self._memory.of(value)
                except RuntimeError:  # sparse, or wrapped by vmap() or grad()
                    self._wait_for_all()
                    continue
                if found:
                    self.wait_for([id(place.param) for place in found])
            elif isinstance(value, (list, tuple)):
                self._look(value)
            elif isinstance(value, dict):
                self._look(value.values())
            elif is_sharded(value):
                self._look([local_of(value)])
            elif isinstance(value, torch.Tensor):
                self._look_at_subclass(value)
            elif callable(value) and not isinstance(value, _REDUCTION):  # the call runs it unseen
                self._wait_for_all()

    def _look_at_subclass(self, value: torch.Tensor) -> None:
        if type(value).__torch_dispatch__ != torch.Tensor.__torch_dispatch__:
            self._wait_for_all()  # it may hold any
            return
        with torch._C.DisableTorchFunctionSubclass():
            self._look([value.as_subclass(torch.Tensor)])

    def _backward_begins(self, roots: Any) -> None:
        waiter = self._waiter()
        if waiter is not None:
            waiter.backward_begins(roots)

    def _wait_for_all(self) -> None:
        waiter = self._waiter()
        if waiter is not None:
            waiter.wait_for_all()


def are_seen(thread: int) -> bool:
    """Returns whether what follows a step is seen: in this thread, and outside a backward, since autograd puts the
    modes back that lay there before it."""
    return thread == threading.get_ident() and torch._C._current_graph_task_id() == -1


_HANDLER = Reads.__torch_function__.__code__


def _runs_other_code(func: Any, types: Sequence[Any]) -> bool:
    """Returns whether a call runs code of the program's own, in which nothing is seen."""
    if types and any(getattr(kind.__torch_function__, "__func__", kind.__torch_function__) not in _OF_TORCH
                     for kind in types):
        return True
    if torch._C._len_torch_dispatch_stack() or ((hooks := _saving_hooks(True)) and not _is_of_torch(hooks[0])):
        return True
    return isinstance(func, _OPERATIONS) and not str(func).startswith(_READING_ARGUMENTS)


def _some_hooks(_: bool) -> tuple[None] | None:
    """Tells of hooks for saved tensors in torch 2.4, where they do not show, but cannot be disabled."""
    if _autograd._saved_tensors_hooks_is_enabled():
        try:
            _autograd._saved_tensors_hooks_disable("")
        except RuntimeError:
            return (None,)
        finally:
            _autograd._saved_tensors_hooks_enable()
    return None


_saving_hooks = getattr(_autograd, "_top_saved_tensors_default_hooks", _some_hooks)


def _is_of_torch(hook: Any) -> bool:
    """Returns whether a hook for saved tensors is one of torch's own, as torch.utils.checkpoint has."""
    return str(getattr(hook, "__module__", "")).startswith("torch.")


class Memory:
    """Where the parameters and moments of places lie: whole storages, by their addresses. So a tensor over the same
    memory is found, also one that was made of an array, or by dlpack."""

    def __init__(self, places: Iterable[Place], *, has_params: bool = True):
        found = []
        for place in places:
            for tensor in (*((place.local,) if has_params else ()), *place.state_arrays):
                if tensor is not None:
                    storage = local_of(tensor).untyped_storage()
                    found.append((storage.data_ptr(), storage.nbytes(), place))
        self._begins, self._ends = [0], [0]
        self._places: list[list[Place]] = [[]]
        for begin, size, place in sorted(found, key=operator.itemgetter(0)):
            if begin < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], begin + size)
                self._places[-1].append(place)
            else:
                self._begins.append(begin)
                self._ends.append(begin + size)
                self._places.append([place])

    def of(self, tensor: torch.Tensor) -> list[Place]:
        """Returns the places of the storage that a tensor lies in."""
        address = tensor.data_ptr()
        number = bisect.bisect_right(self._begins, address) - 1
        return self._places[number] if address < self._ends[number] else []


def _stack() -> list[Any]:
    """Returns the modes of this thread, the lowest first."""
    return [torch._C._get_function_stack_at(at) for at in range(torch._C._len_torch_function_stack())]


def _is_on_the_stack(mode: Any) -> bool:
    return any(each is mode for each in _stack())


def _put_lowest(mode: Any) -> None:
    stack, at = _stack(), 0
    while at < len(stack) and _must_lie_lowest(stack[at]):
        at += 1
    _replace(stack, [*stack[:at], mode, *stack[at:]])


def _take_out(unwanted: Any) -> None:
    stack = _stack()
    _replace(stack, [each for each in stack if not unwanted(each)])


def _replace(stack: list[Any], by: list[Any]) -> None:
    """Replaces the modes of this thread in one call, which runs no Python code: Ctrl-C comes before or after it."""
    calls = [torch._C._pop_torch_function_stack for _ in stack]
    calls += [functools.partial(torch._C._push_on_torch_function_stack, mode) for mode in by]
    collections.deque(map(_CALL, calls), maxlen=0)


def _must_lie_lowest(mode: Any) -> bool:
    """Returns whether a mode is the device of torch.set_default_device(), which goes to the bottom of the stack, and
    insists on being there. `with torch.device()` leaves the highest mode, whatever it is; so does older torch."""
    return isinstance(mode, DeviceContext) and hasattr(mode, "old_device") and _device_lies_lowest()


@functools.cache
def _device_lies_lowest() -> bool:
    return "_pop_mode" in DeviceContext.__exit__.__code__.co_names if "__exit__" in vars(DeviceContext) else False


def _leave_in_child() -> None:
    _take_out(lambda mode: isinstance(mode, Reads))


os.register_at_fork(after_in_child=_leave_in_child)
