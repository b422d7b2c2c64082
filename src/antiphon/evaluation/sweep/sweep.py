"""`antiphon eval --sweep`: every setting measured on one text, in one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

from antiphon.bench.load.objectives import Objectives
from antiphon.bench.result_files import origin
from antiphon.errors import AntiphonError
from antiphon.evaluation.results import figures, figures_json
from antiphon.evaluation.run import Progress, run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.sweep.divergence import compared_tokens, divergence, reference_rows
from antiphon.evaluation.sweep.speed import measure_speed
from antiphon.evaluation.task import EvaluationTask
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import CacheKind, CacheLayout
from antiphon.runtime.loading.config import PAGE_TYPES
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.process_memory import return_memory

KIND = "eval-sweep"


@dataclass(frozen=True)
class Measured:
    """Measurements of one setting, None if not measured: only language models have speed and divergence.

    Divergence and agreement are relative to the first setting of the sweep.
    """

    setting: dict[str, str]
    quality: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None  # duration of the task
    kl_divergence: float | None = None
    same_top_token: float | None = None
    time_to_first_token_ms: float | None = None
    time_per_token_ms: float | None = None
    tokens_per_second: float | None = None
    goodput: float | None = None
    weights_bytes: int | None = None
    kv_bytes_per_token: float | None = None
    #: Reason for which the setting could not be measured.
    error: str | None = None

    @property
    def label(self) -> str:
        return str(EngineSetting(self.setting))


@dataclass
class Sweep:
    """Shared state of all settings: the task with its items, the reference, and the loading of a model for a setting.

    Divergence and speed are measured on `text`.
    """

    task: EvaluationTask[Any]
    items: list[Any]
    text: str
    load: Callable[[EngineSetting], LoadedModel]
    limit: int | None = None
    objectives: Objectives | None = None
    options: dict[str, Any] | None = None
    _reference: Tensor | None = None
    _has_first: bool = False

    def run(
        self, settings: Sequence[EngineSetting], on_progress: Callable[[EngineSetting], Progress]
    ) -> Iterator[Measured]:
        """Measure the settings, starting with the first, in an order that loads each form of the weights once.

        A setting that the model or the device does not support has an error and no figures. The first is the reference,
        so its error is raised.
        """
        forms = list(dict.fromkeys(setting.weights() for setting in settings))
        for form in forms:
            own = [setting for setting in settings if setting.weights() == form]
            try:
                loaded = self.load(own[0])
            except AntiphonError as error:
                if not self._has_first:
                    raise
                yield from (Measured(dict(setting.values), error=str(error)) for setting in own)
                continue
            for setting in own:
                try:
                    yield self._measure(loaded, setting, on_progress(setting))
                except AntiphonError as error:
                    if not self._has_first:
                        raise
                    yield Measured(dict(setting.values), error=str(error))
            del loaded
            return_memory()  # free the memory before the next form of the weights is loaded

    def _measure(self, loaded: LoadedModel, setting: EngineSetting, on_progress: Progress) -> Measured:
        with opened(loaded, setting, **(self.options or {})) as subject:
            run = run_task(self.task, subject, self.items, self.limit, on_progress)
            if not run.is_complete:
                raise KeyboardInterrupt
            measured = Measured(
                dict(setting.values),
                quality=figures_json(figures(self.task.metrics, run.items)),
                seconds=run.seconds,
                weights_bytes=loaded.report.resident_bytes,
            )
            if self.task.model_task == "generate":
                tokens = loaded.tokenizer.encode(self.text, parse_special=False)
                speed = measure_speed(subject, tokens, self.objectives)
                measured = replace(self._diverged(measured, subject, tokens), **asdict(speed))
                measured = replace(measured, kv_bytes_per_token=kv_bytes_per_token(subject))
            self._has_first = True
            return measured

    def _diverged(self, measured: Measured, subject: Subject, tokens: Sequence[int]) -> Measured:
        model = subject.loaded.model
        compared = compared_tokens(tokens, model.vocab_size, model.max_positions - 1)
        if self._reference is None:
            self._reference = reference_rows(subject, compared)
            return replace(measured, kl_divergence=0.0, same_top_token=1.0)
        found = divergence(subject, compared, self._reference)
        return replace(measured, kl_divergence=found.mean, same_top_token=found.agreement)

    @property
    def num_positions(self) -> int:
        """Number of positions over which the divergence is averaged."""
        return 0 if self._reference is None else len(self._reference)


def kv_bytes_per_token(subject: Subject) -> float:
    """Return the bytes per token of the keys and values that a request keeps, in the engine's page types."""
    part = subject.loaded.model.part(TokenDecoder)
    if part is None:
        return 0.0
    sizes = subject.engine.config.sizes(subject.loaded.device)
    types = PAGE_TYPES[sizes.key_type], PAGE_TYPES[sizes.value_type]
    groups = [group for group in part.cache_groups if group.kind is not CacheKind.CROSS]
    return sum(CacheLayout(group, key_dtype=types[0], value_dtype=types[1]).bytes_per_token for group in groups)


def sweep_result(
    model: str, data: str, sweep: Sweep, rows: Sequence[Measured], options: dict[str, Any], total: int
) -> dict[str, Any]:
    """Return the result as `--output` writes it and the report reads it."""
    return {
        **origin(KIND),
        "model": model,
        "task": sweep.task.name,
        "data": data,
        "options": options,
        "objectives": None if sweep.objectives is None else str(sweep.objectives),
        "divergence_positions": sweep.num_positions,
        "is_complete": len(rows) == total,
        "total_settings": total,
        "settings": [_as_json(row) for row in rows],
    }


def _as_json(row: Measured) -> dict[str, Any]:
    """Return the measurements as JSON, in which numbers that are not finite are null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(row).items()
    }
