"""Small jobs, written as programs write them, that read or write parameters wherever they can. See reads_cases.py.

A job is a model, the loss of a step, and what comes after step(), which returns what it has read."""

import copy
import ctypes
import io
import os
import pickle
import threading
import types
import warnings

import numpy
import torch
import torch.utils.checkpoint
import torch.utils.dlpack
from exact import batch, make_model
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.utils._python_dispatch import TorchDispatchMode

F = torch.nn.functional
MSE = F.mse_loss


class Own(nn.Module):
    """A model of named parts with a forward of its own, and others as methods."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.own = types.MethodType(forward, self)

    def forward(self, inputs):
        return self.own(inputs)


def own(forward, **makers):
    def make():
        torch.manual_seed(1)
        return Own(forward, **{name: maker() for name, maker in makers.items()})

    return make


def linear(*sizes):
    return lambda: nn.Linear(*sizes)


def loss_of(model, step):
    inputs, targets = batch(step)
    return MSE(model(inputs), targets)


class Context:
    """What a program keeps from the beginning."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.kept = list(model.parameters())
        self.views = [param.detach() for param in self.kept]
        self.data = [param.data for param in self.kept]
        self.saved = model.state_dict()
        self.w = self.kept[0]
        self.row = self.w.detach()[0]
        self.subclass = self.w.detach().as_subclass(Subclass)
        self.generator = model.named_parameters()
        self.means = [param.detach().clone() for param in self.kept]
        self.slow = [param.detach().clone() for param in self.kept]
        self.x = torch.linspace(-1, 1, 30).view(3, 10)
        self.step = 0
        self.averaged = None
        self.made = {}


def clones(tensors):
    return [tensor.detach().clone() for tensor in tensors]


def saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def in_a_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found


class Passing(torch.overrides.TorchFunctionMode):
    """A mode of the program's own."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    """As torchvision's images."""


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def with_mode(context, read):
    with context:
        return read()


def evaluated(model, x):
    model.eval()
    with torch.no_grad():
        found = model(x)
    model.train()
    return [found]


def lerp(c):
    torch._foreach_lerp_(c.means, [param.detach() for param in c.kept], 0.5)
    return clones(c.means)


def mean_by_hand(c):
    for mean, param in zip(c.means, c.kept):
        mean.mul_(0.9).add_(param.data, alpha=0.1)
    return clones(c.means)


def averaged(c):
    c.averaged = c.averaged or torch.optim.swa_utils.AveragedModel(c.model)
    c.averaged.update_parameters(c.model)
    return clones(c.averaged.parameters())


def scripted(c):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluated(torch.jit.script(c.model), c.x)


def traced(c):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluated(torch.jit.trace(c.model, c.x), c.x)


def forked(c):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        found = torch._C._len_torch_function_stack(), c.w.detach()[0, 0].item()
        os.write(writing, repr(found).encode())
        os._exit(0)
    os.waitpid(child, 0)
    found = os.read(reading, 100)
    os.close(reading), os.close(writing)
    return [found]


class Sums(torch.utils.data.Dataset):
    """Reads a model in the processes of a DataLoader."""

    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return [param.detach()[0].tolist() for param in self.model.parameters()]


class DispatchReading(TorchDispatchMode):
    def __init__(self, tensor):
        super().__init__()
        self.tensor = tensor

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.tensor.seen = self.tensor.sum().item()
        return func(*args, **(kwargs or {}))


def in_hook(c):
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: seen.append(c.row.sum().item()), lambda saved: c.x):
        (torch.ones(3, 10, requires_grad=True) * c.x).sum()
    return seen


def over_array(c):
    """Returns tensors over the memory of a parameter that the program has made in the first step."""
    if not c.made:
        array = c.w.detach().numpy()
        c.made = {"all": torch.from_numpy(array), "rows": torch.from_numpy(array[4:6]),
                  "dlpack": torch.from_dlpack(c.w.detach()),
                  "bytes": torch.frombuffer(memoryview(array).cast("B"), dtype=torch.float32)}
    return c.made.values()


