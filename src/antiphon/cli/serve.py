"""`antiphon serve`: models behind OpenAI's API."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import options

if TYPE_CHECKING:
    from antiphon.server.models import ServedModel


class KVType(StrEnum):
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


class Policy(StrEnum):
    FCFS = "fcfs"
    PRIORITY = "priority"
    ADAPTIVE = "adaptive"


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Catalog names, files, folders or hub references; without any, qwen2.5-coder-0.5b and all-minilm-l6-v2.",
        show_default=False,
    ),
]


def serve(
    names: Names = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option("--api-key-file", help="Keys that clients must give, one a line.", show_default=False),
    ] = None,
    kv_memory: Annotated[int, typer.Option("--kv-memory", help="Megabytes for keys and values.", min=1)] = 1024,
    kv_type: Annotated[KVType, typer.Option("--kv-type", help="Type of keys and values.")] = KVType.FP16,
    no_repack: options.NoRepack = False,
    quantize: options.Quantize = None,
    policy: Annotated[Policy, typer.Option("--policy", help="Scheduling.")] = Policy.FCFS,
    max_running: Annotated[int, typer.Option("--max-running", help="Requests computed together.", min=1)] = 64,
    max_waiting: Annotated[
        int, typer.Option("--max-waiting", help="Requests that may wait; more get 429.", min=1)
    ] = 1024,
    max_model_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-model-tokens", help="Context of every model, if its own is longer.", show_default=False, min=2
        ),
    ] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", help="Longest answer allowed.", show_default=False, min=1)
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body", help="Megabytes of the largest request.", min=1)] = 8,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that a request may take.", min=1)] = 600.0,
    grace: Annotated[
        float, typer.Option("--grace", help="Seconds that running requests get to finish on SIGTERM.", min=1)
    ] = 30.0,
    allow_load: Annotated[
        bool, typer.Option("--allow-load", help="Load catalog models when a request first names them.")
    ] = False,
    log_requests: Annotated[
        bool, typer.Option("--log-requests/--no-log-requests", help="A line of JSON for every request.")
    ] = True,
    no_record: options.NoRecord = False,
    offline: options.Offline = False,
) -> None:
    """Serve models over HTTP with OpenAI's API. Ctrl-C or SIGTERM lets running requests finish, then stops."""
    from antiphon.server.config import DEFAULT_MODELS, Limits, ModelSpec, ServerConfig
    from antiphon.server.keys import KeyRing
    from antiphon.server.launch import bind, run_server
    from antiphon.server.logs import set_up_logs

    references = names or list(DEFAULT_MODELS)
    _check_references(references)
    config = ServerConfig(
        models=tuple(ModelSpec.of(reference) for reference in references),
        keys=None if api_key_file is None else KeyRing.read(api_key_file),
        allow_load=allow_load,
        offline=offline,
        limits=Limits(body_bytes=max_body << 20, output_tokens=max_output_tokens, request_seconds=timeout),
    )
    engine = dict(
        kv_bytes=kv_memory << 20, key_type=kv_type.value, value_type=kv_type.value, policy=policy.value,
        max_running=max_running, max_waiting=max_waiting, max_model_tokens=max_model_tokens,
        repack=not no_repack, quantize=None if quantize is None else quantize.value,
        record=not no_record,
    )  # fmt: skip
    if config.keys is None and host not in ("127.0.0.1", "::1", "localhost"):
        print(f"antiphon: listening on {host} without API keys: anyone who reaches it can use it", file=sys.stderr)
    set_up_logs(log_requests)
    table = StartTable(len(references), kv_memory << 20)
    run_server(
        config,
        engine,
        bind(host, port),
        grace_seconds=grace,
        on_listening=lambda url: _announce(url, references),
        on_model=table.add,
    )


def _check_references(references: list[str]) -> None:
    """A name that leads nowhere is refused before anything starts."""
    from antiphon.errors import ModelNotFoundError
    from antiphon.weights.catalog import catalog, find_entry

    for reference in references:
        if reference.startswith("hub:") or reference.lower() in catalog() or Path(reference).expanduser().exists():
            continue
        if "/" in reference:
            raise ModelNotFoundError(f"there is no model at {reference}")
        find_entry(reference)


def _announce(url: str, references: list[str]) -> None:
    print(f"antiphon listens on {url} (API at {url}/v1); loading {', '.join(references)}", file=sys.stderr, flush=True)


class StartTable:
    """Where start-up's time and memory went, printed when the last model is loaded or has failed."""

    def __init__(self, num_models: int, kv_bytes: int) -> None:
        self._num_left = num_models
        self._kv_bytes = kv_bytes
        self._rows = [("MODEL", "PHASE", "SECONDS", "BYTES")]
        self._weight_bytes = 0
        self._forms: list[str] = []

    def add(self, model: ServedModel) -> None:
        loaded = model.loaded
        if loaded is None:
            self._rows.append((model.name, f"failed: {model.error}", "", ""))
        else:
            self._weight_bytes += loaded.weight_bytes
            self._forms.append(f"{model.name}: {loaded.forms}")
            for phase, seconds in loaded.seconds.items():
                size = f"{loaded.weight_bytes:,}" if phase == "weights" else ""
                self._rows.append((model.name, phase, f"{seconds:.2f}", size))
        self._num_left -= 1
        if not self._num_left:
            print(self.text(), file=sys.stderr, flush=True)

    def text(self) -> str:
        widths = [max(len(row[column]) for row in self._rows) for column in range(4)]
        lines = []
        for model, phase, seconds, size in self._rows:
            line = f"{model:<{widths[0]}}  {phase:<{widths[1]}}  {seconds:>{widths[2]}}  {size:>{widths[3]}}"
            lines.append(line.rstrip())
        lines += self._forms
        weights, cache = self._weight_bytes / 1e6, self._kv_bytes / 1e6
        lines.append(
            f"memory: weights {weights:,.0f} MB, keys and values {cache:,.0f} MB, {weights + cache:,.0f} MB in all"
        )
        return "\n".join(lines)
