"""Mode exact under ZeRO stage 3 of the real DeepSpeed: the step runs beside the next forward, with the same bits.

In most cases the optimizer process stands still for a while in each step, so that whatever does not wait for it reads
old weights. What was seen: DeepSpeed 0.19.8, PyTorch 2.13.0, gloo, DeepSpeed's accelerator for CPUs. Tests
deepspeed/beside.py, deepspeed/exact_stage_3.py, deepspeed/speculation.py."""

import itertools
import json
import random
import unittest

import warm
from frameworks_case import FrameworkTest, framework_environment, free_port, job, lines_of
from zf_cli import LIBRARY, SOURCE

HELD = {"hold_ms": 20, "steps": 8}
BEGUN = HELD | {"speculate": True}
# Between backward and step(): what changes the step, reads its state or gradients, or writes them.
BETWEEN = ["lr", "second", "set_gradient", "safe_set", "safe_get", "local", "gradient", "state", "save", "restore",
           "refresh", "child"]
MODELS = [{"offload_param": True}, {"tied": True}, {"external": True}, {"reentrant": True}, {"reentrant": False},
          {"frozen": True}, {"engines": 2}, {"sequential": True}]


def program(seed: int) -> dict:
    """Returns a case in which ranks do between steps what a random number says."""
    pick = random.Random(seed)
    return {"random": seed, "steps": pick.choice((8, 12)), "dtype": pick.choice(("fp32", "bf16", "fp16")),
            "clip": pick.choice((0.0, 0.1, 2.0)), "accumulation": pick.choice((1, 1, 3)),
            "hold_ms": pick.choice((0, 5, 30)), "persist": pick.choice((0, 200, 200, 200, 100_000)),
            "bucket": pick.choice((0, 1000, 5000, 1_000_000)), "groups": pick.choice((1, 2)),
            "sub_groups": pick.choice((False, True)), "blocks": pick.choice((1, 2, 3)),
            "overflows": pick.choice(([], [2], [3, 4]))} | pick.choice([{}, *MODELS])


def of_deepspeed(case: dict) -> dict:
    """Returns a case without what DeepSpeed 0.19.8 itself cannot: after a skipped step, its evaluation on rank 0 alone
    gathers weights, and gloo ends the job. In fp16 it skips steps by itself."""
    return case | {"overflows": [], "dtype": "bf16"} if case["persist"] == 100_000 else case


