"""What a request may call a model: a name, an alias, either with `:latest`, or an adapter without its model."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from antiphon.runtime.loading.adapter_names import SEPARATOR
from antiphon.runtime.residency.resident import Resident

#: The tag that Ollama's clients add to every name without one.
LATEST = ":latest"


def untagged(name: str) -> str:
    return name.removesuffix(LATEST) or name


def named(name: str, names: Mapping[str, Resident]) -> Resident | None:
    """The model of that name, which wins over the same name without `:latest`.

    An adapter may be named with an alias of its model too.
    """
    for asked in (name, untagged(name)):
        base, separator, adapter = asked.rpartition(SEPARATOR)
        if asked not in names and separator and base in names:
            asked = f"{names[base].name}{SEPARATOR}{adapter}"
        if asked in names:
            return names[asked]
    return None


def adapters_named(name: str, names: Mapping[str, Resident]) -> list[Resident]:
    """The adapters of that name, of all models."""
    ending = f"{SEPARATOR}{untagged(name)}"
    models = (model for known, model in names.items() if known == model.name and model.base is not None)
    return [model for model in models if model.base is not None and model.name == f"{model.base.name}{ending}"]


def suggestions(name: str, known: Iterable[str]) -> list[str]:
    """The names closest to an unknown one, each once."""
    return difflib.get_close_matches(name, list(dict.fromkeys(known)), n=3, cutoff=0.4)
