"""The spans of the last steps are in the order of their times, and Perfetto is given them in microseconds. Needs the
standard library only. Tests optim/overlap/timeline.py."""

import json
import os
import tempfile
import unittest

import support  # noqa: F401

from zf_runtime.optim.overlap.timeline import KINDS, Span, Timeline, write_for_perfetto

STEP, WAIT = Span("step", 7, 2, 3_000, 5_500), Span("wait", 7, -1, 1_000, 2_000)


class Spans(unittest.TestCase):
    def test_they_are_in_the_order_of_their_begins(self):
        timeline = Timeline()
        for span in (STEP, WAIT):
            timeline.add(*span)
        self.assertEqual(timeline.spans(), [WAIT, STEP])

    def test_the_last_ones_are_kept(self):
        timeline = Timeline(most=3)
        for turn in range(5):
            timeline.add("send", turn, 0, turn, turn + 1)
        self.assertEqual([span.turn for span in timeline.spans()], [2, 3, 4])


class Perfetto(unittest.TestCase):
    def test_each_kind_has_a_lane_and_each_span_its_times(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            write_for_perfetto([WAIT, STEP], path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        lanes = {event["args"]["name"]: event["tid"] for event in events if event["ph"] == "M"}
        self.assertEqual(sorted(lanes), sorted(KINDS.values()))
        found = [(event["name"], event["tid"], event["ts"], event["dur"], event["args"])
                 for event in events if event["ph"] == "X"]
        self.assertEqual(found, [("wait", lanes[KINDS["wait"]], 1.0, 1.0, {"step": 7, "share": -1}),
                                 ("step 2", lanes[KINDS["step"]], 3.0, 2.5, {"step": 7, "share": 2})])


if __name__ == "__main__":
    unittest.main()
