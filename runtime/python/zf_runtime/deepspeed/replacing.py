"""Puts functions of ours in the place of those of DeepSpeed's objects."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Callable

Function = Callable[..., Any]


def replace(owner: Any, name: str) -> Callable[[Function], Function]:
    """Decorates a function that takes the place of a function of an object. It gets the original as first argument."""
    original = getattr(owner, name)

    def put(ours: Function) -> Function:
        setattr(owner, name, functools.wraps(original)(functools.partial(ours, original)))
        return ours

    return put


def wrap(owner: Any, names: Iterable[str], before: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> None:
    """Makes functions of an object call before() first and after() last. A name that the object lacks is left out."""
    for name in (each for each in names if getattr(owner, each, None) is not None):
        @replace(owner, name)
        def between(function: Function, /, *args: Any, **keywords: Any) -> Any:
            before()
            result = function(*args, **keywords)
            after()
            return result