def from_generator(c):
    return [next(c.generator)[1].detach().clone()] if c.step < 4 else []


def next_optimizer(c):
    torch.optim.SGD(c.kept, lr=0.01).step()
    return clones(c.kept)


#: What is read between step() and the next forward.
LOOKS = {
    "parameters": lambda c: clones(c.model.parameters()),
    "named parameters": lambda c: clones(param for _, param in c.model.named_parameters()),
    "a kept list": lambda c: clones(c.kept), "kept views": lambda c: clones(c.views),
    "kept .data": lambda c: [data.sum() for data in c.data],
    "a kept state_dict": lambda c: clones(c.saved.values()), "a kept row": lambda c: [c.row * 1],
    "a kept subclass": lambda c: [c.subclass.sum().item()], "a generator kept over a step": from_generator,
    "norm": lambda c: [c.w.norm().detach()], "data": lambda c: [c.w.data.clone()],
    "indexed": lambda c: [c.w[0, 0].item()],
    "numpy": lambda c: [torch.from_numpy(c.w.detach().numpy().copy())], "a list": lambda c: c.w.tolist(),
    "printed": lambda c: [repr(c.w), f"{c.w[0, 0]}", str(c.views[1])],
    "rows": lambda c: [row.sum().item() for row in c.w],
    "foreach norm": lambda c: [norm.detach() for norm in torch._foreach_norm(c.kept)], "foreach lerp": lerp,
    "an average by hand": mean_by_hand, "an averaged model": averaged,
    "copied to": lambda c: [torch.empty(c.w.shape).copy_(c.w.detach())], "saved": lambda c: [saved(c.w)],
    "a model saved": lambda c: clones(saved(c.model).parameters()),
    "pickled": lambda c: clones(pickle.loads(pickle.dumps(c.model)).parameters()),
    "deepcopied": lambda c: clones(copy.deepcopy(c.model).parameters()), "a parameter deepcopied": lambda c: [
        copy.deepcopy(c.w).detach()], "copied flat": lambda c: clones(copy.copy(c.model).parameters()),
    "dlpack": lambda c: [torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(c.w.detach())).clone()],
    "storage": lambda c: [list(c.w.untyped_storage())], "address": lambda c: [ctypes.string_at(c.w.data_ptr(), 64)],
    "an array of a kept view": lambda c: [c.views[0].numpy().tolist(), numpy.asarray(c.views[1]).tolist()],
    "memory of a kept view": lambda c: [bytes(memoryview(c.views[0].numpy())), c.views[1].untyped_storage().tolist()],
    "dlpack of a kept view": lambda c: [torch.from_dlpack(c.views[0]).clone()],
    "a capsule of a kept view": lambda c: [torch.utils.dlpack.from_dlpack(c.views[0].__dlpack__()).clone()],
    "numpy's dlpack of a kept view": lambda c: [numpy.from_dlpack(c.views[0]).tolist()],
    "the storage of a kept view": lambda c: [
        ctypes.string_at(c.views[0].untyped_storage().data_ptr(), 64), list(c.views[1].untyped_storage())],
    "the address of a kept view": lambda c: [ctypes.string_at(c.views[0].data_ptr(), 64)],
    "filled with it": lambda c: [torch.full_like(c.kept[2], c.views[1][0]), c.w.new_full((2,), c.row[0])],
    "functional_call": lambda c: [
        torch.func.functional_call(c.model, dict(c.model.named_parameters()), (c.x,)).detach()],
    "functional_call of views": lambda c: [torch.func.functional_call(c.model, c.saved, (c.x,))],
    "vmap": lambda c: [torch.func.vmap(lambda a: a @ c.w.t())(c.x).detach()],
    "vmap of it": lambda c: [torch.func.vmap(lambda row: row.sum())(c.w.detach())],
    "grad of it": lambda c: [torch.func.grad(lambda w: (w * w).sum())(c.w.detach())],
    "jacrev": lambda c: [torch.func.jacrev(lambda w: (w * w).sum(1))(c.w.detach())],
    "jvp": lambda c: [torch.func.jvp(lambda w: w * w, (c.w.detach(),), (torch.ones_like(c.w),))[1].detach()],
    "stacked": lambda c: clones(torch.func.stack_module_state([c.model[0], c.model[0]])[0].values()),
    "a vector": lambda c: [nn.utils.parameters_to_vector(c.kept).detach()],
    "equal": lambda c: [torch.equal(c.w, c.slow[0]), bool((c.w == c.slow[0]).all())], "aten": lambda c: [
        torch.ops.aten.mul.Tensor(c.w, c.w).detach()], "a function": lambda c: [Doubled.apply(c.w).detach()],
    "singular values": lambda c: [torch.linalg.svdvals(c.w.detach())], "einsum": lambda c: [
        torch.einsum("ij,kj->ik", c.w, c.x).detach()],
    "stack": lambda c: [torch.cat([w.flatten() for w in c.kept]).detach()],
    "get_parameter": lambda c: [c.model.get_parameter("2.bias").detach().clone()],
    "state_dict": lambda c: clones(c.model.state_dict().values()),
    "state_dict of a part": lambda c: clones(c.model[2].state_dict(keep_vars=True).values()),
    "param_groups": lambda c: clones(c.optimizer.param_groups[0]["params"]),
    "moments": lambda c: [entry["exp_avg"].clone() for entry in c.optimizer.state.values()],
    "a norm of moments": lambda c: [
        torch._foreach_norm([each["exp_avg_sq"] for each in c.optimizer.state.values()])[0]],
    "the optimizer's state_dict": lambda c: [
        each["exp_avg_sq"].clone() for each in c.optimizer.state_dict()["state"].values()],
    "an optimizer copied": lambda c: [each["exp_avg"].clone() for each in copy.deepcopy(c.optimizer).state.values()],
    "scripted": scripted, "traced": traced, "fx": lambda c: evaluated(torch.fx.symbolic_trace(c.model), c.x),
    "doubles": lambda c: clones(copy.deepcopy(c.model).double().parameters()), "a part": lambda c: [
        c.model[0](c.x).detach()], "forward of a part": lambda c: [c.model[2].forward(torch.ones(1, 33)).detach()],
    "a slice": lambda c: [c.model[:2](c.x).detach()], "linear": lambda c: [F.linear(c.x, c.w).detach()],
    "an evaluation": lambda c: evaluated(c.model, c.x), "inference_mode": lambda c: [
        with_mode(torch.inference_mode(), lambda: c.model(c.x)).clone()],
    "a device as a context": lambda c: with_mode(torch.device("cpu"), lambda: clones(c.kept)),
    "a mode of its own": lambda c: with_mode(Passing(), lambda: clones(c.kept)),
    "two modes of its own": lambda c: with_mode(Passing(), lambda: with_mode(Passing(), lambda: clones(c.kept))),
    "without subclasses": lambda c: with_mode(torch._C.DisableTorchFunctionSubclass(), lambda: clones(c.kept)),
    "autocast": lambda c: [with_mode(torch.autocast("cpu", torch.bfloat16), lambda: c.model(c.x)).detach()],
    "a forward in a thread": lambda c: in_a_thread(lambda: c.model(c.x).detach()),
    "a fork": forked, "a loader": lambda c: list(torch.utils.data.DataLoader(
        Sums(c.model), num_workers=1, batch_size=None, multiprocessing_context="fork")),
    "another optimizer": next_optimizer, "kept tensors over its array": lambda c: clones(over_array(c)),
    "to_dlpack of a kept view": lambda c: [
        torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(c.views[0])).clone()],
    "a distance that reads it": lambda c: [F.triplet_margin_with_distance_loss(
        c.x, c.x * 0.5, c.x.flip(0), distance_function=lambda a, b: ((a - b) @ c.w.t()).square().sum(1)).detach()],
    "a dispatch mode that reads it": lambda c: [with_mode(DispatchReading(c.row), lambda: c.x * 2), c.row.seen],
    "a hook for saved tensors": in_hook,
}


