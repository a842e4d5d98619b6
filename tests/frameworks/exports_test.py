"""zf-tune export --for deepspeed, obeyed by the installed DeepSpeed's own functions, on machines that are not here.

What was seen with DeepSpeed 0.19.8: 663 exports and no difference. Its launcher sets more OpenMP threads than the plan
has for training in all 934 divided ranks, and in 174 of 964 shared ones: those with SMT. It binds the memory of 1482
ranks strictly, prefers memory without CPUs for 162, and does neither for 254, which span nodes."""

import collections
import concurrent.futures
import itertools
import json
import os
import re
import shlex
import subprocess
import unittest

from deepspeed_rules import CONFIGS
from frameworks_case import framework_environment, job, need_environment
from zf_cli import DONE, INFEASIBLE, CommandTest, parse_cpus, print_cpus

MACHINES = {
    "adjacent siblings": "pack:2 [numa(memory=256GiB)] core:16 pu:2",
    "siblings half the numbers apart": "pack:2 [numa(memory=256GiB)] core:16 pu:2(indexes=32*2:2*16:1*1)",
    "siblings 32 apart": "pack:2 [numa] core:16 pu:2(indexes=2*32:32*1)",
    "four small nodes": "pack:4 [numa] core:3 pu:1",
    "two L3 groups": "pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:1",
    "HBM": "pack:2 [numa(memory=256GiB)] [numa(memory=64GiB)] core:14 pu:2",
    "one large node": "pack:1 [numa] core:52 pu:1",
    "CXL": "[numa(memory=512GiB)] pack:2 [numa(memory=256GiB)] core:12 pu:1",
}
RANKS = (1, 2, 3, 8)
# Of the product of all dimensions, one case of so many; scripts/test --long takes all. No dimension has a multiple of 7
# values, so each pair of values of two dimensions is met.
EVERY = 1 if os.environ.get("ZF_TEST_LONG") else 7
ALLOWED = (None, "0,2-9,11", "0,4-11,21-26,30")
# What the plan is told of the job, and the configuration that the job has.
JOBS = {
    "ZeRO-Offload": (("--framework", "deepspeed-offload", "--mode", "wait"), "offload"),
    "ZenFlow": (("--framework", "deepspeed-zenflow", "--mode", "overlap"), "zenflow"),
    "ZenFlow, shared": (("--framework", "deepspeed-zenflow", "--mode", "wait"), "zenflow"),
    "SuperOffload": (("--framework", "superoffload", "--mode", "backward"), "superoffload"),
    "SuperOffload, waits": (("--framework", "superoffload", "--mode", "wait"), "superoffload"),
}
REASONS = {
    "more ranks than cores": " ranks have ",
    "CPUs interleave": "interleave",
    "ranks of unequal size": "the same numbers",
    "training not on the lowest CPUs": "trains on the lowest CPUs",
    "one rank, high CPU numbers": "for a single rank",
    "shared pool smaller than its home": "DeepSpeed's optimizer takes all",
    "SuperOffload and a shared home": "SuperOffload always divides them",
}
# `pool`: the number of pool cores that the plan is changed to, if any.
Case = collections.namedtuple("Case", "machine ranks allowed kept job pool", defaults=(None,))
# N / n, without the half that is taken off N, is wrong for 7, 14 and 28 of 51 CPUs in ZenFlow (pools of 44, 37 and 23),
# and for more in SuperOffload.
CUTS = [Case("one large node", 1, "0-50", True, name, pool) for name in ("ZenFlow", "SuperOffload")
        for pool in range(2, 51, 3)]


