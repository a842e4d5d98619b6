"""An admin types what docs/cluster.md says, on a real Slurm of four nodes in a guest. No node is a file: each slurmd
has mounts of its own, and that of a4 shows what /sys showed while CPU 5 was offline."""

import json
import re

from lab import HOME, KIT
from slurm_case import SlurmTest
from zf_cli import SOURCE, parse_cpus

NODES = "".join(f"NodeName=a{i} CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=100\n"
                for i in (1, 2, 3, 4)) + "MessageTimeout=60\n"

FIRST = """
mkdir -p /lost /run/zf-tune /shared/zf-tune
chown 65534 /shared/zf-tune
cpu5=/sys/devices/system/cpu/cpu5/online
echo 0 >$cpu5; cp -a /sys/devices/system/cpu /sys/devices/system/node /lost/ 2>/dev/null; echo 1 >$cpu5
"""
NODE = """#!/bin/bash
mount -t tmpfs -o mode=755 tmpfs /run/zf-tune
if [[ $1 == a4 ]]; then
  for what in cpu node; do mount --bind /lost/$what /sys/devices/system/$what; done
  scope=/sys/fs/cgroup/system.slice/a4_slurmstepd.scope # slurmd takes what is there
  mkdir $scope && echo 0-4,6-7 >$scope/cpuset.cpus
fi
exec "${@:2}"
"""
# zf-tune with the bandwidths that the nodes are given: four slurmds cannot measure one machine at once. The health
# check of a3 gets the words that the survey has for it.
STUB = f"""#!/bin/bash
declare -A given=([a1]=1.00e11 [a2]=1.01e11 [a3]=0.60e11 [a4]=1.00e11)
case "$1 $2 $SLURMD_NODENAME" in
  "survey add "*)
    sed -n "s/^Cpus_allowed_list:/$SLURMD_NODENAME may use/p" /proc/self/status
    {HOME}/bin/zf-tune "$@" --no-bandwidth || exit
    sed -i 's/"not_measured".*/"bytes_per_s": '"${{given[$SLURMD_NODENAME]}}/" "$3/$SLURMD_NODENAME.json" ;;
  "survey check a3") {HOME}/bin/zf-tune survey /shared/zf-tune/nodes | sed -n 's/^odd: a3/a3/p'; exit 3 ;;
  "survey check "*) exec {HOME}/bin/zf-tune "$@" --no-bandwidth ;;
  *) exec {HOME}/bin/zf-tune "$@" ;;
esac
"""
# What stands for the job's program: it shows the CPUs of its process and, with a plan, of its threads.
RANK = """#!/bin/bash
cpus=$(sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status)
echo "$SLURMD_NODENAME $cpus $([[ -z $ZF_PLAN ]] || test-rank)"
"""


def blocks(page: str, chapter: str, language="") -> list[str]:
    text = (SOURCE / "docs" / page).read_text().split(f"\n## {chapter}\n")[1].split("\n## ")[0]
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for written_in, block in found if written_in == language]


def commands(block: str, prompt: str) -> list[str]:
    return re.findall(rf"^{prompt} ((?:.*\\\n)*.*)$", block, re.MULTILINE)


