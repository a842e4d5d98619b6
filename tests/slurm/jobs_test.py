"""Prolog, TaskProlog, `srun zf-tune exec` and Epilog of jobs that a real Slurm confines."""

import json

from lab import HOME, kit_conf
from slurm_case import RANKS, SHOW_RANK, SlurmTest, reports_in
from zf_cli import parse_cpus


class Jobs(SlurmTest):
    def test_each_rank_runs_where_the_plan_says(self):
        said = self.here(f"""
            class_plan --ranks 2
            as_user {RANKS} zf-tune exec -- test-rank
            cat /etc/zf-tune/plans/*.json""")
        reports = reports_in(said)
        plan = json.loads(said[said.index('{\n'):])
        for report in reports:
            rank = plan["ranks"][report["rank"]]
            self.assertEqual(report["training"], rank["training"]["cpus"])
            self.assertEqual(report["optimizer"], rank["optimizer"]["cpus"])
        self.assert_each_rank_in_its_place(reports, {0: parse_cpus(plan["machine"]["cpus"])})

    def test_job_script_runs_under_the_plan(self):
        said = self.here(f"""
            class_plan --ranks 2
            cd "$lab" && mkdir out && chmod 777 out
            as_user sbatch --output=out/log {HOME}/slurm/job.sbatch test-rank >/dev/null
            PATH=/usr/bin:/bin as_user sbatch --output=out/bare {HOME}/slurm/job.sbatch {SHOW_RANK} >/dev/null
            until_true 20 job_gone; cat out/log out/bare""")
        self.assertEqual(len(reports_in(said)), 2, said)
        self.assertEqual(said.count("ran as:\n"), 2, f"without zf-tune the job runs as it is\n{said}")

    def test_second_component_of_a_heterogeneous_job_finds_its_plan(self):
        """Its Prolog publishes by a number that its tasks do not have in SLURM_JOB_ID."""
        nodes = "".join(f"NodeName={name} CPUs=2 RealMemory=500\n" for name in ("n1", "n2"))
        second_only = f"#!/bin/bash\n[[ $SLURMD_NODENAME != n2 ]] || exec {HOME}/slurm/prolog\nexit 0\n"
        said = self.here("""
            class_plan --ranks 1
            show='sleep $0; echo "$SLURMD_NODENAME has $ZF_PLAN"; zf-tune exec -- sh -c "echo rank \\$ZF_RANK"'
            as_user timeout 30 srun -N1 -n1 --exclusive true : -N1 -n1 --exclusive sh -c "$show" 0""",
                         conf=kit_conf(prolog="second-only") + nodes, confined=False,
                         more={f"{HOME}/slurm/second-only": second_only})
        self.assertEqual(said, "n2 has /run/zf-tune/2.json\nrank 0\n")

    def test_job_is_left_alone_when_it_says_so(self):
        said = self.here(f"""
            class_plan --ranks 2
            show='echo "plan:$ZF_PLAN"'
            as_user {RANKS} --comment='my job, zf-tune=off' sh -c "$show"
            ZF_TUNE=off as_user {RANKS} sh -c "$show"
            ZF_PLAN=/home/mine.json as_user {RANKS} sh -c "$show"
            until_true 10 job_gone; said""")
        self.assertEqual(said.splitlines(), ["plan:"] * 4 + ["plan:/home/mine.json"] * 2)

    def test_hundred_jobs_leave_nothing_behind(self):
        timed = f"""#!/bin/bash
            start=$EPOCHREALTIME
            {HOME}/slurm/prolog || echo failed >>/run/lab/prolog-failed
            echo "$start $EPOCHREALTIME" >>/run/lab/prolog-times
            exit 0"""
        said = self.here(f"""
            class_plan --ranks 2
            present() {{
              find /run/zf-tune
              find /sys/fs/cgroup/*/slurm_lab -type d -regex '.*/\\(uid\\|job\\|step\\|task\\)_[^/]*'
              ps -e -o args= | grep -v '^ps \\|find\\|^sort' | sort
            }}
            as_user {RANKS} true; until_true 10 job_gone; present >/run/lab/before
            for job in $(seq 100); do
              as_user {RANKS} zf-tune exec -- true || echo "job $job failed"
            done
            until_true 20 job_gone; until_true 5 eval '[[ -z $(pgrep slurmstepd) ]]'; present >/run/lab/after
            diff /run/lab/before /run/lab/after && echo nothing left
            sinfo -h -o 'node is %T'; tail -n 100 /run/lab/prolog-times; test ! -e /run/lab/prolog-failed; said""",
            conf=kit_conf(prolog="timed-prolog"), more={f"{HOME}/slurm/timed-prolog": timed})
        first, state, *times = said.splitlines()
        self.assertEqual((first, state), ("nothing left", "node is idle"))
        took = sorted(float(end) - float(start) for start, end in map(str.split, times))
        self.assertEqual(len(took), 100)
        print(f"prolog: median {took[50] * 1e3:.0f} ms, p99 {took[98] * 1e3:.0f} ms, slowest {took[99] * 1e3:.0f} ms")
        self.assertLess(took[98], 0.3)
