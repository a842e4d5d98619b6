"""Makes the step of a ZeRO optimizer one step late: it runs beside the next forward and backward."""

from __future__ import annotations

import functools
from typing import Any

from .arena import FlatArena
from .layout import stage_of
from .messages import say
from .waiting import wrap

RESUMED = ("ZeRO-3 publishes the newest weights when it loads, and a late step those of the step before: from here on "
           "losses are close to those of a job that was not interrupted, but not the same bits")


def make_late(zero: Any, arena: FlatArena) -> None:
    """Lets ZeRO's step() publish the result of the step before, and hand over its own gradients at its end."""
    from deepspeed.accelerator import get_accelerator

    step = zero.step

    def parts(*args: Any, **keywords: Any) -> Any:
        arena.before_late_step()
        result = step(*args, **keywords)
        get_accelerator().synchronize()  # ZeRO's copies read what the optimizer writes next
        # In stages 1 and 2 ZeRO has views of the gradients, which are in the other buffer then.
        arena.submit_and_turn(getattr(zero, "_get_offload_gradient_dict", lambda: None))
        return result

    @functools.wraps(step)
    def late_step(*args: Any, **keywords: Any) -> Any:
        return arena.in_step(parts, *args, **keywords)

    zero.step = late_step
    if stage_of(zero) == 3:
        wrap(zero, ("load_state_dict",), lambda: None, lambda: say(RESUMED))
