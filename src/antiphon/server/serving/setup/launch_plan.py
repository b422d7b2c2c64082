"""`LaunchPlan`: the arguments of a server, made from its settings. Invalid settings are rejected before it listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon import environment
from antiphon.device_names import AUTO, CPU, check_device_name, has_gpu_driver
from antiphon.engine.speculation.modes import Speculation
from antiphon.errors import InvalidRequestError
from antiphon.runtime.loading.adapter_names import SEPARATOR, adapter_file_bytes
from antiphon.runtime.loading.memory_budget import DEFAULT_KV_BYTES, default_budget
from antiphon.runtime.residency.keep_alive import parse_keep_alive
from antiphon.server.serving.setup.config import AdapterSpec, Limits, LoadOnUse, ModelSpec, ServerConfig, name_of
from antiphon.server.serving.setup.model_checks import check_models_fit, known_weight_bytes
from antiphon.server.serving.setup.openai_names import OPENAI
from antiphon.server.serving.setup.settings import ServerSettings
from antiphon.server.serving.setup.tls import TLSFiles
from antiphon.server.serving.setup.wyoming_plan import WyomingPlan
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection_limits import ConnectionLimits, SessionLimits
from antiphon.weights.catalog.catalog import catalog
from antiphon.weights.catalog.model_tasks import CATALOG_TASKS
from antiphon.weights.catalog.references import check_references


@dataclass(frozen=True)
class LaunchPlan:
    """Arguments of `run_server`, and the memory that they add up to."""

    config: ServerConfig
    engine: dict[str, Any]
    tls: TLSFiles | None
    wyoming: WyomingPlan | None
    memory_bytes: int
    kv_bytes: int

    @classmethod
    def of(cls, settings: ServerSettings) -> LaunchPlan:
        check_references(settings["models"])
        memory = default_budget() if settings["memory"] is None else settings["memory"] << 20
        kv = min(DEFAULT_KV_BYTES, memory // 4) if settings["kv_memory"] is None else settings["kv_memory"] << 20
        draft = _draft_bytes(settings)
        if kv + draft >= memory:
            also = f", the draft model takes {draft >> 20:,} MB" if draft else ""
            raise InvalidRequestError(
                f"kv_memory is {kv >> 20:,} MB{also} and memory is {memory >> 20:,} MB: nothing is left for weights; "
                "raise memory or lower kv_memory"
            )
        memory -= draft
        if settings["preload"] and _are_on_cpu(settings):
            check_models_fit(settings["models"], memory, kv, settings["kv_memory"] is None)
        tls = _tls(settings)
        engine = dict(
            device=check_device_name(settings["device"]),
            kv_bytes=None if settings["kv_memory"] is None else kv,
            cpu_kv_bytes=kv,
            expected_weights=_expected_weights(settings),
            key_type=settings["kv_type"],
            value_type=settings["kv_type"],
            policy=settings["policy"],
            max_running=settings["max_running"],
            step_seconds=settings["step_seconds"],
            max_waiting=settings["max_waiting"],
            max_model_tokens=settings["max_model_tokens"],
            prefix_caching=settings["prefix_caching"],
            batch_invariant=settings["batch_invariant"],
            repack=settings["repack"],
            quantize=settings["quantize"],
            precision=settings["precision"],
            speculate=settings["speculate"],
            record=settings["record"],
        )
        return cls(_config(settings, memory), engine, tls, WyomingPlan.of(settings), memory, kv)


def _draft_bytes(settings: ServerSettings) -> int:
    """Return the bytes of a draft model's weights, which stay in the CPU's memory; 0 without a draft model."""
    is_draft = Speculation.of_engine(settings["speculate"]) is Speculation.DRAFT
    return (known_weight_bytes(settings["speculate"]) or 0) if is_draft and _are_on_cpu(settings) else 0


def _config(settings: ServerSettings, memory_bytes: int) -> ServerConfig:
    specs = _specs(settings)
    return ServerConfig(
        models=specs,
        aliases={name: model for name, model in settings["aliases"].items() if (name, model) != (OPENAI, "")},
        has_openai_names=settings["aliases"].get(OPENAI) == "",
        adapters=tuple(_adapter(name, path, specs) for name, path in settings["adapters"].items()),
        voice_aliases=settings["voice_aliases"],
        keys=_keys(settings["api_key_file"]),
        admin_keys=_keys(settings["admin_key_file"]),
        host=settings["host"],
        allowed_hosts=tuple(settings["allowed_hosts"]),
        load_on_use=LoadOnUse(settings["load_on_use"]),
        keep_alive=parse_keep_alive(settings["keep_alive"]),
        memory_bytes=memory_bytes,
        offline=settings["offline"],
        logs_text=settings["log_text"],
        is_strict=settings["strict"],
        cors_origins=tuple(settings["cors_origins"]),
        otlp_endpoint=settings["otlp_endpoint"],
        files_dir=_files_dir(settings["files_dir"]),
        limits=Limits(
            body_bytes=settings["max_body"] << 20,
            prompt_tokens=settings["max_prompt_tokens"],
            output_tokens=settings["max_output_tokens"],
            audio_bytes=settings["max_audio_body"] << 20,
            audio_seconds=settings["max_audio_seconds"],
            speech_characters=settings["max_speech_characters"],
            choices=settings["max_choices"],
            embedding_inputs=settings["max_inputs"],
            stop_strings=settings["max_stop_strings"],
            tools=settings["max_tools"],
            request_seconds=settings["timeout"],
            load_seconds=settings["load_timeout"],
            requests_per_key=settings["max_per_key"],
            stored_responses=settings["max_responses"],
            stored_bytes=settings["responses_memory"] << 20,
            files=settings["max_files"],
            files_bytes=settings["files_space"] << 20,
            file_bytes=settings["max_file"] << 20,
            batch_requests=settings["max_batch_requests"],
            batch_concurrency=settings["batch_concurrency"],
            background=settings["max_background"],
            background_concurrency=settings["background_concurrency"],
            background_kept=settings["background_kept"],
            sessions=SessionLimits(
                settings["max_sessions"], settings["session_timeout"], settings["session_idle_timeout"]
            ),
        ),
        connections=ConnectionLimits(
            connections=settings["max_connections"],
            header_bytes=settings["max_header"] << 10,
            header_seconds=settings["header_timeout"],
            idle_seconds=settings["idle_timeout"],
            body_rate=settings["min_body_rate"],
        ),
    )


def _specs(settings: ServerSettings) -> tuple[ModelSpec, ...]:
    references: list[str] = settings["models"]
    own: dict[str, str] = settings["keep_alive_of"]
    names = [name_of(reference) for reference in references]
    devices: dict[str, str] = settings["device_of"]
    named = {"keep_alive_of": list(own), "device_of": list(devices), "pinned": settings["pinned"]}
    for option, given in named.items():
        wrong = [name for name in given if name not in names]
        if wrong:
            raise InvalidRequestError(f"{option} names {wrong[0]!r}; the models are {', '.join(names)}")
    for device in devices.values():
        check_device_name(device)
    return tuple(
        ModelSpec(
            name,
            reference,
            keep_alive=parse_keep_alive(own.get(name, settings["keep_alive"])),
            is_pinned=name in settings["pinned"],
            is_preloaded=settings["preload"],
            device=devices.get(name),
        )
        for name, reference in zip(names, references, strict=True)
    )


def _are_on_cpu(settings: ServerSettings) -> bool:
    """Return whether all models are certain to be on the CPU. Only the engine knows whether a model fits on a GPU."""
    devices: dict[str, str] = settings["device_of"]
    asked = {devices.get(name_of(reference), settings["device"]) for reference in settings["models"]}
    return asked <= ({CPU} if has_gpu_driver() else {CPU, AUTO})


def _expected_weights(settings: ServerSettings) -> dict[str, int]:
    """Return the weight bytes by name of configured models that may be on a GPU; 0 for an unknown size."""
    devices: dict[str, str] = settings["device_of"]
    named = {name_of(reference): reference for reference in settings["models"]}
    return {
        name: known_weight_bytes(reference) or 0
        for name, reference in named.items()
        if devices.get(name, settings["device"]) != CPU
    }


def _adapter(name: str, path: str, models: Sequence[ModelSpec]) -> AdapterSpec:
    """Return the adapter named `model:name`, or `name` if only one model can be its base, as far as is known."""
    adapter_file_bytes(Path(path))  # raises if the path has no adapter
    base, _, own = name.rpartition(SEPARATOR)
    if not base:
        entries = {spec.name: catalog().get(spec.reference.lower()) for spec in models}
        fitting = [
            model for model, entry in entries.items() if entry is None or CATALOG_TASKS.get(entry.task) == "generate"
        ]
        if len(fitting) != 1:
            raise InvalidRequestError(
                f"adapter {name!r} could be for {' or '.join(fitting) or 'no model'}: name it MODEL:{name}"
            )
        base = fitting[0]
    return AdapterSpec(base, own, str(Path(path).expanduser().resolve()))


def _keys(path: str | None) -> KeyRing | None:
    return None if path is None else KeyRing.read(Path(path).expanduser())


def _files_dir(path: str | None) -> Path:
    return environment.home() / "files" if path is None else Path(path).expanduser().absolute()


def _tls(settings: ServerSettings) -> TLSFiles | None:
    certificate, key = settings["tls_cert"], settings["tls_key"]
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidRequestError("tls_cert and tls_key go together; one of them is not set")
    files = TLSFiles(Path(certificate).expanduser(), Path(key).expanduser())
    files.check()
    return files
