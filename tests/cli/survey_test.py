"""zf-tune survey: nodes that are files, on one folder."""

import json
import os
import re
import signal
import stat
import subprocess
import time

from zf_cli import BINARY, DONE, RUNTIME_ERROR, SOURCE, STALE, USAGE, CommandTest, clean_environment, wait_until

MACHINES = SOURCE / "tests/machines"
WHOLE, OFFLINE, FOUR = "qemu-2ht", "qemu-2ht-offline2,5", "qemu-4n"

# Stands for ssh: runs the command here, as the node that it names. A node of a file cannot be measured, so zf-tune tune
# becomes zf-tune plan.
ENGINE = """#!/bin/bash
echo "$1" >>started
[[ ! -e fail-$1 ]] || exit "$(cat "fail-$1")"
[[ ! -e hang-$1 ]] || exec sleep 60
[[ ! -e interrupted-$1 ]] || cut=$1
[[ ! -e nothing-$1 ]] || exit 0
eval "set -- $1 $2"
node=$1; shift 4 # zf-tune tune -q
set -- "$ZF_TUNE" plan -q --topology "$(cat "machine-$node")" "$@"
[[ -z ${cut:-} ]] || { "$@"; echo '{"schema":"zf-samples/5"}' >"${*: -3:1}.samples.jsonl"; exit 143; }
[[ -e far-$node ]] || exec "$@"
# What runs on another host does not end with its ssh.
setsid bash -c 'for i in {1..600}; do [[ ! -e go ]] || exec "$@"; sleep 0.1; done' - "$@" &
exec sleep 60
"""


