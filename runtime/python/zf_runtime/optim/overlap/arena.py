"""The memory of parameters in the runtime's arena: one runtime group for each parameter, which has its own count."""

from __future__ import annotations

import ctypes
import mmap
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import ZfError
from ...native import abi
from ...native.cuda import HostRegistration
from ...native.group import STATE_FORMATS, Group, piece_bytes
from ...native.runtime import OPTIONS, Runtime
from ...native.scalars import Scalars
from ..tensors import formats, others
from ..tensors.eligibility import layout, local_of
from ..tensors.engine import Entry, ParamGroup
from ..tensors.hashing import Kind, bits, kind
from . import shards
from .steps import Steps

_HALVES = {torch.bfloat16: "bf16", torch.float16: "f16"}
_FORMAT_NAMES = {number: name for name, number in STATE_FORMATS.items()}

_ARENA_PAGE = 4096  # bytes; no two arrays share one: see arena_layout.cpp
_LOW_BITS_AT_A_TIME = 1 << 18  # elements: malloc() keeps little of what so few need


class Place:
    """One parameter and its memory in the arena; of a DTensor, the shard that is here.

    While no step is running, the parameter holds what its result holds, unless the program has written to it. The
    parameter is the truth then: take_written() takes what was written."""

    def __init__(self, index: int, param: torch.Tensor, settings: ParamGroup, first_element: int, buffers: int,
                 speculates: bool):
        """first_element: the parameter's number in the optimizer. buffers: for gradients, 1 or 2. speculates: its steps
        may be taken back, if its state format is fp32."""
        self.index = index  # of the runtime's group
        self.param = param
        self.settings = settings  # its param_group, where a step finds lr and the others
        self.kind: Kind = kind(self.local)
        self.address = self.local.data_ptr()  # where it shared no memory with others
        self.digest: Any = None  # of what was last published or read; None: any value counts as written
        self.loaded: torch.Tensor | None = None  # low bits, or the master to split, until the parameter is read
        number = formats.number_of(param, settings)
        half = _HALVES.get(param.dtype)
        self.is_split = formats.is_split(param, settings)
        self.first_element = first_element if formats.has_bf16_moments(settings) else None
        elements = self.local.numel()
        self.shape = Group(elements=elements, grad_type=half or "f32", copy_type=half, grad_buffers=buffers,
                           state_format=_FORMAT_NAMES[number],
                           speculative=speculates and _FORMAT_NAMES[number] == "fp32",
                           first_element=shards.first_here(param, self.first_element))
        self.is_large = False
        self.ends = [elements]  #: of the pieces, in elements

    @property
    def local(self) -> torch.Tensor:
        """The parameter, or what is here of it."""
        local: torch.Tensor = local_of(self.param)
        return local

    @property
    def tensors(self) -> list[torch.Tensor]:
        """What has a version of its own: the parameter, and `local`."""
        local = self.local
        return [local] if local is self.param else [self.param, local]

    @property
    def gradient(self) -> torch.Tensor | None:
        """The gradient of `local`."""
        return shards.gradient_here(self.param)

    def cut(self, chunk_bytes: int) -> None:
        """Cuts a large parameter into pieces."""
        piece = self.shape.chunk_elements(chunk_bytes)
        if self.shape.elements >= 2 * piece and self.local.is_contiguous():
            self.is_large = True
            self.ends = [*range(piece, self.shape.elements, piece), self.shape.elements]

    def attach(self, runtime: Runtime, count: torch.Tensor, *, is_kept: bool = False) -> None:
        """Takes the views, and the parameter's value into them; or gives the parameter the value that was kept."""
        param = self.local

        def view(kind: int) -> torch.Tensor:
            return runtime.tensor(self.index, kind).view(param.shape)

        self._runtime, self.shape = runtime, runtime.groups[self.index]  # maybe without a log
        self.exp_avg, self.exp_avg_sq = view(abi.MOMENT_1), view(abi.MOMENT_2)
        self.grads = [view(abi.GRADS_0 + buffer) for buffer in range(self.shape.grad_buffers)]
        self._master = None if self.is_split else view(abi.PARAMS)
        copy = None if self.shape.copy_type is None else view(abi.COPY)
        self.result = copy if copy is not None else self._master
        assert self.result is not None
        self.count = count  # the number of its last step
        self.is_shown = False
        self.entry: Entry = {}
        if is_kept:  # before anything compares it: a new model's value would count as written
            param.detach().copy_(self.result)
            others.raise_versions(self.tensors)
            return
        (self.result if self._master is None else self._master).copy_(param.detach())
        if copy is not None and self._master is not None:
            copy.copy_(param.detach())

    def show(self) -> None:
        """Makes `entry` anew: tensors over the same memory, for torch's `state`."""
        own: Entry = {"step": self.count, "exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq}
        if self._master is not None and self.param.dtype != torch.float32:
            own["master"] = self._master
        self.entry = {name: self.placed(value) for name, value in own.items()}
        if self.first_element is not None:
            self.entry["first_element"] = self.first_element
        self._layouts = {name: layout(value) for name, value in own.items()}
        self.is_shown = True

    def placed(self, value: torch.Tensor) -> torch.Tensor:
        """Returns another tensor over the same memory; it is a DTensor if the parameter is one."""
        return value.detach() if value is self.count else shards.placed_as(self.param, value)

    def is_own(self, name: str) -> bool:
        """Returns whether a tensor of `entry` still lies in this memory: a program may change that by `.data`."""
        return self._is_own(name, self.entry[name])

    def _is_own(self, name: str, value: Any) -> bool:
        return name not in self._layouts or layout(local_of(value)) == self._layouts[name]

    @property
    def state_arrays(self) -> list[torch.Tensor]:
        """What a step writes in the arena and `state` shows."""
        master = self.fp32_master
        return [self.exp_avg, self.exp_avg_sq, *(() if master is None else (master,))]

    @property
    def fp32_master(self) -> torch.Tensor | None:
        """The master that `state` shows."""
        return self._master if self.param.dtype != torch.float32 else None

    def holds(self, name: str, value: torch.Tensor) -> bool:
        """Returns whether a tensor is this place's own memory of that name, laid out as here."""
        own = {"exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq, "master": self._master}.get(name)
        return own is not None and layout(value) == layout(own)

    def reset(self) -> None:
        """Begins anew, as a parameter that was never stepped. No step may run."""
        self._give_away()
        self.exp_avg.zero_()
        self.exp_avg_sq.zero_()
        self.count.zero_()
        self.set_master(self.local.detach())
        self.digest, self.loaded, self.is_shown, self.entry = None, None, False, {}

    def _give_away(self) -> None:
        """Gives the tensors of `entry` memory of their own: the program may keep a state_dict() with them."""
        while self.entry:
            name, value = self.entry.popitem()
            if isinstance(value, torch.Tensor) and self._is_own(name, value):
                shards.set_apart(value)

    def forget_low_bits(self) -> None:
        """Makes the parameter the master if that is split: `state` does not show its low bits. No step may run."""
        if self.is_split:
            self.set_master(self.local.detach())
        self.digest, self.loaded = None, None

    @property
    def values(self) -> torch.Tensor:
        """The step's result, in the type of the parameter if that is a 16-bit one, else in fp32."""
        assert self.result is not None
        return self.result

    @property
    def arrays(self) -> list[torch.Tensor]:
        """The memory that crosses to a GPU, and back from it."""
        assert self.result is not None
        return [*self.grads, self.result]

    def master(self) -> torch.Tensor:
        """Returns the fp32 master: a view, or a copy if it is split. No step may run."""
        if self._master is not None:
            return self._master
        values = torch.empty(self.kind[0], dtype=torch.float32, device="cpu")
        self._state_range("zf_read_state", values, 0)
        return values

    def set_master(self, value: torch.Tensor) -> None:
        """Writes the master. No step may run."""
        if self._master is None:
            values = value.to("cpu", torch.float32).reshape(self.kind[0]).contiguous()
            self._state_range("zf_write_state", values, 0)
        else:
            self._master.copy_(value)

    def _state_range(self, function: str, values: torch.Tensor, begin: int) -> None:
        self._runtime._state_range(function, self.index, abi.PARAMS, begin, values.numel(), values.data_ptr())

    def low_bits(self) -> torch.Tensor:
        """Returns the low bits of a split master. Makes them in pieces, so that no second array of the master's size is
        needed."""
        param = self.local.detach().cpu().reshape(-1)
        low = torch.empty(param.shape, dtype=torch.int16, device="cpu")
        masters = torch.empty(min(_LOW_BITS_AT_A_TIME, param.numel()), dtype=torch.float32, device="cpu")
        for begin in range(0, param.numel(), _LOW_BITS_AT_A_TIME):
            piece = slice(begin, begin + _LOW_BITS_AT_A_TIME)
            some = masters[:low[piece].numel()]
            self._state_range("zf_read_state", some, begin)
            low[piece] = formats.low_bits(param[piece], some)
        return self.placed(low.view(self.kind[0]))

    @torch.no_grad()
    def take_written(self) -> None:
        """Takes what the program has written to the parameter, such as a loaded checkpoint or a write through `.data`.
        The master stays where it still rounds to the 16-bit parameter. A split master keeps its low bits. No step may
        run."""
        if self.param.dtype == torch.float32:
            self.values.copy_(self.local)
            return
        value, loaded, self.loaded = self.local.detach().cpu(), self.loaded, None
        if loaded is not None and (self.is_split or loaded.dtype == torch.int16):
            # Before the parameter is looked at: they are the low bits of its value.
            low = loaded if loaded.dtype == torch.int16 else formats.low_bits(value, loaded)
            self.set_master(formats.master_of(value, low) if value.dtype == torch.bfloat16 else value)
        if self._master is None:
            self.values.copy_(value)
            return
        is_rounded = bits(self._master.to(value.dtype)) == bits(value)
        self._master.copy_(torch.where(is_rounded, self._master, value.to(torch.float32)))
        if self.result is not self._master:
            self.values.copy_(value)

    def detach(self) -> list[torch.Tensor]:
        """Drops all views. The tensors that `state` shows stay with the program. Returns all other arrays."""
        hidden = [*self.arrays, *(() if self.is_shown else self.state_arrays)]
        self.entry, self.grads, self.result, self._master = {}, [], None, None
        self.__dict__.pop("exp_avg", None)
        self.__dict__.pop("exp_avg_sq", None)
        return hidden

    def thin(self) -> None:
        """Gives pages back to the kernel: those of gradients, which step() copies again, and of arrays with the values
        that the parameter holds, too. No step may run, and CUDA must not have pinned the pages."""
        self.digest = None
        for array in self.grads if self.is_split else self.arrays:
            give_back(array)

    def restore(self, other: Place) -> None:
        """Takes the state of another place of the same parameter. No step may run in either arena."""
        if other.kind[1] != torch.float32:  # else the parameter is all there is, and thin() may have dropped the master
            self.set_master(other.master())
        self.exp_avg.copy_(other.exp_avg)
        self.exp_avg_sq.copy_(other.exp_avg_sq)
        self.count.copy_(other.count)
        self.loaded, self.digest = other.loaded, None


def give_back(array: torch.Tensor) -> None:
    """Frees the whole pages of an array in the arena: they read as zeros. Where that is refused, they stay."""
    begin = -(-array.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = -(-(array.data_ptr() + array.nbytes) // _ARENA_PAGE) * _ARENA_PAGE // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_REMOVE)


class Arena:
    """An open runtime with a place for each parameter."""

    def __init__(self, wanted: Iterable[tuple[torch.Tensor, ParamGroup, int]], buffers: int,
                 options: dict[str, Any], *, speculates: bool = False):
        """wanted: parameters, each with its param_group and the number of its first element."""
        self.places = [Place(index, *each, buffers, speculates) for index, each in enumerate(wanted)]
        #: The factors of steps that are begun in backward and not decided, by the number of their place.
        self.begun: dict[int, Scalars] = {}
        self.of: dict[torch.Tensor, Place] = {place.param: place for place in self.places}
        self.registration: HostRegistration | None = None
        # A large parameter is stepped in pieces of chunk_bytes, and each is sent while the next one is stepped.
        chunk_bytes = options.get("chunk_bytes") or piece_bytes(
            max((place.shape.result_bytes for place in self.places), default=0))
        for place in self.places:
            place.cut(chunk_bytes)
        options = {**options, "chunk_bytes": chunk_bytes}
        self._is_copied = False  # a copy may be under way, which a save has begun
        self._hidden: list[torch.Tensor] = []  # arrays that no state has, once all views are given up
        self.steps = Steps(options.get("keep"))
        self.runtime = self.steps.open([place.shape for place in self.places], options, lambda: [
            (tuple(place.param.shape), str(place.param.dtype)) for place in self.places])
        self.counts = self.steps.counts
        try:
            was_kept = self.runtime.stats().was_kept
            for place in self.places:
                place.attach(self.runtime, self.counts[place.index], is_kept=self.steps.kept is not None)
                if was_kept and self.steps.kept is None:  # it had ended before its first step
                    place.reset()
        except BaseException:
            self.steps.leave()
            raise
        # A program that is all CPU gets no CUDA context from us.
        if any(place.param.is_cuda for place in self.places) or torch.cuda.is_initialized():
            self.registration = HostRegistration(array for place in self.places for array in place.arrays)

    def submit(self, factors: Sequence[Scalars], indexes: Sequence[int], counted: torch.Tensor, note: bytes | None,
               *, buffer: int, scalars_of: Sequence[int]) -> int:
        """Submits a step after which the parameters of the indexes `counted` count one more, when all ranks have it.
        note: of the program. Returns a ticket."""
        def noted() -> tuple[torch.Tensor, bytes]:
            counts = self.counts.clone()
            counts[counted] += 1
            return counts, note or b""

        return self.steps.submit(noted, factors, indexes, buffer=buffer, scalars_of=scalars_of)

    def copying(self) -> None:
        """Is called before a save begins a copy of masters and moments."""
        self._is_copied = True

    def wait_for_copy(self) -> None:
        """Waits until the copy of a save is made, for which the process must find masters and moments as they were. No
        step may be under way."""
        if self._is_copied:
            self.runtime.wait()
            self._is_copied = False

    def overwrite(self) -> None:
        """Is called before masters or moments are written. Waits for the copy of a save."""
        self.wait_for_copy()
        self.steps.overwrite()

    def refuse_successor(self) -> None:
        """Raises ZfError if no other arena can take the place of this one."""
        if self.steps.keeps:
            raise ZfError("with keep= no parameter can join, or change its shape or type, after the optimizer is made: "
                          "let all that will be trained require gradients before")

    @property
    def memory_note(self) -> str:
        """Why memory is not placed or pinned as it should be; "" if it is."""
        notes = [self.runtime.stats().memory_note, self.registration.note if self.registration else ""]
        return "; ".join(note for note in notes if note)

    def thin(self) -> None:
        """Unpins all memory, and gives back the memory of values that are elsewhere too. Moments and the masters of
        16-bit parameters stay. Waits for the copy of a save."""
        self.wait_for_copy()
        if self.registration is not None:
            self.registration.release()
        for place in self.places:
            place.thin()

    def release(self, keeps: bool) -> dict[torch.Tensor, torch.Tensor]:
        """Gives up all views. keeps: the states keep their memory as long as the program has them. Returns in this case
        the low bits of split masters, which `state` does not show."""
        if self.registration is not None:
            self.registration.release()
        lows = self._low_bits() if keeps else {}
        hidden = [array for place in self.places for array in place.detach()]
        self._hidden = hidden if keeps else []
        self.places, self.of = [], {}
        return lows

    def close(self) -> None:
        """Ends the process, and frees the memory that no state has. Raises what Runtime.close() raises."""
        hidden, self._hidden = self._hidden, []
        try:
            self.runtime.close()
        finally:
            for array in hidden:
                give_back(array)

    def _low_bits(self) -> dict[torch.Tensor, torch.Tensor]:
        try:
            return {place.param: place.low_bits() for place in self.places if place.is_split and place.is_shown}
        except ZfError as error:  # a step that was left half done
            warnings.warn(f"the low halves of split masters are lost, the masters are the parameters: {error}",
                          stacklevel=4)
            return {}


def options_for(given: dict[str, Any], plan: str | os.PathLike[str] | None, rank: int | None,
                keep: str | None) -> dict[str, Any]:
    """Returns the keywords for Runtime. Raises TypeError if `given` has one that the optimizer sets itself, or that
    Runtime does not have."""
    for name in ("plan", "rank", "keep"):
        if name in given:
            raise TypeError(f"runtime_options has {name!r}, which is an argument of AdamW: give it there")
    if "groups" in given:
        raise TypeError("runtime_options has 'groups'; the optimizer makes them: give parameters and param_groups")
    if keep is None:
        for name in ("keep_s", "note_bytes"):
            if name in given:
                raise TypeError(f"runtime_options has {name!r}, which needs keep= of AdamW")
    for name in (each for each in given if each not in OPTIONS):
        raise TypeError(f"runtime_options has {name!r}, which is none of the options: {', '.join(OPTIONS)}")
    return {**given, "plan": plan, "rank": rank, **({} if keep is None else {"keep": keep})}


def first_numbers(param_groups: Sequence[ParamGroup]) -> list[tuple[torch.Tensor, ParamGroup, int]]:
    """Returns each parameter with its param_group and the number of its first element, as in place: frozen ones
    count."""
    found, first = [], 0
    for settings in param_groups:
        for param in settings["params"]:
            found.append((param, settings, first))
            first += param.numel()
    return found
