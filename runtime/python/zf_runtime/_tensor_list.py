"""Says which parameters the engine takes at this step, where they are now, and why it does not take the others.

Nothing is assumed to be where it was. What was regular at the last step is looked at in columns, at one or two
microseconds for a parameter; all else one by one. If a column differs from the last step's, all parameters are looked
at one by one, once."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain, compress
from operator import attrgetter
from typing import Any

import torch

from . import _abi, _local
from ._counts import Counts, can_be_raised
from ._torch_own import has_master
from .errors import ZfError

TYPES = {torch.float32: _abi.F32, torch.bfloat16: _abi.BF16, torch.float16: _abi.F16}
WORDS = 8  # of zf_tensor
PLACED_BYTES = 4 << 20  # of a moment that is worth huge pages: two of them lie in it whole
_OF_TYPE = {number: dtype for dtype, number in TYPES.items()}

_grad, _shape, _dtype, _on_cpu = map(attrgetter, ("grad", "shape", "dtype", "is_cpu"))
_pointer, _elements = torch.Tensor.data_ptr, torch.Tensor.numel
_contiguous, _negated, _stride = torch.Tensor.is_contiguous, torch.Tensor.is_neg, torch.Tensor.stride


class Parts:
    """What the engine steps, one entry of each list for a parameter. Lists of addresses are arrays of words."""

    def __init__(self) -> None:
        self.index: list[int] = []  # in the order of param_groups
        self.group: list[int] = []
        self.params: list[Any] = []
        self.written: list[Any] = []  # tensors whose version a step raises
        self.held: list[Any] = []  # tensors that nobody else may hold until the step is done
        self.types: list[int] = []  # the two types of zf_tensor, where its last word has them
        self.slots: list[int] = []  # in Counts; -1: a count that the program has put there
        self.counts: list[Any] = []
        self.elements: array[int] = array("Q")
        self.p: array[int] = array("Q")  # fp32
        self.g: array[int] = array("Q")
        self.m: array[int] = array("Q")
        self.v: array[int] = array("Q")
        self.copy: array[int] = array("Q")  # the 16-bit parameter; 0 without
        self.count: array[int] = array("Q")

    def sort(self) -> None:
        """Brings the parts into the order of param_groups: memory that two share is stepped in it."""
        order = sorted(range(len(self.index)), key=self.index.__getitem__)
        if order == list(range(len(order))):
            return
        for name in ("index", "group", "params", "types", "slots", "counts"):
            old = getattr(self, name)
            setattr(self, name, [old[at] for at in order])
        for name in ("elements", "p", "g", "m", "v", "copy", "count"):
            old = getattr(self, name)
            setattr(self, name, array("Q", [old[at] for at in order]))

    def words(self, scalars: Iterable[int]) -> array[int]:
        """Returns the zf_tensor structs. scalars: of each part, the index of its factors."""
        words = array("Q", bytes(8 * WORDS * len(self.index)))
        for at, column in enumerate((self.p, self.g, self.m, self.v, self.copy, self.elements)):
            words[at::WORDS] = column
        words[WORDS - 1::WORDS] = array("Q", map(int.__add__, self.types, scalars))
        return words


class Roster:
    """The parameters of all param_groups and their states, as they were found at a step."""

    def __init__(self, groups: list[dict[str, Any]], state: Any):
        self.state = state
        self.params = list(chain.from_iterable(group["params"] for group in groups))
        self.ids = list(map(id, self.params))
        self.lengths = [len(group["params"]) for group in groups]
        self.group_of = [number for number, length in enumerate(self.lengths) for _ in range(length)]
        self.flags = list(map(_flags, groups))
        self.keys, self.states = list(state), list(state.values())
        self.key_ids, self.state_ids = list(map(id, self.keys)), list(map(id, self.states))
        self.fast: Columns | None = None
        self.suspects: set[int] = set()  # no longer looked at in columns
        first = dict(zip(reversed(self.ids), reversed(range(len(self.ids)))))
        self.repeated = {index for index, key in enumerate(self.ids) if first[key] != index}
        self.slow = list(range(len(self.ids)))  # looked at one by one

    def holds(self, groups: list[dict[str, Any]], state: Any) -> bool:
        """Returns whether the same parameters stand in the same lists, with the same dicts as their states."""
        return (self.state is state and list(map(id, state.values())) == self.state_ids
                and list(map(id, state)) == self.key_ids
                and [len(group["params"]) for group in groups] == self.lengths
                and list(map(id, chain.from_iterable(group["params"] for group in groups))) == self.ids
                and list(map(_flags, groups)) == self.flags)

    def same_lists(self, other: Roster) -> bool:
        """Returns whether the same parameters stand in the lists of both."""
        return self.ids == other.ids and self.lengths == other.lengths and self.flags == other.flags

    def again(self, groups: list[dict[str, Any]]) -> Roster:
        """Returns a roster of which all parameters are looked at one by one."""
        roster = Roster(groups, self.state)
        roster.suspects = self.suspects
        return roster


class Columns:
    """What was found of the regular parameters: tensors without a subclass, of fp32, bf16 and fp16, whose gradients
    and moments have the same strides."""

    def __init__(self, parts: Parts, states: list[dict[str, Any]]):
        self.parts, self.states = parts, states
        self.values = list(chain.from_iterable(map(dict.values, states)))  # held, so that no id is used again
        self.value_ids = list(map(id, self.values))
        self.keys = list(chain.from_iterable(states))
        self.moments = [[state[name] for state in states] for name in ("exp_avg", "exp_avg_sq")]
        self.halves = [at for at, param in enumerate(parts.params) if param.dtype is not torch.float32]
        self.masters = [states[at]["master"] for at in self.halves]
        self.kept = list(chain(*self.moments, self.masters))
        self.kept_as = _form(self.kept)
        self.shapes, self.dtypes = list(map(_shape, parts.params)), list(map(_dtype, parts.params))
        self.contiguous = list(map(_contiguous, parts.params))
        self.strides = list(map(_stride, parts.params)) if not all(self.contiguous) else []
        self.grad_dtypes = [_OF_TYPE[kind >> 32 & 0xff] for kind in parts.types]

    def now(self) -> Parts | None:
        """Returns the parts of this step: those that have a gradient. Returns None if anything has changed its kind or
        its place but parameters and gradients, which may lie elsewhere at each step."""
        old = self.parts
        if (list(map(id, chain.from_iterable(map(dict.values, self.states)))) != self.value_ids
                or list(chain.from_iterable(self.states)) != self.keys or _form(self.kept) != self.kept_as):
            return None
        masters = array("Q", map(_pointer, self.masters))
        if (self._moved(masters) or array("Q", map(_pointer, self.moments[0])) != old.m
                or array("Q", map(_pointer, self.moments[1])) != old.v
                or array("Q", map(_pointer, old.counts)) != old.count):
            return None
        params, grads = old.params, list(map(_grad, old.params))
        found = [grad for grad in grads if grad is not None]
        if not (list(map(_shape, params)) == self.shapes and list(map(_dtype, params)) == self.dtypes
                and all(map(_on_cpu, params)) and list(map(_contiguous, params)) == self.contiguous
                and (not self.strides or list(map(_stride, params)) == self.strides) and _regular(found)):
            return None
        parts = Parts()
        parts.__dict__.update(old.__dict__)
        parts.p = pointers = array("Q", map(_pointer, params))
        if self.halves:
            parts.p, parts.copy = array("Q", pointers), array("Q", bytes(8 * len(pointers)))
            for at, master in zip(self.halves, masters):
                parts.p[at], parts.copy[at] = master, pointers[at]
        shapes, dtypes, contiguous, strides = self.shapes, self.grad_dtypes, self.contiguous, self.strides
        if len(found) != len(grads):
            mask = [grad is not None for grad in grads]
            for name in ("index", "group", "params", "types", "slots", "counts"):
                setattr(parts, name, list(compress(getattr(parts, name), mask)))
            for name in ("elements", "p", "m", "v", "copy", "count"):
                setattr(parts, name, array("Q", compress(getattr(parts, name), mask)))
            shapes, dtypes = list(compress(shapes, mask)), list(compress(dtypes, mask))
            contiguous, strides = list(compress(contiguous, mask)), list(compress(strides, mask))
        if (list(map(_shape, found)) != shapes or list(map(_dtype, found)) != dtypes or not _alike(found, contiguous)
                or (strides and list(map(_stride, found)) != strides)):
            return None
        try:
            parts.g = array("Q", map(_pointer, found))
        except RuntimeError:  # a sparse tensor is in no one place
            return None
        parts.written, parts.held = list(parts.params), found
        return parts

    def _moved(self, masters: array[int]) -> bool:
        return any(self.parts.p[at] != master for at, master in zip(self.halves, masters))


class TensorList:
    """Follows the parameters of one optimizer from step to step."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._roster: Roster | None = None

    def gather(self, groups: list[dict[str, Any]], state: Any) -> tuple[Parts, list[tuple[int, str]], Roster]:
        """Returns what the engine steps, and the indices of the parameters that torch steps, each with the reason.

        Gives states to parameters that have none. Raises ZfError for parameters on a GPU and for sparse gradients.
        Nothing is stepped here."""
        if self.counts.scattered:
            self.home(groups, state)
        roster = self._roster
        if roster is None or not roster.holds(groups, state):
            before, roster = roster, Roster(groups, state)
            if before is not None and before.same_lists(roster):
                roster.suspects = before.suspects
        parts = roster.fast.now() if roster.fast is not None else None
        own: list[tuple[int, str]] = []
        if parts is None:
            roster = roster.again(groups)
            parts = Parts()
        self._roster = None  # until all is known
        self._roster = self._look_one_by_one(groups, roster, parts, own) if roster.slow else roster
        return parts, own, roster

    def home(self, groups: list[dict[str, Any]], state: Any) -> None:
        """Takes the counts of loaded states among its own, so that they are read at once."""
        self.counts, self._roster = Counts(), None
        entries = [state[param] for group in groups for param in group["params"] if "step" in state.get(param, ())]
        for entry, count in zip(entries, self.counts.add([float(entry["step"]) for entry in entries])):
            entry["step"] = count

    @torch.no_grad()
    def _look_one_by_one(self, groups: list[dict[str, Any]], roster: Roster, parts: Parts,
                         own: list[tuple[int, str]]) -> Roster:
        """Adds to `parts` and to `own` what is not looked at in columns. Returns the roster for the next step."""
        live = [index for index in roster.slow if roster.params[index].grad is not None]
        for index in live:
            refuse_device(roster.params[index])
            refuse_sparse(roster.params[index])
        held = len(roster.state)
        self._count(live, groups, roster)
        news, known, taken = Parts(), [], set(parts.count)
        for index in live:
            number, param = roster.group_of[index], roster.params[index]
            state = self._state_of(param, groups[number], roster.state)
            if index in roster.repeated:
                own.append((index, "listed twice"))
                continue
            if state["step"].data_ptr() in taken:
                state["step"], = self.counts.add([float(state["step"])])
            reason, plain = self._take(index, number, param, state, groups[number], news)
            if reason:
                own.append((index, reason))
                continue
            taken.add(state["step"].data_ptr())
            if plain and index not in roster.suspects:
                known.append(len(news.index) - 1)
        if parts.index or news.index:
            _append(parts, news)
            parts.written, parts.held = parts.written + news.written, parts.held + news.held
            parts.sort()
        if not known and len(roster.state) == held:
            roster.suspects.update(live)
            return roster
        return _settled(groups, roster, news, known, live)

    def _count(self, live: list[int], groups: list[dict[str, Any]], roster: Roster) -> None:
        """Gives those a step count that have none, or one that the engine cannot raise."""
        new: dict[int, Any] = {}
        for index in live:
            group, state = groups[roster.group_of[index]], roster.state[roster.params[index]]
            if not can_be_raised(state.get("step")) and not (group["capturable"] or group["differentiable"]):
                new.setdefault(id(state), state)
        if new:
            values = [float(state["step"]) if state.get("step") is not None else 0.0 for state in new.values()]
            for state, count in zip(new.values(), self.counts.add(values)):
                state["step"] = count

    def _state_of(self, param: Any, group: dict[str, Any], states: Any) -> dict[str, Any]:
        """Returns a parameter's state, with zeros for moments that are missing, and fp32 for 16-bit parameters."""
        state: dict[str, Any] = states[param]
        half = has_master(param, group)
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        for name in names:
            moment = state.get(name)
            if moment is None:
                state[name] = _zeros(param, torch.float32 if half else param.dtype)
            elif half and moment.dtype != torch.float32:
                state[name] = moment.to(torch.float32)
        if half and (state.get("master") is None or state["master"].dtype != torch.float32):
            given = state.get("master")
            state["master"] = (param.detach() if given is None else given).to(torch.float32)
        if state.get("step") is None:  # of a capturable or differentiable step
            state["step"] = torch.zeros((), dtype=torch.float32, device=param.device)
        return state

    def _take(self, index: int, number: int, param: Any, state: dict[str, Any], group: dict[str, Any],
              parts: Parts) -> tuple[str, bool]:
        """Adds a parameter to the parts. Returns why not, or "", and whether it is a regular one."""
        for flag in ("amsgrad", "capturable", "differentiable"):
            if group[flag]:
                return f"with {flag}=True", False
        moments = [state["exp_avg"], state["exp_avg_sq"]] + ([state["master"]] if has_master(param, group) else [])
        reason, tensors = _plain(param, _placed(param.grad, param), moments)
        if reason:
            return reason, False
        p, g, m, v = tensors[:4]
        reason = _unsteppable(p, g, tensors[2:])
        if reason:
            return reason, False
        count = state["step"]
        half = p.dtype is not torch.float32
        parts.index.append(index)
        parts.group.append(number)
        parts.params.append(param)
        parts.held += tensors
        parts.written.append(param)
        if p is not param:
            parts.written.append(p)
        parts.types.append(TYPES[g.dtype] << 32 | (TYPES[p.dtype] << 40 if half else 0))
        parts.slots.append(self._slot(count))
        parts.counts.append(count)
        for column, value in ((parts.elements, p.numel()), (parts.g, g.data_ptr()), (parts.m, m.data_ptr()),
                              (parts.p, (tensors[4] if half else p).data_ptr()), (parts.v, v.data_ptr()),
                              (parts.copy, p.data_ptr() if half else 0), (parts.count, count.data_ptr())):
            column.append(value)
        return "", (p is param and type(param.grad) is torch.Tensor
                    and (p.is_contiguous() or all(t.stride() == p.stride() for t in (g, m, v))))

    def _slot(self, count: Any) -> int:
        slot = self.counts.slot(count)
        return slot if slot >= 0 and self.counts.home(slot) == count.data_ptr() else -1


