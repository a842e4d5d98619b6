"""AdamW(state=...) with an optimizer process: fewer bytes, the bits of a step in place, and checkpoints of every
format. Tests optim/overlap/arena.py, optim/tensors/formats.py."""

import copy
import io
import warnings
from unittest import mock

import case
import torch
import zf_runtime
from case import support
from models import groups_of, make_model, parameters_of, train
from zf_runtime.optim.overlap import arena
from zf_runtime.optim.tensors import formats

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
    """Returns the masters of all parameters that were stepped, in fp32."""
    states = optimizer.state_dict()["state"]
    found = []
    for number, param in enumerate(param for group in optimizer.param_groups for param in group["params"]):
        entry = states.get(number)
        if entry and "low" in entry:
            found.append(formats.master_of(param, entry["low"]))
        elif entry:
            found.append(entry.get("master", param).detach().float().clone())
    return found


def everything_of(model, optimizer) -> list:
    optimizer.synchronize()
    return [param.detach().clone() for param in model.parameters()] + masters_of(optimizer) + [
        optimizer.state[param][name].clone() for param in model.parameters() for name in ("exp_avg", "exp_avg_sq")]


class Formats(case.AdamWTest):
    def setUp(self):
        super().setUp()
        pieces = mock.patch.object(arena, "_LOW_BITS_AT_A_TIME", 100)  # these parameters are small
        pieces.start()
        self.addCleanup(pieces.stop)

    def optimizer_of(self, model, state, mode="off", **options):
        return self.ours(model.parameters(), mode, lr=1e-2, state=state, **options)

    def test_bits_are_those_in_place(self):
        """In each mode: the gradients do not depend on the parameters. One parameter is frozen, one is unfrozen later,
        and some gradients are missing."""
        for dtype, state in CASES:
            def stepped(make, dtype=dtype):
                model, random = make_model(dtype), torch.Generator().manual_seed(6)
                params = list(model.parameters())
                params[1].requires_grad_(False)
                params[3].requires_grad_(False)
                optimizer, reader = make(groups_of(model)), case.Reader(params)
                for step in range(9):
                    params[3].requires_grad_(step >= 4)
                    gradients = [torch.randn(param.shape, generator=random).to(dtype) for param in params]
                    missing = 2 if step % 3 == 1 else 0
                    reader.give([gradient if param.requires_grad and number != missing else None
                                 for number, (param, gradient) in enumerate(zip(params, gradients))])
                    optimizer.step()
                optimizer.synchronize()
                return params, optimizer.state_dict()

            more = {"lr": 1e-2, "state": state, **({} if state == "fp32" else {"seed": 9})}
            wanted = stepped(lambda groups, more=more: zf_runtime.AdamW(groups, **more))
            for mode in case.MODES:
                got = stepped(lambda groups, mode=mode, more=more: self.ours(groups, mode, **more))
                self.assert_bits(list(got), list(wanted), dtype, state, mode)

    def test_masters_are_fp32_whatever_new_tensors_are(self):
        model = torch.nn.Linear(64, 64).to(torch.bfloat16)
        optimizer = self.optimizer_of(model, "split", "late")
        model(torch.ones(3, 64, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
        before = masters_of(optimizer)
        torch.set_default_dtype(torch.bfloat16)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        self.assert_bits(masters_of(optimizer), before)
        self.assertEqual({master.dtype for master in before}, {torch.float32})

    def test_states_have_their_types_and_take_fewer_bytes(self):
        arenas = {}
        for dtype, state in CASES:
            model = torch.nn.Linear(1024, 1024).to(dtype)
            optimizer = self.optimizer_of(model, state, "late")
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
            optimizer.close()
        for dtype, saved in ((torch.float32, (0, 4, 0, 4)), (torch.bfloat16, (0, 4, 2, 6))):
            for state, bytes_saved in zip(FORMATS, saved):
                fewer = (arenas[dtype, "fp32"] - arenas[dtype, state]) / 2**20
                self.assertAlmostEqual(fewer, bytes_saved, delta=0.1)

    def test_losses_are_close_to_those_of_fp32_and_equal_to_those_in_place(self):
        for dtype in DTYPES:
            for mode in case.MODES:
                model = make_model(dtype)
                wanted = train(model, self.optimizer_of(model, "fp32", mode), 12)
                for state in FORMATS[1:]:
                    with self.subTest(dtype=dtype, state=state, mode=mode):
                        model, place = make_model(dtype), make_model(dtype)
                        losses = train(model, self.optimizer_of(model, state, mode), 12)
                        self.assertAlmostEqual(losses[-1], wanted[-1], delta=0.05 * wanted[0])
                        if state == "split" and dtype is torch.float32:
                            self.assertEqual(losses, wanted)
                        if mode in case.WAITING:
                            own = zf_runtime.AdamW(place.parameters(), lr=1e-2, state=state)
                            self.assertEqual(losses, train(place, own, 12))

    def test_a_saved_training_goes_on_bit_for_bit_whichever_is_loaded_first(self):
        for dtype, state in CASES:
            mode = "exact" if state in ("split", "fp32") else "off"
            seed = {"seed": 9} if state != "fp32" else {}
            model = make_model(dtype)
            optimizer = self.ours(groups_of(model), mode, lr=1e-2, state=state, **seed)
            train(model, optimizer, 4)
            saved, weights = reloaded(optimizer), copy.deepcopy(model.state_dict())
            train(model, optimizer, 4, first=4)
            for model_first in (True, False):
                other = make_model(dtype)
                with torch.no_grad():
                    for param in other.parameters():
                        param.mul_(3)
                second = self.ours(groups_of(other), mode, lr=1e-2, state=state)  # the seed is the file's
                if model_first:
                    other.load_state_dict(weights)
                second.load_state_dict(copy.deepcopy(saved))
                if not model_first:
                    other.load_state_dict(weights)
                train(other, second, 4, first=4)
                self.assert_bits(everything_of(model, optimizer), everything_of(other, second), dtype, state)
            if seed:
                self.assertEqual(second.param_groups[1]["seed"], 9)
            other = make_model(dtype)
            unseeded = self.ours(groups_of(other), mode, lr=1e-2, state=state)
            train(other, unseeded, 8)
            ours, theirs = everything_of(model, optimizer), everything_of(other, unseeded)
            self.assertEqual(all(map(torch.equal, ours, theirs)), "bf16" not in state)

    def test_a_state_moves_between_modes_and_in_place_bit_for_bit(self):
        for dtype, state in CASES:
            more = {"lr": 1e-2, "state": state}
            model = make_model(dtype)
            optimizer = zf_runtime.AdamW(groups_of(model), **more)
            train(model, optimizer, 8)
            moved = make_model(dtype)
            first = zf_runtime.AdamW(groups_of(moved), **more)
            train(moved, first, 2)
            for number, mode in enumerate(("off", "exact", None)):
                groups = groups_of(moved)
                again = self.ours(groups, mode, **more) if mode else zf_runtime.AdamW(groups, **more)
                again.load_state_dict(reloaded(first))
                train(moved, again, 2, first=2 + 2 * number)
                again.synchronize()
                first = again
            self.assert_bits([list(moved.parameters()), first.state_dict()],
                             [list(model.parameters()), optimizer.state_dict()], dtype, state)

    def test_grouping_changes_no_bit(self):
        """Elements have the numbers that a step in place gives them: odd sizes, frozen ones, and none at all count."""

        def trained(mode, *sizes_of_groups):
            torch.manual_seed(2)
            params = [torch.nn.Parameter(torch.randn(size)) for size in (33, 5, 0, 1000, 7)]
            params[1].requires_grad_(False)
            groups, rest = [], list(params)
            for size in sizes_of_groups:
                groups.append({"params": rest[:size]})
                del rest[:size]
            make = zf_runtime.AdamW if mode is None else lambda params, **more: self.ours(params, mode, **more)
            optimizer = make(groups, lr=1e-2, state="bf16")
            for _ in range(8):
                for param in params:
                    if param.requires_grad:
                        param.grad = torch.randn(param.shape)
                optimizer.step()
            optimizer.synchronize()
            live = [param for param in params if param.requires_grad]
            self.assertEqual([optimizer.state[param]["first_element"] for param in live], [0, 38, 38, 1038])
            return [optimizer.state[param][name].clone() for param in live for name in ("exp_avg", "exp_avg_sq")]

        whole = trained(None, 5)
        for mode in case.MODES:
            self.assert_bits(trained(mode, 5), whole)
            self.assert_bits(trained(mode, 1, 3, 1), whole)
        self.assert_bits(trained("off", 2, 2, 1), whole)

    def test_a_state_that_is_numbered_otherwise_is_taken_and_said(self):
        model = make_model()
        optimizer = self.optimizer_of(model, "bf16")
        train(model, optimizer, 2)
        saved = reloaded(optimizer)
        for entry in saved["state"].values():
            entry["first_element"] += 64
        with self.assertWarnsRegex(UserWarning, r"parameter of shape \(33, 10\): the state_dict numbers its elements "
                                   "from 64, and this optimizer from 0"):
            optimizer.load_state_dict(saved)
        self.assertEqual(optimizer.state[next(model.parameters())]["first_element"], 0)
        optimizer.load_state_dict(reloaded(optimizer))  # without a warning

    def test_every_format_loads_every_other(self):
        for dtype, before in CASES:
            model = make_model(dtype)
            optimizer = self.optimizer_of(model, before)
            train(model, optimizer, 4)
            saved, masters = reloaded(optimizer), masters_of(optimizer)
            moments = [optimizer.state[param]["exp_avg_sq"].clone() for param in model.parameters()]
            for after in FORMATS:
                other, place = copy.deepcopy(model), copy.deepcopy(model)
                second = self.optimizer_of(other, after, "exact" if before == "fp32" else "off")
                second.load_state_dict(copy.deepcopy(saved))
                kept = torch.bfloat16 if "bf16" in after else torch.float32
                self.assert_bits([second.state[param]["exp_avg_sq"] for param in other.parameters()],
                                 [moment.to(kept) for moment in moments])
                ties = [(master.view(torch.int32) & 0xFFFF) == 0x8000 for master in masters]
                self.assert_bits([master[~tie] for master, tie in zip(masters_of(second), ties)],
                                 [master[~tie] for master, tie in zip(masters, ties)])
                own = zf_runtime.AdamW(place.parameters(), lr=1e-2, state=after)
                own.load_state_dict(copy.deepcopy(saved))
                train(other, second, 2, first=4)
                train(place, own, 2, first=4)
                self.assert_bits(everything_of(other, second), everything_of(place, own), dtype, before, after)

    def test_a_master_between_two_parameters_is_as_in_place(self):
        """bf16 copies are rounded to even in a tie, split masters away from zero."""
        whole = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        source = zf_runtime.AdamW([whole], state="fp32")
        whole.grad = torch.ones_like(whole)
        source.step()
        saved = reloaded(source)
        saved["state"][0]["master"].fill_(1 + 2**-8)
        saved["param_groups"][0].update(lr=0.0)

        def loaded(make):
            param = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
            optimizer = make([param], state="split")
            optimizer.load_state_dict(saved)
            found = []
            for _ in range(2):
                param.grad = torch.ones_like(param)
                optimizer.step()
                optimizer.synchronize()
                found += [param.detach().clone(), masters_of(optimizer)]
            return found

        wanted = loaded(zf_runtime.AdamW)
        for mode in case.MODES:
            with self.subTest(mode=mode):
                self.assert_bits(loaded(lambda params, mode=mode, **more: self.ours(params, mode, **more)), wanted)

    def test_a_written_parameter_counts(self):
        for mode in case.MODES:
            model = make_model(torch.bfloat16)
            optimizer = self.optimizer_of(model, "bf16+split", mode)
            train(model, optimizer, 5)
            optimizer.synchronize()
            model[0].weight.data.fill_(3.0)
            for group in optimizer.param_groups:
                group.update(lr=0.0, weight_decay=0.0)
            train(model, optimizer, 1)
            optimizer.synchronize()
            self.assertTrue((model[0].weight == 3.0).all())

    def test_the_state_outlives_add_param_group_and_close(self):
        for mode in case.MODES:
            model, more = make_model(torch.bfloat16), torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
            optimizer = self.optimizer_of(model, "bf16+split", mode, seed=4)
            train(model, optimizer, 3)
            before = everything_of(model, optimizer)
            optimizer.add_param_group({"params": [more]})
            self.assert_bits(everything_of(model, optimizer), before)
            self.assertEqual(optimizer.param_groups[1]["seed"], 4)
            train(model, optimizer, 1, first=3)
            self.assertEqual(len(optimizer.state), 4)
            place = make_model(torch.bfloat16)
            if mode in case.WAITING:
                own = zf_runtime.AdamW(place.parameters(), lr=1e-2, state="bf16+split", seed=4)
                train(place, own, 4)
                self.assert_bits(everything_of(model, optimizer)[:4], everything_of(place, own)[:4])
            open_dict = reloaded(optimizer)
            optimizer.close()
            closed = optimizer.state_dict()
            self.assert_bits(closed["state"], open_dict["state"])

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
        self.addCleanup(support.plan)

        def format_of(**options):
            optimizer = self.ours([torch.nn.Parameter(torch.ones(3))], "late", plan=path, **options)
            return optimizer.param_groups[0].get("state_format", "fp32")

        self.addCleanup(support.plan.cache_clear)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual((format_of(), format_of(state="bf16+split")), ("bf16+split", "bf16+split"))
            self.assertEqual(said, [])
            self.assertEqual((format_of(state="fp32"), format_of(state="fp32")), ("fp32", "fp32"))
        line = "state='fp32' is used, and the plan is for 'bf16+split': make the plan with --state fp32"
        self.assertEqual([str(each.message) for each in said], [line])

    def test_what_does_not_go_together_is_one_line(self):
        def param(dtype):
            return torch.nn.Parameter(torch.ones(3, dtype=dtype))

        for mode in case.MODES:
            for params, options, text in (
                    ([param(torch.float32)], {"state": "int8"}, "is not a state format: use fp32, bf16, split or bf16"),
                    ([param(torch.float16)], {"state": "bf16"}, r"parameter of shape \[3\] is fp16, and only fp32 and"),
                    ([param(torch.float32)], {"state": "bf16", "amsgrad": True}, "amsgrad=True")):
                with self.subTest(text, mode=mode), self.assertRaisesRegex(zf_runtime.ZfError, text):
                    self.ours(params, mode, **options)
