"""Runs ctest, and says before its summary why tests were skipped: how many, for which reason.

usage: run_ctest.py FOLDER CTEST [ARGUMENTS...]    (FOLDER: the build folder that ctest reads)

Everything that ctest prints is passed on, line by line; its summary comes last. The exit status is that of ctest.
scripts/lib.sh uses this.
"""

import ast
import collections
import pathlib
import re
import signal
import subprocess
import sys

SUMMARY = re.compile(rb"\d+% tests passed\b.* out of \d+")
RESULT = re.compile(rb" *\d+/\d+ Test +#\d+: ")
SKIPPED = re.compile(RESULT.pattern + rb"(.*?) \.*\*\*\*Skipped")
NO_REASON = "no reason given"


def outputs_of(log: str) -> dict[str, str]:
    """Returns what each test printed, by its name, from ctest's LastTest.log."""
    outputs: dict[str, list[str]] = {}
    name, lines = "", None
    for line in log.splitlines():
        if found := re.fullmatch(r"\d+/\d+ Test: (.*)", line):
            name, lines = found[1], None
        elif line == "Output:":
            lines = outputs[name] = []
        elif line == "<end of output>":
            lines = None
        elif lines is not None:
            lines.append(line)
    return {name: "\n".join(lines) for name, lines in outputs.items()}


def reason_in(output: str) -> str:
    """Returns why a test skipped, as GoogleTest, Python's unittest or a line "skipped: reason" says it."""
    reasons = [found.strip() for found in re.findall(r"^.*:\d+: Skipped\n(.*)", output, re.MULTILINE)]
    for literal in re.findall(r"(?:^|\.\.\. )skipped ('.*'|\".*\")$", output, re.MULTILINE):
        reasons.append(ast.literal_eval(literal))
    reasons += re.findall(r"^skipped: (.*)", output, re.MULTILINE)
    return "; ".join(dict.fromkeys(filter(None, reasons))) or NO_REASON


def reasons_with_counts(skipped: list[str], outputs: dict[str, str]) -> list[str]:
    """Returns a line for each reason. The most frequent comes first."""
    counts = collections.Counter(reason_in(outputs.get(name, "")) for name in skipped)
    return [f"skipped: {count} {'test' if count == 1 else 'tests'}: {reason}"
            for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def main() -> int:
    folder, *command = sys.argv[1:]
    # ctest is in the same process group, so Ctrl-C ends it; this process stays to print what ctest still says.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    ctest = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert ctest.stdout is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: ctest.send_signal(number))

    skipped: list[str] = []
    summary: list[bytes] = []
    for line in ctest.stdout:
        if found := SKIPPED.match(line):
            skipped.append(found[1].decode(errors="replace"))
        if summary and RESULT.match(line):  # that was no summary of this ctest, but a line that a failed test printed
            sys.stdout.buffer.writelines(summary)
            summary = []
        if summary or SUMMARY.match(line):
            summary.append(line)
            continue
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    status = ctest.wait()

    if skipped and summary:
        log = pathlib.Path(folder, "Testing/Temporary/LastTest.log")
        outputs = outputs_of(log.read_text(errors="replace")) if log.exists() else {}
        print(*reasons_with_counts(skipped, outputs), "", sep="\n", flush=True)
    sys.stdout.buffer.writelines(summary)
    sys.stdout.flush()
    if status < 0:  # ended by a signal: end in the same way
        signal.signal(-status, signal.SIG_DFL)
        signal.raise_signal(-status)
    return status


if __name__ == "__main__":
    sys.exit(main())
