"""Registers the arena with CUDA, so that transfers between it and the GPU are direct and asynchronous."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class HostRegistration:
    """Registers arrays. `note` says why memory stays pageable; it is "" if all of it is registered. Transfers work
    either way."""

    def __init__(self, arrays: Iterable[torch.Tensor]):
        self.note = ""
        self._registered: list[int] = []
        for array in arrays:
            if array.numel() == 0:
                continue
            size = array.numel() * array.element_size()
            code = _code(torch.cuda.cudart().cudaHostRegister(array.data_ptr(), size, 0))
            if code != 0:
                self.note = (f"cudaHostRegister refused {size} bytes with error {code}; look at ulimit -l. Transfers "
                             "are pageable")
                self.release()
                return
            self._registered.append(array.data_ptr())

    def release(self) -> None:
        """Unregisters the arrays. Call it before the memory is freed: CUDA must not keep pages that another mapping may
        get."""
        for address in self._registered:
            torch.cuda.cudart().cudaHostUnregister(address)
        self._registered.clear()


def _code(result: Any) -> int:
    """Returns a cudaError as a number, for every release of torch."""
    return int(getattr(result, "value", result))