def pruned(c):
    if c.step == 2:
        prune.l1_unstructured(c.model[0], "bias", 0.3)
        prune.remove(c.model[0], "bias")


def look_ahead(c):
    if c.step % 2:
        for slow, param in zip(c.slow, c.kept):
            slow.add_(param.data - slow, alpha=0.5)
            param.data.copy_(slow)


def merged(c):
    """As PEFT merges a low-rank product into the weight that it is added to, and takes it out again."""
    product = c.model[2].weight.data @ c.model[2].weight.data.t() @ c.model[2].weight.data * 0.01
    c.model[2].weight.data += product
    outputs = c.model(c.x).detach()
    c.model[2].weight.data -= product
    return [outputs]


def set_item(tensor, at, value):
    tensor[at] = value


@torch.no_grad()
def each(params, write):
    for param in params:
        write(param)


#: What is written between step() and the next forward.
WRITES = {
    "clamp": lambda c: each(c.kept, lambda p: p.clamp_(-0.1, 0.1)), "clamped data": lambda c: each(
        c.kept, lambda p: p.data.clamp_(-0.1, 0.1)),
    "some rows": lambda c: each(c.kept, lambda p: set_item(p, slice(0, 5), 0.0)), "data": lambda c: each(
        c.kept, lambda p: set_item(p.data, slice(0, 2), 0.25)), "a bias": lambda c: c.model[0].bias.data.zero_(),
    "kept data": lambda c: [data.mul_(0.5) for data in c.data] and None, "kept views": lambda c: each(
        c.views, lambda view: view.sub_(view, alpha=0.1)), "a kept row": lambda c: c.row.fill_(0.1),
    "the state_dict": lambda c: each(c.saved.values(), lambda value: value.mul_(0.9)),
    "foreach": lambda c: with_mode(torch.no_grad(), lambda: torch._foreach_mul_(c.kept, 0.9)),
    "pruned": pruned, "look ahead": look_ahead, "merged": merged,
    "loaded": lambda c: c.model.load_state_dict({k: v * 0.5 for k, v in c.model.state_dict().items()}),
    "data replaced": lambda c: each(c.kept, lambda p: setattr(p, "data", p.data * 0.9)),
    "drawn": lambda c: (torch.manual_seed(c.step), nn.init.normal_(c.model[2].weight, std=0.1)),
    "a vector": lambda c: nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(c.kept).detach() * 0.9, c.kept),
    "indexed": lambda c: each(c.kept, lambda p: p.index_fill_(0, torch.tensor([1]), 0.0)),
    "normalized": lambda c: each(c.kept, lambda p: p.div_(p.norm() + 1)), "out=": lambda c: each(
        c.data, lambda d: torch.mul(d, 0.9, out=d)), "renormed": lambda c: each(
        c.kept[::2], lambda p: p.copy_(torch.renorm(p, 2, 0, 0.3))), "exchanged": lambda c: each(
        c.kept, lambda p: p.copy_(p.flip(0))), "numpy": lambda c: set_item(c.w.detach().numpy(), 0, 0.125),
    "an array of a kept view": lambda c: set_item(c.views[0].numpy(), 0, 0.125),
    "dlpack of a kept view": lambda c: torch.from_dlpack(c.views[0])[1].fill_(0.125).sum() and None,
    "the address of a kept view": lambda c: ctypes.memset(c.views[0].data_ptr(), 0, 64) and None,
    "a storage": lambda c: set_item(c.kept[1].untyped_storage(), 3, 0),
    "kept tensors over its array": lambda c: [tensor.mul_(0.9) for tensor in over_array(c)] and None,
    "converted": lambda c: c.model.double().float(),
    "decayed by hand": lambda c: each(c.kept, lambda p: p.mul_(1 - 0.01)),
    "the rest": lambda c: with_mode(torch.no_grad(), lambda: c.model[0].weight.__imul__(0.5)),
}


