"""zf_runtime.bind() in tasks of a real Slurm that no zf-tune exec precedes. Tests binding/which_rank.py."""

import json
import sys

from lab import HOME
from slurm_case import SlurmTest
from zf_cli import SOURCE, parse_cpus

# Says whether it is bound, by what, and its CPUs, or why not.
BIND = """
import os
from zf_runtime import bind
bound = bind()
print(bool(bound), bound.source, sorted(os.sched_getaffinity(0)), *bound.errors)
"""


class BoundRanks(SlurmTest):
    def test_are_where_the_plan_says_and_a_batch_script_is_none(self):
        """Also if Slurm has given each of them CPUs of its own."""
        program = f"{HOME}/bind.py"
        said = self.here(f"""
            class_plan --ranks 2
            export PYTHONPATH={SOURCE}/runtime/python ZF_RUNTIME_LIBRARY={HOME}/lib/libzf_runtime.so.0
            for bind in none cores; do
              srun -N1 -n2 --exclusive --label --cpu-bind=$bind {sys.executable} -B {program}
            done
            sbatch -N1 -n2 --exclusive -o /run/lab/out --wrap '{sys.executable} -B {program}' >/dev/null
            until_true 20 job_gone; cat /run/lab/out /etc/zf-tune/plans/*.json""", more={program: BIND})
        *lines, batch = said[:said.index("{\n")].splitlines()
        plan = json.loads(said[said.index("{\n"):])
        for mode in (lines[:2], lines[2:]):
            self.assertEqual(sorted(mode), [f"{rank}: True SLURM_LOCALID {sorted(parse_cpus(its['home']['cpus']))}"
                                            for rank, its in enumerate(plan["ranks"])])
        self.assertRegex(batch, r"^False .*\] nothing says which of the plan's 2 ranks this process is, .* give rank=$")
