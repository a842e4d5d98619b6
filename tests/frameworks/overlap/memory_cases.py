"""What memory a later param_group and close() need, and that a failure there costs nothing. Tests
optim/overlap/arena.py."""

import mmap
import os
import signal
import time
import unittest.mock

import case
import torch
import zf_runtime
from zf_runtime import ZfError, ZfWorkerDied
from zf_runtime.optim.overlap import engine

ELEMENTS = 200_000  # several pages in each array
KINDS = ((torch.float32, "fp32"), (torch.bfloat16, "fp32"), (torch.bfloat16, "bf16+split"))


def arena_file(live):
    """Returns the path of an arena, which lasts as long as its process."""
    folder = f"/proc/{live.arena.runtime.stats().worker_pid}/fd"
    (arena,) = [each for each in os.listdir(folder) if "zf-arena" in os.readlink(f"{folder}/{each}")]
    return f"{folder}/{arena}"


def allocated_bytes(live):
    """Returns what an arena takes, of what it has reserved."""
    return os.stat(arena_file(live)).st_blocks * 512


def bytes_after_freeing(live, most):
    """Returns what an arena takes, when a thread of the library has freed all but `most` bytes, or after 10 s."""
    deadline = time.monotonic() + 10
    while (left := allocated_bytes(live)) >= most and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


class AddedGroup(case.AdamWTest):
    def setUp(self):
        super().setUp()

    def params(self, dtype):
        torch.manual_seed(7)
        return [torch.nn.Parameter(torch.randn(ELEMENTS).to(dtype)) for _ in range(2)]

    def give(self, params, step):
        """Gives gradients, by a backward: it may copy them early."""
        for param in params:
            param.grad = None
        torch.manual_seed(step)
        sum((param * torch.randn(ELEMENTS).to(param.dtype)).sum() for param in params).backward()

    def trained(self, make, dtype, added_at, fails=False):
        """Returns parameters and state after five steps, with a group more from one of them on."""
        first, second = self.params(dtype)
        optimizer = make([first])
        for step in range(5):
            if step == 2 and fails:
                self.give([first, second], step)
                optimizer.add_param_group({"params": [second]})
                with unittest.mock.patch("zf_runtime.optim.overlap.engine.Opened",
                                         side_effect=ZfError("no memory")), \
                        self.assertRaisesRegex(ZfError, "no memory"):
                    optimizer.step()
                optimizer.param_groups.pop()
            elif step >= added_at:
                self.give([first, second], step)
                if step == added_at:
                    optimizer.add_param_group({"params": [second]})
            else:
                self.give([first], step)
            optimizer.step()
        getattr(optimizer, "synchronize", lambda: None)()
        return [first.detach().float(), second.detach().float(), optimizer.state_dict()["state"]]

    def test_its_memory_is_one_copy_of_the_moments_more(self):
        for mode in case.MODES:
            for dtype, state in KINDS:
                with self.subTest(mode=mode, dtype=dtype, state=state):
                    first, second = self.params(dtype)
                    optimizer = self.ours([first], mode, state=state)
                    self.give([first], 0)
                    optimizer.step()
                    optimizer.synchronize()  # the step has written its pages
                    before, full = optimizer._engine.opened, allocated_bytes(optimizer._engine.opened)
                    gradients = (2 if mode == "late" else 1) * first.nbytes
                    most = full - 0.9 * (gradients + (first.nbytes if dtype == torch.float32 else 0))
                    found = []

                    def open_another(*args, before=before, most=most, found=found, real=engine.Opened,
                                     **options):
                        live = real(*args, **options)
                        found.append(bytes_after_freeing(before, most))
                        return live

                    optimizer.add_param_group({"params": [second]})
                    self.give([first, second], 1)
                    with unittest.mock.patch("zf_runtime.optim.overlap.engine.Opened", open_another):
                        optimizer.step()
                    (left,) = found
                    self.assertLess(left, most)

    def test_it_is_stepped_as_in_place_also_after_one_that_found_no_memory(self):
        for dtype, state in KINDS:
            for mode in case.WAITING:
                for added_at, fails in ((2, False), (3, True)):
                    with self.subTest(mode=mode, dtype=dtype, state=state, fails=fails):
                        wanted = self.trained(lambda params, state=state: zf_runtime.AdamW(params, state=state, seed=3),
                                              dtype, added_at)
                        got = self.trained(lambda params, mode=mode, state=state:
                                           self.ours(params, mode, state=state, seed=3), dtype, added_at, fails)
                        self.assert_bits(got, wanted)


