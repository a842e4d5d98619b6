"""zf_runtime.deepspeed under the real DeepSpeed: the same bits as DeepSpeedCPUAdam, also when its process is killed.

What was seen: DeepSpeed 0.19.8 (0.19.6 under --long), PyTorch 2.13.0, gloo, DeepSpeed's accelerator for CPUs. Tests
deepspeed/arena.py, deepspeed/beside.py, deepspeed/closing.py, deepspeed/exact_stages_1_and_2.py, deepspeed/fused.py,
deepspeed/publisher.py, deepspeed/waiting.py, deepspeed/zenflow.py."""

import itertools
import json
import os
import random
import re
import resource
import unittest

import warm
from frameworks_case import TUNE, FrameworkTest, free_port, job
from zf_cli import LIBRARY, SOURCE

BETWEEN = ["another lr", "another backward", "gradients", "write gradients", "fp32 params", "fp32 moments",
           "write masters", "write moments", "publish masters", "refresh masters", "optimizer's state_dict", "forward",
           "a forked child", "torch.save", "write weights"]
TOGETHER = ["forward", "evaluation", "fp32 params", "fp32 moments", "write weights", "write one", "write masters",
            "write moments", "publish masters", "refresh masters"]
# The same by tensors, without a function of DeepSpeed's.
DIRECTLY = ["masters", "write masters themselves", "moments", "write state", "write gradients themselves"]
SETTINGS = {"stage": (1, 2, 3), "dtype": ("fp32", "bf16"), "clip": (0.0, 0.5), "groups": (1, 2), "accumulation": (1, 2)}
ALL = [dict(zip(SETTINGS, values)) for values in itertools.product(*SETTINGS.values())]
SPIKES = {"3": "100", "4": "inf", "7": "nan", "9": "-100"}
SPIKED = {"mode": "exact", "speculate": True, "steps": 14, "clip": 2.5, "spikes": SPIKES}
LOADS = ["weights", "module", "full", "module weights"]  # see jobs/zero_loads.py
# Every pair of two settings' values occurs in one of these.
SOME = [{"stage": 1, "dtype": "fp32", "clip": 0.0, "groups": 1, "accumulation": 1},
        {"stage": 1, "dtype": "bf16", "clip": 0.5, "groups": 2, "accumulation": 2},
        {"stage": 2, "dtype": "fp32", "clip": 0.5, "groups": 2, "accumulation": 1},
        {"stage": 2, "dtype": "bf16", "clip": 0.0, "groups": 1, "accumulation": 2},
        {"stage": 3, "dtype": "fp32", "clip": 0.5, "groups": 1, "accumulation": 2},
        {"stage": 3, "dtype": "bf16", "clip": 0.0, "groups": 2, "accumulation": 1}]


def program(seed: int) -> dict:
    """Returns a case of jobs/zero_exact.py in which ranks do between steps, and before them, what random numbers
    say. In fp16 first steps overflow. Until one does not, DeepSpeed itself has no moments, and ours are zero."""
    pick = random.Random(seed)
    dtype = pick.choice(("fp32", "bf16", "fp16"))
    uses, between = ([use for use in some if dtype != "fp16" or not re.search("moments|state_dict", use)]
                     for some in (TOGETHER, BETWEEN))
    return {"stage": pick.choice((1, 2)), "dtype": dtype, "groups": pick.choice((1, 2)),
            "accumulation": pick.choice((1, 1, 3)), "clip": pick.choice((0.0, 0.0, 0.1, 5.0)),
            "speculate": pick.choice((False, True, True)), "seed": seed, "random": pick.choice((2, 4)),
            "uses": pick.sample(uses, pick.choice((1, 2))), "between": pick.sample(between, pick.choice((0, 1, 3))),
            "kills": pick.choice((0, 0, 2)), "two": pick.choice((False, False, True)),
            "bucket": pick.choice((1 << 20, 5000))}


