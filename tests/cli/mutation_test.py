"""Mutated files, words and variables: an exit code and one line, never a crash, a hang, an escape code or a faked line.

ZF_MUTATIONS is the number of mutations of each kind (default 12, with scripts/test --all 40), ZF_SEED the seed
(default 1). A failure names the mutation and the seed.
"""

import json
import os
import random
import re
import shutil
import subprocess

from deepspeed_rules import CONFIGS
from mutations import mutated, mutated_variables, mutated_word
from node_files import NODE_FILES
from zf_cli import DONE, INFEASIBLE, RUNTIME_ERROR, SOURCE, STALE, USAGE, CommandTest

MUTATIONS = int(os.environ.get("ZF_MUTATIONS", "40" if "ZF_TEST_ALL" in os.environ else "12"))
SEED = int(os.environ.get("ZF_SEED", "1"))
NODE = ("--topology", "pack:2 [numa(memory=64GiB)] core:8 pu:1")
DRIVES_TERMINAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069]")
FAKED_LINE = re.compile("^INJECTED", re.MULTILINE)
FAKED_ELEMENT = re.compile("</script>INJECTED")
# hwloc says why it cannot read a machine, in a line of its own, and zf-tune passes that on.
FROM_HWLOC = re.compile(r"^(hwloc: |\[hwloc/).*\n", re.MULTILINE)


