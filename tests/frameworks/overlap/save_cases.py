"""save_async() and DCP's async_save() have one moment between two steps, bit for bit, while the steps go on. Tests
optim/overlap/held.py, optim/saving.py."""

import contextlib
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import warnings
import weakref

import case
import torch
import torch.distributed.checkpoint as dcp
import zf_runtime
from case import support
from zf_runtime import ZfBusy, ZfError, ZfTimeout

torch.set_num_threads(1)  # trainers are forked from here
KILLS = int(os.environ.get("ZF_KILLS", "5"))
WIDTH, STEPS, MOMENT = 300, 12, 5
KINDS = (("fp32", torch.float32), ("fp32", torch.bfloat16), ("bf16", torch.float32), ("bf16+split", torch.bfloat16))


class Job:
    def __init__(self, mode, state="fp32", dtype=torch.float32, saved=None, **options):
        torch.manual_seed(3)
        self.data = torch.randn(STEPS, 8, WIDTH).to(dtype)
        self.model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 200), torch.nn.BatchNorm1d(200),
                                         torch.nn.Linear(200, 7)).to(dtype)
        if saved is not None:
            self.model.load_state_dict(saved["model"])
        if mode in ("late", "exact"):
            options = {"plan": support.plan(), "runtime_options": {}, **options}
        with warnings.catch_warnings(action="ignore"):
            self.optimizer = zf_runtime.AdamW(self.model.parameters(), overlap=mode, state=state, **options)
        if saved is not None:
            self.optimizer.load_state_dict(saved["optimizer"])

    def train(self, begin, end):
        for data in self.data[begin:end]:
            self.optimizer.zero_grad()
            self.model(data).float().square().mean().backward()
            self.optimizer.step()
        return self

    def now(self):
        """Returns copies of all there is."""
        self.optimizer.synchronize()
        return copied({"optimizer": self.optimizer.state_dict(), "model": self.model.state_dict()})


class Uncopied(torch.Tensor):
    def clone(self):
        raise NotImplementedError


def write_parameters(job):
    with torch.no_grad():
        job.model[0].weight.fill_(0.5)


def replace_moments(job):
    for entry in job.optimizer.state.values():
        entry["exp_avg"] = torch.ones_like(entry["exp_avg"])


def replace_and_save_at_once(job):
    replace_moments(job)
    job.optimizer.state_dict()


def write_moments(job):
    job.optimizer.synchronize()
    for entry in job.optimizer.state.values():
        entry["exp_avg"].fill_(1.0)


def join(job):
    new = torch.nn.Parameter(torch.ones(3))
    job.optimizer.add_param_group({"params": [new]})
    new.grad = torch.ones(3)
    job.optimizer.step()


@contextlib.contextmanager
def stopped(optimizer, seconds=None):
    """Stops the optimizer process meanwhile, for so many seconds at most."""
    worker = optimizer.runtime.stats().worker_pid
    os.kill(worker, signal.SIGSTOP)
    goes_on = threading.Timer(seconds or 1e6, os.kill, (worker, signal.SIGCONT))
    goes_on.start()
    try:
        yield
    finally:
        goes_on.cancel()
        with contextlib.suppress(ProcessLookupError):  # another one follows when a parameter joins
            os.kill(worker, signal.SIGCONT)


def caught(call, *given, **named):
    """Returns what a call raises, with its frames, which assertRaises() would clear."""
    try:
        return call(*given, **named)
    except Exception as error:
        return error


def copied(value):
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return value.clone() if isinstance(value, torch.Tensor) else value


def differing(one, other, name=""):
    """Returns the names of what differs in two structures."""
    if isinstance(one, dict):
        return [found for key in one.keys() | other.keys()
                for found in differing(one.get(key), other.get(key), f"{name}.{key}")]
    if isinstance(one, torch.Tensor):
        return [] if one.dtype == other.dtype and torch.equal(one, other) else [name]
    return [] if one == other else [name]


