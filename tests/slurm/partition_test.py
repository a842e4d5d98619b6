"""tune-classes.sbatch over a partition of nodes of several classes, and the health check. The nodes are slurmds on this
machine; what zf-tune finds on each comes from a file."""

from lab import HOME, kit_conf
from slurm_case import SlurmTest
from zf_cli import SOURCE

MACHINES = {"a1": "qemu-2n", "a2": "qemu-2n", "b1": "qemu-4n"}
NODES = "".join(f"NodeName={name} CPUs=8 RealMemory=100\n" for name in MACHINES)

# zf-tune as it would be on the node of a step: what it sees is the node's file; what it would measure, it guesses.
STUB = f"""#!/bin/bash
command=$1
shift
case $command in
  tune) command=plan ;;
  check) [[ $1 == --bandwidth ]] && shift
    if [[ -e {HOME}/slow-$SLURMD_NODENAME ]]; then echo "$1: memory bandwidth is 61 % of the plan's"; exit 3; fi ;;
esac
exec {HOME}/bin/zf-tune "$command" --topology "{HOME}/$SLURMD_NODENAME.xml" "$@"
"""


class Partition(SlurmTest):
    def run_partition(self, script: str, conf="") -> str:
        more = {f"{HOME}/{node}.xml": SOURCE / f"tests/machines/{machine}.xml" for node, machine in MACHINES.items()}
        more[f"{HOME}/stub/zf-tune"] = STUB
        return self.here(f"export PATH={HOME}/stub:$PATH; cd $lab; mkdir -m 777 out\n{script}", conf=NODES + conf,
                         confined=False, more=more)

    def test_one_node_of_each_class_is_tuned_and_the_slow_one_named(self):
        said = self.run_partition(f"""
            tune() {{ as_user sbatch -o out/log -N3 {HOME}/slurm/tune-classes.sbatch out/plans "$@" >/dev/null
                     until_true 30 job_gone; cat out/log; ls out/plans/*.json | wc -l; }}
            tune; first=$(stat -c %y out/plans/*.json)
            touch {HOME}/slow-a2; tune
            [[ $(stat -c %y out/plans/*.json) == "$first" ]] && echo plans are kept
            cat out/plans/nodes.tsv; cat out/plans/*.json | grep -c '"schema"'""")
        lines = said.splitlines()
        self.assertEqual(sum("tuning a" in line for line in lines), 1, said)
        self.assertEqual(sum("tuning b1" in line for line in lines), 1, said)
        self.assertIn("2 classes, 3 nodes; these do not fit:\nnone\n2\n", said)
        self.assertRegex(said, r"these do not fit:\na2\t\w{16}\t.*61 % of the plan's\n2\nplans are kept\n")
        self.assertRegex(said, r"a1\t\w{16}\tfits\na2\t.*\nb1\t\w{16}\tfits\n2\n$")


class Health(SlurmTest):
    """As slurmd runs it, on this machine."""

    def check_health(self, *, settings="", slow=False) -> str:
        stub = f"""#!/bin/bash
[[ $1 == check && -e {HOME}/slow ]] && echo "$3: memory bandwidth is 61 % of the plan's" && exit 3
[[ $1 == check ]] && touch /run/lab/checked && exit 0
exec {HOME}/bin/zf-tune "$@"
"""
        conf = kit_conf() + f"HealthCheckProgram={HOME}/slurm/health\nHealthCheckInterval=1\n"
        return self.here(f"""
            class_plan; {"touch " + HOME + "/slow" if slow else ":"}
            printf '%b' 'program={HOME}/bin/stub\\n{settings}' >/etc/zf-tune/slurm.conf
            until_true 10 eval '[[ -e /run/lab/checked || -n $(said) ]]'; sleep 2
            sinfo -h -o 'node is %T'; sinfo -h -R -o '%E'; said | uniq""",
                         conf=conf, more={f"{HOME}/bin/stub": stub,
                                           "/etc/zf-tune/slurm.conf": f"program={HOME}/bin/stub\n{settings}\n"})

    def test_good_node_is_not_mentioned(self):
        self.assertEqual(self.check_health(), "node is idle\n")

    def test_slow_node_is_named_in_the_log_and_not_drained(self):
        self.assertEqual(self.check_health(slow=True),
                         "node is idle\nthis node falls behind its plan: memory bandwidth is 61 % of the plan's\n")

    def test_slow_node_is_drained_when_that_is_wanted(self):
        why = "this node falls behind its plan: memory bandwidth is 61 % of the plan's"
        self.assertEqual(self.check_health(slow=True, settings="strict=yes"), f"node is drained\nzf-tune: {why}\n{why}\n")
