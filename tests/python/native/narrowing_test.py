"""A process that `zf-tune exec` started on its whole home has the training CPUs while a runtime is open, and torch's
number of threads follows. Each case runs in an interpreter of its own, with what exec would set. Tests
native/handle.py."""

import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

import support

CPUS = sorted(os.sched_getaffinity(0))
BINDING = ("zf-binding/1 rank=0 framework=unknown started_on=home home={home} home_threads={threads} "
           "training={training} threads=1 optimizer={pool} mems= policy=preferred shared=no")


def lists(cpus):
    return ",".join(map(str, cpus))


class UnderExec(unittest.TestCase):
    def setUp(self):
        if len(CPUS) < 2:
            self.skipTest("it needs two CPUs")

    def run_under_exec(self, program, shares=False, **variables):
        """shares: neighbours share the CPUs, so that both sides have all of them, and divide threads."""
        training, pool = (CPUS, CPUS) if shares else (CPUS[:1], CPUS[1:])
        binding = BINDING.format(home=lists(CPUS), threads=len(CPUS), training=lists(training), pool=lists(pool))
        binding += shares * " optimizer_threads=1"
        environment = os.environ | {"ZF_BINDING": binding, "ZF_RANK": "0", "ZF_PLAN": "/no/such/plan.json",
                                    "OMP_NUM_THREADS": str(len(CPUS)), "PYTHONPATH": str(support.PACKAGE)} | variables
        prelude = ("import os, sys\nfrom zf_runtime import Group, Runtime, adam_scalars\n"
                   f"HOME, TRAINING = {set(CPUS)}, {{{CPUS[0]}}}\n")
        asked = subprocess.run([sys.executable, "-B", "-c", prelude + textwrap.dedent(program)], env=environment,
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(asked.returncode, 0, asked.stderr)


class Narrowing(UnderExec):
    def test_the_process_has_the_training_cpus_until_close(self):
        self.run_under_exec("""
            with Runtime(groups=[Group(10)], narrow="must") as runtime:
                assert os.sched_getaffinity(0) == TRAINING
                stats = runtime.stats()
                assert stats.narrowed_threads >= 1 and stats.narrow_note == ""
                assert (stats.degraded, stats.cpu_note) == (0, "")
                assert (stats.home_threads, stats.training_threads) == (len(HOME), 1)
                runtime.wait(runtime.submit(adam_scalars(1)))
            assert os.sched_getaffinity(0) == HOME
            assert "torch" not in sys.modules
        """)

    def test_a_relative_path_is_the_plan_that_exec_was_given(self):
        """exec makes ZF_PLAN absolute. Programs say plan="plan.json"."""
        program = ("import os; from zf_runtime import Group, Runtime\n"
                   "with Runtime(plan='plan.json', groups=[Group(10)], narrow='must') as runtime:\n"
                   "    print(runtime.stats().narrowed_threads, len(os.sched_getaffinity(0)))")
        plan = pathlib.Path(support.plan())
        ran = subprocess.run([support.TUNE, "exec", "--plan", plan.name, "--", sys.executable, "-B", "-c", program],
                             cwd=plan.parent, env=os.environ | {"PYTHONPATH": str(support.PACKAGE)},
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        narrowed, cpus = map(int, ran.stdout.split())
        self.assertGreaterEqual(narrowed, 1, "it was not taken for the process that exec has bound")
        self.assertLess(cpus, len(CPUS))

    def test_nobody_is_narrowed_against_his_will(self):
        self.run_under_exec("""
            with Runtime(groups=[Group(10)], narrow="no") as runtime:
                assert os.sched_getaffinity(0) == HOME and runtime.stats().narrowed_threads == 0
        """)

    def test_options_are_checked(self):
        for options, text in (({"narrow": "yes"}, "narrow is 'yes'"),
                              ({"restart_window_s": 0}, "restart_window_s is 0"),
                              ({"restart_window_s": -1}, "restart_window_s is -1")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, text):
                from zf_runtime import Group, Runtime
                Runtime(groups=[Group(1)], **options)


class Torch(UnderExec):
    """With the real torch."""

    def setUp(self):
        super().setUp()
        support.need("torch")

    def test_its_threads_follow_and_go_back(self):
        self.run_under_exec("""
            import torch
            assert torch.get_num_threads() == len(HOME)
            with Runtime(groups=[Group(10)]):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == len(HOME)
        """)

    def test_they_go_back_also_while_a_view_lives(self):
        self.run_under_exec("""
            import torch
            runtime = Runtime(groups=[Group(10)])
            view = runtime.tensor(0, 0)
            runtime.close()
            assert os.sched_getaffinity(0) == HOME and torch.get_num_threads() == len(HOME)
        """)

    def test_a_number_that_somebody_chose_stays(self):
        self.run_under_exec("""
            import torch
            torch.set_num_threads(len(HOME) + 3)
            with Runtime(groups=[Group(10)]):
                assert torch.get_num_threads() == len(HOME) + 3
            torch.set_num_threads(len(HOME))
            with Runtime(groups=[Group(10)]):
                torch.set_num_threads(len(HOME) + 2)
            assert torch.get_num_threads() == len(HOME) + 2
        """)

    def test_they_stay_while_another_runtime_keeps_the_process_narrow(self):
        for order in ("(first, second)", "(second, first)"):
            with self.subTest(order):
                self.run_under_exec(f"""
                    import torch
                    first, second = Runtime(groups=[Group(10)]), Runtime(groups=[Group(10)])
                    one, other = {order}
                    one.close()
                    assert os.sched_getaffinity(0) == TRAINING and torch.get_num_threads() == 1
                    other.close()
                    assert os.sched_getaffinity(0) == HOME and torch.get_num_threads() == len(HOME)
                """)

    def test_they_follow_where_neighbours_share_the_cpus(self):
        for order in ("(first, second)", "(second, first)"):
            with self.subTest(order):
                self.run_under_exec(f"""
                    import torch
                    first, second = Runtime(groups=[Group(10)]), Runtime(groups=[Group(10)])
                    assert os.sched_getaffinity(0) == HOME and torch.get_num_threads() == 1
                    one, other = {order}
                    one.close()
                    assert torch.get_num_threads() == 1
                    other.close()
                    assert os.sched_getaffinity(0) == HOME and torch.get_num_threads() == len(HOME)
                """, shares=True)

    def test_they_stay_if_nothing_was_narrowed(self):
        self.run_under_exec("""
            import torch
            with Runtime(groups=[Group(10)], narrow="no"):
                assert torch.get_num_threads() == len(HOME)
        """)


if __name__ == "__main__":
    unittest.main()
