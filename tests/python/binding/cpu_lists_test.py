"""Lists of CPUs are read and printed as Linux does. Needs the standard library only. Tests binding/cpu_lists.py."""

import unittest

import support  # noqa: F401

from zf_runtime.binding import cpu_lists

LISTS = {"": set(), "0": {0}, "3-5": {3, 4, 5}, "0-1,3": {0, 1, 3}, "0,2,4": {0, 2, 4}, "7,64-66": {7, 64, 65, 66}}


class Lists(unittest.TestCase):
    def test_what_is_printed_is_read_again(self):
        for text, numbers in LISTS.items():
            with self.subTest(text):
                self.assertEqual((cpu_lists.parse(text), cpu_lists.text_of(numbers)), (numbers, text))

    def test_other_lists_of_the_same_numbers_are_read_too(self):
        for text in ("0,1,3\n", " 3,0-1", "0-1,1,3,", "0-0,1-1,3-3"):
            with self.subTest(text):
                self.assertEqual(cpu_lists.parse(text), {0, 1, 3})

    def test_no_list_is_an_error(self):
        for text in ("a", "0-b", "0;1", "-3"):
            with self.subTest(text), self.assertRaises(ValueError):
                cpu_lists.parse(text)

    def test_words_have_the_right_number(self):
        self.assertEqual([cpu_lists.in_words(cpus) for cpus in ((), (3,), (11, *range(4, 8)))],
                         ["no CPU", "CPU 3", "CPUs 4-7,11"])


if __name__ == "__main__":
    unittest.main()
