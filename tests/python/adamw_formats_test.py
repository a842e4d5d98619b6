"""OverlappedAdamW(state=...): fewer bytes, and checkpoints of every format."""

import copy
import io
import unittest
import warnings

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
import zf_runtime  # noqa: E402
from models import groups_of, make_model, parameters_of, train  # noqa: E402
from zf_runtime._in_arena import InArena  # noqa: E402

FORMATS = ("fp32", "bf16", "split", "bf16+split")
DTYPES = (torch.float32, torch.bfloat16)
CASES = [(dtype, state) for dtype in DTYPES for state in FORMATS]


def reloaded(optimizer) -> dict:
    """Returns the state dict as a file has it."""
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    return torch.load(file)


def masters_of(optimizer) -> list:
    """Returns the masters of all parameters, in fp32."""
    optimizer.synchronize()
    return [group.master(number).clone() for group in optimizer._groups for number in range(len(group.params))]


def everything_of(model, optimizer) -> list:
    optimizer.synchronize()
    return [param.detach().clone() for param in model.parameters()] + masters_of(optimizer) + [
        optimizer.state[param][name].clone() for param in model.parameters() for name in ("exp_avg", "exp_avg_sq")]


class Formats(adamw_case.AdamWTest):
    def optimizer_of(self, model, state, **options):
        return self.ours(model.parameters(), lr=1e-2, state=state, **{"overlap": False, **options})

    def assert_equal(self, ours: list, theirs: list) -> None:
        self.assertEqual(len(ours), len(theirs))
        for number, (one, other) in enumerate(zip(ours, theirs)):
            self.assertTrue(one.dtype == other.dtype and torch.equal(one, other), number)

    def test_masters_are_fp32_whatever_new_tensors_are(self):
        model = torch.nn.Linear(64, 64).to(torch.bfloat16)
        optimizer = self.optimizer_of(model, "split", overlap=True)
        before = masters_of(optimizer)
        torch.set_default_dtype(torch.bfloat16)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        self.assert_equal(masters_of(optimizer), before)

    def test_states_have_their_types_and_take_fewer_bytes(self):
        arenas = {}
        for dtype, state in CASES:
            model = torch.nn.Linear(1024, 1024).to(dtype)
            optimizer = self.optimizer_of(model, state, overlap=True)
            model(torch.ones(1, 1024, dtype=dtype)).sum().backward()
            optimizer.step()
            optimizer.synchronize()
            split = "split" in state and dtype is torch.bfloat16
            number = 0
            for param in model.parameters():
                entry = optimizer.state[param]
                moment = torch.bfloat16 if "bf16" in state else torch.float32
                self.assertEqual((entry["exp_avg"].dtype, entry["exp_avg_sq"].dtype), (moment, moment))
                self.assertEqual("master" in entry, dtype is torch.bfloat16 and not split)
                self.assertEqual(entry.get("first_element"), number if "bf16" in state else None)
                number += param.numel()
            arenas[dtype, state] = optimizer.runtime.stats().arena_bytes
            if split:
                with self.assertRaisesRegex(zf_runtime.ZfError, r"no array of fp32 parameters; .* with read_state\(\)"):
                    optimizer.runtime.params(0)
        for dtype, saved in ((torch.float32, (0, 4, 0, 4)), (torch.bfloat16, (0, 4, 2, 6))):
            for state, bytes_saved in zip(FORMATS, saved):
                fewer = (arenas[dtype, "fp32"] - arenas[dtype, state]) / 2**20
                self.assertAlmostEqual(fewer, bytes_saved, delta=0.1)

    def test_losses_are_close_to_those_of_fp32(self):
        for dtype in DTYPES:
            for overlap in (False, True):
                model = make_model(dtype)
                wanted = train(model, self.optimizer_of(model, "fp32", overlap=overlap), 60)
                for state in FORMATS[1:]:
                    with self.subTest(dtype=dtype, state=state, overlap=overlap):
                        model = make_model(dtype)
                        losses = train(model, self.optimizer_of(model, state, overlap=overlap), 60)
                        self.assertAlmostEqual(losses[-1], wanted[-1], delta=0.05 * wanted[0])
                        if state == "split" and dtype is torch.float32:
                            self.assertEqual(losses, wanted)

    def test_a_saved_training_goes_on_bit_for_bit_whichever_is_loaded_first(self):
        for dtype, state in CASES:
            seed = {"seed": 9} if state != "fp32" else {}
            model = make_model(dtype)
            optimizer = self.ours(groups_of(model), lr=1e-2, overlap=False, state=state, **seed)
            train(model, optimizer, 4)
            saved, weights = reloaded(optimizer), copy.deepcopy(model.state_dict())
            train(model, optimizer, 4, first=4)
            for model_first in (True, False):
                other = make_model(dtype)
                with torch.no_grad():
                    for param in other.parameters():
                        param.mul_(3)
                second = self.ours(groups_of(other), lr=1e-2, overlap=False, state=state)  # the seed is the file's
                if model_first:
                    other.load_state_dict(weights)
                second.load_state_dict(copy.deepcopy(saved))
                if not model_first:
                    other.load_state_dict(weights)
                train(other, second, 4, first=4)
                self.assert_equal(everything_of(model, optimizer), everything_of(other, second))
            if seed:
                self.assertEqual(second.param_groups[1]["seed"], 9)
            other = make_model(dtype)
            unseeded = self.ours(groups_of(other), lr=1e-2, overlap=False, state=state)
            train(other, unseeded, 8)
            ours, theirs = everything_of(model, optimizer), everything_of(other, unseeded)
            self.assertEqual(all(map(torch.equal, ours, theirs)), "bf16" not in state)

    def test_grouping_changes_no_bit(self):
        """Elements have the numbers that a step in place gives them: odd sizes, frozen ones, and none at all count."""
        def trained(*sizes_of_groups):
            torch.manual_seed(2)
            params = [torch.nn.Parameter(torch.randn(size)) for size in (33, 5, 0, 1000, 7)]
            params[1].requires_grad_(False)
            groups, rest = [], list(params)
            for size in sizes_of_groups:
                groups.append({"params": rest[:size]})
                del rest[:size]
            optimizer = self.ours(groups, lr=1e-2, state="bf16", overlap=False)
            for _ in range(8):
                for param in params:
                    if param.requires_grad:
                        param.grad = torch.randn(param.shape)
                optimizer.step()
            optimizer.synchronize()
            live = [param for param in params if param.requires_grad]
            self.assertEqual([optimizer.state[param]["first_element"] for param in live], [0, 38, 38, 1038])
            return [optimizer.state[param][name].clone() for param in live for name in ("exp_avg", "exp_avg_sq")]

        whole = trained(5)
        self.assert_equal(trained(1, 3, 1), whole)
        self.assert_equal(trained(2, 2, 1), whole)

    def test_a_state_that_is_numbered_otherwise_is_taken_and_said(self):
        model = make_model()
        optimizer = self.optimizer_of(model, "bf16")
        train(model, optimizer, 2)
        saved = reloaded(optimizer)
        for entry in saved["state"].values():
            entry["first_element"] += 64
        with self.assertWarnsRegex(UserWarning, "param_group 0, parameter 0: the state_dict numbers its elements from "
                                   "64, and this optimizer from 0"):
            optimizer.load_state_dict(saved)
        self.assertEqual(optimizer.state[next(model.parameters())]["first_element"], 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.load_state_dict(reloaded(optimizer))

    def test_every_format_loads_every_other(self):
        for dtype, before in CASES:
            model = make_model(dtype)
            optimizer = self.optimizer_of(model, before)
            train(model, optimizer, 4)
            saved, masters = reloaded(optimizer), masters_of(optimizer)
            moments = [optimizer.state[param]["exp_avg_sq"].clone() for param in model.parameters()]
            for after in FORMATS:
                other = copy.deepcopy(model)
                second = self.optimizer_of(other, after)
                second.load_state_dict(copy.deepcopy(saved))
                second._settle()
                kept = torch.bfloat16 if "bf16" in after else torch.float32
                self.assert_equal([second.state[param]["exp_avg_sq"] for param in other.parameters()],
                                  [moment.to(kept) for moment in moments])
                ties = [(master.view(torch.int32) & 0xFFFF) == 0x8000 for master in masters]
                self.assert_equal([master[~tie] for master, tie in zip(masters_of(second), ties)],
                                  [master[~tie] for master, tie in zip(masters, ties)])

    def test_a_master_between_two_parameters_stays(self):
        """bf16 copies are rounded to even in a tie, split masters away from zero."""
        params = [torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16)) for _ in range(2)]
        whole, split = self.ours(params[:1], state="fp32"), self.ours(params[1:], state="split")
        params[0].grad = torch.ones_like(params[0])
        whole.step()
        saved = copy.deepcopy(whole.state_dict())
        saved["state"][0]["master"].fill_(1 + 2**-8)
        split.load_state_dict(saved)
        split._settle()
        self.assert_equal(masters_of(split), [torch.full((3,), 1 + 2**-8)])

    def test_a_written_parameter_counts(self):
        model = make_model(torch.bfloat16)
        optimizer = self.optimizer_of(model, "bf16+split")
        train(model, optimizer, 5)
        model[0].weight.data.fill_(3.0)
        for group in optimizer.param_groups:
            group.update(lr=0.0, weight_decay=0.0)
        train(model, optimizer, 1)
        self.assertTrue((model[0].weight == 3.0).all())

    def test_the_state_outlives_add_param_group_and_close(self):
        model, more = make_model(torch.bfloat16), torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        optimizer = self.optimizer_of(model, "bf16+split", seed=4)
        train(model, optimizer, 3)
        before = everything_of(model, optimizer)
        optimizer.add_param_group({"params": [more]})
        self.assert_equal(everything_of(model, optimizer), [*before[:8], torch.ones(3), *before[8:]])
        self.assertEqual(optimizer.param_groups[1]["seed"], 4)
        more.grad = torch.ones_like(more)
        train(model, optimizer, 1)
        open_dict = reloaded(optimizer)
        optimizer.close()
        closed = optimizer.state_dict()
        for key, entry in open_dict["state"].items():
            for name in ("exp_avg", "low"):
                self.assertTrue(torch.equal(entry[name], closed["state"][key][name]))

    def test_torch_loads_what_we_save(self):
        for dtype, state in CASES:
            model = make_model(dtype)
            optimizer = self.optimizer_of(model, state)
            train(model, optimizer, 3)
            theirs = torch.optim.AdamW(model.parameters(), lr=1e-2)
            theirs.load_state_dict(reloaded(optimizer))
            train(model, theirs, 1, first=3)
            self.assertTrue(parameters_of(model).isfinite().all())

    def test_the_plan_names_the_format_and_an_argument_beats_it_in_one_line(self):
        path = support.plan("--state", "bf16+split")

        def format_of(**options):
            optimizer = InArena([torch.nn.Parameter(torch.ones(3))], plan=path, overlap=False, **options)
            self.addCleanup(optimizer.close)
            return optimizer.param_groups[0].get("state_format", "fp32")

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual((format_of(), format_of(state="bf16+split")), ("bf16+split", "bf16+split"))
            self.assertEqual(said, [])
            self.assertEqual((format_of(state="fp32"), format_of(state="fp32")), ("fp32", "fp32"))
        line = "state='fp32' is used, and the plan is for 'bf16+split': make the plan with --state fp32"
        self.assertEqual([str(each.message) for each in said], [line])
        support.plan()

    def test_what_does_not_go_together_is_one_line(self):
        def param(dtype):
            return torch.nn.Parameter(torch.ones(3, dtype=dtype))

        for params, options, text in (
                ([param(torch.float32)], {"state": "int8"}, "is not a state format: use fp32, bf16, split or bf16"),
                ([param(torch.float16)], {"state": "bf16"}, "param_group 0 holds fp16 parameters, which have no state"),
                ([param(torch.bfloat16), param(torch.float32)], {"state": "split"},
                 "param_group 0 holds bf16 parameters beside others"),
                ([param(torch.float32)], {"state": "bf16", "amsgrad": True}, "amsgrad=True")):
            with self.subTest(text), self.assertRaisesRegex(zf_runtime.ZfError, text):
                InArena(params, plan=support.plan(), **options)


if __name__ == "__main__":
    unittest.main()