class Mutation(CommandTest):
    def try_all(self, put, *commands: tuple[str, ...], page=None):
        """Runs the commands on what put(chance) puts in place and with the variables that it returns. put(None) changes
        nothing, and every command accepts that. Of the mutations, some are accepted and some are refused. `page` is a
        file that each command writes for a browser."""
        chance = random.Random(f"{SEED} {self.id()}")
        for command in commands:
            self.assert_exit(self.answer("unchanged", command, put(None), page), DONE)
        codes = set()
        for i in range(MUTATIONS):
            environment = put(chance)
            for command in commands:
                codes.add(self.answer(f"mutation {i} with ZF_SEED={SEED}", command, environment, page).returncode)
        self.assertIn(DONE, codes, "no mutation was accepted: only the refusals were tested")
        self.assertTrue(codes - {DONE}, "no mutation was refused: they change nothing that counts")

    def try_files(self, names: list[str], *commands: tuple[str, ...], page=None):
        """Runs the commands on these files, which are as they should be, with one of them mutated."""
        files = {name: (self.folder / name).read_bytes() for name in names}

        def put(chance) -> dict[str, str]:
            self.write_files(files)
            if chance:
                name = chance.choice(names)
                self.write_files({name: mutated(files[name], chance)})
            return {}

        self.try_all(put, *commands, page=page)

    def try_variables(self, variables: dict[str, str]):
        """Runs commands under a launcher that sets these variables, with one of them mutated."""
        self.make_plan("--ranks", "1")
        self.try_all(lambda chance: mutated_variables(variables, chance), ("probe",), ("plan", "-q", "-o", "-"),
                     ("exec", "--dry-run", "--", "true"))

    def answer(self, which: str, command: tuple[str, ...], environment: dict[str, str], page=None):
        """Runs a command, and checks its exit code, what it says and the page that it writes. Returns its result."""
        which = f"{which}: {command} {environment or ''}"
        if page:
            (self.folder / page).unlink(missing_ok=True)
        for former in self.folder.glob("*.old*"):
            former.unlink()
        try:
            result = self.run_tune(*command, timeout=20, **environment)
        except (subprocess.TimeoutExpired, UnicodeDecodeError) as error:
            self.fail(f"{which}: {error}")
        said = result.stdout + result.stderr
        self.assertIn(result.returncode, (DONE, RUNTIME_ERROR, USAGE, STALE, INFEASIBLE), f"{which}: {said}")
        self.assert_lacks((DRIVES_TERMINAL, FAKED_LINE), said, which)
        if page and result.returncode == DONE:
            text = (self.folder / page).read_bytes().decode()
            self.assert_lacks((DRIVES_TERMINAL, FAKED_ELEMENT), text, f"{page} of {which}")
        if result.returncode in (RUNTIME_ERROR, USAGE, INFEASIBLE):
            self.assertRegex(FROM_HWLOC.sub("", result.stderr), r"\A\S[^\n]{0,5000}\n\Z", which)
        elif result.returncode == STALE:
            self.assertRegex(said, r"\S", which)
        return result

    def assert_lacks(self, patterns, text: str, which: str):
        for pattern in patterns:
            found = pattern.search(text)
            self.assertIsNone(found, f"{which}: {found and text[max(0, found.start() - 200) : found.end() + 50]!r}")

    def copy(self, name: str, source: str) -> str:
        """Copies a file of the sources into the test's folder. Returns its name there."""
        shutil.copy(SOURCE / source, self.folder / name)
        return name

    def test_plans(self):
        self.make_plan(*NODE, "--ranks", "2")
        self.try_files(["plan.json"], ("explain", "plan.json"), ("check", *NODE, "plan.json"),
                       ("plan", "-q", *NODE, "--from", "plan.json", "-o", "-"),
                       *(("export", "plan.json", "--for", who) for who in ("numactl", "deepspeed", "mpirun")))

    def test_plans_of_this_machine(self):
        plan = self.make_plan()
        plan["ranks"][0]["gpu"] = {"pci": "0000:3b:00.0", "node": 0, "cpus": "5000"}
        self.write_files({"plan.json": json.dumps(plan)})
        trainer = self.start_trainer(plan)
        self.try_files(["plan.json"], ("check", "--no-gpus", "plan.json"),
                       ("exec", "--rank", "0", "--dry-run", "--", "true"), ("exec", "--rank", "0", "--", "true"),
                       ("verify", "--pid", str(trainer.pid), "--rank", "0", "plan.json"))

    def test_workloads(self):
        machine = self.copy("m.json", "configs/machines/xeon-2x16-2gpu.json")
        workload = self.copy("w.json", "configs/workloads/qwen2.5-3b-2gpu.json")
        self.try_files([machine, workload], ("tune", "-q", "--simulate", machine, "-w", workload, "--accuracy", "0.5",
                                             "--fresh", "-o", "o.json"))

    def test_machines(self):
        machine = self.copy("m.json", "configs/machines/xeon-2x16-2gpu.json")
        self.try_files([machine],
                       ("tune", "-q", "--simulate", machine, "--params", "1B", "--fresh", "--report", "r.html", "-o",
                        "o.json"),
                       ("explain", "--simulate", machine, "--report", "r.html", "o.json"), page="r.html")

    def test_xml_of_hwloc(self):
        xml = self.copy("x.xml", "tests/machines/qemu-2ht.xml")
        self.try_files([xml], ("probe", "--topology", xml))

    def test_lists_and_descriptions(self):
        words = {"--allowed": "0-3,8-11:2", "--mems": "0-1", "--topology": NODE[1], "--ranks": "2"}
        chance = random.Random(f"{SEED} words")
        codes = set()
        for i in range(MUTATIONS):
            for option, word in words.items():
                node = () if option == "--topology" else NODE
                command = ("probe", *node, option, mutated_word(word, chance))
                codes.add(self.answer(f"mutation {i} with ZF_SEED={SEED}", command, {}).returncode)
        self.assertEqual(codes & {DONE, USAGE}, {DONE, USAGE})

    def test_configurations_of_deepspeed(self):
        self.make_plan(*NODE, "--ranks", "2")
        for name, config in CONFIGS.items():
            self.write_files({f"{name}.json": json.dumps(config)})
            self.try_files([f"{name}.json"], ("export", "plan.json", "--for", "deepspeed", "--config", f"{name}.json",
                                              "-o", "merged.json"))

    def test_variables_of_slurm(self):
        self.try_variables({
            "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0",
            "SLURM_NTASKS_PER_NODE": "1", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_CPU_BIND_TYPE": "mask_cpu:",
            "SLURM_CPU_BIND_LIST": "0xFFFFFFFF", "SLURM_STEP_GPUS": "0", "SLURM_JOB_GPUS": "0"})

    def test_variables_of_torchrun(self):
        self.try_variables({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "OMP_NUM_THREADS": "1",
                            "CUDA_VISIBLE_DEVICES": "0"})

    def test_variables_of_open_mpi(self):
        self.try_variables({"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
                            "HIP_VISIBLE_DEVICES": "0"})

    def test_variables_of_mpich(self):
        self.try_variables({"PMI_LOCAL_RANK": "0", "PMI_LOCAL_SIZE": "1", "MPI_LOCALRANKID": "0",
                            "MPI_LOCALNRANKS": "1"})

    def test_variables_of_a_job(self):
        plan = self.make_plan()
        given = self.run_tune("exec", "-q", "--", "env").stdout
        variables = dict(line.split("=", 1) for line in given.splitlines() if line.startswith("ZF_"))
        trainers = []

        def put(chance) -> dict[str, str]:
            for trainer in trainers:
                trainer.kill()
                trainer.wait()
            trainers[:] = [self.start_trainer(plan, **mutated_variables(variables, chance))]
            return {}

        self.try_all(put, ("verify", "--job", "plan.json"))

    def test_runs_of_an_interrupted_trial(self):
        self.make_plan("--framework", "torch")  # then a trial has one split to try, and unbound
        job = 'echo run >>runs; [ "$(wc -l <runs)" = 2 ] && exit 9; for i in 1 2 3; do echo "took 10$i"; done'
        trial = ("trial", "--trials", "1", "--metric", "took ([0-9]+)", "-o", "won.json", "--", "sh", "-c", job)
        self.assert_exit(self.run_tune(*trial), RUNTIME_ERROR)
        self.try_files(["plan.json", "won.json.trial.json"], trial)

    def test_class_plans_and_the_remembered_class(self):
        plan = self.make_plan(*NODE)
        class_plan = f"plans/{plan['machine']['fingerprint']}.json"
        self.write_files({class_plan: json.dumps(plan)})
        publish = ("publish", "--plans", "plans", "--to", "run/plan.json", "--remember", "lib/class")
        self.assert_exit(self.run_tune(*publish, *NODE), DONE)
        changed = ("--topology", "pack:1 [numa(memory=64GiB)] core:4 pu:1")  # has no plan, so the memory is read
        self.try_files([class_plan, "lib/class"], (*publish, *changed), (*publish, *NODE))

    def test_answers_of_nodes_and_their_survey(self):
        for name in ("a", "b", "c"):
            self.assert_exit(self.run_tune("survey", "add", "nodes", "--name", name, *NODE), DONE)
        survey = self.run_tune("survey", "nodes", "--format", "json")
        self.write_files({"survey.json": survey.stdout})
        self.try_files(["nodes/b.json"], ("survey", "nodes", "--report", "page.html"), page="page.html")
        self.try_files(["survey.json"], ("survey", "check", "survey.json", "--name", "a", *NODE))

    def test_captured_nodes(self):
        node = self.make_node(4)
        self.write_files({f"node/{name}": f"{text}\n" for name, text in NODE_FILES.items()})
        self.make_plan(*node)
        paths = (path for path in (self.folder / "node").rglob("*") if path.is_file())
        self.try_files(sorted(str(path.relative_to(self.folder)) for path in paths),
                       ("probe", *node), ("plan", "-q", *node, "-o", "-"), ("check", *node, "plan.json"),
                       ("doctor", "--plan", "plan.json", *node))
