"""What is compared with what, by which command, and what is seen of it in /proc."""

import contextlib
import dataclasses
import io
import os
import pathlib
import time
import unittest
import unittest.mock

import study_case
from study_case import TORCH, ZERO_2, StudyTest

import look
import matrix
import others
import study


def command(group, arm) -> str:
    return " ".join(matrix.command(group, arm, python="PY", tune="zf-tune", jobs=pathlib.Path("jobs"), plan="P",
                                   port="7")).replace("--gpt --width 384 --blocks 6 --tokens 64 --steps 1000000", "…")


class Matrix(StudyTest):
    def test_default_is_one_rank_and_the_small_model_and_long_is_all(self):
        self.assertEqual({(group.ranks, group.size) for group in matrix.groups_of(False)}, {(1, "small")})
        self.assertEqual(len(matrix.groups_of(True)), len(matrix.JOBS) * 4)
        self.assertEqual(set(matrix.groups_of(False)) - set(matrix.groups_of(True)), set())

    def test_a_job_or_a_group_can_be_chosen(self):
        def names(*words, long=False):
            return [group.name() for group in matrix.chosen(long, list(words))]

        self.assertEqual(matrix.chosen(False, []), matrix.groups_of(False))
        self.assertEqual(names("zero-2"), ["zero-2-1-small"])
        self.assertEqual(len(names("zero-2", long=True)), 4)
        self.assertEqual(names("torch-2-larger", "zero-2"), ["zero-2-1-small", "torch-2-larger"])

    def test_commands_are_those_of_the_documentation(self):
        self.assertEqual(command(ZERO_2, matrix.UNBOUND), "PY jobs/deepspeed_job.py --stage 2 …")
        self.assertEqual(command(ZERO_2, matrix.BIND), "deepspeed --num_gpus 1 --master_port 7 --bind_cores_to_rank "
                                                       "jobs/deepspeed_job.py --stage 2 …")
        self.assertEqual(command(ZERO_2, matrix.LATE), "zf-tune exec --plan P -- PY -m zf_runtime.deepspeed --late "
                                                       "jobs/deepspeed_job.py --stage 2 …")
        two = matrix.Group("zero-2", 2, "small")
        self.assertEqual(command(two, matrix.WAIT), "deepspeed --num_gpus 2 --master_port 7 --no_python zf-tune exec "
                         "--plan P -- PY -m zf_runtime.deepspeed jobs/deepspeed_job.py --stage 2 …")
        torch = matrix.Group("torch", 2, "small")
        self.assertEqual(command(torch, matrix.UNBOUND), "torchrun --nproc-per-node 2 --master-addr 127.0.0.1 "
                                                         "--master-port 7 jobs/torch_adamw.py …")
        self.assertIn("--no-python zf-tune exec", command(torch, matrix.PLAN))
        self.assertEqual(command(TORCH, matrix.FUSED), "PY jobs/torch_adamw.py … --fused")
        self.assertEqual(command(TORCH, matrix.IN_PLACE),
                         "zf-tune exec --plan P -- PY jobs/torch_adamw.py … --in_place")
        self.assertTrue(command(TORCH, matrix.LATE).endswith("--ours --late"))
        self.assertNotIn("--late", command(matrix.Group("zenflow-overlap", 1, "small"), matrix.LATE))

    def test_plans_are_for_who_steps_and_for_how_the_job_overlaps(self):
        def options(job, arm):
            _, _, _, framework, _, mode, _, interval = matrix.plan_options(matrix.Group(job, 1, "small"), arm)
            return framework, mode, interval

        self.assertEqual(options("zero-3", matrix.PLAN), ("deepspeed-offload", "wait", "1"))
        self.assertEqual(options("torch", matrix.IN_PLACE), ("torch", "wait", "1"))
        self.assertEqual(options("zero-3", matrix.LATE), ("native", "overlap", "1"))
        self.assertEqual(options("zenflow", matrix.WAIT), ("native", "wait", "2"))
        self.assertEqual(options("zenflow-overlap", matrix.PLAN), ("deepspeed-zenflow", "overlap", "2"))

    def test_parameters_are_counted(self):
        """Of a layer with 4 words of width: two norms, attention, and the two matrices of the block."""
        size = matrix.Size(width=4, layers=1, tokens=2, memory_gib=0)
        layer = 2 * (4 + 4) + (3 * 16 + 12) + (16 + 4) + (64 + 16) + (64 + 4)
        self.assertEqual(matrix.parameters_of(size), layer + 4096 * 4 + 2 * 4 + 8 + 4096 * 4)

    def test_what_does_not_fit_is_named(self):
        big = matrix.Group("zero-2", 1000, "small")
        can, cannot = study.groups_that_can_run([big])
        self.assertEqual(can, [])
        self.assertRegex(cannot["zero-2-1000-small"], "needs 1000 CPUs, and .* may be used")

    def test_the_time_left_is_bounded_by_the_budget(self):
        found = self.results(study_case.block_of(ZERO_2, 0, unbound=study_case.facts(1, 1)))
        options = study.parse(["--minutes", "3", "--folder", str(self.folder)])
        self.assertEqual(study.remaining_s(found, options, [ZERO_2]), 2 * 60)
        options = study.parse(["--blocks", "2", "--plans", "none", "--folder", str(self.folder)])
        self.assertEqual(study.remaining_s(found, options, [ZERO_2]), 60)

    def test_the_page_names_the_command(self):
        for words in ("", " --long", " --only zero-2 --only torch --minutes 30"):
            self.assertEqual(study.command_of(study.parse(words.split())), f"scripts/study{words}")

    def test_what_cannot_be_done_is_refused_with_its_reason(self):
        absent = str(self.folder / "absent/study.md")
        for words, reason in {("--only", "zero-9"): "--only: there is no zero-9; there are torch, ",
                              ("--passes", "3"): "--passes is 3: a palindrome needs an even number",
                              ("--passes", "0"): "--passes is 0: a palindrome needs an even number",
                              ("--text", absent): f"{absent}: there is no folder {self.folder}/absent",
                              ("--details", absent): f"{absent}: there is no folder {self.folder}/absent",
                              ("--details", str(self.folder)): f"{self.folder} is no file that you may write to",
                              ("--text", "/dev/null"): "/dev/null is no file that you may write to"}.items():
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertRaises(SystemExit, study.parse, list(words))
                self.assertIn(reason, said.getvalue())
        study.parse(["--passes", "4", "--only", "torch", "--folder", absent])  # which is made

    def test_what_has_no_memory_is_named(self):
        vast = {"small": dataclasses.replace(matrix.SIZES["small"], memory_gib=1e6)}
        with unittest.mock.patch.dict(matrix.SIZES, vast):
            can, cannot = study.groups_that_can_run([ZERO_2])
        self.assertEqual(can, [])
        self.assertRegex(cannot["zero-2-1-small"], r"needs \d+ GiB of free memory, and \d+ are free")

    def test_a_file_without_results_is_not_compared(self):
        wrong = self.folder / "wrong.jsonl"
        for content in (None, b"", b"[1]\n7\nnull\n", b"{}\n", bytes(range(256)), b"[" * 100000):
            if content is not None:
                wrong.write_bytes(content)
            for path in (wrong, self.folder):
                with self.subTest(content=content and content[:8], path=path), \
                        contextlib.redirect_stderr(io.StringIO()) as said:
                    self.assertEqual(study.main(["--compare", str(path), "--folder", str(self.folder)]), 1)
                    self.assertIn(f"{path} has no results", said.getvalue())
        refuses = unittest.mock.patch.object(pathlib.Path, "read_text", side_effect=PermissionError(13, "no", "wrong"))
        with refuses, contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(study.main(["--compare", str(wrong), "--folder", str(self.folder)]), 1)
        self.assertIn("no: 'wrong'", said.getvalue())


