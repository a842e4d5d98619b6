"""What is kept of a trainer that has died is what the next one goes on with, bit for bit; and what is refused. Tests
optim/overlap/kept.py, optim/overlap/steps.py."""

import hashlib
import os
import pathlib
import pickle
import random
import re
import select
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock
import warnings

import case
import torch
import zf_runtime
from case import support
from zf_runtime import ZfBusy, ZfError, ZfStateError

torch.set_num_threads(1)  # trainers are forked from here
BINARY, SOURCE = os.environ["ZF_TUNE_BINARY"], pathlib.Path(__file__).resolve().parents[3]
PLAN = support.plan()
FOLDER = f"/dev/shm/zf-keep-cases-{os.getpid()}"
KILLS = int(os.environ.get("ZF_KILLS", "3"))  # for each way of training
STEPS = 12


def setUpModule():
    os.environ["ZF_KEEP_FOLDER"] = FOLDER
    with warnings.catch_warnings(action="ignore"):
        # So that no fork has to import. There is no backward(): after one here, children could have none.
        model = Model()
        for param in model.parameters():
            param.grad = torch.zeros_like(param)
        with zf_runtime.AdamW(model.parameters(), plan=PLAN, overlap="exact", keep="life") as optimizer:
            optimizer.step()
            optimizer.state_dict()
    random.seed(int(os.environ.get("ZF_SEED", "1")))


def documented_loop():
    """Returns the loop of the page, as a function of what it names."""
    page = (SOURCE / "docs/recovery.md").read_text()
    return re.search(r"```python\n(.*?keep=.*?)```", page, re.DOTALL)[1]


class Model(torch.nn.Module):
    """It has dropout: its random state must go on, too."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(31, 67), torch.nn.Dropout(0.1), torch.nn.Tanh(),
                                          torch.nn.Linear(67, 5)).to(dtype)

    def forward(self, inputs):
        return self.layers(inputs)


def batch_of(step, dtype=torch.float32):
    return torch.randn(3, 31, generator=torch.Generator().manual_seed(step)).to(dtype)


def train(report, *, dtype=torch.float32, steps=STEPS, **options):
    """Trains to the end, or to a kill. Tells `report` when it has opened its optimizer, and its results."""
    torch.manual_seed(random.randrange(1 << 30))
    model = Model(dtype)
    with zf_runtime.AdamW(model.parameters(), lr=0.01, plan=PLAN, **options) as optimizer:
        step = 0
        if optimizer.kept:
            step, random_state = pickle.loads(optimizer.kept.note)
            torch.set_rng_state(random_state)
            assert optimizer.kept.step == step
        else:
            torch.manual_seed(5)
            model.load_state_dict(Model(dtype).state_dict())
        os.write(report, b"o" if step == 0 else b"k")
        while step < steps:
            model(batch_of(step, dtype)).float().square().mean().backward()
            step += 1
            optimizer.note = pickle.dumps((step, torch.get_rng_state()))
            optimizer.step()
            optimizer.zero_grad()
        optimizer.synchronize()
        os.write(report, digest_of(model, optimizer))


def digest_of(model, optimizer):
    """Returns a digest of parameters, and of all that a state_dict() has."""
    found = hashlib.sha256()
    for param in model.parameters():
        found.update(param.detach().contiguous().view(torch.uint8).numpy().tobytes())
    for _, entry in sorted(optimizer.state_dict()["state"].items()):
        for name, value in sorted(entry.items()):
            if isinstance(value, torch.Tensor):
                data = value.detach().reshape(-1).contiguous().view(torch.uint8)
                found.update(name.encode() + data.numpy().tobytes())
    return found.hexdigest().encode()


def forked(work, *given, **named):
    """Starts a process that does some work and ends without closing what it has. Returns its number."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work(*given, **named)
            status = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    return pid


def run_trainer(kill_after, **options):
    """Runs a trainer, and kills it some seconds after it has opened its optimizer, or after its start if that is
    negative. Returns its results, or b"" if it was killed before, and whether it had found a kept state."""
    mine, its = os.pipe()
    pid = forked(train, its, **options)
    os.close(its)
    said = b""
    if kill_after >= 0:
        said = os.read(mine, 1)
    killed = not select.select([mine], [], [], abs(kill_after))[0] or kill_after < 0
    if killed:
        os.kill(pid, signal.SIGKILL)
    while piece := os.read(mine, 100):
        said += piece
    os.close(mine)
    assert os.waitpid(pid, 0)[1] in (0, signal.SIGKILL)
    return said[1:], said[:1] == b"k"


