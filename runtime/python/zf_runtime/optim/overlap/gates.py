"""Finds out in the first forward which modules read which parameters, and in what order; then puts a gate in front of
each of these modules, where its parameters are waited for.

A parameter of a module that is not called, such as `out_proj.weight` of MultiheadAttention, is waited for at the first
gate of each forward; if no module above it is called either, in step(). What is on a module holds the optimizer weakly.
A copy of the module, also in another process, has no gates, and those of a forked child wait for nothing."""

from __future__ import annotations

import os
import threading
import types
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from .ddp_hook import is_ddp

Waiter = Any  # an optimizer with _wait_for(params), _wait_for_all() and _listen_to(ddp)


class Gate:
    """A hook in front of a module's forward, or of its state_dict()."""

    def __init__(self, waiter: Waiter = None, params: Sequence[torch.Tensor] | None = None):
        """params: what to wait for; None: everything."""
        self._waiter = None if waiter is None else weakref.ref(waiter)
        self._params = params
        self._owner = os.getpid()

    @torch._disable_dynamo
    def __call__(self, *_: Any) -> None:
        waiter = None if self._waiter is None else self._waiter()
        if waiter is not None and self._owner == os.getpid():
            if self._params is None:
                waiter._wait_for_all()
            else:
                waiter._wait_for(self._params)


_muted = threading.local()  # .on: the gates of methods are open for this thread
_READING = ("parameters", "named_parameters", "get_parameter", "load_state_dict", "_apply")


class Waiting:
    """Stands in for a method of one module, such as parameters(), and waits before it. zero_grad() does not read the
    parameters that it asks for, so it does not wait. __getstate__() gives copies and pickles of the module nothing of
    ours."""

    def __init__(self, module: torch.nn.Module, name: str):
        self._module, self.name = weakref.ref(module), name
        self.gates: list[Gate] = []  # one for each optimizer

    @property
    def __func__(self) -> Any:
        """The plain function, for torch.compile, which takes it for a bound method."""
        return getattr(type(self._module()), self.name)

    @torch._disable_dynamo
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        module, is_muted = self._module(), getattr(_muted, "on", False)
        if self.name == "__getstate__":
            self._wait()
            return _state_without_gates(module)
        plain = types.MethodType(getattr(type(module), self.name), module)
        if self.name in _READING:
            if not is_muted:
                self._wait()
            return plain(*args, **keywords)
        _muted.on = True
        try:
            return plain(*args, **keywords)
        finally:
            _muted.on = is_muted

    def _wait(self) -> None:
        for gate in list(self.gates):
            gate()


def _state_without_gates(module: Any) -> Any:
    """Returns what copy and pickle take of a module, as if it had no gates."""
    own = getattr(type(module), "__getstate__", None)  # object has one since Python 3.11
    state = vars(module) if own is None or own is getattr(object, "__getstate__", None) else own(module)
    if not isinstance(state, dict):
        return state
    state = {name: value for name, value in state.items() if not isinstance(value, Waiting)}
    for name in ("_forward_pre_hooks", "_state_dict_pre_hooks"):
        if name in state:
            state[name] = type(state[name])((key, hook) for key, hook in state[name].items()
                                            if not isinstance(hook, Gate))
    return state