class Saves(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "saved.pt"

    def test_the_file_has_the_moment_of_its_call_and_training_goes_on_from_it(self):
        for mode in ("exact", "late", "off", "backward"):
            for state, dtype in KINDS:
                with self.subTest(mode=mode, state=state, dtype=dtype):
                    with Job(mode, state, dtype).optimizer:
                        pass
                    job = Job(mode, state, dtype).train(0, MOMENT)
                    twin = Job(mode, state, dtype).train(0, MOMENT)
                    expected = twin.now()
                    save = job.optimizer.save_async(self.path, model=job.model, epoch=2)
                    ended = job.train(MOMENT, STEPS).now()
                    save.wait()
                    job.optimizer.close()
                    self.assertEqual(differing(ended, twin.train(MOMENT, STEPS).now()), [])
                    twin.optimizer.close()
                    found = torch.load(self.path)
                    self.assertEqual(found.pop("epoch"), 2)
                    self.assertEqual(differing(found, expected), [])
                    on = Job(mode, state, dtype, torch.load(self.path)).train(MOMENT, STEPS)
                    if mode != "late":  # which begins with the new parameters
                        self.assertEqual(differing(on.now(), ended), [])
                    on.optimizer.close()

    def test_it_waits_for_nothing(self):
        """Behind step(), the step goes on; the copy is not waited for, either."""
        case.forget_compiled()
        job = Job("exact").train(0, 1)
        job.optimizer.synchronize()
        with stopped(job.optimizer):
            job.train(1, 2)
            save = job.optimizer.save_async(self.path)
            with self.assertRaises(ZfTimeout):
                save.wait(0.1)
            self.assertFalse(save.done())
            with self.assertRaisesRegex(ZfBusy, "the save to .* is not done"):
                job.optimizer.save_async(self.path)
        save.wait()
        self.assertEqual(differing(torch.load(self.path), job.now()["optimizer"]), [])
        job.optimizer.close()

    def test_close_waits_for_the_file_and_says_why_there_is_none(self):
        job = Job("exact").train(0, 1)
        job.optimizer.save_async(self.path)
        job.optimizer.close()
        self.assertEqual(len(torch.load(self.path)["state"]), 6)
        job = Job("exact").train(0, 1)
        with self.assertRaisesRegex(FileNotFoundError, "cannot write .*/no/folder.pt: .*No such file"):
            job.optimizer.save_async(self.folder / "no" / "folder.pt")
        with unittest.mock.patch("torch.save", side_effect=OSError("the disk is full")):
            job.optimizer.save_async(self.path)
            with self.assertRaisesRegex(OSError, "the disk is full"):
                job.optimizer.close()
        self.assertIsNone(job.optimizer._engine.opened)

    def test_a_forked_child_waits_for_no_save_of_its_parent(self):
        job, may_write, save_now = Job("off"), threading.Event(), torch.save

        def save_late(state, path):
            may_write.wait(20)
            save_now(state, path)

        with unittest.mock.patch("torch.save", save_late):
            save = job.train(0, 1).optimizer.save_async(self.path)
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                save.wait()
                job.optimizer.close()
                os._exit(0 if save.done() else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertFalse(save.done())
            may_write.set()
            job.optimizer.close()
        self.assertEqual(len(torch.load(self.path)["state"]), 6)

    def test_a_full_disk_is_named(self):
        """torch says "unexpected pos 17728 vs 17680" of it."""
        job = Job("exact").train(0, 1)
        with unittest.mock.patch("torch.save", side_effect=RuntimeError("unexpected pos")):
            save = job.optimizer.save_async(self.path)
            with self.assertRaisesRegex(ZfError, f"{self.path} cannot be written, .*bytes free: .*unexpected pos"):
                save.wait()
        self.assertFalse(self.path.exists())
        job.optimizer.close()

    def test_a_program_that_ends_without_wait_is_told_of_a_failure(self):
        ended = subprocess.run([sys.executable, "-c", f"""
import torch, zf_runtime
optimizer = zf_runtime.AdamW([torch.nn.Parameter(torch.zeros(9))])
def save(*given): raise OSError("the disk is full")
torch.save = save
optimizer.save_async({str(self.path)!r})"""], stderr=subprocess.PIPE, text=True, check=True, timeout=120)
        self.assertIn(f"the save to {self.path} has failed: the disk is full. Call wait()", ended.stderr)

    def test_a_failed_save_that_is_dropped_is_told_and_keeps_no_tensor(self):
        param = torch.nn.Parameter(torch.zeros(9))
        optimizer = zf_runtime.AdamW([param])
        written = []

        def save(state, path):
            written.append(weakref.ref(state["more"]))
            raise OSError("the disk is full")

        with unittest.mock.patch("torch.save", save), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            optimizer.save_async(self.path, more=torch.ones(9))._ended.wait(20)
            del optimizer
            gc.collect()
        self.assertIn("the disk is full", str([each.message for each in said]))
        self.assertIsNone(written[0]())

    def test_what_is_written_before_the_call_is_in_the_file(self):
        """Also to a parameter without a gradient, behind a step of others that is under way."""
        for mode in ("exact", "late"):
            job = Job(mode).train(0, MOMENT)
            job.optimizer.synchronize()
            job.optimizer.zero_grad()
            job.model[2](torch.ones(1, 200)).sum().backward()
            with self.subTest(mode=mode), stopped(job.optimizer, 0.1):
                write_parameters(job)
                job.optimizer.step()
                save = job.optimizer.save_async(self.path, model=job.model)
                expected = job.now()
                save.wait()
                self.assertTrue((expected["model"]["0.weight"] == 0.5).all())
                self.assertEqual(differing(torch.load(self.path), expected), [])
            job.optimizer.close()

    def test_what_is_written_behind_the_call_is_not_in_the_file(self):
        """The copy is made later here: what writes waits for it."""
        for state, dtype in KINDS[::3]:
            other = Job("exact", state, dtype).train(0, MOMENT - 1)
            loaded = other.now()["optimizer"]
            other.optimizer.close()
            for write in (write_parameters, replace_moments, replace_and_save_at_once, write_moments, join,
                          lambda job, loaded=loaded: job.optimizer.load_state_dict(loaded)):
                with self.subTest(state=state, dtype=dtype, write=write.__name__):
                    job = Job("exact", state, dtype).train(0, MOMENT)
                    expected = job.now()
                    with stopped(job.optimizer, 0.1):
                        save = job.optimizer.save_async(self.path, model=job.model)
                        write(job)
                        job.train(MOMENT, MOMENT + 1)
                    save.wait()
                    self.assertEqual(differing(torch.load(self.path), expected), [])
                    job.optimizer.close()

    def test_a_save_may_follow_one_that_has_failed(self):
        """However long the program keeps the exceptions, in the call, in the thread and in a stager's."""
        self.addCleanup(gc.enable)
        gc.disable()
        job, kept = Job("exact").train(0, 1), []
        gone = self.folder / "gone"
        for begin in (1, 2):
            gone.mkdir()
            with stopped(job.optimizer):
                save = job.optimizer.save_async(gone / "saved.pt", model=job.model)
                gone.rmdir()
            kept.append(caught(save.wait))
            del save
            kept.append(caught(job.optimizer.save_async, self.path, none=Uncopied()))
            kept.append(caught(job.optimizer.stager().stage, {"none": Uncopied()}))
            with unittest.mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
                kept.append(caught(job.optimizer.save_async, self.path))
                kept.append(caught(job.optimizer.stager().stage, {"step": 1}))
            with unittest.mock.patch.object(job.optimizer.runtime, "saved", side_effect=MemoryError()):
                kept.append(caught(job.optimizer.stager().stage({"weight": job.model[0].weight}).result))
            job.train(begin, begin + 1).optimizer.save_async(self.path).wait()
            self.assertEqual(differing(torch.load(self.path), job.now()["optimizer"]), [])
        self.assertEqual([type(each) for each in kept], 2 * [
            FileNotFoundError, NotImplementedError, NotImplementedError, RuntimeError, RuntimeError, MemoryError])
        job.optimizer.close()

    def test_a_path_counts_from_the_folder_of_the_call(self):
        """A link to a folder in it is followed before `..`."""
        self.addCleanup(os.chdir, os.getcwd())
        job = Job("exact").train(0, 1)
        (self.folder / "there/deep").mkdir(parents=True)
        (self.folder / "link").symlink_to("there/deep")
        os.chdir(self.folder)
        with stopped(job.optimizer):
            save = job.optimizer.save_async("link/../saved.pt")
            os.chdir("/")
        save.wait()
        self.assertEqual(len(torch.load(self.folder / "there/saved.pt")["state"]), 6)
        job.optimizer.close()

    def test_no_room_is_told_and_changes_nothing(self):
        job = Job("exact").train(0, 1)
        with unittest.mock.patch.dict(os.environ, ZF_EXPORT_MIB="2"):
            wide = torch.nn.Parameter(torch.ones(400_000))
            with case.with_process([wide], "exact") as optimizer:
                wide.grad = torch.ones_like(wide)
                optimizer.step()
                with self.assertRaisesRegex(ZfError, "a copy of the state needs .* there is room for 2 MiB"):
                    optimizer.save_async(self.path)
        job.optimizer.close()
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_tensor_that_is_there_twice_is_saved_once(self):
        job = Job("exact").train(0, 1)
        weight = job.model[0].weight.detach()
        job.optimizer.save_async(self.path, one=weight, other=weight, views=[weight[0], weight.T]).wait()
        found = torch.load(self.path)
        self.assertEqual(found["one"].data_ptr(), found["other"].data_ptr())
        self.assertEqual(differing(found["views"][0], weight[0]) + differing(found["views"][1], weight.T), [])
        job.optimizer.close()

    def test_values_that_are_no_tensors_are_those_of_the_call(self):
        job, seen, noted = Job("exact").train(0, 1), {1, 2}, types.SimpleNamespace(losses=[0.5])
        with stopped(job.optimizer):
            save = job.optimizer.save_async(self.path, seen=seen, nested=[noted, (noted, "text")])
            seen.add(3), noted.losses.append(0.25)
        save.wait()
        found = torch.load(self.path, weights_only=False)
        self.assertEqual((found["seen"], found["nested"][0].losses, found["nested"][1][1]), ({1, 2}, [0.5], "text"))
        self.assertIs(found["nested"][0], found["nested"][1][0])
        job.optimizer.close()

    def test_dcp_saves_without_a_copy_of_its_own(self):
        """A copy is held as long as the checkpoint is written, so the next one may follow."""
        for state, dtype in KINDS:
            job = Job("exact", state, dtype).train(0, MOMENT)
            stager = job.optimizer.stager()
            for begin in (MOMENT, MOMENT + 2):
                expected = job.now()
                shown = {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}
                for name in ("param_groups",):
                    shown["optimizer"].pop(name), expected["optimizer"].pop(name)
                with self.subTest(state=state, dtype=dtype, begin=begin), warnings.catch_warnings(action="ignore"):
                    saved = dcp.async_save(named(shown), checkpoint_id=self.folder / "dcp", async_stager=stager,
                                           no_dist=True)
                    job.train(begin, begin + 2)
                    saved.upload_completion.result()
                    found = named(copied(expected))
                    dcp.load(found, checkpoint_id=self.folder / "dcp", no_dist=True)
                    self.assertEqual(differing(found, named(expected)), [])
                del saved
            job.optimizer.close()

    def test_a_killed_trainer_leaves_the_old_file_or_the_new_one(self):
        """And at most one more, if it was killed as that got its name."""
        random.seed(int(os.environ.get("ZF_SEED", "1")))
        with Job("exact").train(0, 1).optimizer as optimizer:  # so that no fork has to import
            optimizer.save_async(self.path).wait()
        seen = {}
        for _ in range(KILLS):
            begun, tell = os.pipe()
            trainer = os.fork()
            if trainer == 0:
                try:
                    save_in_a_loop(self.path, tell)
                finally:
                    os._exit(1)
            os.close(tell)
            self.assertEqual(os.read(begun, 1), b"x")
            os.close(begun)
            time.sleep(random.random() * 0.1)
            os.kill(trainer, signal.SIGKILL)
            os.waitpid(trainer, 0)
            entry = torch.load(self.path)["state"][0]
            self.assertEqual(torch.unique(entry["exp_avg"]).numel(), 1)  # of one step
            seen[int(entry["step"])] = seen.get(int(entry["step"]), 0) + 1
            for left in set(self.folder.iterdir()) - {self.path}:
                self.assertRegex(left.name, rf"^\.saved\.pt\.({trainer}\.[0-9a-f]+\.\d+\.)?tmp$")
                left.unlink()
        print(KILLS, "kills of trainers; files of step", seen)
        with Job("exact").train(0, 1).optimizer as optimizer:
            optimizer.save_async(self.path)
        self.assertEqual([each.name for each in self.folder.iterdir()], ["saved.pt"])


def named(value):
    """Returns a structure with names instead of numbers, as checkpoints need them."""
    return {str(key): named(each) for key, each in value.items()} if isinstance(value, dict) else value


def save_in_a_loop(path, tell):
    param = torch.nn.Parameter(torch.zeros(100_000))
    optimizer = case.with_process([param], "exact")
    for step in range(1000):
        param.grad = torch.full_like(param, 1.0 + step)
        optimizer.step()
        save = optimizer.save_async(path)
        if step == 1:
            os.write(tell, b"x")
        save.wait()


if __name__ == "__main__":
    unittest.main()
