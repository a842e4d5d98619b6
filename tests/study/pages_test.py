"""The pages: what the intervals show, rows in which we lose, and "simulated" on every figure of a simulated machine."""

import re
import unittest
import xml.etree.ElementTree

from study_case import ZERO_2, StudyTest, block_of, facts

import markdown
import page
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
        self.page = page.page_of(found, {}, rows, "scripts/study")

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
        section = self.page.split("<h2>Simulated machines</h2>")[1].split("<h2>")[0]
        self.assertEqual(section.count("<figure"), 2)
        self.assertEqual(section.count('<figure class="simulated">'), 2)
        self.assertIn("simulated: plan ÷ unbound", section)
        heads = self.section("Simulated machines").split("\n| --- ")[0].splitlines()[-1].split("|")[1:-1]
        self.assertEqual([head.strip() for head in heads], ["simulated machine", "ZeRO-Offload (simulated)"])

    def test_the_page_loads_nothing_and_its_charts_are_sound(self):
        self.assertNotRegex(self.page, r"<script|src=|href=|url\(|https?://")
        self.assertIn("default-src 'none'", self.page)
        charts = re.findall(r"<svg.*?</svg>", self.page, re.DOTALL)
        self.assertEqual(len(charts), 3)
        for chart in charts:
            root = xml.etree.ElementTree.fromstring(chart)
            width = float(root.get("width"))
            for element in root.iter():
                for name in ("x", "x1", "x2", "cx"):
                    self.assertTrue(0 <= float(element.get(name, 0)) <= width, chart)

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

    def test_axes_hold_their_values(self):
        low, high = page.scale_of([0.8, 0.7, 0.9])
        self.assertLess(low, 0.7)
        self.assertGreater(high, 1)
        self.assertIn(1.0, [round(tick, 9) for tick in page.ticks_of(low, high)])
        self.assertEqual(page.scale_of([0.0, float("inf"), 1.0])[1], 1.05)


if __name__ == "__main__":
    unittest.main()
