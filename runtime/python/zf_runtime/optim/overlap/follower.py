"""The thread beside training that does the steps which are handed over."""

from __future__ import annotations

import abc
import atexit
import os
import queue
import sys
import threading
import weakref
from typing import Any, Callable, Generic, TypeVar

import torch

from ...errors import ZfError
from ..tensors.threads import FOLLOWER, Latch, yield_to_the_job
from . import graphs

_LOOK_S = 0.2  # how often a wait looks whether the thread still lives
PATIENCE_S = 60.0  # so long others wait for a turn without a word
LATE = f"a step of the optimizer process is not done after {PATIENCE_S:.0f} s: "
FORK_WAITS = "a fork waits for it, since the child would have old weights"
END_WAITS = "the end of its optimizer waits for it"


class Followed:
    """One step."""

    def __init__(self) -> None:
        self.first_node = graphs.now()  # of autograd, that is built since
        self.ended = Latch()  # set when the parameters hold its results, or `error` says why not
        self.error: BaseException | None = None
        self.is_named = False  # a fork has said the error


T = TypeVar("T", bound=Followed)


class Follower(abc.ABC, Generic[T]):
    """A thread that does turns, one after the other. It alone waits for the runtime while a turn goes on. It ends
    with this object, too: an interrupt may come before anything else can end it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.turn: T | None = None  # the last one. The thread that sets it calls call() then, and again if in doubt
        self._calls: queue.SimpleQueue[bool] = queue.SimpleQueue()
        weakref.finalize(self, self._calls.put, False).atexit = False
        self._thread = threading.Thread(target=_serve, args=(self._calls, weakref.ref(self)), name=FOLLOWER,
                                        daemon=True)
        self._thread.start()
        _followers.add(self)

    @abc.abstractmethod
    def _do(self, turn: T) -> None:
        """Does a turn, in the thread, and sets all its latches; does nothing if it is not handed over yet."""

    @abc.abstractmethod
    def _leave(self) -> None:
        """Frees what the thread alone has. The thread calls it last."""

    @abc.abstractmethod
    def _goes_on(self, turn: T) -> bool:
        """Returns whether the end of a turn comes whatever the program does."""

    def call(self) -> None:
        """Lets the thread look at `turn`."""
        self._calls.put(True)

    def wait(self, latch: Latch) -> None:
        """Waits for a latch of the turn."""
        while not latch.wait(_LOOK_S):
            self.call()  # an interrupt may have come before the first call
            if not self._thread.is_alive():
                raise ZfError("the thread that follows the optimizer process has ended; make a new optimizer "
                              "or engine")

    def settle(self, *, gives_up: bool) -> None:
        """Waits until the parameters hold the results of the last turn, if that comes by itself. gives_up: after
        60 s."""
        turn = self.turn
        if (turn is None or turn.ended.is_set or self.owner != os.getpid() or not self._goes_on(turn)
                or threading.current_thread() is self._thread or not self._thread.is_alive()):
            return
        self.call()
        if not turn.ended.wait(PATIENCE_S):
            _say(LATE + ("it is left" if gives_up else FORK_WAITS))
            if not gives_up:
                self.wait(turn.ended)

    def end(self) -> None:
        """Ends the thread, after its turn. The second call does nothing. In a forked child there is none."""
        if self.owner == os.getpid():
            self._calls.put(False)
            if threading.current_thread() is not self._thread:
                self._thread.join(PATIENCE_S)
                if self._thread.is_alive():
                    _say(LATE + END_WAITS)
                    self._thread.join()
            self.turn = None

    def _look(self) -> None:
        turn = self.turn
        if turn is not None and not turn.ended.is_set:
            self._do(turn)


def _serve(calls: queue.SimpleQueue[bool], its: Callable[[], Follower[Any] | None]) -> None:
    yield_to_the_job()
    with torch.no_grad():
        goes_on = True
        while goes_on:
            goes_on = calls.get()
            follower = its()
            if follower is None:
                return
            follower._look()
            if not goes_on:
                follower._leave()
            del follower  # while it waits it keeps none


_followers: weakref.WeakSet[Follower[Any]] = weakref.WeakSet()


def _before_fork() -> None:
    """A child has no thread that gives it the results."""
    for follower in list(_followers):
        follower.settle(gives_up=False)
        turn = follower.turn
        if follower.owner == os.getpid() and turn is not None and turn.error is not None and not turn.is_named:
            turn.is_named = True  # later children have what the program has since done about it
            _say(f"a forked child has old weights: their step has failed ({turn.error})")


def settle_all() -> None:
    """Waits for all turns, for at most 60 s each."""
    for follower in list(_followers):
        follower.settle(gives_up=True)


def _say(line: str) -> None:
    print(f"zf_runtime: {line}", file=sys.stderr, flush=True)


os.register_at_fork(before=_before_fork)
atexit.register(settle_all)
