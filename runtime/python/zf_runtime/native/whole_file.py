"""Writes files that no reader ever sees half of. The library does it, by the rules of `runtime/os/atomic_file.hpp`."""

from __future__ import annotations

import ctypes
import errno
import json
import os
from typing import Callable

from ..errors import ZfError
from . import checks
from .library import check, library


def need_target(path: str | os.PathLike[str]) -> None:
    """Raises OSError if no file can be put there: the path leads to a plan, a folder, a device, a FIFO or an open file
    (/dev/stdout), into no folder or one that this user may not write in, or by a link in a folder that others may write
    in, made neither by this user nor by the folder's owner. Call it before the work, so that no result is lost."""
    file, _ = _begin(path)
    library().zf_file_end(file, False)


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text to a file, as write_whole_by() does."""

    def write(temporary: str) -> None:
        try:
            with open(temporary, "w", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:  # a full disk: it names no file
            raise OSError(error.errno, f"{error.strerror}; make room, or give another path; what was there before is "
                          "unchanged", os.fspath(path)) from None

    write_whole_by(path, write)


def write_whole_by(path: str | os.PathLike[str], write: Callable[[str], object]) -> None:
    """Lets write(temporary) write a file: readers of the path find the old file or the whole new one, also after a
    power cut. Raises OSError as need_target() does, and if the file cannot be written. A writer that is killed leaves
    `.NAME.tmp` at most, which the next one removes, or rarely `.NAME.PID.TIME.N.tmp`."""
    file, descriptor = _begin(path)
    is_written = False
    try:
        write(_name_of(path, descriptor))
        is_written = True
    finally:
        _check(path, library().zf_file_end(file, is_written))


def _name_of(path: str | os.PathLike[str], descriptor: int) -> str:
    """Returns a name by which an open file can be written. Without /proc it has one beside the file, as .NAME.tmp."""
    name = f"/proc/self/fd/{descriptor}"
    if os.path.exists(name):
        return name
    with os.scandir(os.path.dirname(os.path.realpath(os.fsdecode(path)))) as entries:
        return next(entry.path for entry in entries if entry.inode() == os.fstat(descriptor).st_ino)


def _begin(path: str | os.PathLike[str]) -> tuple[ctypes.c_void_p, int]:
    """Returns a file that is not in its place yet, and its descriptor."""
    file, descriptor = ctypes.c_void_p(), ctypes.c_int32()
    _check(path, library().zf_file_begin(checks.path(path), ctypes.byref(file), ctypes.byref(descriptor)))
    if _is_plan(path):
        library().zf_file_end(file, False)
        raise FileExistsError(errno.EEXIST, "this is a plan, and would be lost: give another name", os.fspath(path))
    return file, descriptor.value


def _check(path: str | os.PathLike[str], status: int) -> None:
    try:
        check(status)
    except ZfError as error:
        is_there = os.path.isdir(os.path.dirname(os.path.realpath(path)))
        raise (OSError if is_there else FileNotFoundError)(str(error)) from None


def _is_plan(path: str | os.PathLike[str]) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file)["schema"]).startswith("zf-plan/")
    except (OSError, ValueError, TypeError, LookupError):
        return False