def codes(self, inputs):
    """As a VQ-VAE: the nearest code is chosen without a gradient, before the module of the codes is called."""
    hidden = self.encoder(inputs)
    with torch.no_grad():
        nearest = torch.cdist(hidden, self.codes.weight).argmin(1)
    chosen = self.codes(nearest)
    return self.decoder(hidden + (chosen - hidden).detach() + chosen)


def parent_first(self, inputs):
    return self.last(inputs @ (self.last.weight.t() @ self.last.weight) @ self.first.weight + self.first(inputs))


def regularized(model, step):
    found = loss_of(model, step)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            found = found + 1e-2 * module.weight.square().sum()
    return found


def regularized_first(model, step):
    penalty = sum(param.square().sum() for param in model.parameters())
    return loss_of(model, step) + 1e-2 * penalty


def penalized(model, step):
    """A gradient penalty: backward of a backward."""
    inputs, targets = batch(step)
    inputs.requires_grad_()
    outputs = model(inputs)
    gradient, = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    return MSE(outputs, targets) + gradient.norm()


class ReadsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, module):
        ctx.module = module
        return inputs * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient + ctx.module.weight.detach().sum() * 1e-3, None


def reads_in_backward(self, inputs):
    return self.last(ReadsInBackward.apply(self.first(inputs), self.unused))


