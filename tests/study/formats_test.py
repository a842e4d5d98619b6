"""What the study of state formats may say (scripts/study-formats)."""

import unittest

import study_case  # noqa: F401  (says where the other modules lie)

import conclude
import picture
from ways import CONTROL, ORDER, REFERENCE, WAYS


def results(**percents: list[float]) -> conclude.Results:
    """Returns results of as many seeds as each way has differences: of ORDER `order`, of CONTROL `control`, of all
    others `formats`."""
    of_way = {way: percents["formats"] for way in WAYS} | {
        REFERENCE: [0.0] * len(percents["order"]), ORDER: percents["order"], CONTROL: percents["control"]}
    return {(way, seed): {"way": way, "seed": seed, "losses": [(50, 5.0), (100, 4.0 + percent)],
                          "result": (4 + 0.1 * seed) * (1 + percent / 100)}
            for way, differences in of_way.items() for seed, percent in enumerate(differences, 1)}


SAME, HIGHER = [0.1, -0.1, 0.05, -0.05, 0.0], [1.1, 0.9, 1.0, 1.2, 0.8]


class Formats(unittest.TestCase):
    def test_a_format_is_harmless_if_its_whole_interval_is_within_half_a_percent(self):
        for differences, harmless in ((SAME, True), (HIGHER, False), ([-value for value in HIGHER], False),
                                      ([0.45, 0.47, 0.43, 0.46, 0.44], True), ([0.4, 0.7, 0.1, 0.6, 0.2], False)):
            found = conclude.difference(results(order=SAME, control=HIGHER, formats=differences), "bf16")
            self.assertEqual(found.harmless, harmless, differences)

    def test_nothing_is_concluded_while_the_control_does_not_fail(self):
        for control in (SAME, [3.0, -3.0, 2.0, -2.0, 0.0], [-value for value in HIGHER]):
            text = conclude.table(results(order=SAME, control=control, formats=SAME))
            self.assertNotIn("harmless", text)
            self.assertIn("no conclusion: the control does not fail", text)
            self.assertIn("the job must change", text)

    def test_the_table_says_what_each_way_shows(self):
        text = conclude.table(results(order=SAME, control=HIGHER, formats=HIGHER))
        self.assertIn("| bf16+split | 4.3429 | +1.00 % (+0.80 to +1.20) | not shown to be harmless |", text)
        self.assertRegex(text, r"\| fp32, other order \| 4.3000 \| .0.00 % \(-0.10 to \+0.10\) \| harmless \|")
        self.assertIn("| fails, as it must |", text)

    def test_seeds_that_differ_as_much_without_any_format_are_too_few(self):
        self.assertFalse(conclude.needs_seeds(results(order=SAME, control=HIGHER, formats=SAME)))
        self.assertTrue(conclude.needs_seeds(results(order=[0.5, -0.5, 0.3], control=HIGHER, formats=SAME)))
        self.assertTrue(conclude.needs_seeds(results(order=[0.0], control=[1.0], formats=[0.0])))

    def test_the_picture_has_a_line_and_a_name_for_each_way(self):
        text = picture.picture(results(order=SAME, control=HIGHER, formats=SAME))
        self.assertEqual(text.count("<polyline"), 2 * len(WAYS))
        for way in WAYS:
            self.assertIn(f">{way}</text>", text)


if __name__ == "__main__":
    unittest.main()
