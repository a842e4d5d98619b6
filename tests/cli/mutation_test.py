"""Mutated files and words on the command line: an exit code and one line, never a crash, a hang or an escape code.

ZF_MUTATIONS is the number of mutations of each kind (default 12, with scripts/test --all 100), ZF_SEED the seed
(default 1). A failure names the mutation and the seed.
"""

import json
import os
import random
import re

from zf_cli import SOURCE, CommandTest

MUTATIONS = int(os.environ.get("ZF_MUTATIONS", "100" if "ZF_TEST_ALL" in os.environ else "12"))
SEED = int(os.environ.get("ZF_SEED", "1"))
NODE = "pack:2 [numa(memory=64GiB)] core:8 pu:1"
ODD_BYTES = (b"\0", b"\x1b[2J", b"\xff\xfe", "\u202e".encode(), b"\n", b'"', b"{" * 50, b"-1", b"1e999", b"4294967296",
             b"null")
ESCAPES = (rb"\u001b[2J", rb"\u009b2J", rb"\u202e", rb"\nINJECTED")
DRIVES_TERMINAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028\u202a-\u202e\u2066-\u2069]")


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Returns it with some bytes changed, removed, repeated or replaced by odd ones, or with escapes in texts."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.randrange(1, 60))
        how = chance.randrange(6)
        texts = list(re.finditer(rb':\s*"', data))
        if how == 0:
            data[at:at] = chance.choice(ODD_BYTES)
        elif how == 1:
            del data[at:end]
        elif how == 2:
            data[at:at] = data[at:end]
        elif how == 3:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif how == 4 and texts:
            begin = chance.choice(texts).end()
            data[begin:begin] = chance.choice(ESCAPES)
        else:
            numbers = list(re.finditer(rb"\d+", data))
            if numbers:
                found = chance.choice(numbers)
                data[found.start() : found.end()] = chance.choice((b"0", b"-7", b"99999999999999999999", b"0.5"))
    return bytes(data)


class Mutation(CommandTest):
    def try_all(self, content: bytes, name: str, *commands: tuple[str, ...]):
        """Runs every command with `name`, which is mutated again and again."""
        chance = random.Random(f"{SEED} {self.id()}")
        codes = []
        for i in range(MUTATIONS):
            (self.folder / name).write_bytes(mutated(content, chance))
            for command in commands:
                codes.append(self.assert_answers(f"mutation {i} with ZF_SEED={SEED}", *command))
        self.assertTrue(set(codes) - {0}, "nothing was refused: the mutations do nothing")

    def assert_answers(self, which: str, *command: str) -> int:
        result = self.run_tune(*command, timeout=20)
        self.assertIn(result.returncode, range(5), f"{which}: {command}: {result.stderr}")
        said = result.stdout + result.stderr
        self.assertEqual(DRIVES_TERMINAL.findall(said), [], f"{which}: {command}")
        self.assertNotRegex(said, r"(?m)^INJECTED", f"{which}: {command}")
        if result.returncode in (2, 4):
            self.assertRegex(result.stderr, r"\S[^\n]*\n\Z", f"{which}: {command}")
        return result.returncode

    def test_plans(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        self.try_all((self.folder / "plan.json").read_bytes(), "x.json", ("explain", "x.json"),
                     ("check", "--topology", NODE, "x.json"),
                     ("plan", "-q", "--topology", NODE, "--from", "x.json", "-o", "-"),
                     ("exec", "--dry-run", "--plan", "x.json", "--", "true"),
                     *(("export", "x.json", "--for", who) for who in ("env", "numactl", "deepspeed")))

    def test_plans_of_this_machine(self):
        plan = self.make_plan()
        plan["ranks"][0]["gpu"] = {"pci": "0000:3b:00.0", "node": 0, "cpus": "5000"}
        self.try_all(json.dumps(plan).encode(), "x.json", ("exec", "--dry-run", "--plan", "x.json", "--", "true"),
                     ("verify", "--pid", str(os.getpid()), "--rank", "0", "x.json"), ("check", "x.json"))

    def test_workloads(self):
        workload = (SOURCE / "configs/workloads/qwen2.5-3b-2gpu.json").read_bytes()
        self.try_all(workload, "w.json", ("plan", "-q", "--topology", NODE, "--workload", "w.json", "-o", "-"))

    def test_machines(self):
        machine = (SOURCE / "configs/machines/cloud-2vcpu.json").read_bytes()
        plan = self.make_plan()
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.try_all(machine, "m.json", ("explain", "--simulate", "m.json", "--report", "r.html", "plan.json"))

    def test_xml_of_hwloc(self):
        xml = (SOURCE / "tests/machines/qemu-2ht.xml").read_bytes()
        self.try_all(xml, "x.xml", ("probe", "--topology", "x.xml"))

    def test_lists_and_descriptions(self):
        chance = random.Random(f"{SEED} words")
        codes = set()
        for i in range(MUTATIONS):
            for option, word in (("--allowed", b"0-3,8-11:2"), ("--mems", b"0-1"), ("--topology", NODE.encode()),
                                 ("--ranks", b"2")):
                text = mutated(word, chance).replace(b"\0", b"").decode(errors="surrogateescape")
                base = () if option == "--topology" else ("--topology", NODE)
                codes.add(self.assert_answers(f"mutation {i} with ZF_SEED={SEED}", "probe", *base, option, text))
        self.assertTrue(codes - {0})
