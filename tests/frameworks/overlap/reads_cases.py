"""In mode exact a program reads and writes what it does with overlap="off", bit for bit, however it does it. Costs
25 s. ZF_READS is how often each job runs. Tests optim/overlap/compiled.py, optim/overlap/reads.py."""

import copy
import functools
import os
import pickle
import random
import signal
import threading
import unittest
import warnings

import torch
import zf_runtime
from case import forget_compiled, interrupts
from exact import Case, is_under_way, loss_of, make_model, pause, plan, values_of
from graphs_jobs import GRAPHS
from reads_jobs import JOBS, Context, Passing
from torch.utils._device import DeviceContext
from zf_runtime.optim.overlap import reads

STEPS = 5
EVERY = {**JOBS, **{("graph", name): job for name, job in GRAPHS.items()}}


#: Attributes.
WITHOUT_VALUES = ("shape", "dtype", "device", "grad", "is_leaf", "requires_grad", "_version", "ndim", "layout",
                  "grad_fn", "nbytes", "itemsize", "is_sparse", "is_cuda", "is_meta", "retains_grad")


class Recording(torch.overrides.TorchFunctionMode):
    """Keeps what is called."""

    def __init__(self):
        super().__init__()
        self.calls = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.add(func)
        return func(*args, **(kwargs or {}))


def modes():
    return [torch._C._get_function_stack_at(at) for at in range(torch._C._len_torch_function_stack())]


def trained(job, mode):
    """Returns losses, reads and weights, and in how many steps the step was under way when step() returned."""
    make, loss_of, after = job
    torch.manual_seed(1)
    model = make()
    under_way, found = 0, []
    with zf_runtime.AdamW(model.parameters(), lr=1e-2, overlap=mode, plan=plan(),
                          runtime_options={}) as optimizer:
        context = Context(model, optimizer)
        for context.step in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(model, context.step)
            loss.backward()
            pause(optimizer)
            optimizer.step()
            under_way += mode == "exact" and is_under_way(optimizer)
            seen = after(context)
            found += [loss.item(), *(seen if isinstance(seen, list) else ())]
    assert not modes(), "our mode has stayed"
    return found + values_of(model), under_way


def same(mine, theirs):
    if isinstance(theirs, torch.Tensor):
        return mine.dtype == theirs.dtype and torch.equal(mine, theirs)
    return mine == theirs


class Reads(Case):
    def setUp(self):
        super().setUp()
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", message=".*(torch.jit|weight_norm)")

    def test_every_job_finds_what_it_finds_with_off(self):
        self.assertGreaterEqual(len(EVERY), 120)
        for name, job in EVERY.items():
            with self.subTest(name):
                wanted, _ = trained(job, "off")
                for _ in range(int(os.environ.get("ZF_READS", "1"))):
                    got, under_way = trained(job, "exact")
                    self.assertEqual(under_way, STEPS, "nothing was under way")
                    differ = [at for at, pair in enumerate(zip(got, wanted)) if not same(*pair)]
                    self.assertEqual((differ, len(got)), ([], len(wanted)))


