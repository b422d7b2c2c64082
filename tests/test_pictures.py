"""The pictures of the docs: drawn from today's figures and commands, small, and well-formed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from support.source.scripts import script

ROOT = Path(__file__).parents[1]
IMAGES = sorted((ROOT / "docs" / "images").glob("*.svg"))
MAX_BYTES = 100_000
SVG = "{http://www.w3.org/2000/svg}"


plots = script("benchmarks/plots.py")
recording = script("docs/make_recording.py")


def test_plots_are_current() -> None:
    drawn = plots.plots((ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"))
    assert [len(plot.pairs) for plot in drawn] == [9, 4, 5]
    for plot in drawn:
        stored = (ROOT / "docs" / "images" / f"{plot.name}.svg").read_text(encoding="utf-8")
        assert stored == plots.svg(plot), "run python benchmarks/plots.py"


def test_a_plot_follows_the_table() -> None:
    text = "x\n\n| case | ours | theirs | ratio |\n|---|---|---|---|\n| one | 1,200.5, best | 4 of 5 | 300 |\n\ny\n"
    assert plots.table_rows(text, "| case |") == [["one", "1,200.5, best", "4 of 5", "300"]]
    assert plots.number("1,200.5, best") == 1200.5
    pairs = [plots.Pair("one", 100.0, 50.0, "2.00"), plots.Pair("two & more", 10.0, 20.0, "0.50")]
    root = ElementTree.fromstring(plots.svg(plots.Plot("p", "Title", "", "other", pairs)))
    bars = [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect") if bar.get("x") == str(plots.LABELS)]
    assert bars == pytest.approx([bars[0], bars[0] / 2, bars[0] / 10, bars[0] / 5])
    assert "two & more" in [text.text for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_pictures_are_small_and_well_formed(path: Path) -> None:
    assert path.stat().st_size < MAX_BYTES
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg" and root.get("aria-label")
    width = float(root.attrib["width"])
    for text in root.iter(f"{SVG}text"):
        assert float(text.attrib["x"]) + float(text.get("textLength", "0")) <= width


def test_the_recording_shows_the_commands_of_its_script() -> None:
    root = ElementTree.parse(recording.PATH).getroot()
    shown = "".join(text.text or "" for text in root.iter(f"{SVG}text"))
    for command in recording.COMMANDS:
        assert re.sub(r"\s", "", command) in re.sub(r"\s", "", shown), "run python docs/make_recording.py"


def test_a_recording_has_times_lines_and_no_control_characters(tmp_path: Path) -> None:
    command = "printf 'first\\nsecond\\033[1m bold\\033[0m'; echo '; 9 tok/s' >&2"
    lines = recording.screen(recording.session((command,), tmp_path))
    text = ["".join(piece.text for piece in line) for line in lines]
    assert text[0] == f"$ {command}"[: recording.COLUMNS]
    assert "first" in "".join(text) and "second bold" in "".join(text) and "9 tok/s" in "".join(text)
    moments = [piece.moment for line in lines for piece in line]
    assert moments == sorted(moments)
    assert {piece.kind for line in lines for piece in line} == {"", "prompt", "quiet"}


def test_a_command_that_fails_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        recording.record("echo no; exit 3", tmp_path)
