"""A survey of a partition, tune-classes.sbatch, and the health check. The nodes are slurmds on this
machine; what zf-tune finds on each comes from a file."""

import os

from lab import HOME, kit_conf
from slurm_case import SlurmTest
from zf_cli import SOURCE

# Of a1 to a3 one is slow. a4 is as they are, but two of its CPUs are offline.
MACHINES = {"a1": "qemu-2ht", "a2": "qemu-2ht", "a3": "qemu-2ht", "a4": "qemu-2ht-offline2,5"}
NODES = "".join(f"NodeName={name} CPUs=8 RealMemory=100\n" for name in MACHINES)

# zf-tune as it would be on the node of a step: what it sees is the node's file; what it would measure, it guesses.
STUB = f"""#!/bin/bash
command=$1
shift
machine="--topology {HOME}/$SLURMD_NODENAME.xml"
case $command in
  tune) command=plan
    echo "tasks per node: ${{SLURM_NTASKS_PER_NODE-unset}}" ;;
  survey)
    {HOME}/bin/zf-tune survey $machine "$@"
    code=$?
    speed=$(cat {HOME}/speed-$SLURMD_NODENAME 2>/dev/null || echo 1e11)
    [[ $1 != add ]] || sed -i 's/"not_measured".*/"bytes_per_s": '"$speed/" "$2/$SLURMD_NODENAME.json"
    exit $code ;;
esac
exec {HOME}/bin/zf-tune "$command" $machine "$@"
"""

# The optimizer's CPU is measured to be 0, 1 or both. Here it is not CPU 1 alone.
OPTIMIZER_ON_CPU_0 = """
import json
plan = json.load(open("plan.json"))
training, optimizer = plan["ranks"][0]["training"], plan["ranks"][0]["optimizer"]
if optimizer["cpus"] == "1":
    training["cpus"], optimizer["cpus"] = "1", "0"
json.dump(plan, open("plan.json", "w"))
"""


class Partition(SlurmTest):
    def run_partition(self, script: str) -> str:
        more = {f"{HOME}/{node}.xml": SOURCE / f"tests/machines/{machine}.xml" for node, machine in MACHINES.items()}
        more[f"{HOME}/stub/zf-tune"] = STUB
        more["/etc/zf-tune/slurm.conf"] = f"program={HOME}/stub/zf-tune\n"
        return self.here(f"export PATH={HOME}/stub:$PATH; mkdir -m 777 out\n{script}", conf=NODES,
                         confined=False, more=more)

    def test_one_node_of_each_class_is_tuned_and_the_odd_ones_are_named(self):
        said = self.run_partition(f"""
            tune() {{ as_user sbatch -o out/log -N4 {HOME}/slurm/tune-classes.sbatch out/plans "$@" >/dev/null
                     until_true 30 job_gone; cat out/log; }}
            echo 6e10 >{HOME}/speed-a3
            tune --ranks 2; first=$(stat -c %y out/plans/*.json); ls out/plans/*.json | wc -l
            tune
            [[ $(stat -c %y out/plans/*.json) == "$first" ]] && echo plans are kept
            grep -h "tasks per node" out/plans/*.log; grep -c '"schema"' out/plans/*.json
            grep -A 1 '"home"' out/plans/*.json | grep cpus""")
        self.assertEqual(said.count("4 nodes of 1 class answered, 2 odd\n"), 2, said)
        self.assertIn("odd: a4: as 3b42bec7, but CPUs 2,5 are offline\n", said)
        self.assertIn("odd: a3: as 3b42bec7, but it has 60 % of its class's bandwidth\n", said)
        self.assertIn("3b42bec7c7f5c3be: was tuned on a1\n1\n", said)
        self.assertIn("every class has a plan\nplans are kept\ntasks per node: unset\n1\n", said)

    def test_a_job_that_cannot_do_its_work_says_so_and_fails(self):
        said = self.run_partition(f"""
            tune() {{ as_user sbatch -o out/log -N2 {HOME}/slurm/tune-classes.sbatch "$@" >/dev/null
                     until_true 30 job_gone; cat out/log; }}
            tune; ln -sf /bin/false {HOME}/stub/zf-tune; tune out/plans
            ls -A out/plans
            scontrol show job 2>/dev/null | grep -o 'ExitCode=[0-9]*'""")
        self.assertIn("tune-classes: no folder given; usage: sbatch", said)
        self.assertIn("ExitCode=2\nExitCode=1\n", said)


