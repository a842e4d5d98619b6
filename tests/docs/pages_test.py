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

    def test_the_readme_lists_every_page(self):
        listed = (SOURCE / "README.md").read_text().partition("\n## Pages\n")[2]
        for page in SOURCE.glob("docs/*"):
            if page.suffix in (".md", ".1"):
                self.assertIn(f"](docs/{page.name})", listed)

    def test_the_files_of_the_recipes_exist(self):
        recipes = (SOURCE / "docs/design.md").read_text().split("\n## Recipes\n")[1]
        named = re.findall(r"`([\w./*-]+\.\w+|[\w./*-]+/)`", recipes)
        self.assertGreater(len(named), 40)
        for path in named:
            with self.subTest(path):
                self.assertTrue(list(SOURCE.glob(path.rstrip("/"))))

    def test_the_files_of_the_rooms_exist(self):
        """A row may name files of its room, each with a function that is in it."""
        rows = re.findall(r"^\| `(\w+)` \| (.*)$", (SOURCE / "docs/design.md").read_text(), re.MULTILINE)
        named = [(room, *names) for room, row in rows
                 for names in re.findall(r"`(\w+\.[ch]pp)`(?: \(`(\w+\()\)`\))?", row)]
        self.assertGreaterEqual(len(named), 5)
        for room, file, function in named:
            with self.subTest(room=room, file=file):
                (path,) = SOURCE.glob(f"*/{room}/{file}")
                self.assertIn(function, path.read_text())

    def test_the_command_below_the_picture_draws_its_figures(self):
        readme = (SOURCE / "README.md").read_text()
        sizes = re.search(r"over ([\d, ]+ and \d+) pool threads, on a simulated machine\]", readme)
        chosen = re.search(r"At (\d+) pool threads the step hides", readme)
        command = re.search(r"This command draws it:\* `zf-tune (tune --simulate )(\S+) --report report.html`", readme)
        self.assert_exit(self.run_tune(*command[1].split(), SOURCE / command[2], "-q", "--report", "r.html"), DONE)
        chart = (self.folder / "r.html").read_text().partition('id="sides"')[2].partition("</section>")[0]
        self.assertEqual(re.findall(r'text-anchor="middle">(\d+)<', chart), re.findall(r"\d+", sizes[1]))
        self.assertIn(f">this plan: {chosen[1]}<", chart)
        self.assertIn(" 4 training steps<", chart)

    def test_every_function_of_doctor_that_finds_something_is_a_check(self):
        declared = re.findall(r"^std::vector<Finding> (\w+)\(", (SOURCE / "tuner/inspect/doctor.hpp").read_text(),
                              re.MULTILINE)
        self.assertGreater(len(declared), 10)
        run = re.findall(r"^ +\{\"[\w-]+\", (\w+)\},$", (SOURCE / "tuner/inspect/doctor.cpp").read_text(), re.MULTILINE)
        self.assertEqual(sorted(run), sorted(declared))

    def test_every_machine_of_the_tests_is_described(self):
        described = (SOURCE / "tests/machines/README.md").read_text()
        for machine in SOURCE.glob("tests/machines/*.xml"):
            self.assertIn(f"\n| {machine.name} |", described)

    def test_the_manual_names_every_check_of_doctor(self):
        manual = (SOURCE / "docs/zf-tune.1").read_text()
        described = manual.split("\n.It Cm doctor\n")[1].split("\n.It ")[0]
        result = self.run_tune("doctor", "--format", "json")
        self.assert_exit(result, DONE)
        checks = json.loads(result.stdout)["checks"]
        self.assertGreater(len(checks), 10)
        for check in checks:
            self.assertRegex(described, rf"(?m)^\.Ql {check}(?![\w-])")


if __name__ == "__main__":
    unittest.main()
