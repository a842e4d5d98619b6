"""No plan is lost: what a new plan replaces is moved to NAME.old, if it rests on measurements."""

import json
import os
import resource
import stat

from zf_cli import DONE, RUNTIME_ERROR, SOURCE, USAGE, CommandTest

SIMULATE = ("--simulate", SOURCE / "configs/machines/cloud-2vcpu.json", "--fresh")
# The same machine, for commands that do not simulate.
NODE = ("--topology", "pack:1 [numa(memory=8GiB)] core:4 pu:1")


def small_files():
    """From here on no file can be longer than a sample file: a plan cannot be written, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))


class FormerPlan(CommandTest):
    def files(self, name="plan.json") -> list[str]:
        """Returns the names of the plan and of its former ones."""
        return sorted(path.name for path in self.folder.glob(f"{name}*") if ".samples." not in path.name)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def measure(self, *arguments, **keywords):
        """Writes a plan that was measured, on a simulated machine. Returns what was said."""
        result = self.run_tune("tune", *SIMULATE, *arguments, **keywords)
        self.assert_exit(result, DONE)
        return result

    def make_measured(self, name="plan.json", rounds=2) -> str:
        """Writes a plan for NODE that claims to be measured. Returns its text."""
        plan = self.make_plan(*NODE, name=f"{name}.made")
        (self.folder / f"{name}.made").unlink()
        self.measure("-q", "-o", "measured")
        measured = self.read_plan("measured")
        for path in self.folder.glob("measured*"):
            path.unlink()
        plan["evidence"] = measured["evidence"]
        plan["choice"]["candidate"] = measured["choice"]["candidate"]
        plan["evidence"]["samples"] = [dict(plan["evidence"]["samples"][0], round=i) for i in range(rounds)]
        plan["evidence"].pop("estimate_round", None)
        (self.folder / name).write_text(json.dumps(plan))
        self.assert_exit(self.run_tune("explain", name), DONE)
        return self.text(name)

    def assert_moved(self, result, name="plan.json", number=""):
        self.assert_exit(result, DONE)
        line = f"moved the former plan to {name}.old{number}"
        self.assertEqual(result.stderr.splitlines().count(line), 1, result.stderr)

    def test_tune_moves_a_measured_plan(self):
        self.assertNotIn("moved", self.measure().stderr)
        first = self.text("plan.json")
        self.assert_moved(self.measure("--mode", "exact"))
        self.assertEqual(self.text("plan.json.old"), first)
        self.assertEqual(self.read_plan()["workload"]["mode"], "exact")
        self.assertEqual(self.files(), ["plan.json", "plan.json.old"])

    def test_whatever_its_name_is(self):
        self.measure("-o", "x")
        first = self.text("x")
        self.assert_moved(self.measure("--mode", "exact", "-o", "x"), "x")
        self.assertEqual(self.text("x.old"), first)

    def test_plan_moves_it_too(self):
        before = self.make_measured()
        self.assert_moved(self.run_tune("plan", *NODE))
        self.assertEqual(self.text("plan.json.old"), before)
        self.assertEqual(self.read_plan()["evidence"]["samples"], [])

    def test_a_plan_that_is_fitted_anew_to_its_own_name_is_moved(self):
        before = self.make_measured()
        fitted = self.run_tune("plan", *NODE, "--allowed", "0-1", "--from", "plan.json", "-o", "plan.json")
        self.assert_moved(fitted)
        self.assertEqual(self.text("plan.json.old"), before)
        self.assertEqual(self.read_plan()["allocation"]["cpus"], "0-1")

    def test_the_same_plan_again_is_not_moved(self):
        self.make_measured()
        for _ in range(2):
            result = self.run_tune("plan", *NODE, "--from", "plan.json", "-o", "plan.json")
            self.assert_exit(result, DONE)
            self.assertNotIn("moved", result.stderr)
        self.assertEqual(self.files(), ["plan.json"])

    def test_trial_moves_the_plan_that_it_tried(self):
        self.need_two_cpus()
        self.measure("-q")
        measured = self.read_plan()
        plan = self.make_plan("--mode", "overlap")
        self.assertEqual(self.files(), ["plan.json", "plan.json.old"])
        (self.folder / "plan.json.old").unlink()
        plan["evidence"] = measured["evidence"]
        plan["choice"]["candidate"] = measured["choice"]["candidate"]
        (self.folder / "plan.json").write_text(json.dumps(plan))
        before = self.text("plan.json")
        result = self.run_tune("trial", "--trials", "1", "--metric", "took ([0-9]+)", "--",
                               "printf", "took 1\\ntook 1\\n")
        self.assert_moved(result)
        self.assertEqual(self.text("plan.json.old"), before)
        self.assertIn("trial", self.read_plan())

    def test_an_unmeasured_plan_is_replaced_as_ever(self):
        for params in ("1B", "2B"):
            result = self.run_tune("plan", "--params", params, *NODE)
            self.assert_exit(result, DONE)
            self.assertNotIn("moved", result.stderr)
        self.assertEqual(self.files(), ["plan.json"])

    def test_old_with_as_many_visits_is_replaced_and_one_with_more_is_kept(self):
        better = self.make_measured("plan.json.old", rounds=3)
        expected = {}
        for number, rounds in (("", 3), (".1", 2), (".2", 1), ("", 4)):
            expected["plan.json.old" + number] = self.make_measured(rounds=rounds)
            self.assert_moved(self.run_tune("plan", *NODE), number=number)
            self.assertEqual(self.text("plan.json.old" + number), expected["plan.json.old" + number])
        self.assertNotEqual(self.text("plan.json.old"), better)
        self.assertEqual({name: self.text(name) for name in self.files() if name != "plan.json"}, expected)

    def test_where_no_name_is_free_nothing_is_measured_and_nothing_changed(self):
        self.make_measured(rounds=1)
        for name in ["plan.json.old", *(f"plan.json.old.{i}" for i in range(1, 10))]:
            self.make_measured(name, rounds=2)
        before = {path.name: path.read_text() for path in self.folder.iterdir()}
        for command in (["tune", "--budget", "40s"], ["plan"], ["plan", "--from", "plan.json", *NODE],
                        ["trial", "--metric", "x", "--", "touch", "started"]):
            result = self.run_tune(*command, timeout=30)
            self.assert_refused(result, RUNTIME_ERROR)
            self.assertEqual(result.stderr, "zf-tune: plan.json: what is there cannot be kept: plan.json.old and "
                             "plan.json.old.1 to plan.json.old.9 are all taken; move one of them away, or choose "
                             "another -o FILE\n")
        self.assertEqual({path.name: path.read_text() for path in self.folder.iterdir()}, before)

    def test_what_is_no_plan_is_kept_and_said(self):
        (self.folder / "notes").write_text("mine\n")
        result = self.run_tune("plan", "-o", "notes", *NODE)
        self.assert_exit(result, DONE)
        self.assertIn("moved notes, which cannot be read as a plan, to notes.old\n", result.stderr)
        self.assertEqual(self.text("notes.old"), "mine\n")

    def test_standard_output_moves_nothing(self):
        before = self.make_measured()
        result = self.run_tune("plan", *NODE, "--from", "plan.json", "--allowed", "0-1", "-o", "-")
        self.assert_exit(result, DONE)
        self.assertNotIn("moved", result.stderr)
        self.assert_exit(self.run_tune("tune", *SIMULATE, "-o", "-"), DONE)
        self.assertEqual(self.text("plan.json"), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["plan.json"])

    def test_commands_that_write_something_else_refuse_the_name_of_a_plan(self):
        before = self.make_measured()
        self.make_plan(*NODE, name="other.json")
        for words in (("export", "--for", "env", "-o", "plan.json", "other.json"),
                      ("explain", "--report", "plan.json", "other.json"), ("record", "-o", "plan.json", "--", "true")):
            with self.subTest(words=words):
                result = self.run_tune(*words)
                self.assert_exit(result, USAGE)
                self.assertIn("plan.json: this file is a plan, and would be lost; name another file", result.stderr)
                self.assertEqual(self.text("plan.json"), before)

    def test_samples_of_a_sweep_are_not_replaced_by_something_else(self):
        self.make_plan(*NODE, name="other.json")
        kept = '{"schema":"zf-samples/5","by":"zf-tune"}\n'
        (self.folder / "s.jsonl").write_text(kept)
        for option in ("--samples", "--report"):
            with self.subTest(option=option):
                result = self.run_tune("explain", option, "s.jsonl", "other.json")
                self.assert_exit(result, USAGE)
                self.assertIn("s.jsonl: this file has the samples of a sweep, and would be lost", result.stderr)
                self.assertEqual(self.text("s.jsonl"), kept)

    def test_publish_moves_nothing(self):
        self.make_measured("made.json")
        name = self.read_plan("made.json")["machine"]["fingerprint"]
        (self.folder / "plans").mkdir()
        (self.folder / "made.json").rename(self.folder / f"plans/{name}.json")
        for _ in range(2):
            self.assert_exit(self.run_tune("publish", "--plans", "plans", "--to", "run/7.json", *NODE), DONE)
        self.assertEqual(os.listdir(self.folder / "run"), ["7.json"])

    def test_quiet_moves_without_a_word(self):
        self.make_measured()
        result = self.run_tune("plan", "-q", *NODE)
        self.assert_exit(result, DONE)
        self.assertEqual((result.stdout, result.stderr), ("", ""))
        self.assertEqual(self.files(), ["plan.json", "plan.json.old"])

    def test_a_plan_that_cannot_be_written_moves_nothing(self):
        before = self.make_measured()
        result = self.run_tune("tune", *SIMULATE, "-q", preexec_fn=small_files)
        self.assert_refused(result, RUNTIME_ERROR, "plan.json", "what was there before is unchanged")
        self.assertEqual(self.text("plan.json"), before)
        self.assertEqual(self.files(), ["plan.json"])

    def test_a_plan_keeps_its_mode(self):
        for mode in (0o600, 0o640):
            self.make_measured()
            (self.folder / "plan.json").chmod(mode)
            self.assert_exit(self.run_tune("plan", "-q", *NODE), DONE)
            for name in ("plan.json", "plan.json.old"):
                self.assertEqual(stat.S_IMODE((self.folder / name).stat().st_mode), mode, name)


class SampleFile(CommandTest):
    """What is not ours stays as it is, though it has the name of a sample file."""

    def assert_untouched(self, *named: str):
        path = self.folder / "x.json.samples.jsonl"
        before = path.read_bytes()
        for options in ([], ["--fresh"]):
            result = self.run_tune("tune", "--budget", "40s", "-o", "x.json", *options, timeout=30)
            self.assert_refused(result, USAGE, *named)
            self.assertTrue(result.stderr.startswith(
                "zf-tune: x.json.samples.jsonl: zf-tune tune would keep its samples there, but this "), result.stderr)
            self.assertTrue(result.stderr.endswith("; move it away, or choose another -o FILE\n"), result.stderr)
        self.assertEqual(path.read_bytes(), before)
        self.assertEqual(os.listdir(self.folder), ["x.json.samples.jsonl"])

    def test_a_file_of_something_else_is_not_touched(self):
        for content in ("precious\n", '{"schema":"zf-plan/2"}\n'):
            self.write_files({"x.json.samples.jsonl": content})
            self.assert_untouched("but this is not a sample file of zf-tune;")

    def test_a_sample_file_of_another_user_is_not_touched(self):
        self.write_files({"x.json.samples.jsonl": '{"schema":"zf-samples/5"}\n'})
        try:
            os.chown(self.folder / "x.json.samples.jsonl", os.geteuid() + 1, -1)
        except PermissionError:
            self.skipTest("only root can give files away")
        self.assert_untouched(f"but this belongs to user {os.geteuid() + 1};")

    def interrupted_sweep(self, machine: str) -> bytes:
        """Leaves the samples of a sweep of this machine that did not come to its end, and returns them."""
        path = self.folder / "plan.json.samples.jsonl"
        self.assert_exit(self.simulate(machine, "--fresh"), DONE)
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
        return path.read_bytes()

    def simulate(self, machine: str, *options: str):
        return self.run_tune("tune", "--simulate", SOURCE / f"configs/machines/{machine}.json", *options)

    def test_an_interrupted_sweep_of_another_job_is_kept_and_can_go_on(self):
        samples = self.folder / "plan.json.samples.jsonl"
        interrupted = self.interrupted_sweep("cloud-2vcpu")
        result = self.simulate("xeon-2x16-2gpu")
        self.assert_exit(result, DONE)
        old = self.folder / "plan.json.samples.jsonl.old"
        self.assertEqual(old.read_bytes(), interrupted)
        self.assertRegex(result.stderr, r"(?m)^moved the interrupted sweep of another job, which has \d+ visits, to "
                         r"plan\.json\.samples\.jsonl\.old; to continue that sweep, move it back to "
                         r"plan\.json\.samples\.jsonl$")
        old.rename(samples)
        result = self.simulate("cloud-2vcpu")
        self.assert_exit(result, DONE)
        self.assertIn("continuing the interrupted sweep", result.stderr)
        self.assertEqual(samples.read_bytes()[: len(interrupted)], interrupted)

    def test_no_kept_sweep_is_overwritten_by_the_next(self):
        names = [f"plan.json.samples.jsonl.old{number}" for number in ["", *(f".{i}" for i in range(1, 10))]]
        self.write_files({name: name for name in names[:-1]})
        interrupted = self.interrupted_sweep("cloud-2vcpu")
        self.assert_exit(self.simulate("xeon-2x16-2gpu", "-q"), DONE)
        self.assertEqual((self.folder / names[-1]).read_bytes(), interrupted)
        interrupted = self.interrupted_sweep("cloud-2vcpu")
        self.assert_refused(self.simulate("xeon-2x16-2gpu"), RUNTIME_ERROR,
                            "the interrupted sweep there cannot be kept",
                            "; move one of them away, or choose another -o FILE")
        self.assertEqual((self.folder / "plan.json.samples.jsonl").read_bytes(), interrupted)
        self.assertEqual([(self.folder / name).read_text() for name in names[:-1]], names[:-1])
        self.assert_exit(self.simulate("xeon-2x16-2gpu", "--fresh"), DONE)

    def test_an_empty_one_and_one_of_an_older_version_are_ours(self):
        for content in ("", '{"schema":"zf-samples/4","by":"zf-tune 0.1.0"}\n'):
            self.write_files({"x.json.samples.jsonl": content})
            self.assert_exit(self.run_tune("tune", "-q", *SIMULATE[:2], "-o", "x.json"), DONE)
            self.assertIn("zf-samples/5", (self.folder / "x.json.samples.jsonl").read_text())