def attention(self, inputs):
    hidden = self.first(inputs)[None]
    return self.last(self.attention(hidden, hidden, hidden)[0][0])


def with_evaluation(model, step):
    """From the second step on a part is evaluated first, as in self-distillation."""
    inputs, targets = batch(step)
    model.encoder.eval()
    with torch.no_grad():
        wanted = model.encoder(torch.ones(2, 3, 16))
    model.encoder.train()
    return MSE(model(inputs), targets) + wanted.mean()


def encoder(self, inputs):
    return self.last(self.encoder(self.first(inputs)[None])[0])


def sparse_then_encoder(self, inputs):
    """What is sparse waits for all, and the encoder asks whether a mode is active."""
    hidden = torch.sparse.mm(torch.eye(len(inputs)).to_sparse(), self.first(inputs)) @ self.weights[0]
    with torch.no_grad():
        self.seen = self.encoder(hidden[None])[0]
    return self.last(hidden + self.seen)


def cells(self, inputs):
    hidden = inputs[None]
    for cell in self.cells:
        hidden = cell(hidden)[0]
    return self.last(hidden[0])


def checkpointed(reentrant):
    def forward(self, inputs):
        hidden = torch.utils.checkpoint.checkpoint(self.net[:2], inputs.requires_grad_(), use_reentrant=reentrant)
        return torch.utils.checkpoint.checkpoint(self.net[2:], hidden, use_reentrant=reentrant)

    return own(forward, net=make_model)


def tied(self, inputs):
    hidden = F.linear(self.first(inputs), self.first.weight.t())
    return self.last(hidden)


def tangled(self, inputs):
    return self.last(self.first(inputs) * self.scale[1:] + self.first.weight.sum(1) * self.scale[0])


class Rotated(nn.Linear):
    def turned(self, inputs):
        return inputs @ self.weight.t()


def in_thread(self, inputs):
    return self.last(in_a_thread(lambda: self.first(inputs))[0])


def functional(model, step):
    inputs, targets = batch(step)
    params = dict(model.named_parameters())
    return MSE(torch.func.functional_call(model, params, (inputs,)), targets)


def per_sample(model, step):
    inputs, targets = batch(step)
    params = {name: param.detach() for name, param in model.named_parameters()}
    grads = torch.func.vmap(torch.func.grad(lambda p, x, y: MSE(torch.func.functional_call(model, p, (x,)), y)),
                            (None, 0, 0))(params, inputs, targets)
    return loss_of(model, step) * (1 + sum(each.norm() for each in grads.values()))


def by_hand(model, step):
    inputs, targets = batch(step)
    first, bias, last, more = model.parameters()
    return MSE(torch.tanh(inputs @ first.t() + bias) @ last.t() + more, targets)


