"""zf-tune export: each text is given to the program that it is for, and the kernel is asked what came of it."""

import os
import re
import shlex
import subprocess

from permissions import need_memory_policies, need_program
from zf_cli import DONE, STALE, USAGE, CommandTest, parse_cpus

SMALL = "pack:2 [numa(memory=64GiB)] core:4 pu:1"
LARGE = "pack:2 [numa(memory=64GiB)] core:96 pu:1"

LIBGOMP_PROGRAM = r"""
#include <omp.h>
#include <stdio.h>
#include <unistd.h>
#include <sched.h>
int main(void) {
#pragma omp parallel
#pragma omp critical
  {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) printf("%d ", cpu);
    printf("\n");
    omp_display_affinity("bound to %A");
  }
  return 0;
}
"""


NATIVE = ("--framework", "native")


class Export(CommandTest):
    def export(self, consumer: str, *options: str, code=DONE, **keywords) -> str:
        result = self.run_tune("export", "plan.json", "--for", consumer, *options, **keywords)
        self.assert_exit(result, code)
        return result.stdout

    def run_prefixed(self, prefix: str, *command: str, **variables: str) -> str:
        done = subprocess.run([*shlex.split(prefix), *command], cwd=self.folder, env=os.environ | variables,
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def training(self, plan: dict, rank=0) -> set[int]:
        return parse_cpus(plan["ranks"][rank]["training"]["cpus"])

    def test_numactl_and_taskset_bind_as_exec_does(self):
        for framework, side in (("native", "training"), ("unknown", "home")):
            plan = self.make_plan("--ranks", "1", "--framework", framework)
            for consumer in ("numactl", "taskset"):
                with self.subTest(consumer, framework=framework):
                    need_program(consumer)
                    if consumer == "numactl":
                        need_memory_policies()
                    said = self.run_prefixed(self.export(consumer), "grep", "Cpus_allowed_list", "/proc/self/status")
                    self.assertEqual(parse_cpus(said.split()[1]), parse_cpus(plan["ranks"][0][side]["cpus"]))

    def test_numactl_prefers_the_ranks_memory(self):
        need_program("numactl")
        need_memory_policies()
        plan = self.make_plan("--ranks", "1")
        said = self.run_prefixed(self.export("numactl"), "numactl", "--show")
        self.assertIn(f"preferred: {plan['ranks'][0]['optimizer']['mems']}", said)

    def test_numactl_words_for_each_policy(self):
        self.make_plan("--topology", LARGE, "--ranks", "2", "--allowed", "0-49,96-145")
        self.assertEqual(self.export("numactl", "--rank", "1"), "numactl --physcpubind=96-145 --preferred=1\n")
        self.make_plan("--topology", LARGE, "--ranks", "1")
        self.assertIn(" --preferred-many=0-1\n", self.export("numactl"))

    def test_hwloc_reads_the_same_cpus(self):
        calc = need_program("hwloc-calc")
        for allowed in ("0-191", "0,31-33,63-64,95-128,191", "190-191"):
            plan = self.make_plan("--topology", LARGE, "--ranks", "2", "--allowed", allowed, *NATIVE)
            for rank, bitmap in enumerate(self.export("hwloc").split()):
                said = subprocess.run([calc, "-i", LARGE, "--po", "-I", "pu", bitmap], capture_output=True, text=True,
                                      timeout=30, check=True).stdout
                self.assertEqual(parse_cpus(said), self.training(plan, rank))

    def test_libgomp_runs_the_plans_threads_on_the_plans_cpus(self):
        compiler = need_program("gcc")
        plan = self.make_plan("--ranks", "1", *NATIVE)
        (self.folder / "program.c").write_text(LIBGOMP_PROGRAM)
        built = subprocess.run([compiler, "-fopenmp", "-D_GNU_SOURCE", "-o", "program", "program.c"], cwd=self.folder,
                               capture_output=True, text=True, timeout=60, check=False)
        if built.returncode != 0:
            self.skipTest(f"gcc builds no OpenMP here: {built.stderr.splitlines()[-1:]}")
        said = subprocess.run(["sh", "-c", f"{self.export('openmp')}exec ./program"], cwd=self.folder,
                              env={"PATH": os.environ["PATH"], "OMP_DISPLAY_AFFINITY": "true"},
                              capture_output=True, text=True, timeout=30, check=True)
        threads = plan["ranks"][0]["training"]["threads"]
        masks = [{int(cpu) for cpu in line.split()} for line in said.stdout.splitlines()]
        self.assertEqual(masks, [self.training(plan)] * threads)
        shown = [parse_cpus(cpus) for cpus in re.findall(r"bound to (\S+)", said.stderr)]
        self.assertEqual(shown, masks, "as libgomp itself sees it")

    def test_openmp_place_of_a_sparse_set(self):
        self.make_plan("--topology", SMALL, "--ranks", "1", "--allowed", "0,2-3,5-7", *NATIVE)
        self.assertEqual(self.export("openmp").splitlines()[1], "export OMP_PLACES='{0,2:2}'")

    def test_slurm_masks_are_the_ranks(self):
        plan = self.make_plan("--topology", LARGE, "--ranks", "3", "--allowed", "1-40,90-100,150-191", *NATIVE)
        option, _, masks = self.export("slurm").strip().rpartition(":")
        self.assertEqual(option, "--cpu-bind=mask_cpu")
        for rank, mask in enumerate(masks.split(",")):
            self.assertRegex(mask, "^0x[1-9a-f]")
            self.assertEqual({cpu for cpu in range(192) if int(mask, 16) >> cpu & 1}, self.training(plan, rank))

    def test_env_is_what_exec_sets(self):
        self.make_plan("--ranks", "1")
        names = ["ZF_PLAN", "ZF_RANK", "ZF_OPTIMIZER_CPUS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
                 "OPENBLAS_NUM_THREADS"]
        show = " ".join(f"[${name}]" for name in names)
        by_exec = self.run_tune("exec", "--plan", "plan.json", "--", "sh", "-c", f"echo {show}").stdout
        by_shell = subprocess.run(["sh", "-c", f"{self.export('env')}echo {show}"], cwd=self.folder, text=True,
                                  env={"PATH": os.environ["PATH"]}, capture_output=True, timeout=30, check=True).stdout
        self.assertEqual(by_shell, by_exec)
        self.assertIn("plan.json]", by_shell)

    def test_env_survives_a_folder_with_blanks(self):
        folder = self.folder / "a folder's $HOME"
        folder.mkdir()
        self.make_plan("--ranks", "1", name=str(folder / "plan.json"))
        exports = self.run_tune("export", folder / "plan.json", "--for", "env").stdout
        said = subprocess.run(["sh", "-c", f'{exports}printf %s "$ZF_PLAN"'], capture_output=True, text=True,
                              timeout=30, check=True).stdout
        self.assertEqual(said, str(folder / "plan.json"))

    def test_torchrun_and_mpirun_name_every_rank(self):
        self.make_plan("--topology", SMALL, "--ranks", "2", *NATIVE)
        words = shlex.split(self.export("torchrun"))
        self.assertIn("--nproc_per_node=2", words)
        self.assertEqual(words[-2:], [str(self.folder / "plan.json"), "--"])
        self.assertIn("--no_python zf-tune exec --plan", " ".join(words), "exec itself replaces torchrun's own 1")
        self.assertEqual(self.export("mpirun"), "rank 0=localhost slot=0-1\nrank 1=localhost slot=4-5\n")

    def test_one_line_per_rank_or_the_one_asked_for(self):
        self.make_plan("--topology", SMALL, "--ranks", "2")
        for consumer in ("numactl", "taskset", "hwloc"):
            lines = self.export(consumer).splitlines()
            self.assertEqual(len(lines), 2)
            self.assertEqual(self.export(consumer, "--rank", "1").splitlines(), lines[1:])

    def test_goes_to_a_file_as_a_whole(self):
        self.make_plan("--topology", SMALL, "--ranks", "2")
        self.assertEqual(self.export("mpirun", "-o", "ranks.txt"), "")
        self.assertIn("rank 1=", (self.folder / "ranks.txt").read_text())

    def test_notes_are_no_data_and_can_be_silenced(self):
        self.make_plan("--topology", SMALL, "--ranks", "2")
        result = self.run_tune("export", "--for", "slurm", "plan.json")
        self.assertIn("whole node", result.stderr)
        self.assertEqual(self.run_tune("export", "-q", "--for", "slurm", "plan.json").stderr, "")

    def test_bad_requests_are_refused(self):
        self.make_plan("--topology", SMALL, "--ranks", "2")
        self.assert_refused(self.run_tune("export", "plan.json"), USAGE, "--for")
        self.assert_refused(self.run_tune("export", "--for", "likwid"), USAGE, "likwid", "numactl", "hwloc")
        self.assert_refused(self.run_tune("export", "--for", "env"), USAGE, "2 ranks", "--rank")
        self.assert_refused(self.run_tune("export", "--for", "slurm", "--rank", "0"), USAGE, "--rank 0")
        self.assert_refused(self.run_tune("export", "--for", "taskset", "--rank", "2"), USAGE, "2")
        self.assert_refused(self.run_tune("export", "--for", "taskset", "--rank", "x"), USAGE, "--rank")
        self.assert_refused(self.run_tune("export", "none.json", "--for", "taskset"), USAGE, "none.json")
        result = self.run_tune("export", "--for", "taskset", "-o", "no/such/folder/file")
        self.assertNotIn(result.returncode, (DONE, STALE))
