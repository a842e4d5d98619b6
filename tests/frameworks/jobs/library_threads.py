"""No training: says how many threads torch and numpy were told to use, as their libraries answer."""

import ctypes
import pathlib

import numpy
import report
import torch


def openblas_threads() -> int | None:
    """Returns the number that the OpenBLAS of numpy's wheel has; nothing if this numpy has another library."""
    for library in pathlib.Path(numpy.__file__).parent.parent.glob("numpy.libs/libscipy_openblas64_*"):
        return ctypes.CDLL(str(library)).scipy_openblas_get_num_threads64_()
    return None


numpy.ones((2, 2)) @ numpy.ones((2, 2))  # numpy has loaded its library
report.say(torch=torch.get_num_threads(), numpy=openblas_threads())
