"""`antiphon bench latency` and `throughput`: an engine in this process, without a server.

Prompts are random token ids of equal length. Answers have equal length too: end-of-text tokens are ignored by default.
The prefix cache is off. Times come from two clocks: the engine's own step times, and the time until the caller has
every token.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from antiphon.bench.engine.engine_series import StepSeries, step_series, step_timeline
from antiphon.bench.result_files import origin
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.modes import Speculation
from antiphon.engine.telemetry import StepRecord
from antiphon.errors import InvalidRequestError
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import CacheKind, CacheLayout
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import PAGE_TYPES, SLABS_WANTED, EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.text.output import Completion

#: Lowest token id used: lower ids are control tokens in many vocabularies.
FIRST_TOKEN = 100
WARM_UP_TOKENS = 4
#: Parts of a step in which the device computes.
DEVICE_PARTS = ("run", "sample")


@dataclass(frozen=True)
class EngineWorkload:
    """Work of a measurement. `max_step_tokens` is the maximum number of prompt tokens in a step."""

    input_tokens: int
    output_tokens: int
    temperature: float = 0.0
    ignore_eos: bool = True
    seed: int = 0
    kv_type: str | None = None  # default: the device's page type
    max_step_tokens: int = 2048
    batch_invariant: bool = False
    speculate: str = Speculation.OFF

    def check(self, loaded: LoadedModel) -> None:
        total, limit = self.input_tokens + self.output_tokens, loaded.model.max_positions
        if total > limit:
            raise InvalidRequestError(
                f"{self.input_tokens} tokens in and {self.output_tokens} out are {total}; model {loaded.name!r} takes "
                f"{limit}"
            )

    def prompts(self, count: int, vocab_size: int, salt: str = "") -> list[list[int]]:
        source = random.Random(f"{self.seed} {salt}")
        first = min(FIRST_TOKEN, vocab_size // 2)
        return [[source.randrange(first, vocab_size) for _ in range(self.input_tokens)] for _ in range(count)]

    def params(self, output_tokens: int | None = None) -> SamplingParams:
        return SamplingParams(
            max_tokens=output_tokens or self.output_tokens,
            temperature=self.temperature,
            ignore_eos=self.ignore_eos,
            seed=self.seed,
        )


@dataclass(frozen=True)
class LatencyFigures:
    """Figures of a batch size, from steps in which every sequence gets a token; times in milliseconds.

    `device_ms` is the device's computing time per step, `step_ms` the whole step by the engine's clock. `delivered_ms`
    is the time from the first of these steps until the caller has all tokens, divided by the number of steps in that
    time.
    """

    batch: int
    steps: int
    first_token_ms: float
    device_ms: float
    step_ms: float
    delivered_ms: float
    tokens_per_second: float
    weight_gigabytes_per_second: float


@dataclass(frozen=True)
class ThroughputFigures:
    """Figures of all prompts together, from their submission until the caller has every token.

    `device_share` is the part of that time in which the device computes. Of the `drafted_tokens`, `accepted_tokens`
    became part of the answers.
    """

    prompts: int
    seconds: float
    input_tokens: int
    output_tokens: int
    output_tokens_per_second: float
    total_tokens_per_second: float
    prefill_tokens_per_second: float
    steps: int
    device_share: float
    drafted_tokens: int
    accepted_tokens: int


def bench_latency(
    loaded: LoadedModel, workload: EngineWorkload, batches: Sequence[int], rounds: int = 1
) -> dict[str, Any]:
    """Measure each batch size; return the result with figures in the given order."""
    figures, series = [], []
    for batch in batches:
        with _engine(loaded, workload, batch) as engine:
            measured, plotted = _latency(engine, loaded, workload, batch, rounds)
        figures.append(asdict(measured))
        series.append(plotted)
    return _result("latency", loaded, workload, figures, series)


def bench_throughput(
    loaded: LoadedModel, workload: EngineWorkload, num_prompts: int, max_running: int, warm_runs: int = 0
) -> dict[str, Any]:
    """Measure all prompts, with at most `max_running` computed together.

    On a GPU, a step of a new size compiles kernels; `warm_runs` runs of the whole work beforehand cover every size.
    """
    with _engine(loaded, workload, num_prompts, max_running) as engine:
        for number in range(warm_runs):
            _run(engine, loaded, workload, num_prompts, f"warm {number}")
        run = _run(engine, loaded, workload, num_prompts, "measured")
    seconds = run.ended - run.begun
    output = sum(len(completion.token_ids) for completion in run.completions)
    prefill = [step for step in run.steps if step.prefill_tokens]
    inputs = num_prompts * workload.input_tokens
    figures = ThroughputFigures(
        prompts=num_prompts,
        seconds=seconds,
        input_tokens=inputs,
        output_tokens=output,
        output_tokens_per_second=output / seconds,
        total_tokens_per_second=(inputs + output) / seconds,
        prefill_tokens_per_second=sum(step.prefill_tokens for step in prefill) / sum(step.seconds for step in prefill),
        steps=len(run.steps),
        device_share=sum(map(device_seconds, run.steps)) / seconds,
        drafted_tokens=sum(completion.drafted_tokens for completion in run.completions),
        accepted_tokens=sum(completion.accepted_tokens for completion in run.completions),
    )
    decodes = [step.seconds for step in run.steps if not step.prefill_tokens]
    by_kind = {"decode": decodes, "with_prompts": [step.seconds for step in prefill]}
    series = step_series(by_kind, step_timeline(run.steps, run.begun, run.ended))
    return _result("throughput", loaded, workload, [asdict(figures)], [series]) | {"max_running": max_running}


@dataclass(frozen=True)
class _Run:
    completions: list[Completion]
    steps: list[StepRecord]
    begun: float
    ended: float


def _run(engine: Engine, loaded: LoadedModel, workload: EngineWorkload, count: int, salt: str) -> _Run:
    """Warm up, then generate answers to new prompts."""
    vocab_size = loaded.model.vocab_size
    engine.generate(workload.prompts(count, vocab_size, "warm-up"), workload.params(WARM_UP_TOKENS))
    prompts = workload.prompts(count, vocab_size, salt)
    begun = time.perf_counter()
    completions = engine.generate(prompts, workload.params())
    ended = time.perf_counter()
    return _Run(completions, [step for step in engine.step_records() if step.start >= begun], begun, ended)


def _latency(
    engine: Engine, loaded: LoadedModel, workload: EngineWorkload, batch: int, rounds: int
) -> tuple[LatencyFigures, StepSeries]:
    full: list[StepRecord] = []
    firsts: list[float] = []
    delivered: list[float] = []
    for number in range(rounds):
        run = _run(engine, loaded, workload, batch, str(number))
        own = [step for step in run.steps if step.decode_tokens == batch and not step.prefill_tokens]
        if not own:
            raise InvalidRequestError(
                f"no step computed all {batch} sequences together: {workload.output_tokens} output tokens are too few"
            )
        after = [step for step in run.steps if step.start >= own[0].start]
        full += own
        firsts += [completion.timings.time_to_first_token for completion in run.completions]
        delivered.append((run.ended - own[0].start) / len(after))
    device, step = (statistics.median(map(clock, full)) for clock in (device_seconds, lambda one: one.seconds))
    seconds = statistics.median(delivered)
    series = step_series({"first_token": firsts, "step": [one.seconds for one in full]})
    figures = LatencyFigures(
        batch=batch,
        steps=len(full),
        first_token_ms=statistics.median(firsts) * 1e3,
        device_ms=device * 1e3,
        step_ms=step * 1e3,
        delivered_ms=seconds * 1e3,
        tokens_per_second=batch / seconds,
        weight_gigabytes_per_second=loaded.bytes_per_step() / device / 1e9,
    )
    return figures, series


def device_seconds(step: StepRecord) -> float:
    """Return the seconds of a step in which the device computes."""
    return sum(step.parts.get(part, 0.0) for part in DEVICE_PARTS)


@contextmanager
def _engine(
    loaded: LoadedModel, workload: EngineWorkload, count: int, max_running: int | None = None
) -> Iterator[Engine]:
    """Start an engine with room for all sequences that run together."""
    loaded.causal_lm()
    workload.check(loaded)
    running = min(count, max_running or count)
    base = EngineConfig(key_type=workload.kv_type, value_type=workload.kv_type)
    config = EngineConfig(
        device=loaded.device.name,
        kv_bytes=_kv_bytes(loaded, base, running, workload.input_tokens + workload.output_tokens),
        key_type=workload.kv_type,
        value_type=workload.kv_type,
        prefix_caching=False,
        max_running=running,
        max_waiting=count,
        max_step_tokens=max(workload.max_step_tokens, running),
        chunk_tokens=None,
        batch_invariant=workload.batch_invariant,
        speculate=workload.speculate,
    )
    with Engine(loaded, config=config) as engine:
        yield engine


def _kv_bytes(loaded: LoadedModel, config: EngineConfig, sequences: int, length: int) -> int:
    decoder = loaded.model.part(TokenDecoder)
    assert decoder is not None
    blocks = length // config.block_tokens + 2
    sizes = config.sizes(loaded.device)
    key, value = PAGE_TYPES[sizes.key_type], PAGE_TYPES[sizes.value_type]
    groups = [group for group in decoder.cache_groups if group.kind is not CacheKind.CROSS]
    layouts = [CacheLayout(group, config.block_tokens, key_dtype=key, value_dtype=value) for group in groups]
    # A slab belongs to a single group, so a part of a group's last slab may stay unused.
    needed = sum(layout.block_bytes for layout in layouts) * blocks * (sequences + 1) * 9 // 8 + (64 << 20)
    return max(needed, 2 * SLABS_WANTED * max(layout.block_bytes for layout in layouts))  # a slab holds whole blocks


def _result(
    kind: str,
    loaded: LoadedModel,
    workload: EngineWorkload,
    figures: list[dict[str, Any]],
    series: list[StepSeries],
) -> dict[str, Any]:
    return {
        **origin(kind),
        "model": loaded.name,
        "backend": loaded.report.backend,
        "weights": loaded.report.weights(),
        "bytes_per_step": loaded.bytes_per_step(),
        "workload": asdict(workload),
        "figures": figures,
        "series": msgspec.to_builtins(series),
    }
