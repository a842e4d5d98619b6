"""Reaches the library's local engine, which steps tensors where they are. It is opened at the first step."""

from __future__ import annotations

import ctypes
import functools
from array import array
from typing import Any

from . import _abi
from ._library import check, library

# Taking the GIL back can take 5 ms if another Python thread computes. Fewer elements than these are stepped so quickly
# that the GIL is kept.
FEW_ELEMENTS = 256 * 1024


class Engine:
    """The process's handle of the local engine. Any thread may call it; calls take turns."""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        self._threads = 0
        self._releasing = library().zf_local_step
        self._keeping = ctypes.PyDLL(library()._name).zf_local_step
        self._keeping.restype, self._keeping.argtypes = self._releasing.restype, self._releasing.argtypes

    def step(self, tensors: array[int], scalars: list[tuple[Any, ...]], counters: array[int], elements: int,
             threads: int) -> None:
        """Steps all tensors, or none and raises ZfError.

        tensors: zf_tensor structs as words. scalars: the members of each zf_scalars. counters: for each tensor the
        address of its count. elements: of all tensors. threads: as many as torch computes with."""
        if threads != self._threads:
            self._follow(threads)
        factors = (_abi.Scalars * len(scalars))(*(_abi.Scalars(*members) for members in scalars))
        arguments = _abi.sized(
            _abi.LocalStepArgs, tensor_size=ctypes.sizeof(_abi.Tensor), scalars_size=ctypes.sizeof(_abi.Scalars),
            tensors=ctypes.cast(tensors.buffer_info()[0], ctypes.POINTER(_abi.Tensor)), tensor_count=len(counters),
            scalars=factors, scalar_count=len(scalars),
            counters=ctypes.cast(counters.buffer_info()[0], ctypes.POINTER(ctypes.c_void_p)))
        call = self._keeping if elements < FEW_ELEMENTS else self._releasing
        check(call(self._handle, ctypes.byref(arguments)))

    def statistics(self) -> _abi.LocalStatistics:
        """Returns which threads step, with which instructions, and how often they did."""
        found = _abi.sized(_abi.LocalStatistics)
        check(library().zf_local_stats(self._handle, ctypes.byref(found)))
        return found

    def _follow(self, threads: int) -> None:
        """Opens the engine, or sees whether it follows torch.set_num_threads(). If the OpenMP runtime that it found is
        not the one of torch, that many threads of its own step."""
        if not self._handle:
            self._open(_abi.TRY, 0)
        if self.statistics().threads != threads:
            before = self._handle
            self._open(_abi.NO, threads)
            check(library().zf_local_close(before))
        self._threads = threads

    def _open(self, use_openmp: int, threads: int) -> None:
        options = _abi.sized(_abi.LocalOptions, abi_version=_abi.ABI_VERSION, rank=-1, threads=threads,
                             use_openmp=use_openmp)
        handle = ctypes.c_void_p()
        check(library().zf_local_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle


@functools.cache
def engine() -> Engine:
    """Returns the engine of this process. A forked child goes on with it; there one thread steps."""
    return Engine()
