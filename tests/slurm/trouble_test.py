"""Whatever is wrong with the plan or the node: the job runs, unbound at worst; the node stays in service; the system's
log says why."""

import os
import shlex

from lab import HOME, kit_conf
from slurm_case import RANKS, SHOW_RANK, SlurmTest


class Trouble(SlurmTest):
    def assert_job_runs(self, set_up: str, *said_why: str, conf="", slurm="", **lab):
        said = self.here(f"""
            class_plan --ranks 2
            cat >>/etc/zf-tune/slurm.conf <<<'{conf}'
            plan=$(ls /etc/zf-tune/plans/*)
            {set_up}
            as_user {RANKS} zf-tune exec --quiet --force -- {SHOW_RANK}
            until_true 20 job_gone
            node_state
            {"; ".join(f"until_true 10 grep -qF -- {shlex.quote(text)} $lab/log/syslog || true" for text in said_why)}
            said""", conf=kit_conf() + slurm, **lab)
        lines = said.splitlines()
        self.assertEqual([line[:3] for line in lines[:2]], ["ran", "ran"], said)
        self.assertEqual(lines[2], "node is idle", said)
        log = "\n".join(lines[3:])
        for text in said_why:
            self.assertIn(text, log)
        return said

    def test_plans_and_programs_that_give_no_plan(self):
        """One job for each, beside one Slurm."""
        cases = (
            ("no program", "echo program=/nowhere/zf-tune >>$conf", "/nowhere/zf-tune", "No such file"),
            ("no plan for the class", "rm $plan", "no plan for this node's class"),
            ("plan that is cut off", "truncate -s 100 $plan", "/etc/zf-tune/plans/"),
            ("plan that nests without end", "head -c 5000000 /dev/zero | tr '\\0' '[' >$plan"),
            ("control characters in the errors of a plan", "printf '{\"\\\\u001b[2J\\nforged\": 1}' >$plan"),
            ("plan on a FIFO", "rm $plan; mkfifo $plan", "FIFO"),
            ("program that fails without a word", f"{_program('echo; exit 9')}echo program={HOME}/bin/stub >>$conf",
             "stub ended with status 9 and printed nothing"),
        )
        jobs = [f"""rm -f $plan; cp $lab/good.plan $plan; cp $lab/good.conf $conf
            {set_up}
            as_user {RANKS} zf-tune exec --quiet --force -- {SHOW_RANK}
            until_true 20 job_gone
            node_state
            until_true 10 grep -qF 'job {job} gets no plan' $lab/log/syslog || true"""
                for job, (_, set_up, *_) in enumerate(cases, 1)]
        said = self.here("class_plan --ranks 2; plan=$(ls /etc/zf-tune/plans/*); conf=/etc/zf-tune/slurm.conf\n"
                         "cp $plan $lab/good.plan; cp $conf $lab/good.conf\n" + "\n".join(jobs) + "\nsaid")
        self.assertNotIn("\x1b", said)
        lines = said.splitlines()
        for i, (name, _, *said_why) in enumerate(cases):
            with self.subTest(name):
                self.assertEqual([line[:3] for line in lines[3 * i:3 * i + 2]], ["ran", "ran"], said)
                self.assertEqual(lines[3 * i + 2], "node is idle", said)
                about = [line for line in lines[3 * len(cases):] if f"job {i + 1} gets no plan" in line]
                self.assertTrue(about, said)
                for text in said_why:
                    self.assertIn(text, "\n".join(about))

    def test_full_disk(self):
        self.assert_job_runs("""mkdir /run/zf-tune; mount -t tmpfs -o size=8k,mode=755 tmpfs /run/zf-tune
                                head -c 8192 /dev/zero >/run/zf-tune/filler""",
                             "job 1 gets no plan", "No space left on device")

    def test_program_that_hangs(self):
        self.assert_job_runs(_program("trap '' TERM; while :; do sleep 1; done"), "job 1 gets no plan",
                             "no answer within 0.7 s", conf=f"program={HOME}/bin/stub", deadline="")

    def test_program_that_cannot_even_be_killed(self):
        """As one that waits for a dead file server. A frozen process does not die of SIGKILL either."""
        frozen = f"/sys/fs/cgroup/freezer/zf-lab-frozen-{os.getpid()}"
        self.assert_job_runs(
            f"""mkdir {frozen}
            trap 'echo THAWED >{frozen}/freezer.state; until_true 10 rmdir {frozen} 2>/dev/null' EXIT
            """ + _program(f"echo $$ >{frozen}/cgroup.procs; echo FROZEN >{frozen}/freezer.state; sleep 1000"),
            "job 1 gets no plan", "no answer within 0.7 s", conf=f"program={HOME}/bin/stub", deadline="")

    def test_log_that_is_slow(self):
        """The Prolog does not wait for it, and the line comes all the same."""
        self.assert_job_runs("""rm $plan; cp /usr/bin/logger $lab/logger
                                printf '#!/bin/bash\\nsleep 1.5\\nexec %s "$@"\\n' $lab/logger >$lab/slow
                                chmod +x $lab/slow; mount --bind $lab/slow /usr/bin/logger""",
                             "job 1 gets no plan", "no plan for this node's class")

    def test_link_planted_by_a_user(self):
        said = self.assert_job_runs(
            """mkdir -m 1777 /run/open; echo precious >$lab/precious
            as_user ln -s $lab /run/open/zf-tune; ln -s $lab/precious $lab/1.json""",
            "job 1 gets no plan", "/run/open/zf-tune", conf="run=/run/open/zf-tune")
        self.assertEqual(said.count("ran as:\n"), 2, "no rank has a plan")

    def test_folder_of_a_user(self):
        said = self.assert_job_runs("mkdir -m 1777 /run/open; as_user mkdir /run/open/zf-tune; "
                                    "as_user cp $plan /run/open/zf-tune/1.json",
                                    "job 1 gets no plan", "belongs to user 65534", conf="run=/run/open/zf-tune")
        self.assertEqual(said.count("ran as:\n"), 2, "no rank has a plan")

    def test_settings_on_a_dead_file_server(self):
        """A process that opens a file that is leased waits until the lease is given up, 45 s at most."""
        self.assert_job_runs("""python3 -c "import fcntl, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
f = open('/etc/zf-tune/slurm.conf', 'r+')
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK); open('/run/leased', 'w'); signal.pause()" &
                                 trap "kill $!" EXIT; until_true 10 test -e /run/leased""",
                             "slurm.conf is not read, the defaults hold: no answer within 0.3 s",
                             slurm="PrologEpilogTimeout=4\n", reading="0.3")

    def test_settings_of_4_mb_of_garbage(self):
        """Bash would read them for longer than Slurm waits."""
        for content in ("head -c 4000000 /dev/urandom", "yes | head -c 4000000"):
            with self.subTest(content):
                self.assert_job_runs(f"{content} >/etc/zf-tune/slurm.conf", "slurm.conf is not read, the defaults hold",
                                     slurm="PrologEpilogTimeout=4\n")

    def test_settings_with_a_long_line_of_blanks(self):
        """Bash's own way to trim it would take longer than Slurm waits."""
        said = self.assert_job_runs("printf '%16000s\\n' '' >>/etc/zf-tune/slurm.conf", slurm="PrologEpilogTimeout=4\n")
        self.assertIn("ran as:0\n", said)

    def test_deadline_of_no_time(self):
        said = self.assert_job_runs("", "deadline=0 is not obeyed, 0.7 s is used", conf="deadline=0", deadline="")
        self.assertEqual(said.count("deadline=0"), 1, "one line for a job")
        self.assertIn("ran as:0\n", said)

    def test_deadline_above_the_time_that_slurm_gives(self):
        """Slurm would kill the Prolog after 4 s, and drain the node."""
        self.assert_job_runs(_program("sleep 1000"), "deadline=30 is too long, 2.5 s is used",
                                    "job 1 gets no plan: no answer within 2.5 s",
                                    conf=f"program={HOME}/bin/stub\ndeadline=30", deadline="",
                                    slurm="PrologEpilogTimeout=4 # it was 60\n")

    def test_folder_that_users_cannot_read(self):
        said = self.assert_job_runs("mkdir -m 700 /run/zf-tune", "job 1 gets no plan", "/run/zf-tune", "mode 0700",
                                    "other users cannot read")
        self.assertEqual(said.count("ran as:\n"), 2, "no rank has a plan")

    def test_folder_that_nobody_can_write_in(self):
        """What counts is that only root can: the Prolog publishes there, and the TaskProlog uses it."""
        for mode in ("0555", "1755", "0755"):
            with self.subTest(mode):
                said = self.assert_job_runs(f"mkdir -m {mode} /run/zf-tune")
                self.assertEqual(sorted(said.splitlines()[:2]), ["ran as:0", "ran as:1"], said)

    def test_settings_that_make_no_sense(self):
        self.assert_job_runs("head -c 2000 /dev/urandom >>/etc/zf-tune/slurm.conf",
                             conf="deadline=soon\nexit 1\n$(reboot)")


def _program(text: str) -> str:
    """Shell lines that put a script of these lines where zf-tune is looked for."""
    return f"""cat >{HOME}/bin/stub <<'STUB'
#!/bin/bash
{text}
STUB
chmod +x {HOME}/bin/stub
"""
