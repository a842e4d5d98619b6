"""Two ranks never have the same CPUs: zf_runtime.bind() claims them for as long as its process runs, and no longer.

The holders of claims are real processes, which are killed. Tests binding/claims.py."""

import os
import signal
import subprocess
import sys
import threading
from unittest import mock

from bound_process import CPUS, PRELUDE, BoundProcess, cpu_list
from zf_runtime.binding import claims
from zf_runtime.binding.cpu_lists import in_words

BINDS = "binding = bind(1, 2)\nassert binding, str(binding)\nprint('bound', flush=True)\n"
STAYS = "import time\ntime.sleep(100)\n"
HOME = CPUS[len(CPUS) // 2:]
IMPATIENT = "from zf_runtime.binding import claims; claims._WAITS_S = 0.2\n"


class Claims(BoundProcess):
    def hold(self, program: str) -> subprocess.Popen:
        """Starts a process that has the home of rank 1 when this returns."""
        holder = subprocess.Popen([sys.executable, "-B", "-c", PRELUDE + program], cwd=self.folder, text=True,
                                  env=self.environment(), stdout=subprocess.PIPE)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.addCleanup(holder.stdout.close)
        self.assertEqual(holder.stdout.readline(), "bound\n")
        return holder

    def bind_too(self, **keywords) -> dict:
        said, = self.run_python(IMPATIENT + "said(bind(1, 2))", **keywords)
        return said

    def assert_held(self, holder: subprocess.Popen):
        self.assert_not_bound(self.bind_too(), "would be this rank's", f"process {holder.pid} (", "has bound itself to")
        said, = self.run_python(IMPATIENT + "said(bind(0, 2))")
        self.assert_bound(said, CPUS[:len(CPUS) // 2])  # the other rank's

    def test_a_second_process_with_the_same_home_is_not_bound_and_names_the_first(self):
        self.assert_held(self.hold(BINDS + STAYS))

    def test_a_second_job_is_told_what_to_give_and_with_that_it_is_bound(self):
        """A folder of claims for each job, or CPUs."""
        holder = self.hold(BINDS + STAYS)
        job = IMPATIENT + "said(bind(0, 1))"
        said, = self.run_python(job)
        self.assert_not_bound(said, f"{in_words(CPUS)} would be this rank's, and process {holder.pid} (",
                              f") has bound itself to {in_words(HOME)}: end it, or give each job CPUs or GPUs of its "
                              "own (taskset, CUDA_VISIBLE_DEVICES); jobs that may share CPUs get a folder each "
                              "(ZF_CLAIMS)")
        self.assert_bound(self.run_python(job, ZF_CLAIMS=str(self.folder / "own"))[0], CPUS)
        others = CPUS[:len(CPUS) // 2]
        self.assert_bound(self.run_python(job, before=["taskset", "-c", cpu_list(others)])[0], others)

    def test_of_a_killed_rank_is_free_although_its_children_live(self):
        """A data loader's worker has all that its parent had open. A zombie counts as ended."""
        for is_reaped in (True, False):
            with self.subTest(is_reaped):
                holder = self.hold(BINDS + "child = os.fork()\nif child: print(child, flush=True)\n" + STAYS)
                child = int(holder.stdout.readline())
                self.addCleanup(os.kill, child, signal.SIGKILL)
                self.assert_held(holder)
                holder.kill()
                os.waitid(os.P_PID, holder.pid, os.WEXITED | (0 if is_reaped else os.WNOWAIT))
                os.kill(child, 0)
                self.assert_bound(self.bind_too(), HOME)

    def test_is_kept_over_exec_a_second_bind_and_files_that_are_closed(self):
        for program in (BINDS + "os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(100)'])",
                        BINDS + "bind()\nbind(0, 2)\n" + STAYS,
                        BINDS + "for file in os.scandir(os.environ['ZF_CLAIMS']): open(file.path).close()\n" + STAYS):
            with self.subTest(program):
                holder = self.hold(program)
                self.assert_held(holder)
                holder.kill()
                holder.wait()

    def test_of_a_rank_that_is_about_to_end_is_waited_for(self):
        holder = self.hold(BINDS + STAYS)
        threading.Timer(1, holder.kill).start()
        said, = self.run_python("said(bind(1, 2))")
        self.assert_bound(said, HOME)

    def test_of_many_at_once_one_has_it(self):
        program = PRELUDE + IMPATIENT + "print(bool(bind(1, 2)), flush=True)\nsys.stdin.read()\n"
        started = [subprocess.Popen([sys.executable, "-B", "-c", program], env=self.environment(), text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(6)]
        bound = [process.stdout.readline() for process in started]
        for process in started:
            process.communicate()
        self.assertEqual(sorted(bound), ["False\n"] * 5 + ["True\n"])

    def test_of_another_process_with_the_same_number_is_none(self):
        (self.folder / "claims").mkdir(mode=0o700)
        stale = self.folder / "claims" / f"{claims._space()}-{os.getpid()}-1"
        stale.write_text("0-4095")
        self.assert_bound(self.bind_too(), HOME)
        self.assertFalse(stale.exists())

    def test_and_locks_of_another_user_are_no_answer(self):
        folder = self.folder / "claims"
        folder.mkdir()
        folder.chmod(0o777)
        said = self.bind_too()
        self.assert_bound(said, HOME)
        self.assertIn(f"which CPUs other ranks have is not known: {folder}: others may write there", said["notes"][0])
        if os.geteuid() == 0:
            folder.chmod(0o700)
            os.chown(folder, 65534, 65534)
            self.assertIn("others may write there", self.bind_too()["notes"][0])

    def test_a_file_where_the_folder_should_be_is_named_and_binds(self):
        (self.folder / "claims").touch()
        said = self.bind_too()
        self.assert_bound(said, HOME)
        self.assertIn(f"is not known: {self.folder}/claims: this is no folder; set ZF_CLAIMS", said["notes"][0])

    def test_where_the_boot_cannot_be_told_it_is_bound_and_told_so(self):
        """A sandbox may hide it."""
        said, again = self.run_python("""
from zf_runtime.binding import claims
def hidden():
    raise PermissionError(13, "Permission denied", "boot_id")
claims._boot = hidden
said(bind(1, 2))
said(bind(1, 2))
""")
        self.assert_bound(said, HOME)
        self.assertIn("which CPUs other ranks have is not known: boot_id: Permission denied", said["notes"][0])
        self.assert_bound(again, HOME)

    def test_a_lock_that_is_never_given_back_is_named(self):
        """Its holder may be stopped in the middle of a look."""
        holder = self.hold(BINDS + "import fcntl\nlock = open(os.environ['ZF_CLAIMS'] + '/lock', 'w')\n"
                           "fcntl.flock(lock, fcntl.LOCK_EX)\nprint(flush=True)\n" + STAYS)
        holder.stdout.readline()
        self.assert_not_bound(self.bind_too(), "lock is held by another process")

    def test_of_a_rank_that_cannot_be_moved_is_given_back(self):
        said, = self.run_python("""
def refuse(tid, cpus):
    if tid: raise PermissionError(1, "Operation not permitted")
    real(tid, cpus)
real, os.sched_setaffinity = os.sched_setaffinity, refuse
said(bind(1, 2), claims=os.listdir(os.environ["ZF_CLAIMS"]))
""")
        self.assertFalse(said["bound"], said["text"])
        self.assertEqual(said["claims"], ["lock"])

    def test_of_its_own_process_is_known_by_its_start(self):
        self.assertRegex(claims._name(os.getpid()), rf"^[0-9a-f]{{32}}\.\d+-{os.getpid()}-\d+$")
        self.assertEqual(claims._name(2**22 + 1), "")

    def others(self) -> list:
        return list(claims._others(str(self.folder), set()))

    def test_claims_of_another_node_stay_and_do_not_count(self):
        """A folder at home is seen by all nodes, and the first PID namespace has the same number on each."""
        own = claims._name(os.getpid())
        foreign = self.folder / (own.replace(claims._boot(), "0" * 32).rsplit("-", 2)[0] + "-4194305-1")
        for path in (foreign, self.folder / f"{claims._space()}-x-1", self.folder / "lock"):
            path.write_text("0")
        self.assertEqual(self.others(), [])
        self.assertTrue(foreign.exists())

    def test_a_claim_that_is_given_back_during_the_look_is_free(self):
        with mock.patch.object(claims.os, "listdir", return_value=[claims._name(os.getppid())]):
            self.assertEqual(self.others(), [])

    def test_a_child_that_was_forked_during_a_look_keeps_no_lock(self):
        def fork(*_):
            child = os.fork()
            if child == 0:
                signal.pause()
            self.addCleanup(os.waitpid, child, 0)
            self.addCleanup(os.kill, child, signal.SIGKILL)
            return ()
        claimed = {"ZF_CLAIMS": str(self.folder / "claims")}
        with mock.patch.dict(os.environ, claimed), mock.patch.multiple(claims, _others=fork, _WAITS_S=0.2):
            self.assertEqual([claims.take(frozenset(HOME), False) for _ in range(2)], ["", ""])
