"""Runs Python jobs in forks of a server that has imported torch: a short job would spend most of its time in imports.

The first test that needs a server starts it, and it ends with ctest, which has started that test. It has had no
parallel region, and no thread but one of numpy's OpenBLAS, which ends before a fork. It has nothing of ours: a job
imports zf_runtime itself. A job that looks at its environment, OpenMP, binding or command needs a process of its own.
All jobs of tests that ctest has not started have one."""

import concurrent.futures
import contextlib
import gc
import hashlib
import importlib
import json
import os
import pathlib
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import time

TORCH = "torch", "torch._dynamo", "torch.distributed.checkpoint"  # the first step of an optimizer imports the second
DEEPSPEED = *TORCH, "deepspeed"
# The owner of the server that a test uses. "ctest" stands for what has started the test; jobs get its number.
VARIABLE = "ZF_WARM"


def run(words, modules, *, cwd, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
    """Runs [python, "-B", script or "-m", module, arguments], as subprocess.run() with text that is captured."""
    owner = os.environ.get(VARIABLE)
    if owner is None or not modules:
        return subprocess.run(words, cwd=cwd, env=env, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=timeout, check=False)
    owner = str(os.getppid()) if owner == "ctest" else owner
    told = {"words": [str(word) for word in words[1:]], "cwd": str(cwd), "env": env | {VARIABLE: owner}}
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(concurrent.futures.ThreadPoolExecutor(2))
        server = stack.enter_context(_connected(words[0], modules, owner))
        nothing = os.open(os.devnull, os.O_RDONLY)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        socket.send_fds(server, [json.dumps(told).encode()], [nothing, out_end, err_end])
        for end in (nothing, out_end, err_end):
            os.close(end)
        said = [threads.submit(_read, end) for end in (out, err)]
        server.settimeout(timeout)
        try:
            status = server.recv(16)
        except TimeoutError:
            server.close()  # ends the job
            raise subprocess.TimeoutExpired(words, timeout, *(text.result() for text in said)) from None
        except ConnectionResetError:
            status = b""
        assert status, f"the server in {words[0]} ended: does it import {', '.join(modules)}?"
        # As with subprocess.run(), what the job has left running is waited for: a test does not overlook it.
        return subprocess.CompletedProcess(words, int(status), *(text.result() for text in said))


def run_ranks(words, modules, ranks: int, *, env: dict[str, str], **more) -> tuple[list[int], str]:
    """Runs that many ranks beside each other. Returns how each ended, and what they said."""
    with concurrent.futures.ThreadPoolExecutor(ranks) as threads:
        each = [threads.submit(run, words, modules, env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, **more)
                for rank in range(ranks)]
    done = [rank.result() for rank in each]
    return [rank.returncode for rank in done], "\n".join(rank.stdout + rank.stderr for rank in done)


def _read(end: int) -> str:
    with open(end) as file:
        return file.read()


def _connected(python: str, modules, owner: str) -> socket.socket:
    """Connects to the owner's server with these modules, and starts it if there is none."""
    name = "\0zf-warm-" + hashlib.sha256(" ".join((python, owner, *modules)).encode()).hexdigest()
    for attempt in range(1200):
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            server.connect(name)
        except ConnectionRefusedError:
            server.close()
            if attempt == 0:
                _start(python, name, owner, modules)
            time.sleep(0.05)
        else:
            assert _is_ours(server)
            return server
    raise TimeoutError("no server has begun")


def _start(python: str, name: str, owner: str, modules):
    from frameworks_case import framework_environment
    os.posix_spawn(python, [python, "-B", __file__, name[1:], owner, *modules], framework_environment(), setsid=True,
                   file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)])


def _is_ours(peer: socket.socket) -> bool:
    return struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == os.getuid()


def _serve(name: str, owner: str, modules) -> dict | None:
    """Returns what to run, in each job; and nothing when the owner has ended."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind("\0" + name)
    except OSError:  # another test was quicker
        return None
    listener.listen(64)
    ended = os.pidfd_open(int(owner))
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # no collection of a job looks at what is imported
    while ended not in (ready := select.select([listener, ended], [], [], 1)[0]):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if listener in ready:
            client, _ = listener.accept()
            if _is_ours(client) and os.fork() == 0:
                listener.close()
                os.close(ended)
                return _job(client)
            client.close()
    return None


def _job(client: socket.socket) -> dict:
    """Forks the job, and returns only there. Kills it if the test ends before it."""
    told, descriptors, *_ = socket.recv_fds(client, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        client.close()
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        return json.loads(told)
    for descriptor in descriptors:
        os.close(descriptor)
    done = os.pidfd_open(pid)
    if done not in select.select([client, done], [], [])[0]:
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(BrokenPipeError):
        client.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _become(words: list[str], cwd: str, env: dict[str, str]):
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = words[0] == "-B"
    words = words[words[0] == "-B":]
    is_module = words[0] == "-m"
    sys.argv = words[is_module:]
    sys.path[:1] = [cwd if is_module else str(pathlib.Path(words[0]).parent),
                    *filter(None, env.get("PYTHONPATH", "").split(":"))]
    if is_module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__" and (told := _serve(sys.argv[1], sys.argv[2], sys.argv[3:])) is not None:
    _become(**told)
