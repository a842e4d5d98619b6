"""Finds out which modules read which parameters, and in what order, and waits before the forward of each module.

It looks at the calls of all modules, by one hook for all, which is there before the first step, while a step is under
way, and while gradients are copied. Nothing is put on a module: copies, pickles and scripts of it have nothing of
ours."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from ...errors import ZfError
from . import graphs, shards
from .ddp_hook import is_ddp

#: In evaluation their forward asks whether a TorchFunctionMode is active, and then computes other bits.
_ASKING = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer)


class Waiting(Protocol):
    """What waits for the steps of an optimizer."""

    def wait_for_all(self) -> None:
        """Waits for the whole step."""

    def before_forward(self, module: torch.nn.Module, params: Sequence[int]) -> None:
        """Waits before a module is called. params: the ids of those it was seen to read."""

    def listen_to(self, module: torch.nn.Module) -> None:
        """Is called once for each DistributedDataParallel."""


class SavingGate:
    """A hook in front of a module's state_dict(). Copies and pickles of it do nothing."""

    def __init__(self, engine: Waiting):
        self._engine = weakref.ref(engine)
        self._owner = os.getpid()

    @torch._disable_dynamo
    def __call__(self, *_: object) -> None:
        engine = self._engine()
        if engine is not None and self._owner == os.getpid():
            engine.wait_for_all()

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial, (slice,)  # it takes three arguments, as a hook does, and nothing else of ours


class Order:
    """Which parameters of an optimizer modules have read, as far as forward has shown it."""

    def __init__(self, engine: Waiting, instead: str, *, saves_late: bool = False):
        """instead: what a program should do that reads parameters unseen. saves_late: in mode late state_dict() of
        modules waits, so that what is saved is of one step."""
        self._engine = weakref.ref(engine)
        self._instead = instead
        self._saves_late = saves_late
        self._saving: dict[int, Any] = {}  # hooks, by the id of their module
        self._wanted: dict[int, torch.Tensor] = {}  # by id
        self._seen_ddp: set[int] = set()  # by id
        self._handle: Any = None
        self._lock = threading.RLock()
        self.read: dict[int, torch.Tensor] = {}  # parameters that were seen, in order, by id
        self._names: dict[int, str] = {}

    def want(self, params: Iterable[torch.Tensor]) -> None:
        """Sets the parameters to look for."""
        self._wanted = {id(param): param for param in params}

    def watch(self, *, is_told: bool) -> None:
        """Looks at the calls of all modules from now on. is_told: when torch.compile begins, rest() is called before it
        finds the hook."""
        if self._handle is not None:
            return
        order, owner = weakref.ref(self), os.getpid()

        def before(module: torch.nn.Module, _: object) -> None:
            alive = order()
            if alive is not None and owner == os.getpid():
                alive._before(module)

        if not is_told:
            before = torch._disable_dynamo(before)  # it costs 2 us a module
        with self._lock:  # autograd has threads
            if self._handle is None:
                self._handle = register_module_forward_pre_hook(before)

    def rest(self) -> None:
        """Looks at nothing from now on."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()

    def refuse_unseen(self, params: Iterable[torch.Tensor], since: int, roots: Any) -> None:
        """Raises ZfError if what was built since a step has read one of these parameters, for which nothing has waited.
        roots: of the graph. since: see graphs.read_since()."""
        unseen = list(params)
        read = graphs.read_since(since, roots) if unseen else set()
        for param in unseen:
            if id(param) in read:
                raise self.was_read_unseen(param)

    def was_read_unseen(self, param: torch.Tensor) -> ZfError:
        """Returns what is raised where a parameter gets a gradient of a forward that has not waited for it."""
        name = self._names.get(id(param), "a parameter")
        return ZfError(f"{name} of shape {tuple(param.shape)} got a gradient of a forward that had not waited for its "
                       f"last step: it was read unseen, such as in a C++ extension. {self._instead}")

    def close(self) -> None:
        """Leaves nothing on modules."""
        self.rest()
        for handle in self._saving.values():
            handle.remove()
        self._saving.clear()

    def _before(self, module: torch.nn.Module) -> None:
        engine = self._engine()
        if engine is None:
            return
        is_scripted, averages, gathers, _ = _kind(type(module))  # type: ignore[arg-type]  # mypy: a type has no hash
        named: Iterable[tuple[str, torch.Tensor | None]] = () if is_scripted else module._parameters.items()
        own = []
        for name, param in named if not gathers else (*shards.gathered_by(module), *named):
            key = id(param)
            if key in self._wanted:
                own.append(key)
                if key not in self.read:
                    self.read[key] = self._wanted[key]
                    self._names[key] = f"{name} of {type(module).__name__}"
        if averages and id(module) not in self._seen_ddp:
            self._seen_ddp.add(id(module))
            engine.listen_to(module)
        if self._saves_late:
            self._gate_saving(engine, module)
        engine.before_forward(module, own)

    def _gate_saving(self, engine: Waiting, module: torch.nn.Module) -> None:
        for each in module.modules() if id(module) not in self._saving else ():
            if id(each) not in self._saving and any(id(param) in self._wanted for param in each.parameters()):
                try:
                    self._saving[id(each)] = each.register_state_dict_pre_hook(SavingGate(engine))
                except RuntimeError:
                    raise ZfError(f"overlap=\"late\" with a {type(each).__name__}: its state_dict() cannot wait for "
                                  "the step. Use overlap=\"exact\"") from None
        if self.read.keys() >= self._wanted.keys():
            self.rest()


@functools.lru_cache(256)  # to ask at each call would cost 1 us; it lets go of types where a program makes many
def _kind(module: type) -> tuple[bool, bool, bool, bool]:
    """Returns whether modules of a type are scripted, are a DistributedDataParallel, gather shards, and ask: see
    _ASKING."""
    return (issubclass(module, torch.jit.ScriptModule), is_ddp(module), shards.gathers(module),
            issubclass(module, _ASKING))


def is_closed_to_us(module: torch.nn.Module) -> bool:
    """Returns whether a module's forward may read parameters unseen that are not its own, or must not
    find a TorchFunctionMode: it would show in a trace."""
    is_scripted, _, _, asks = _kind(type(module))  # type: ignore[arg-type]
    return (is_scripted or (asks and not module.training)
            or torch._C._get_tracing_state() is not None or "_orig_mod" in module._modules
            or getattr(module, "_compiled_call_impl", None) is not None)