class Survey(CommandTest):
    def add(self, *names: str, machine=WHOLE, bandwidth=()):
        """Lets nodes of this machine answer. `bandwidth`: in GB/s, of each NUMA node and of all."""
        for name in names:
            path = MACHINES / f"{machine}.xml"
            self.assert_exit(self.run_tune("survey", "add", "nodes", "--name", name, "--topology", path), DONE)
            (self.folder / f"machine-{name}").write_text(str(path))
            if bandwidth:
                file = self.folder / f"nodes/{name}.json"
                record = json.loads(file.read_text())
                del record["not_measured"]
                for memory, figure in zip(record["numa"], bandwidth, strict=False):
                    memory["bytes_per_s"] = figure * 1e9
                record["bytes_per_s"] = bandwidth[-1] * 1e9
                file.write_text(json.dumps(record))

    def survey(self, *options: str, exit_code=DONE, **more) -> str:
        result = self.run_tune("survey", "nodes", *options, **more)
        self.assert_exit(result, exit_code)
        return result.stdout

    def test_this_node_answers_and_says_whether_it_was_measured(self):
        result = self.run_tune("survey", "add", "nodes", SLURMD_NODENAME="gpu007")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, r"^gpu007: class [0-9a-f]{16}, bandwidth (\d+\.\d GB/s|not measured: .+)\n$")
        record = json.loads((self.folder / "nodes/gpu007.json").read_text())
        self.assertEqual((record["schema"], record["kernel"]), ("zf-node/1", os.uname().release))
        self.assertEqual("bytes_per_s" in record, "not_measured" not in record)
        self.assertEqual(stat.S_IMODE((self.folder / "nodes/gpu007.json").stat().st_mode), 0o644)
        self.assertLess((self.folder / "nodes/gpu007.json").stat().st_size, 4096)
        self.run_tune("survey", "add", "nodes", "--no-bandwidth")
        self.assertIn('"--no-bandwidth was given"', (self.folder / f"nodes/{os.uname().nodename}.json").read_text())

    def test_name_that_could_be_a_path_is_refused(self):
        for name in ("../x", "a/b", "", "-x"):
            result = self.run_tune("survey", "add", "nodes", f"--name={name}")
            self.assert_refused(result, USAGE, "is no name of a node")
        self.assert_wrote_nothing()

    def test_file_in_place_of_the_folder_is_refused_before_it_measures(self):
        (self.folder / "nodes").write_text("{}")
        self.assert_refused(self.run_tune("survey", "add", "nodes"), USAGE, "nodes is not a folder", "name a folder")
        self.assertEqual((self.folder / "nodes").read_text(), "{}")

    def test_odd_silent_and_unlisted_nodes_are_named(self):
        self.add("gpu001", "gpu002", "gpu003", "gpu009", bandwidth=(50, 50, 100))
        self.add("gpu004", machine=OFFLINE)
        self.add("gpu005", bandwidth=(31, 50, 62))
        said = self.survey("--nodes", "gpu[001-007]", exit_code=STALE)
        self.assertIn("5 nodes of 1 class answered, 2 odd, 2 silent\n", said)
        self.assertRegex(said, r"\b4 +QEMU.* 100\.0 GB/s .* gpu\[001-003,005\]\n")
        self.assertRegex(said, r"odd: gpu004: as [0-9a-f]{8}, but CPUs 2,5 are offline\n")
        self.assertRegex(said, r"odd: gpu005: as [0-9a-f]{8}, but NUMA node 0 has 62 % of its class's bandwidth\n")
        self.assertIn("no answer from 2 nodes: gpu[006-007]\n", said)
        self.assertIn("not in --nodes, so not counted: 1 node: gpu009\n", said)
        json_said = json.loads(self.survey("--nodes", "gpu[001-007]", "--format", "json", exit_code=STALE))
        self.assertEqual(json_said["silent"], "gpu[006-007]")
        self.assertEqual([odd["name"] for odd in json_said["odd"]], ["gpu004", "gpu005"])
        self.assertEqual(json_said["classes"][0]["typical"], "gpu001")

    def test_page_is_written_beside(self):
        self.add("a")
        self.survey("--report", "page.html")
        self.assertIn("1 node of 1 class answered", (self.folder / "page.html").read_text())

    def test_old_answer_is_named_only_on_demand(self):
        self.add("a", "b")
        file = self.folder / "nodes/b.json"
        file.write_text(re.sub(r'"at": "[^"]*"', '"at": "2020-01-01T00:00:00Z"', file.read_text()))
        self.survey()
        self.assertIn("too old is the answer of 1 node: b\n", self.survey("--older-than", "30", exit_code=STALE))

    def test_hostile_file_cannot_drive_the_terminal(self):
        self.add("a")
        (self.folder / "nodes/b\x1b[2J.json").write_text("{")
        (self.folder / "nodes/c.json").write_text('{"schema": "\x1b[2J\\u001b[2J"}')
        os.mkfifo(self.folder / "nodes/d.json")
        said = self.survey(exit_code=STALE)
        self.assertEqual(said.count("left out: "), 3)
        self.assertNotIn("\x1b", said)

    def test_forgotten_node_is_gone(self):
        self.add("n1", "n2", "n3")
        self.assert_exit(self.run_tune("survey", "forget", "nodes", "n[2-3],n9"), DONE)
        self.assertEqual([path.name for path in (self.folder / "nodes").iterdir()], ["n1.json"])
        self.run_tune("survey", "forget", "nodes", "n1")
        self.assert_refused(self.run_tune("survey", "nodes"), USAGE, "nodes: no node has answered")

    def test_words_that_do_not_fit_are_refused(self):
        for words, why in ((("add",), "add needs a folder"), (("a", "b"), '"b" is one argument too many'),
                           ((), "no folder is named"), (("none",), "none: No such file or directory"),
                           (("x", "--tune", "{node} {command}"), "--tune needs --plans"),
                           (("x", "--", "--ranks", "2"), "are options of --tune"),
                           (("x", "--tune", "{node} {command}", "--plans", "p", "-f", "json"), "--tune says on stan"),
                           (("x", "--tune", "{node} {command}", "--plans", "p", "--report", "-"), "--tune says on"),
                           (("x", "--nodes", "-"), "--nodes -: standard input names no node"),
                           (("x", "--accept", "94"), '"94" is no class'),
                           (("x", "--features"), "--features needs the features that nodes have")):
            self.assert_refused(self.run_tune("survey", *words), USAGE, why)

    def test_node_is_compared_with_the_survey(self):
        self.add("a1", "a2", "a3")
        (self.folder / "survey.json").write_text(self.survey("--format", "json"))
        for machine, code, words in ((WHOLE, DONE, "a1: is as its class, 3b42bec7\n"),
                                     (OFFLINE, STALE, "a1: as 3b42bec7, but CPUs 2,5 are offline\n"),
                                     (FOUR, STALE, "a1: as 3b42bec7, but NUMA nodes")):
            result = self.run_tune("survey", "check", "survey.json", "--name", "a1",
                                   "--topology", MACHINES / f"{machine}.xml")
            self.assert_exit(result, code)
            self.assertIn(words, result.stdout)
            self.assertIn("cannot tell whether it is slow: ", result.stdout)

    def test_node_of_a_kind_that_was_not_surveyed_is_not_compared(self):
        self.add("a1", "a2", "a3")
        survey = json.loads(self.survey("--format", "json"))
        survey["classes"][0]["machine"]["model"] = "another CPU"
        (self.folder / "survey.json").write_text(json.dumps(survey))
        result = self.run_tune("survey", "check", "survey.json", "--name", "x1",
                               "--topology", MACHINES / f"{WHOLE}.xml")
        self.assert_exit(result, DONE)
        self.assertIn("x1: not compared: no class of survey.json has its CPU, ", result.stdout)

    def test_features_keep_those_of_others(self):
        self.add("n1", "n2")
        process = self.run_tune("survey", "nodes", "--nodes", "-", "--features",
                                before=("bash", "-c", '"$@" <<<"n[1-2] ib"', "-"))
        self.assert_exit(process, DONE)
        self.assertIn("scontrol update NodeName=n[1-2] AvailableFeatures=ib,zf-3b42bec7c7f5c3be\n", process.stdout)

    def prepare_engine(self):
        self.add("a1", "a2", "a3", "a4")
        self.add("b1", "b2", machine=FOUR)
        self.add("c1", machine=OFFLINE)
        (self.folder / "engine").write_text(ENGINE)
        (self.folder / "engine").chmod(0o755)

    def tune(self, exit_code=STALE, *options: str) -> str:
        return self.survey("--at-least", "2", "--tune", "./engine {node} {command}", "--plans", "plans",
                           *options, "--", "--ranks", "2", exit_code=exit_code, ZF_TUNE=BINARY)

    def started(self) -> list[str]:
        file = self.folder / "started"
        return sorted(file.read_text().split()) if file.exists() else []

    def plans(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "plans").iterdir() if path.suffix == ".json")

    def test_one_node_of_each_class_is_tuned_once(self):
        self.prepare_engine()
        said = self.tune()
        self.assertIn("3b42bec7c7f5c3be: was tuned on a1\n", said)
        self.assertEqual(self.started(), ["a1", "b1"])
        self.assertEqual(len(self.plans()), 2)
        for name in self.plans():
            plan = json.loads((self.folder / "plans" / name).read_text())
            self.assertEqual((plan["machine"]["fingerprint"] + ".json", len(plan["ranks"])), (name, 2))
        self.assertIn("every class has a plan\n", self.tune())
        self.assertEqual(self.started(), ["a1", "b1"])
        self.assertEqual([path.name for path in (self.folder / "plans").glob(".*")], [])

    def test_failed_class_is_tried_again(self):
        self.prepare_engine()
        (self.folder / "fail-a1").write_text("7")
        said = self.tune(RUNTIME_ERROR)
        self.assertRegex(said, r"3b42bec7c7f5c3be: a1 ended with status 7; see .*/plans/3b42bec7c7f5c3be\.log\n")
        self.assertEqual(len(self.plans()), 1)
        (self.folder / "fail-a1").unlink()
        self.tune()
        self.assertEqual((self.started(), len(self.plans())), (["a1", "a1", "b1"], 2))

    def test_class_that_was_interrupted_on_its_node_is_tuned_again(self):
        """zf-tune tune writes the plan so far then, and ends with 143. Its samples go on."""
        self.prepare_engine()
        (self.folder / "interrupted-a1").touch()
        self.assertIn("3b42bec7c7f5c3be: a1 ended with status 143; see ", self.tune(RUNTIME_ERROR))
        samples = self.folder / "plans/.3b42bec7c7f5c3be.json.new.samples.jsonl"
        self.assertTrue(samples.with_name(".3b42bec7c7f5c3be.json.new").exists() and samples.exists())
        (self.folder / "interrupted-a1").unlink()
        self.assertIn("3b42bec7c7f5c3be: was tuned on a1\n", self.tune())
        self.assertEqual(self.started(), ["a1", "a1", "b1"])

    def test_log_that_cannot_be_written_leaves_no_mark(self):
        self.prepare_engine()
        (self.folder / "plans").mkdir()
        log = self.folder / "plans/3b42bec7c7f5c3be.log"
        log.symlink_to("elsewhere")
        self.assertIn("3b42bec7c7f5c3be.log: ", self.tune(RUNTIME_ERROR))
        log.unlink()
        self.assertIn("3b42bec7c7f5c3be: was tuned on a1\n", self.tune())

    def test_class_with_a_lost_connection_is_not_started_again(self):
        """ssh ends with 255 then, and zf-tune may still run on the node."""
        self.prepare_engine()
        (self.folder / "fail-a1").write_text("255")
        self.assertRegex(self.tune(RUNTIME_ERROR), r"3b42bec7c7f5c3be: a1 ended with status 255; see \S+\. If nothing "
                                                   r"runs there any more, remove \S+/\.3b42bec7c7f5c3be\.json\.tuning")
        self.assertIn("may still be tuned by another run", self.tune(RUNTIME_ERROR))
        self.assertEqual(self.started(), ["a1", "b1"])

    def test_command_that_does_not_wait_is_started_once(self):
        self.prepare_engine()
        (self.folder / "nothing-a1").touch()
        self.assertIn("the command ended and left no plan: it must wait for its job (sbatch needs --wait)",
                      self.tune(RUNTIME_ERROR))
        self.assertIn("may still be tuned by another run", self.tune(RUNTIME_ERROR))
        self.assertEqual(self.started(), ["a1", "b1"])
        # The job ends later.
        self.run_tune("plan", "-q", "--topology", MACHINES / f"{WHOLE}.xml",
                      "-o", "plans/.3b42bec7c7f5c3be.json.new")
        self.assertIn("was made by an earlier run\n", self.tune())
        self.assertEqual((self.started(), len(self.plans())), (["a1", "b1"], 2))

    def test_plan_of_another_class_is_not_taken(self):
        self.prepare_engine()
        (self.folder / "machine-a1").write_text(str(MACHINES / f"{OFFLINE}.xml"))
        self.assertIn("is a plan of class ", self.tune(RUNTIME_ERROR))
        self.assertEqual(len(self.plans()), 1)

    def start_hanging(self, how="hang") -> subprocess.Popen:
        self.prepare_engine()
        (self.folder / f"{how}-a1").touch()
        process = self.start_tune("survey", "nodes", "--tune", "./engine {node} {command}", "--plans", "plans",
                                  ZF_TUNE=BINARY)
        wait_until(lambda: "a1" in self.started() and list((self.folder / "plans").glob("8926*.json")))
        return process

    def test_second_run_starts_nothing_that_may_be_running(self):
        """The first is killed. What it has started on another host lives on, and its plan is taken when it is there."""
        process = self.start_hanging("far")
        for _ in range(2):
            said = self.tune(RUNTIME_ERROR)
            self.assertRegex(said, r"3b42bec7c7f5c3be: may still be tuned by another run \(\S+ \d+ a1\); if it is not, "
                                   r"remove \S+/plans/\.3b42bec7c7f5c3be\.json\.tuning\n")
            process.kill()
            self.finish(process)
        self.assertEqual(self.started().count("a1"), 1)
        (self.folder / "go").touch()
        wait_until((self.folder / "plans/.3b42bec7c7f5c3be.json.new").exists)
        self.assertIn("3b42bec7c7f5c3be: was made by an earlier run\n", self.tune())
        self.assertEqual((self.started().count("a1"), len(self.plans())), (1, 2))
        self.assertEqual(list((self.folder / "plans").glob(".*")), [])

    def test_killed_class_is_tuned_again_once_its_mark_is_removed(self):
        process = self.start_hanging()
        process.kill()
        self.finish(process)
        (self.folder / "hang-a1").unlink()
        (self.folder / "plans/.3b42bec7c7f5c3be.json.tuning").unlink()
        self.assertIn("3b42bec7c7f5c3be: was tuned on a1\n", self.tune())

    def test_interrupt_ends_the_commands_and_leaves_the_marks(self):
        """What a command has started on another node may live on, such as a job or a remote shell."""
        process = self.start_hanging()
        process.send_signal(signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.returncode, 130)
        self.assertIn("3b42bec7c7f5c3be: a1 was interrupted; see ", result.stdout)
        mark, = (self.folder / "plans").glob(".*.tuning")
        self.assertIn(f"If nothing runs there any more, remove {mark}\n", result.stdout)

    def test_five_thousand_nodes_take_two_seconds_and_200_mib_at_most(self):
        self.add("n0", bandwidth=(50, 50, 100))
        record = (self.folder / "nodes/n0.json").read_text()
        for i in range(1, 5000):
            (self.folder / f"nodes/n{i}.json").write_text(record.replace('"n0"', f'"n{i}"'))
        started = time.monotonic()
        said = self.survey()
        took = time.monotonic() - started
        self.assertIn("5000 nodes of 1 class answered\n", said)
        self.assertIn(" n[0-4999]\n", said)
        process = subprocess.Popen([BINARY, "survey", "nodes"], cwd=self.folder, env=clean_environment(),
                                   stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        self.assertLess(used.ru_maxrss, 200 * 1024)
        self.assertLess(min(took, used.ru_utime + used.ru_stime), 2)
