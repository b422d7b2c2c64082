"""Model references by their form, and a check of them before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePath

from antiphon.errors import ModelNotFoundError
from antiphon.weights.catalog.catalog import catalog, find_entry

HUB_PREFIX = "hub:"
HUB_FORM = "hub:owner/repository[@revision][:file]"
FORMAT_OF_SUFFIX = {
    ".gguf": "gguf",
    ".bin": "llama2c",
    ".pt": "openai-whisper",
    ".safetensors": "safetensors",
    ".onnx": "onnx",
}


def check_references(references: Iterable[str]) -> None:
    """Raise `ModelNotFoundError` if a model does not exist; `hub:` references are not checked."""
    for reference in references:
        if reference.startswith(HUB_PREFIX) or reference.lower() in catalog() or path_exists(reference):
            continue
        if "/" in reference:
            raise ModelNotFoundError(f"there is no model at {reference}")
        find_entry(reference)


def is_file_reference(reference: str) -> bool:
    """Return whether a reference means a file or folder of the user, not a model of the catalog or the hub."""
    return not (reference.startswith(HUB_PREFIX) or reference.partition(":")[0].lower() in catalog())


def is_unknown_name(reference: str) -> bool:
    """Return whether a reference is neither in the catalog nor on the hub, does not exist, and has no path's form."""
    has_path_form = "/" in reference or PurePath(reference).suffix in FORMAT_OF_SUFFIX
    return is_file_reference(reference) and not has_path_form and not path_exists(reference)


def path_exists(reference: str) -> bool:
    return os.path.exists(os.path.expanduser(reference))


def unknown_model(reference: str, among: Iterable[str] | None = None) -> ModelNotFoundError:
    """Build the error for an unknown name, with the nearest names, all of `among` or of the catalog."""
    try:
        find_entry(reference, among)
    except ModelNotFoundError as error:
        return ModelNotFoundError(f"{error} (a path to a file or folder, or {HUB_FORM}, works too)")
    raise AssertionError(reference)
