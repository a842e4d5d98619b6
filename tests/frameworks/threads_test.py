"""The numbers of threads that zf-tune exec sets, read back from the real libraries: torch, with MKL, and numpy."""

import unittest

from frameworks_case import TUNE, FrameworkTest, cores_of, home_of, job


class Threads(FrameworkTest):
    def setUp(self):
        super().setUp()
        self.home = home_of(self.make_plan("--ranks", "1", "--framework", "torch"))
        self.cores = cores_of(self.home)
        if self.cores < 2:
            self.skipTest("one core allowed, and this needs two")

    def assert_used(self, torch: int, numpy: int, *options: str, **variables: str):
        said, = self.launch(str(TUNE), "exec", *options, "--plan", "plan.json", "--", *job("library_threads"),
                            **variables)
        if said["numpy"] is None:
            self.skipTest("this numpy has no OpenBLAS")
        self.assertEqual((said["torch"], said["numpy"]), (torch, numpy), self.output)

    def test_the_plans_number_is_used_where_nobody_set_one(self):
        self.assert_used(self.cores, self.cores)

    def test_the_users_number_for_one_library_is_used_by_all(self):
        """Seen: OMP_NUM_THREADS=1, and torch with 2 threads, because exec had set MKL_NUM_THREADS to the plan's."""
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            with self.subTest(name):
                self.assert_used(1, 1, **{name: "1"})

    def test_two_numbers_of_the_user_are_both_used(self):
        self.assert_used(1, self.cores, MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS=str(self.cores))

    def test_torchruns_own_number_is_used_only_if_it_is_to_be_kept(self):
        torchrun = {"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "none"}
        self.assert_used(self.cores, self.cores, **torchrun)
        self.assert_used(1, 1, "--keep-threads", **torchrun)


if __name__ == "__main__":
    unittest.main()
