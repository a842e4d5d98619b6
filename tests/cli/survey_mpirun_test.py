"""docs/cluster.md's lines for Open MPI, as they are there. Two hosts have a network, a name and mounts of their own."""

import json
import os
import pathlib
import re
import subprocess

from permissions import need_namespaces, need_program
from zf_cli import BINARY, DONE, SOURCE, CommandTest, clean_environment

HOSTS = """#!/bin/sh -e
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip link set lo up
ip link add hosts type bridge
ip addr add 192.0.2.1/24 dev hosts
ip link set hosts up
for n in 2 3; do
  ip netns add h$n
  ip link add h$n type veth peer name eth0 netns h$n
  ip link set h$n master hosts up
  ip -n h$n addr add 192.0.2.$n/24 dev eth0
  ip -n h$n link set eth0 up
  ip -n h$n link set lo up
done
exec "$@"
"""
# Stands for ssh: Open MPI calls it as agent HOST COMMAND.
AGENT = """#!/bin/sh
exec ip netns exec "$1" unshare --uts --mount sh -c 'hostname "$0"; exec sh -c "$*"' "$@"
"""
NAMESPACES = ("--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")


class OpenMpi(CommandTest):
    def setUp(self):
        super().setUp()
        need_program("mpirun", "openmpi-bin")
        need_program("ip", "iproute2")
        need_namespaces(*NAMESPACES)
        for name, text in (("hosts", HOSTS), ("agent", AGENT), ("HOSTS", "h2\nh3\n")):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        tried = subprocess.run(self.on_hosts("true"), cwd=self.folder, capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"no bridge of hosts can be made here: {tried.stderr.strip()}")
        page = (SOURCE / "docs/cluster.md").read_text()
        (self.add, self.tune), = re.findall(r"^\| Open MPI \| `(.*)` \| `(.*)` \|$", page, re.MULTILINE)

    def on_hosts(self, *words: str) -> list[str]:
        return ["unshare", *NAMESPACES, "./hosts", *words]

    def start(self, *words: str) -> subprocess.Popen:
        return subprocess.Popen(self.on_hosts(*words), cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(
            PATH=f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}", OMPI_MCA_plm_rsh_agent=f"{self.folder}/agent",
            OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))

    def test_each_host_writes_one_whole_file_and_one_host_tunes(self):
        # Two processes a host, which write one file, are no harm either.
        for line in (self.add, self.add.replace("ppr:1:node", "ppr:2:node --oversubscribe"), self.add):
            process = self.start(*line.split())
            while process.poll() is None:
                self.names()  # each file is whole at any time
            self.assert_exit(self.finish(process), DONE)
        self.assertEqual(self.names(), ["h2", "h3"])
        self.assertEqual(len(list((self.folder / "DIR").iterdir())), 2)
        result = self.finish(self.start("zf-tune", "survey", "DIR", "--nodes", "h[2-3]", "--tune", self.tune, "--plans",
                                        "plans", "--", "--ranks", "1", "--params", "1M", "--budget", "300ms"))
        self.assert_exit(result, DONE)
        self.assertIn("2 nodes of 1 class answered\n", result.stdout)
        # One that measured no bandwidth, since others used its CPUs, is not the most typical.
        on, = re.findall(r"[0-9a-f]{16}: was tuned on (h[23])\n$", result.stdout)
        self.assertEqual(self.read_plan(*(self.folder / "plans").glob("*.json"))["made"]["host"], on)

    def names(self) -> list[str]:
        return sorted(json.loads(file.read_text())["name"] for file in (self.folder / "DIR").glob("*.json"))
