"""Finds libzf_runtime.so, loads it once, and turns its statuses into exceptions."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import os
import pathlib
import sys
import sysconfig
from collections.abc import Iterator

from ..errors import ZfError, error_of
from . import abi

NAME = "libzf_runtime.so"
SONAME = NAME + ".0"


def _working_folder() -> str:
    with contextlib.suppress(OSError):  # it may have been removed
        return os.getcwd()
    return ""


# At import. Programs change theirs later, as Hydra does; a relative path in the environment belongs to this one.
_FOLDER = _working_folder()


def _candidates() -> Iterator[str]:
    """Yields the places to look in, in order: the build folder of the source tree that contains the package (pip
    install -e), the prefix that it was installed to, and where the system's loader finds it."""
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    package = pathlib.Path(__file__).resolve().parents[1]
    if len(package.parents) > 2 and (package.parents[2] / "CMakeLists.txt").exists():
        yield str(package.parents[2] / "build" / "lib" / SONAME)
    for prefix in dict.fromkeys([sys.prefix, "/usr/local", "/usr"]):
        if prefix == sys.prefix or package.is_relative_to(prefix):
            yield from (os.path.join(prefix, "lib", SONAME), os.path.join(prefix, "lib", triplet, SONAME))
    yield ctypes.util.find_library("zf_runtime") or SONAME


def _load() -> ctypes.CDLL:
    for name in ("ZF_RUNTIME_LIBRARY", "ZF_OPTIMIZER"):
        if "/" in (path := os.environ.get(name, "")):
            os.environ[name] = os.path.join(_FOLDER, path)
    wish = os.environ.get("ZF_RUNTIME_LIBRARY")
    tried = []
    for path in [wish] if wish else _candidates():
        if not wish and "/" in path and not os.path.exists(path):
            tried.append(path)
            continue
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
    remedy = "the library that ZF_RUNTIME_LIBRARY names cannot be loaded" if wish else (
        f"install both with `pip install .` in the source tree, or set ZF_RUNTIME_LIBRARY=/path/to/{NAME} (a build has "
        "it in build/lib), or install this package with `pip install -e .`, which finds the tree's build/lib, "
        "or the library with `cmake --install build` and ldconfig")
    raise ZfError(f"{NAME} was not found: {remedy} (tried: {'; '.join(tried)})", "ZF_ERROR_SYSTEM")


@functools.cache
def library() -> ctypes.CDLL:
    """Loads the library at the first call. Raises ZfError if it is not found or has another ABI version."""
    loaded = _load()
    try:
        abi.declare(loaded)
    except AttributeError as error:
        raise ZfError(f"{loaded._name} is older than this package: {error}", "ZF_ERROR_ABI") from None
    version = loaded.zf_abi_version()
    if version != abi.ABI_VERSION:
        raise ZfError(f"{loaded._name} has ABI version {version}, and this package needs {abi.ABI_VERSION}: "
                      "install both from one release", "ZF_ERROR_ABI")
    return loaded


def library_version() -> str:
    """Returns the version of the loaded library, "major.minor.patch"."""
    version: bytes = library().zf_version()
    return version.decode()


def check(status: int) -> None:
    """Raises the exception for `status`, with the text of this thread's last failure. Does nothing for ZF_OK."""
    if status == abi.OK:
        return
    name = library().zf_status_name(status).decode()
    text = "" if status == abi.TIMEOUT else library().zf_last_error().decode(errors="replace")
    raise error_of(name, text)
