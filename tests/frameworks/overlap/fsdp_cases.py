"""FSDP2 over gloo: mode exact computes and reads what overlap="off" does, bit for bit, also where the optimizer process
stands still as step() hands over. Costs 30 s; ZF_PROGRAMS and ZF_KILLS make it longer. Tests
optim/overlap/shards.py."""

import datetime
import itertools
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import traceback
import unittest
import unittest.mock
import warnings

import torch
import torch.distributed as dist
import warm
from fsdp_programs import (
    AFTER,
    BF16,
    backward,
    bits_of,
    differing,
    draw,
    make_model,
    make_optimizer,
    program,
    train,
)
from ports import free_port
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from zf_runtime import ZfError

STEPS = 5
PROGRAMS = [
    {"clip": 1.2}, {"mixed": True, "clip": 0.05}, {"dtype": BF16, "state": "bf16+split", "clip": 1e3}, {"outside": 0.5},
    {"accumulate": 3}, {"accumulate": 3, "syncs": False, "after": ["evaluated"]}, {"drops": False, "hybrid": True},
    {"recomputes": "inside", "tied": True, "frozen": True}, {"recomputes": "outside", "wrap": "root"},
    {"wrap": "layers", "reshard": False, "groups": True, "schedule": True}, {"prefetch": True, "offload": True},
    {"explicit": True, "ignored": True}, {"dimension": 1, "after": ["written in its shard"]}]


def same(options, steps=STEPS):
    wanted, got = program(options, "off", steps), program(options, "exact", steps)
    where = differing(got[0], wanted[0])
    assert not where, f"{options}: these results differ: {where}"
    assert got[1] == steps, f"{options}: in {steps - got[1]} steps nothing was hidden"
    return got


def programs(_):
    for options in PROGRAMS if dist.get_world_size() > 1 else PROGRAMS[:5]:
        early = same(options)[2]
        assert early > 10 * (STEPS - 2) or "outside" in options, f"{options}: {early} gradients were copied in backward"


def reads(_):
    same({"after": list(AFTER), "blocks": 1}, len(AFTER) + 1)


def drawn(_):
    for seed in range(int(os.environ.get("ZF_PROGRAMS", "3"))):
        same(draw(seed))


def each_group_waits_for_its_own(_):
    """Also where the next group is gathered ahead."""
    for prefetch in (False, True):
        model = make_model(prefetch=prefetch)
        with make_optimizer(model, "exact") as optimizer:
            for step in range(2):
                optimizer.zero_grad()
                backward(model, step)
                optimizer.step()
            engine, asked = optimizer._engine, []
            names = {id(param): name for name, param in model.named_parameters()}

            def noting(places, wait=engine.wait_for, asked=asked, names=names):
                asked += [names[id(place.param)] for place in places]
                return wait(places)

            engine.wait_for, engine.wait_for_all = noting, lambda asked=asked: asked.append("all")
            engine.opened.overlap._release = lambda turn: False  # it would let go of all once the process is done
            with torch.no_grad():
                model(torch.zeros(1, 3, dtype=torch.int64))
            assert set(asked) == set(names.values()), asked
            in_order = [name for name, _ in itertools.groupby(name[:8] for name in asked)]  # the root's own come first
            assert in_order == ["words.we", "head.wei", "blocks.0", "blocks.1", "blocks.2"], asked
            stepped = [names[key][:8] for key in engine._order.read]
            assert list(dict.fromkeys(stepped)) == in_order, stepped


def clipping_is_torch_s(_):
    """The norm is that of all ranks, and the clipped gradients are torch's, bit for bit."""
    for mixed in (False, True):
        results = []
        for clip in ("clip", "outside", "asks"):
            options = {"mixed": mixed, clip: 1.2}
            for mode in ("off", "exact"):
                model = make_model(**options)
                with make_optimizer(model, mode, **options) as optimizer:
                    found, _ = train(model, optimizer, STEPS, options)
                    numbers = [float(value) for value in found if value is not None]
                    results.append([*numbers, *bits_of(model, optimizer)])
        for other in results[1:]:
            assert not differing(other, results[0]), differing(other, results[0])


def resumed(folder):
    """A distributed checkpoint of one mode goes on in the other, and in the same one."""
    for state in ("fp32", "bf16"):
        options = {"clip": 1.2, "state": state}
        model = make_model()
        undisturbed = make_optimizer(model, "off", **options)
        train(model, undisturbed, 7, options)
        wanted = bits_of(model, undisturbed)
        for first in ("off", "exact"):
            saved = f"{folder}/{first}.{state}"
            model = make_model()
            with make_optimizer(model, first, **options) as optimizer:
                train(model, optimizer, 4, options)
                states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
                checkpoint.save(states, checkpoint_id=saved)
            for second in ("off", "exact"):
                model = make_model()
                with make_optimizer(model, second, **options) as optimizer:
                    optimizer.param_groups[0]["lr"] = 5.0
                    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
                    checkpoint.load(states, checkpoint_id=saved)
                    set_state_dict(model, optimizer, model_state_dict=states["model"],
                                   optim_state_dict=states["optimizer"])
                    train(model, optimizer, 3, options, first=4)
                    where = differing(bits_of(model, optimizer), wanted)
                    assert not where, f"{first} to {second}, {state}: these differ: {where}"


