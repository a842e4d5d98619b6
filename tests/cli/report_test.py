"""zf-tune tune --report, and explain --report: which page is written when, and what it says of each machine."""

import csv
import os
import re

from zf_cli import DONE, SOURCE, STALE, USAGE, CommandTest

MACHINES = SOURCE / "configs/machines"
SIMULATED = ("--simulate", MACHINES / "xeon-2x16-2gpu.json")


class Report(CommandTest):
    def page(self, name="r.html") -> str:
        return (self.folder / name).read_text()

    def test_tune_writes_it_beside_the_plan(self):
        self.assert_exit(self.run_tune("tune", "--budget", "2s", "--params", "1M", "--report", "r.html"), DONE)
        page = self.page()
        self.assertIn('class="chart"', page)
        self.assertNotIn("Simulated", page)
        for cpu in os.sched_getaffinity(0):
            self.assertIn(f'title="CPU {cpu}: ', page)

    def test_a_simulated_machine_is_drawn_and_called_so(self):
        result = self.run_tune("tune", *SIMULATED, "-q", "--report", "r.html")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stderr, "")
        page = self.page()
        self.assertIn("Simulated: no figure on this page was measured on a real machine.", page)
        self.assertEqual(page.count('class="box node"'), 2)
        self.assertEqual(len(set(re.findall(r'title="CPU (\d+):', page))), 64)

    def test_the_chart_names_what_is_in_it_and_the_heading_names_the_machine_once(self):
        self.assert_exit(self.run_tune("tune", *SIMULATED, "-q", "--report", "r.html"), DONE)
        chart = self.page().partition('<section id="sides">')[2].partition("</section>")[0]
        self.assertIn(">pool threads per rank</text>", chart)
        dashed = len(re.findall('<path class="shared step line" d="[^"]*L', chart))
        self.assertEqual(chart.count("dashed:"), dashed, "the legend names a line that is not there")
        self.assertEqual(chart.count(">shared home</text>"), 1 - dashed)
        heading = self.page().partition("<header>")[2].partition("</header>")[0]
        self.assertEqual(heading.count(self.read_plan()["machine"]["model"]), 1, heading)

    def test_explain_gives_the_same_page_later(self):
        self.assert_exit(self.run_tune("tune", *SIMULATED, "-q", "-o", "x.json", "--report", "now.html"), DONE)
        result = self.run_tune("explain", *SIMULATED, "--report", "later.html", "x.json")
        self.assert_exit(result, DONE)
        self.assertIn("Why: ", result.stdout)
        self.assertEqual(self.page("later.html"), self.page("now.html"))

    def test_samples_are_a_csv_of_every_period(self):
        self.assert_exit(self.run_tune("tune", *SIMULATED, "-q"), DONE)
        result = self.run_tune("explain", "--samples", "s.csv")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stderr, "wrote s.csv\n")
        with open(self.folder / "s.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        evidence = self.read_plan()["evidence"]
        self.assertEqual(len(rows), len(evidence["samples"]))
        self.assertEqual({row["split"] for row in rows}, {each["label"] for each in evidence["candidates"]})
        result = self.run_tune("explain", "--samples", "-")
        self.assertEqual(result.stdout, self.page("s.csv"))
        self.assertIn("Why: ", result.stderr)
        self.assert_refused(self.run_tune("explain", "--samples", "plan.json"), USAGE, "--samples plan.json")
        self.assert_refused(self.run_tune("explain", "--samples", "x", "--report", "x"), USAGE,
                            "--samples x: the report is written there")

    def test_without_a_measurement_it_says_so(self):
        self.make_plan()
        self.assert_exit(self.run_tune("explain", "--report", "r.html"), DONE)
        self.assertIn("Nothing was measured.", self.page())
        self.assertNotIn('class="chart"', self.page())

    def test_it_says_how_to_start_a_job_with_the_plan(self):
        """A sweep may find on a busy machine that a job is faster unbound: then the page names no command."""
        self.make_plan()
        self.assert_exit(self.run_tune("explain", "--report", "r.html"), DONE)
        self.assertIn(f"zf-tune exec --plan {self.folder}/plan.json -- ", self.page())

    def test_a_plan_from_elsewhere_is_drawn_without_nodes_unless_its_machine_is_named(self):
        machine = "pack:2 [numa(memory=64GiB)] l3u:2 core:4 pu:2"
        self.make_plan("--topology", machine, "--ranks", "2")
        result = self.run_tune("explain", "--report", "r.html")
        self.assert_exit(result, DONE)
        self.assertIn("--topology", result.stderr)
        self.assertIn("not known here", self.page())
        self.assertNotIn("NUMA node 0,", self.page())

        self.assert_exit(self.run_tune("explain", "--report", "r.html", "--topology", machine), DONE)
        self.assertNotIn("not known here", self.page())
        self.assertIn("NUMA node 1, 64 GiB", self.page())

    def test_it_says_why_these_cores(self):
        node = str(SOURCE / "tests/machines/mi250x.xml")
        self.make_plan("--topology", node, "--ranks", "2")
        self.assert_exit(self.run_tune("explain", "--report", "r.html", "--topology", node), DONE)
        for part in ("Why these cores", "1 NUMA node more than 32 cores need"):
            self.assertIn(part, self.page())

    def test_a_named_machine_of_another_class_is_refused(self):
        self.make_plan("--topology", "pack:1 core:4 pu:1")
        result = self.run_tune("explain", "--report", "r.html", "--topology", "pack:1 core:8 pu:1")
        self.assert_exit(result, STALE)
        self.assertIn("cores", result.stderr)
        self.assertFalse((self.folder / "r.html").exists())

    def test_a_machine_without_a_report_is_refused(self):
        self.make_plan()
        self.assert_refused(self.run_tune("explain", "--topology", "core:2"), USAGE, "--topology", "--report")

    def test_where_it_cannot_be_written_is_said_before_anything_is_measured(self):
        for path in ("no/such/folder/r.html", "."):
            with self.subTest(path=path):
                self.assert_refused(self.run_tune("tune", "--report", path), USAGE, "--report", path)
                self.assert_wrote_nothing()

    def test_it_never_takes_the_plan_s_place(self):
        plan = self.make_plan()
        self.assert_refused(self.run_tune("explain", "--report", "./plan.json"), USAGE, "--report ./plan.json")
        self.assert_refused(self.run_tune("tune", "-o", "x", "--report", "x"), USAGE, "--report x")
        self.assertEqual(self.read_plan(), plan)

    def test_it_is_one_file_of_a_quarter_of_a_megabyte_at_the_most(self):
        result = self.run_tune("tune", "--simulate", MACHINES / "xeon-6972p-2.json", "-q", "--report", "r.html")
        self.assert_exit(result, DONE)
        self.assertLess((self.folder / "r.html").stat().st_size, 256 << 10)
        self.assertEqual(
            sorted(path.name for path in self.folder.iterdir()), ["plan.json", "plan.json.samples.jsonl", "r.html"]
        )
