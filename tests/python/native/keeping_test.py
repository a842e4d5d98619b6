"""How an arena is kept is checked before anything is opened. Needs the standard library only. Tests
native/keeping.py."""

import unittest

import support  # noqa: F401

from zf_runtime.native import keeping


class Options(unittest.TestCase):
    def test_without_a_name_there_are_none(self):
        self.assertEqual(keeping.options(None, None, 0), {})
        for keep_s, note_bytes in ((5, 0), (None, 8)):
            with self.assertRaisesRegex(ValueError, "keep_s or note_bytes is given without keep"):
                keeping.options(None, keep_s, note_bytes)

    def test_a_name_gives_those_of_the_library(self):
        self.assertEqual(keeping.options("mine", None, 8), {"keep": b"mine", "keep_s": 0, "note_bytes": 8})
        month = 30 * 24 * 3600
        self.assertEqual(keeping.options("müll", month, 0)["keep_s"], month)

    def test_what_cannot_be_is_named(self):
        for given, error, why in ((("a\0b", None, 0), ValueError, "it must be a name"),
                                  ((3, None, 0), ValueError, "keep is 3; it must be a name"),
                                  (("mine", 0, 0), ValueError, "keep_s is 0; it must be 1 to 2592000"),
                                  (("mine", 30 * 24 * 3600 + 1, 0), ValueError, "keep_s is 2592001; it must be"),
                                  (("mine", 1.5, 0), TypeError, "keep_s is 1.5; it must be an integer"),
                                  (("mine", None, -1), ValueError, "note_bytes is -1; it must be")):
            with self.subTest(given), self.assertRaisesRegex(error, why):
                keeping.options(*given)


if __name__ == "__main__":
    unittest.main()
