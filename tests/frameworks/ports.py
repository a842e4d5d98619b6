"""Where the ranks of a job meet."""

import socket

HELD: list[socket.socket] = []


def free_port() -> str:
    """Returns a port that the kernel gives to no other process: a socket stays bound to it until this process ends. A
    job can still listen there, because both sockets set SO_REUSEADDR and ours does not listen."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    HELD.append(held)
    return str(held.getsockname()[1])
