"""Tasks by name."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.task import EvaluationTask, TaskOptions

#: Module of this package and class of each task.
TASKS = {
    "perplexity": "perplexity:Perplexity",
    "choice": "choice:Choice",
    "accuracy": "generation:Accuracy",
    "translate": "generation:Translate",
    "summarise": "generation:Summarise",
    "wer": "transcription:WordErrorRate",
    "cer": "transcription:CharacterErrorRate",
    "retrieval": "retrieval:Retrieval",
    "voice": "voice:VoiceRoundTrip",
    "lm-eval:NAME": "lm_eval:LmEval",
}
LM_EVAL = "lm-eval:"


def task_class(name: str) -> type[EvaluationTask[Any]]:
    """Return the class of the named task; the error for an unknown name lists the known ones."""
    name = f"{LM_EVAL}NAME" if name.startswith(LM_EVAL) else name
    if name not in TASKS:
        near = difflib.get_close_matches(name, TASKS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidRequestError(f"there is no task {name!r}; there are: {', '.join(TASKS)}{hint}")
    module, _, kind = TASKS[name].partition(":")
    return getattr(import_module(f"antiphon.evaluation.tasks.{module}"), kind)


def make_task(name: str, options: TaskOptions | None = None) -> EvaluationTask[Any]:
    kind: Any = task_class(name)
    return kind(options, name) if name.startswith(LM_EVAL) else kind(options)
