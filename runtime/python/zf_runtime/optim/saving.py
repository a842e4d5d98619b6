"""Saves beside training: the state of one moment between two steps, whatever is stepped meanwhile."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import shutil
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable

import torch

from ..errors import ZfError, ZfTimeout
from ..native import whole_file
from .tensors.eligibility import layout, local_of
from .tensors.engine import StateDict
from .tensors.threads import SAVER, Latch

if TYPE_CHECKING:
    from .overlap.held import Held


@contextlib.contextmanager
def released_on_failure(held: Held | None) -> Iterator[None]:
    """Releases a copy if an exception comes, which keeps it as long as it lives."""
    try:
        yield
    except BaseException:
        if held is not None:
            held.release()
        raise


class Staging:
    """Any structure of dicts, lists, tuples and tensors, as it is when this is made. Parameters, moments and masters
    that a process steps come from the copy that it makes; all else is copied at once."""

    def __init__(self, held: Held | None, value: Any):
        """held: None if no process has anything of it."""
        self.held = held
        self._copies: dict[tuple[Any, ...], Any] = {}  # a tensor that is there twice is copied once, ...
        self._others: dict[int, Any] = {}  # ... and so is any other object
        self._staged = self._walk(value, self._taken)

    def finish(self) -> Any:
        """Returns it when the copy is made. Call it once, in any thread: afterwards only the result holds the copy."""
        if self.held is not None:
            self.held.wait()
        self.held, self._copies, self._others, staged = None, {}, {}, self._staged
        self._staged = None
        return self._walk(staged, lambda value: value.tensor if isinstance(value, _Later) else value)

    def _walk(self, value: Any, use: Callable[[Any], Any]) -> Any:
        if isinstance(value, dict):
            copied = copy.copy(value)  # a state_dict() of a module has attributes
            for key, each in value.items():
                copied[key] = self._walk(each, use)
            return copied
        if isinstance(value, (list, tuple)):
            some = [self._walk(each, use) for each in value]
            return type(value)(*some) if hasattr(value, "_fields") else type(value)(some)
        return use(value)

    def _taken(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return copy.deepcopy(value, self._others)
        with torch._C.DisableTorchFunction():  # no values are read
            make = self.held.find(value) if self.held is not None else None
            key = layout(local_of(value)) if value.layout is torch.strided and value.numel() else None
        if key is None:
            return value.detach().clone()
        if key not in self._copies:  # with the tensor: its memory may be another one's when that is freed
            self._copies[key] = value, value.detach().clone() if make is None else _Later(make)
        return self._copies[key][1]


class _Later:
    def __init__(self, make: Callable[[], torch.Tensor]):
        self._make = make

    @functools.cached_property
    def tensor(self) -> torch.Tensor:
        return self._make()


def absolute(path: str | os.PathLike[str]) -> str:
    """Returns a path that stays when the working folder changes. What comes before `..` may be a link, so it stays."""
    path = os.fspath(path)
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


class _Untold:
    """Why a save has failed, until the program is told. It is text: an exception keeps the tensors of its frames."""

    text = ""

    def warn(self) -> None:
        """Tells a program that has dropped the save, or ends, without a call of wait()."""
        if self.text:
            warnings.warn(self.text, stacklevel=1)


class Save:
    """A file that is written beside training."""

    def __init__(self, staging: Staging, path: str):
        self.path = path
        self._failure: BaseException | None = None
        self._untold = _Untold()
        self._owner = os.getpid()
        self._ended = Latch()  # until Python 3.13 a join() that Ctrl-C ends makes a thread look dead
        weakref.finalize(self, self._untold.warn)
        _start(staging.held, self._run, staging, staging.held)

    def _run(self, staging: Staging, held: Held | None) -> None:
        self._write(staging, held)
        self._ended.set()

    def _write(self, staging: Staging, held: Held | None) -> None:
        try:
            state = staging.finish()
            whole_file.write_whole_by(self.path, lambda path: self._save(state, path))
        except BaseException as error:  # wait() raises it
            self._failure = error
            self._untold.text = f"the save to {self.path} has failed: {error}. Call wait(), which raises that"
        finally:
            if held is not None:
                held.release()  # now: a failure, or a cycle, may keep its tensors

    def _save(self, state: Any, path: str) -> None:
        try:
            torch.save(state, path)
        except RuntimeError as error:  # a full disk: torch names neither the file nor the reason
            free = shutil.disk_usage(os.path.dirname(self.path)).free
            raise ZfError(f"{self.path} cannot be written, and its disk has {free} bytes free: make room, or save to "
                          f"another path ({error})") from error

    def done(self) -> bool:
        """Returns whether wait() would return at once. In a forked child it would: the file is the parent's."""
        return self._ended.is_set or os.getpid() != self._owner

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the file is there. timeout: in seconds; None: as long as it takes. Raises ZfTimeout if it is not
        there yet, and once what the save has failed with: the old file is then untouched."""
        end = time.monotonic() + timeout if timeout is not None else None
        while not self.done():
            left = 0.1 if end is None else min(0.1, end - time.monotonic())
            if left < 0:
                raise ZfTimeout(f"the save to {self.path} is not done after {timeout} s", "ZF_TIMEOUT")
            self._ended.wait(left)  # in pieces: Ctrl-C ends it
        failure, self._failure, self._untold.text = self._failure, None, ""
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # else the failure has this frame, and the frame the failure


def stager_of(hold: Callable[[], Held | None]) -> Any:
    """Returns an AsyncStager for torch.distributed.checkpoint.async_save(). Raises ZfError if this torch has none that
    stages beside training."""
    try:
        from torch.distributed.checkpoint.staging import AsyncStager, StagingOptions  # noqa: F401
    except ImportError:
        raise ZfError(f"torch {torch.__version__} has no checkpoint that is staged beside training: use save_async(), "
                      "or a newer torch") from None

    class Stager(AsyncStager):
        """Stages a state_dict with the copy that the optimizer's process makes of it."""

        _synchronize_after_execute = False

        def stage(self, state_dict: StateDict) -> Future[StateDict]:
            staged: Future[StateDict] = Future()
            held = hold()
            with released_on_failure(held):
                staging = Staging(held, state_dict)
            _start(held, _finish, staging, staged)
            return staged

        def synchronize_staging(self) -> None:
            """Does nothing: the state may be changed as soon as stage() has returned."""

        def close(self) -> None:
            """Does nothing: the copy goes with the tensors of it."""

    return Stager()


def _start(held: Held | None, work: Callable[..., None], *given: Any) -> None:
    thread = threading.Thread(target=work, args=given, name=SAVER)
    try:
        thread.start()
    except RuntimeError:  # there can be none; behind an interrupt there may be one that uses the copy
        if held is not None:
            held.release()
        raise


def _finish(staging: Staging, staged: Future[StateDict]) -> None:
    try:
        with released_on_failure(staging.held):
            state = staging.finish()
        staged.set_result(state)
    except BaseException as error:
        staged.set_exception(error)
