"""Ranks that come back after a death come back at one step, or say why they cannot. Tests optim/overlap/ranks.py,
optim/overlap/steps.py."""

import datetime
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings

import torch
import zf_runtime
from case import support
from ports import free_port
from zf_runtime import ZfError, ZfStateError
from zf_runtime.native.runtime import Runtime
from zf_runtime.optim.overlap.ranks import Found, goes, timeout_of_program

JOB = pathlib.Path(__file__).resolve().parents[1] / "jobs/kept_ranks.py"
FOLDER = f"/dev/shm/zf-keep-rank-cases-{os.getpid()}"
KILLS = int(os.environ.get("ZF_KILLS", "1"))  # for each way of training


class OneStep(unittest.TestCase):
    def test_a_step_that_went_anywhere_goes_everywhere(self):
        behind, ahead = Found(gone=6, prepared=7), Found(gone=7)
        for every, wanted in (((behind, ahead), [True, False]), ((ahead, Found(7, 8)), [False, False]),
                              ((behind, behind), [False, False]), ((Found(), Found()), [False, False]),
                              ((Found(0, 1), Found(1)), [True, False]), ((behind, ahead, behind), [True, False, True])):
            with self.subTest(every=every):
                self.assertEqual([goes(every, rank) for rank in range(len(every))], wanted)

    def test_ranks_that_cannot_come_to_one_step_say_why(self):
        for other, why in ((Found(), "rank 1 has nothing that was kept: it has closed it at the job's end, or"),
                           (Found(5, 6), "rank 1 is at step 5, and others are at step 7"),
                           (Found(6), "rank 1 is at step 6, and others are at step 7"),
                           (Found(refusal="of another release"), "rank 1 cannot go on: of another release")):
            for rank in (0, 1):
                with self.subTest(other=other, rank=rank), self.assertRaisesRegex(ZfStateError, why):
                    goes((Found(7), other), rank)


def stepped(optimizer, params, gradient):
    """Does a step with a gradient, or without. Returns what was refused."""
    for param in params:
        param.grad = None if gradient is None else torch.full_like(param, gradient)
    try:
        optimizer.step(max_norm=1.0)
    except ZfError as error:
        return str(error)
    return ""


def skips(rank):
    """Returns what was refused where steps are skipped by all ranks, by rank 1, and by rank 0."""
    params, others = ([torch.ones(40, requires_grad=True)] for _ in range(2))
    with zf_runtime.AdamW(params, lr=0.1, overlap="exact", keep="skips") as optimizer:
        said = [stepped(optimizer, params, gradient) for gradient in (
            1.0, None, float("nan"), (1.0, None)[rank], 2.0, (float("inf"), 1.0)[rank], 3.0)]
        optimizer.synchronize()
    other = zf_runtime.AdamW(others, lr=0.1, overlap="off")
    for gradient in (1.0, 2.0, 3.0):
        stepped(other, others, gradient)
    return said, torch.equal(params[0], others[0])


def without_a_log(rank):
    """Returns how many steps are done if rank 1 alone has no memory for a log of steps that begin in backward."""
    init = Runtime.__init__

    def refusing(runtime, *given, groups=(), **more):
        if rank == 1 and any(group.speculative for group in groups):
            raise ZfError("no memory", "ZF_ERROR_SYSTEM")
        init(runtime, *given, groups=groups, **more)

    params = [torch.ones(40, requires_grad=True)]
    with unittest.mock.patch.object(Runtime, "__init__", refusing), zf_runtime.AdamW(
            params, overlap="exact", keep="log", speculate=True) as optimizer:
        for _ in range(3):
            stepped(optimizer, params, 1.0)
        optimizer.synchronize()
        return optimizer.state[params[0]]["step"].item()