class Modes(Case):
    """The stack of modes is as the program has left it, and ours is on it only while a step is under way."""

    def stepped(self, **options):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact", **options)
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
        self.assertTrue(is_under_way(optimizer))
        self.assertEqual([type(mode) for mode in modes() if not isinstance(mode, (Passing, DeviceContext))],
                         [reads.Reads])
        return model, optimizer

    def test_what_reads_no_values_does_not_wait(self):
        """The optimizer process stands still. What waits all the same waits 20 s at most."""
        def calls(param):
            for name in WITHOUT_VALUES:
                getattr(param, name)
            for make in (torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like, torch.randn_like):
                make(param)
            torch.full_like(param, 0.5), torch.randint_like(param, 3), param.new_full((2,), 0.5)
            param.new_empty(2), param.new_zeros(2), param.new_ones(2), param.new_empty_strided((2,), (1,))
            torch.empty_strided((2,), (1,))
            param.size(), param.stride(), param.numel(), param.dim(), param.is_contiguous(), len(param)
            param.element_size(), param.get_device(), param.storage_offset()
            param.grad = torch.ones_like(param)
            del param.grad
            param.requires_grad_(True)
            param.requires_grad = True
            param.register_hook(lambda gradient: gradient)
            param.register_post_accumulate_grad_hook(lambda param: None)

        model, optimizer = self.stepped()
        scalar = model[2].bias.detach()[0]
        optimizer.zero_grad()
        loss_of(model, 2).backward()
        pid = optimizer.runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        goes_on = threading.Timer(20, os.kill, (pid, signal.SIGCONT))
        goes_on.start()
        try:
            optimizer.step()
            model.zero_grad()
            optimizer.zero_grad()
            with Recording() as recorded:
                for param in model.parameters():
                    calls(param)
            self.assertEqual((reads.WITHOUT_VALUES | reads.FILLING) - recorded.calls, set(), "they were not called")
            self.assertEqual(len(optimizer._engine._reads._left), 4)
        finally:
            goes_on.cancel()
            os.kill(pid, signal.SIGCONT)
        torch.ones(1, requires_grad=True).sum()  # a node of autograd: each parameter is waited for by itself
        float(model[0].bias.detach().sum())
        self.assertEqual(len(optimizer._engine._reads._left), 3)
        torch.full_like(model[0].bias, scalar)
        self.assertEqual(len(optimizer._engine._reads._left), 2)

    def test_what_is_sent_is_let_go_at_once_unless_it_may_have_been_read_unseen(self):
        for is_read in (False, True):
            model, optimizer = self.stepped()
            self.assertTrue(optimizer._engine.opened.overlap.turn.ended.wait(20))
            if is_read:
                with torch._C.DisableTorchFunction():
                    unseen = torch.nn.functional.linear(torch.ones(10), model[0].weight).sum()
            float(model[0].bias.detach().sum())
            self.assertEqual(len(optimizer._engine._reads._left), 3 if is_read else 0)
            if is_read:
                with self.assertRaisesRegex(zf_runtime.ZfError, "read unseen"):
                    unseen.backward()

    def test_it_leaves_the_stack_with_the_last_wait(self):
        model, _ = self.stepped()
        loss_of(model, 2)
        self.assertEqual(modes(), [])
        self.assertEqual(len(torch.nn.modules.module._global_forward_pre_hooks), 0)

    def test_what_another_thread_ends_leaves_with_the_next_call_of_a_module(self):
        for end in (lambda kept: kept[0].close(), lambda kept: kept[0].synchronize(), list.clear):
            model, optimizer = self.stepped()
            kept = [optimizer]
            self._cleanups.clear()  # it has the optimizer, too
            del optimizer
            thread = threading.Thread(target=end, args=(kept,))
            thread.start()
            thread.join()
            loss_of(model, 2)
            self.assertEqual(modes(), [])
            self.assertEqual(len(torch.nn.modules.module._global_forward_pre_hooks), 0)

    def test_modes_that_end_in_another_order(self):
        def kept_open():
            with Passing():
                yield

        first = Passing()
        with first:
            model, _ = self.stepped()
            self.assertIs(modes()[-1], first)
            late = kept_open()
            next(late)
        self.assertEqual(len(modes()), 2)
        loss_of(model, 2)
        self.assertEqual(len(modes()), 1)
        late.close()
        self.assertEqual(modes(), [])

    def test_a_device_as_a_context_stays_the_lowest(self):
        with torch.device("cpu"):
            model, optimizer = self.stepped()
            with torch.device("meta"):
                self.assertEqual(torch.ones(2).device.type, "meta")
            loss_of(model, 2)
        self.assertEqual(modes(), [])
        model, optimizer = self.stepped()
        with torch.device("meta"):
            values_of(model)
        optimizer.synchronize()
        self.assertEqual(modes(), [])

    def test_a_device_as_a_context_ends_while_a_step_is_under_way(self):
        with torch.device("cpu"):
            _, optimizer = self.stepped()
        self.assertEqual(modes(), [optimizer._engine._reads])

    def test_an_interrupt_leaves_the_modes_of_the_program(self):
        """At each line while ours comes and goes, and by signals at random."""
        model, optimizer = self.stepped()
        optimizer.synchronize()
        ours = optimizer._engine._reads

        def comes_and_goes():
            ours.begin(optimizer._engine.opened.arena.places)
            ours.end()
            ours.leave()

        device, own = torch.device("cpu"), [Passing(), Passing()]
        with device, own[0], own[1]:
            before = modes()
            self.assertEqual(len(before), 3)
            draw = random.Random(5)
            ways = [functools.partial(interrupts.at_line, line) for line in range(1, interrupts.lines_of(
                comes_and_goes))]
            ways += [functools.partial(interrupts.by_signal, draw.uniform(0, 1e-4)) for _ in range(200)]
            self.assertGreater(len(ways), 230)
            for number, interrupted in enumerate(ways):
                interrupted(comes_and_goes)
                self.assertEqual([mode for mode in modes() if mode is not ours], before, number)
                comes_and_goes()
                self.assertEqual(modes(), before, number)
                self.assertEqual(ours._threads, set(), number)
        self.assertEqual(modes(), [])
        loss_of(model, 2)
        self.assertEqual(len(torch.nn.modules.module._global_forward_pre_hooks), 0)

    def test_an_interrupt_of_a_read_that_waits_leaves_none_of_ours(self):
        for line in range(1, 60):
            model, optimizer = self.stepped()
            interrupts.at_line(line, lambda model=model: values_of(model))
            optimizer.synchronize()
            optimizer.close()
            self.assertEqual(modes(), [], line)
            self.assertEqual(len(torch.nn.modules.module._global_forward_pre_hooks), 0, line)

    def test_a_child_of_a_fork_has_none(self):
        self.stepped()
        child = os.fork()
        if child == 0:
            os._exit(len(modes()))
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_model_that_is_compiled_for_the_first_time_before_a_step_or_while_it_is_under_way(self):
        def program(mode, begins, resets):
            forget_compiled()
            compilations, found, model = [], [], make_model()

            def backend(graph, _):
                compilations.append(graph)
                return graph.forward

            optimizer = self.ours(model.parameters(), mode)
            used = model
            for step in range(5):
                optimizer.zero_grad()
                if resets and step == begins:
                    torch._dynamo.reset()
                if step == begins:
                    self.assertEqual(is_under_way(optimizer), mode == "exact" and step > 0)
                    used = torch.compile(lambda inputs: model(inputs) * 1, backend=backend)
                loss = loss_of(used, step)
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            return [len(compilations), sum(len(graph.graph.nodes) for graph in compilations), *found]

        for how in ((0, False), (2, False), (2, True)):
            wanted = program("off", *how)
            self.assertEqual(program("exact", *how), wanted, how)
            self.assertEqual(wanted[0], 1)


