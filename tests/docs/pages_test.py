"""The pages: links and paths lead somewhere, and lists of what there is are complete."""

import json
import re
import unittest

from zf_cli import DONE, SOURCE, CommandTest

PAGES = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted(SOURCE.glob("docs/*.md")),
         *sorted(SOURCE.glob("runtime/*/README.md")), *sorted(SOURCE.glob("tests/*/README.md")),
         *sorted(SOURCE.glob("scripts/*/README.md"))]


def anchors_of(text: str) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Pages(CommandTest):
    def test_every_link_leads_to_a_file_and_to_a_heading_of_it(self):
        links = 0
        for page in PAGES:
            for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
                with self.subTest(page=page.name, link=f"{target}#{anchor}"):
                    file = page.parent / target if target else page
                    self.assertTrue(file.exists())
                    if anchor:
                        self.assertIn(anchor, anchors_of(file.read_text()))
                    links += 1
        self.assertGreater(links, 50)

    def test_the_index_lists_every_page(self):
        index = (SOURCE / "docs/index.md").read_text()
        for page in SOURCE.glob("docs/*"):
            if page.suffix in (".md", ".1") and page.name != "index.md":
                self.assertIn(f"]({page.name})", index)

    def test_the_files_of_the_recipes_exist(self):
        named = re.findall(r"`([\w.]+/[\w./*-]+)`", (SOURCE / "docs/design.md").read_text())
        self.assertGreater(len(named), 20)
        for path in named:
            with self.subTest(path):
                self.assertTrue(list(SOURCE.glob(path.rstrip("/"))))

    def test_every_machine_of_the_tests_is_described(self):
        described = (SOURCE / "tests/machines/README.md").read_text()
        for machine in SOURCE.glob("tests/machines/*.xml"):
            self.assertIn(f"\n| {machine.name} |", described)

    def test_the_manual_names_every_check_of_doctor(self):
        manual = (SOURCE / "docs/zf-tune.1").read_text()
        result = self.run_tune("doctor", "--format", "json")
        self.assert_exit(result, DONE)
        checks = json.loads(result.stdout)["checks"]
        self.assertGreater(len(checks), 10)
        for check in checks:
            self.assertRegex(manual, rf"\b{check}\b")


if __name__ == "__main__":
    unittest.main()
