"""Ends a job with all its processes, when told to or when the program that started it is gone.

A job is stopped when it is not its turn. If the program that runs the turns is killed, it would stay so for ever.
So each job has a keeper, a process that waits for the end of its standard input: keeper.py MARK. All processes of a job
have the mark in the environment that they were started with, also those without a parent."""

import contextlib
import os
import pathlib
import signal
import sys
import time

VARIABLE = "TURNS_JOB"


def marked(mark: str) -> list[int]:
    """Returns the processes of the job with this mark. Those that have ended have no environment."""
    word, found = f"{VARIABLE}={mark}".encode(), []
    for environ in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if word in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def main():
    sys.stdin.read()
    while processes := marked(sys.argv[1]):
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
