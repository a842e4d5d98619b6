"""The home in ZF_BINDING is this process's only under its own rank. Needs the standard library only. Tests
binding/home.py."""

import unittest

import support  # noqa: F401

from zf_runtime.binding.home import find_outer, own_home, parse_home

LINE = ("zf-binding/1 rank=1 home=4-7 training=4-6 started_on=home threads=3 home_threads=4 policy=preferred mems=0 "
        "framework=torch")


class Homes(unittest.TestCase):
    def test_a_process_is_started_on_its_home_or_on_the_part_for_training(self):
        whole = parse_home(LINE)
        self.assertEqual((whole.rank, whole.cpus, whole.mems), (1, {4, 5, 6, 7}, {0}))
        training = parse_home(LINE.replace("started_on=home", "started_on=training"))
        self.assertEqual((training.cpus, training.whole), ({4, 5, 6}, {4, 5, 6, 7}))

    def test_it_is_that_of_a_process_with_its_rank_alone(self):
        for variables, is_own in (({"ZF_RANK": "1"}, True), ({"ZF_RANK": "0"}, False), ({}, False),
                                  ({"LOCAL_RANK": "1"}, False)):
            with self.subTest(variables):
                self.assertEqual(own_home({"ZF_BINDING": LINE, **variables}) is not None, is_own)

    def test_what_cannot_be_read_is_refused_and_no_ones(self):
        for line, why in ((LINE.replace("/1", "/9"), "does not begin with zf-binding/1"),
                          (LINE.replace("home=4-7", "home="), "it has no CPU"), (LINE + " odd", "is malformed")):
            with self.subTest(why):
                with self.assertRaisesRegex(ValueError, why):
                    parse_home(line)
                self.assertIsNone(own_home({"ZF_BINDING": line, "ZF_RANK": "1"}))
                self.assertIsNone(find_outer({"ZF_BINDING": line}))

    def test_one_that_exec_went_on_without_binds_no_one(self):
        self.assertIsNotNone(find_outer({"ZF_BINDING": LINE}))
        self.assertIsNone(find_outer({"ZF_BINDING": LINE.replace("started_on=home", "started_on=nothing")}))


if __name__ == "__main__":
    unittest.main()
