"""Model preparation for commands: load with a progress bar, describe on standard error, start an engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon.cli.terminal.notes import passing_note
from antiphon.device_names import AUTO
from antiphon.engine.speculation.modes import Speculation
from antiphon.weights.catalog.model_tasks import check_reference

if TYPE_CHECKING:
    from antiphon.runtime.frontend.engine import Engine
    from antiphon.runtime.loading.loading import LoadedModel


def load(
    model: str,
    offline: bool,
    no_repack: bool = False,
    quantize: str | None = None,
    precision: str = "fast",
    *,
    task: str,
    device: str = AUTO,
    verbose: bool = False,
) -> LoadedModel:
    """Load a model, download it if needed; with `verbose`, print a line about its weights on standard error.

    A model that is not for `task` ("generate", "embed", "transcribe" or "synthesize") is rejected: a catalog model
    before torch is imported and anything is downloaded, another model once its architecture has been read.
    """
    check_reference(model, task)
    with passing_note(f"loading {model} …"):
        from antiphon.cli.terminal.download_progress import fetch_progress
        from antiphon.runtime.loading.loading import load_model
        from antiphon.runtime.loading.weight_forms import WeightOptions

        options = WeightOptions(not no_repack, quantize, precision)
        with fetch_progress() as progress:
            loaded = load_model(model, offline=offline, progress=progress, options=options, task=task, device=device)
    if verbose:
        print(f"{loaded.name}: {loaded.report.line()}", file=sys.stderr)
    if loaded.report.backend == "reference":
        print("antiphon: installed without native kernels (no C++ compiler was found); this is slower", file=sys.stderr)
    return loaded


def engine_options(kv_megabytes: int | None, speculate: str | None) -> dict[str, Any]:
    kv_bytes = None if kv_megabytes is None else kv_megabytes << 20
    return dict(kv_bytes=kv_bytes, speculate=speculate or Speculation.OFF)


@contextmanager
def engine_for(
    loaded: LoadedModel,
    kv_megabytes: int | None,
    kv_type: str | None,
    *,
    speculate: str | None = None,
    trace: Path | None = None,
    profile: bool = False,
    no_record: bool = False,
    **options: Any,
) -> Iterator[Engine]:
    """Start an engine with this one model, on its device, and close it at the end.

    Sizes that are not given depend on the device. Before the engine is closed, the trace is written and the profile
    printed.
    """
    from antiphon.runtime.frontend.engine import Engine

    options |= dict(engine_options(kv_megabytes, speculate), key_type=kv_type, value_type=kv_type)
    options |= dict(record=not no_record, record_requests=trace is not None, device=loaded.device.name)
    with Engine(loaded, **options) as engine:
        if profile:
            engine.start_profile()
        try:
            yield engine
        finally:
            if trace is not None:
                engine.write_trace(trace)
        if profile:
            print("\n".join(engine.profile_lines()), file=sys.stderr)


def adapted_name(engine: Engine, loaded: LoadedModel, adapter: Path | None) -> str:
    """Load the adapter, if any, and return the name under which the engine serves the model."""
    if adapter is None:
        return loaded.name
    found = engine.load_adapter(adapter, model=loaded.name)
    print(f"{found.name}: rank {found.fitted.rank}, {found.nbytes / 1e6:.1f} MB", file=sys.stderr)
    return found.name
