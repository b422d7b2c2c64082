"""Parsed request of `antiphon eval`, and the models that it loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.arguments.model_options import EngineOptions
from antiphon.cli.local.session import load
from antiphon.cli.terminal.count_line import CountLine
from antiphon.errors import UnsupportedError
from antiphon.evaluation.results import result_of
from antiphon.evaluation.run import run_task
from antiphon.evaluation.settings import EngineSetting, opened, parse_setting
from antiphon.evaluation.task import EvaluationTask, TaskOptions
from antiphon.evaluation.tasks.registry import TASKS, make_task, task_class
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.weights.catalog.model_tasks import KINDS, TASK_NAMES, catalog_task, check_catalog_task


@dataclass(frozen=True)
class EvalRequest:
    """Model, task with its items, and engine settings; `make` rejects invalid combinations."""

    model: str
    task: EvaluationTask[Any]
    items: list[Any]
    data: str
    limit: int | None
    setting: EngineSetting
    device: str
    engine: dict[str, Any]
    offline: bool

    @staticmethod
    def make(
        model: str,
        task: str,
        options: Mapping[str, Any],
        data: Path | None,
        limit: int | None,
        flags: EngineOptions,
        offline: bool,
    ) -> EvalRequest:
        with usage_errors():
            wanted = make_task(task, TaskOptions(**options, offline=offline))
        _check_kind(model, wanted)
        items = wanted.read(data)
        values = {"kv": flags.kv_type, "repack": "off" if flags.no_repack else None, "quantize": flags.quantize}
        setting = EngineSetting({key: value for key, value in values.items() if value is not None})
        engine = {} if flags.kv_memory is None else {"kv_bytes": flags.kv_memory << 20}
        source = "the bundled sample" if data is None else str(data)
        return EvalRequest(model, wanted, items, source, limit, setting, flags.device, engine, offline)

    def load(self, setting: EngineSetting) -> LoadedModel:
        """Load the model with its weights in the setting's form."""
        config = setting.config()
        no_repack, quantize = not config.get("repack", True), config.get("quantize")
        task = self.task.model_task
        return load(self.model, self.offline, no_repack, quantize, task=task, device=self.device, verbose=True)

    def result(self, loaded: LoadedModel, setting: EngineSetting) -> dict[str, Any]:
        """Run the task on the model with this setting; return the result."""
        progress = CountLine("item", str(setting) if setting.values else "")
        with opened(loaded, setting, **self.engine) as subject:
            try:
                run = run_task(self.task, subject, self.items, self.limit, progress.show)
            finally:
                progress.end()
        return result_of(self.task, loaded.name, run, dict(setting.values), self.data, self.task.options.as_json())


def _check_kind(model: str, task: EvaluationTask[Any]) -> None:
    """Raise before any file is read if the task does not fit the catalog model's kind."""
    own = catalog_task(model)
    if own is not None and own != task.model_task:
        fitting = [name for name in TASKS if task_class(name).model_task == own]
        hint = f"; for it there are: {', '.join(fitting)}" if fitting else ""
        raise UnsupportedError(
            f"{model} is {KINDS[own]}; the task {task.name} is for {TASK_NAMES[task.model_task]}{hint}"
        )
    check_catalog_task(model, task.model_task)


def sources(compare: Sequence[str]) -> tuple[dict[str, str], list[Path]]:
    """Split the values of `--compare` into settings and files."""
    with usage_errors():
        values = parse_setting([part for part in compare if "=" in part])
    return values, [Path(part) for part in compare if "=" not in part]
