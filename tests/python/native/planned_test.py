"""The plan gives a state format where no argument does, and a mode that differs is said once. Needs the standard
library only. Tests native/planned.py."""

import json
import os
import tempfile
import unittest
import unittest.mock
import warnings

import support  # noqa: F401

from zf_runtime import ZfError
from zf_runtime.native import planned

BF16 = {"intent": {"state_format": "bf16"}, "workload": {"mode": "overlap"},
        "ranks": [{"shared": True}, {"shared": False}]}


class Planned(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "plan.json")
        self.write(BF16)
        planned._said.clear()

    def write(self, plan):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(plan if isinstance(plan, str) else json.dumps(plan))

    def said(self, call, *arguments):
        """Returns what a call gives, and what it warns of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call(*arguments)
        return result, [str(each.message) for each in caught]

    def test_an_argument_comes_before_the_plan_and_the_difference_is_said_once(self):
        self.assertEqual(self.said(planned.state_format, None, self.path), ("bf16", []))
        self.assertEqual(self.said(planned.state_format, "bf16", self.path), ("bf16", []))
        line = "state='fp32' is used, and the plan is for 'bf16': make the plan with --state fp32"
        self.assertEqual(self.said(planned.state_format, "fp32", self.path), ("fp32", [line]))
        self.assertEqual(self.said(planned.state_format, "fp32", self.path), ("fp32", []))

    def test_without_a_plan_it_is_fp32(self):
        for plan in (None, "", os.path.join(self.path, "none")):
            with self.subTest(plan), unittest.mock.patch.dict(os.environ, {"ZF_PLAN": ""}):
                self.assertEqual(self.said(planned.state_format, None, plan), ("fp32", []))
                self.assertEqual((planned.is_there(plan), planned.has_own_pool(plan)), (False, False))

    def test_the_environment_names_the_plan_unless_all_is_switched_off(self):
        for switch, state in (("", "bf16"), ("off", "fp32")):
            with self.subTest(switch), unittest.mock.patch.dict(os.environ, ZF_PLAN=self.path, ZF_TUNE=switch):
                self.assertEqual(planned.state_format(None), state)

    def test_a_plan_for_another_mode_is_said_once(self):
        line = "overlap='exact' is mode exact, and the plan is for mode overlap: make the plan with --mode exact"
        for overlap, lines in (("late", []), ("exact", [line]), ("exact", [])):
            with self.subTest(overlap):
                self.assertEqual(self.said(planned.check_overlap, overlap, self.path), (None, lines))
        with self.assertRaisesRegex(ZfError, "overlap is 'on'; it must be"):
            planned.check_overlap("on", self.path)

    def test_a_pool_is_its_own_if_a_rank_shares_no_cpus(self):
        for ranks, has in ((BF16["ranks"], True), ([{"shared": True}], False), ([{}], False), ({}, False)):
            with self.subTest(ranks):
                self.write({"ranks": ranks})
                self.assertEqual((planned.is_there(self.path), planned.has_own_pool(self.path)), (True, has))

    def test_what_is_no_plan_is_left_to_the_runtime(self):
        for plan in ("{", "[]", {"intent": []}, {"intent": {"state_format": 3}}):
            with self.subTest(plan):
                self.write(plan)
                self.assertEqual(self.said(planned.state_format, None, self.path), ("fp32", []))
                self.assertEqual(self.said(planned.check_overlap, "exact", self.path), (None, []))
                self.assertFalse(planned.is_there(self.path))


if __name__ == "__main__":
    unittest.main()
