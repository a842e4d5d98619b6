"""`zf-tune export --for slurm` obeyed by srun, and `zf-tune verify --job` inside a job."""

import json
import re

from slurm_case import RANKS, SlurmTest
from zf_cli import parse_cpus

OWN_MASK = "sh -c 'echo rank $SLURM_LOCALID $(grep Cpus_allowed_list /proc/self/status)'"
MAKE_PLAN = 'zf-tune plan -q --mode overlap --ranks 2 -o plan.json; chmod 644 plan.json'


class ExportSlurm(SlurmTest):
    def test_srun_binds_each_task_to_its_home(self):
        said = self.here(f"""
            {MAKE_PLAN}
            as_user srun -N1 -n2 --exclusive "$(zf-tune export -q plan.json --for slurm)" {OWN_MASK}
            cat plan.json""", conf="")
        plan = json.loads(said[said.index("{\n"):])
        masks = dict(re.findall(r"rank (\d) Cpus_allowed_list: (\S+)", said))
        self.assertEqual([parse_cpus(masks["0"]), parse_cpus(masks["1"])],
                         [parse_cpus(rank["home"]["cpus"]) for rank in plan["ranks"]])

    def test_verify_looks_at_its_own_job(self):
        said = self.here(f"""
            {MAKE_PLAN}; mkdir out; chmod 777 out
            cat >job <<'JOB'
#!/bin/bash
{RANKS} zf-tune exec --plan /run/lab/plan.json -- sleep 60 &
until_true 20 eval '[[ $(pgrep -cfx "sleep 60") -eq 2 ]]'
zf-tune verify --job; echo "exit $?"
taskset -acp "$(cut -d, -f1 /sys/devices/system/cpu/online | cut -d- -f2)" "$(pgrep -ofx "sleep 60")" >/dev/null
zf-tune verify --job | grep -c drift; echo "exit ${{PIPESTATUS[0]}}"
kill %1
JOB
            chmod 755 job
            zf-tune exec --plan plan.json --rank 0 -- sleep 61 &
            as_user sbatch -N1 -n2 --exclusive --output=out/log job >/dev/null
            until_true 30 job_gone; cat out/log; kill %1""", conf="")
        self.assertRegex(said, r"(?s)rank 0: trainer sleep .*rank 1: trainer sleep .*all as planned\nexit 0")
        self.assertEqual(said.count("trainer sleep"), 2, f"not the one outside the job\n{said}")
        self.assertIn("1\nexit 3", said)
