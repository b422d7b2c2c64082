"""Plotted data of an engine's reports: step times, and work over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from antiphon.bench.series import Bins, Curve, Timeline, curves_ms, in_flight, num_bins
from antiphon.engine.telemetry import MAX_STEPS, StepRecord


class StepSeries(msgspec.Struct, frozen=True):
    """Plotted data of a row of figures: distributions by name, and a timeline if the row is a single run."""

    curves_ms: dict[str, Curve] = {}
    timeline: Timeline | None = None


def step_series(seconds: Mapping[str, Sequence[float]], timeline: Timeline | None = None) -> StepSeries:
    """Build a series from step times by name; names without values are left out."""
    return StepSeries(curves_ms(seconds), timeline)


def step_timeline(steps: Sequence[StepRecord], begun: float, ended: float) -> Timeline | None:
    """Build the timeline of a run, with a step's tokens spread over its time.

    In flight are the requests that run before or after a step. Return None if the engine no longer has all steps.
    """
    if not steps or len(steps) >= MAX_STEPS or ended <= begun:
        return None
    bins = Bins(begun, ended, num_bins(sum(step.decode_tokens for step in steps)))
    decoded, prompts = [0.0] * bins.count, [0.0] * bins.count
    changes, level, before = [(begun, 0)], 0, 0
    for step in steps:
        until = min(ended, step.start + step.seconds)
        bins.spread(decoded, step.decode_tokens, step.start, until)
        bins.spread(prompts, step.prefill_tokens, step.start, until)
        now = max(before, step.running)  # `running` includes new requests, but none that the step ended
        changes.append((step.start, now - level))
        level, before = now, step.running
    mean, least, most = in_flight(bins, [*changes, (ended, -level)])
    return Timeline(
        bins.width,
        [round(count, 4) for count in decoded],
        mean,
        least,
        most,
        prompt_tokens=[round(count, 4) for count in prompts],
    )
