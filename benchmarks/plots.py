"""Generate docs/images/*.svg from the tables of RESULTS.md: run `python benchmarks/plots.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
IMAGES = ROOT / "docs" / "images"

WIDTH, LABELS, VALUES = 800, 290, 120
BAR, GAP, GROUP_GAP, TOP = 15, 3, 13, 74
STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.note { fill: #59636e; font-size: 12px; }
.card { fill: #ffffff; stroke: #d1d9e0; }
.ours { fill: #0969da; }
.theirs { fill: #afb8c1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note { fill: #9198a1; }
  .card { fill: #0d1117; stroke: #3d444d; }
  .ours { fill: #4493f8; }
  .theirs { fill: #57606a; }
}"""


@dataclass(frozen=True)
class Pair:
    """Case of a plot: Antiphon's figure, another engine's, and their ratio as the table states it."""

    case: str
    ours: float
    theirs: float
    ratio: str


@dataclass(frozen=True)
class Plot:
    name: str
    title: str
    note: str
    other: str
    pairs: Sequence[Pair]


def table_rows(text: str, header: str) -> list[list[str]]:
    """Return the cells of the rows below the line that begins with `header`."""
    lines = text.splitlines()
    (start,) = (number for number, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows


def number(cell: str) -> float:
    """Return the first number of a cell."""
    found = re.search(r"\d[\d,]*(?:\.\d+)?", cell)
    assert found is not None, f"no number in {cell!r}"
    return float(found[0].replace(",", ""))


def plots(text: str) -> list[Plot]:
    """Read the plots from the text of RESULTS.md."""
    generation = [
        Pair(row[0].replace(" Q4_1", "").replace(" Q4_K_M", ""), number(row[1]), number(row[2]), row[3])
        for row in table_rows(text, "| model, case | ours, tok/s | llama.cpp's best, tok/s |")
    ]
    hearing = [
        Pair(f"{machine}, {row[0]}", 1 / number(row[1]), 1 / number(row[2]), row[3])
        for machine, header in (("ARM", "| ARM, 2 cores of a Neoverse-N1 |"), ("x86", "| x86, 2 of 16 cores"))
        for row in table_rows(text, header)
    ]
    speech, model = [], ""
    for row in table_rows(text, "| | case | ours | onnxruntime |"):
        model = row[0].partition(" (")[0].replace("`--precision fp32`", "fp32").replace("`", "") or model
        if model.startswith("Kokoro"):
            case = f"{model}, {row[1].removesuffix(', total')}"
            speech.append(Pair(case, 1 / number(row[2]), 1 / number(row[3]), row[4]))
    arm = "2 cores of an ARM Neoverse-N1, the same files; llama.cpp at its best setting. Longer is faster."
    times = "2 cores, the same files. Longer is faster."
    return [
        Plot("text", "Text generation: tokens per second", arm, "llama.cpp", generation),
        Plot(
            "transcription",
            "Whisper base: times real time",
            times,
            "faster-whisper, batched",
            hearing,
        ),
        Plot("speech", "Kokoro-82M: times real time", times, "onnxruntime", speech),
    ]


def svg(plot: Plot) -> str:
    """Draw two horizontal bars per case."""
    scale = (WIDTH - LABELS - VALUES) / max(max(pair.ours, pair.theirs) for pair in plot.pairs)
    group = 2 * BAR + GAP + GROUP_GAP
    height = TOP + group * len(plot.pairs) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(plot.title)}">',
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="20" y="30">{escape(plot.title)}</text>',
        f'<text class="note" x="20" y="50">{escape(plot.note)}</text>',
        *_legend(plot),
    ]
    for index, pair in enumerate(plot.pairs):
        top = TOP + index * group
        parts.append(f'<text x="{LABELS - 10}" y="{top + BAR + 6}" text-anchor="end">{escape(pair.case)}</text>')
        parts += _bar("ours", top, pair.ours * scale, f"{shown(pair.ours)} ({pair.ratio} ×)")
        parts += _bar("theirs", top + BAR + GAP, pair.theirs * scale, shown(pair.theirs))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(plot: Plot) -> list[str]:
    parts, left = [], WIDTH - 20 - 7.4 * len(plot.other) - 100
    for name, label in (("ours", "Antiphon"), ("theirs", plot.other)):
        parts.append(f'<rect class="{name}" x="{left:.0f}" y="20" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{left + 18:.0f}" y="31">{escape(label)}</text>')
        left += 90
    return parts


def _bar(name: str, top: float, length: float, label: str) -> list[str]:
    return [
        f'<rect class="{name}" x="{LABELS}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2"/>',
        f'<text class="note" x="{LABELS + length + 6:.1f}" y="{top + 12}">{escape(label)}</text>',
    ]


def shown(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


if __name__ == "__main__":
    IMAGES.mkdir(parents=True, exist_ok=True)
    for plot in plots(RESULTS.read_text(encoding="utf-8")):
        (IMAGES / f"{plot.name}.svg").write_text(svg(plot), encoding="utf-8")