def _zeros(param: Any, dtype: torch.dtype) -> Any:
    """Returns a moment of zeros, in memory that is placed as the plan says if there is much of it."""
    made = torch.empty_like(param, dtype=dtype, memory_format=torch.preserve_format, requires_grad=False)
    local = made._local_tensor if _is_sharded(made) else made
    size = local.numel() * local.element_size()
    if type(local) is torch.Tensor and local.device.type == "cpu" and size >= PLACED_BYTES:
        _local.engine().place(local.data_ptr(), size)
    return made.zero_()


def refuse_device(param: Any) -> None:
    """Raises ZfError for a parameter on a GPU."""
    if param.device.type not in ("cpu", "meta"):
        raise ZfError(f"a parameter is on {param.device}, and zf_runtime.AdamW and Adam step parameters on the CPU: "
                      "use torch.optim.AdamW(fused=True) for it, or zf_runtime.OverlappedAdamW to step it on the CPU")


def refuse_sparse(param: Any) -> None:
    """Raises ZfError if the parameter has a sparse gradient."""
    if param.grad.layout is not torch.strided:
        raise ZfError(f"a parameter of shape {list(param.shape)} has a sparse gradient, which Adam does not support: "
                      "use torch.optim.SparseAdam for it, or sparse=False where the gradient is made")


