"""zf-tune exec: the command runs where the plan says, or not at all."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from permissions import has_memory_policies, need_memory_policies
from zf_cli import (
    BINARY,
    DONE,
    INFEASIBLE,
    RUNTIME_ERROR,
    STALE,
    USAGE,
    CommandTest,
    clean_environment,
    parse_cpus,
    print_cpus,
    wait_until,
)

CPUS_ALLOWED = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FOREIGN = "pack:2 [numa(memory=64GiB)] core:512 pu:1"


class Exec(CommandTest):
    def setUp(self):
        super().setUp()
        self.plan = self.make_plan("--ranks", "1")
        self.training = self.plan["ranks"][0]["training"]
        self.home = self.plan["ranks"][0]["home"]

    def run_exec(self, *command: str, options=(), plan="plan.json", **keywords):
        return self.run_tune("exec", "--plan", plan, *options, "--", *command, **keywords)

    @staticmethod
    def said_by(result) -> list[str]:
        """Returns the lines on stderr, but not that memory policies are refused, if they are."""
        return [line for line in result.stderr.splitlines()
                if "the memory policy is not set" not in line or has_memory_policies()]

    def variables_of(self, *options: str, **environment: str) -> dict[str, str]:
        result = self.run_exec("env", "-0", options=options, **environment)
        self.assert_exit(result, DONE)
        return dict(line.split("=", 1) for line in result.stdout.split("\0") if line)

    def make_foreign_plan(self):
        """Every rank of it wants CPUs that no machine of these tests has."""
        self.make_plan("--topology", FOREIGN, "--allowed", "600-1023", name="foreign.json")

    def test_binds_to_the_whole_home(self):
        """No option says that our runtime steps beside it; without it the other side would be idle."""
        for framework in ("unknown", "torch", "deepspeed-offload", "deepspeed-zenflow", "superoffload"):
            self.make_plan("--ranks", "1", "--framework", framework)
            result = self.run_exec(*CPUS_ALLOWED)
            self.assert_exit(result, DONE)
            self.assertEqual(parse_cpus(result.stdout.split()[1]), parse_cpus(self.home["cpus"]), framework)

    def test_binds_to_the_training_side_where_our_runtime_has_the_other(self):
        self.make_plan("--ranks", "1", "--framework", "native")
        result = self.run_exec(*CPUS_ALLOWED)
        self.assert_exit(result, DONE)
        self.assertEqual(parse_cpus(result.stdout.split()[1]), parse_cpus(self.training["cpus"]))
        if self.training["cpus"] != self.home["cpus"]:
            self.assertIn("kept for the optimizer process", result.stderr)

    def test_a_plan_that_changed_wins_over_the_binding_of_an_outer_exec(self):
        self.need_two_cpus()
        change = (f"{BINARY} plan -q --mode overlap --ranks 1 --framework native -o plan.json; "
                  f"{BINARY} exec -q -p plan.json -- ")
        result = self.run_exec("sh", "-c", change + "grep Cpus_allowed_list /proc/self/status")
        self.assert_exit(result, DONE)
        self.assertEqual(parse_cpus(result.stdout.split()[1]), parse_cpus(self.training["cpus"]))
        of_another_version = self.run_exec("true", ZF_BINDING="zf-binding/9 what=ever", ZF_RANK="0")
        self.assert_exit(of_another_version, DONE)

    def test_shared_home_is_not_divided(self):
        plan = self.make_plan("--ranks", "1", "--mode", "wait", "--framework", "native")
        self.assert_sound(plan)
        self.assertTrue(plan["intent"]["shared"])
        result = self.run_exec(*CPUS_ALLOWED)
        self.assertEqual(parse_cpus(result.stdout.split()[1]), parse_cpus(self.home["cpus"]))
        fitted = self.make_plan("--from", "plan.json")
        self.assertTrue(fitted["intent"]["shared"])
        self.assertEqual(fitted["ranks"], plan["ranks"])

    def test_binding_travels_in_one_variable(self):
        variables = self.variables_of()
        line = variables["ZF_BINDING"]
        self.assertTrue(line.startswith("zf-binding/1 "))
        words = dict(word.split("=", 1) for word in line.split()[1:])
        self.assertEqual((words["rank"], words["home"], words["started_on"]), ("0", self.home["cpus"], "home"))
        self.assertEqual(words["training"], self.training["cpus"])

    def test_rank_that_sees_another_gpu_says_so_and_keeps_its_home(self):
        """It looks at one file of the PCI bus: a driver that answers late must not give it another home."""
        self.plan["ranks"][0]["gpu"] = {"pci": "fffe:ff:00.0", "cpus": self.home["cpus"]}
        (self.folder / "plan.json").write_text(json.dumps(self.plan))
        result = self.run_exec(*CPUS_ALLOWED)
        self.assert_exit(result, DONE)
        self.assertEqual(parse_cpus(result.stdout.split()[1]), parse_cpus(self.home["cpus"]))
        self.assertIn("GPU fffe:ff:00.0 of rank 0 is not on this node", result.stderr)
        self.assertIn("zf-tune plan --from", result.stderr)

    def test_an_outer_exec_of_the_same_plan_is_obeyed(self):
        self.make_plan("--ranks", "1", "--framework", "native")
        result = self.run_exec(BINARY, "exec", "--plan", "plan.json", "--", *CPUS_ALLOWED)
        self.assert_exit(result, DONE)
        self.assertEqual(parse_cpus(result.stdout.split()[1]), parse_cpus(self.training["cpus"]))

    def test_an_empty_variable_is_not_set(self):
        self.assert_exit(self.run_tune("exec", "--", "true", ZF_PLAN=""), DONE)

    def test_slurm_job_without_a_published_plan_says_that_it_takes_the_folders(self):
        self.make_plan()
        note = f"ZF_PLAN is not set in Slurm job 7, so {self.folder / 'plan.json'} is used, which may be older"
        job = {"SLURM_JOB_ID": "7"}
        self.assertIn(note, self.run_tune("exec", "--", "true", **job).stderr)
        self.assertNotIn(note, self.run_tune("exec", "--plan", "plan.json", "--", "true", **job).stderr)
        self.assertNotIn(note, self.run_tune("exec", "--", "true", ZF_PLAN="plan.json", **job).stderr)
        self.assertNotIn(note, self.run_tune("exec", "--", "true").stderr)

    def test_slurm_job_without_any_plan_does_not_say_that_one_is_used(self):
        (self.folder / "plan.json").unlink()
        result = self.run_tune("exec", "--force", "--", "echo", "started", SLURM_JOB_ID="7")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, "started\n")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("no plan.json here: ", result.stderr)
        self.assertNotIn("is used", result.stderr)

    def test_no_name_is_no_plan_and_force_starts_all_the_same(self):
        self.assert_refused(self.run_tune("exec", "-p", "", "--", "true"), USAGE, "--plan")
        result = self.run_tune("exec", "--force", "-p", "", "--", "echo", "started")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, "started\n")

    def test_a_current_folder_that_is_gone(self):
        gone = self.folder / "gone"
        gone.mkdir()
        where = ["sh", "-c", f'cd "{gone}" && rmdir "{gone}" && exec "$@"', "sh"]
        words = ["exec", "-p", "plan.json", "--", "echo", "started"]
        self.assert_refused(self.run_tune(*words, before=where), RUNTIME_ERROR, "plan.json")
        gone.mkdir()
        result = self.run_tune("exec", "--force", *words[1:], before=where)
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, "started\n")

    def test_reports_nothing_when_nothing_is_wrong(self):
        self.assertEqual(self.said_by(self.run_exec("true")), [])

    def test_tells_the_runtime_where_the_plan_is(self):
        variables = self.variables_of()
        self.assertTrue(os.path.isabs(variables["ZF_PLAN"]))
        self.assertTrue(os.path.samefile(variables["ZF_PLAN"], self.folder / "plan.json"))
        self.assertEqual(variables["ZF_RANK"], "0")

    def test_sets_the_thread_counts(self):
        variables = self.variables_of()
        for name in THREADS:
            self.assertEqual(variables[name], str(self.home["threads"]), name)
        self.make_plan("--ranks", "1", "--framework", "native")
        self.assertEqual(self.variables_of()["OMP_NUM_THREADS"], str(self.training["threads"]))

    def test_never_sets_omp_proc_bind(self):
        self.assertFalse([name for name in self.variables_of() if name in ("OMP_PROC_BIND", "OMP_PLACES")])

    def test_variables_by_which_openmp_would_undo_the_binding_are_taken_out(self):
        modules = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0", "KMP_AFFINITY": "none"}
        for more, left in (({}, {"KMP_AFFINITY"}), ({"OMP_PROC_BIND": "false"}, set(modules)),
                           ({"OMP_PROC_BIND": "false", "KMP_AFFINITY": "compact"}, set(modules) - {"KMP_AFFINITY"})):
            with self.subTest(more):
                variables = self.variables_of(**modules | more)
                self.assertEqual(set(modules) & set(variables), left)
        result = self.run_exec("env", **modules)
        self.assertEqual(self.said_by(result), [
            "zf-tune exec: OMP_PROC_BIND=close, OMP_PLACES=cores and GOMP_CPU_AFFINITY=0 are taken out of the job's "
            "environment: by them OpenMP would bind threads again, and not to the plan's CPUs; --omp keep keeps them"])
        dry = self.run_exec("true", options=["--dry-run"], **modules).stdout
        self.assertIn("\nunset OMP_PROC_BIND\nunset OMP_PLACES\nunset GOMP_CPU_AFFINITY\n", dry)

    def test_variables_of_openmp_that_are_kept_are_said(self):
        modules = {"OMP_PROC_BIND": "spread", "GOMP_CPU_AFFINITY": "0"}
        self.assertLessEqual(set(modules), set(self.variables_of("--omp", "keep", **modules)))
        said = self.said_by(self.run_exec("true", options=["--omp", "keep"], **modules))
        self.assertEqual(len(said), 2, said)
        self.assertIn("OMP_PROC_BIND=spread is kept (--omp keep): OpenMP binds the trainer's first thread", said[1])
        self.assert_refused(self.run_exec("true", options=["--omp", "lose"]), USAGE, "--omp", "one of remove, keep")

    def test_a_job_with_libgomp_has_its_home_whatever_modules_have_set(self):
        """libgomp binds the main thread as soon as it is loaded."""
        self.need_two_cpus()
        look = "import ctypes, os; ctypes.CDLL('libgomp.so.1'); print(*os.sched_getaffinity(0), sep=',')"
        try:
            ctypes.CDLL("libgomp.so.1")
        except OSError:
            self.skipTest("no libgomp.so.1 here")
        home = parse_cpus(self.home["cpus"])
        for variables in ({"GOMP_CPU_AFFINITY": str(min(home))}, {"OMP_PROC_BIND": "close"},
                          {"OMP_PROC_BIND": "spread"}, {"OMP_PLACES": "threads"},
                          {"OMP_PLACES": f"{{{','.join(map(str, home))}}}"}):
            with self.subTest(variables):
                result = self.run_exec(sys.executable, "-c", look, **variables)
                self.assert_exit(result, DONE)
                self.assertEqual(parse_cpus(result.stdout.strip()), home)

    def policy_of(self, mode: int, *options: str) -> tuple[int, str]:
        """Returns the memory policy of the command of a process with this policy on node 0, and what exec said."""
        numa = ctypes.CDLL("libnuma.so.1", use_errno=True)
        node = ctypes.c_ulong(1)
        look = ("import ctypes; mode = ctypes.c_int(); ctypes.CDLL('libnuma.so.1').get_mempolicy("
                "ctypes.byref(mode), None, 0, None, 0); print(mode.value)")
        result = self.run_exec(sys.executable, "-c", look, options=options,
                               preexec_fn=lambda: numa.set_mempolicy(mode, ctypes.byref(node), 2))
        self.assert_exit(result, DONE)
        return int(result.stdout), result.stderr

    def test_memory_policy_that_was_set_before_is_kept(self):
        need_memory_policies()
        if parse_cpus(self.plan["ranks"][0]["optimizer"]["mems"]) != {0}:
            self.skipTest("the plan has other nodes than node 0")
        self.assertEqual(self.policy_of(0), (1, ""), "without one, the plan's nodes are preferred")
        for mode, name in ((1, "preferred"), (2, "bind"), (3, "interleave")):
            found, said = self.policy_of(mode)
            self.assertEqual(found, mode)
            self.assertEqual(said, f"zf-tune exec: the memory policy that was set before, {name} on node 0, is kept, "
                             "and memory of rank 0's optimizer lies on node 0; --memory-policy plan replaces it\n")
            self.assertEqual(self.policy_of(mode, "--memory-policy", "plan"), (1, ""))
        self.assertEqual(self.policy_of(0, "--memory-policy", "keep"), (0, ""))
        self.assertEqual(self.policy_of(2, "--memory-policy", "keep"), (2, ""))
        self.assert_refused(self.run_exec("true", options=["--memory-policy", "x"]), USAGE, "give one of plan, keep")

    def test_zf_binding_says_which_memory_policy_the_command_has(self):
        need_memory_policies()
        if parse_cpus(self.plan["ranks"][0]["optimizer"]["mems"]) != {0}:
            self.skipTest("the plan has other nodes than node 0")
        inner = (BINARY, "exec", "-q", "-p", "plan.json")
        interleaved = ctypes.c_ulong(1)
        numa = ctypes.CDLL("libnuma.so.1", use_errno=True)
        for outer, words, kept in (
                (3, (), " kept_policy=interleave kept_nodes=0"), (3, inner, " kept_policy=interleave kept_nodes=0"),
                (3, (*inner, "--memory-policy", "plan"), ""),
                (0, (*inner, "--memory-policy", "keep"), " kept_policy=preferred kept_nodes=0")):
            with self.subTest(words=words):
                result = self.run_exec(*words, *(("--",) if words else ()), "sh", "-c", "echo $ZF_BINDING",
                                       preexec_fn=lambda mode=outer: numa.set_mempolicy(
                                           mode, ctypes.byref(interleaved), 2))
                self.assert_exit(result, DONE)
                self.assertEqual("".join(re.findall(" kept_.*", result.stdout)), kept)
        result = self.run_exec("sh", "-c", "echo $ZF_BINDING", options=["--memory-policy", "keep"])
        self.assertIn(" kept_policy=local kept_nodes=\n", result.stdout)

    def test_preference_of_an_outer_exec_is_not_others(self):
        need_memory_policies()
        self.make_plan("--ranks", "2", name="two.json")
        result = self.run_exec(BINARY, "exec", "--plan", "two.json", "--rank", "1", "--", "true")
        self.assert_exit(result, DONE)
        self.assertNotIn("memory policy", result.stderr)

    def threads_of(self, *options: str, **environment: str) -> tuple[list[str], list[str]]:
        """Returns the command's THREADS, and what exec said."""
        result = self.run_exec("sh", "-c", " ".join(["echo", *(f"${name}" for name in THREADS)]), options=options,
                               **environment)
        self.assert_exit(result, DONE)
        return result.stdout.split(), self.said_by(result)

    def test_users_number_of_threads_holds_for_every_library(self):
        """It set the others to the plan's: torch prefers MKL's, so OMP_NUM_THREADS=1 gave as many as the plan has."""
        for name in THREADS:
            with self.subTest(name):
                threads, (said,) = self.threads_of(**{name: "77"})
                self.assertEqual(threads, ["77"] * 3)
                self.assertIn(f"{name}=77 is set already and is kept; ", said)
                self.assertIn(f"the plan has {self.home['threads']}", said)

    def test_two_numbers_of_the_user_are_both_kept_and_told_in_one_line(self):
        threads, (said,) = self.threads_of(OMP_NUM_THREADS="77", MKL_NUM_THREADS="78")
        self.assertEqual(threads, ["77", "78", "77"])
        self.assertIn("OMP_NUM_THREADS=77 and MKL_NUM_THREADS=78 are set already and are kept; ", said)

    def test_torchruns_own_number_is_the_plans_unless_threads_are_to_be_kept(self):
        self.need_two_cpus()
        self.make_plan("--ranks", "1", "--framework", "torch")
        own = str(self.home["threads"])
        if own == "1":
            self.skipTest("one core allowed, and this needs two")
        torchrun = {"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "none"}
        threads, (said,) = self.threads_of(**torchrun)
        self.assertEqual(threads, [own] * 3)
        self.assertIn(f"the plan's {own} threads are used", said)
        threads, (said,) = self.threads_of("--keep-threads", **torchrun)
        self.assertEqual(threads, ["1"] * 3)
        self.assertIn("OMP_NUM_THREADS=1 is set already and is kept", said)
        self.assertEqual(self.threads_of(OMP_NUM_THREADS="1")[0], ["1"] * 3, "torchrun alone sets it so")

    def test_words_reach_the_command_as_they_are(self):
        words = ["a b", "", "$HOME", "--plan", "--", "*", "é"]
        result = self.run_exec("printf", "%s\\n", *words)
        self.assertEqual(result.stdout.splitlines(), words)

    def test_input_and_output_are_the_commands(self):
        result = subprocess.run([BINARY, "exec", "--plan", "plan.json", "--", "cat"], cwd=self.folder,
                                env=clean_environment(), input=b"\0\1\2\n", capture_output=True, timeout=20,
                                check=False)
        self.assertEqual(result.stdout, b"\0\1\2\n")

    def test_exit_status_passes_through(self):
        for code in [0, 1, 3, 42, 255]:
            with self.subTest(code=code):
                self.assert_exit(self.run_exec("sh", "-c", f"exit {code}"), code)

    def test_death_by_signal_passes_through(self):
        for number in [signal.SIGTERM, signal.SIGKILL, signal.SIGINT]:
            with self.subTest(signal=number):
                self.assert_exit(self.run_exec("sh", "-c", f"kill -{int(number)} $$"), -number)

    def test_signals_reach_the_command(self):
        process = self.start_tune("exec", "--plan", "plan.json", "--", "sleep", "30")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        process.terminate()
        self.assertEqual(self.finish(process).returncode, -signal.SIGTERM)

    def test_missing_command_is_127(self):
        # A folder of PATH that this user may not enter would make it 126.
        result = self.run_exec("no-such-command-here", PATH="/usr/bin:/bin")
        self.assert_exit(result, 127)
        self.assertIn("no-such-command-here", result.stderr)

    def test_command_that_cannot_run_is_126(self):
        script = self.folder / "not-executable"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o644)
        result = self.run_exec(str(script))
        self.assert_exit(result, 126)
        self.assertIn("not-executable", result.stderr)

    def test_no_command_is_a_usage_error(self):
        self.assert_refused(self.run_tune("exec", "--plan", "plan.json"), USAGE, "command")

    def test_dry_run_starts_nothing_and_says_what_would_happen(self):
        result = self.run_exec("touch", "started", options=["--dry-run"])
        self.assert_exit(result, DONE)
        self.assertFalse((self.folder / "started").exists())
        for text in [self.training["cpus"], "touch", "started", "OMP_NUM_THREADS", "ZF_RANK"]:
            self.assertIn(text, result.stdout)

    def test_dry_run_cannot_drive_the_terminal_and_means_the_same(self):
        words = ["printf", "%s", "a\x1b[2J\u202e\nb'; echo INJECTED; #", "it's"]
        result = self.run_exec(*words, options=["--dry-run"], SLURM_JOB_ID="1\x1b[2J2", SLURM_STEP_ID="0",
                               SLURM_LOCALID="0", SLURM_NODEID="0", SLURM_STEP_TASKS_PER_NODE="1")
        self.assert_exit(result, DONE)
        self.assertEqual(re.findall("[^\n -~]", result.stdout.replace(str(self.folder), "")), [])
        self.assertIn("ZF_RANK_FROM", result.stdout)
        command = result.stdout[result.stdout.rindex(" printf "):]
        printed = {shell: subprocess.run([shell, "-c", command], capture_output=True, text=True, check=True).stdout
                   for shell in ("bash", "sh")}
        self.assertEqual(printed["bash"], words[2] + words[3])
        self.assertEqual(len(printed["sh"].splitlines()), printed["sh"].count("echo INJECTED"), "sh may be dash")

    def test_dry_run_has_no_line_of_the_plans_own(self):
        """A plan may come from another user, and people paste what --dry-run prints into a shell."""
        self.plan["ranks"][0]["gpu"] = {"pci": "\u001b[2J\u202e\necho INJECTED", "cpus": self.home["cpus"]}
        (self.folder / "plan.json").write_text(json.dumps(self.plan))
        result = self.run_exec("true", options=["--dry-run"])
        self.assert_exit(result, DONE)
        self.assertIn("INJECTED of rank 0 is not on this node", result.stdout)
        self.assertNotRegex(result.stdout, "(?m)^echo|[\x1b\u202e]")

    def test_plan_of_another_numa_mode_is_not_obeyed_in_silence(self):
        """The homes are allowed here, but the plan's memory nodes are those of another mode."""
        if not os.path.exists("/sys/devices/system/node/has_cpu"):
            self.skipTest("this kernel does not say which NUMA nodes have CPUs")
        self.plan["machine"]["numa_nodes"] += 3
        (self.folder / "plan.json").write_text(json.dumps(self.plan))
        self.assert_refused(self.run_exec("true"), STALE, "NUMA nodes with CPUs", "sub-NUMA clustering", "--force")

    def test_off_is_a_plain_exec(self):
        result = self.run_exec("sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo [$ZF_RANK$OMP_NUM_THREADS]",
                               ZF_TUNE="off")
        self.assert_exit(result, DONE)
        self.assertEqual(parse_cpus(result.stdout.split()[1]), os.sched_getaffinity(0))
        self.assertIn("[]", result.stdout)

    def test_off_needs_no_plan(self):
        result = self.run_exec("echo", "ran", plan="missing.json", ZF_TUNE="off")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, "ran\n")

    def test_foreign_plan_starts_nothing(self):
        self.make_foreign_plan()
        result = self.run_exec("touch", "started", plan="foreign.json")
        self.assert_refused(result, STALE, "--force")
        self.assertFalse((self.folder / "started").exists())

    def test_foreign_plan_is_called_that_whatever_else_is_wrong(self):
        """Advice about --rank and --cpus would not help."""
        self.make_plan("--topology", FOREIGN, "--allowed", "600-1023", "--ranks", "2", name="foreign.json")
        one = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        task = {"SLURM_JOB_ID": "7", "SLURM_LOCALID": "1", "SLURM_PROCID": "1"}
        for options, before, environment in (([], [], {}), (["--rank", "0"], one, {}), (["--rank", "5"], [], {}),
                                             (["--cpus", "job"], [], {}), (["--rank", "1", "--cpus", "rank"], [], {}),
                                             ([], one, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}),
                                             ([], [], {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "2"}), ([], [], task)):
            with self.subTest(options=options, before=before, environment=environment):
                result = self.run_exec("touch", "started", plan="foreign.json", options=options, before=before,
                                       **environment)
                self.assert_refused(result, STALE)
                self.assertTrue(result.stderr.startswith("zf-tune: the plan is for machines of another class: "),
                                result.stderr)
        self.assertFalse((self.folder / "started").exists())

    def test_foreign_plan_starts_when_forced(self):
        self.make_foreign_plan()
        result = self.run_exec(*CPUS_ALLOWED, plan="foreign.json", options=["--force"])
        self.assert_exit(result, DONE)
        self.assertLessEqual(parse_cpus(result.stdout.split()[1]), os.sched_getaffinity(0))
        self.assertRegex(result.stderr, "is fitted to the CPUs? allowed here")
        self.assertIn("made for machines of another class: ", result.stderr)

    def test_forced_plan_that_cannot_be_fitted_binds_nothing_and_tells_nothing(self):
        self.need_two_cpus()
        self.make_plan("--ranks", "2", name="two.json")
        one = str(min(os.sched_getaffinity(0)))
        show = "grep Cpus_allowed_list /proc/self/status; env | grep -E '^(ZF_|OMP_NUM|MKL_NUM|OPENBLAS)'; true"
        result = self.run_exec("sh", "-c", show, plan="two.json", options=["--force", "--rank", "1"],
                               before=["taskset", "-c", one])
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout.split(), ["Cpus_allowed_list:", one])
        self.assertIn("bound to nothing", result.stderr)

    def test_plan_for_other_ranks_is_fitted_to_those_that_run(self):
        self.need_two_cpus()
        self.make_plan("--ranks", "1", name="one.json")
        homes = []
        for rank in "01":
            result = self.run_exec("sh", "-c", "echo $ZF_RANK; grep Cpus_allowed_list /proc/self/status",
                                   plan="one.json", before=["env", f"LOCAL_RANK={rank}", "LOCAL_WORLD_SIZE=2"])
            self.assert_exit(result, DONE)
            said = result.stdout.split()
            self.assertEqual(said[0], rank)
            homes.append(parse_cpus(said[2]))
            self.assertIn("made for 1 rank and CPUs", result.stderr)
            self.assertIn("is fitted to 2 ranks and the CPUs allowed here", result.stderr)
            self.assertEqual(result.stderr.count("made for 1 rank"), 1, result.stderr)
            self.assertLessEqual(result.stderr.count("one core"), 1, result.stderr)
        self.assertFalse(homes[0] & homes[1])

    def test_plan_is_fitted_to_a_narrower_mask(self):
        self.need_two_cpus()
        one = min(os.sched_getaffinity(0))
        show = "grep Cpus_allowed_list /proc/self/status; echo $ZF_PLAN; echo $ZF_BINDING"
        result = self.run_exec("bash", "-c", show, before=["taskset", "-c", str(one)])
        self.assert_exit(result, DONE)
        self.assertEqual(parse_cpus(result.stdout.split()[1]), {one})
        _, plan, binding = result.stdout.splitlines()
        self.assertEqual(plan, str(self.folder / "plan.json"), "the plan, not a fitted copy")
        self.assertIn(f" home={one} ", binding)
        self.assertIn(" shared=yes", binding)
        few, fitted, shared = self.said_by(result)
        self.assertIn("warning: 1 rank has 1 core: ", few)
        self.assertIn("is fitted to the CPU allowed here", fitted)
        self.assertIn("rank 0 has one core", shared)

    def test_mask_with_one_ranks_home_alone_is_refused_by_both_ranks(self):
        """It may be the mask of all ranks or of this one: each rank acts alike, so none takes a CPU of the other."""
        self.need_two_cpus()
        plan = self.make_plan("--ranks", "2", name="two.json")
        first = plan["ranks"][0]["home"]["cpus"]
        mask = ["taskset", "-c", first]

        def run_both(*options: str, command=CPUS_ALLOWED):
            for rank in "01":
                yield self.run_exec(*command, plan="two.json", options=["--rank", rank, *options], before=mask)

        for result in run_both(command=("touch", "started")):
            self.assert_refused(result, STALE, "--cpus job", "--cpus rank", "--force")
        self.assertFalse((self.folder / "started").exists())
        for result in run_both("--cpus", "job"):
            self.assert_exit(result, INFEASIBLE)
        for result in run_both("--cpus", "rank"):
            self.assert_exit(result, DONE)
            self.assertEqual(parse_cpus(result.stdout.split()[1]), parse_cpus(first))
        for result in run_both("--force"):
            self.assert_exit(result, DONE)
            self.assertIn("bound to nothing", result.stderr)
        self.assert_refused(self.run_exec("true", options=["--cpus", "both"]), USAGE, "--cpus", "job", "rank")

    def test_masks_of_mpirun_inside_a_slurm_job_are_not_the_jobs(self):
        """Open MPI binds by default. Each rank would take its own mask for the job's, and divide it."""
        self.need_two_cpus()
        plan = self.make_plan("--ranks", "2", name="two.json")
        job = {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": str(len(os.sched_getaffinity(0))), "SLURM_LOCALID": "0"}
        task = job | {"SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2"}
        for rank in "01":
            mask = ["taskset", "-c", plan["ranks"][int(rank)]["home"]["cpus"]]
            by_mpi = {"OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
            by_slurm = task | {"SLURM_LOCALID": rank, "SLURM_CPU_BIND_TYPE": "map_ldom:"}
            for variables in (job | by_mpi, task | by_mpi, by_slurm):
                result = self.run_exec("true", plan="two.json", before=mask, **variables)
                self.assert_refused(result, STALE, "--cpus job", "--cpus rank", "--force")
                self.assert_exit(self.run_exec("true", plan="two.json", options=["--cpus", "rank"], before=mask,
                                               **variables), DONE)
            self.assert_exit(self.run_exec("true", plan="two.json", **(job | by_mpi)), DONE)

    def test_masks_of_slurm_that_overlap_are_divided_and_leave_no_cpu_idle(self):
        """Rank 0 has one CPU. Rank 1 has that and another one, sees all homes, and must not keep its planned one."""
        self.need_two_cpus()
        first, second = sorted(os.sched_getaffinity(0))[:2]
        plan = self.make_plan("--ranks", "2", "--allowed", f"{first},{second}", name="two.json")
        task = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2",
                "SLURM_CPU_BIND_TYPE": "mask_cpu:"}
        planned = [rank["home"]["cpus"] for rank in plan["ranks"]]
        both = {first, second}
        for masks, homes in (([{second}, both], [second, first]), ([{first}, both], [first, second])):
            listed = ",".join(hex(sum(1 << cpu for cpu in mask)) for mask in masks)
            for rank, mask in enumerate(masks):
                with self.subTest(masks=masks, rank=rank, planned=planned):
                    result = self.run_exec(*CPUS_ALLOWED, plan="two.json", before=["taskset", "-c", print_cpus(mask)],
                                           **task, SLURM_LOCALID=str(rank), SLURM_CPU_BIND_LIST=listed)
                    self.assert_exit(result, DONE)
                    self.assertEqual(parse_cpus(result.stdout.split()[1]), {homes[rank]})
        for rank in "01":
            result = self.run_exec("true", plan="two.json", before=["taskset", "-c", str(first)], **task,
                                   SLURM_LOCALID=rank, SLURM_CPU_BIND_LIST=hex(1 << first))
            self.assert_refused(result, INFEASIBLE, "2 ranks have 1 core", "each needs one of its own")

    def test_masks_of_mpi_that_no_variable_lists_name_the_launchers_option_first(self):
        self.need_two_cpus()
        self.make_plan("--ranks", "2", name="two.json")
        mask = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        open_mpi = {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        mpich = {"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
        for variables, first in ((open_mpi, "start with mpirun --bind-to none"),
                                 (mpich, "start with mpiexec -bind-to none")):
            result = self.run_exec("true", plan="two.json", before=mask, **variables)
            self.assert_refused(result, STALE, first, "--cpus job", "--cpus rank")
            self.assertIn(f"; {first}", result.stderr)
            self.assertNotIn("ranks have", result.stderr, "each has CPUs of its own")

    def test_ranks_of_a_real_mpich(self):
        if shutil.which("mpiexec.mpich") is None:
            self.skipTest("no mpiexec.mpich here: install mpich")
        self.need_two_cpus()
        self.make_plan("--ranks", "2", name="two.json")
        mpich = ["mpiexec.mpich", "-launcher", "fork", "-n", "2", "-bind-to"]
        unbound = self.run_exec(*CPUS_ALLOWED, plan="two.json", before=[*mpich, "none"])
        self.assert_exit(unbound, DONE)
        first, second = (parse_cpus(line.split()[1]) for line in unbound.stdout.splitlines())
        self.assertTrue(first and second and not first & second, unbound.stdout)
        bound = self.run_exec(*CPUS_ALLOWED, plan="two.json", before=[*mpich, "core"])
        self.assert_exit(bound, STALE)
        self.assertEqual(bound.stderr.count("; start with mpiexec -bind-to none (Intel MPI: I_MPI_PIN=off), "), 2)

    def test_memory_is_preferred_on_the_homes_nodes(self):
        result = self.run_exec("sh", "-c", "head -n 1 /proc/self/numa_maps")
        if result.returncode != 0:
            self.skipTest("this kernel has no /proc/self/numa_maps")
        need_memory_policies()
        self.assertRegex(result.stdout, "prefer")

    def test_no_openmp_is_linked(self):
        linked = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(linked, r"libgomp|libomp|libiomp")
