"""Names that requests use for models: a name, an alias, either with `:latest`, or an adapter without its model."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.runtime.loading.adapter_names import SEPARATOR
from antiphon.runtime.residency.resident import Resident

#: Tag that Ollama's clients append to names without a tag.
LATEST = ":latest"


def untagged(name: str) -> str:
    return name.removesuffix(LATEST) or name


def named(name: str, names: Mapping[str, Resident]) -> Resident | None:
    """Return the model with a name or alias, or None. An exact match wins over one without `:latest`.

    Adapters are also found by an alias of their base model.
    """
    for asked in (name, untagged(name)):
        base, separator, adapter = asked.rpartition(SEPARATOR)
        if asked not in names and separator and base in names:
            asked = f"{names[base].name}{SEPARATOR}{adapter}"
        if asked in names:
            return names[asked]
    return None


def adapters_named(name: str, names: Mapping[str, Resident]) -> list[Resident]:
    """Return the adapters with this name, of all base models."""
    ending = f"{SEPARATOR}{untagged(name)}"
    models = (model for known, model in names.items() if known == model.name and model.base is not None)
    return [model for model in models if model.base is not None and model.name == f"{model.base.name}{ending}"]