def _flags(group: dict[str, Any]) -> tuple[Any, ...]:
    return group["amsgrad"], group["capturable"], group["differentiable"]


def _regular(grads: list[Any]) -> bool:
    return set(map(type, grads)) <= {torch.Tensor} and all(map(_on_cpu, grads)) and not any(map(_negated, grads))


def _form(tensors: list[Any]) -> tuple[Any, ...]:
    """Returns what tells kept tensors from others that a program may put into the same memory."""
    return list(map(_dtype, tensors)), list(map(_elements, tensors)), list(map(_contiguous, tensors))


def _alike(grads: list[Any], contiguous: list[bool]) -> bool:
    try:
        return list(map(_contiguous, grads)) == contiguous
    except RuntimeError:  # a sparse tensor has no strides
        return False


def _settled(groups: list[dict[str, Any]], roster: Roster, news: Parts, known: list[int], live: list[int]) -> Roster:
    """Returns the roster with the states that are new. `known` of `news` are looked at in columns from now on."""
    settled, parts = Roster(groups, roster.state), _chosen(news, known)
    if roster.fast is not None:
        _append(parts, roster.fast.parts)
        parts.sort()
    regular = set(parts.index)
    settled.suspects = roster.suspects | set(live) - regular
    settled.slow = [index for index in settled.slow if index not in regular]
    if parts.index:
        settled.fast = Columns(parts, [roster.state[param] for param in parts.params])
    return settled


