"""A report as a person's browser shows it: every chart drawn, nothing fetched, dark and light, and on paper."""

import json
import os
import shutil
import struct
import subprocess
import zlib

from zf_cli import DONE, SOURCE, CommandTest, parse_cpus

MACHINES = SOURCE / "configs/machines"
DARK = "--blink-settings=preferredColorScheme=0"

# Run in the page when its own script is done: what a person sees of it, as numbers.
LOOK = """<script>
const painted = [...document.querySelectorAll("canvas")].map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, at) => at % 4 === 3 && value > 0).length / (canvas.width * canvas.height);
});
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const fetched = performance.getEntriesByType("resource").length;
document.body.insertAdjacentHTML("beforeend", `<pre id=seen>${JSON.stringify({ painted, wide, fetched })}</pre>`);
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

    def look(self, page="r.html", *options: str) -> dict:
        """What LOOK sees, after the page has drawn itself and complained of nothing."""
        text = (self.folder / page).read_text()
        (self.folder / "looked.html").write_text(text.replace("</body>", LOOK + "</body>"))
        dom, console = self.browse("looked.html", "--dump-dom", *options)
        self.assertEqual(console, "")
        seen = json.loads(dom.partition('<pre id="seen">')[2].partition("</pre>")[0])
        if "<canvas" in text:
            self.assertIn('data-charts="drawn"', dom[:200])
        return seen

    def simulate(self, machine: str):
        result = self.run_tune("tune", "--simulate", MACHINES / f"{machine}.json", "-q", "--report", "r.html")
        self.assert_exit(result, DONE)

    def test_draws_every_chart_and_fetches_nothing(self):
        for machine in sorted(path.stem for path in MACHINES.glob("*.json")):
            with self.subTest(machine=machine):
                self.simulate(machine)
                seen = self.look()
                self.assertEqual(len(seen["painted"]), 3)
                for part in seen["painted"]:
                    self.assertGreater(part, 0.01, "an empty chart")
                self.assertEqual(seen["fetched"], 0)

    def test_draws_a_plan_of_this_machine(self):
        brief = ("--budget", "2s", "--params", "1M")
        self.assert_exit(self.run_tune("tune", *brief, "-q", "--report", "r.html"), DONE)
        self.assertIn(len(self.look()["painted"]), (2, 3), "headroom is drawn if the plan has any")

    def test_draws_a_plan_without_evidence(self):
        self.make_plan("--topology", "pack:2 [numa] core:96 pu:2", "--ranks", "8")
        self.assert_exit(self.run_tune("explain", "--report", "r.html"), DONE)
        self.assertEqual(self.look()["painted"], [])

    def test_is_never_wider_than_its_window(self):
        self.simulate("xeon-6972p-2")
        for width in (1600, 1000, 500):
            with self.subTest(width=width):
                self.assertLessEqual(self.look("r.html", f"--window-size={width},900")["wide"], 0)

    def test_a_chart_that_fails_says_so_in_its_place(self):
        self.simulate("cloud-2vcpu")
        page = (self.folder / "r.html").read_text()
        (self.folder / "r.html").write_text(page.replace('"bandwidth":{"points"', '"bandwidth":{"nothing"'))
        dom, _ = self.browse("r.html", "--dump-dom")
        self.assertIn('data-charts="failed"', dom[:200])
        self.assertIn("This chart could not be drawn", dom)

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
        self.assertIn("Where this comes from", words)
        numbers = {int(word) for word in words.split() if word.isdecimal()}
        self.assertLessEqual(parse_cpus(self.read_plan()["machine"]["cpus"]), numbers)
        corner = run("pdftoppm", "-r", "20", "-f", "1", "-l", "1", "-png", "r.pdf")
        self.assertEqual(first_pixel(corner), (255, 255, 255))