class DeepSpeed(FrameworkTest):
    WARM = warm.DEEPSPEED
    CASES = "deepspeed"

    def setUp(self):
        super().setUp()
        self.make_plan("--ranks", "1", "--mode", "wait")

    def train(self, name: str, cases: list[dict], *launcher: str, **more: str) -> list[dict]:
        """Runs a job of jobs/ with these cases, and returns what it said."""
        (self.folder / "cases.json").write_text(json.dumps(cases))
        return self.launch(*launcher, *job(name), timeout=3000,
                           **(self.variables() | {"ZERO_CASES": str(self.folder / "cases.json")} | more))

    def variables(self) -> dict[str, str]:
        return {"ZF_PLAN": str(self.folder / "plan.json"), "PYTHONPATH": str(SOURCE / "runtime/python"),
                "ZF_RUNTIME_LIBRARY": LIBRARY}

    def assert_same_bits(self, said: dict, restarts: int):
        with self.subTest(**{name: value for name, value in said["case"].items() if name in SETTINGS}):
            self.assertEqual(said["own"], said["native"], self.output)
            self.assertEqual(said["differ"], 0, f"of {said['of']} elements of weights and moments")
            self.assertEqual(said["restarts"], restarts)
            self.assertFalse(said["left"], "the optimizer process lives on after engine.destroy()")
            self.assertGreater(len(set(said["own"])), 10, "the loss does not change: nothing was trained")

    def compare(self, cases: list[dict]):
        cases = [case | {"kill_at": 17, "sub_groups": case["stage"] == 3 and case["groups"] == 2} for case in cases]
        said = self.train("zero_pairs", cases)
        self.assertEqual(len(said), len(cases), self.output)
        for each in said:
            self.assert_same_bits(each, restarts=1)

    def test_losses_weights_and_moments_are_the_same_bits_although_it_is_killed(self):
        """Seen: 40 steps, killed before step 17; no loss and no element differs."""
        self.compare(SOME)

    def test_all_settings_give_the_same_bits(self):
        """Seen: 48 combinations, the same."""
        self.compare(ALL)

    def test_zenflow_absent_gradients_and_overflows_give_the_same_bits(self):
        """One process has all of these, since most of a process's time goes into imports."""
        zenflow = [{"steps": 64, "kill_at": 33, "select_interval": 8},
                   # With one selection: at each later one ZenFlow overwrites weights that its own optimizer process may
                   # still be stepping.
                   {"overlap": True, "steps": 64, "kill_at": 33, "groups": 2, "dtype": "bf16", "clip": 0.5}]
        # A layer that every third step uses. ZeRO scales its old gradient again at each step, in place.
        sometimes = [{"stage": stage, "steps": 14, "clip": 0.1, "sometimes": [1], "groups": 2, "sub_groups": stage == 3}
                     for stage in (1, 2, 3)]
        # The program reads and sets the gradient of a layer that gets none in this step: there lies what is left of an
        # earlier step, as ZeRO has scaled it.
        read_and_set = [{"stage": stage, "steps": 14, "clip": 0.1, "sometimes": [1], "set_gradient": True}
                        for stage in (2, 3)]
        # ZeRO skips that step and scales nothing. At the next step one layer gets no gradient.
        overflow = {"dtype": "bf16", "clip": 0.1, "steps": 14, "sometimes": [1, 2], "spikes": {"4": "inf"}}
        cases = [*({"zenflow": True} | case for case in zenflow), *sometimes, *read_and_set, overflow]
        said = self.train("zero_pairs", cases)
        self.assertEqual(len(said), len(cases), self.output)
        for case, each in zip(cases, said):
            with self.subTest(case):
                self.assert_same_bits(each, restarts=int("kill_at" in case))
        self.assertNotIn("0x", said[-1]["own"][4], "no overflow")
        self.assertEqual(self.output.count("DeepSpeed has skipped 1 of 5 steps, the last of them step 5: "), 1)

    def test_groups_with_betas_of_their_own_give_the_same_bits_in_any_order(self):
        """DeepSpeed's operator has one pair of powers of beta for all groups, and calculates it anew for other betas. A
        group may go on from the powers of the one before it."""
        orders = ("AB", "ABA", "BAA", "ABCA")
        cases = [{"betas": order, "steps": 20} for order in orders]
        cases += [{"betas": "ABA", "steps": 20} | more for more in (
            {"stage": 3, "sub_groups": True, "kill_at": 11}, {"zenflow": True, "overlap": True, "kill_at": 11},
            {"sometimes": [1]})]
        for said in self.train("zero_pairs", cases):
            with self.subTest(betas=said["case"]["betas"]):
                self.assert_same_bits(said, restarts=int(said["case"]["kill_at"] is not None))

    def test_what_the_program_gives_other_memory_counts(self):
        """A program re-binds .data of moments, masters and gradients, as do DeepSpeed's functions that move Adam's
        state away and back. Seen: losses, masters and the moments that a checkpoint has are DeepSpeed's bits."""
        stages = {"stage": 2, "dtype": "bf16", "clip": 0.1}, {"stage": 3, "clip": 0.1, "groups": 2, "sub_groups": True}
        moves = ["moments"], ["halved moments", "by deepspeed"], ["masters", "gradients"]
        cases = [stage | {"steps": 12, "moves": what} for stage in stages for what in moves]
        for said in self.train("zero_pairs", cases):
            self.assert_same_bits(said, restarts=0)
            self.assertGreaterEqual(said["stepped"], said["case"]["steps"], "the optimizer process has not stepped all")

    def need_pinned_memory(self):
        limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if os.geteuid() != 0 and 0 <= limit < 4 << 20:
            self.skipTest(f"no more than {limit} bytes may be pinned (ulimit -l)")

    def test_memory_that_deepspeed_pinned_is_given_back(self):
        """DeepSpeed's own operator pins on CPUs, too; torch's pinning does nothing there. Seen: stages 1 and 2 pin
        masters and gradients, stage 3 pins gradients. The arena takes the place of both."""
        self.need_pinned_memory()
        cases = [{"stage": stage, "dtype": "bf16", "steps": 12, "groups": 2, "sub_groups": stage == 3,
                  "pin_memory": True} for stage in (2, 3)]
        for said in self.train("zero_pairs", cases, DS_PIN_MEMORY_BACKEND="native"):
            self.assert_same_bits(said, restarts=0)
            own, native = said["pinned"]
            arrays = 1 if said["case"]["stage"] == 3 else 2
            self.assertGreaterEqual(own - native, arrays * 4 * said["parameters"], said["pinned"])

    def test_only_a_tail_of_fewer_than_16_elements_rounds_differently(self):
        """Seen: of 1606 elements, some of the last 6 differ after five steps. DeepSpeed steps those in scalar code."""
        said, = self.train("adam_tail", [])
        self.assertTrue(said["differ"])
        self.assertGreaterEqual(min(said["differ"]), said["elements"] - said["elements"] % 16)

    def test_late_is_one_step_late(self):
        """Seen: losses and weights equal those of DeepSpeed's own engine, which publishes its weights one step later
        by hand, in every bit, although the optimizer is killed. After a load, stage 2 goes on as the job that saved,
        and stage 3 says that it does not: its load publishes the newest weights."""
        cases = [{"steps": 14, "kill_at": 5, "stage": 2, "dtype": "fp32"},
                 {"steps": 14, "kill_at": 5, "stage": 2, "dtype": "bf16", "clip": 0.1, "groups": 2},
                 {"steps": 14, "kill_at": 5, "stage": 3, "dtype": "bf16", "clip": 0.1, "groups": 2, "sub_groups": True}]
        for said in self.train("zero_late", cases):
            with self.subTest(**{name: said["case"][name] for name in SETTINGS}):
                self.assertEqual(said["late"], said["expected"])
                self.assertEqual((said["differ"], said["restarts"]), (0, 1))
                self.assertTrue(said["waited"])
                self.assertEqual(said["resumed"], said["fresh"])
                self.assertEqual(said["resumed"] == said["went_on"], said["case"]["stage"] < 3)
                self.assertGreater(len(set(said["late"])), 10, "the loss does not change: nothing was trained")
        self.assertEqual(self.output.count("but not the same bits"), 2, self.output)  # two loads of stage 3

    def train_exact(self, cases: list[dict], *launcher: str) -> None:
        """Trains in mode exact beside DeepSpeed's own optimizer: see jobs/zero_exact.py."""
        self.said = said = self.train("zero_exact", [{"clip": 0.1} | case for case in cases], *launcher)
        self.assertGreater(len(said), len(cases), self.output)
        steps = hidden = 0
        for each in said:
            with self.subTest(use=each["use"], rank=each["rank"], dtype=each["case"]["dtype"]):
                self.assertEqual(each["own"], each["native"])
                self.assertFalse(each["differ"], "weights, masters or moments, or what was read of them")
                if each["use"] == "hooks before the step":
                    self.assertEqual(each["hidden"], 0, "a hook may read what the step writes")
                steps, hidden = steps + each["of"], hidden + each["hidden"]
        self.assertGreater(hidden, 0.7 * steps, "step() has waited for the optimizer process")

    def test_in_mode_exact_each_use_waits_and_gets_the_same_bits(self):
        """Stage 2 while the optimizer process stands still: forward with tied weights, checkpoints, attention and LoRA;
        29 ways to read or write state from outside; saved and resumed in four directions; two engines; killed after
        step() has returned. Seen: no bit differs from DeepSpeed's own. Costs 25 s."""
        self.train_exact([{"stage": 2, "dtype": "bf16", "groups": 2, "uses": ["all"], "random": 5, "kills": 10,
                           "resume": True, "two": True, "interrupts": True}])

    def test_in_mode_exact_steps_that_begin_in_backward_give_the_same_bits(self):
        """In each second step something reads or writes state or gradients between backward and step(); or a kill comes
        then. Costs 10 s."""
        between = {"stage": 2, "dtype": "bf16", "groups": 2, "clip": 0.0, "uses": ["forward"] * 8, "between": BETWEEN}
        directly = {"stage": 1, "dtype": "fp32", "groups": 1, "uses": ["forward"] * 5,
                    "between": DIRECTLY + BETWEEN[::3]}
        self.train_exact([case | {"speculate": True} for case in (
            between | {"interrupts": True}, between | directly,
            {"stage": 2, "dtype": "bf16", "clip": 0.0, "uses": ["forward"], "kills": 5, "accumulation": 3,
             "bucket": 5000})])  # so that gradients come before backward ends
        self.assertGreater(max(each["taken_back"] for each in self.said), 5)
        killed = self.said[-1]
        self.assertGreater(killed["begun"], 0)
        self.assertEqual(killed["taken_back"], 0, "a step was taken back although nothing was wrong with it")

    def test_in_mode_exact_settings_give_the_same_bits(self):
        """Seen: all 72 combinations. These are some of them. Spikes also come to steps that begin in backward. Costs
        17 s."""
        exact = {"mode": "exact", "steps": 14, "clip": 0.1}
        cases = [exact | {"stage": 1, "dtype": "fp32", "groups": 2, "accumulation": 3, "kill_at": 7},
                 exact | {"stage": 2, "dtype": "fp16", "sometimes": [1], "accumulation": 3, "spikes": SPIKES},
                 exact | {"stage": 2, "dtype": "bf16", "groups": 2, "spikes": SPIKES},
                 *(SPIKED | {"stage": stage, "dtype": dtype} for stage, dtype in ((1, "fp16"), (2, "bf16"))),
                 exact | {"stage": 1, "dtype": "bf16", "clip": 0.0, "betas": "ABA"},
                 exact | {"stage": 2, "dtype": "bf16", "sometimes": [1], "set_gradient": True},
                 exact | {"stage": 2, "dtype": "bf16", "moves": ["halved moments", "by deepspeed", "masters"]}]
        for said in self.train("zero_pairs", cases):
            self.assert_same_bits(said, restarts=int(said["case"]["kill_at"] is not None))

    def test_in_mode_exact_all_settings_give_the_same_bits(self):
        cases = [dict(zip(SETTINGS, values), mode="exact", steps=14, kill_at=7, speculate=speculate)
                 for *values, speculate in itertools.product(
                     (1, 2), ("fp32", "bf16", "fp16"), (0.0, 2.5, 0.05), (1, 2), (1, 3), (False, True))]
        for said in self.train("zero_pairs", cases):
            self.assert_same_bits(said, restarts=1)

    def exact_with_two_ranks(self, cases: list[dict]):
        self.make_plan("--ranks", "2", "--mode", "wait")
        self.train_exact(cases, "deepspeed", "--num_gpus", "2", "--master_port", free_port(), "--no_python",
                         "--no_local_rank")

    def test_in_mode_exact_two_ranks_gather_whatever_each_reads(self):
        """Each rank uses what it likes, at random, also evaluation on one alone. At the end a step is under way, which
        only one rank has. Costs 30 s."""
        self.exact_with_two_ranks([{"stage": 2, "dtype": "bf16", "groups": 2, "uses": ["fp32 params", "evaluation"],
                                    "random": 8, "kills": 5, "leaves": True}])

    def test_in_mode_exact_two_ranks_do_so_200_times(self):
        self.exact_with_two_ranks([{"stage": stage, "dtype": dtype, "groups": groups, "uses": ["all"], "random": 100,
                                    "kills": 100, "resume": True, "two": True, "accumulation": accumulation,
                                    "clip": clip, "speculate": not clip}
                                   for stage, dtype, groups, accumulation in ((1, "fp32", 1, 3), (2, "bf16", 2, 1))
                                   for clip in (0.1, 0.0)])

    def test_in_mode_exact_200_random_programs_of_two_ranks_have_the_same_bits_and_do_not_hang(self):
        """Stages 1 and 2. Each rank reads what it likes, also alone; both read and write states, also between backward
        and step()."""
        for first in range(0, 200, 50):
            self.exact_with_two_ranks([program(seed) for seed in range(first, first + 50)])

    def test_in_mode_exact_2000_kills_change_no_bit(self):
        """The short form has 10."""
        self.train_exact([{"stage": 2, "dtype": dtype, "groups": 2, "uses": ["forward"], "kills": 1000} | more
                          for dtype in ("bf16", "fp32") for more in ({}, {"clip": 0.0, "speculate": True})])

    def compare_loads(self, cases: list[dict]):
        said = self.train("zero_loads", cases)
        self.assertEqual(len(said), sum(len(each["loads"]) for each in cases), self.output)
        for each in said:
            case = each["case"]
            overlaps = case["mode"] == "late" or case["overlap"]
            names = (*SETTINGS, "mode", "zenflow", "overlap")
            with self.subTest(load=each["load"], **{name: case[name] for name in names}):
                self.assertEqual(each["refused"], ["", ""])
                self.assertEqual(each["waited"], overlaps)
                self.assertEqual((each["loaded"], each["differ"]), (0, 0), f"of {each['of']} elements")
                self.assertEqual(each["own"], each["native"])
                self.assertGreater(len(set(each["own"])), 3, "the loss does not change: nothing was trained")

    def test_each_way_to_load_waits_for_the_step_and_holds(self):
        """Loads weights, the module, and everything while a step is under way. Seen: weights, masters and moments equal
        those of DeepSpeed's own optimizer right after the load and after more steps; in mode late, those of its engine
        that is made late by hand."""
        cases = [{"stage": 2, "mode": "late", "loads": LOADS[:3]},
                 {"stage": 3, "mode": "late", "loads": LOADS, "sub_groups": True},
                 {"zenflow": True, "overlap": True, "loads": LOADS[:3]}]
        self.compare_loads([case | {"dtype": "bf16", "groups": 2} for case in cases])

    def test_each_way_to_load_in_all_modes(self):
        """Seen: 20 combinations, the same. Without a late step or ZenFlow's overlap_step, no step is under way."""
        zero = [{"stage": stage, "dtype": dtype, "mode": mode, "groups": 2, "clip": 0.1, "sub_groups": stage == 3}
                for stage in (1, 2, 3) for dtype in ("fp32", "bf16") for mode in ("wait", "late")]
        zenflow = [{"stage": stage, "dtype": dtype, "zenflow": True, "overlap": overlap, "groups": 2}
                   for stage in (2, 3) for dtype in ("fp32", "bf16") for overlap in (False, True)]
        self.compare_loads([case | {"loads": LOADS} for case in zero + zenflow])

    def test_checkpoints_go_in_all_directions(self):
        """Seen: what resumes from a checkpoint computes the same losses, whether DeepSpeed's own or ours saved it or
        loads it. At some steps the program gives the moments other memory."""
        cases = [{"stage": stage, "dtype": dtype, "groups": 2, "steps": 6, "clip": 0.5, "moves": ["moments"]}
                 for stage, dtype in ((1, "bf16"), (2, "fp32"), (3, "bf16"))]
        for said in self.train("zero_checkpoints", cases):
            with self.subTest(stage=said["case"]["stage"]):
                for direction, losses in said["resumed"].items():
                    self.assertEqual(losses, said["resumed"]["own-own"], direction)

    def test_moments_in_bf16_train_and_are_read_and_saved_in_fp32(self):
        """Seen: losses within 1 % of DeepSpeed's; its optimizer loads the checkpoint, too; killed once; what resumes
        has the same losses in every bit."""
        cases = [{"stage": stage, "dtype": dtype, "groups": 2, "steps": 12, "kill_at": 7}
                 for stage, dtype in ((1, "fp32"), (2, "bf16"), (3, "bf16"))]
        for said in self.train("zero_formats", cases):
            with self.subTest(stage=said["case"]["stage"]):
                own, ours = ([float.fromhex(loss) for loss in said[name]] for name in ("own", "ours"))
                self.assertNotEqual(own, ours)
                self.assertAlmostEqual(ours[-1], own[-1], delta=0.01 * own[0])
                self.assertEqual(said["types"], ["torch.bfloat16", "torch.float32", "torch.float32"])
                self.assertTrue(said["same"] and said["written"])
                self.assertEqual(said["resumed"], said["went_on"])
                by_own = float.fromhex(said["by_own"][-1])
                self.assertAlmostEqual(by_own, float.fromhex(said["went_on"][-1]), delta=0.01 * own[0])
                self.assertEqual(said["restarts"], 1)
        self.assertIn("; state bf16: 8 bytes a parameter for master and moments instead of 12, and the losses no longer"
                      " have DeepSpeed's bits", self.output)

    def test_checkpoints_of_zenflow_have_the_moments(self):
        """Seen: 8 tensors of moments for two groups, which arrive in the arena as they were, and the steps are counted
        on. A checkpoint of DeepSpeed's has none, which is said, and training goes on."""
        cases = [{"stage": stage, "zenflow": True, "overlap": True, "steps": 9, "groups": 2} for stage in (2, 3)]
        for said in self.train("zero_checkpoints", cases):
            with self.subTest(stage=said["case"]["stage"]):
                self.assertEqual((said["moments"], said["differ"]), (8, 0))
                last, first = said["steps"]
                self.assertEqual(first, last + 1)
        self.assertEqual(self.output.count("the checkpoint has no moments"), len(cases), self.output)

    def test_zenflow_of_stage_3_gives_the_same_bits(self):
        """Its source names CUDA for some buffers, and the job reads that as the CPU. Seen: as in stage 2."""
        cases = [{"stage": 3, "zenflow": True, "steps": 32, "kill_at": 17, "select_interval": 8},
                 {"stage": 3, "zenflow": True, "steps": 32, "kill_at": 17, "overlap": True, "groups": 2,
                  "dtype": "bf16", "clip": 0.5}]
        for said in self.train("zero_pairs", cases):
            self.assert_same_bits(said, restarts=1)

    def train_two_ranks(self, cases: list[dict]) -> list[dict]:
        plan = self.make_plan("--ranks", "2", "--mode", "wait")
        self.assertEqual(len(plan["ranks"]), 2)
        said = self.train("zero_pairs", cases, "deepspeed", "--num_gpus", "2", "--master_port", free_port(),
                          "--no_python", "--no_local_rank")
        self.assertEqual([each["rank"] for each in said].count(1), len(cases), self.output)
        return said

    def test_two_ranks_of_the_real_launcher_give_the_same_bits(self):
        """In stage 3 parameters are gathered one by one. Where they are not, DeepSpeed up to 0.19.7 waits only for the
        last of several gathers, and over gloo an earlier one may still run: docs/deepspeed.md, "Trouble"."""
        case, moving = {"steps": 12, "clip": 0.5, "kill_at": 5}, {"steps": 12, "clip": 0.1}
        moves = ["moments"], ["halved moments", "by deepspeed"], ["masters", "gradients"]
        cases = [case | {"stage": 2}, case | {"stage": 3, "sequential": True}]
        cases += [moving | {"stage": 2, "dtype": "bf16", "moves": what} for what in moves]
        cases += [moving | {"stage": 3, "sequential": True, "moves": what} for what in moves]
        for said in self.train_two_ranks(cases):
            self.assert_same_bits(said, restarts=int(said["case"]["kill_at"] is not None))

    def compare_spikes_of_two_ranks(self, cases: list[dict]):
        for said in self.train_two_ranks(cases):
            self.assert_same_bits(said, restarts=0)
            self.assertGreater(said["begun"], 0, "no step began in backward")

    def test_in_mode_exact_two_ranks_have_spikes_while_steps_begin_in_backward(self):
        """The spikes come to a parameter that one rank alone steps a part of. Costs 20 s."""
        self.compare_spikes_of_two_ranks([SPIKED | {"stage": 1, "dtype": "fp16"},
                                          SPIKED | {"stage": 2, "dtype": "bf16"}])

    def test_in_mode_exact_two_ranks_have_spikes_in_all_settings(self):
        self.compare_spikes_of_two_ranks([SPIKED | dict(zip(SETTINGS, values)) for values in itertools.product(
            (1, 2), ("bf16", "fp16"), (0.0, 2.5), (1, 2), (1, 3))])

    def test_two_ranks_of_stage_3_give_the_same_bits_in_many_runs(self):
        case = {"stage": 3, "sequential": True, "steps": 12, "clip": 0.5, "kill_at": 5}
        for said in self.train_two_ranks([case | more for more in
                                          ({}, {"dtype": "bf16"}, {"groups": 2, "sub_groups": True}) * 6]):
            self.assert_same_bits(said, restarts=1)

    def test_a_script_runs_as_it_is(self):
        """python -m zf_runtime.deepspeed SCRIPT, as DeepSpeed's launcher starts it: --local_rank comes first."""
        python, script = job("deepspeed_job")
        ended = self.only(python, "-m", "zf_runtime.deepspeed", "--local_rank=0", script, "--steps", "4",
                          **self.variables())
        self.assertEqual(ended["inner"], "DeepSpeedCPUAdam")
        self.assertEqual(["zf-optimizer" in child["command"] for child in ended["children"]], [True], ended)
        self.assertEqual(ended["arguments"], ["--local_rank=0", "--steps", "4"])

    def accelerate(self, *words: str, under: tuple[str, ...] = ()) -> tuple[list[dict], dict]:
        """Returns the losses that jobs/accelerate_job.py says, and where it ended."""
        _, script = job("accelerate_job")
        *losses, last = self.launch(*under, "accelerate", "launch", "--use_deepspeed", "--zero_stage", "2",
                                    "--offload_optimizer_device", "cpu", "--num_processes", "1", "--num_machines", "1",
                                    "--mixed_precision", "bf16", "--main_process_port", free_port(), *words, script,
                                    **self.variables())
        ended = last["ended"]
        self.assertEqual((ended["engine"], ended["inner"]), ("DeepSpeedEngine", "DeepSpeedCPUAdam"))
        return losses, ended

    def test_accelerate_launches_it_as_a_module(self):
        """zf-tune exec -- accelerate launch --use_deepspeed --module zf_runtime.deepspeed SCRIPT. Seen: the same bits
        as without exec and --module, where DeepSpeed's own optimizer steps."""
        own, ended = self.accelerate()
        self.assertEqual(ended["children"], [])
        for mode in ((), ("--exact",)):
            native, ended = self.accelerate("--module", "zf_runtime.deepspeed", *mode,
                                            under=(str(TUNE), "exec", "--plan", "plan.json", "--"))
            self.assertEqual(["zf-optimizer" in child["command"] for child in ended["children"]], [True], ended)
            self.assertEqual(native, own)
            self.assertEqual(", beside the next forward" in self.output, bool(mode), self.output)
        self.assertEqual(len({said["loss"] for said in own}), 6, "the loss does not change: nothing was trained")

    def make_engines_again(self, **case: str):
        said = self.launch(*job("abandoned"), **self.variables(), **case)
        found = [(each["processes"], each["arenas"], each["threads"] - said[0]["threads"]) for each in said
                 if "engine" in each]
        self.assertEqual(found[:2], [(1, 1, 0), (1, 1, 0)], self.output)
        self.assertEqual(found[2][0], 1, self.output)  # its memory may be a little later: hooks of the model hold it
        self.assertIn({"rank": 0, "held": True}, said, self.output)
        self.assertEqual(found[3][0], 3, self.output)
        self.assertLessEqual(found[3][1], 4, self.output)
        self.assertEqual(self.output.count("the program has dropped its engine. Call engine.destroy()"), 2, self.output)

    def test_engines_that_are_made_again_leave_no_process_no_memory_and_no_thread(self):
        """Two steps each. Those that are held go on."""
        self.make_engines_again(ZERO_STAGE="2", ZERO_MODE="late")

    def test_engines_in_mode_exact_that_are_made_again_leave_none_either(self):
        for stage in ("2", "3"):
            with self.subTest(stage=stage):
                self.make_engines_again(ZERO_STAGE=stage, ZERO_MODE="exact")

    def test_engines_of_stage_3_that_are_made_again_leave_none_either(self):
        self.make_engines_again(ZERO_STAGE="3", ZERO_MODE="wait")

    def test_the_table_of_seams_is_what_the_page_says_and_all_is_given_back(self):
        self.run_cases("seams_cases", modules=warm.DEEPSPEED)

    def test_it_can_be_switched_off(self):
        """ZF_TUNE=off: DeepSpeed's own optimizer, and no word about it."""
        python, script = job("deepspeed_job")
        ended = self.only(python, "-m", "zf_runtime.deepspeed", script, "--steps", "2", ZF_TUNE="off",
                          **self.variables())
        self.assertEqual(ended["children"], [])
        self.assertNotIn("zf_runtime.deepspeed:", self.output)

    def refused(self, reasons: list[str], cases: list[dict], **more: str):
        """What the optimizer process cannot take is stepped in the training process, with the same bits, and the reason
        is said."""
        for said in self.train("zero_pairs", [{"steps": 4} | case for case in cases], **more):
            if "refused" in said:  # DeepSpeed 0.19.8 has no amsgrad, either
                self.assertIn("does not support the AMSGrad variant", said["refused"])
                reasons = [reason for reason in reasons if reason != "amsgrad is on"]
                continue
            self.assertEqual(said["own"], said["native"])
            self.assertEqual(said["differ"], 0)
            self.assertEqual(*said["pinned"])
        for reason in reasons:
            self.assertIn(reason, self.output)

    def test_what_it_cannot_do_is_refused_in_words(self):
        """Moments of fp32 masters are fp32, whatever they shall be."""
        self.refused(["amsgrad is on", "moments are in half precision", "has no read_by_a_later_version",
                      "DeepSpeedCPUAdam steps in place"],
                     [{"amsgrad": True}, {"dtype": "bf16", "half_states": True}, {"needs": "read_by_a_later_version"}])

    def test_muon_is_announced_in_one_line(self):
        """It names both halves. Muon is not compiled here, which would take minutes."""
        cases = [{"stage": stage, "dtype": "bf16", "steps": 4, "muon": True} for stage in (2, 3)]
        for said in self.train("zero_pairs", cases, TORCHDYNAMO_DISABLE="1"):
            self.assertEqual(said["own"], said["native"])
        self.assertIn("Muon steps 16384 parameters of this model (use_muon is true) by DeepSpeed's own code, and "
                      "DeepSpeedCPUAdam steps the other 448 parameters in place: ", self.output)
        self.assertEqual(self.output.count("zf_runtime.deepspeed: "), 1, self.output)

    def test_without_a_plan_the_step_is_in_place(self):
        cases = [{"stage": stage, "dtype": "bf16", "clip": 0.5, "groups": 2, "betas": "AB" * (stage == 3)}
                 for stage in (1, 2, 3)] + [{"zenflow": True}]
        self.refused(["There is no optimizer process: DeepSpeedCPUAdam steps in the training process",
                      "DeepSpeedCPUAdam steps in place"], cases, ZF_PLAN="")
        self.assertNotIn("DeepSpeed's own", self.output)

    def test_a_deepspeed_that_cannot_load_weights_alone_is_taken(self):
        """There is nothing in it that would have to wait."""
        said, = self.train("zero_pairs", [{"steps": 12, "kill_at": 5, "lacks": "_restore_from_bit16_weights"}])
        self.assert_same_bits(said, restarts=1)

    def test_without_a_plan_gradients_are_pinned_again(self):
        self.need_pinned_memory()
        cases = [{"stage": stage, "pin_memory": True} for stage in (2, 3)]
        self.refused(["There is no optimizer process"], cases, ZF_PLAN="", DS_PIN_MEMORY_BACKEND="native")


if __name__ == "__main__":
    unittest.main()
