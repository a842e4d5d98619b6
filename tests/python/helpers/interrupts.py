"""Interrupts a call: at its n-th line inside the package, or by a real signal after a random time."""

import dis
import linecache
import os
import random
import signal
import sys
import time

import support

PACKAGE = str(support.PACKAGE / "zf_runtime") + os.sep
LONG = int(os.environ.get("ZF_INTERRUPTS", "0"))  # how many of each kind; 0: about 100 in all


class Interrupt(BaseException):
    """What the handler of a signal raises, like KeyboardInterrupt."""


def _is_ours(code):
    return code.co_filename.startswith(PACKAGE)


def at_line(number, call, is_meant=_is_ours):
    """Runs call() and raises Interrupt in it before the `number`-th line of the code that is_meant(code), or the next
    one before which a signal can come. Returns whether it did."""
    left, came = number, False

    def trace(frame, event, argument):
        nonlocal left, came
        if not is_meant(frame.f_code):
            return None
        if event == "line":
            left -= 1
            if left <= 0 and not _leaves_with(frame):
                came = True
                raise Interrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        pass
    finally:
        sys.settrace(None)
    return came


def _leaves_with(frame):
    """Returns whether what comes next is the __exit__() of a `with`, which is traced as its line once more. Python
    (since 3.10) handles no signal there, and an exception would leave what was entered as it is."""
    if not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
        return False
    return frame.f_lasti != next(at for at, line in dis.findlinestarts(frame.f_code) if line == frame.f_lineno)


def calling(handler, call, number=None):
    """Runs call(), and handler() before the `number`-th line of our files, as a signal handler that raises nothing;
    None: before every line."""
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            if left is None:
                handler()
            else:
                left -= 1
                if left == 0:
                    handler()
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)


def lines_of(call):
    """Runs call() and returns how many lines of our files it runs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


def by_signal(seconds, call):
    """Runs call() while a signal comes after so many seconds. Returns whether its handler raised."""
    came = False

    def handler(number, frame):
        nonlocal came
        came = True
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return came


def some_lines(last, few):
    """Returns the numbers of lines to interrupt at: all in a long run, else `few`, evenly spread."""
    return list(range(1, last + 1)) if LONG or last <= few else sorted({1 + n * last // few for n in range(few)})


class _AfterATime:
    """by_signal(), which also keeps how long the call took."""

    def __init__(self, seconds):
        self.seconds, self.took = seconds, 0.0

    def __call__(self, call):
        started = time.perf_counter()
        came = by_signal(self.seconds, call)
        self.took = time.perf_counter() - started
        return came


def signals(call_round, few, seed):
    """Calls call_round(interrupt, turn) until as many signals came as are wanted: see LONG. interrupt(call) runs call()
    while a signal comes after a random time. It returns whether one came, and so does call_round()."""
    generator, came, longest, turn = random.Random(seed), 0, 1e-3, 0
    wanted = LONG or few
    while came < wanted:
        interrupt = _AfterATime(generator.uniform(0, longest))
        came_now = call_round(interrupt, turn)
        came += came_now
        turn += 1
        longest = 0.9 * longest + 0.1 * min(1.3 * interrupt.took, 1) if not came_now else longest * 1.02
        assert turn < 100 * wanted, f"{came} signals came in {turn} calls"
