"""Writes the study as one page for a browser, with charts in SVG. It loads nothing and has no script."""

import html
import math

import conclusions
import details
import markdown
import matrix
from conclusions import FAILED, FASTER, SLOWER, Row
from results import Results
from simulated import Simulated

# Okabe and Ito, for colour-blind readers. Each verdict has a form too.
COLOURS = {FASTER: "#009e73", SLOWER: "#d55e00"}
OTHER = "#56a0c8"
NAME_WIDTH, PLOT_WIDTH, TEXT_WIDTH, ROW = 190, 470, 250, 24
SHORT = 22  # characters of a cell that is not broken
STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #c9d1da; --paper: #ffffff; --card: #f5f7f9 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #a0abba; --line: #3a4452; --paper: #14181e;
  --card: #1c222a } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1000px;
  margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em; line-height: 1.25 } h2 { margin-top: 2em; border-bottom: 1px solid var(--line) }
h3 { margin-bottom: .3em }
figure { margin: 1em 0; padding: .8em 1em; background: var(--card); border-radius: 8px; overflow-x: auto }
figcaption { color: var(--soft); font-size: .9em; margin-top: .4em }
.simulated { outline: 2px dashed #cc79a7 } .simulated figcaption::before { content: "SIMULATED. "; font-weight: 700;
  color: #cc79a7 }
table { border-collapse: collapse; font-size: .88em; width: 100% } .wide { overflow-x: auto }
th, td { text-align: left; padding: .3em .6em; border-bottom: 1px solid var(--line); vertical-align: top }
.short { white-space: nowrap }
th { color: var(--soft); font-weight: 600 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em } dt { color: var(--soft) } dd { margin: 0 }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink) } svg .soft { fill: var(--soft); font-size: 12px }
svg .grid { stroke: var(--line); stroke-width: 1 } svg .one { stroke: var(--ink); stroke-width: 1.5 }
code { font-size: .92em }
"""


def escape(text: str) -> str:
    """Returns HTML of a text with Markdown's `code` and **strong**."""
    parts = html.escape(text).split("`")
    text = "".join(f"<code>{part}</code>" if odd % 2 else part for odd, part in enumerate(parts))
    parts = text.split("**")
    return "".join(f"<strong>{part}</strong>" if odd % 2 else part for odd, part in enumerate(parts))


def table_html(markdown_table: str) -> str:
    """Returns a Markdown table as HTML."""
    lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in markdown_table.splitlines()]
    head, rows = lines[0], lines[2:]
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td{' class=short' if len(cell) <= SHORT else ''}>{escape(cell)}</td>"
                                   for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def scale_of(values: list[float]) -> tuple[float, float]:
    """Returns the ends of a logarithmic axis of ratios that holds 1 and these values, with some room."""
    finite = [value for value in values if value > 0 and math.isfinite(value)]
    reach = max([abs(math.log(value)) for value in finite], default=0.0)
    reach = min(max(reach * 1.1, math.log(1.05)), math.log(8))
    return math.exp(-reach), math.exp(reach)


