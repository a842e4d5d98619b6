"""Small jobs that keep a graph over step() and use it then, as those of reads_jobs.py."""

import torch
import torch.utils.checkpoint
from exact import batch
from reads_jobs import MSE, F, own
from torch import nn


def scaled(self, inputs):
    """Nothing of the first part's parameters is needed for a backward: a step may come before it."""
    return self.last(torch.tanh(inputs * self.scale + self.shift))


def parts(**more):
    return own(more.pop("forward", scaled), scale=lambda: nn.Parameter(torch.linspace(0.5, 1, 10)),
               shift=lambda: nn.Parameter(torch.zeros(10)), last=lambda: nn.Linear(10, 7), **more)


def gradients(c):
    return [param.grad.clone() for param in c.kept if param.grad is not None]


def keeping(build):
    """Returns a loss with a graph of its own, and that keeps what build(model, inputs) makes before step()."""
    def loss_of(model, step):
        inputs, targets = batch(step)
        loss = MSE(model(inputs), targets)
        model.kept = build(model, inputs)
        return loss

    return loss_of


def used(use):
    """Returns what comes after step(): use(context, kept), then a second step with the gradients that there are."""
    def after(c):
        found = use(c, c.model.kept)
        c.model.kept = None
        found = [*(found or ()), *gradients(c)]
        c.optimizer.step()
        return found

    return after


def job(build, use, make=None):
    return make or parts(), keeping(build), used(use)


def old_loss(model, inputs):
    return (inputs * model.scale + model.shift).square().sum()


def backward(c, kept):
    kept.backward()


def told(call):
    """Runs a call that torch refuses. Returns what it says of the reason."""
    try:
        call()
    except RuntimeError as error:
        return ["modified by an inplace operation" in str(error)]
    return ["it is not refused"]


def penalty(model, inputs):
    inputs = inputs.clone().requires_grad_()
    gradient, = torch.autograd.grad((inputs + model.shift).pow(3).sum(), inputs, create_graph=True)
    return gradient.square().mean()


class WithModule(torch.autograd.Function):
    """Reads in backward what the step has made of a parameter."""

    @staticmethod
    def forward(ctx, inputs, shift, module):
        ctx.module = module
        return inputs + shift

    @staticmethod
    def backward(ctx, gradient):
        weight = ctx.module.weight.detach()
        return gradient * weight.sum(), gradient.sum(0) * weight[0], None


def recomputed(reentrant):
    def build(model, inputs):
        first = torch.utils.checkpoint.checkpoint(model.first, inputs.clone().requires_grad_(), use_reentrant=reentrant)
        bare = torch.utils.checkpoint.checkpoint(lambda x: F.linear(x, model.last.weight) * model.scale[:7], first,
                                                 use_reentrant=reentrant)
        return bare.sum()

    return job(build, backward, parts(forward=lambda self, x: self.last(self.first(x) * self.scale + self.shift),
                                      first=lambda: nn.Linear(10, 10)))


def vjp(model, inputs):
    return torch.func.vjp(lambda scale, shift: (inputs * scale + shift).sum(0), model.scale, model.shift)[1]


def mixed(c, kept):
    (kept + MSE(c.model(c.x), torch.ones(3, 7))).backward()


def twice(c, kept):
    kept.backward(retain_graph=True)
    c.optimizer.step()
    kept.backward()


GRAPHS = {
    "a loss": job(old_loss, backward),
    "a loss, for some": job(old_loss, lambda c, kept: kept.backward(inputs=[c.model.shift])),
    "a leaf": job(lambda model, inputs: model.shift, lambda c, kept: kept.backward(torch.ones(10))),
    "a part of a graph": job(lambda model, inputs: inputs * model.scale + model.shift,
                             lambda c, kept: c.model.last(kept).sum().backward()),
    "gradients": job(old_loss, lambda c, kept: torch.autograd.grad(kept, [c.model.scale, c.model.shift])),
    "gradients that are not needed": job(old_loss, lambda c, kept: [
        each for each in torch.autograd.grad(kept, c.kept, allow_unused=True) if each is not None]),
    "a penalty": job(penalty, backward), "vjp": job(vjp, lambda c, kept: kept(torch.ones(10))),
    "a graph with a new one": job(old_loss, mixed), "over two steps": job(old_loss, twice),
    "a generator": job(lambda model, inputs: model.made(inputs), lambda c, kept: c.model.last(
        kept).mean().backward(), parts(made=lambda: nn.Linear(10, 10))),
    "a first layer": job(lambda model, inputs: model.last(inputs).sum(), backward),
    "a read in backward": job(lambda model, inputs: WithModule.apply(inputs, model.shift, model.last).sum(), backward),
    "recomputed": recomputed(False), "recomputed, reentrant": recomputed(True),
    "what torch refuses": job(lambda model, inputs: model(inputs).sum(), lambda c, kept: told(kept.backward)),
    "gradients that torch refuses": job(lambda model, inputs: model(inputs).sum(), lambda c, kept: told(
        lambda: torch.autograd.grad(kept, c.model.shift))),
}
#: Older torch calls no mode in torch.autograd.backward().
IS_SEEN = "handle_torch_function" in torch.autograd.backward.__code__.co_names
if IS_SEEN:
    GRAPHS["a list of losses"] = job(old_loss, lambda c, kept: torch.autograd.backward([kept, kept * 2]))