def two_backwards(model, step):
    found = loss_of(model, step)
    torch.autograd.backward([found * 0.5])
    return loss_of(model, step) * 0.5


def with_a_device(model, step):
    with torch.device("cpu"):
        return loss_of(model, step)


def with_a_mode(model, step):
    with Passing():
        return loss_of(model, step)


class Views(nn.Module):
    """Two parameters that are views of one storage."""

    def __init__(self):
        super().__init__()
        whole = torch.linspace(-0.3, 0.3, 140)
        self.first, self.last = nn.Parameter(whole[:70].view(10, 7)), nn.Parameter(whole[70:].view(7, 10))

    def forward(self, inputs):
        return inputs @ self.first @ self.last @ self.first


def experts(self, inputs):
    self.calls += 1
    return self.last(self.experts[self.calls % 3](inputs) + self.experts[0].weight[0].sum())


def with_experts():
    model = own(experts, last=linear(10, 7), experts=lambda: nn.ModuleList(nn.Linear(10, 10) for _ in range(3)))()
    model.calls = 0
    return model


def hyper(self, inputs):
    weight = self.maker(torch.ones(4)).view(7, 10)
    return F.linear(inputs, weight + self.base.weight, self.base.bias)


def listed(self, inputs):
    for weight in self.weights:
        inputs = torch.tanh(inputs @ weight)
    return self.named["out"](inputs)


def scripted_part(self, inputs):
    return self.last(self.part(inputs))


def wrapped(kind):
    def make():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make_model()
            return torch.jit.script(model) if kind == "script" else torch.jit.trace(model, torch.ones(3, 10))

    return make


def hooked():
    model = make_model()
    model[0].register_forward_pre_hook(lambda module, args: (args[0] + model[2].bias.detach().sum(),))
    model[2].register_forward_hook(lambda module, args, out: out + model[0].weight.mean())
    return model


def lazily():
    model = nn.Sequential(nn.LazyLinear(33), nn.Tanh(), nn.LazyLinear(7))
    torch.manual_seed(1)
    model(torch.ones(2, 10))
    return model


def recurrent(kind, **more):
    return own(cells, cells=lambda: nn.ModuleList([kind(10, 16, **more), kind(16 * (2 if more else 1), 16, **more)]),
               last=linear(16 * (2 if more else 1), 7))


