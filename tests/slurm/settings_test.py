"""The settings of the Slurm scripts (scripts/slurm/common.sh), without a Slurm."""

import os
import re
import subprocess
import tempfile
import unittest

from zf_cli import SOURCE, clean_environment

KIT = SOURCE / "scripts/slurm"
NAMES = re.search(r"^ *(\w+=\*(?: \| \w+=\*)+)\)", (KIT / "common.sh").read_text(), re.MULTILINE)[1]
NAMES = [name.removesuffix("=*") for name in NAMES.split(" | ")]


class Settings(unittest.TestCase):
    def said_by(self, script: str, **environment: str) -> list[str]:
        """Returns the lines that a script prints with the functions of common.sh. Its log is its output."""
        logs = 'log() { echo "log: $1"; }'
        result = subprocess.run(["bash", "-c", f"source {KIT}/common.sh; {logs}; {script}"], text=True,
                                capture_output=True, timeout=20, env=clean_environment(**environment))
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout.splitlines()

    def test_the_example_has_every_name_on_a_line_of_its_own_with_its_default(self):
        absent = "bounded() { answer='No such file'; return 1; }; read_settings loud"
        defaults = self.said_by(absent + "; for name in " + " ".join(NAMES) + '; do echo "# $name=${!name}"; done')
        self.assertEqual(len(defaults), 7)
        lines = (KIT / "zf-tune.conf").read_text().splitlines()
        self.assertEqual([line for line in defaults if line not in lines], [])

    def test_deadline_is_kept_below_the_time_that_slurm_gives(self):
        for timeout, deadline, holds, said in (
                ("", "30", "10", "deadline=30 is too long, 10 s hold"),
                ("60", "30", "10", "deadline=30 is too long, 10 s hold"),
                ("60", "9.5", "9.5", ""),
                ("4", "30", "2.5", "deadline=30 is too long, 2.5 s hold"),
                ("3", "1.5", "1.5", ""),
                ("3", "2", "1.5", "deadline=2 is too long, 1.5 s hold"),
                ("2", "5", "0.7", "2 s are too short for this Prolog"),
                ("1", "5", "0.7", "1 s are too short for this Prolog")):
            with self.subTest(timeout=timeout, deadline=deadline), tempfile.NamedTemporaryFile("w") as conf:
                conf.write(f"PrologEpilogTimeout={timeout}\n" if timeout else "")
                conf.flush()
                script = f'say=loud deadline={deadline}; cap_deadline; echo "$deadline"'
                *log, held = self.said_by(script, SLURM_CONF=conf.name)
                self.assertEqual(held, holds)
                self.assertEqual(len(log), 1 if said else 0, log)
                self.assertIn(said, "".join(log))
                self.assertEqual("too short" in "".join(log), timeout in ("1", "2"))

    def test_the_shortest_of_slurms_times_counts(self):
        for lines, holds in (
                ("PrologTimeout=4\nEpilogTimeout=60", "2.5"),
                ("PrologTimeout=60\nEpilogTimeout = 5 # seconds", "3.5"),
                ("PrologEpilogTimeout=60\nprologtimeout=4", "2.5"),
                ("PrologTimeout=2", "0.7"),
                ("PrologTimeout=\nSrunPrologTimeout=1\n#PrologTimeout=1", "10")):
            with self.subTest(lines), tempfile.NamedTemporaryFile("w") as conf:
                conf.write(lines + "\n")
                conf.flush()
                *log, held = self.said_by('say=loud deadline=30; cap_deadline; echo "$deadline"', SLURM_CONF=conf.name)
                self.assertEqual(held, holds)
                self.assertEqual(len(log), 1, log)

    def test_deadline_is_short_if_slurms_own_settings_cannot_be_read(self):
        """A FIFO that nobody writes hangs as a dead file server does."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            for conf, reason in (("fifo", "no answer within 0.3 s"), ("", "Is a directory"),
                                 ("absent", "No such file")):
                with self.subTest(conf):
                    script = 'say=loud deadline=30; cap_deadline; echo "$deadline"'
                    log, held = self.said_by(script, SLURM_CONF=f"{folder}/{conf}")
                    self.assertEqual(held, "0.7")
                    self.assertIn("deadline=30 is too long, 0.7 s hold", log)
                    self.assertIn(reason, log)
                    self.assertEqual(self.said_by('say=loud deadline=0.5; cap_deadline', SLURM_CONF=f"{folder}/{conf}"),
                                     [], "nothing is read for a short deadline")