class Others(unittest.TestCase):
    def test_others_are_what_keeps_the_allowed_cpus_busy_without_the_jobs(self):
        """Of three CPUs two are allowed. Columns: user nice system idle iowait irq softirq steal."""
        stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 50 700 30 0 0 20 5 0\ncpu1 0 10 0 800 0 1 2 0 0 0\n" \
               "cpu2 999 0 0 0 0 0 0 0 0 0\nintr 1\n"
        self.assertAlmostEqual(others.busy_s([0, 1], stat), 183 / others.TICKS_PER_S)

    def test_the_study_itself_is_told_from_others(self):
        watch, alone = others.Watch(), others.Watch(lambda: [os.getpid()])
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            pass
        self.assertGreater(watch.share(), alone.share() + 0.05 / len(os.sched_getaffinity(0)))


class Look(StudyTest):
    def process(self, pid: int, words: list[str], masks: list[str], maps: str):
        folder = self.folder / str(pid)
        for number, mask in enumerate(masks):
            (folder / "task" / str(number)).mkdir(parents=True)
            (folder / "task" / str(number) / "status").write_text(f"Name:\tx\nCpus_allowed_list:\t{mask}\n")
        (folder / "cmdline").write_text("\0".join(words))
        (folder / "numa_maps").write_text(maps)

    def test_threads_and_pages_are_counted_by_what_a_process_does(self):
        gib = (1 << 30) // 4096
        self.process(1, ["/x/bin/python", "/x/bin/deepspeed", "jobs/deepspeed_job.py"], ["0-3"], "")
        self.process(2, ["/x/bin/python", "jobs/deepspeed_job.py"], ["0-1", "0-1", "2"],
                     f"7f00 default anon={gib} N0={gib} N1={gib} kernelpagesize_kB=4\n7f01 default file=/x\n")
        self.process(3, ["/x/zf-optimizer"], ["2", "3"], "7f00 prefer:1 N1=512 kernelpagesize_kB=2048\n")
        found = look.look_up([1, 2, 3, 99], self.folder)
        self.assertEqual(found["threads"], "training: 2 on 0-1, 1 on 2; zf-optimizer: 1 on 2, 1 on 3")
        self.assertEqual(found["pages"], "training: 1.0 GiB on node 0, 1.0 GiB on node 1; "
                                         "zf-optimizer: 1.0 GiB on node 1")

    def test_this_process_is_found(self):
        found = look.look_up([os.getpid()])
        self.assertRegex(found["threads"], r"^training: \d+ on [0-9,-]+$")


if __name__ == "__main__":
    unittest.main()