class ExactStage3(FrameworkTest):
    def setUp(self):
        super().setUp()
        self.make_plan("--ranks", "1", "--mode", "overlap")

    def train(self, cases: list[dict], ranks=1, timeout=3000) -> list[dict]:
        (self.folder / "cases.json").write_text(json.dumps(cases))
        environment = framework_environment(
            ZF_PLAN=str(self.folder / "plan.json"), PYTHONPATH=str(SOURCE / "runtime/python"),
            ZF_RUNTIME_LIBRARY=LIBRARY, ZERO_CASES=str(self.folder / "cases.json"), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=free_port(), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))
        statuses, self.output = warm.run_ranks(job("zero_exact_3"), warm.DEEPSPEED, ranks, cwd=self.folder,
                                               env=environment, timeout=timeout)
        self.assertEqual(statuses, [0] * ranks, self.output)
        said = lines_of(self.output)
        self.assertEqual(len(said), len(cases) * ranks, self.output)
        return said

    def train_two_ranks(self, cases: list[dict]) -> list[dict]:
        self.make_plan("--ranks", "2", "--mode", "wait")  # two CPUs are enough
        return self.train(cases, ranks=2)

    def assert_same_bits(self, said: dict, padding=0):
        """padding: so many elements have whatever was in memory, since DeepSpeed never writes them."""
        with self.subTest(**said["case"]):
            self.assertEqual(said["mode"], "exact", self.output)
            self.assertEqual(said["own"], said["exact"])
            self.assertLessEqual(said["differ"], padding)
            self.assertGreater(len(set(said["own"])), 5, "the loss does not change: nothing was trained")

    def compare(self, said: list[dict]):
        for each in said:
            self.assert_same_bits(each)
            if each["case"].get("kills"):
                self.assertGreater(each["restarts"], 0, "no kill has met the optimizer process")
            if each["case"].get("hold_ms") and each["case"].get("persist", 200) == 200:
                self.assertGreater(each["beside"], 0, f"step() has waited: {each['case']}")

    def test_one_rank_has_the_same_bits(self):
        """Seen: no fact and no element differs. Persistent parameters alone wait for nothing."""
        self.compare(self.train([
            HELD | {"dtype": "fp16", "clip": 0.1, "overflows": [4], "do": ["safe_set", "gradient"]},
            HELD | {"dtype": "bf16", "clip": 0.1, "accumulation": 3, "groups": 2, "sub_groups": True,
                    "do": ["evaluate", "write", "state", "child"]},
            # The next backward writes gradients before anything else has waited.
            HELD | {"dtype": "fp32", "frozen": "weights", "blocks": 1, "sometimes": [1], "hold_ms": 60},
            HELD | {"dtype": "bf16", "sometimes": [1], "do": ["write", "refresh", "save_16bit"]},
            {"dtype": "bf16", "persist": 0, "steps": 8, "do": ["restore"]},
            HELD | {"dtype": "bf16", "persist": 100_000, "do": ["alone", "persistent"]},
            {"dtype": "bf16", "handler": "state_dict", "steps": 8}, {"dtype": "fp32", "handler": "gather", "steps": 8},
            {"dtype": "bf16", "kills": True, "steps": 8}]))

    def test_a_signal_handler_in_a_gather_may_fork_or_destroy_the_engine(self):
        """The optimizer process stands still, so the gather waits when the signal comes."""
        cases = [HELD | {"dtype": dtype, "alarm": alarm} for alarm in ("fork", "destroy") for dtype in ("bf16", "fp32")]
        for said in self.train(cases, timeout=100):
            self.assertIn("a fork waits for it, since the child would have old weights", self.output)
            self.assertIn("the end of its optimizer waits for it", self.output)
            with self.subTest(**said["case"]):
                own, exact, is_destroyed = said["own"], said["exact"], said["case"]["alarm"] == "destroy"
                self.assertEqual(exact.pop("closed"), is_destroyed)
                self.assertEqual(exact, {name: value for name, value in own.items()
                                         if not (is_destroyed and name == "loss")})

    def test_steps_that_begin_in_backward_have_the_same_bits(self):
        """Each fourth step has gradients 100 times as large. Where something comes between backward and step(), what is
        begun is taken back."""
        for said in self.train([
                BEGUN | {"dtype": "fp16", "clip": 2.0, "overflows": [4, 6]},
                BEGUN | {"dtype": "bf16", "clip": 2.0, "accumulation": 3, "groups": 2, "sub_groups": True},
                {"dtype": "fp16", "sometimes": [0, 1], "steps": 12, "speculate": True},
                BEGUN | {"dtype": "bf16", "clip": 0.1},
                BEGUN | {"dtype": "bf16", "between": ["evaluate", "gather"]},
                *(BEGUN | {"dtype": dtype, "between": BETWEEN, "steps": 2 * len(BETWEEN)}
                  for dtype in ("bf16", "fp32")),
                {"dtype": "bf16", "speculate": True, "kills": True, "between": ["lr"], "steps": 12}]):
            self.assert_same_bits(said)
            with self.subTest(**said["case"]):
                if said["case"].get("clip") == 0.1:
                    self.assertEqual(said["begun"], 0, "a step began although all are clipped")
                else:
                    self.assertGreater(said["begun"], 0, "no step began in backward")
                between = said["case"].get("between", [])
                if "evaluate" in between:
                    self.assertEqual(said["taken_back"], 0, "forward needs nothing that is begun")
                elif between:
                    self.assertGreater(said["taken_back"], 2)

    def test_steps_of_two_ranks_begin_in_backward(self):
        """Also where one of them has no element of a group: it does not wait for its gradients."""
        for said in self.train_two_ranks([BEGUN | {"dtype": "bf16", "clip": 2.0, "between": ["second"]},
                                          BEGUN | {"dtype": "fp16", "accumulation": 3, "overflows": [4]},
                                          BEGUN | {"dtype": "bf16", "scalar": True, "reference": "wait"}]):
            self.assert_same_bits(said, padding=int("scalar" in said["case"]))
            self.assertGreater(said["begun"], 0)
            if "scalar" in said["case"]:
                self.assertGreater(said["begun_later"], 5)

    def test_steps_that_begin_in_backward_take_the_place_of_superoffload(self):
        """With betas, eps, decay and bias_correction of each group, frozen parameters and clipping. The reference is
        plain ZeRO-3. SuperOffload's check for CUDA is called, and does nothing here."""
        for number, said in enumerate(self.train([
                BEGUN | {"super_offload": True, "betas": "ABC", "frozen": True, "dtype": "fp16", "clip": 2.0,
                         "overflows": [4]},
                BEGUN | {"super_offload": True, "betas": "AB", "sub_groups": True, "dtype": "bf16"}])):
            self.assert_same_bits(said)
            self.assertEqual((said["class"], said["checks"]), ("DeepSpeedZeroOptimizer_Stage3", number + 1))
            self.assertGreater(said["begun"], 0)
            if not said["case"].get("clip"):
                self.assertEqual(said["taken_back"], 0, "a group's factors were not those of its step")
        self.assertIn("ZeRO-3 takes the place of SuperOffload", self.output)

    def test_two_ranks_have_the_same_bits(self):
        self.compare(self.train_two_ranks([
            HELD | {"dtype": "bf16", "clip": 0.1, "do": ["gather", "local", "persistent", "child"]},
            HELD | {"dtype": "fp32", "persist": 100_000, "do": ["alone", "save", "load"]},
            HELD | {"dtype": "bf16", "hpz": True, "do": ["evaluate"]}, program(3)]))

    def test_checkpoints_go_in_all_directions(self):
        for said in self.train([{"dtype": "bf16", "resume": True, "steps": 5, "clip": 0.1, "groups": 2}]):
            for direction, losses in said["resumed"].items():
                self.assertEqual(losses, said["resumed"]["own-own"], direction)

    def test_all_settings_have_the_same_bits(self):
        """Seen: 44 cases of one rank and 24 of two, the same."""
        names = "dtype", "clip", "accumulation", "overflows"
        of_one = itertools.product(("fp32", "bf16", "fp16"), (0.0, 0.1, 2.0), (1, 3), ([], [2], [3, 4]))
        cases = [HELD | dict(zip(names, values)) for values in of_one]
        self.compare(self.train(cases + [HELD | {"dtype": "bf16", "clip": 0.1} | model for model in MODELS]))
        of_two = itertools.product(("fp32", "bf16", "fp16"), (0.0, 0.1), (1, 3), ([], [2]))
        self.compare(self.train_two_ranks([HELD | dict(zip(names, values)) for values in of_two]))

    def test_all_settings_begin_in_backward_with_the_same_bits(self):
        """Seen: 48 settings and 20 models of one rank, and 24 settings of two, the same."""
        names = "dtype", "clip", "accumulation", "overflows"
        of_one = itertools.product(("fp32", "bf16", "fp16"), (0.0, 0.1, 0.5, 2.0), (1, 3), ([], [3, 4]))
        cases = [BEGUN | dict(zip(names, values)) for values in of_one]
        of_two = itertools.product(("fp32", "bf16", "fp16"), (0.0, 2.0), (1, 3), ([], [3]))
        for said in [*self.train(cases + [BEGUN | {"dtype": "bf16"} | model for model in MODELS]),
                     *self.train_two_ranks([BEGUN | dict(zip(names, values)) for values in of_two])]:
            self.assert_same_bits(said)

    def test_200_random_programs_of_two_ranks_have_the_same_bits_and_do_not_hang(self):
        """Ranks evaluate, gather, read and write states, save, load and pause between steps. Seen: all the same."""
        for first in range(0, 200, 50):
            cases = [of_deepspeed(program(seed)) for seed in range(first, first + 50)]
            for number, case in enumerate(cases):
                pick = random.Random(number)
                case |= {"speculate": True, "between": pick.choice([[], [pick.choice(("lr", "second", "save"))]])}
            for said in self.train_two_ranks(cases):
                self.assert_same_bits(said)

    def test_600_kills_change_no_bit(self):
        """The optimizer process is killed up to 2 ms after each step is handed over."""
        cases = [{"dtype": dtype, "kills": True, "steps": 100, "clip": 0.1} | more for dtype in ("fp32", "bf16", "fp16")
                 for more in ({"do": ["evaluate"]}, {"groups": 2, "sub_groups": True})]
        said = self.train(cases)
        self.compare(said)
        self.assertGreater(sum(each["restarts"] for each in said), 500)

    def test_2000_kills_around_steps_in_backward_change_no_bit(self):
        """Up to 2 ms after each part of a step is begun, kept or taken back."""
        said = self.train([{"dtype": dtype, "kills": True, "steps": 100, "speculate": True, "between": between}
                           for dtype in ("fp32", "bf16", "fp16") for between in ([], ["lr"], ["safe_set"])])
        for each in said:
            self.assert_same_bits(each)
        self.assertGreater(sum(each["restarts"] for each in said), 2000)

    def test_moments_in_bf16_round_as_those_of_a_step_that_is_waited_for(self):
        """Seen: the same bits, also of the persistent parameters, which are stepped twice."""
        said = self.train([HELD | {"dtype": "bf16", "state": "bf16", "reference": "wait"}])
        self.compare(said)


if __name__ == "__main__":
    unittest.main()
