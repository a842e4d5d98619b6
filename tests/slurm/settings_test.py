"""The settings of the Slurm scripts (scripts/slurm/common.sh), without a Slurm."""

import contextlib
import os
import re
import resource
import shlex
import subprocess
import tempfile
import unittest

from permissions import need_process_substitution
from zf_cli import SOURCE, clean_environment

KIT = SOURCE / "scripts/slurm"
NAMES = re.search(r"^ *(\w+=\*(?: \| \w+=\*)+)\)", (KIT / "common.sh").read_text(), re.MULTILINE)[1]
NAMES = [name.removesuffix("=*") for name in NAMES.split(" | ")]


class Settings(unittest.TestCase):
    def setUp(self):
        need_process_substitution()

    @contextlib.contextmanager
    def taking_no_time(self):
        """Checks that the programs which end meanwhile took less than a second of processor time. Bash took 4 to 12 s
        for 16,000 blanks. (A clock would also count what other programs took.)"""
        before = _processor_seconds()
        yield
        self.assertLess(_processor_seconds() - before, 1)

    def test_scripts_of_root_read_nothing_of_slurmds_environment(self):
        """Neither BASH_ENV nor an exported function of slurmd's own environment runs in them."""
        with tempfile.TemporaryDirectory() as folder:
            ran = os.path.join(folder, "ran")
            env_file = os.path.join(folder, "bash_env")
            with open(env_file, "w") as file:
                file.write(f"touch {ran}; exit 0\n")
            for name in ("prolog", "epilog", "task-prolog", "health"):
                for environment in ({"BASH_ENV": env_file}, {"BASH_FUNC_set%%": f"() {{ touch {ran}; exit 0; }}",
                                                             "BASH_FUNC_source%%": f"() {{ touch {ran}; exit 0; }}"}):
                    subprocess.run([KIT / name], env=clean_environment() | environment, stdin=subprocess.DEVNULL,
                                   capture_output=True, timeout=60, check=False)
                    self.assertFalse(os.path.exists(ran), (name, environment))

    def said_by(self, script: str, *, settings="/etc/zf-tune/slurm.conf", limit="15", **environment: str) -> list[str]:
        """Returns the lines that a script prints with the functions of common.sh. Its log is its output. `settings` is
        the file of the settings. A file may take `limit` seconds to read: the 0.3 of the kit are sometimes too short
        on a busy machine."""
        kit = (KIT / "common.sh").read_text()
        self.assertEqual((kit.count("file=/etc/zf-tune/slurm.conf "), kit.count("bounded 0.3 ")), (1, 2))
        kit = kit.replace("file=/etc/zf-tune/slurm.conf ", f"file={shlex.quote(settings)} ")
        kit = kit.replace("bounded 0.3 ", f"bounded {limit} ")
        with tempfile.NamedTemporaryFile("w") as copy:
            copy.write(kit)
            copy.flush()
            logs = 'log() { echo "log: $1"; }'
            result = subprocess.run(["bash", "-c", f"source {shlex.quote(copy.name)}; {logs}; {script}"], text=True,
                                    capture_output=True, timeout=60, check=False,
                                    env=clean_environment(**environment))
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout.splitlines()

    def settings_of(self, path: str, then="", limit="15") -> list[str]:
        """Returns what read_settings logs with this file, the settings `plans` and `deadline`, and what `then`
        prints."""
        return self.said_by(f'read_settings loud; printf "%s\n" "$plans" "$deadline"; {then}', settings=path,
                            limit=limit)

    def settings_of_text(self, text: bytes) -> list[str]:
        with tempfile.NamedTemporaryFile() as conf:
            conf.write(text)
            conf.flush()
            return self.settings_of(conf.name)

    def test_lines_are_read_as_the_example_says(self):
        for text, plans in (
                ("plans=/p", "/p"), ("plans=/p\r\n", "/p"), ("plans=/p \t \n", "/p"), ("plans=/p # why\n", "/p"),
                ("plans=/p#why # and why\n", "/p"), ("plans=/my plans\n", "/my plans"), ("plans=/a=b\n", "/a=b"),
                ("plans=/größe\n", "/größe"), ("#plans=/p\n", "/etc/zf-tune/plans"), ("plans=/a\nplans=/b\n", "/b"),
                ("plans=$(reboot)`reboot`\n", "$(reboot)`reboot`"), ("Plans=/p\n", "/etc/zf-tune/plans")):
            with self.subTest(text):
                self.assertEqual(self.settings_of_text(text.encode()), [plans, "0.7"])

    def test_a_setting_without_a_value_is_not_obeyed(self):
        """With run= the Prolog would write into the root folder. The log has one line, however often that is there."""
        for text, plans in (("plans=\n", "/etc/zf-tune/plans"), ("plans= # why\n", "/etc/zf-tune/plans"),
                            ("plans=/p\nplans=\n", "/p"), ("plans=\n" * 1000, "/etc/zf-tune/plans")):
            with self.subTest(text[:20]):
                said = self.settings_of_text(text.encode())
                self.assertEqual(said, ["log: plans= has no value, so what it was before holds", plans, "0.7"])

    def test_long_lines_and_many_lines_take_no_time(self):
        """Slurm waits for the Prolog meanwhile, outside any deadline."""
        def repeated(text: bytes, size: int) -> bytes:
            return (text * size)[:size]
        for before, filler in ((b"", b" "), (b"plans=/p", b" "), (b"plans=/p", b"\t"), (b"plans=/p", b"\r"),
                               (b"", b"#"), (b"plans=/p", b" #"), (b"", b"="), (b"", b"x"), (b"", b"\n"), (b"", b"#\n"),
                               (b"", b"=\n"), (b"", b"plans=/p\n"), (b"", b"run=/r #\n")):
            for size in (16 << 10, 64 << 10):
                with self.subTest(before=before, filler=filler, size=size):
                    text = before + repeated(filler, size - len(before) - 10) + b"\nplans=/p\n"
                    with self.taking_no_time():
                        *log, plans, _ = self.settings_of_text(text)
                    if size > 16 << 10:
                        self.assertEqual(plans, "/etc/zf-tune/plans")
                        self.assertIn("it has more than 16384 bytes", "".join(log))
                    else:
                        self.assertEqual((log, plans), ([], "/p"))

    def test_long_line_that_is_not_text(self):
        with self.taking_no_time():
            log, *_ = self.settings_of_text(b"x" * 16000 + b"\0" + b"\nplans=/p\n")
        self.assertIn("printed something that is not text", log)

    def test_file_that_hangs_costs_each_script_0_3_s(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            watch = 'start=$EPOCHREALTIME; read_settings quiet; end=$EPOCHREALTIME; echo $((${end/./} - ${start/./}))'
            times = []
            for _ in range(5):
                log, plans, deadline, microseconds = self.settings_of(f"{folder}/fifo", watch, limit="0.3")
                self.assertIn("is not read, the defaults hold: no answer within 0.3 s", log)
                self.assertEqual((plans, deadline), ("/etc/zf-tune/plans", "0.7"))
                times.append(int(microseconds))
            self.assertGreater(min(times), 290_000)
            self.assertLess(min(times), 450_000, "the shortest of five, as the machine may be busy")

    def test_deadline_below_a_tenth_of_a_second_is_not_obeyed(self):
        """Every job would stay without a plan, and `timeout 0` sets no limit at all."""
        for deadline in ("0", "0.0", "00", ".0", "0.09", "0.000001", "soon", "-1", "1.", "1e3", "9" * 5000):
            with self.subTest(deadline):
                log, _, holds = self.settings_of_text(f"deadline={deadline}\n".encode())
                self.assertEqual(holds, "0.7")
                self.assertRegex(log, f"^log: deadline={deadline[:40]} is not obeyed, 0.7 s is used: ")
        for deadline in ("0.1", ".1", "0.10", "0.9", "00.5"):
            with self.subTest(deadline):
                self.assertEqual(self.settings_of_text(f"deadline={deadline}\n".encode())[1:], [deadline])

    def test_folder_of_the_plans_may_have_any_mode_with_which_only_root_writes(self):
        """As the plugin, and as `zf-tune publish`."""
        cases = [(f"0 {mode:o}", mode & 0o022 == 0) for mode in range(0o1000)]
        cases += [("1000 755", False), ("0 1777", False), ("0 2755", True), ("0 3775", False), ("", False)]
        script = "".join(f'said="{said}"; only_root_writes_in f && echo yes || echo no; ' for said, _ in cases)
        self.assertEqual(self.said_by('stat() { echo "$said"; }; ' + script),
                         ["yes" if trusted else "no" for _, trusted in cases])

    def test_log_of_a_long_text_takes_no_time(self):
        for text in ("\1", " ", "x"):
            with self.subTest(text):
                script = f"""source {KIT}/common.sh; logger() {{ :; }}; setsid() {{ printf "%s" "${{@: -1}}" >&3; }}
                             text=$(head -c 1000000 /dev/zero | tr '\\0' '{text}'); log "$text" 3>&1 | wc -c"""
                with self.taking_no_time():
                    self.assertEqual(self.said_by(script), ["800"])

    def test_long_output_of_a_program_takes_no_time(self):
        """The text between its newlines is cut, and its status is kept."""
        for text, status in (("x", 3), ("\\n", 3), (" ", 3), ("\\0", 3)):
            with self.subTest(text):
                program = f"head -c 100000 /dev/zero | tr '\\0' '{text}'; exit {status}"
                script = f"""bounded 15 bash -c "{program}"; said=$?
                             unused=${{answer#*zf-tune publish: }}; echo "$said ${{#answer}}" """
                with self.taking_no_time():
                    ((said, length),) = [line.split() for line in self.said_by(script)]
                self.assertEqual(said, "1" if text == "\\0" else str(status))
                self.assertLessEqual(int(length), 16385)

    def test_the_example_has_every_name_on_a_line_of_its_own_with_its_default(self):
        absent = "bounded() { answer='No such file'; return 1; }; read_settings loud"
        defaults = self.said_by(absent + "; for name in " + " ".join(NAMES) + '; do echo "# $name=${!name}"; done')
        self.assertEqual(len(defaults), 8)
        lines = (KIT / "zf-tune.conf").read_text().splitlines()
        self.assertEqual([line for line in defaults if line not in lines], [])

    def test_deadline_is_kept_below_the_time_that_slurm_gives(self):
        for timeout, deadline, holds, said in (
                ("", "30", "10", "deadline=30 is too long, 10 s is used"),
                ("60", "30", "10", "deadline=30 is too long, 10 s is used"),
                ("60", "9.5", "9.5", ""),
                ("4", "30", "2.5", "deadline=30 is too long, 2.5 s is used"),
                ("3", "1.5", "1.5", ""),
                ("3", "2", "1.5", "deadline=2 is too long, 1.5 s is used"),
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
                ("PrologTimeout=\nSrunPrologTimeout=1\n#PrologTimeout=1", "10"),
                (" " * 20000 + "PrologTimeout=60", "0.7"),
                ("PrologTimeout=60\n" * 1000 + "PrologTimeout=4", "0.7")):
            with self.subTest(lines[-40:]), tempfile.NamedTemporaryFile("w") as conf:
                conf.write(lines + "\n")
                conf.flush()
                *log, held = self.said_by('say=loud deadline=30; cap_deadline; echo "$deadline"', SLURM_CONF=conf.name)
                self.assertEqual(held, holds)
                self.assertEqual(len(log), 1, log)

    def test_deadline_is_short_if_slurms_own_settings_cannot_be_read(self):
        """A FIFO without a writer hangs as a dead file server does."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            for conf, reason in (("fifo", "no answer within 0.3 s"), ("", "Is a directory"),
                                 ("absent", "No such file")):
                with self.subTest(conf):
                    script = 'say=loud deadline=30; cap_deadline; echo "$deadline"'
                    log, held = self.said_by(script, limit="0.3" if conf == "fifo" else "15",
                                             SLURM_CONF=f"{folder}/{conf}")
                    self.assertEqual(held, "0.7")
                    self.assertIn("deadline=30 is too long, 0.7 s is used", log)
                    self.assertIn(reason, log)
                    self.assertEqual(self.said_by('say=loud deadline=0.5; cap_deadline', SLURM_CONF=f"{folder}/{conf}"),
                                     [], "nothing is read for a short deadline")


def _processor_seconds() -> float:
    """Returns the processor time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
