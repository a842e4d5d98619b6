"""What an optimizer of this package asks of the engine that does its steps."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ZfError

if TYPE_CHECKING:
    import torch

    from ...native.runtime import Runtime

# What an optimizer of torch has.
ParamGroup = dict[str, Any]  # settings by their names, and "params"
Entry = dict[str, Any]  # what the state has of one parameter
State = MutableMapping[Any, Entry]  # by parameter
StateDict = dict[str, Any]


class Kept(NamedTuple):
    """What an optimizer has found of a process that had ended."""

    step: int  #: how often a parameter was stepped, at most
    note: bytes  #: AdamW.note as it was at the last step


class Engine:
    """Does the steps of one optimizer, which owns it: in place, or in a process beside training. What an engine
    does not define is as for a step in place.

    The optimizer keeps param_groups, state and what clips. An engine holds the optimizer weakly."""

    memory_note = ""  # see AdamW.memory_note, ...
    kept: Kept | None = None  # ... AdamW.kept ...
    note = b""  # ... and AdamW.note
    note_bytes = 0  # room for it

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._reference = weakref.ref(optimizer)
        self._is_closed = False
        self._given: StateDict | None = None  # a state_dict that is being loaded
        self._said: set[str] = set()

    @property
    def _optimizer(self) -> Any:
        return self._reference()

    @property
    def runtime(self) -> Runtime:
        """See AdamW.runtime."""
        raise ZfError("the step is in place: there is no optimizer process and no runtime")

    def open(self) -> None:
        """Begins to serve the optimizer, after its constructor."""

    def check_open(self) -> None:
        """Raises ZfError if no step can be done: after close(), or in a forked child."""
        if self._is_closed:
            raise ZfError("the optimizer is closed")

    def step(self, limit: float | None, scale: float) -> float | None:
        """Steps all parameters that have a gradient. Every gradient is multiplied by scale. limit: the norm to which
        they are clipped then; None: no norm is taken. Returns the norm if it was taken."""
        raise NotImplementedError

    def norm(self) -> float:
        """Returns the norm of all gradients."""
        raise NotImplementedError

    def drop_gradients(self) -> None:
        """Is called before zero_grad()."""

    def check_group(self, group: ParamGroup) -> None:
        """Raises ZfError if it cannot step a param_group that is added, or is closed."""

    def synchronize(self) -> None:
        """Waits for the step that is under way."""

    def settle(self) -> None:
        """Sees to it that `state` is what state_dict() shall save."""

    def saved(self, state_dict: StateDict) -> StateDict:
        """Returns a state_dict that torch has made, with what `state` does not show."""
        return state_dict

    def copied(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns what a copy of the optimizer gets as its attributes, with what `state` does not show."""
        return state

    def begin_load(self) -> None:
        """Is called before load_state_dict()."""

    def take(self, optimizer: torch.optim.Optimizer, state_dict: StateDict) -> StateDict | None:
        """Notes a state_dict before torch casts its tensors. Returns what torch shall load, if that is another one."""
        self._given = state_dict
        return None

    def loaded(self) -> None:
        """Takes the state and the param_groups that the optimizer has been given, with those that take() has noted."""

    def end_load(self) -> None:
        """Is called after load_state_dict(), also if that has raised."""
        self._given = None

    def timeline(self) -> list[Any]:
        """See AdamW.timeline()."""
        return []

    def hold(self) -> Any:
        """Begins a copy of masters and moments, a Held, as they are between the step that is under way, or was the last
        one, and the next. None: no process has them."""
        return None

    def begin_close(self) -> None:
        """Is called before close(). No wait, of any thread, lasts for ever any more if the process stands still."""

    def close(self) -> None:
        """See AdamW.close()."""
        self._is_closed = True

    def _say(self, line: str, stacklevel: int = 5) -> None:
        """Warns once."""
        if line not in self._said:
            self._said.add(line)
            warnings.warn(line, stacklevel=stacklevel)