def work(rank, port, plan, queue):
    """A rank."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", ZF_PLAN=plan,
                      ZF_KEEP_FOLDER=FOLDER)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
                                         timeout=datetime.timedelta(seconds=50))
    assert timeout_of_program() == datetime.timedelta(seconds=50)
    queue.put((rank, *skips(rank), without_a_log(rank)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


class Together(unittest.TestCase):
    def test_ranks_skip_a_step_together_or_all_say_why_not_with_a_log_or_without(self):
        context = torch.multiprocessing.get_context("fork")  # which has imported torch
        queue = context.Queue()
        port, plan = int(free_port()), support.plan("--ranks", "2")
        ranks = [context.Process(target=work, args=(rank, port, plan, queue), daemon=True) for rank in range(2)]
        for rank in ranks:
            rank.start()
            self.addCleanup(rank.kill)
        for rank, said, is_same, steps in (queue.get(timeout=60) for _ in ranks):
            with self.subTest(rank=rank):
                self.assertEqual([each[:5] for each in said], ["", "", "", "with ", "", "with ", ""])
                self.assertIn(f"step 2 is skipped by {('another', 'this')[rank]} rank, which has no grad", said[3])
                self.assertIn(f"step 3 is skipped by {('this', 'another')[rank]} rank, which has no grad", said[5])
                self.assertTrue(is_same, "what was refused has changed a step")
                self.assertEqual(steps, 3, "a rank without a log has not met the other")


class Timeouts(unittest.TestCase):
    def test_ranks_wait_for_each_other_as_long_as_the_program_says(self):
        kinds, short, long = ("cpu", "cuda"), datetime.timedelta(seconds=7), datetime.timedelta(seconds=70)
        for given, wanted in (({"cpu": short}, short), ({"cuda": long}, long), ({"cpu": short, "cuda": long}, long),
                              ({}, None)):
            backends = {kind: types.SimpleNamespace(options=types.SimpleNamespace(_timeout=timeout))
                        for kind, timeout in given.items()}
            world = types.SimpleNamespace(_device_types=[torch.device(kind) for kind in kinds if kind in given],
                                          _get_backend=lambda device, backends=backends: backends[device.type])
            with self.subTest(given=given), unittest.mock.patch.object(
                    torch.distributed, "group", types.SimpleNamespace(WORLD=world)):
                self.assertEqual(timeout_of_program(), wanted)


class Restarted(unittest.TestCase):
    def run_job(self, *words):
        """Returns the digest of a job's results, and behind which steps its ranks have begun."""
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder, "digest")
            # Else torch's gloo finds the addresses of the dead.
            ran = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                 "--monitor-interval", "0.1", "--max-restarts", "10", str(JOB), *words[:2], str(output), *words[2:]],
                capture_output=True, text=True, timeout=200, check=False,
                env={**os.environ, "ZF_KEEP_FOLDER": FOLDER, "ZF_PLAN": support.plan("--ranks", "2"),
                     "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
            self.assertEqual(ran.returncode, 0, ran.stderr[-2000:])
            return output.read_text(), re.findall(r"rank \d begins behind step (\d+)", ran.stdout)

    def test_a_rank_of_two_that_is_killed_changes_no_bit(self):
        """Under torchrun, which starts both again."""
        ways = [("fsdp", "exact"), ("ddp", "exact"), ("ddp", "off")]
        for way in ways if KILLS > 1 else ways[:1]:
            wanted, begins = self.run_job(*way)
            self.assertEqual(begins, ["0", "0"], "torchrun has started ranks again that were not killed")
            for _ in range(KILLS):
                dies = f"{random.randrange(2)}:{random.uniform(0, 0.1):.4f}"
                with self.subTest(way=way, dies=dies):
                    got, begins = self.run_job(*way, dies)
                    print(way, dies, begins)
                    self.assertEqual((begins[:2], len(begins)), (["0", "0"], 4))
                    self.assertTrue(begins[2] == begins[3] != "0", begins)
                    self.assertEqual(got, wanted)
                    self.assertFalse(os.path.exists(FOLDER))


if __name__ == "__main__":
    unittest.main()
