"""What reports of an engine plot: the times of its steps, and its work over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from antiphon.bench.series import Bins, Curve, Timeline, curves_ms, in_flight, num_bins
from antiphon.engine.telemetry import MAX_STEPS, StepRecord


class StepSeries(msgspec.Struct, frozen=True):
    """Of one row of the figures: distributions by name, and the run over time where it is one run."""

    curves_ms: dict[str, Curve] = {}
    timeline: Timeline | None = None


def step_series(seconds: Mapping[str, Sequence[float]], timeline: Timeline | None = None) -> StepSeries:
    """Names without values are left out."""
    return StepSeries(curves_ms(seconds), timeline)


def step_timeline(steps: Sequence[StepRecord], begun: float, ended: float) -> Timeline | None:
    """In flight is what runs before or after a step, and a step's tokens are spread over its time.

    None if the engine no longer has all steps.
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
        now = max(before, step.running)  # `running` is after the step: new requests, but not those that it ended
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
