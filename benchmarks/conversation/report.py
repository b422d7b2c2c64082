"""Tables of a run's figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from conversation import protocol
from conversation.scenes import Figures

#: Labels of a turn's marks, in their usual order.
MARKS = {
    "transcription_started": "transcription begins (a guess)",
    "turn_decided": "end of turn decided",
    "transcript_final": "transcript final",
    "answer_started": "answer begins",
    "first_token": "first token",
    "first_clause": "first clause",
    "sound_made": "first sound made",
    "first_sound": "first sound sent",
}


def spread(values: Sequence[float]) -> str:
    if not values:
        return "none"
    return f"p50 {np.percentile(values, 50):.2f} s, p95 {np.percentile(values, 95):.2f} s ({len(values)})"


def rows(figures: Figures) -> list[tuple[str, str]]:
    turns = [turn for turn, _ in figures.pairs]
    first = [(turn, after) for turn, after in figures.pairs if turn.is_at_first_look]
    alike = [(turn, after) for turn, after in first if after.num_looks == 1]
    waited = [turn for turn in turns if turn.is_whole and not turn.is_at_first_look]
    same = sum(turn.answer.strip() == after.answer.strip() for turn, after in figures.pairs)
    made = [
        ("complete at the first look", spread([turn.seconds for turn, _ in first])),
        ("the same turns in sequence", spread([after.first_sound for _, after in alike])),
        ("turns that waited for the end-of-turn model", spread([turn.seconds for turn in waited])),
        ("sentences taken for several turns", str(sum(not turn.is_whole for turn in turns))),
        ("pairs with the same answer", f"{same} of {len(figures.pairs)}"),
    ]
    if alike:
        ratios = [after.first_sound / turn.seconds for turn, after in alike]
        made.insert(
            2, ("faster than in sequence", f"{statistics.median(ratios):.2f} x (median of {len(ratios)} pairs)")
        )
    if figures.interruptions:
        times = sorted(figures.interruptions)
        made.append(
            (
                "interruption, from onset to silence",
                f"p50 {1000 * statistics.median(times):.0f} ms, longest {1000 * times[-1]:.0f} ms ({len(times)})",
            )
        )
    if figures.crowd:
        made.append((f"{protocol.NUM_SESSIONS} sessions at once", spread([turn.seconds for turn in figures.crowd])))
        made.append(("gaps in their sound", str(sum(len(turn.gaps) for turn in figures.crowd))))
    latest = max((turn.late for turn in [*turns, *figures.crowd]), default=0.0)
    made.append(("the client was late by at most", f"{1000 * latest:.0f} ms"))
    made.append(("failures", str(len(figures.failures))))
    return made


def waterfall_rows(figures: Figures) -> list[tuple[str, str]]:
    """Return the median of each mark, from the detected end of speech, over turns complete at the first look."""
    turns = [turn for turn, _ in figures.pairs if turn.is_at_first_look]
    found = []
    for mark, words in MARKS.items():
        values = [turn.waterfall[mark] for turn in turns if mark in turn.waterfall]
        if values:
            found.append((words, f"{statistics.median(values):.0f} ms"))
    heard = [1000 * turn.seconds - turn.waterfall["first_sound"] for turn in turns if "first_sound" in turn.waterfall]
    if heard:
        found.append(
            (
                "end of speech heard after it was annotated, and silence before the answer",
                f"{statistics.median(heard):.0f} ms",
            )
        )
    return found


def markdown(title: str, figures: Figures) -> str:
    lines = [f"### {title}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows(figures)]
    lines += ["", "| median of | from the end of speech |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in waterfall_rows(figures)]
    return "\n".join(lines)
