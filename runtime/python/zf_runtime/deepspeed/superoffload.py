"""Lets ZeRO-3 with steps that begin in backward take the place of SuperOffload.

SuperOffload begins steps in backward only if nothing is clipped, does not tell its process bias_correction, and needs
CUDA. DeepSpeed's config stays as it is; its own check for CUDA stays, too."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Callable

from ..native import planned
from .beside import all_ranks_can
from .messages import say


def by_stage_3(plan: str | os.PathLike[str] | None, stage_3: type) -> Callable[[type], Callable[..., Any]]:
    """Returns what makes a function of SuperOffload's class that takes the place of the class. It makes an optimizer of
    stage 3, or that of SuperOffload if a rank has no plan. plan: as in install()."""

    def instead(superoffload: type) -> Callable[..., Any]:
        @functools.wraps(superoffload, updated=())
        def make(*args: Any, **keywords: Any) -> Any:
            if not all_ranks_can(keywords.get("dp_process_group"), planned.is_there(plan)):
                say("a rank has no plan: SuperOffload steps with DeepSpeed's own optimizer")
                return superoffload(*args, **keywords)
            check = getattr(sys.modules[superoffload.__module__], "_validate_superoffload_accelerator", None)
            if check is not None:
                check()
            say("ZeRO-3 takes the place of SuperOffload, also where gradients are clipped; what follows says who steps")
            return stage_3(*args, **keywords)

        return make

    return instead
