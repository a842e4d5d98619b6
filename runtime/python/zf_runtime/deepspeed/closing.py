"""Ends the optimizer process with DeepSpeed's engine: when it is destroyed, or when the program has dropped it."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import types
import weakref
from collections.abc import Sequence
from typing import Any, Callable

import torch

from ..errors import ZfError
from ..native.cuda import HostRegistration
from ..native.runtime import Runtime
from ..optim.overlap import follower
from ..optim.overlap.speculation import Begun
from ..optim.tensors.threads import end_from_outside
from .arena import FlatArena
from .messages import say
from .replacing import Function, replace

_open: list[weakref.ref[Any]] = []  # ZeRO optimizers with an arena that is open


def close_with(zero: Any, arena: FlatArena) -> None:
    """Ends the optimizer process when the engine is destroyed or collected; and when it is abandoned, at the first step
    of a later engine."""
    if getattr(zero, "destroy", None) is None:
        return
    if not arena.steps.keeps:  # else it is left when the process ends
        weakref.finalize(zero, _end_collected, arena.runtime, arena.registration,
                         [each for each in (arena.speculation, arena.follower) if each is not None]).atexit = False
    _open.append(weakref.ref(zero))
    zero._zf_arena = arena
    arena.before_first_step = functools.partial(end_abandoned, weakref.ref(zero))

    @replace(zero, "destroy")
    def destroy_and_close(destroy: Function, *args: Any, **keywords: Any) -> Any:
        _await_end(arena)  # first: an interrupt leaves the engine as it is
        try:
            return destroy(*args, **keywords)
        finally:
            arena.close()


def _await_end(arena: FlatArena) -> None:
    """Waits until the end of the optimizer process takes no time. Ctrl-C ends this."""
    if not arena.is_open or arena.runtime.forked:
        return
    arena.runtime.end_waits()
    with contextlib.suppress(Exception):  # arena.close() reports it
        if not arena.is_done_within(follower.PATIENCE_S):
            say(follower.LATE + follower.END_WAITS)
        arena.wait()
        arena.runtime.await_running()


def end_abandoned(its: Callable[[], Any] = lambda: None) -> None:
    """Ends the arenas of engines that were abandoned without destroy(), but not that of the ZeRO optimizer `its()`.

    DeepSpeed's hooks hold an engine through PyTorch's C++ objects, where Python's collector does not look. So only
    destroy() frees an engine, with zf_runtime or without it. An engine is abandoned if nothing but these hooks holds
    it."""
    _open[:] = [each for each in _open if (zero := each()) is not None and zero._zf_arena.is_open]
    if all(each() is its() for each in _open):
        return
    gc.collect()
    for each in list(_open):
        zero = each()
        if zero is None or zero is its() or zero._zf_arena.steps.keeps or not _is_abandoned(zero):
            continue
        pid = zero._zf_arena.runtime.stats().worker_pid
        with contextlib.suppress(Exception):  # of DeepSpeed's destroy(): no program uses the engine
            _destroy(zero, its())
        _open.remove(each)
        del zero
        say(_ended(pid))
    gc.collect()  # with the last views their arenas are freed


def _destroy(zero: Any, later: Any) -> None:
    """Destroys an abandoned ZeRO optimizer. A later one of the same model keeps its mappings on the parameters."""
    params = [param for group in getattr(later, "bit16_groups", []) for param in group]
    mappings = [(param, param._hp_mapping) for param in params if hasattr(param, "_hp_mapping")]
    zero.destroy()
    for param, mapping in mappings:
        param._hp_mapping = mapping
    zero._zf_arena.drop_views()


def _ended(pid: int) -> str:
    return (f"optimizer process {pid} has ended: the program has dropped its engine. Call engine.destroy() when an "
            "engine is done")


def _end_collected(runtime: Runtime, registration: HostRegistration | None,
                   threads: Sequence[Begun | follower.Follower[Any]]) -> None:
    """Ends the optimizer process of an engine that was collected without destroy(), behind the threads that use
    it."""
    if runtime.closed or runtime.forked:
        return

    def end() -> None:
        pid = runtime.stats().worker_pid
        runtime.end_waits()
        for thread in threads:
            with contextlib.suppress(ZfError):
                thread.end()
        if registration is not None:
            registration.release()
        with contextlib.suppress(ZfError):
            runtime.close()
        say(_ended(pid))

    end_from_outside(end)


def _is_abandoned(zero: Any) -> bool:
    """Returns whether nothing but DeepSpeed's own hooks holds the engine of a ZeRO optimizer. In doubt it is held."""
    engines = [engine for engine in _holders(zero) if getattr(engine, "optimizer", None) is zero]
    if len(engines) != 1:
        return False
    engine = engines.pop()
    del engines
    ours = object()  # has the references that `engine` has from this function, whatever Python counts as one
    return sys.getrefcount(engine) - sys.getrefcount(ours) == _held_by_hooks(engine)


def _held_by_hooks(engine: Any) -> int:
    """Returns how many references to an engine are those of DeepSpeed's own hooks."""
    return sum(each is engine for holder in gc.get_referrers(engine) if _is_hook(holder)
               for each in gc.get_referents(holder))


def _holders(zero: Any) -> list[Any]:
    """Returns the modules, such as an engine, that have this ZeRO optimizer as an attribute."""
    found = []
    for holder in gc.get_referrers(zero):
        if isinstance(holder, torch.nn.Module):
            found.append(holder)
        elif isinstance(holder, dict):  # of an object, until Python 3.12
            found += [each for each in gc.get_referrers(holder)
                      if isinstance(each, torch.nn.Module) and each.__dict__ is holder]
    return found


def _is_hook(holder: Any) -> bool:
    """Returns whether this is a method or a closure by which DeepSpeed's own hooks hold their engine."""
    if isinstance(holder, types.MethodType):
        return holder.__name__.startswith("_")
    if not isinstance(holder, types.CellType):
        return False
    closures = [each for each in gc.get_referrers(holder) if isinstance(each, tuple)]
    functions = [each for closure in closures for each in gc.get_referrers(closure)
                 if isinstance(each, types.FunctionType)]
    return bool(functions) and all(each.__module__.startswith("deepspeed.") for each in functions)
