"""The runtime of an arena, and its steps. Where the arena outlives its process, each step is noted, and done by all
ranks of the job or by none."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ...errors import ZfError
from ...native.group import Group
from ...native.runtime import Runtime
from ..tensors.engine import Kept
from . import kept, ranks


class Steps:
    """All ranks make this object, and call its methods, in the same order."""

    runtime: Runtime  # after open()
    counts: torch.Tensor  #: of the steps of each group, for the arena

    def __init__(self, name: str | None):
        """name: to keep the arena under."""
        self.keeps = name is not None
        self.kept: Kept | None = None  #: what another process had left
        self.note_bytes = 0  #: room for the note of the program
        self.refusal = ""  #: why no step begins in backward
        self._ranks = None if name is None else ranks.of_this_job(name)
        self._owner = kept.Owner(b"")
        self._has_agreed = False
        self._steps = 0  # that were noted
        self._is_overwritten = False

    def open(self, groups: Sequence[Group], options: dict[str, Any], kinds: Callable[[], Iterable[Any]], *,
             more_bytes: int = 0, needs_log: bool = False) -> Runtime:
        """Opens the runtime. If something was kept, all ranks have done its last step then. kinds(): see
        kept.digest_of(). more_bytes: in each note, besides those of the program. needs_log: it is refused if the log of
        steps that begin in backward has no memory; else it is opened without."""
        self.counts = torch.zeros(len(groups), dtype=torch.float32, device="cpu")
        if not self.keeps:
            self.runtime = self._opened(groups, options, needs_log)
            return self.runtime
        self.note_bytes = options.get("note_bytes", kept.NOTE_BYTES) + more_bytes
        options = {**options, "note_bytes": kept.size_of(len(groups), self.note_bytes)}
        model, runtime = kept.digest_of(kinds()), None
        self._owner = (kept.Owner(model) if self._ranks is None
                       else kept.Owner(model, self._ranks.rank, self._ranks.count))
        try:
            self.runtime = runtime = self._opened(groups, options, needs_log)
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
                self.leave()
            raise
        self._steps = kept.step_of(note)
        self.kept = None if note is None else kept.take(note[1], self.counts)
        return runtime

    def _opened(self, groups: Sequence[Group], options: dict[str, Any], needs_log: bool) -> Runtime:
        try:
            return Runtime(groups=groups, **options)
        except ZfError as error:
            if error.status != "ZF_ERROR_SYSTEM" or needs_log or not any(group.speculative for group in groups):
                raise
            self.refusal = str(error)
        return Runtime(groups=[dataclasses.replace(group, speculative=False) for group in groups], **options)

    def _agree(self, found: ranks.Found) -> bool:
        self._has_agreed = True
        return self._ranks is not None and self._ranks.agree(found)

    def refuse(self, why: str) -> None:
        """Tells the other ranks that this rank cannot open what is kept. They wait for its answer."""
        if not self._has_agreed:
            with contextlib.suppress(ZfError):
                self._agree(ranks.Found(refusal=why))

    def leave(self) -> None:
        """Closes the runtime, unless it has what was kept: that is the next program's."""
        if not self.runtime.stats().was_kept:
            self.runtime.close()

    def submit(self, noted: Callable[[], tuple[torch.Tensor, bytes]], *given: Any, **more: Any) -> int:
        """Submits a step. With a name, waits first until all ranks have prepared it, and notes it. noted(): returns the
        counts after the step, and the note of the program. given and more: see Runtime.submit(). Returns a ticket."""
        if not self.keeps:
            return self.runtime.submit(*given, **more)
        note = kept.noted(*noted(), self._steps + 1, self._owner)
        if self._ranks is None:
            ticket = self.runtime.submit(*given, **more, note=note)
        else:
            self.runtime.prepare(*given, **more, note=note)
            self._ranks.meet(self._steps + 1)
            ticket = self.runtime.go()
        self._steps += 1
        if self._is_overwritten:
            self.runtime.overwriting(False)
            self._is_overwritten = False
        return ticket

    def skip(self) -> None:
        """Skips a step, as all ranks must."""
        if self._ranks is not None:
            self._ranks.meet(self._steps + 1, skips=True)

    def overwrite(self) -> None:
        """Is called before masters or moments are written. Nothing is kept from then until the next step, which makes
        them whole again; nor is anything kept before the first step."""
        if not self._is_overwritten and self._steps:
            self.runtime.overwriting(True)
            self._is_overwritten = True