def keepers():
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"--keep-folder\0" + FOLDER.encode() + b"\0" in words:
            found.append(int(process.name))
    return found


class Keep(case.AdamWTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.assert_nothing_left)

    def assert_nothing_left(self):
        until = time.monotonic() + 10
        while (os.path.exists(FOLDER) or keepers()) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(keepers(), [])
        self.assertFalse(os.path.exists(FOLDER))

    def die(self, steps=3, **options):
        """Leaves a state that is kept after so many steps."""

        def work():
            _, its = os.pipe()
            with unittest.mock.patch("os.write", lambda file, data: os._exit(0) if len(data) > 1 else len(data)):
                train(its, steps=steps, keep="life", **options)

        self.assertEqual(os.waitpid(forked(work), 0)[1], 0)

    def drop(self, name="life"):
        subprocess.run([BINARY, "kept", "--drop", name], check=True, capture_output=True)

    def test_kills_of_the_trainer_change_no_bit(self):
        ways = [{"overlap": "off"}, {"overlap": "exact"}, {"overlap": "off", "state": "bf16"},
                {"overlap": "exact", "state": "bf16"}, {"overlap": "exact", "speculate": True, "clip_grad_norm": 0.1},
                {"overlap": "off", "dtype": torch.bfloat16},
                {"overlap": "exact", "dtype": torch.bfloat16, "state": "bf16+split"}]
        for way in ways if KILLS > 3 else ways[::2]:
            with self.subTest(**way):
                wanted, _ = run_trainer(60, keep="calm", **way)
                began = time.monotonic()
                run_trainer(60, keep="calm", **way)
                longest = 0.8 * (time.monotonic() - began)
                resumed = kills = 0
                while kills < KILLS or resumed == 0:
                    got, was_kept = run_trainer(random.choice((-1, 1, 1, 1)) * random.uniform(0, longest), keep="life",
                                                **way)
                    resumed += was_kept
                    kills += not got
                    if got:
                        self.assertEqual(got, wanted)
                while not (got := run_trainer(60, keep="life", **way)[0]):
                    pass
                self.assertEqual(got, wanted)
                print(f"{way}: {kills} kills, {resumed} resumed")

    def test_the_documented_loop_goes_on_after_a_kill(self):
        loop = compile(documented_loop(), "recovery.md", "exec")

        def work(report, steps, ends):
            torch.manual_seed(5)
            given = {"torch": torch, "pickle": pickle, "zf_runtime": zf_runtime, "Model": Model, "batch_of": batch_of,
                     "steps": steps, "__name__": "__main__"}
            with unittest.mock.patch.dict(os.environ, ZF_PLAN=PLAN):
                close = zf_runtime.AdamW.close
                with unittest.mock.patch.object(zf_runtime.AdamW, "close", close if ends else lambda self: None):
                    exec(loop, given)
            given["optimizer"].synchronize() if not ends else None
            os.write(report, b"".join(bytes(param.detach().view(torch.uint8).numpy().tobytes())
                                      for param in given["model"].parameters()))

        results = []
        for parts in ((9,), (4, 6, 9)):
            for steps in parts:
                mine, its = os.pipe()
                pid = forked(work, its, steps, steps == 9)
                os.close(its)
                with open(mine, "rb") as file:
                    got = file.read()
                self.assertEqual(os.waitpid(pid, 0)[1], 0)
            results.append(got)
        self.assertEqual(*results)

    def test_a_program_that_fails_leaves_its_state_and_one_that_closes_does_not(self):
        program = ("import torch, zf_runtime\n"
                   "model = torch.nn.Linear(3, 2)\n"
                   f"optimizer = zf_runtime.AdamW(model.parameters(), plan={PLAN!r}, keep='life')\n"
                   "for param in model.parameters():\n"
                   "    param.grad = torch.ones_like(param)\n"
                   "optimizer.step()\n"
                   "raise ValueError('a bad batch')\n")
        failed = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
                                timeout=100, check=False)
        self.assertIn("a bad batch", failed.stderr)
        for wanted in (1, None):
            with zf_runtime.AdamW(torch.nn.Linear(3, 2).parameters(), plan=PLAN, keep="life") as optimizer:
                self.assertEqual(optimizer.kept and optimizer.kept.step, wanted)

    def test_an_exception_that_is_caught_leaves_the_state(self):
        program = ("import sys, torch, zf_runtime\n"
                   "def train():\n"
                   "    model = torch.nn.Linear(3, 2)\n"
                   f"    with zf_runtime.AdamW(model.parameters(), plan={PLAN!r}, keep='life') as it:\n"
                   "        model(torch.ones(1, 3)).sum().backward()\n"
                   "        it.step()\n"
                   "        raise ValueError\n"
                   "try:\n"
                   "    train()\n"
                   "except ValueError:\n"
                   "    sys.exit(3)\n")
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=100, check=False)
        self.assertEqual(ended.returncode, 3)
        with zf_runtime.AdamW(torch.nn.Linear(3, 2).parameters(), plan=PLAN, keep="life") as optimizer:
            self.assertEqual(optimizer.kept and optimizer.kept.step, 1)

    def test_a_model_of_other_shapes_is_refused_and_changes_nothing(self):
        wanted, _ = run_trainer(60, keep="calm", steps=5, overlap="exact")
        self.die(overlap="exact")

        def other():
            params = [param.detach().T.contiguous().requires_grad_() for param in Model().parameters()]
            with self.assertRaisesRegex(ZfStateError, "of a model with parameters of other shapes"):
                zf_runtime.AdamW(params, plan=PLAN, keep="life", overlap="exact")

        with warnings.catch_warnings(action="ignore"):
            self.assertEqual(os.waitpid(forked(other), 0)[1], 0)
        self.assertEqual(run_trainer(60, keep="life", steps=5, overlap="exact"), (wanted, True))

    def test_an_exception_out_of_with_closes_nothing(self):
        with self.assertRaises(KeyboardInterrupt), zf_runtime.AdamW(
                Model().parameters(), plan=PLAN, keep="life") as optimizer:
            raise KeyboardInterrupt
        self.assertEqual(len(keepers()), 1)
        optimizer.close()

    def test_parameters_get_what_was_kept_before_anything_compares_them(self):
        for options in ({}, {"dtype": torch.bfloat16}, {"dtype": torch.bfloat16, "state": "split"}):
            with self.subTest(**options):
                wanted, _ = run_trainer(60, keep="calm", steps=4, overlap="exact", **options)
                self.die(overlap="exact", **options)
                self.assertEqual(run_trainer(60, keep="life", steps=4, overlap="exact", **options)[0], wanted)

    def test_the_state_is_there_before_a_step(self):
        wanted, _ = run_trainer(60, keep="calm", steps=3, overlap="exact")
        self.die(overlap="exact")
        self.assertEqual(run_trainer(60, keep="life", steps=3, overlap="exact"), (wanted, True))

    def test_what_was_kept_before_a_first_step_counts_for_nothing(self):
        def work():
            model = Model()
            optimizer = zf_runtime.AdamW(model.parameters(), plan=PLAN, keep="life")
            optimizer.runtime.exp_avg(0)[:] = 7  # as a load leaves it that was cut short
            os._exit(0)

        self.assertEqual(os.waitpid(forked(work), 0)[1], 0)
        model = Model()
        before = [param.detach().clone() for param in model.parameters()]
        with zf_runtime.AdamW(model.parameters(), plan=PLAN, keep="life") as optimizer:
            self.assertIsNone(optimizer.kept)
            self.assert_bits(list(model.parameters()), before)
            self.assertEqual(abs(optimizer.runtime.exp_avg(0)).max(), 0)

    def test_the_environment_names_it(self):
        with unittest.mock.patch.dict(os.environ, ZF_KEEP="life"):
            with zf_runtime.AdamW(Model().parameters(), plan=PLAN):
                self.assertEqual(len(keepers()), 1)
            with self.assertRaisesRegex(ZfError, "ZF_KEEP is set, and Adam steps in place"):
                zf_runtime.Adam(Model().parameters())

    def assert_refused(self, kind, text, make=Model, **options):
        given = {"plan": PLAN, "keep": "life", **options}
        with self.assertRaisesRegex(kind, text):
            zf_runtime.AdamW(make().parameters(), **given)

    def test_what_cannot_be_kept_is_refused(self):
        self.assert_refused(ZfError, "steps in place: the memory is the job's own", overlap="backward")
        self.assert_refused(ZfError, "parameters that are one step older", overlap="late")
        for name in ("", "a/b", ".x", "a" * 65):
            self.assert_refused(ZfError, "is no name to keep an arena under", keep=name)
        self.assert_refused(ValueError, "keep_s is 0; it must be 1 to 2592000, or None", runtime_options={"keep_s": 0})
        self.assert_refused(ValueError, "keep_s is 2592001", runtime_options={"keep_s": 2592001})
        self.assert_refused(TypeError, "'keep_s', which needs keep=", keep=None, overlap="exact",
                            runtime_options={"keep_s": 5})
        self.assert_refused(TypeError, "'keep', which is an argument of AdamW", runtime_options={"keep": "a"})
        with unittest.mock.patch.dict(os.environ, LOCAL_RANK="0", LOCAL_WORLD_SIZE="2"):
            self.assert_refused(ZfError, "with 2 ranks, which agree on their step: call")
        with unittest.mock.patch.dict(os.environ, WORLD_SIZE="16"):
            self.assert_refused(ZfError, "with 16 ranks")

    def test_another_model_is_refused_and_changes_nothing(self):
        wanted, _ = run_trainer(60, keep="calm", steps=5, overlap="exact")
        self.die(overlap="exact")
        self.assert_refused(ZfStateError, "it has 4 groups, and not 2", lambda: torch.nn.Linear(2, 3))
        self.assert_refused(ZfStateError, "group 0 has the state format fp32, and not bf16", state="bf16")
        self.assert_refused(ZfStateError, "its note has", runtime_options={"note_bytes": 8})
        self.assert_refused(ZfStateError, "other types", lambda: Model(torch.bfloat16))
        self.assertEqual(run_trainer(60, keep="life", steps=5, overlap="exact")[0], wanted)

    def test_a_checkpoint_counts_from_the_step_behind_it(self):
        """Before that, moments are of the checkpoint, and parameters are not."""
        def load(steps):
            optimizer = zf_runtime.AdamW(Model().parameters(), plan=PLAN, keep="life", overlap="exact")
            optimizer.load_state_dict(optimizer.state_dict())
            for _ in range(steps):
                for param in optimizer.param_groups[0]["params"]:
                    param.grad = torch.ones_like(param)
                optimizer.step()
                optimizer.synchronize()

        self.die(overlap="exact")
        self.assertEqual(os.waitpid(forked(load, 1), 0)[1], 0)
        self.assertEqual(os.waitpid(forked(load, 0), 0)[1], 0)
        self.assert_refused(ZfStateError, "its trainer died while it")
        self.drop()

    def test_a_name_in_use_is_refused(self):
        with zf_runtime.AdamW(Model().parameters(), plan=PLAN, keep="life"):
            self.assert_refused(ZfBusy, f"is in use by process {os.getpid()}; close its handle first")

    def test_notes_have_a_size_and_need_a_name(self):
        with zf_runtime.AdamW(Model().parameters(), plan=PLAN, keep="life",
                              runtime_options={"note_bytes": 4}) as optimizer:
            optimizer.note = b"1234"
            with self.assertRaisesRegex(ZfError, "has 5 bytes, and there is room for 4"):
                optimizer.note = b"12345"
            self.assertEqual(optimizer.note, b"1234")
        optimizer = zf_runtime.AdamW(Model().parameters())
        with self.assertRaisesRegex(ZfError, "it needs keep="):
            optimizer.note = b"1"
        with self.assertRaisesRegex(ZfError, "the note is a str, and must be bytes"):
            optimizer.note = "1"

    def test_a_parameter_that_joins_later_is_refused(self):
        model = Model()
        model.layers[0].bias.requires_grad_(False)
        with zf_runtime.AdamW(model.parameters(), plan=PLAN, keep="life") as optimizer:
            model.layers[0].bias.requires_grad_(True)
            model(batch_of(0)).sum().backward()
            with self.assertRaisesRegex(ZfError, "with keep= no parameter can join"):
                optimizer.step()
