"""The steps of an arena that outlives its process: each is noted, and done by all ranks of the job or by none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...errors import ZfError
from ...native.runtime import Runtime
from . import kept, ranks


class KeptSteps:
    """All ranks make this object, and call its methods, in the same order."""

    def __init__(self, name: str):
        self._ranks = ranks.of_this_job(name)
        self._owner = kept.Owner(b"")
        self._has_agreed = False
        self._steps = 0  # that were noted
        self._is_overwritten = False

    def open(self, kinds: Iterable[Any], make: Callable[[], Runtime]) -> tuple[Runtime, bytes | None]:
        """Returns a runtime, and the note of the last step, which all ranks have done; None: there is none. kinds: see
        kept.digest_of(). make(): opens a runtime with room for the note."""
        runtime = None
        model = kept.digest_of(kinds)
        self._owner = (kept.Owner(model) if self._ranks is None
                       else kept.Owner(model, self._ranks.rank, self._ranks.count))
        try:
            runtime = make()
            note, prepared = runtime.note(), runtime.prepared()
            for each in (note, prepared):
                if each is not None:
                    kept.check(each[1], self._owner)
            if self._agree(ranks.Found(kept.step_of(note), kept.step_of(prepared))):
                runtime.wait(runtime.go())
                note = runtime.note()
        except BaseException as error:
            if isinstance(error, ZfError):
                self.refuse(str(error))
            if runtime is not None:
                self.leave(runtime)
            raise
        self._steps = kept.step_of(note)
        return runtime, None if note is None else note[1]

    def _agree(self, found: ranks.Found) -> bool:
        self._has_agreed = True
        return self._ranks is not None and self._ranks.agree(found)

    def refuse(self, why: str) -> None:
        """Tells the other ranks that this one cannot open what is kept: they wait for it."""
        if not self._has_agreed:
            with contextlib.suppress(ZfError):
                self._agree(ranks.Found(refusal=why))

    @staticmethod
    def leave(runtime: Runtime) -> None:
        """Closes a runtime, unless it has what was kept: that is the next program's."""
        if not runtime.stats().was_kept:
            runtime.close()

    def submit(self, runtime: Runtime, counts: torch.Tensor, note: bytes, *given: Any, **more: Any) -> int:
        """Submits a step when all ranks have it. counts: of each parameter, after it. note: of the program. given and
        more: see Runtime.submit(). Returns a ticket."""
        noted = kept.noted(counts, note, self._steps + 1, self._owner)
        if self._ranks is None:
            ticket = runtime.submit(*given, **more, note=noted)
        else:
            runtime.prepare(*given, **more, note=noted)
            self._ranks.meet(self._steps + 1)
            ticket = runtime.go()
        self._steps += 1
        if self._is_overwritten:
            runtime.overwriting(False)
            self._is_overwritten = False
        return ticket

    def skip(self) -> None:
        """Skips a step, as all ranks must."""
        if self._ranks is not None:
            self._ranks.meet(self._steps + 1, skips=True)

    def overwrite(self, runtime: Runtime) -> None:
        """Is called before masters or moments are written, which are whole again with the next step: until then nothing
        is kept. Before the first step nothing is, either."""
        if not self._is_overwritten and self._steps:
            runtime.overwriting(True)
            self._is_overwritten = True
