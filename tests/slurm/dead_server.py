"""A file system with a server that does not answer, as NFS has if it is gone: a process that opens the folder waits,
and not even SIGKILL ends the wait. It is over when this program ends.
usage: dead_server.py DEVICE FOLDER      (DEVICE: a /dev/fuse)
"""

import ctypes
import os
import struct
import sys

INIT = 26  # linux/fuse.h
IN_HEADER = struct.Struct("=IIQQIIII")  # length, operation, number, ...
OUT_HEADER = struct.Struct("=IiQ")  # length, error, number
INIT_OUT = struct.Struct("=IIIIHHI40x")  # major, minor, ..., the largest write
LARGEST = 1 << 17


def main(device: str, folder: str) -> int:
    server = os.open(device, os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"dead-server", folder.encode(), b"fuse", 0, options.encode()) != 0:
        print(f"dead_server: cannot mount {folder}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 1
    while True:
        request = os.read(server, 2 * LARGEST)
        _, operation, number, *_ = IN_HEADER.unpack_from(request)
        if operation == INIT:
            major, minor = struct.unpack_from("=II", request, IN_HEADER.size)
            body = INIT_OUT.pack(major, minor, LARGEST, 0, 1000, 1000, LARGEST)
            os.write(server, OUT_HEADER.pack(OUT_HEADER.size + len(body), 0, number) + body)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
