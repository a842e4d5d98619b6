"""Declares the constants, structs and functions of zf_runtime.h for ctypes, and nothing else.

Everything that the header declares is declared here and nowhere else. A struct tells its size to the library, at its
beginning or beside the pointer to it, so a struct that has grown in the header may stay as it is here: the members that
it lacks keep their defaults.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import TypeVar

ABI_VERSION = 1

OK, TIMEOUT, WORKER_DIED, ERROR_USAGE, ERROR_PLAN, ERROR_SYSTEM = 0, 1, 2, 3, 4, 5
ERROR_WORKER, ERROR_ABI, ERROR_FORKED, ERROR_BUSY, ERROR_INTERNAL, ERROR_STATE = 6, 7, 8, 9, 10, 11

NONE, F32, BF16, F16 = 0, 1, 2, 3
ADAM, ADAMW = 0, 1
STATE_FP32, STATE_BF16, STATE_SPLIT, STATE_BF16_SPLIT = 0, 1, 2, 3
STEP, NORM, SPECULATE, TAKE_BACK = 0, 1, 2, 3
READ_NORM, READ_DIGEST, READ_ALONE = 1, 2, 4
NO, TRY, MUST = 0, 1, 2

PARAMS, MOMENT_1, MOMENT_2, GRADS_0, GRADS_1, STALE, COPY = 0, 1, 2, 3, 4, 5, 6
MOMENT_1_SET_1, MOMENT_2_SET_1 = 7, 8


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("abi_version", c_uint32), ("plan_path", c_char_p), ("rank", c_int32),
        ("spin_us", c_int32), ("start_timeout_ms", c_int64), ("close_timeout_ms", c_int64), ("max_restarts", c_int32),
        ("reserved", c_int32), ("chunk_bytes", c_uint64), ("huge_pages", c_int32), ("lock_memory", c_int32),
        ("narrow", c_int32), ("reserved_2", c_int32), ("restart_window_s", c_int64), ("keep", c_char_p),
        ("keep_s", c_int64), ("note_bytes", c_uint64), ("export_room", c_int32), ("reserved_3", c_int32)]


class Range(ctypes.Structure):
    _fields_ = [
        ("tensor", c_uint64), ("position", c_uint64), ("first_element", c_uint64)]


class Group(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("grad_type", c_int32), ("elements", c_uint64), ("copy_type", c_int32),
        ("stale", c_int32), ("moment_sets", c_int32), ("grad_buffers", c_int32), ("state_format", c_int32),
        ("speculative", c_uint32), ("first_element", c_uint64), ("ranges", POINTER(Range)), ("range_count", c_size_t)]


class Scalars(ctypes.Structure):
    _fields_ = [
        ("beta1", c_float), ("one_minus_beta1", c_float), ("beta2", c_float), ("one_minus_beta2", c_float),
        ("eps", c_float), ("inv_sqrt_bias2", c_float), ("step_size", c_float), ("decay", c_float),
        ("grad_scale", c_float), ("mode", c_int32), ("seed", c_uint64), ("step", c_uint64)]


class Adam(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("mode", c_int32), ("lr", c_double), ("beta1", c_double), ("beta2", c_double),
        ("eps", c_double), ("weight_decay", c_double), ("bias_correction", c_int32), ("reserved", c_uint32)]


class SubmitArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("buffer", c_uint32), ("groups", POINTER(c_uint32)), ("n_groups", c_size_t),
        ("scalars", POINTER(Scalars)), ("scalars_of", POINTER(c_uint32)), ("scalar_count", c_size_t),
        ("scalars_size", c_uint32), ("work", c_uint32), ("note", c_void_p), ("begin", c_uint64), ("end", c_uint64),
        ("prepares", c_uint32), ("reserved", c_uint32)]


class Stats(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("worker_pid", c_int32), ("threads", c_uint32), ("worker_alive", c_int32),
        ("arena_bytes", c_uint64), ("submitted", c_uint64), ("completed", c_uint64), ("batches", c_uint64),
        ("last_step_ns", c_uint64), ("total_step_ns", c_uint64), ("start_ns", c_uint64), ("isa", c_char * 16),
        ("memory_note", c_char * 200), ("restarts", c_uint32), ("degraded", c_uint32), ("last_death", c_char * 240),
        ("pages_on_plan", c_uint64), ("pages_elsewhere", c_uint64), ("pages_absent", c_uint64),
        ("huge_bytes", c_uint64), ("locked_bytes", c_uint64), ("cpu_note", c_char * 200), ("narrow_note", c_char * 200),
        ("narrowed_threads", c_uint32), ("home_threads", c_uint32), ("training_threads", c_uint32),
        ("was_kept", c_uint32), ("keep_note", c_char * 200)]


class LocalOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("abi_version", c_uint32), ("plan_path", c_char_p), ("rank", c_int32),
        ("threads", c_uint32), ("use_openmp", c_int32), ("reserved", c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("p", c_void_p), ("g", c_void_p), ("state", c_void_p * 2), ("copy", c_void_p), ("elements", c_uint64),
        ("first_element", c_uint64), ("scalars", c_uint32), ("grad_type", c_uint8), ("copy_type", c_uint8),
        ("format", c_uint16)]


class LocalStepArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("tensor_size", c_uint32), ("scalars_size", c_uint32), ("range_size", c_uint32),
        ("tensors", POINTER(Tensor)), ("tensor_count", c_size_t), ("scalars", POINTER(Scalars)),
        ("scalar_count", c_size_t), ("counters", POINTER(c_void_p)), ("ranges", POINTER(Range)),
        ("range_count", c_size_t)]


class Reading(ctypes.Structure):
    _fields_ = [
        ("array", c_void_p), ("elements", c_uint64), ("copy", c_void_p), ("type", c_uint32), ("reserved", c_uint32),
        ("sum_of_squares", c_double), ("digest", c_uint64)]


class LocalStatistics(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("threads", c_uint32), ("team", c_char * 16), ("isa", c_char * 16),
        ("openmp", c_char * 200), ("steps", c_uint64), ("last_step_ns", c_uint64), ("total_step_ns", c_uint64),
        ("last_threads", c_uint32), ("stolen", c_uint32), ("memory_note", c_char * 200), ("plan_note", c_char * 200)]


_Struct = TypeVar("_Struct", bound=ctypes.Structure)


def sized(struct: type[_Struct], **fields: object) -> _Struct:
    """Returns a struct with its size filled in. Members that are not given are zero."""
    return struct(struct_size=ctypes.sizeof(struct), **fields)


FUNCTIONS = {
    "zf_abi_version": (c_uint32, []),
    "zf_version": (c_char_p, []),
    "zf_status_name": (c_char_p, [c_int32]),
    "zf_last_error": (c_char_p, []),
    "zf_open": (c_int32, [POINTER(Options), POINTER(Group), c_size_t, POINTER(c_void_p)]),
    "zf_end": (c_int32, [c_void_p]),
    "zf_close": (c_int32, [c_void_p]),
    "zf_buffer": (c_int32, [c_void_p, c_size_t, c_int32, POINTER(c_void_p), POINTER(c_size_t)]),
    "zf_adam_scalars": (c_int32, [POINTER(Adam), c_uint64, POINTER(Scalars)]),
    "zf_submit": (c_int32, [c_void_p, POINTER(SubmitArgs), POINTER(c_uint64)]),
    "zf_go": (c_int32, [c_void_p, POINTER(c_uint64)]),
    "zf_wait": (c_int32, [c_void_p, c_uint64, c_int64]),
    "zf_progress": (c_int32, [c_void_p, c_uint64, c_size_t, c_uint64, c_int64, POINTER(c_uint64)]),
    "zf_norm": (c_int32, [c_void_p, c_size_t, c_uint32, POINTER(c_double), POINTER(c_int32)]),
    "zf_overwriting": (c_int32, [c_void_p, c_int32]),
    "zf_get_note": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_uint64)]),
    "zf_get_prepared": (c_int32, [c_void_p, c_void_p, c_size_t, POINTER(c_uint64)]),
    "zf_get_step": (c_int32, [c_void_p, c_size_t, POINTER(c_uint64)]),
    "zf_read_state": (c_int32, [c_void_p, c_size_t, c_int32, c_uint64, c_uint64, POINTER(c_float)]),
    "zf_write_state": (c_int32, [c_void_p, c_size_t, c_int32, c_uint64, c_uint64, POINTER(c_float)]),
    "zf_export_state": (c_int32, [c_void_p, c_char_p]),
    "zf_export_begin": (c_int32, [c_void_p, c_char_p]),
    "zf_export_wait": (c_int32, [c_void_p, c_int64]),
    "zf_save_begin": (c_int32, [c_void_p]),
    "zf_save_wait": (c_int32, [c_void_p, c_int64]),
    "zf_saved": (c_int32, [c_void_p, c_size_t, c_int32, POINTER(c_void_p), POINTER(c_size_t)]),
    "zf_save_end": (c_int32, [c_void_p]),
    "zf_import_state": (c_int32, [c_void_p, c_char_p]),
    "zf_get_stats": (c_int32, [c_void_p, POINTER(Stats)]),
    "zf_local_open": (c_int32, [POINTER(LocalOptions), POINTER(c_void_p)]),
    "zf_local_step": (c_int32, [c_void_p, POINTER(LocalStepArgs)]),
    "zf_local_read": (c_int32, [c_void_p, POINTER(Reading), c_size_t, c_uint32, c_uint32]),
    "zf_local_place": (c_int32, [c_void_p, c_void_p, c_size_t]),
    "zf_local_stats": (c_int32, [c_void_p, POINTER(LocalStatistics)]),
    "zf_call_each": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t]),
    "zf_local_close": (c_int32, [c_void_p]),
    "zf_file_begin": (c_int32, [c_char_p, POINTER(c_void_p), POINTER(c_int32)]),
    "zf_file_end": (c_int32, [c_void_p, c_int32]),
    "zf_find_rank": (c_int32, [POINTER(c_char_p), POINTER(c_int32), c_char_p, c_size_t]),
    "zf_find_ranks": (c_int32, [POINTER(c_char_p), POINTER(c_int32), c_char_p, c_size_t]),
}


def declare(library: ctypes.CDLL) -> None:
    """Gives every function its types. Raises AttributeError that names a function if the library lacks it."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
