"""zf-tune export --for deepspeed: by DeepSpeed's own rules the plan comes back, or it is refused."""

import json
import random
import shlex

import deepspeed_rules
from zf_cli import DONE, INFEASIBLE, SOURCE, USAGE, CommandTest, parse_cpus, print_cpus

CASES = 300
NODE = "pack:2 [numa(memory=256GiB)] core:16 pu:2"


def sides_of(plan: dict) -> list[tuple[set[int], set[int]]]:
    return [(parse_cpus(rank["training"]["cpus"]), parse_cpus(rank["optimizer"]["cpus"])) for rank in plan["ranks"]]


def is_shared(plan: dict) -> bool:
    return any(rank["shared"] for rank in plan["ranks"])


def random_sides(dice: random.Random) -> list[tuple[set[int], set[int]]]:
    """Returns sides: two in three begin as what DeepSpeed makes; half of all then have two CPUs changed over."""
    ranks = dice.choice([1, 1, 2, 3, 4, 8])
    each = dice.randint(2, 63 // ranks)
    cpus = sorted(dice.sample(range(dice.choice([63, each * ranks])), each * ranks))
    if dice.random() < 1 / 3:
        dice.shuffle(cpus)
    reserved = dice.randint(1, each - 1)
    sides = []
    for rank in range(ranks):
        own = cpus[each * rank : each * (rank + 1)]
        sides.append((set(own[:reserved]), set(own[reserved:])))
    if dice.random() < 1 / 2:
        (one, other) = (dice.choice(dice.choice(sides)) for _ in range(2))
        if one is not other:
            a, b = dice.choice(sorted(one)), dice.choice(sorted(other))
            one ^= {a, b}
            other ^= {a, b}
    if dice.random() < 1 / 6:
        training, optimizer = dice.choice(sides)
        if len(training) > 1:
            training.discard(max(training))
        else:
            optimizer.add(max(max(t | o) for t, o in sides) + 1)
    return sides


class DeepSpeedExport(CommandTest):
    def write_plan(self, sides) -> None:
        """Writes the plan of NODE, with these sides instead of its own."""
        plan = json.loads(json.dumps(self.template))
        ranks = plan["ranks"]
        plan["ranks"] = []
        for number, (training, optimizer) in enumerate(sides):
            rank = json.loads(json.dumps(ranks[0]))
            rank["rank"] = number
            rank["training"] = {"cpus": print_cpus(training), "threads": len(training)}
            rank["optimizer"]["cpus"] = print_cpus(optimizer)
            rank["home"] = {"cpus": print_cpus(training | optimizer), "threads": len(training | optimizer)}
            rank["pt_reserved_cores"] = len(training)
            rank["pt_reserved_cores_perc"] = (len(training) - 0.5) / len(training | optimizer)
            plan["ranks"].append(rank)
        plan["workload"]["ranks"] = len(sides)
        plan["choice"]["pool_threads"] = max(len(optimizer) for _, optimizer in sides)
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def export(self, *options):
        return self.run_tune("export", "plan.json", "--for", "deepspeed", *options)

    def export_into(self, config, *options):
        """Exports with --config: a text, or anything else as JSON."""
        text = config if isinstance(config, str) else json.dumps(config)
        (self.folder / "ds.json").write_text(text)
        return self.export("--config", "ds.json", *options)

    def merged_zero(self, config: dict) -> dict:
        result = self.export_into(config, "-q")
        self.assert_exit(result, DONE)
        return json.loads(result.stdout)["zero_optimization"]

    def given_back(self, command: str, ranks: int, cores: int, shared=False):
        """Yields the sides by ZenFlow, and by SuperOffload if no home is shared, with the merged configurations."""
        launcher, option, count, bind, listed, core_list = shlex.split(command)
        self.assertEqual((launcher, option, count), ("deepspeed", "--num_gpus", str(ranks)))
        self.assertEqual((bind, listed), ("--bind_cores_to_rank", "--bind_core_list"))
        masks = deepspeed_rules.launcher_slices(core_list, ranks)
        perc = self.merged_zero(deepspeed_rules.CONFIGS["zenflow"])["zenflow"]["pt_reserved_cores_perc"]
        yield deepspeed_rules.zenflow(masks, perc, cores)
        if shared:
            return
        perc = self.merged_zero(deepspeed_rules.CONFIGS["superoffload"])["offload_optimizer"]["cpuadam_cores_perc"]
        yield deepspeed_rules.superoffload(masks, perc)

    def could_be_told(self, sides, cores: int) -> bool:
        """Returns whether any fraction at all makes DeepSpeed give these sides."""
        core_list = print_cpus(set().union(*(training | optimizer for training, optimizer in sides)))
        masks = deepspeed_rules.launcher_slices(core_list, len(sides))
        count = len(masks[0])
        return any(deepspeed_rules.zenflow(masks, (k - 0.5) / count, cores) == sides for k in range(1, count + 1))

    def test_what_is_exported_comes_back_and_what_is_refused_would_not(self):
        self.template = self.make_plan("--topology", NODE, "--ranks", "2")
        cores = self.template["machine"]["cores"]
        exported = refused = 0
        for seed in range(CASES):
            sides = random_sides(random.Random(seed))
            with self.subTest(seed=seed, sides=sides):
                self.write_plan(sides)
                result = self.export("-q")
                if result.returncode == DONE:
                    exported += 1
                    back = list(self.given_back(result.stdout, len(sides), cores))
                    self.assertEqual(back, [sides, sides])
                else:
                    refused += 1
                    self.assert_refused(result, INFEASIBLE, "DeepSpeed", "tune --for deepspeed")
                    self.assertFalse(self.could_be_told(sides, cores), result.stderr)
        print(f"{exported} exported, {refused} refused")
        self.assertGreater(exported, CASES / 5)
        self.assertGreater(refused, CASES / 5)

    def test_each_refusal_names_what_is_wrong(self):
        self.template = self.make_plan("--topology", NODE, "--ranks", "2")
        cases = {
            "prefix": ([({8, 9}, {0, 1})], ["rank 0", "8-9", "0-1", "lowest"]),
            "unequal": ([({0, 1}, {2, 3}), ({4}, {5})], ["rank 1", "the same numbers"]),
            "other share": ([({0, 1}, {2, 3}), ({4}, {5, 6, 7})], ["rank 1", "the same numbers"]),
            "interleaved": ([({0, 4}, {5, 6}), ({1, 2}, {3, 7})], ["ranks 0 and 1", "0,4-6", "interleave"]),
            "order": ([({4, 5}, {6, 7}), ({0, 1}, {2, 3})], ["ranks 0 and 1", "interleave"]),
            "core filter": ([({0, 1}, {62, 63})], ["CPU 63", "32"]),
        }
        for name, (sides, named) in cases.items():
            with self.subTest(name):
                self.write_plan(sides)
                self.assert_refused(self.export(), INFEASIBLE, *named)

    def test_plan_for_deepspeed_always_exports(self):
        nodes = [NODE, "pack:2 [numa] core:16 pu:2(indexes=16*2:2*1)", "pack:4 [numa] core:3 pu:1"]
        for node in nodes:
            for ranks in (1, 2, 3, 5):
                for allowed in ((), ("--allowed", "0,2-9,11")):
                    with self.subTest(node=node, ranks=ranks, allowed=allowed):
                        options = ["--topology", node, "--ranks", str(ranks), *allowed]
                        plan = self.make_plan("--for", "deepspeed", *options)
                        self.assert_sound(plan)
                        command = self.export("-q").stdout
                        for sides in self.given_back(command, ranks, plan["machine"]["cores"], is_shared(plan)):
                            self.assertEqual(sides, sides_of(plan))

    def test_plan_for_deepspeed_says_what_it_left_out(self):
        options = ["--topology", "pack:1 [numa] core:7 pu:1", "--ranks", "2", "--for", "deepspeed"]
        self.assertIn("CPU 6 is in no home", self.make_plan(*options)["choice"]["reason"])
        options = ["--topology", NODE, "--ranks", "2", "--for", "deepspeed"]
        self.assertIn("free choice as it is", self.make_plan(*options)["choice"]["reason"])

    def test_tune_for_deepspeed_exports_and_says_what_it_costs(self):
        machines = SOURCE / "configs/machines"
        for name in ("cloud-2vcpu", "epyc-7742-8gpu-nps4"):
            with self.subTest(name):
                result = self.run_tune("tune", "-q", "--for", "deepspeed", "--fresh", "--simulate",
                                       machines / f"{name}.json")
                self.assert_exit(result, DONE)
                plan = self.read_plan()
                self.assertRegex(plan["choice"]["reason"], r"kept to what DeepSpeed can be told: .* free choice")
                command = self.export("-q").stdout
                for sides in self.given_back(command, len(plan["ranks"]), plan["machine"]["cores"], is_shared(plan)):
                    self.assertEqual(sides, sides_of(plan))

    def test_plan_for_another_launcher_is_a_usage_error(self):
        self.assert_refused(self.run_tune("plan", "--for", "slurm"), USAGE, "slurm", "export")

    def test_shared_core_is_zenflows_alone(self):
        plan = self.make_plan("--topology", NODE, "--allowed", "3", "--ranks", "1")
        result = self.export()
        self.assert_exit(result, DONE)
        self.assertNotIn("SuperOffload", result.stderr)
        self.assertEqual(list(self.given_back(result.stdout, 1, 32, shared=True)), [sides_of(plan)])
        refused = self.export_into(deepspeed_rules.CONFIGS["superoffload"])
        self.assert_refused(refused, INFEASIBLE, "CPU 3", "SuperOffload", "--framework superoffload")

    def test_plan_for_superoffload_shares_no_home(self):
        for_it = ("--for", "deepspeed", "--framework", "superoffload")
        small = "pack:1 [numa] core:4 pu:1"
        for node, ranks in ((NODE, "3"), (small, "2")):
            with self.subTest(node=node):
                plan = self.make_plan("--mode", "wait", *for_it, "--topology", node, "--ranks", ranks)
                self.assertFalse(is_shared(plan))
                self.assertIn("SuperOffload always divides homes", plan["choice"]["reason"])
                given = list(self.given_back(self.export("-q").stdout, len(plan["ranks"]), plan["machine"]["cores"]))
                self.assertEqual(given, [sides_of(plan)] * 2)
        few = self.run_tune("plan", "--topology", small, "--ranks", "3", *for_it)
        self.assert_refused(few, INFEASIBLE, "6 cores")

    def test_shared_plan_is_not_moved_to_superoffload_but_made_anew_if_nothing_was_measured(self):
        job = ("--topology", NODE, "--ranks", "2", "--mode", "wait", "--framework", "superoffload")
        plan = self.make_plan(*job)
        self.assert_refused(self.export(), INFEASIBLE, "SuperOffload")
        move = ("plan", "--from", "plan.json", "--topology", NODE, "--for", "deepspeed", "-o", "new.json")
        self.assert_exit(self.run_tune(*move), DONE)
        fresh = self.make_plan(*job, "--for", "deepspeed")
        self.assertEqual(self.read_plan("new.json")["ranks"], fresh["ranks"])
        simulated = ("-q", "--simulate", SOURCE / "configs/machines/cloud-2vcpu.json", "-o", "simulated.json")
        self.assert_exit(self.run_tune("tune", *simulated), DONE)
        plan["evidence"] = self.read_plan("simulated.json")["evidence"]
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.assert_refused(self.run_tune(*move), INFEASIBLE, "SuperOffload", "--from")

    def test_tune_for_superoffload_shares_no_home(self):
        result = self.run_tune("tune", "-q", "--for", "deepspeed", "--framework", "superoffload", "--mode", "wait",
                               "--simulate", SOURCE / "configs/machines/cloud-2vcpu.json")
        self.assert_exit(result, DONE)
        plan = self.read_plan()
        self.assertFalse(is_shared(plan))
        self.assertNotIn("shared home", [candidate["label"] for candidate in plan["evidence"]["candidates"]])

    def test_one_rank_per_node_is_warned_of_several_nodes(self):
        self.make_plan("--topology", NODE, "--allowed", "0-15", "--ranks", "1")
        self.assertIn("several nodes", self.export().stderr)

    def test_all_ranks_or_none(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        self.assert_refused(self.export("--rank", "0"), USAGE, "--rank")