def _chosen(parts: Parts, which: list[int]) -> Parts:
    chosen = Parts()
    for name, values in parts.__dict__.items():
        if name not in ("written", "held"):
            some = [values[at] for at in which]
            setattr(chosen, name, array("Q", some) if isinstance(values, array) else some)
    return chosen


def _append(parts: Parts, more: Parts) -> None:
    """Adds what `more` has of each part. The lists of `parts` may be those of others, so they are not changed."""
    for name, values in more.__dict__.items():
        if name not in ("written", "held"):
            setattr(parts, name, getattr(parts, name) + values)


def _is_sharded(tensor: Any) -> bool:
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements")


def _placed(grad: Any, param: Any) -> Any:
    """Returns the gradient where the parameter is. The norms of tensor-parallel models have Partial gradients."""
    if _is_sharded(param) and _is_sharded(grad) and grad.placements != param.placements:
        return grad.redistribute(placements=param.placements)
    return grad


def _plain(param: Any, grad: Any, moments: list[Any]) -> tuple[str, list[Any]]:
    """Returns why these are no plain tensors, or "", and the tensors, or the local shards of DTensors."""
    tensors = [param, grad, *moments]
    if _is_sharded(param):
        if not all(_is_sharded(tensor) and tensor.device_mesh == param.device_mesh
                   and tensor.placements == param.placements for tensor in tensors):
            return "sharded otherwise than their gradients or moments", []
        tensors = [_arrived(tensor._local_tensor) for tensor in tensors]
        if len({tensor.shape for tensor in tensors}) > 1 and all(tensor.numel() == 0 for tensor in tensors):
            tensors = [tensor.reshape(tensors[0].shape) for tensor in tensors]
    for tensor in tensors:
        cls = type(tensor)
        if cls is not torch.Tensor and cls is not torch.nn.Parameter and not _inherits_all(cls):
            return f"of type {cls.__name__}", []
    return "", tensors