class Gates:
    """The gates of one optimizer, and what removes them."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._shadowed: list[tuple[weakref.ref[torch.nn.Module], Gate]] = []

    def put(self, waiter: Waiter, module: torch.nn.Module, params: Sequence[torch.Tensor] | None) -> None:
        """Puts a gate in front of forward() of a module, and one in front of what reads its parameters otherwise."""
        self._handles.append(module.register_forward_pre_hook(Gate(waiter, params), prepend=True))
        self.put_on_reading(waiter, module)

    def put_on_reading(self, waiter: Waiter, module: torch.nn.Module) -> None:
        """Puts a gate in front of what reads the parameters of a module, but for its forward."""
        self._handles.append(module.register_state_dict_pre_hook(Gate(waiter)))
        self._shadow(module, (*_READING, "zero_grad", "__getstate__"), Gate(waiter))

    def put_on_saving(self, waiter: Waiter, module: torch.nn.Module) -> None:
        """Puts a gate in front of state_dict() of a module."""
        self._handles.append(module.register_state_dict_pre_hook(Gate(waiter)))
        self._shadow(module, ("__getstate__",), Gate())

    def _shadow(self, module: torch.nn.Module, names: Sequence[str], gate: Gate) -> None:
        self._shadowed.append((weakref.ref(module), gate))
        own = {name: Waiting(module, name) for name in names if name not in module.__dict__}
        if own:  # at once: an interrupt leaves it whole
            object.__setattr__(module, "__dict__", {**module.__dict__, **own})
        for each in _waitings(module):
            if each.name in names:
                each.gates.append(gate)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        for reference, gate in self._shadowed:
            module = reference()
            for each in () if module is None else _waitings(module):
                each.gates = [other for other in each.gates if other is not gate]
                if not each.gates:
                    del module.__dict__[each.name]
        self._handles, self._shadowed = [], []


def _waitings(module: torch.nn.Module) -> list[Waiting]:
    return [each for each in module.__dict__.values() if isinstance(each, Waiting)]


class Order:
    """Which modules read the parameters of an optimizer, as far as forward has shown it.

    It looks at the calls of all modules until each parameter has been seen in one."""

    def __init__(self, waiter: Waiter):
        self._waiter = weakref.ref(waiter)
        self._wanted: dict[int, torch.Tensor] = {}  # by id
        self._gates = Gates()
        self._gated: set[int] = set()  # modules, by id
        self._below: dict[int, bool] = {}  # those below them that were not called: whether their forward waits
        self._held: set[int] = set()  # parameters of modules that were called, and below them, by id
        self._called: dict[torch.nn.Module, None] = {}  # in order, until they get their gates
        self._handle: Any = None
        self._owner = os.getpid()
        self.read: dict[int, torch.Tensor] = {}  # parameters that were seen, in order, by id
        self.names: dict[int, str] = {}
        self.has_compiled = False

    @property
    def has_gates(self) -> bool:
        return bool(self._gated)

    def want(self, params: Iterable[torch.Tensor]) -> None:
        """Sets whose modules to look for."""
        self._wanted = {id(param): param for param in params}
        if self._handle is None and not self.read.keys() >= self._wanted.keys():
            order = weakref.ref(self)

            @torch._disable_dynamo
            def seen(module: torch.nn.Module, _: Any) -> None:
                alive = order()
                if alive is not None:
                    alive._see(module)

            self._handle = register_module_forward_pre_hook(seen)

    def unread(self) -> list[torch.Tensor]:
        """Returns the parameters whose modules were not seen."""
        return [param for key, param in self._wanted.items() if key not in self.read]

    def alone(self) -> dict[int, torch.Tensor]:
        """Returns, by id, the parameters that no module holds that was called, neither in itself nor below. A program
        may read them before the first gate."""
        return {key: param for key, param in self._wanted.items() if key not in self.read and key not in self._held}

    def _see(self, module: torch.nn.Module) -> None:
        if module in self._called or id(module) in self._gated or self._owner != os.getpid():
            return
        self._called[module] = None
        is_compiled = _is_compiled(module)
        self.has_compiled = self.has_compiled or is_compiled
        own = [] if is_compiled else [(name, param) for name, param in module._parameters.items()
                                      if param is not None and id(param) in self._wanted]
        for name, param in own:
            self.names.setdefault(id(param), f"{name} of {type(module).__name__}")
        waiter = self._waiter()
        if waiter is not None and is_ddp(module):
            waiter._listen_to(module)
        if waiter is not None:  # it has no gate yet
            waiter._wait_for([param for _, param in own])
        for _, param in own:
            self.read.setdefault(id(param), param)

    def put_gates(self, *, forward: bool) -> None:
        """Puts gates on the modules that were called since the last time and that hold parameters, in themselves or
        below. torch.compile skips gates inside of what it has compiled: there all is waited for in front. forward:
        whether forward waits, too."""
        waiter = self._waiter()
        called, self._called = self._called, {}
        compiled = [module for module in called if _is_compiled(module)]
        inside = {id(each) for module in compiled for each in torch.nn.Module.modules(module)}
        inside -= set(map(id, compiled))
        for module in compiled:
            for param in torch.nn.Module.parameters(module):
                self.read.pop(id(param), None)  # it is waited for at the first gate
        found = [module for module in called if id(module) not in inside and self._holds_parameters(module)]
        for module in found:
            if not forward:
                self._gates.put_on_saving(waiter, module)
            elif module in compiled or not self._below.get(id(module), False):
                self._gates.put(waiter, module, None if module in compiled else self._own(module))
            self._held.update(map(id, torch.nn.Module.parameters(module)))
            self._gated.add(id(module))  # last: an interrupt may leave two gates, but never none
        for module in found:
            self._gate_below(waiter, module, inside if forward else None)
        if self.read.keys() >= self._wanted.keys():
            self._look_no_longer()

    def _gate_below(self, waiter: Waiter, module: torch.nn.Module, inside: set[int] | None) -> None:
        """Lets wait whoever reads the parameters of modules below one that was called, if these were not called yet:
        such as a head whose weights are an embedding's. inside: the modules, by id, whose forward has no gate, because
        it is compiled; None: no forward waits."""
        for each in torch.nn.Module.modules(module):
            if id(each) in self._gated or id(each) in self._below or not self._holds_parameters(each):
                continue
            waits = inside is not None and id(each) not in inside
            if waits:
                self._gates.put(waiter, each, self._own(each))
            elif inside is not None:
                self._gates.put_on_reading(waiter, each)
            else:
                self._gates.put_on_saving(waiter, each)
            self._below[id(each)] = waits

    def _holds_parameters(self, module: torch.nn.Module) -> bool:
        return any(id(param) in self._wanted for param in torch.nn.Module.parameters(module))

    def _own(self, module: torch.nn.Module) -> list[torch.Tensor]:
        return [param for param in module._parameters.values() if param is not None and id(param) in self._wanted]

    def _look_no_longer(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def close(self) -> None:
        self._look_no_longer()
        self._gates.remove()
        self._gated.clear()
        self._below.clear()


def _is_compiled(module: torch.nn.Module) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