class Health(SlurmTest):
    """As slurmd runs it, on this machine."""

    def check_health(self, *, settings="", slow=False) -> str:
        stub = f"""#!/bin/bash
[[ $1 == check && -e {HOME}/slow ]] && echo "${{@: -1}}: memory bandwidth is 61 % of the plan's" && exit 3
[[ $1 == check ]] && touch /run/lab/checked && exit 0
exec {HOME}/bin/zf-tune "$@"
"""
        settings = f"program={HOME}/bin/stub\nclass=/run/zf-class/class\n{settings}\n"
        conf = kit_conf() + f"HealthCheckProgram={HOME}/slurm/health\nHealthCheckInterval=1\n"
        settled = "until_true 20 eval '[[ -n $(sinfo -h -R) ]]'" if "strict=yes" in settings else "sleep 2"
        return self.here(f"""
            class_plan; {"touch " + HOME + "/slow" if slow else ":"}
            until_true 10 eval '[[ -e /run/lab/checked || -n $(said) ]]'; {settled}
            node_state; sinfo -h -R -o '%E'; said | uniq""",
                         conf=conf, more={f"{HOME}/bin/stub": stub,
                                           "/etc/zf-tune/slurm.conf": settings})

    def check_changed(self, *, settings="", script="") -> str:
        """A node of 8 CPUs that loses two of them after its first health check. Only the machine is made up."""
        stub = f"""#!/bin/bash
command=$1
shift
[[ $command != check ]] || {{ touch /run/lab/checked; shift; }} # --bandwidth is refused where nothing can be measured
exec {HOME}/bin/zf-tune "$command" --topology {HOME}/node.xml "$@"
"""
        machines = SOURCE / "tests/machines"
        return self.here(f"""
            mount -t tmpfs tmpfs /var/lib; health={HOME}/slurm/health; mkdir -p /etc/zf-tune/plans
            {HOME}/bin/stub plan -q --ranks 2 -o plan.json 2>/dev/null
            mv plan.json /etc/zf-tune/plans/$(grep -m 1 '"fingerprint"' plan.json | cut -d'"' -f4).json
            $health; said; echo "class: $(cat /var/lib/zf-tune/class)"; stat -c '%a %U' /var/lib/zf-tune/class
            cp {HOME}/less.xml {HOME}/node.xml
            {script}
            $health
            until_true 5 eval '[[ -n $(said) ]]'; node_state; sinfo -h -R -o '%E'; said""",
                         conf=kit_conf(), confined=False,
                         more={f"{HOME}/bin/stub": stub,
                               "/etc/zf-tune/slurm.conf": f"program={HOME}/bin/stub\n{settings}\n",
                               f"{HOME}/node.xml": machines / "qemu-2ht.xml",
                               f"{HOME}/whole.xml": machines / "qemu-2ht.xml",
                               f"{HOME}/less.xml": machines / "qemu-2ht-offline2,5.xml"})

    def test_node_that_lost_cpus_is_named_though_its_class_has_no_plan(self):
        said = self.check_changed()
        self.assertRegex(said, r"^class: \w{16}\n644 root\nnode is idle\nthis node differs from its plan: .*"
                               r"PUs: 8 in the plan, 6 here; .*CPUs 2,5 are offline here")

    def test_node_that_lost_cpus_is_drained_when_that_is_wanted(self):
        said = self.check_changed(settings="strict=yes")
        self.assertIn("node is drained\nzf-tune: this node differs from its plan: ", said)

    def test_plan_with_gpus_that_this_node_lacks_is_no_reason_to_drain_it(self):
        said = self.check_changed(settings="strict=yes", script=f"""
            cp {HOME}/whole.xml {HOME}/node.xml; plan=$(ls /etc/zf-tune/plans/*)
            sed -i '0,/"rank": 0,/s//&\\n "gpu": {{"pci": "0000:3b:00.0"}},/' "$plan"
            {HOME}/bin/zf-tune check --topology {HOME}/node.xml "$plan" | sed 's/.*: GPU/GPU/' | logger -t zf-tune""")
        self.assertTrue(said.endswith("node is idle\nGPU 0000:3b:00.0 of rank 0 is not here\n"), said)

    def test_forgotten_class_is_none_of_the_health_checks_business(self):
        said = self.check_changed(script="rm /var/lib/zf-tune/class; logger -t zf-tune nothing else")
        self.assertTrue(said.endswith("node is idle\nnothing else\n"), said)

    def test_memory_of_a_user_is_not_believed(self):
        said = self.check_changed(script="chown -R 65534 /var/lib/zf-tune")
        self.assertIn("node is idle\ncannot check this node: /var/lib/zf-tune: belongs to user 65534", said)

    def test_plan_that_cannot_tell_is_said_once_and_drains_nothing(self):
        stub = f"""#!/bin/bash
[[ $1 == check ]] && echo "${{@: -1}}: cannot tell whether lab is slow: spread 461 %" && exit 0
exec {HOME}/bin/zf-tune "$@"
"""
        said = self.here(f"""
            class_plan
            for i in 1 2 3; do {HOME}/slurm/health; done
            until_true 10 eval '[[ -n $(said) ]]'; sleep 1; node_state; said""",
                         more={f"{HOME}/bin/stub": stub, "/etc/zf-tune/slurm.conf":
                               f"program={HOME}/bin/stub\nclass=/run/zf-class/class\nstrict=yes\n"})
        why = "cannot check the bandwidth of this node: cannot tell whether lab is slow: spread 461 %"
        self.assertEqual(said, f"node is idle\n{why}\n")

    def test_node_that_differs_from_the_class_of_its_survey_is_named_and_drained(self):
        """The plan does not matter then, and there is none."""
        stub = f"""#!/bin/bash
exec {HOME}/bin/zf-tune "$@" --topology {HOME}/node.xml
"""
        machines = SOURCE / "tests/machines"
        said = self.here(f"""
            for i in 1 2 3; do {HOME}/bin/stub survey add nodes --name n$i >/dev/null; done
            {HOME}/bin/stub survey nodes --format json >/etc/zf-tune/survey.json
            {HOME}/slurm/health; {HOME}/slurm/health
            cp {HOME}/less.xml {HOME}/node.xml; {HOME}/slurm/health
            until_true 5 eval '[[ $(said | wc -l) -ge 2 ]]'; node_state; said""",
                         conf=kit_conf(), confined=False,
                         more={f"{HOME}/bin/stub": stub, f"{HOME}/node.xml": machines / "qemu-2ht.xml",
                               f"{HOME}/less.xml": machines / "qemu-2ht-offline2,5.xml",
                               "/etc/zf-tune/slurm.conf": f"program={HOME}/bin/stub\nstrict=yes\n"
                                                          "survey=/etc/zf-tune/survey.json\n"})
        self.assertRegex(said, r"^node is drained\ncannot check the bandwidth of this node: cannot tell .*\n"
                               r"this node differs from its class: as 3b42bec7, but CPUs 2,5 are offline; cannot .*\n$")

    def test_good_node_is_not_mentioned(self):
        self.assertEqual(self.check_health(), "node is idle\n")

    def test_slow_node_is_named_in_the_log_and_not_drained(self):
        self.assertEqual(self.check_health(slow=True),
                         "node is idle\nthis node differs from its plan: memory bandwidth is 61 % of the plan's\n")

    def test_slow_node_is_drained_when_that_is_wanted(self):
        why = "this node differs from its plan: memory bandwidth is 61 % of the plan's"
        self.assertEqual(self.check_health(slow=True, settings="strict=yes"),
                         f"node is drained\nzf-tune: {why}\n{why}\n")

    def test_node_whose_slurmd_is_confined_is_healthy(self):
        """CpuSpecList: slurmd and what it starts may use CPU 1 alone. The node is as it was when it was tuned."""
        if os.cpu_count() != 2:
            self.skipTest("the node of this test has two CPUs")
        said = self.here(f"""
            zf-tune tune -q --params 1M --budget 300ms -o plan.json
            python3 -c '{OPTIMIZER_ON_CPU_0}'
            mkdir -p /etc/zf-tune/plans; mv plan.json /etc/zf-tune/plans/$(node_class).json
            until_true 20 eval '[[ -n $(said) ]]'; sleep 4
            node_state; sinfo -h -R -o '%E'; said""",
                         conf=kit_conf() + "NodeName=lab CPUs=2 CoresPerSocket=2 RealMemory=500 CpuSpecList=1\n"
                         # (Two checks at once would both say what one says.)
                         f"HealthCheckProgram={HOME}/slurm/health\nHealthCheckInterval=3\n",
                         more={"/etc/zf-tune/slurm.conf":
                               f"program={HOME}/bin/zf-tune\nclass=/run/zf-class/class\nstrict=yes\n"})
        state, *log = said.splitlines()
        self.assertEqual(state, "node is idle", said)
        self.assertEqual(len(log), 1, said)
        self.assertRegex(log[0], "^cannot check the bandwidth of this node: cannot tell whether lab is slow: this "
                                 "process is confined: it may not use CPUs? 0")
