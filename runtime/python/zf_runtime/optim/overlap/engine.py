"""The engine of a process: where the step overlaps training, or parameters are on a GPU."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, Callable

import torch
from torch.optim.optimizer import _global_optimizer_post_hooks

from ...errors import ZfError, ZfTimeout, ZfWorkerDied
from ...native.runtime import Runtime
from ...native.scalars import Scalars, scalars
from ..tensors import clipping, formats, hashing, others
from ..tensors.eligibility import local_of
from ..tensors.engine import ParamGroup
from ..tensors.streams import Device, compared
from . import compiled, ddp_hook
from .arena import Arena, Place, first_numbers
from .gates import Order
from .gradients import Copied
from .held import Held
from .opened import Opened, Wanted, end, unhook
from .reads import Memory, Reads, are_seen
from .refusals import refuse, refuse_moved, refuse_settings, refuse_shared
from .state import Stated, show
from .timeline import Span, Timeline
from .turn import Turn


def _unseen(method: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a method look at the state while a step is begun that is not decided."""

    @functools.wraps(method)
    def run(self: OverlapEngine, *given: Any, **named: Any) -> Any:
        with self._reads.unseen():
            return method(self, *given, **named)

    return run


class OverlapEngine(Stated):
    """Steps in a process of its own: see Engine."""

    def __init__(self, optimizer: torch.optim.Optimizer, mode: str, options: dict[str, Any], *, wants_norm: bool,
                 speculates: bool):
        """options: keywords of Runtime. wants_norm: gradients are copied with their norms, from the first one on.
        speculates: in mode exact steps begin in backward."""
        super().__init__(optimizer)
        self._options = options
        self._mode = mode
        self.opened: Opened | None = None
        self._devices: dict[torch.device, Device] = {}
        self._order = None if mode == "off" else Order(
            self, "Call optimizer.synchronize() before such a forward, or use overlap=\"off\"",
            saves_late=mode == "late")
        self._reads = Reads(self, Memory)
        self._thread = threading.get_ident()  # that made the optimizer
        self._arrivals: dict[torch.Tensor, Any] = {}  # hooks
        self._averaged: set[int] = set()  # parameters of a DistributedDataParallel, by id
        self._timeline = Timeline()
        self._turns = 0
        self._wants_norm, self._speculates = wants_norm, speculates
        self._was_asked = False  # for the norm, since the last step
        self._is_on_gpu = False

    # ---- the arena ----

    def open(self) -> None:
        for group in self._optimizer.param_groups:
            refuse_settings(group)
        self._open([each for each in first_numbers(self._optimizer.param_groups) if each[0].requires_grad])

    def check_open(self) -> None:
        self._require()

    def _open(self, wanted: Wanted) -> None:
        """Opens an arena for parameters, with the state of the present one. An interrupt leaves the present one."""
        before = self.opened
        if before is not None:
            self._finish()
            stated = [place for place in before.arena.places if place.param in self._optimizer.state]
            self._take_edits(stated, stated)
            before.thin()
        others.settle(self, [param for param, _, _ in wanted])
        live = Opened(wanted, self._mode, self._options, self._devices, self._timeline, speculates=self._speculates)
        if live.speculation is not None:
            copied = weakref.WeakMethod(self._copied)
            live.gradients.on_copied = lambda copies: (method := copied()) and method(copies)
        finalizer = weakref.finalize(self, end, live, self._order, self._arrivals, self._reads)
        finalizer.atexit = not live.arena.steps.keeps  # a program that ends without close() leaves it
        if live.arena.steps.refusal:
            self._say(f"no step begins in backward, since its log has no memory: {live.arena.steps.refusal}")
        if before is not None:
            for param, place in live.arena.of.items():
                old = before.arena.of.get(param)
                if old is None or old.exp_avg.shape != place.exp_avg.shape:
                    continue
                if param in self._optimizer.state or not old.is_shown:  # else the program has removed it, to begin anew
                    place.restore(old)
        if self._order is not None:  # before their first step
            self._order.want(live.arena.of)
            self._watch()
        if self._mode == "exact":
            compiled.tell(self)
            self._listen(live.arena)
        self._is_on_gpu = any(device.type == "cuda" for device in self._devices)
        self.kept = live.arena.steps.kept
        self.opened, self._finalizer, last = live, finalizer, getattr(self, "_finalizer", None)
        others.remember(self)
        self._show_kept(() if self.kept is None else live.arena.places)
        if before is not None:
            for place in live.arena.places:  # a state that the program has moved to a new parameter is taken later
                old = before.arena.of.get(place.param)
                if (place.param in self._optimizer.state and old is not None
                        and old.exp_avg.shape == place.exp_avg.shape):
                    show(place, self._optimizer.state)
            assert last is not None
            last.detach()
            before.close(keeps=False)

    def _show_kept(self, places: Iterable[Place]) -> None:
        """Shows the state that another process had left: else it is not in a state_dict() before the next step. What
        the program writes to the parameters from now on differs from what was left."""
        for place, digest, _ in self._digests(places):
            place.digest = digest
            if place.count > 0:
                show(place, self._optimizer.state)

    def _listen(self, arena: Arena) -> None:
        """Lets each parameter tell of its gradients."""
        reference = weakref.ref(self)

        def arrived(param: torch.Tensor) -> None:
            optimizer = reference()
            if optimizer is not None:
                optimizer._arrived(param)

        for param in arena.of:
            if param not in self._arrivals and param.requires_grad:
                self._arrivals[param] = param.register_post_accumulate_grad_hook(arrived)

    def first_share(self) -> float:
        """See Opened.first_share()."""
        return self._require().first_share()

    def _require(self) -> Opened:
        if self.opened is None and not self._is_closed:  # a copy, at its first use
            self.open()
        if self.opened is None:
            raise ZfError("the optimizer is closed")
        if not self.opened.is_here:
            raise ZfError("a forked child cannot use the optimizer of its parent; make one here", "ZF_ERROR_FORKED")
        return self.opened

    @property
    def runtime(self) -> Runtime:
        return self._require().arena.runtime

    @property
    def note_bytes(self) -> int:  # type: ignore[override]
        return self._require().arena.steps.note_bytes

    @property
    def memory_note(self) -> str:  # type: ignore[override]
        return self._require().arena.memory_note

    # ---- what training calls ----

    @torch.no_grad()
    @_unseen
    def step(self, limit: float | None, scale: float) -> float | None:
        if self._mode != "late":
            self._wait_for_steps()
        self._refuse_graphs()
        places = self._active()
        live = self._require()
        self._wants_norm, self._was_asked = self._was_asked or limit is not None, False  # in the next backward, too
        began = time.perf_counter_ns()
        # Late, the step before last read this buffer, and is done: copies run beside the optimizer.
        collected = live.gradients.collect(places, live.buffer, limit is not None and not live.is_sharded)
        self._timeline.add("copy", self._turns + 1, -1, began, time.perf_counter_ns())
        self._wait_for_steps()  # late: the parameters are read out before the next step may change them
        began = time.perf_counter_ns()
        self._take_edits(places, self._same())
        self._take_written(places)
        norm = None
        if limit is not None:
            norm = live.norm(places, collected) * abs(scale)
            scale *= clipping.coefficient(norm, limit)
        self._timeline.add("check", self._turns + 1, -1, began, time.perf_counter_ns())
        is_kept = scale == 1.0
        if places and math.isfinite(scale):
            is_kept = self._hand_over(places, scale, collected.events) and is_kept
        else:
            self._take_back()
            live.arena.steps.skip()
        self._reads.stay(live.speculation is not None and live.speculation.stepped(
            is_kept, None if live.is_sharded else limit, is_allowed=self._hides()))
        if live.gradients.stepped(collected.rewritten):
            self._say("gradients were written between backward and step(), as torch's clip_grad_norm_() and "
                      "GradScaler do. So they were copied twice, and early copies pause: clip with clip_grad_norm= of "
                      "AdamW or max_norm= of step(), or use optimizer.clip_grad_norm_()")
        if self._mode == "off" or (self._mode == "exact" and not self._hides()):
            self._finish()
        return norm

    @_unseen
    def hold(self) -> Held:
        live = self._require()
        is_split = any(place.is_split for place in live.arena.places)  # then state_dict() reads masters
        if is_split or not live.overlap.is_just_begun() or self._is_written_beside():
            self.settle()
        live.arena.copying()  # first: an interrupt may come between
        return Held(live.arena.runtime, live.arena.places)

    def _is_written_beside(self) -> bool:
        """Returns whether the program has written a parameter that the last step does not have: no step has taken that.
        Those of a step that has just begun cannot have been written since."""
        turn = self._require().overlap.turn
        rest = [place for place in self._same() if turn is None or id(place) not in turn.share_of]
        return any(differs for *_, differs in self._digests(rest))

    def synchronize(self) -> None:
        if self.opened is not None:
            live = self._require()
            self._finish()
            live.arena.wait_for_copy()

    def wait_for_process(self) -> None:
        """Waits until the process is idle, and keeps late what is late: for zf-tune record."""
        live = self._require()
        if self._mode == "late":
            live.overlap.wait_for_process(live.arena.runtime)
        else:
            self._finish()

    @torch.no_grad()
    @_unseen
    def norm(self) -> float:
        self._require()
        self._was_asked = True
        if self._mode != "late":
            self._wait_for_steps()
        places = self._active()
        live = self._require()
        return live.norm(places, live.gradients.collect(places, live.buffer, not live.is_sharded, is_last=False))

    def _finish(self) -> None:
        """Waits for the steps that are under way: its own, and those of others over its parameters. Takes back what is
        begun in backward."""
        if self.opened is not None and self.opened.is_here:
            self._take_back()
            self._wait_for_steps()

    def _wait_for_steps(self) -> None:
        if self.opened is not None and self.opened.is_here:
            self._finish_own()
            others.settle(self, self.opened.arena.of)

    def _take_back(self) -> None:
        """Takes back what is begun in backward: masters and moments are then those of the last step."""
        live = self.opened
        if live is not None and live.speculation is not None and live.speculation.is_begun:
            self._finish_own()  # an interrupt may have handed it over
            live.speculation.take_back()
            self._reads.look_again()

    def _finish_own(self) -> None:
        assert self.opened is not None
        _warn_of_lost(self.opened.overlap.finish())
        self._reads.look_again()
        self._rest_if_idle(self.opened)

    def _pending(self) -> Set[torch.Tensor]:
        """Returns the parameters with a step that is under way, or that may be under way for the caller's stream."""
        live = self.opened
        return set() if live is None or not live.is_here or live.overlap.turn is None else live.arena.of.keys()

    # ---- who waits ----

    def wait_for(self, places: Sequence[Place]) -> list[Place] | None:
        """See Overlap.wait_for()."""
        live = self.opened
        if live is None:
            return None
        self._refuse_graphs()
        self._take_back()
        return live.overlap.wait_for(places)

    def is_done(self, place: Place) -> bool:
        """Returns whether a parameter needs no wait any more."""
        live = self.opened
        return live is None or (live.overlap.is_done(place)
                                and (live.speculation is None or not live.speculation.has(place)))

    def wait_for_all(self) -> None:
        """Waits for the whole step."""
        self._finish()

    def backward_begins(self, roots: Any) -> None:
        """Waits for the whole step. Raises ZfError if what was built since then has read a parameter unseen. roots: of
        the graph."""
        live = self.opened
        if live is None or not live.is_here:
            return
        turn, unseen = live.overlap.unseen()
        if turn is not None and self._order is not None:
            self._order.refuse_unseen([place.param for place in unseen], turn.first_node, roots)
        self._finish()

    def before_forward(self, module: torch.nn.Module, params: Sequence[int]) -> None:
        """Waits for the parameters of a module that is called, or for all if what its forward reads is not seen.
        params: their ids. The caller has seen that this is the process that opened it. Each module costs this."""
        live, reads = self.opened, self._reads
        if self._mode != "exact" or live is None:
            return
        self._refuse_graphs()
        if reads.is_waiting or reads.stays:
            reads.before_forward(module, params)
        if live.gradients.has_new and torch._C._current_graph_task_id() == -1:  # else a checkpoint's, inside a backward
            live.gradients.begin()
        if not reads.is_waiting:
            self._rest_if_idle(live)

    def _rest_if_idle(self, live: Opened) -> None:
        """Leaves the stack of modes, and looks at no module, where nothing may have to be waited for."""
        if (self._mode == "exact" and self._reads.leave()  # else a later call must take it out
                and self._turns and not live.gradients.has_new and self._order is not None):
            self._order.rest()

    def compiles(self) -> None:
        """Is called before torch.compile compiles something: it must not find our mode, nor our hook."""
        if self._mode == "exact" and self.opened is not None and self.opened.is_here:
            self._finish()
            self._reads.end()
            if self._order is not None:
                self._order.rest()

    # ---- gradients ----

    def _copied(self, copies: Sequence[Copied]) -> None:
        """Lets steps begin in backward."""
        live = self.opened
        if live is not None and live.speculation is not None and self._reads.stays:
            self._reads.guard(live.state_memory, live.arena.places)  # first: an interrupt may come between
            live.speculation.offer(copies)

    def _arrived(self, param: torch.Tensor) -> None:
        """Takes a gradient that has just been accumulated."""
        live = self.opened
        place = live.arena.of.get(param) if live is not None and live.is_here else None
        if live is None or place is None:
            return
        if live.overlap.is_under_way(place) and self._order is not None:  # nothing has seen this backward begin
            raise self._order.was_read_unseen(param)
        if id(param) not in self._averaged:
            live.gradients.arrived(place, self._wants_norm and not live.is_sharded)
            if live.gradients.has_new:
                self._watch()

    def listen_to(self, ddp: torch.nn.Module) -> None:
        """Takes the gradients of a DistributedDataParallel when they are averaged."""
        if self._mode == "exact":
            self._averaged.update(map(id, torch.nn.Module.parameters(ddp)))
            if not ddp_hook.listen(ddp, self):
                self._say("DistributedDataParallel has a communication hook of its own, so gradients are copied after "
                          "backward, and not in it")

    def _reduced(self, params: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
        """Takes gradients that DDP has averaged."""
        live = self.opened
        if live is None or not live.is_here:
            return
        of = live.arena.of
        pairs = [(of[param], gradient) for param, gradient in zip(params, gradients)
                 if param in of and not live.overlap.is_under_way(of[param])]  # else step() copies it
        live.gradients.reduced([place for place, _ in pairs], [gradient for _, gradient in pairs], self._wants_norm)
        self._watch()

    def _watch(self) -> None:
        """Lets the next forward call before_forward()."""
        if self._order is not None and not (self._mode == "exact" and compiled.is_used()):
            self._order.watch(is_told=self._mode == "exact" and self._turns > 0)

    # ---- a step ----

    def _active(self) -> list[Place]:
        """Returns the places of all parameters that have gradients, in the order of the param_groups. Opens the arena
        anew if one of them has none, or is of another kind now."""
        every = first_numbers(self._optimizer.param_groups)
        live = [each for each in every if each[0].grad is not None]
        of = self._require().arena.of
        if any(param not in of or of[param].kind != hashing.kind(local_of(param)) for param, _, _ in live):
            self._require().arena.refuse_successor()
            self._open([each for each in every if each[0].grad is not None or each[0].requires_grad or each[0] in of])
            of = self._require().arena.of
        for group in self._optimizer.param_groups:
            refuse_settings(group)
        for param, settings, _ in live:
            of[param].settings = settings
        places = [of[param] for param, _, _ in live]
        refuse_moved(places)
        return places

    def _take_written(self, places: Iterable[Place]) -> None:
        """Takes what the program has written to parameters. No step may be running."""
        for place, digest, differs in self._digests(places):
            if differs:
                self._take_back()
                self._require().arena.overwrite()
                place.take_written()
                place.digest = digest

    def _digests(self, places: Iterable[Place]) -> Iterator[tuple[Place, Any, bool]]:
        """Returns places with the digest of their parameters, and whether that is another one than the last one."""
        places = list(places)
        found = compared(self._devices, [place.local for place in places], [place.digest for place in places])
        return ((place, digest, differs) for place, (digest, differs) in zip(places, found))

    def _hand_over(self, places: list[Place], scale: float, sources: list[Any]) -> bool:
        """Returns whether a step that is begun in backward is kept."""
        live = self._require()
        for place in places:
            if not place.is_shown:
                show(place, self._optimizer.state)
        order = () if self._order is None else self._order.read.values()
        shares = live.shares_of(places, order)
        counts = live.arena.counts.tolist()
        kinds: dict[tuple[int, float], int] = {}
        factors: list[Scalars] = []
        scalars_of = []
        for place in (place for share in shares for place in share.places):
            key = (id(place.settings), counts[place.index])
            if key not in kinds:
                kinds[key] = len(factors)
                factors.append(scalars(place.settings, key[1] + 1, True, scale))
            scalars_of.append(kinds[key])
        if self._mode == "exact":
            # A graph over old values is refused now.
            others.raise_versions([tensor for place in places for tensor in place.tensors])
        is_kept = True
        if live.speculation is not None:
            indexes = (place.index for share in shares for place in share.places)
            is_kept = live.speculation.is_kept({index: factors[kind] for index, kind in zip(indexes, scalars_of)})
        turn = Turn(self._turns + 1, shares, live.buffer, factors, scalars_of, sources, live.overlap.readers(),
                    is_late=self._mode == "late", note=self.note)
        self._turns += 1
        live.buffer ^= int(self._mode == "late")  # before an interrupt can come: the step reads the other one
        if self._mode == "exact":  # first, so that an interrupt leaves no step that is not waited for
            compiled.tell(self)
            self._reads.begin(places)
            self._watch()
        live.overlap.begin(turn)
        return is_kept

    def _hides(self) -> bool:
        """Returns whether a step may go on when step() returns."""
        if not are_seen(self._thread):
            return False
        hooks = (*self._optimizer._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values())
        if not all(getattr(hook, "reads_no_parameters", False) for hook in hooks):
            return False
        if compiled.is_used():
            self._say("overlap=\"exact\" with torch.compile: what it has compiled reads unseen, so step() waits")
            return False
        return True

    def _refuse_graphs(self) -> None:
        if self._is_on_gpu and torch.cuda.is_current_stream_capturing():
            raise ZfError("a CUDA graph is captured: its replay would wait for no parameter and show no gradient. "
                          "Use torch.optim.AdamW(capturable=True), or no graph")

    def check_group(self, group: ParamGroup) -> None:
        if self.opened is not None or self._is_closed:
            self._require()
        refuse_settings(group)
        for param in group["params"]:
            refuse(param, self._mode)
            formats.number_of(param, group)
        if self.opened is not None:
            refuse_shared([param for param, _, _ in first_numbers(self._optimizer.param_groups) if param.requires_grad])

    def timeline(self) -> list[Span]:
        return self._timeline.spans()

    def begin_close(self) -> None:
        if self.opened is not None:
            self.opened.arena.runtime.end_waits()

    def close(self) -> None:
        try:
            if self.opened is not None and self.opened.is_here:
                with contextlib.suppress(ZfWorkerDied, ZfTimeout):  # Opened.close() reports it
                    _warn_of_lost(self.opened.overlap.finish())
                    self.opened.await_process()
        except Exception:
            self._close()
            raise
        self._close()  # behind the waits: an interrupt of one leaves all as it is

    def _close(self) -> None:
        live = self.opened
        try:
            self.opened, self._is_closed = None, True
            if live is not None and live.is_here:
                for param, low in live.close().items():
                    if self._optimizer.state.get(param):  # else the program has removed it
                        self._optimizer.state[param]["low"] = low
            elif live is not None:  # in a forked child: process and step are the parent's
                live.arena.runtime.close()
        finally:
            if live is not None:
                self._finalizer.detach()
                with contextlib.suppress(ZfError):  # an interrupt may have come before its end
                    live.arena.runtime.close()
            unhook(self._order, self._arrivals, self._reads)
            self._order = None

    def _say(self, line: str, stacklevel: int = 5) -> None:
        super()._say(f"zf_runtime.AdamW: {line}", stacklevel)


def _warn_of_lost(places: list[Place]) -> None:
    if places:
        parameters = "1 parameter was" if len(places) == 1 else f"{len(places)} parameters were"
        warnings.warn(f"{parameters} written while the step was running: the written values stay, and their step is "
                      "lost. Call synchronize() before writing", stacklevel=5)