class Closed(case.AdamWTest):
    def test_a_state_keeps_its_memory_and_nothing_else_stays(self):
        for mode in case.MODES:
            for dtype, state in KINDS:
                with self.subTest(mode=mode, dtype=dtype, state=state):
                    param = torch.nn.Parameter(torch.randn(ELEMENTS).to(dtype))
                    optimizer = self.ours([param], mode, state=state)
                    for _ in range(2):
                        param.square().sum().backward()
                        optimizer.step()
                        optimizer.zero_grad()
                    optimizer.synchronize()
                    memory = self.enterContext(open(arena_file(optimizer._engine.opened), "rb"))
                    shown = {name: value for name, value in optimizer.state[param].items() if torch.is_tensor(value)}
                    values = {name: value.clone() for name, value in shown.items()}
                    optimizer.close()
                    left = {name: optimizer.state[param][name] for name in shown}
                    self.assert_bits(left, values)
                    self.assertEqual([value.data_ptr() for value in left.values()],
                                     [value.data_ptr() for value in shown.values()])
                    stays = sum(value.nbytes for value in shown.values())
                    # With split masters no view has their low halves.
                    most = stays + 2 * ELEMENTS * (state == "bf16+split") + (1 << 16)
                    self.assertLess(os.fstat(memory.fileno()).st_blocks * 512, most)

    def test_a_parameter_without_a_gradient_keeps_nothing(self):
        for mode in case.MODES:
            for dtype, state in KINDS:
                with self.subTest(mode=mode, dtype=dtype, state=state):
                    used, unused = (torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size in (1, ELEMENTS))
                    optimizer = self.ours([used, unused], mode, state=state)
                    used.sum().backward()
                    optimizer.step()
                    memory = self.enterContext(open(arena_file(optimizer._engine.opened), "rb"))
                    optimizer.close()
                    most = 2 * ELEMENTS * (state == "bf16+split") + (1 << 16)  # as above
                    self.assertLess(os.fstat(memory.fileno()).st_blocks * 512, most)

    def test_many_small_parameters_keep_two_pages_each(self):
        params = [torch.nn.Parameter(torch.zeros(10)) for _ in range(200)]
        optimizer = self.ours(params, "exact")
        sum(param.sum() for param in params).backward()
        optimizer.step()
        memory = self.enterContext(open(arena_file(optimizer._engine.opened), "rb"))
        optimizer.close()
        self.assertLess(os.fstat(memory.fileno()).st_blocks * 512, 2 * len(params) * mmap.PAGESIZE + (1 << 18))

    def test_a_state_keeps_no_more_where_the_process_has_died_in_a_step(self):
        param = torch.nn.Parameter(torch.ones(ELEMENTS))
        optimizer = self.ours([param], "exact", runtime_options={"max_restarts": 0})
        param.sum().backward()
        pid = optimizer.runtime.stats().worker_pid
        memory = self.enterContext(open(arena_file(optimizer._engine.opened), "rb"))
        os.kill(pid, signal.SIGSTOP)
        optimizer.step()
        os.kill(pid, signal.SIGKILL)
        with self.assertRaises(ZfWorkerDied):
            optimizer.close()
        stays = sum(value.nbytes for value in optimizer.state[param].values())
        self.assertLess(os.fstat(memory.fileno()).st_blocks * 512, stays + (1 << 16))
