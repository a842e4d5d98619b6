"""What an optimizer of this package asks of the engine that does its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..native.runtime import Runtime
    from .overlap.held import Held
    from .overlap.timeline import Span


class Engine(Protocol):
    """Does the steps of one optimizer, which owns it: in place, or in a process beside training.

    The optimizer keeps param_groups, state and what clips. An engine holds the optimizer weakly."""

    @property
    def runtime(self) -> Runtime:
        """See AdamW.runtime."""

    @property
    def memory_note(self) -> str:
        """See AdamW.memory_note."""

    def open(self) -> None:
        """Begins to serve the optimizer, after its constructor."""

    def check_open(self) -> None:
        """Raises ZfError if no step can be done: after close(), or in a forked child."""

    def step(self, limit: float | None, scale: float) -> float | None:
        """Steps all parameters that have a gradient. Every gradient is multiplied by scale. limit: the norm to which
        they are clipped then; None: no norm is taken. Returns the norm if it was taken."""

    def norm(self) -> float:
        """Returns the norm of all gradients."""

    def drop_gradients(self) -> None:
        """Is called before zero_grad()."""

    def check_group(self, group: dict[str, Any]) -> None:
        """Raises ZfError if it cannot step a param_group that is added."""

    def synchronize(self) -> None:
        """Waits for the step that is under way."""

    def settle(self) -> None:
        """Sees to it that `state` is what state_dict() shall save."""

    def saved(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Returns a state_dict that torch has made, with what `state` does not show."""

    def copied(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns what a copy of the optimizer gets as its attributes, with what `state` does not show."""

    def begin_load(self) -> None:
        """Is called before load_state_dict()."""

    def take(self, optimizer: Any, state_dict: dict[str, Any]) -> dict[str, Any] | None:
        """Notes a state_dict before torch casts its tensors. Returns what torch shall load, if that is another one."""

    def loaded(self) -> None:
        """Takes the state and the param_groups that the optimizer has been given, with those that take() has noted."""

    def end_load(self) -> None:
        """Is called after load_state_dict(), also if that has raised."""

    def timeline(self) -> list[Span]:
        """See AdamW.timeline()."""

    def hold(self) -> Held | None:
        """Begins a copy of masters and moments as they are between the step that is under way, or was the last one, and
        the next. None: no process has them."""

    def close(self) -> None:
        """See AdamW.close()."""
