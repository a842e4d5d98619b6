"""Conclusions: nothing is claimed that the intervals do not show."""

import math
import random
import statistics
import unittest

from study_case import TORCH, ZERO_2, StudyTest, block_of, facts

import conclusions
import matrix


def blocks_of(group, way: str, ratios: list[float], **more: dict) -> list[dict]:
    return [block_of(group, number, **({"unbound": facts(100, 50), way: facts(100 * ratio, 50 * ratio)} | more))
            for number, ratio in enumerate(ratios)]


class Conclusions(StudyTest):
    def row(self, ratios: list[float], way="plan", group=ZERO_2) -> conclusions.Row:
        found = self.results(*blocks_of(group, way, ratios), name=f"{len(list(self.folder.iterdir()))}.jsonl")
        return next(row for row in conclusions.rows_of(found, group) if row.arm == way)

    def test_an_interval_below_1_is_less_time_above_1_more_and_else_nothing(self):
        for ratios, verdict, words in (([0.90, 0.91, 0.89], conclusions.FASTER, "9.. % less time|10.0 % less time"),
                                       ([1.10, 1.11, 1.09], conclusions.SLOWER, "10.0 % more time"),
                                       ([0.80, 1.00, 0.90], conclusions.OPEN, "no difference from unbound is shown"),
                                       ([0.50], conclusions.UNKNOWN, "nothing is said")):
            with self.subTest(ratios=ratios):
                row = self.row(ratios)
                self.assertEqual(row.verdict, verdict)
                self.assertRegex(conclusions.sentence(row), words)

    def covered(self, deviations: dict[str, float], blocks: int, studies=100) -> dict[str, float]:
        """Returns how often the interval of each job holds the truth."""
        generator, truth = random.Random(1), 0.9
        found = dict.fromkeys(deviations, 0)
        for study in range(studies):
            lines = []
            for job, deviation in deviations.items():
                ratios = [truth * math.exp(generator.gauss(0, deviation)) for _ in range(blocks)]
                lines += blocks_of(matrix.Group(job, 1, "small"), "plan", ratios)
            results = self.results(*lines, name=f"{blocks}-{study}.jsonl")
            for job in deviations:
                row = next(row for row in conclusions.rows_of(results, matrix.Group(job, 1, "small"))
                           if row.arm == "plan")
                found[job] += row.low <= truth <= row.high
        return {job: count / studies for job, count in found.items()}

    def test_intervals_of_few_blocks_cover_the_truth(self):
        """Two blocks of a job alone would have an interval of 12.7 deviations."""
        shares = self.covered(dict.fromkeys(("torch", "zero-2", "zero-3", "zenflow"), 0.05), 2)
        self.assertGreater(statistics.mean(shares.values()), 0.93, shares)

    def test_a_job_that_varies_more_than_the_others_is_not_taken_for_calm(self):
        shares = self.covered({"torch": 0.15, "zero-2": 0.02, "zero-3": 0.02, "zenflow": 0.02}, 4)
        self.assertGreater(shares["torch"], 0.85, shares)

    def test_ratios_are_formed_within_blocks(self):
        """The machine was twice as slow in the second block. That is no difference."""
        found = self.results(block_of(ZERO_2, 0, unbound=facts(100, 100), plan=facts(90, 90)),
                             block_of(ZERO_2, 1, unbound=facts(200, 200), plan=facts(180, 180)))
        row = conclusions.rows_of(found, ZERO_2)[-1]
        self.assertAlmostEqual(row.low, 0.9)
        self.assertAlmostEqual(row.high, 0.9)

    def test_advice_names_a_late_way_only_beside_one_that_computes_the_same(self):
        found = self.results(*blocks_of(ZERO_2, "ours_late", [0.70, 0.71, 0.72],
                                        ours_waiting=facts(90, 45), plan=facts(120, 60)))
        advice = conclusions.advice_of(conclusions.rows_of(found, ZERO_2))
        self.assertRegex(advice, r"^`plan \+ ours waiting` \(10.0 % less time\)")
        self.assertRegex(advice, r"one step old is acceptable, `plan \+ ours late` \(29.0 % less time\)")
        self.assertIn("Avoid `plan`", advice)

    def test_advice_is_to_set_nothing_if_nothing_is_shown(self):
        found = self.results(*blocks_of(ZERO_2, "plan", [0.8, 1.0, 0.9]))
        self.assertRegex(conclusions.advice_of(conclusions.rows_of(found, ZERO_2)), "^nothing: no way")
        found = self.results(*blocks_of(TORCH, "plan", [0.5]))
        self.assertEqual(conclusions.advice_of(conclusions.rows_of(found, TORCH)), "nothing can be said yet.")

    def test_a_way_that_fails_stands_there(self):
        found = self.results(*blocks_of(ZERO_2, "plan", [0.9, 0.91], ours_waiting={"failed": "no library"}))
        row = next(row for row in conclusions.rows_of(found, ZERO_2) if row.arm == matrix.WAIT)
        self.assertEqual((row.verdict, row.reason), (conclusions.FAILED, "no library"))
        self.assertIn("no library", conclusions.sentence(row))

    def test_losses_are_compared_bit_by_bit(self):
        same, other = {"0": ["0x1.8p+1", "0x1p+0"]}, {"0": ["0x1.8p+1", "0x1.0000000000001p+0"]}
        self.assertEqual(conclusions.compare_losses(same, same), 0.0)
        self.assertGreater(conclusions.compare_losses(same, other), 0.0)
        self.assertIsNone(conclusions.compare_losses(same, {"1": ["0x1p+0"]}))
        others = facts(90, 45, losses=("0x1.0p+1", "0x1.9p+0"))
        found = self.results(*blocks_of(ZERO_2, "plan", [0.9, 0.9], plan=others))
        rows = conclusions.rows_of(found, ZERO_2)
        self.assertEqual([row.losses for row in rows], ["equal bits", "differ by up to 4e-02"])

    def test_two_studies_are_compared_by_their_conclusions(self):
        first = self.results(*blocks_of(ZERO_2, "plan", [0.90, 0.91, 0.89]), name="first.jsonl")
        second = self.results(*blocks_of(ZERO_2, "plan", [0.80, 1.00, 0.90]), name="second.jsonl")
        self.assertEqual(conclusions.changed(first, first), [])
        changed, = conclusions.changed(first, second)
        self.assertRegex(changed, r"^zero-2-1-small, plan: faster \(0\.\d+ to 0\.\d+\), then not shown")


if __name__ == "__main__":
    unittest.main()
