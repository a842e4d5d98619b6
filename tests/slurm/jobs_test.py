"""Prolog, TaskProlog, `srun zf-tune exec` and Epilog of jobs that a real Slurm confines."""

import json
import pathlib

from lab import HOME, kit_conf
from slurm_case import RANKS, SHOW_RANK, SlurmTest, reports_in
from zf_cli import parse_cpus

# Shell functions that print what a job may have left on the node.
PRESENT = """
    present() {
      find /run/zf-tune
      find /sys/fs/cgroup/*/slurm_lab -type d -regex '.*/\\(uid\\|job\\|step\\|task\\)_[^/]*'
      ps -e -o args= >/run/lab/processes  # in no pipeline: its other processes would be seen while they start
      grep -v '^ps ' /run/lab/processes | sort
    }
    nothing_runs() { [[ -z $(pgrep 'slurmstepd|logger|timeout|zf-tune') ]]; }
"""
# Notes when the Prolog began and ended, and whether it failed.
TIMED_PROLOG = f"""#!/bin/bash
    start=$EPOCHREALTIME
    {HOME}/slurm/prolog || echo failed >>/run/lab/prolog-failed
    echo "$start $EPOCHREALTIME" >>/run/lab/prolog-times
    exit 0"""


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
            mkdir -m 777 out
            as_user sbatch --output=out/log {HOME}/slurm/job.sbatch test-rank >/dev/null
            PATH=/usr/bin:/bin as_user sbatch --output=out/bare {HOME}/slurm/job.sbatch {SHOW_RANK} >/dev/null
            until_true 20 job_gone; cat out/log out/bare""")
        self.assertEqual(len(reports_in(said)), 2, said)
        self.assertEqual(said.count("ran as:\n"), 2, f"without zf-tune the job runs as it is\n{said}")

    def test_batch_script_is_no_rank(self):
        """It has SLURM_LOCALID=0, as the first task of a step has. It would start both ranks on the first's home."""
        said = self.here("""
            class_plan --ranks 2
            mkdir -m 777 out
            as_user sbatch -N1 -n2 --exclusive -o out/log --wrap 'zf-tune exec -- true; echo "ended with $?"' >/dev/null
            until_true 20 job_gone; cat out/log""")
        self.assertIn("this is a Slurm batch script", said)
        self.assertIn("ended with 2\n", said)

    def test_ranks_that_a_script_copied_to_local_rank_are_those_of_the_step(self):
        said = self.here(f"""
            class_plan --ranks 1
            show='export LOCAL_RANK=$SLURM_LOCALID; zf-tune exec -- sh -c "echo ran as:\\$ZF_RANK"'
            as_user {RANKS} bash -c "$show" | sort""")
        self.assertEqual(said, "ran as:0\nran as:1\n")

    def test_masks_that_overlap_are_divided(self):
        """Task 0 has CPU 1 alone; task 1 has both CPUs, and must leave that one to it."""
        said = self.here("""
            class_plan --ranks 2
            show='zf-tune exec -q -- grep Cpus_allowed_list /proc/self/status'
            as_user srun -N1 -n2 --exclusive --label --cpu-bind=mask_cpu:0x2,0x3 $show | sort""")
        self.assertEqual([line.split()[-1] for line in said.splitlines()], ["1", "0"], said)

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
            as_user {RANKS} --comment=zf-tune=../root sh -c "$show"
            as_user {RANKS} --comment='my job, zf-tune=off' sh -c "$show"
            ZF_TUNE=off as_user {RANKS} sh -c "$show"
            ZF_PLAN=/home/mine.json as_user {RANKS} sh -c "$show"
            until_true 10 job_gone; said""")
        why = ("job 1 gets no plan: the NAME of --comment=zf-tune=NAME has other characters than letters, digits, - "
               "and _")
        self.assertEqual(said.splitlines(), ["plan:"] * 6 + ["plan:/home/mine.json"] * 2 + [why])

    def test_kind_of_job_has_the_plan_of_its_folder(self):
        said = self.here("""
            class_plan --ranks 2; cd /etc/zf-tune/plans; mkdir large; mv *.json large/
            for kind in zf-tune=large zf-tune=small none; do
              as_user srun -N1 --comment=$kind sh -c 'echo "$0: $(grep -c fingerprint $ZF_PLAN)"' $kind </dev/null
            done""")
        self.assertEqual(said, "zf-tune=large: 3\nzf-tune=small: 0\nnone: 0\n")

    def jobs_in_a_row(self, count: int, script: str, **lab) -> list[str]:
        """What a script says, with the Prolog's times; it calls jobs_in_a_row between two calls of `present`."""
        said = self.here(f"""
            class_plan --ranks 2{PRESENT}
            jobs_in_a_row() {{
              rm -f /run/lab/prolog-times
              for job in $(seq {count}); do
                as_user {RANKS} zf-tune exec --quiet $1 -- true || echo "job $job failed"
              done
              until_true 20 job_gone
            }}
            as_user {RANKS} true; until_true 10 job_gone; until_true 10 nothing_runs; present >/run/lab/before
            {script}
            until_true 20 job_gone; until_true 20 nothing_runs; present >/run/lab/after
            diff /run/lab/before /run/lab/after | grep '^>' || echo nothing left
            node_state; head -n {count} /run/lab/prolog-times; test ! -e /run/lab/prolog-failed; said""",
            timeout_s=280, conf=kit_conf(prolog="timed-prolog"),
            more={f"{HOME}/slurm/timed-prolog": TIMED_PROLOG,
                  f"{HOME}/dead_server.py": pathlib.Path(__file__).with_name("dead_server.py")}, **lab)
        return said.splitlines()

    def prolog_seconds(self, times: list[str], count: int) -> list[float]:
        """How long the Prologs took, the shortest first."""
        took = sorted(float(end) - float(start) for start, end in map(str.split, times[:count]))
        self.assertEqual(len(took), count)
        print(f"prolog: median {took[count // 2] * 1e3:.0f} ms, slowest but one {took[-2] * 1e3:.0f} ms, slowest "
              f"{took[-1] * 1e3:.0f} ms")
        return took

    def leave_nothing_behind(self, count: int):
        # Below a second Slurm's own settings are not read, as with the default.
        left, state, *times = self.jobs_in_a_row(count, "jobs_in_a_row", deadline="0.9")
        self.assertEqual((left, state), ("nothing left", "node is idle"))
        self.assertLess(self.prolog_seconds(times, count)[count // 2], 0.3)

    def test_twenty_jobs_leave_nothing_behind(self):
        self.leave_nothing_behind(20)

    def test_hundred_jobs_leave_nothing_behind(self):
        self.leave_nothing_behind(100)

    def test_ten_jobs_run_beside_a_dead_file_server_and_a_hung_log(self):
        self.run_beside_a_dead_file_server_and_a_hung_log(10)

    def test_hundred_jobs_run_beside_a_dead_file_server_and_a_hung_log(self):
        self.run_beside_a_dead_file_server_and_a_hung_log(100)

    def run_beside_a_dead_file_server_and_a_hung_log(self, count: int):
        """The plans are on the server. When both are back, a job gets its plan."""
        ran, left, state, *rest = self.jobs_in_a_row(count, f"""
            mknod /run/lab/fuse c 10 229; log=$(pgrep -f 'busybox syslogd')
            python3 {HOME}/dead_server.py /run/lab/fuse /etc/zf-tune/plans & server=$!
            until_true 10 grep -q ^dead-server /proc/mounts; kill -STOP "$log"
            jobs_in_a_row --force
            ! nothing_runs || echo no process waited for the server
            kill -CONT "$log"; kill "$server"; wait "$server"; until_true 10 umount /etc/zf-tune/plans
            echo deadline=5 >>/etc/zf-tune/slurm.conf
            as_user {RANKS} sh -c 'echo "$ZF_PLAN"' | sort -u""", deadline="")
        self.assertEqual((ran, left, state), (f"/run/zf-tune/{count + 2}.json", "nothing left", "node is idle"))
        *_, last_but_one, slowest = self.prolog_seconds(rest, count)
        self.assertLess(last_but_one, 3)
        self.assertLess(slowest, 10)
        said = rest[count:]
        self.assertGreater(len(said), 1)
        for line in said:
            self.assertRegex(line, r"^job \d+ gets no plan: no answer within 0\.7 s")