class Copies(Case):
    def test_a_copy_of_an_open_optimizer_opens_at_its_first_step(self):
        for way in (copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))):
            for state in ("fp32", "bf16"):
                def program(make, way=way, state=state):
                    model = make_model()
                    optimizer = make(model.parameters(), clip_grad_norm=0.05, state=state)
                    for step in range(3):
                        optimizer.zero_grad()
                        loss_of(model, step).backward()
                        optimizer.step()
                    twin, other = way((model, optimizer))
                    self.assertIs(getattr(other._engine, "opened", None), None)
                    for step in range(3, 6):
                        for net, each in ((model, optimizer), (twin, other)):
                            each.zero_grad()
                            loss_of(net, step).backward()
                            each.step()
                    other.synchronize()
                    optimizer.synchronize()
                    for mine, theirs in zip(values_of(twin), values_of(model)):
                        self.assertTrue(torch.equal(mine, theirs))
                    other.close()
                    return values_of(twin)

                self.same(program)

    def test_copies_that_open_in_a_child_wait_there(self):
        def results(model, optimizer, read):
            found = []
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                pause(optimizer)
                optimizer.step()
                found += read(model)
            optimizer.close()
            return found

        def forward_alone(model):
            with torch._C.DisableTorchFunction():  # it hides all from our mode: the gates alone see the modules
                return [model(torch.ones(1, 10)).detach()]

        pairs = [(model := make_model(), self.ours(model.parameters(), mode)) for mode in self.modes]
        for read in (values_of, forward_alone):
            (model, off), (twin, exact) = copy.deepcopy(pairs)
            child = os.fork()
            if child == 0:
                try:
                    torch.set_num_threads(1)  # OpenMP hangs in a child of a process that has used its threads
                    wanted, got = results(model, off, read), results(twin, exact, read)
                    os._exit(0 if all(map(torch.equal, got, wanted)) else 3)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, read)


class OnTheCpu(Case):
    def test_without_a_pool_it_is_in_place_and_says_so(self):
        model = make_model()
        zf_runtime.native.planned._said.clear()
        with self.assertWarnsRegex(UserWarning, "parameters on the CPU.*in place"):
            optimizer = zf_runtime.AdamW(model.parameters(), overlap="exact")
        self.assertEqual(optimizer.overlap, "exact")
        with self.assertRaisesRegex(zf_runtime.ZfError, "in place"):
            _ = optimizer.runtime
        ways = [{"plan": plan()}] if zf_runtime.native.planned.has_own_pool(plan()) else []
        for options in (*ways, {"runtime_options": {}, "plan": plan()}):
            with zf_runtime.AdamW(make_model().parameters(), overlap="exact", **options) as optimizer:
                self.assertGreater(optimizer.runtime.stats().worker_pid, 0)


if __name__ == "__main__":
    unittest.main()
