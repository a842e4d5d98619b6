"""The pages: what the intervals show, rows in which we lose, and "simulated" on every figure of a simulated machine."""

import re
import unittest

from study_case import ZERO_2, StudyTest, block_of, facts

import details
import markdown
import simulated

REASON = ("The split \"pool 6\" had the shortest period. Against this plan, unbound is unclear: +25.0 % (-1.0 to "
          "+28.2 %; minus is faster)")
PLAN = {"machine": {"cores": 128, "packages": 2}, "workload": {"ranks": 8},
        "choice": {"reason": REASON, "candidate": 1},
        "evidence": {"candidates": [{"id": 0, "label": "unbound", "period_ns_median": 200},
                                    {"id": 1, "label": "pool 6", "period_ns_median": 160},
                                    {"id": 2, "label": "half and half", "period_ns_median": 300}]}}


class Pages(StudyTest):
    def setUp(self):
        super().setUp()
        found = self.results(*(block_of(ZERO_2, number, unbound=facts(100, 100), plan=facts(120 + number, 120),
                                        ours_waiting=facts(80 + number, 80), bind=facts(95 + 9 * number, 100),
                                        ours_late={"failed": "a | b"}) for number in range(3)))
        found.add({"plan": {"group": "zero-2-1-small", "arm": "plan", "command": "zf-tune plan", "cpus": "0 and 1"},
                   "seconds": 1.0})
        rows = [simulated.simulated_of(PLAN, "a-machine", "ZeRO-Offload")]
        cannot = {"zero-2-2-small": "needs 2 CPUs, and 1 may be used"}
        self.text = markdown.text_of(found, cannot, rows, "scripts/study")
        self.details = details.details_of(found, "scripts/study")

    def section(self, title: str) -> str:
        """Returns a section, without line breaks in its sentences."""
        return self.text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0].replace("\n  ", " ")

    def test_the_table_shows_what_gains_what_loses_and_what_failed(self):
        text = self.section("The table")
        self.assertIn("| ZeRO-Offload, stage 2, 3 blocks | 100.0 ms |", text)
        self.assertRegex(text, r"\| 80\.5 ms, \*\*0\.80\d \(0\.\d+ to 0\.\d+\)\*\* \|")
        self.assertRegex(text, r"\| 120\.5 ms, slower: 1\.20\d \(1\.\d+ to 1\.\d+\) \|")
        self.assertRegex(text, r"\| 10\d\.\d ms, \d\.\d+ \(0\.\d+ to 1\.\d+\) \|")
        self.assertIn("| failed: a / b |", text)
        self.assertIn("The first losses of all ways have the bits of unbound's.", text)
        self.assertIn("Of 3 comparisons", self.text)
        self.assertIn("needs 2 CPUs", text)
        self.assertIn("SuperOffload", text)

    def test_losses_that_differ_are_named(self):
        found = self.results(block_of(ZERO_2, 0, unbound=facts(100, 100),
                                      ours_late=facts(90, 90, losses=("0x1.0p+1", "0x1.9p+0"))), name="other.jsonl")
        self.assertIn("exceptions: `plan + ours late` differ by up to 4e-02 (ZeRO-Offload, stage 2).",
                      markdown.text_of(found, {}, [], "scripts/study").replace("\n", " "))

    def test_tables_have_as_many_cells_as_heads(self):
        tables = re.findall(r"(?:^\|.*\n)+", self.text, re.MULTILINE)
        self.assertEqual(len(tables), 3)
        for table in tables:
            self.assertEqual(len({line.count("|") for line in table.splitlines()}), 1, table)

    def test_every_simulated_figure_says_so(self):
        heads = self.section("Simulated machines").split("\n| --- ")[0].splitlines()[-1].split("|")[1:-1]
        self.assertEqual([head.strip() for head in heads], ["simulated machine", "ZeRO-Offload (simulated)"])

    def test_the_details_have_each_way_and_the_plans(self):
        for words in ("| failed: a / b |", "| **more time** |", "## Where threads and pages were",
                      "| `zf-tune plan` | 0 and 1 |"):
            self.assertIn(words, self.details)

    def test_what_a_reason_says_of_unbound_is_understood(self):
        ratio, low, high = simulated.ratio_in(REASON)
        self.assertAlmostEqual(ratio, 0.8)
        self.assertAlmostEqual(low, 0.78, 3)
        self.assertAlmostEqual(high, 1.01, 3)
        in_search = ("In the search, against this plan, unbound was slower: +25.0 % (+20.0 to +30.0 %; minus is faster)"
                     "; not checked after the choice")
        self.assertAlmostEqual(simulated.ratio_in(in_search)[0], 0.8)
        for nothing in ("Only one split was measured", "How unbound compares with this plan is not known: too few"):
            self.assertIsNone(simulated.ratio_in(nothing))


if __name__ == "__main__":
    unittest.main()
