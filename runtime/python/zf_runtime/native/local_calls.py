"""Reaches the library's local engine, which steps tensors where they are. It is opened at the first step."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
import warnings
from array import array
from itertools import starmap
from typing import Any

from . import abi
from .library import check, library
from .scalars import Scalars

# Taking the GIL back can take 5 ms if another Python thread computes. Fewer elements than these are stepped so quickly
# that the GIL is kept.
FEW_ELEMENTS = 256 * 1024

# A zf_reading as words: array, elements, copy, type, sum_of_squares (a double), digest.
READING_WORDS = ctypes.sizeof(abi.Reading) // 8

_SCALARS = struct.Struct("=9fi2Q")  # zf_scalars

# How a zf_local_step_args begins: what stands before its words.
_STEP_SIZES = array("Q", bytes(abi.sized(
    abi.LocalStepArgs, tensor_size=ctypes.sizeof(abi.Tensor), scalars_size=ctypes.sizeof(abi.Scalars),
    range_size=ctypes.sizeof(abi.Range)))[:abi.LocalStepArgs.tensors.offset])


class Engine:
    """The process's handle of the local engine. Any thread may call it; calls take turns."""

    def __init__(self) -> None:
        self._handles: dict[int, ctypes.c_void_p] = {}  # by torch's number of threads; never closed
        self._opening = threading.RLock()  # a signal handler may step, too
        keeping = ctypes.PyDLL(library()._name)  # its calls keep the GIL
        abi.declare(keeping)
        self._keeping, self._releasing = keeping["zf_local_step"], library()["zf_local_step"]
        for call in self._keeping, self._releasing:  # of their own: these take the arguments' address
            call.argtypes = ctypes.c_void_p, ctypes.c_void_p
        self._read_keeping, self._read_releasing = keeping.zf_local_read, library().zf_local_read
        self._each = keeping.zf_call_each
        self._get = ctypes.cast(ctypes.pythonapi.PyList_GetItem, ctypes.c_void_p)

    def step(self, tensors: array[int], scalars: list[Scalars], counters: array[int], elements: int,
             threads: int, ranges: array[int]) -> None:
        """Steps all tensors, or none and raises ZfError.

        tensors: zf_tensor structs as words. scalars: the members of each zf_scalars. counters: for each tensor the
        address of its count. elements: of all tensors. threads: as many as torch computes with. ranges: zf_range
        structs as words."""
        # As words: ctypes takes 5 us to cast them, and 3 to make its structs.
        factors = array("Q", b"".join(starmap(_packed, scalars)))
        arguments = _STEP_SIZES + array("Q", (
            tensors.buffer_info()[0], len(counters), factors.buffer_info()[0], len(scalars), counters.buffer_info()[0],
            ranges.buffer_info()[0], len(ranges) // len(abi.Range._fields_)))
        call = self._keeping if elements < FEW_ELEMENTS else self._releasing
        check(call(self._handle(threads), arguments.buffer_info()[0]))

    def read(self, readings: array[int], *, norm: bool = False, digest: bool = False, alone: bool = False,
             threads: int | None = None) -> None:
        """Reads all arrays once: copies them and, if wanted, finds their sums of squares and digests, which sums_of()
        and digests_of() return. Raises ZfError if one is wrong; then nothing is read.

        readings: zf_reading structs as words, an array("Q") of READING_WORDS for each. alone: by the calling thread,
        which waits for no other call. threads: as many as torch computes with; None: asks torch."""
        count = len(readings) // READING_WORDS
        what = norm * abi.READ_NORM | digest * abi.READ_DIGEST | alone * abi.READ_ALONE
        call = self._read_keeping if sum(readings[1::READING_WORDS]) < FEW_ELEMENTS else self._read_releasing
        check(call(self._handle(torch_threads() if threads is None else threads),
                   ctypes.cast(readings.buffer_info()[0], ctypes.POINTER(abi.Reading)), count,
                   ctypes.sizeof(abi.Reading), what))

    def place(self, address: int, size: int) -> None:
        """Places memory on the plan's nodes, with huge pages, as far as the machine lets it. Call it before the memory
        is touched. size: in bytes."""
        check(library().zf_local_place(self._handle(torch_threads()), address, size))

    def call_each(self, function: int, objects: list[Any]) -> array[int]:
        """Calls a C function with each object, and returns what it returned. function: its address. The function must
        not raise a Python exception."""
        found = array("Q", bytes(8 * len(objects)))
        check(self._each(self._get, id(objects), function, found.buffer_info()[0], len(objects)))
        return found

    def statistics(self) -> abi.LocalStatistics:
        """Returns which threads step, with which instructions, and how often they did."""
        return _statistics(self._handle(torch_threads()))

    def _handle(self, threads: int) -> ctypes.c_void_p:
        """Returns a handle that steps with that many threads. These are torch's own if the engine has found torch's
        OpenMP runtime, and so follows torch.set_num_threads(). Otherwise the engine starts threads of its own."""
        found = self._handles.get(threads)
        if found is None:
            with self._opening:
                handle = next(iter(self._handles.values()), None) or self._open(abi.TRY, 0)
                if _statistics(handle).threads != threads:
                    handle = self._open(abi.NO, threads)
                found = self._handles.setdefault(threads, handle)
        return found

    def _open(self, use_openmp: int, threads: int) -> ctypes.c_void_p:
        options = abi.sized(abi.LocalOptions, abi_version=abi.ABI_VERSION, rank=-1, threads=threads,
                             use_openmp=use_openmp)
        handle = ctypes.c_void_p()
        check(library().zf_local_open(ctypes.byref(options), ctypes.byref(handle)))
        note = _statistics(handle).plan_note.decode(errors="replace")
        if note and not self._handles:
            warnings.warn(f"zf_runtime: {note}", stacklevel=2)
        return handle


def _packed(*members: float) -> bytes:
    """Returns a zf_scalars."""
    try:
        return _SCALARS.pack(*members)
    except OverflowError:  # what fp32 does not hold is infinite there
        return bytes(abi.Scalars(*members))


def sums_of(readings: array[int]) -> list[float]:
    """Returns the sum of squares of each reading, after Engine.read()."""
    doubles = array("d", readings.tobytes())
    return doubles[abi.Reading.sum_of_squares.offset // 8::READING_WORDS].tolist()


def digests_of(readings: array[int]) -> list[int]:
    """Returns the digest of each reading, after Engine.read()."""
    return readings[abi.Reading.digest.offset // 8::READING_WORDS].tolist()


def torch_threads() -> int:
    """Returns how many threads torch computes with."""
    import torch

    return int(torch.get_num_threads())


def _statistics(handle: ctypes.c_void_p) -> abi.LocalStatistics:
    found = abi.sized(abi.LocalStatistics)
    check(library().zf_local_stats(handle, ctypes.byref(found)))
    return found


@functools.cache
def engine() -> Engine:
    """Returns the engine of this process. A forked child goes on with it; there one thread steps."""
    return Engine()