def killed(_):
    """The optimizer process of either rank dies up to 3 ms after a step was handed over."""
    kills, moments = int(os.environ.get("ZF_KILLS", "10")), random.Random(dist.get_rank())
    results = []
    for mode in ("off", "exact"):
        model = make_model()
        more = {"runtime_options": {"max_restarts": 10 * kills}} if mode == "exact" else {}
        with make_optimizer(model, mode, clip=0.5, **more) as optimizer:
            found = []
            for step in range(2 * kills):
                optimizer.zero_grad()
                found += backward(model, step)
                optimizer.step()
                if mode == "exact" and step % 2 == 1:
                    time.sleep(moments.uniform(0, 0.003))
                    os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
            results.append([*found, *bits_of(model, optimizer)])
            if mode == "exact":
                restarts = optimizer.runtime.stats().restarts
                # Nothing restarts after the last kill if its step was done.
                assert restarts >= 0.9 * kills - 1, f"{restarts} restarts of {kills} kills"
    assert not differing(*results), differing(*results)


def refused(said, make, *calls):
    try:
        with make() as optimizer:
            for call in calls:
                call(optimizer)
    except (ZfError, RuntimeError) as error:
        assert said in str(error), f"not {said!r}: {error}"
    else:
        raise AssertionError(f"not refused: {said}")


def refusals(_):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module

    refused("is a DTensor of Tensor: a process steps those of plain tensors, with overlap=\"exact\" alone; use",
            lambda: make_optimizer(make_model(), "late"))
    refused("sharded along another dimension than the first: with state=\"bf16\"",
            lambda: make_optimizer(make_model(dimension=1), "exact", state="bf16"))
    ignoring = make_model(ignored=True)
    refused("some gradients are sharded (DTensors) and some are not",
            lambda: make_optimizer(ignoring, "exact", clip=1.0), lambda _: backward(ignoring, 0), lambda o: o.step())
    flat = FullyShardedDataParallel(torch.nn.Linear(4, 4), device_id=torch.device("cpu"))
    refused("a flat one of FullyShardedDataParallel", lambda: make_optimizer(flat, "exact"))
    parallel = torch.nn.Sequential(torch.nn.LayerNorm(4))
    parallelize_module(parallel, dist.init_device_mesh("cpu", (dist.get_world_size(),)), {"0": SequenceParallel()})
    refused("sharded otherwise than the parameter, as in tensor parallelism", lambda: make_optimizer(parallel, "exact"),
            lambda _: parallel(torch.ones(2, 4, 4)).pow(2).sum().to_local().backward(), lambda o: o.step())


OF_ONE = (programs, resumed)
OF_TWO = (programs, reads, drawn, each_group_waits_for_its_own, clipping_is_torch_s, resumed, killed, refusals)


def launch(folder, names, ranks):
    """Starts ranks that run these functions one after the other. Each leaves in the folder what went wrong."""
    env = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(ranks)}
    return warm.run_ranks([sys.executable, "-B", __file__, folder, *names], warm.TORCH, ranks, cwd=os.getcwd(),
                          env=env, timeout=3400)[1]


class Ranks(unittest.TestCase):
    def go_well(self, functions, ranks):
        with tempfile.TemporaryDirectory() as folder:
            said = launch(folder, [function.__name__ for function in functions], ranks)
            print(said)
            for function in functions:
                for rank in range(ranks):
                    result = pathlib.Path(folder, f"{function.__name__}.{rank}")
                    self.assertTrue(result.exists(), f"{result.name}\n{said}")
                    self.assertFalse(wrong := result.read_text(), wrong)

    def test_one_rank(self):
        self.go_well(OF_ONE, 1)

    def test_two_ranks(self):
        self.go_well(OF_TWO, 2)


class Long(unittest.TestCase):
    go_well = Ranks.go_well

    def test_two_ranks(self):
        self.go_well((drawn, killed), 2)


def main(folder, names):
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", message="zf_runtime")
    warnings.filterwarnings("ignore", message="zf_runtime.*gradients were written between")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    for name in names:
        began = time.monotonic()
        try:
            globals()[name](folder)
            wrong = ""
        except BaseException:
            wrong = traceback.format_exc()
        pathlib.Path(folder, f"{name}.{dist.get_rank()}").write_text(wrong)
        print(f"{name}: {time.monotonic() - began:.1f} s")
        if wrong:
            os._exit(1)  # the other rank may be elsewhere
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