#: Models and losses that read parameters in forward in other ways than by a call of their module.
FORWARDS = {
    "codes": (own(codes, encoder=linear(10, 6), codes=lambda: nn.Embedding(9, 6), decoder=linear(6, 7)), loss_of),
    "a parent that reads first": (own(parent_first, first=linear(10, 10), last=linear(10, 7)), loss_of),
    "weight norm": (lambda: nn.Sequential(make_model()[:2], parametrizations.weight_norm(nn.Linear(33, 7))), loss_of),
    "older weight norm": (lambda: nn.Sequential(make_model()[:2], nn.utils.weight_norm(nn.Linear(33, 7))), loss_of),
    "spectral norm": (lambda: nn.Sequential(make_model()[:2], parametrizations.spectral_norm(nn.Linear(33, 7))),
                      loss_of),
    "orthogonal": (lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(10, 10)), nn.Linear(10, 7)), loss_of),
    "a regularizer over modules": (make_model, regularized), "a regularizer first": (make_model, regularized_first),
    "a gradient penalty": (make_model, penalized),
    "a method": (own(lambda self, x: self.last(torch.tanh(self.first.turned(x))), first=lambda: Rotated(10, 10),
                     last=linear(10, 7)), loss_of),
    "forward()": (own(lambda self, x: self.last.forward(self.first.forward(x)), first=linear(10, 10),
                      last=linear(10, 7)), loss_of),
    "a read in backward": (own(reads_in_backward, first=linear(10, 10), last=linear(10, 7),
                               unused=linear(3, 3)), loss_of),
    "attention": (own(attention, first=linear(10, 16), attention=lambda: nn.MultiheadAttention(16, 2, batch_first=True),
                      last=linear(16, 7)), loss_of),
    "an encoder": (own(encoder, first=linear(10, 16), last=linear(16, 7), encoder=lambda: nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, batch_first=True)), loss_of),
    "an encoder in evaluation": (own(encoder, first=linear(10, 16), last=linear(16, 7), encoder=lambda: (
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True))), with_evaluation),
    "an encoder in evaluation behind what is sparse": (own(
        sparse_then_encoder, first=linear(10, 16), weights=lambda: nn.ParameterList([torch.eye(16)]),
        last=linear(16, 7), encoder=lambda: nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.0, batch_first=True).eval().requires_grad_(False)), loss_of, lambda c: [c.model.seen]),
    "LSTM": (recurrent(nn.LSTM), loss_of), "GRU": (recurrent(nn.GRU), loss_of), "RNN": (recurrent(nn.RNN), loss_of),
    "two directions": (recurrent(nn.LSTM, bidirectional=True), loss_of),
    "slices": (checkpointed(False), loss_of), "slices, reentrant": (checkpointed(True), loss_of),
    "slices without a whole": (make_model, lambda m, step: MSE(m[2:](m[:2](batch(step)[0])), batch(step)[1])),
    "tied": (own(tied, first=linear(10, 16), last=linear(10, 7)), loss_of),
    "a bare parameter": (own(tangled, first=linear(10, 10), last=linear(10, 7), scale=lambda: nn.Parameter(
        torch.linspace(0.5, 1, 11))), loss_of),
    "a forward in a thread": (own(in_thread, first=linear(10, 10), last=linear(10, 7)), loss_of),
    "functional_call": (make_model, functional), "gradients of samples": (make_model, per_sample),
    "no module": (make_model, by_hand), "two backwards": (make_model, two_backwards),
    "a device as a context": (make_model, with_a_device), "a mode of its own": (make_model, with_a_mode),
    "two views of one storage": (Views, loss_of), "experts": (with_experts, loss_of),
    "a hypernetwork": (own(hyper, maker=linear(4, 70), base=linear(10, 7)), loss_of),
    "lists and dicts": (own(listed, weights=lambda: nn.ParameterList(torch.eye(10) * n for n in (1, 2)),
                            named=lambda: nn.ModuleDict({"out": nn.Linear(10, 7)})), loss_of),
    "inputs of a subclass": (make_model, lambda model, step: MSE(
        model(batch(step)[0].as_subclass(Subclass)).as_subclass(torch.Tensor), batch(step)[1])),
    "scripted": (wrapped("script"), loss_of), "traced": (wrapped("trace"), loss_of),
    "a scripted part": (own(scripted_part, part=wrapped("script"), last=linear(7, 7)), loss_of),
    "fx": (lambda: torch.fx.symbolic_trace(make_model()), loss_of), "hooks": (hooked, loss_of),
    "lazy": (lazily, loss_of),
    "convolutions": (lambda: nn.Sequential(nn.Unflatten(1, (1, 10)), nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4),
                                           nn.Flatten(), nn.LayerNorm(32), nn.Linear(32, 7)), loss_of),
    "a bilinear form": (own(lambda self, x: self.form(x, x @ self.form.weight[0]), form=lambda: nn.Bilinear(10, 10, 7)),
                        loss_of),
    "sparse inputs": (own(lambda self, x: torch.sparse.mm(x.to_sparse(), self.first.weight) + self.first.bias,
                          first=lambda: Sideways(10, 7)), loss_of),
    "bags": (own(lambda self, x: self.last(self.bag((x * 4).abs().long() % 9)), bag=lambda: nn.EmbeddingBag(9, 10),
                 last=linear(10, 7)), loss_of),
}


class Sideways(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.zeros(outputs))


#: (model, loss, after) by kind and name.
JOBS = {**{("look", name): (make_model, loss_of, after) for name, after in LOOKS.items()},
        **{("write", name): (make_model, loss_of, after) for name, after in WRITES.items()},
        **{("forward", name): (*job, lambda c: None)[:3] for name, job in FORWARDS.items()}}
