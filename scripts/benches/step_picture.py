"""Draws one step that hides behind forward: what training, the copies and the optimizer process did, and when."""

from typing import NamedTuple

# Lanes from top to bottom: the kinds of spans in each, and their colour.
LANES = (("forward and backward", ("forward", "backward"), "#4e79a7"),
         ("step(): last gradient", ("copy", "check"), "#e15759"),
         ("forward waits", ("wait",), "#e15759"), ("optimizer process: step", ("step",), "#f28e2b"),
         ("parameters to training", ("send",), "#76b7b2"))
LEFT, WIDTH, LANE, BAR = 190, 900, 34, 20


class Bar(NamedTuple):
    kind: str
    begin_ns: int
    end_ns: int


def draw(bars: list[Bar], begin_ns: int, end_ns: int, title: str) -> str:
    """Returns an SVG of the bars between two times."""
    def x(ns: int) -> float:
        return LEFT + WIDTH * (min(max(ns, begin_ns), end_ns) - begin_ns) / (end_ns - begin_ns)

    height = 30 + LANE * len(LANES) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
             'font-family="sans-serif" font-size="13">',
             f"<title>{title}</title>", '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{LEFT}" y="18">{title}</text>']
    for number, (name, kinds, colour) in enumerate(LANES):
        top = 30 + LANE * number
        parts.append(f'<text x="{LEFT - 8}" y="{top + 15}" text-anchor="end">{name}</text>')
        parts += [f'<rect x="{x(bar.begin_ns):.1f}" y="{top}" width="{max(0.6, x(bar.end_ns) - x(bar.begin_ns)):.1f}" '
                  f'height="{BAR}" fill="{colour}" stroke="white" stroke-width="0.5"/>'
                  for bar in bars if bar.kind in kinds and bar.end_ns > begin_ns and bar.begin_ns < end_ns]
    bottom = 30 + LANE * len(LANES)
    length_ms = (end_ns - begin_ns) / 1e6
    for ms in range(0, int(length_ms) + 1, 10 if length_ms < 150 else 20):
        at = x(begin_ns + int(ms * 1e6))
        parts += [f'<line x1="{at:.1f}" y1="30" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>',
                  f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{ms} ms</text>']
    return "\n".join([*parts, "</svg>", ""])
