"""Names of models as Ollama's clients write them."""

from __future__ import annotations

from antiphon.server.serving.serving import Serving

LATEST = ":latest"


def model_name(serving: Serving, name: str | None, task: str | None = None) -> str:
    """Without `:latest`, which clients add to every name that has no tag, unless a model is called so.

    Without a name, the one model that fits the task.
    """
    if name is None:
        return serving.models.only_one_for(task).name
    known = serving.models.names()
    return name.removesuffix(LATEST) or name if name not in known else name
