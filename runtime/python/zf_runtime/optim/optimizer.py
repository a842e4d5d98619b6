"""OverlappedAdamW, the older name of AdamW with overlap."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch

from .adam import AdamW


class OverlappedAdamW(AdamW):
    """AdamW(overlap="late"), or with overlap=False AdamW(overlap="off"). Use AdamW.

    alias and module are accepted, and change nothing."""

    def __init__(self, params: Iterable[Any], *settings: Any, overlap: bool | None = None, alias: bool = True,
                 module: torch.nn.Module | None = None, **more: Any):
        mode = "off" if overlap is not None and not overlap else "late"
        warnings.warn(f"OverlappedAdamW is AdamW(overlap=\"late\") or, with overlap=False, AdamW(overlap=\"off\"): use "
                      f"zf_runtime.AdamW(overlap=\"{mode}\")", DeprecationWarning, stacklevel=2)
        super().__init__(params, *settings, overlap=mode, **more)

    @property
    def overlap(self) -> bool:
        """Whether parameters are one step late."""
        return bool(super().overlap != "off")