class Admin(SlurmTest):
    def test_an_admin_goes_from_nothing_to_jobs_with_plans(self):
        session, on_nodes, at_last = blocks("cluster.md", "From nothing to jobs with plans", "console")
        typed = commands(session, r"\$")
        as_root = [commands(block, "#") for block in (on_nodes, at_last)]
        install, edit = 1, 1
        self.assertLess(install + len(typed) + len(as_root[0]) + edit + len(as_root[1]), 15)
        self.assertEqual((len(typed), *map(len, as_root)), (7, 2, 2), "what is read from the page")
        conf, = blocks("slurm.md", "Install")
        job, = blocks("slurm.md", "In a job", "bash")
        user = self.as_here("\n".join(typed), {"-N1000": "-N4",
                                               "--ranks 8 --budget 5m": "--ranks 2 --params 1M --budget 300ms"})
        said = self.in_guest(f"""
            export PATH=/usr/bin:$PATH; rm -rf /etc/zf-tune; sed -i /^TaskPlugin=/d /etc/slurm/slurm.conf
            as_user bash /opt/user; cd /shared/zf-tune; cat add.log
            {"; ".join(as_root[0])}
            cat /opt/conf >>/etc/slurm/slurm.conf
            {"; ".join(as_root[1])}
            echo "features: $(sinfo -hNo '%N %f' | tr '\\n' ';')"; echo "plan: $(tr -d '\\n' <plans/*.json)"
            job() {{ as_user srun --exclusive --ntasks-per-node=2 -c4 "$@" 2>&1; until_true 20 job_gone; }}
            {self.as_here(job, {"srun": "job -N4", "python train.py": f"{HOME}/rank"})}
            echo "of a class:"; job -N2 -C $(sinfo -hNn a1 -o %f) sh -c 'echo $SLURMD_NODENAME'
            srun --exclusive -N4 sh -c '/usr/share/zf-tune/slurm/health --strict; sleep 3' # its logger's time
            until_true 30 eval '[[ $(said | grep -c differs) -ge 2 ]]'; said; until_true 20 job_gone
            until_true 20 not_planned; echo "states: $(sinfo -hNo '%N %T' | tr '\\n' ';')"
            """, "2ht", timeout_s=580, conf=NODES, first=FIRST, deadline="", more={
                "/opt/user": user, "/opt/conf": conf, f"{HOME}/node.sh": NODE, f"{HOME}/rank": RANK,
                "/usr/bin/zf-tune": STUB} | self.kit())
        for node in ("a1", "a2", "a3"):
            self.assertIn(f"{node} may use\t0-7\n", said, "its bandwidth could be measured")
        slow = "a3: as 3b42bec7, but it has 60 % of its class's bandwidth"
        for odd in ("a4: as 3b42bec7, but CPU 5 is offline", slow):
            self.assertIn(f"odd: {odd}\n", said)
            self.assertIn(f"this node differs from its class: {odd.split(': ')[1]}", said)
        self.assertRegex(said, "3b42bec7c7f5c3be: was tuned on a[12]\n")
        self.assertIn("features: a1 zf-3b42bec7c7f5c3be;a2 zf-3b42bec7c7f5c3be;a3 (null);a4 (null);\n", said)
        self.assert_each_node_has_the_masks_of_the_plan(said)
        self.assertIn("states: a1 idle;a2 idle;a3 drained;a4 drained;\n", said)
        self.assertRegex(said, r"of a class:\n(a[12]\n){4}")

    def as_here(self, text: str, changes: dict[str, str]) -> str:
        for page, here in changes.items():
            self.assertIn(page, text)
            text = text.replace(page, here)
        return text

    def kit(self) -> dict[str, str]:
        """The scripts where the package puts them, with as much time as an emulated processor needs."""
        files = {f"/usr/share/zf-tune/slurm/{path.name}": path.read_text() for path in KIT.iterdir()}
        name = "/usr/share/zf-tune/slurm/common.sh"
        files[name] = self.as_here(files[name], {"bounded 0.3 ": "bounded 10 ", "deadline=0.7 ": "deadline=10 "})
        return files

    def assert_each_node_has_the_masks_of_the_plan(self, said: str) -> None:
        plan = json.loads(re.search("^plan: (.*)$", said, re.MULTILINE)[1])
        masks = said[:said.index("of a class:")]
        for node in ("a1", "a2", "a3"):
            reports = [json.loads(line) for line in re.findall(rf"^{node} \S+ ({{.+)$", masks, re.MULTILINE)]
            self.assertEqual(sorted(report["rank"] for report in reports), [0, 1], masks)
            self.assert_each_rank_in_its_place(reports, {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}})
            for report in reports:
                planned = plan["ranks"][report["rank"]]
                self.assertEqual(report["training"], planned["training"]["cpus"])
                self.assertEqual(report["optimizer"], planned["optimizer"]["cpus"])
        unbound = re.findall(r"^a4 (\S+) $", masks, re.MULTILINE)
        self.assertEqual(len(unbound), 2, masks)
        for cpus in unbound:
            self.assertFalse(parse_cpus(cpus) & {5})
