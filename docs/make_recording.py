"""Generate docs/images/terminal.svg from a real run: run `python docs/make_recording.py`.

The commands below run on a pseudo-terminal, and their output is recorded with its times. The picture plays once and
stays at its end; without animation it shows the end. Pauses are shortened to `LONGEST_PAUSE`, and notes that other
output takes the place of are removed.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

PATH = Path(__file__).parent / "images" / "terminal.svg"
COMMANDS = (
    'antiphon run "What is the capital of France?"',
    'antiphon speak "The choir answers in the evening light." -o choir.mp3',
    "antiphon transcribe choir.mp3",
)
COLUMNS = 100
LONGEST_PAUSE = 0.8
#: Dim note that ends with a carriage return: a command shows it while it loads a model.
PASSING = re.compile(r"\x1b\[2m[^\n]*\x1b\[0m\r")
#: Lines of figures and notes, which are drawn in grey.
FIGURES = re.compile(r"tok/s|real-time factor|\x1b\[2m")
SECONDS_PER_KEY = 0.025
CHARACTER, LINE = 8.4, 20
LEFT, TOP = 20, 58
STYLE = """\
text { font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
text { fill: #e6edf3; white-space: pre; }
.prompt { fill: #3fb950; }
.quiet { fill: #8b949e; }
.on { animation: hide 1ms steps(1) backwards; }
@keyframes hide { from { visibility: hidden; } to { visibility: hidden; } }
@media (prefers-reduced-motion: reduce) { .on { animation: none; } }"""


@dataclass
class Piece:
    """Text that appeared at a moment, in seconds from the beginning."""

    moment: float
    text: str
    kind: str = ""


def record(command: str, folder: Path) -> list[Piece]:
    """Run a command on a terminal; return its output in pieces with times."""
    terminal, inner = pty.openpty()
    variables = {**os.environ, "TERM": "dumb", "COLUMNS": "200", "NO_COLOR": "1"}  # `screen` breaks the lines
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    started = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=inner, stderr=inner, cwd=folder, env=variables
    )
    os.close(inner)
    pieces = []
    while data := _read(terminal):
        text = PASSING.sub("", data.decode("utf-8", "replace").replace("\r\n", "\n"))
        if not pieces or pieces[-1].text.endswith("\n"):
            text = text.lstrip("\n")  # a bar that such a terminal cannot draw leaves an empty line
        if text:
            pieces.append(Piece(time.monotonic() - started, text, "quiet" if FIGURES.search(text) else ""))
    os.close(terminal)
    if process.wait() != 0:
        sys.exit(f"{command!r} ended with {process.returncode}: {''.join(piece.text for piece in pieces)}")
    return pieces


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def session(commands: tuple[str, ...], folder: Path) -> list[Piece]:
    """Return the typed commands and their output, in the time of the picture."""
    pieces: list[Piece] = []
    now = 0.5
    for command in commands:
        pieces += [Piece(now, "\n")] if pieces else []
        pieces.append(Piece(now, "$ ", "prompt"))
        for index in range(0, len(command), 2):
            pieces.append(Piece(now + 0.3 + index * SECONDS_PER_KEY, command[index : index + 2]))
        now += 0.6 + len(command) * SECONDS_PER_KEY
        pieces.append(Piece(now, "\n"))
        before = 0.0
        for piece in record(command, folder):
            now += min(LONGEST_PAUSE, piece.moment - before)
            before = piece.moment
            pieces.append(Piece(now, piece.text, piece.kind))
        if not pieces[-1].text.endswith("\n"):
            pieces.append(Piece(now, "\n"))
        now += LONGEST_PAUSE
    return pieces


def screen(pieces: list[Piece]) -> list[list[Piece]]:
    """Split pieces into lines of at most COLUMNS characters."""
    lines: list[list[Piece]] = [[]]
    column = 0
    for piece in pieces:
        for part in re.findall(r"\n|[^\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", piece.text)):
            if part == "\n":
                lines.append([])
                column = 0
                continue
            while part:
                if column == COLUMNS:
                    lines.append([])
                    column = 0
                fits, part = part[: COLUMNS - column], part[COLUMNS - column :]
                lines[-1].append(Piece(piece.moment, fits, piece.kind))
                column += len(fits)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def svg(lines: list[list[Piece]]) -> str:
    """Draw a window with the lines; each piece is hidden until its moment."""
    width = round(2 * LEFT + COLUMNS * CHARACTER)
    height = TOP + LINE * (len(lines) - 1) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="A terminal session with Antiphon">',
        f"<style>\n{STYLE}\n</style>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="9" fill="#0d1117" stroke="#3d444d"/>',
    ]
    for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        parts.append(f'<circle cx="{22 + 20 * index}" cy="20" r="6" fill="{colour}"/>')
    for number, line in enumerate(lines):
        column = 0
        y = TOP + number * LINE
        for piece in line:
            x = LEFT + column * CHARACTER
            column += len(piece.text)
            if piece.text.strip():
                length = f'textLength="{len(piece.text) * CHARACTER:.1f}" xml:space="preserve"'
                shown = f'class="on {piece.kind}" style="animation-duration:{piece.moment:.2f}s"'
                parts.append(f'<text x="{x:.1f}" y="{y}" {length} {shown}>{escape(piece.text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PATH.write_text(svg(screen(session(COMMANDS, Path(folder)))), encoding="utf-8")
    print(f"{PATH}: {PATH.stat().st_size / 1000:.0f} kB")
