"""A report as a person's browser shows it: the verdict first, nothing cut, dark and light, and on paper."""

import html
import json
import os
import shutil
import struct
import subprocess
import zlib

from zf_cli import DONE, SOURCE, CommandTest, parse_cpus

MACHINES = SOURCE / "configs/machines"
DARK = "--blink-settings=preferredColorScheme=0"

# Run in the page: what a person sees of it, as numbers.
LOOK = """<script>
const box = (element) => element.getBoundingClientRect();
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const painted = all("svg[role=img]").map((svg) => ({
  title: svg.querySelector("title").textContent,
  shapes: all("path, line, circle", svg).filter((shape) => box(shape).width + box(shape).height > 0).length,
  width: box(svg).width,
}));
// Words of a row that lie upon each other.
const overlaps = all("table.verdicts tr").filter((row) => {
  const cells = all("th, .figures, .verdict", row).map(box);
  return cells.some((a, i) => cells.some((b, j) => i < j && a.left < b.right - 1 && b.left < a.right - 1 &&
                                                   a.top < b.bottom - 1 && b.top < a.bottom - 1));
}).length;
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const fetched = performance.getEntriesByType("resource").length;
const decided = box(document.querySelector("#next")).bottom;
top.document.body.insertAdjacentHTML("beforeend",
  `<pre id=seen>${JSON.stringify({ painted, overlaps, wide, fetched, decided, width: innerWidth })}</pre>`);
</script>"""


def first_pixel(png: bytes) -> tuple[int, ...]:
    """Reads an 8-bit PNG: the filters of the first row add nothing to its first pixel."""
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    return tuple(zlib.decompress(data)[1:4])


class Browser(CommandTest):
    def need(self, program: str) -> str:
        found = shutil.which(program)
        if found is None:
            missing = f"no {program}: install it (scripts/packages.txt, group heavy)"
            self.fail(missing) if os.environ.get("ZF_TEST_ALL") else self.skipTest(missing)
        return found

    def browse(self, page: str, *options: str) -> tuple[str, str]:
        """What the browser prints on stdout, and what pages said on its console."""
        result = subprocess.run(
            [self.need("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             f"--user-data-dir={self.folder}/profile", *options, f"file://{self.folder}/{page}"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            cwd=self.folder,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout, "\n".join(line for line in result.stderr.splitlines() if "CONSOLE" in line)

    def look(self, width=1200) -> dict:
        """What LOOK sees in a frame of this width (a window has at least 500 pixels). The page forbids scripts,
        so this copy has another."""
        text = (self.folder / "r.html").read_text()
        self.assertNotIn("<script", text)
        text = text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
        inside = html.escape(text.replace("</body>", LOOK + "</body>"))
        (self.folder / "looked.html").write_text(
            f'<!DOCTYPE html><meta charset="utf-8"><iframe width="{width}" height="900" srcdoc="{inside}"></iframe>')
        dom, console = self.browse("looked.html", "--dump-dom", f"--window-size={width + 100},1000")
        self.assertEqual(console, "")
        seen = json.loads(dom.partition('<pre id="seen">')[2].partition("</pre>")[0])
        self.assertEqual(seen["fetched"], 0)
        return seen

    def simulate(self, machine: str):
        result = self.run_tune("tune", "--simulate", MACHINES / f"{machine}.json", "-q", "--report", "r.html")
        self.assert_exit(result, DONE)

    def test_draws_the_verdicts_and_the_chart(self):
        for machine in sorted(path.stem for path in MACHINES.glob("*.json")):
            with self.subTest(machine=machine):
                self.simulate(machine)
                painted = self.look()["painted"]
                self.assertIn("This plan", [one["title"] for one in painted])
                self.assertEqual([one["title"] for one in painted if one["width"] > 800],
                                 ["Training and optimizer time over the number of pool threads"])
                for one in painted:
                    self.assertGreaterEqual(one["shapes"], 2, one)

    def test_draws_a_plan_of_this_machine(self):
        brief = ("--budget", "2s", "--params", "1M")
        self.assert_exit(self.run_tune("tune", *brief, "-q", "--report", "r.html"), DONE)
        self.assertIn("This plan", [one["title"] for one in self.look()["painted"]])

    def test_draws_a_plan_without_evidence(self):
        self.make_plan("--topology", "pack:2 [numa] core:96 pu:2", "--ranks", "8")
        self.assert_exit(self.run_tune("explain", "--report", "r.html"), DONE)
        self.assertEqual(self.look()["painted"], [])

    def test_decision_plot_and_command_are_on_the_first_screen(self):
        self.simulate("xeon-2x16-2gpu")
        self.assertLess(self.look()["decided"], 900)

    def test_no_window_cuts_or_covers_anything(self):
        self.simulate("xeon-6972p-2")
        for width in (1600, 1000, 500, 400):
            with self.subTest(width=width):
                seen = self.look(width)
                self.assertEqual(seen["width"], width)
                self.assertLessEqual(seen["wide"], 0)
                self.assertEqual(seen["overlaps"], 0)

    def test_what_a_plan_says_is_never_run(self):
        self.make_plan()
        plan = self.read_plan()
        evil = "</script><script>document.documentElement.dataset.owned = 1</script>"
        plan["made"]["host"] = plan["made"]["command"] = plan["choice"]["reason"] = plan["workload"]["name"] = evil
        plan["warnings"] = [evil, f"<img src=x onerror=\"{evil}\">"]
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.assert_exit(self.run_tune("explain", "--report", "r.html"), DONE)
        dom, console = self.browse("r.html", "--dump-dom")
        self.assertEqual(console, "")
        self.assertNotIn("data-owned", dom[:200])

    def test_is_as_dark_as_its_reader_likes_it(self):
        self.simulate("cloud-2vcpu")
        for option, dark in ((DARK, True), ("--blink-settings=preferredColorScheme=1", False)):
            with self.subTest(dark=dark):
                self.browse("r.html", option, "--screenshot=r.png")
                brightness = sum(first_pixel((self.folder / "r.png").read_bytes()))
                self.assertLess(brightness, 150) if dark else self.assertEqual(brightness, 3 * 255)

    def test_is_whole_and_light_on_a4(self):
        self.need("pdftotext")
        self.simulate("xeon-6972p-2")
        self.browse("r.html", DARK, "--no-pdf-header-footer", "--print-to-pdf=r.pdf")

        def run(*words: str) -> bytes:
            return subprocess.run(words, cwd=self.folder, capture_output=True, check=True).stdout

        self.assertRegex(run("pdfinfo", "r.pdf").decode(), r"Page size: +59\d(\.\d+)? x 84\d(\.\d+)? pts \(A4\)")
        words = run("pdftotext", "-layout", "r.pdf", "-").decode()
        for part in ("What to type", "Who runs where", "Both sides over", "Where this comes from"):
            self.assertIn(part, words)
        numbers = {int(word) for word in words.split() if word.isdecimal()}
        self.assertLessEqual(parse_cpus(self.read_plan()["machine"]["cpus"]), numbers)
        corner = run("pdftoppm", "-r", "20", "-f", "1", "-l", "1", "-png", "r.pdf")
        self.assertEqual(first_pixel(corner), (255, 255, 255))
