"""Draws the held-out losses of all ways as SVG: the losses above, and their differences from fp32 below."""

import statistics

from conclude import Results
from ways import REFERENCE, WAYS

WIDTH, HEIGHT, LEFT, RIGHT, GAP = 760, 250, 60, 190, 40
COLORS = dict(zip(WAYS, ("#000000", "#999999", "#0072b2", "#009e73", "#cc79a7", "#d55e00")))


def means(results: Results, way: str) -> dict[int, float]:
    """Returns the mean over seeds of the held-out loss after each pictured step."""
    losses: dict[int, list[float]] = {}
    for (name, _), result in results.items():
        for step, loss in result["losses"] if name == way else ():
            losses.setdefault(step, []).append(loss)
    return {step: statistics.mean(values) for step, values in losses.items()}


def panel(top: int, title: str, lines: dict[str, dict[int, float]], digits: int) -> str:
    """Returns one panel: its title, the ends of its axis, and a line for each way."""
    values = [value for line in lines.values() for value in line.values()]
    low, high = min(values), max(values)
    last = max(step for line in lines.values() for step in line)

    def y(value: float) -> float:
        return top + HEIGHT - (value - low) / (high - low or 1) * HEIGHT

    parts = [f'<text x="{LEFT}" y="{top - 10}" font-weight="bold">{title}</text>',
             f'<path d="M{LEFT} {top}V{top + HEIGHT}H{WIDTH - RIGHT}" fill="none" stroke="#666"/>',
             f'<text x="{WIDTH - RIGHT}" y="{top + HEIGHT + 16}" text-anchor="end">{last} steps</text>']
    parts += [f'<text x="{LEFT - 6}" y="{y(value) + 4:.0f}" text-anchor="end">{value:.{digits}f}</text>'
              for value in (low, high)]
    for way, line in lines.items():
        points = " ".join(f"{LEFT + step / last * (WIDTH - RIGHT - LEFT):.1f},{y(value):.1f}"
                          for step, value in line.items())
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[way]}" stroke-width="1.5"/>')
    return "\n".join(parts)


def picture(results: Results) -> str:
    """Returns the picture as SVG."""
    lines = {way: means(results, way) for way in WAYS}
    reference = lines[REFERENCE]
    apart = {way: {step: 100 * (loss / reference[step] - 1) for step, loss in line.items()}
             for way, line in lines.items()}
    second = 30 + HEIGHT + GAP + 20
    names = [f'<text x="{WIDTH - RIGHT + 12}" y="{46 + 18 * row}" fill="{COLORS[way]}">{way}</text>'
             for row, way in enumerate(WAYS)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{second + HEIGHT + 30}" '
        'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>', *names,
        panel(30, "held-out loss, nats (mean over seeds)", lines, 2),
        panel(second, "difference from fp32, percent", apart, 1), "</svg>\n"])