class Exports(CommandTest):
    def setUp(self):
        need_environment()
        super().setUp()

    def nodes_of(self, machine: str) -> list[list[int]]:
        said = self.run_tune("probe", "--topology", machine, "--format", "json")
        nodes = json.loads(said.stdout)["nodes"]
        self.assertEqual([node["node"] for node in nodes], list(range(len(nodes))))
        return [sorted(parse_cpus(node["cpus"])) for node in nodes]

    def reason_of(self, refused) -> str:
        self.assert_exit(refused, INFEASIBLE)
        reasons = [reason for reason, words in REASONS.items() if words in refused.stderr]
        self.assertEqual(len(reasons), 1, refused.stderr)
        return reasons[0]

    def change_pool(self, name: str, cores: int):
        """Writes the plan as if the pool of its only rank had been chosen to have so many cores."""
        plan = self.read_plan(name)
        rank = plan["ranks"][0]
        plan["intent"] |= {"pool_cores": cores, "reserved_fraction": 1 - cores / rank["home"]["threads"]}
        home = sorted(parse_cpus(rank["home"]["cpus"]))
        rank["training"] |= {"cpus": print_cpus(set(home[:-cores])), "threads": len(home) - cores}
        rank["optimizer"] |= {"cpus": print_cpus(set(home[-cores:]))}
        reserved = len(home) - cores
        rank |= {"pt_reserved_cores": reserved, "pt_reserved_cores_perc": (reserved - 0.5) / len(home)}
        plan["choice"]["pool_threads"] = cores
        (self.folder / name).write_text(json.dumps(plan))
        self.assert_exit(self.run_tune("explain", name), DONE)

    def exported(self, numbered: tuple[int, Case]) -> dict | str:
        """Returns what DeepSpeed is told of a case, and the plan; or the reason for a refusal."""
        number, case = numbered
        name = f"plan{number}.json"
        options, config = JOBS[case.job]
        has = {cpu for node in self.nodes[case.machine] for cpu in node}
        allowed = print_cpus(has & parse_cpus(case.allowed) if case.allowed else has)
        machine = ("--topology", MACHINES[case.machine], "--allowed", allowed)
        planned = self.run_tune("plan", "-q", "-o", name, *machine, "--ranks", case.ranks, *options,
                                *(("--for", "deepspeed") if case.kept else ()))
        if planned.returncode != DONE:
            return f"no plan: {self.reason_of(planned)}"
        if case.pool:
            self.change_pool(name, case.pool)
        command = self.run_tune("export", name, "--for", "deepspeed", "-q")
        merged = self.run_tune("export", name, "--for", "deepspeed", "--config", f"{config}.json")
        self.assertEqual(command.returncode, merged.returncode, merged.stderr)
        if command.returncode != DONE:
            return self.reason_of(command)
        plan = self.read_plan(name)
        return {"case": case, "plan": plan, "notes": merged.stderr, "command": shlex.split(command.stdout),
                "config": merged.stdout, "cores": plan["machine"]["cores"], "nodes": self.nodes[case.machine]}

    def answers(self, exports: list[dict]) -> list[list[dict]]:
        asked = [{key: export[key] for key in ("command", "config", "cores", "nodes")} for export in exports]
        done = subprocess.run(job("own_functions"), input=json.dumps(asked), env=framework_environment(), text=True,
                              capture_output=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def differences(self, export: dict, answer: list[dict]):
        """Names each rank to which DeepSpeed gives other CPUs than the plan."""
        self.assertEqual(len(answer), len(export["plan"]["ranks"]))
        for rank, got in zip(export["plan"]["ranks"], answer):
            sides = [parse_cpus(rank[side]["cpus"]) for side in ("training", "optimizer")]
            both = sides[0] | sides[1]
            if rank["shared"] or export["case"].job == "ZeRO-Offload":
                sides = [both, both]  # each side may use all of them, with as many threads as it has
            if [set(got[name]) for name in ("mask", "training", "optimizer")] != [both, *sides]:
                yield export["case"], rank, got

    def assert_notes_are_true(self, export: dict, answer: list[dict]):
        """Checks that the notes say what the launcher does about threads and memory, and nothing else of these."""
        plan, notes = export["plan"]["ranks"], export["notes"]
        divides = export["case"].job != "ZeRO-Offload"
        planned = {rank["training" if divides else "home"]["threads"] for rank in plan}
        said = re.search(r"OMP_NUM_THREADS=(\d+), one", notes)
        self.assertEqual(said is not None, planned != {answer[0]["threads"]}, notes)
        if said:
            self.assertEqual({int(said[1])}, {rank["threads"] for rank in answer})
        done = collections.Counter(option.split()[0] for rank in answer for option in rank["memory"])
        told = re.search(r"memory of (\d+) of \d+ ranks? .*\(numactl (-[mp])", notes)
        self.assertEqual(dict(done), {told[2]: int(told[1])} if told else {}, notes)

    def print_summary(self, exports: list[dict], answers: list[list[dict]], refused: dict, wrong: list):
        ranks = [(rank, got) for export, answer in zip(exports, answers)
                 for rank, got in zip(export["plan"]["ranks"], answer)]
        of = collections.Counter(rank["shared"] for rank, _ in ranks)
        more = collections.Counter(rank["shared"] for rank, got in ranks
                                   if got["threads"] > rank["training"]["threads"])
        memory = collections.Counter(" ".join(got["memory"])[:2] or "none" for _, got in ranks)
        jobs = collections.Counter(export["case"].job for export in exports)
        print(f"\n{len(exports)} exports: {dict(jobs)}\nrefused: {dict(refused)}\n"
              f"{len(wrong)} of {len(ranks)} ranks differ\n"
              f"OMP_NUM_THREADS above the plan's training threads in {more[False]} of {of[False]} divided ranks and "
              f"{more[True]} of {of[True]} shared ones\nmemory option of the launcher: {dict(memory)}")

    def test_deepspeed_does_what_the_plan_says(self):
        """Seen: no difference."""
        for name, config in CONFIGS.items():
            (self.folder / f"{name}.json").write_text(json.dumps(config))
        self.nodes = {name: self.nodes_of(machine) for name, machine in MACHINES.items()}
        cases = [Case(*values) for values in itertools.product(MACHINES, RANKS, ALLOWED, (False, True), JOBS)]
        cases = cases[::EVERY] + CUTS
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            results = list(threads.map(self.exported, enumerate(cases)))
        exports = [result for result in results if isinstance(result, dict)]
        refused = collections.Counter(result for result in results if isinstance(result, str))
        kept = {result for case, result in zip(cases, results) if case.kept and isinstance(result, str)}
        answers = self.answers(exports)
        wrong = [one for export, answer in zip(exports, answers) for one in self.differences(export, answer)]
        for export, answer in zip(exports, answers):
            self.assert_notes_are_true(export, answer)

        self.print_summary(exports, answers, refused, wrong)
        self.assertEqual(wrong[:3], [])
        self.assertGreaterEqual(len(exports), 300 // EVERY)
        self.assertLessEqual(kept, {"no plan: more ranks than cores"}, "refused although planned --for deepspeed")


if __name__ == "__main__":
    unittest.main()
