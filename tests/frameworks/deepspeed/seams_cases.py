"""What install() replaces of DeepSpeed: the table of the page, and what the installed DeepSpeed has of it. Tests
deepspeed/seams.py."""

import pathlib
import re
import unittest
from unittest import mock

import zf_runtime.deepspeed
from zf_runtime import ZfError
from zf_runtime.deepspeed import exact_stage_3, seams

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/deepspeed.md"
MODES = ({}, {"mode": "exact"}, {"mode": "exact", "speculate": True}, {"keep": "mine"})


def functions() -> dict[str, object]:
    """Returns what stands now in each seam."""
    return {seam.path: vars(seams.find(seam.owner)).get(seam.name) for seam in seams.SEAMS}


def touched() -> dict[str, object]:
    """Returns all that the modules and classes with a seam have."""
    return {f"{seam.owner}.{name}": value for seam in seams.SEAMS
            for name, value in vars(seams.find(seam.owner)).items()}


def wanted(mode: str = "wait", speculate: bool = False, keep: str | None = None) -> set[str]:
    asked = seams.Asked(mode, "fp32", speculate, keep, {})
    return {seam.path for seam in seams.SEAMS if seams.WHEN[seam.when](asked)}


class Page(unittest.TestCase):
    def test_the_list_of_the_page_is_the_table(self):
        listed = PAGE.read_text().partition("### What is replaced\n")[2]
        listed = listed.partition("\n## ")[0]
        found = {when: re.findall(r"`([^`]+)`", paths)
                 for when, paths in re.findall(r"^- \*\*(.*)\*\*: ((?:.|\n  )+)$", listed, re.MULTILINE)}
        expected: dict[str, list[str]] = {}
        for seam in seams.SEAMS:
            expected.setdefault(seam.when + ", needed" * seam.is_needed, []).append(seam.path)
        self.assertEqual(found, expected)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.untouched = touched()  # by any test before

    def setUp(self):
        self.addCleanup(zf_runtime.deepspeed.uninstall)

    def test_this_deepspeed_has_each(self):
        self.assertEqual([seam.path for seam in seams.SEAMS if not seam.is_there], [])

    def test_each_is_replaced_in_its_mode_and_given_back(self):
        zf_runtime.deepspeed.install()
        zf_runtime.deepspeed.uninstall()  # the class's step stays hooked
        before = functions()
        for settings in MODES:
            with self.subTest(settings):
                zf_runtime.deepspeed.install(**settings)
                now = functions()
                self.assertEqual({path for path in now if now[path] is not before[path]}, wanted(**settings))
                zf_runtime.deepspeed.uninstall()
                self.assertEqual(functions(), before)
        self.assertEqual(set.union(*(wanted(**settings) for settings in MODES)), set(before))

    def test_uninstall_leaves_nothing_on_what_it_has_touched(self):
        for settings in MODES:
            zf_runtime.deepspeed.install(**settings)
            zf_runtime.deepspeed.uninstall()
        now, stay = touched(), {"deepspeed.runtime.engine:DeepSpeedEngine.kept",  # see seams.py
                                "deepspeed.ops.adam.cpu_adam:DeepSpeedCPUAdam.step"}
        self.assertEqual({path for path in now.keys() | self.untouched.keys()
                          if now.get(path) is not self.untouched.get(path)} - stay, set())

    def test_what_an_engine_uses_stays_until_it_has_ended(self):
        used = {seam.path for seam in seams.SEAMS if seam.is_used is exact_stage_3.is_open}
        self.assertEqual(len(used), 2)
        before = functions()
        zf_runtime.deepspeed.install("exact")
        installed = functions()
        engine = exact_stage_3.Unpublished(mock.Mock(), [], [])
        zf_runtime.deepspeed.uninstall()
        left = functions()
        self.assertEqual({path for path in left if left[path] is not before[path]}, used)
        self.assertEqual({path: left[path] for path in used}, {path: installed[path] for path in used})
        zf_runtime.deepspeed.install("exact")
        zf_runtime.deepspeed.uninstall()
        engine.forget()
        zf_runtime.deepspeed.uninstall()
        self.assertEqual(functions(), before)

    def test_without_a_needed_one_nothing_is_replaced(self):
        before = functions()
        for number, seam in enumerate(seams.SEAMS):
            if not seam.is_needed:
                continue
            lacking = seam._replace(owner="absent")
            table = (*seams.SEAMS[:number], lacking, *seams.SEAMS[number + 1:])
            with (self.subTest(seam.path), mock.patch.object(seams, "SEAMS", table),
                  self.assertRaisesRegex(ZfError, f"this DeepSpeed has no {re.escape(lacking.path)}: leave")):
                zf_runtime.deepspeed.install(keep="mine")
            self.assertEqual(functions(), before)

    def test_those_of_a_part_are_replaced_together_or_not_at_all(self):
        for part in {seam.part for seam in seams.SEAMS if seam.part}:
            of_part = {seam.path for seam in seams.SEAMS if seam.part == part}
            gone, *_ = (seam for seam in seams.SEAMS if seam.part == part)
            table = tuple(seam._replace(name="absent") if seam is gone else seam for seam in seams.SEAMS)
            before = functions()
            with self.subTest(part), mock.patch.object(seams, "SEAMS", table):
                zf_runtime.deepspeed.install()
            now = functions()
            self.assertEqual({path for path in now if now[path] is not before[path]}, wanted() - of_part)
            zf_runtime.deepspeed.uninstall()


if __name__ == "__main__":
    unittest.main()