def _inherits_all(cls: Any) -> bool:
    """Returns whether a subclass leaves to torch what operations do."""
    functions = {getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
                 for kind in (cls, torch.Tensor, torch.nn.Parameter)}
    return len(functions) == 2 and bool(cls.__torch_dispatch__ == torch.Tensor.__torch_dispatch__)


def _arrived(local: Any) -> Any:
    """Returns a local shard after the collective that makes it."""
    return local.wait() if type(local).__name__ == "AsyncCollectiveTensor" else local


def _unsteppable(p: Any, g: Any, moments: list[Any]) -> str:
    """Returns why the engine cannot step plain tensors, or ""."""
    return _of_another_kind(p, g, moments) or _laid_out_otherwise(p, g, moments)


def _of_another_kind(p: Any, g: Any, moments: list[Any]) -> str:
    if p.device.type != "cpu":
        return f"on the device {p.device.type}"
    if p.dtype not in TYPES:
        return f"of {p.dtype}".replace("torch.", "")
    if g.dtype not in TYPES or g.device.type != "cpu" or g.is_neg() or g.is_conj():
        return "with gradients of another kind"
    if any(t.dtype is not torch.float32 or t.device.type != "cpu" or t.layout is not torch.strided for t in moments):
        return "with moments of another kind"
    return ""


def _laid_out_otherwise(p: Any, g: Any, moments: list[Any]) -> str:
    if g.shape != p.shape or any(t.shape != p.shape for t in moments):
        return "of another shape than their gradients or moments"
    if p.layout is not torch.strided or not _dense(p):
        return "with gaps in their memory"
    if p.numel() > 0 and any(t.data_ptr() == 0 or t.data_ptr() % t.element_size() for t in (p, g, *moments)):
        return "without memory, or at odd addresses in it"
    if _strides(g) != _strides(p):
        return "with gradients of other strides"
    if any(_strides(t) != _strides(p) for t in moments):
        return "with moments of other strides"
    return ""


def _strides(tensor: Any) -> list[int]:
    """Returns the strides that say where elements are: none where there is one element, or none at all."""
    if tensor.numel() == 0:
        return []
    return [stride for stride, length in zip(tensor.stride(), tensor.shape) if length > 1]


def _dense(tensor: Any) -> bool:
    """Returns whether the elements fill a range of memory, each once."""
    wanted = 1
    for stride, length in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1):
        if length != 0 and stride != wanted:
            return bool(tensor.numel() == 0)
        wanted *= length
    return True
