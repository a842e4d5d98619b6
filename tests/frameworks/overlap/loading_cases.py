"""What is loaded may lie in the memory that it is loaded into: a state_dict() has the optimizer's own moments."""

import copy
import ctypes
import itertools
import pathlib
import tempfile

import case
import torch
import torch.distributed.checkpoint as dcp
import zf_runtime
from models import parameters_of
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

KINDS = ((torch.float32, "fp32"), (torch.float32, "bf16"), (torch.bfloat16, "fp32"), (torch.bfloat16, "bf16+split"))
MREMAP_MAYMOVE = 1


def mapped_again(tensor):
    """Returns a tensor over another mapping of the same pages; itself if no other process could have it."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(address, 16) for address in line.split()[0].split("-"))
        if begin <= tensor.data_ptr() < end and line.split()[1].endswith("s"):
            libc = ctypes.CDLL(None)
            libc.mremap.restype = ctypes.c_void_p
            libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
            address = libc.mremap(begin, 0, end - begin, MREMAP_MAYMOVE)
            memory = (ctypes.c_char * tensor.nbytes).from_address(address + tensor.data_ptr() - begin)
            return torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape)
    return tensor


def views(value):
    return value.view(-1)[:].view(value.shape) if isinstance(value, torch.Tensor) else value


def each_value(change):
    return lambda states: {key: {name: change(value) for name, value in entry.items()} for key, entry in states.items()}


def each_entry(change):
    return lambda states: {key: change(entry) for key, entry in states.items()}


CHANGES = {
    "its own": lambda states: states,
    "views of its own": each_value(views),
    "the same pages, mapped again": each_value(
        lambda value: mapped_again(value) if isinstance(value, torch.Tensor) and value.dim() else value),
    "in the place of other parameters": lambda states: {key: states[(key + 2) % 4] for key in states},
    "moments in each other's place": each_entry(
        lambda entry: {**entry, "exp_avg": entry["exp_avg_sq"], "exp_avg_sq": entry["exp_avg"]}),
    "both, mapped again": lambda states: {
        key: {**entry, **{name: mapped_again(states[(key + 2) % 4][name]) for name in ("exp_avg", "exp_avg_sq")}}
        for key, entry in states.items()},
    "turned": each_value(lambda value: value.t() if isinstance(value, torch.Tensor) and value.dim() == 2 else value),
    "no masters": each_entry(
        lambda entry: {name: value for name, value in entry.items() if name not in ("master", "low")}),
    "one is missing": lambda states: {key: entry for key, entry in states.items() if key != 1}}


class Loading(case.AdamWTest):
    def setUp(self):
        super().setUp()

    def made(self, mode, dtype, state):
        """Returns a model with an optimizer, after three steps. mode None: in place."""
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(9, 9), torch.nn.Tanh(), torch.nn.Linear(9, 9)).to(dtype)
        optimizer = (zf_runtime.AdamW(model.parameters(), lr=1e-2, state=state) if mode is None
                     else self.ours(model.parameters(), mode, lr=1e-2, state=state))
        for step in range(3):
            self.step(model, optimizer, step)
        return model, optimizer

    def step(self, model, optimizer, seed):
        random = torch.Generator().manual_seed(seed)
        for param in model.parameters():
            param.grad = torch.rand(param.shape, generator=random).to(param.dtype)
        optimizer.step()
        optimizer.synchronize()
        optimizer.zero_grad()

    def all_of(self, model, optimizer):
        """Returns copies, of moments in fp32: in place, those in bf16 are fp32 between a load and the next step."""
        states = each_value(lambda value: value.float() if isinstance(value, torch.Tensor) and value.is_floating_point()
                            else value)(optimizer.state_dict()["state"])
        return copy.deepcopy([parameters_of(model), states])

    def test_a_source_in_the_memory_of_the_state(self):
        """Each is loaded by one optimizer as it is, and by its twin as a copy. Costs 4 s."""
        for kind in itertools.product((None, *case.MODES), KINDS):
            mode, (dtype, state) = kind
            own, twin = self.made(mode, dtype, state), self.made(mode, dtype, state)
            for number, (name, change) in enumerate(CHANGES.items()):
                if mode is None and name == "turned":
                    continue  # torch steps it, which is said
                with self.subTest(name, mode=mode, dtype=dtype, state=state):
                    for (_, optimizer), get in ((own, lambda each: each), (twin, copy.deepcopy)):
                        saved = optimizer.state_dict()
                        optimizer.load_state_dict({**saved, "state": get(change(saved["state"]))})
                    self.assert_bits(self.all_of(*own), self.all_of(*twin))
                    self.assertGreater(own[1].state_dict()["state"][0]["exp_avg"].float().abs().sum(), 0)
                    for both in (own, twin):
                        self.step(*both, number)
                    self.assert_bits(self.all_of(*own), self.all_of(*twin))

    def test_a_state_that_the_program_keeps_while_it_begins_anew(self):
        """A state_dict() has the memory of the state: what it has stays when the optimizer is emptied."""
        def loaded_empty(_, optimizer):
            saved = optimizer.state_dict()
            optimizer.load_state_dict({**saved, "state": {}})
            optimizer.load_state_dict(saved)

        def cleared(step, optimizer):
            saved = optimizer.state_dict()
            optimizer.state.clear()
            step()
            optimizer.load_state_dict(saved)

        def put_back(step, optimizer):
            kept = dict(optimizer.state)
            optimizer.state.clear()
            step()
            optimizer.state.clear()
            optimizer.state.update(kept)

        for mode, change in itertools.product(case.MODES, (loaded_empty, cleared, put_back)):
            with self.subTest(change.__name__, mode=mode):
                ours, theirs = self.made(mode, *KINDS[0]), self.made(None, *KINDS[0])
                for model, optimizer in (ours, theirs):
                    optimizer.state_dict()
                    change(lambda model=model, optimizer=optimizer: self.step(model, optimizer, 4), optimizer)
                moments = [self.all_of(*both)[1] for both in (ours, theirs)]
                self.assert_bits(*moments)
                self.assertGreater(moments[0][0]["exp_avg"].abs().sum(), 0)

    def test_states_that_the_program_exchanges(self):
        """Without a load: in `state` itself."""
        def exchanged(model, state):
            first, second = model[0].weight, model[2].weight
            state[first], state[second] = state[second], state[first]

        def handed_on(model, state):
            state[model[0].weight] = state.pop(model[2].weight)

        def crossed(model, state):
            for param in model.parameters():
                entry = state[param]
                entry["exp_avg"], entry["exp_avg_sq"] = entry["exp_avg_sq"], entry["exp_avg"]

        for mode, (dtype, state), change in itertools.product(case.MODES, KINDS, (exchanged, handed_on, crossed)):
            if state != "fp32":
                continue  # low bits, and the numbers of elements, stay with their parameter
            with self.subTest(change.__name__, mode=mode, dtype=dtype, state=state):
                (model, optimizer), place = self.made(mode, dtype, state), self.made(None, dtype, state)
                for some in ((model, optimizer), place):
                    change(some[0], some[1].state)
                    self.step(*some, 3)
                self.assert_bits(self.all_of(model, optimizer), self.all_of(*place))

    def test_resuming_with_distributed_checkpoint(self):
        """It fills the tensors of state_dict() where they are, and hands the same dict to load_state_dict()."""
        for mode, (dtype, state) in itertools.product((None, *case.MODES), KINDS):
            for is_fresh in (False, True):
                with self.subTest(mode=mode, dtype=dtype, state=state, is_fresh=is_fresh), \
                        tempfile.TemporaryDirectory() as folder:
                    own = self.made(mode, dtype, state)
                    parts = get_state_dict(*own)
                    dcp.save(dict(zip(("model", "optimizer"), parts)), checkpoint_id=folder, no_dist=True)
                    wanted = self.all_of(*own)
                    for step in (3, 4):
                        self.step(*own, step)
                    again = self.made(mode, dtype, state)
                    if is_fresh:
                        again[1].state.clear()
                    else:
                        self.step(*again, 9)
                    parts = get_state_dict(*again)
                    dcp.load(dict(zip(("model", "optimizer"), parts)), checkpoint_id=folder, no_dist=True)
                    set_state_dict(*again, model_state_dict=parts[0], optim_state_dict=parts[1])
                    self.assert_bits(self.all_of(*again), wanted)
                    for step in (3, 4):
                        self.step(*again, step)
                    self.assert_bits(self.all_of(*again), self.all_of(*own))

    def test_low_bits_that_torch_has_cast_are_dropped(self):
        """torch's load_state_dict() makes bf16 numbers of them. The master is the parameter then."""
        for mode, state in itertools.product((None, *case.MODES), ("split", "bf16+split", "fp32")):
            with self.subTest(mode=mode, state=state):
                (model, optimizer), own, twin = (self.made(mode, torch.bfloat16, each)
                                                 for each in ("split", state, state))
                plain = torch.optim.AdamW(model.parameters())
                plain.load_state_dict(optimizer.state_dict())
                saved = plain.state_dict()
                self.assertEqual(saved["state"][0]["low"].dtype, torch.bfloat16)
                with self.assertWarnsRegex(UserWarning, "low halves of masters are torch.bfloat16.*are the parameters"):
                    own[1].load_state_dict(saved)
                twin[1].load_state_dict({**saved, "state": each_entry(
                    lambda entry: {name: value for name, value in entry.items() if name != "low"})(saved["state"])})
                for both in (own, twin):
                    self.step(*both, 3)
                self.assert_bits(self.all_of(*own), self.all_of(*twin))
