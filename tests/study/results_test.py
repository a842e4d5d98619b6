"""Results: a study goes on from what is there, and mixes nothing."""

import unittest

from study_case import SETTINGS, TORCH, ZERO_2, StudyTest, block_of, facts

import results


class ResultsFile(StudyTest):
    def test_looking_writes_nothing(self):
        self.assertFalse(self.results().path.exists())

    def test_a_study_goes_on_where_it_was_interrupted(self):
        first = self.results(block_of(TORCH, 0, unbound=facts(1, 1)), block_of(ZERO_2, 0, unbound=facts(1, 1)),
                             block_of(TORCH, 1, unbound=facts(1, 1)))
        again = results.Results(first.path, SETTINGS)
        self.assertEqual(len(again.blocks(TORCH)), 2)
        self.assertEqual(results.next_block(again, [TORCH, ZERO_2], 3), (ZERO_2, 1))
        self.assertEqual(again.seconds(), 180.0)
        self.assertEqual(results.latest(first.path).digest, first.digest)

    def test_all_groups_advance_together_until_all_are_done(self):
        found, order = self.results(), []
        while (following := results.next_block(found, [TORCH, ZERO_2], 2)) is not None:
            order.append((following[0].job, following[1]))
            found.add(block_of(following[0], following[1], unbound=facts(1, 1)))
        self.assertEqual(order, [("torch", 0), ("zero-2", 0), ("torch", 1), ("zero-2", 1)])

    def test_results_of_other_settings_do_not_count(self):
        self.results(block_of(TORCH, 0, unbound=facts(1, 1)))
        for changed in ({"versions": {"PyTorch": "3"}}, {"machine": {"cpus": [0]}}, {"turn_s": 3.0}, {"plans": "all"}):
            other = results.Results(self.folder / "results.jsonl", SETTINGS | changed)
            self.assertEqual(other.blocks(TORCH), [], changed)
        self.assertEqual(len(self.results().blocks(TORCH)), 1)

    def test_a_block_that_others_disturbed_is_run_again(self):
        found = self.results(block_of(TORCH, 0, unbound=facts(1, 1)) | {"others": 0.21})
        self.assertEqual(found.blocks(TORCH), [])
        self.assertEqual(results.next_block(found, [TORCH], 1), (TORCH, 1))
        self.assertEqual(found.seconds(), 60.0)

    def test_a_line_that_was_cut_off_is_left_out(self):
        found = self.results(block_of(TORCH, 0, unbound=facts(1, 1)))
        with found.path.open("a") as file:
            file.write('{"settings": "' + found.digest + '", "group": {"jo')
        again = self.results(block_of(TORCH, 1, unbound=facts(1, 1)))
        self.assertEqual(len(again.blocks(TORCH)), 2)
        self.assertEqual(len(self.results().blocks(TORCH)), 2)


if __name__ == "__main__":
    unittest.main()
