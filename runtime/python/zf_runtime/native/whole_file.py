"""Writes files that no reader ever sees half of, by the rules of `runtime/os/atomic_file.hpp`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from typing import Callable

_MOST_LINKS = 40
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)  # of linkat()


def target_of(path: str | os.PathLike[str]) -> str:
    """Returns the path with its links followed. Raises OSError if no file can be put there: the path leads to a plan, a
    folder, a device, a FIFO or an open file (/dev/stdout), into no folder or one that this user may not write in, or by
    a link in a folder that others may write in, made neither by this user nor by the folder's owner. Call it before the
    work, so that no result is lost."""
    given = os.fspath(path)
    if not given:
        raise FileNotFoundError(errno.ENOENT, "the name is empty")
    found, left, links = "", _parts(given), 0
    while left:
        step = os.path.join(found, left.pop(0))
        try:
            status = os.lstat(step)
        except FileNotFoundError:
            found = step
            continue
        if not stat.S_ISLNK(status.st_mode) or (left and _is_in_proc(status)):
            found = step
            continue
        links += 1
        text = _text_of_link(given, step, status) if links <= _MOST_LINKS else ""
        if not text:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), given)
        found = "" if text.startswith("/") else found
        left = _parts(text) + left
    _need_replaceable(given, found)
    return found


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text to a file, as write_whole_by() does."""

    def write(temporary: str) -> None:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(text)

    write_whole_by(path, write)


def write_whole_by(path: str | os.PathLike[str], write: Callable[[str], object]) -> None:
    """Lets write(temporary) write a file: readers of the path find the old file or the whole new one, also after a
    power cut. It is called again where the first file can get no name. Raises OSError as target_of() does, and if the
    file cannot be written. A writer that is killed leaves `.NAME.PID.HEX.tmp` at most, and where files need no name
    only between the last two calls."""
    target = target_of(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
    old = _passes_on(target)
    mode = 0o600 if old else 0o644
    file, is_named = _open_nameless(folder, mode), False

    def fill(opened: int, own: str) -> None:
        write(own)
        if old:
            _take_permissions(opened, old)
        os.fsync(opened)

    try:
        if file is not None:
            fill(file, f"/proc/self/fd/{file}")
            is_named = _give_name(file, temporary)
        if not is_named:
            if file is not None:
                os.close(file)  # first: there may be room for one
            file = None
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            is_named = True
            fill(file, temporary)
        assert file is not None
        try:
            os.replace(temporary, target)
        except OSError:  # NFS may answer ENOENT to what is done
            if not os.path.samestat(os.lstat(target), os.fstat(file)):
                raise
    except BaseException:
        if is_named:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise
    finally:
        if file is not None:
            os.close(file)
    _sync_folder(folder)


def _open_nameless(folder: str, mode: int) -> int | None:
    """Returns a file without a name; None where there are none."""
    try:
        file = os.open(folder or ".", os.O_WRONLY | os.O_TMPFILE, mode)
    except OSError:
        return None
    if os.path.exists(f"/proc/self/fd/{file}"):
        return file
    os.close(file)
    return None


def _give_name(file: int, name: str) -> bool:
    """Gives a file without a name a new one. Returns False where that is refused, such as in a sandbox."""
    try:
        # Without src_dir_fd this is link(), which follows no link.
        os.link(f"/proc/self/fd/{file}", name, src_dir_fd=file, follow_symlinks=True)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        return False
    return True


def _parts(path: str) -> list[str]:
    return (["/"] if path.startswith("/") else []) + [part for part in path.split("/") if part]


def _is_in_proc(status: os.stat_result) -> bool:
    try:
        return status.st_dev == os.lstat("/proc/self").st_dev
    except OSError:
        return False


def _others_may_write_in(folder: os.stat_result) -> bool:
    return bool(folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _text_of_link(given: str, link: str, status: os.stat_result) -> str:
    if _is_in_proc(status):
        raise OSError(errno.EINVAL, "this is an open file of a process, and not the name of a file", given)
    folder = os.stat(os.path.dirname(link) or ".")
    if _others_may_write_in(folder) and status.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(errno.EPERM, f"{link} is a link that user {status.st_uid} made, in a folder that others "
                              "may write in", given)
    return os.readlink(link)


def _need_replaceable(given: str, target: str) -> None:
    parent = os.path.dirname(target) or "."
    if not os.access(parent, os.W_OK | os.X_OK):
        try:
            os.stat(parent)
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {parent}: make it first", given) from None
        raise PermissionError(errno.EACCES, "this user may not write in its folder", given)
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder", given)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "this is not a regular file (it may be a FIFO, a socket or a device)", given)
    if _is_plan(target):
        raise FileExistsError(errno.EEXIST, "this is a plan, and would be lost: give another name", given)
    folder = os.stat(parent)
    if folder.st_mode & stat.S_ISVTX and os.geteuid() not in (0, status.st_uid, folder.st_uid):
        raise PermissionError(errno.EPERM, f"only user {status.st_uid} may replace it, in a sticky folder", given)


def _is_plan(target: str) -> bool:
    try:
        with open(target, encoding="utf-8") as file:
            return str(json.load(file)["schema"]).startswith("zf-plan/")
    except (OSError, ValueError, TypeError, LookupError):
        return False


def _passes_on(target: str) -> os.stat_result | None:
    """Returns the status of the old file, if the new one gets its owner and mode. In a folder that others may write in,
    another user may have made it, to read or to change what is written there."""
    try:
        old = os.lstat(target)
    except FileNotFoundError:
        return None
    shared = _others_may_write_in(os.stat(os.path.dirname(target) or "."))
    return old if not shared or old.st_uid == os.geteuid() else None


def _take_permissions(file: int, old: os.stat_result) -> None:
    """Gives an open file the owner, group and mode of another, as far as that is allowed. Where the group cannot be
    set, it gets no more than others."""
    with contextlib.suppress(OSError):
        os.fchown(file, -1, old.st_gid)
    with contextlib.suppress(OSError):
        os.fchown(file, old.st_uid, -1)
    mode = old.st_mode & 0o777
    if os.fstat(file).st_gid != old.st_gid:
        mode &= ~0o070 | (mode & 0o007) << 3
    with contextlib.suppress(OSError):
        os.fchmod(file, mode)


def _sync_folder(folder: str) -> None:
    try:
        opened = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # it may be written but not listed
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # this file system cannot sync folders
            raise
    finally:
        os.close(opened)