def ticks_of(low: float, high: float) -> list[float]:
    """Returns ratios to write at an axis: some of 1 and its neighbours."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        ticks = [1 + step * n for n in range(-100, 1000) if low <= 1 + step * n <= high]
        if len(ticks) <= 9:
            return ticks
    return [value for value in (0.125, 0.25, 0.5, 1, 2, 4, 8) if low <= value <= high]


def ratio_chart(rows: list[tuple[str, float, float, float, str]], axis: str) -> str:
    """Returns an SVG of ratios with their intervals: (name, ratio, low, high, text)."""
    low, high = scale_of([value for row in rows for value in row[1:4]])
    height = ROW * len(rows) + 46

    def x(value: float) -> float:
        value = min(max(value, low), high)
        return NAME_WIDTH + PLOT_WIDTH * math.log(value / low) / math.log(high / low)

    parts = []
    for tick in ticks_of(low, high):
        style = "one" if abs(tick - 1) < 1e-9 else "grid"
        parts.append(f'<line class="{style}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="6" y2="{height - 38}"/>'
                     f'<text class="soft" text-anchor="middle" x="{x(tick):.1f}" y="{height - 22}">{tick:.3g}</text>')
    for number, (name, ratio, down, up, text) in enumerate(rows):
        y = 6 + ROW * (number + 0.5)
        colour = COLOURS.get(conclusions.verdict_of(down, up), OTHER)
        parts.append(f'<text x="0" y="{y + 4}">{html.escape(name)}</text>'
                     f'<line stroke="{colour}" stroke-width="3" x1="{x(down):.1f}" x2="{x(up):.1f}" y1="{y}" y2="{y}"/>'
                     + mark(x(ratio), y, conclusions.verdict_of(down, up), colour)
                     + f'<text class="soft" x="{NAME_WIDTH + PLOT_WIDTH + 14}" y="{y + 4}">{html.escape(text)}</text>')
    parts.append(f'<text class="soft" x="{NAME_WIDTH}" y="{height - 4}">{html.escape(axis)}</text>')
    return svg(height, "".join(parts))


def mark(x: float, y: float, verdict: str, colour: str) -> str:
    """Returns a filled triangle that points to where the time goes, or an open circle where nothing is shown."""
    if verdict in (FASTER, SLOWER):
        side = -1 if verdict == FASTER else 1
        return f'<path fill="{colour}" d="M{x - 6 * side:.1f} {y - 7}V{y + 7}L{x + 7 * side:.1f} {y}Z"/>'
    return f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="var(--card)" stroke="{colour}" stroke-width="2.5"/>'


def bar_chart(rows: list[tuple[str, float, str, str]], axis: str) -> str:
    """Returns an SVG of bars from 0: (name, value, colour, text)."""
    most = max((value for _, value, _, _ in rows), default=1.0)
    height = ROW * len(rows) + 26
    parts = []
    for number, (name, value, colour, text) in enumerate(rows):
        y = 6 + ROW * number
        parts.append(f'<text x="0" y="{y + 16}">{html.escape(name)}</text>'
                     f'<rect fill="{colour}" x="{NAME_WIDTH}" y="{y + 3}" width="{PLOT_WIDTH * value / most:.1f}" '
                     f'height="{ROW - 6}" rx="2"/><text class="soft" '
                     f'x="{NAME_WIDTH + PLOT_WIDTH * value / most + 8:.1f}" y="{y + 16}">{html.escape(text)}</text>')
    parts.append(f'<text class="soft" x="{NAME_WIDTH}" y="{height - 4}">{html.escape(axis)}</text>')
    return svg(height, "".join(parts))


def svg(height: float, inside: str) -> str:
    width = NAME_WIDTH + PLOT_WIDTH + TEXT_WIDTH
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">{inside}</svg>'


def figure(chart: str, caption: str, simulated: bool = False) -> str:
    kind = ' class="simulated"' if simulated else ""
    return f"<figure{kind}>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


LEGEND = "Triangle: the 95 % interval excludes 1 (left: less time, right: more). Circle: no difference is shown."


def ratios_figure(rows: list[Row]) -> str:
    shown = [row for row in rows if row.blocks and row.arm != matrix.UNBOUND]
    lines = [(matrix.ARMS[row.arm], row.ratio, row.low, row.high,
              f"{row.ratio:.3f} (one block)" if math.isinf(row.high) else
              f"{row.ratio:.3f} ({row.low:.3f} to {row.high:.3f})") for row in shown]
    failed = [matrix.ARMS[row.arm] for row in rows if row.verdict == FAILED]
    caption = f"Time of a step, divided by that of the same job unbound. {LEGEND}"
    if failed:
        caption += f" Failed, and not drawn: {', '.join(failed)}."
    return figure(ratio_chart(lines, "÷ unbound: left of 1 is less time"), caption) if lines else ""


def times_figure(rows: list[Row]) -> str:
    colours = {FASTER: COLOURS[FASTER], SLOWER: COLOURS[SLOWER]}
    lines = [(matrix.ARMS[row.arm], row.ms, colours.get(row.verdict, OTHER), f"{row.ms:.1f} ms") for row in rows
             if row.blocks]
    return figure(bar_chart(lines, "ms per step"), "Median over blocks. Compare by the ratios above, which are formed "
                  "within blocks.") if lines else ""


def simulated_figure(rows: list[Simulated]) -> str:
    lines = [(row.job, row.ratio, row.low, row.high, f"{row.ratio:.3f} ({row.low:.3f} to {row.high:.3f})")
             for row in rows]
    first = rows[0]
    caption = (f"{first.machine}, {first.cores} cores, {first.ranks} {'rank' if first.ranks == 1 else 'ranks'}: period "
               f"of the chosen split, divided by that of unbound, both by formula. {LEGEND}")
    return figure(ratio_chart(lines, "simulated: plan ÷ unbound"), caption, simulated=True)


def page_of(results: Results, cannot: dict[str, str], simulated: list[Simulated], command: str) -> str:
    """Returns the page."""
    rows = markdown.all_rows(results)
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
                    for name, text in markdown.facts_of(results, command).items())
    groups = [(group, conclusions.rows_of(results, group)) for group in results.groups()]
    titles = markdown.titles_of(results.groups())
    advice = "".join(f"<li><strong>{escape(titles[group])}</strong>: "
                     f"{escape(conclusions.advice_of(its))}</li>" for group, its in groups)
    charts = "".join(f"<h3>{escape(titles[group])}</h3>{ratios_figure(its)}{times_figure(its)}"
                     f"{table_html(details.group_table(its))}" for group, its in groups)
    machines = dict.fromkeys(row.machine for row in simulated)
    drawn = "".join(simulated_figure([row for row in simulated if row.machine == machine]) for machine in machines)
    missing = "".join(f"<li>{escape(line.removeprefix('- '))}</li>"
                      for line in markdown.not_run(results, cannot).splitlines())
    method = "".join(f"<p>{escape(part)}</p>" for part in markdown.method_text(results.settings).split("\n\n"))
    body = f"""<h1>What binding and our optimizer change for real jobs</h1>
<dl>{facts}</dl>
<h2>What to set</h2><ul>{advice}</ul><p>{escape(markdown.count_text(rows))}</p>
<h2>Measured on this machine</h2>{charts}
<h2>How practical each way is</h2>{table_html(markdown.practice_table(rows))}
<h2>Where threads and pages were</h2>{table_html(details.placement_table(rows))}
<h2>The plans</h2>{table_html(details.plans_table(results))}
<h2>Not run</h2><ul>{missing}</ul>
<h2>Simulated machines</h2>
<p>{escape(markdown.why_simulated(results.settings))}</p>
{drawn}<figure class="simulated">{table_html(markdown.simulated_table(simulated))}<figcaption>All columns are results of
formulas.</figcaption></figure>
<h2>How it was measured</h2>{method}"""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>zf-tune: the study</title><style>{STYLE}</style></head><body>
{body}
</body></html>
"""
