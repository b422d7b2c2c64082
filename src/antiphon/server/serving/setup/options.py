"""Every option of a server: its key in the configuration file, flag, environment variable, type and default."""

from __future__ import annotations

from typing import Any

from antiphon.engine.policies.registry import POLICIES
from antiphon.engine.speculation.modes import Speculation
from antiphon.server.serving.setup.openai_names import OPENAI
from antiphon.server.serving.setup.option import Option, OptionKind


def _text(key: str, default: str | None, help_: str, **more: Any) -> Option:
    return Option(key, OptionKind.TEXT, default, help_, **more)


def _whole(key: str, default: int | None, help_: str, minimum: int = 1, **more: Any) -> Option:
    return Option(key, OptionKind.WHOLE, default, help_, minimum=minimum, **more)


def _number(key: str, default: float, help_: str, minimum: float = 0, **more: Any) -> Option:
    return Option(key, OptionKind.NUMBER, default, help_, minimum=minimum, **more)


def _switch(key: str, default: bool, help_: str) -> Option:
    return Option(key, OptionKind.SWITCH, default, help_)


def _list(key: str, help_: str, **more: Any) -> Option:
    return Option(key, OptionKind.LIST, [], help_, **more)


def _table(key: str, help_: str, **more: Any) -> Option:
    return Option(key, OptionKind.TABLE, {}, help_, **more)


#: Only option that is given by arguments instead of a flag.
MODELS = Option(
    "models.models",
    OptionKind.LIST,
    ["qwen2.5-coder-0.5b", "all-minilm-l6-v2"],
    "Catalog names, files, folders or hub references. Default: qwen2.5-coder-0.5b and all-minilm-l6-v2.",
)

OPTIONS: tuple[Option, ...] = (
    MODELS,
    _table(
        "models.aliases",
        "Another name for a model, as in default-chat=smollm2-135m; openai alone leads OpenAI's names (gpt-4o-mini, "
        "text-embedding-3-small, ...) to the first model of their task. May be repeated.",
        flag="alias",
        metavar="NAME=MODEL",
        presets=(OPENAI,),
    ),
    _table(
        "models.adapters",
        "A LoRA adapter of a model (a PEFT folder or a GGUF file), as in stories=./lora; requests name it MODEL:NAME. "
        "With several models: MODEL:NAME=PATH. May be repeated.",
        flag="adapter",
        metavar="NAME=PATH",
    ),
    _table(
        "models.voice_aliases",
        "Another name for a voice, as in alloy=af_bella. May be repeated. OpenAI's names work by default.",
        flag="voice-alias",
        metavar="NAME=VOICE",
    ),
    _text(
        "models.keep_alive", "-1", "How long an idle model stays loaded: seconds, 5m, 1h; -1 for ever, 0 not at all."
    ),
    _table(
        "models.keep_alive_of",
        "The same for one model, as in smollm2-135m=10m. May be repeated.",
        metavar="NAME=TIME",
    ),
    _list("models.pinned", "A model that is never unloaded to make room. May be repeated.", flag="pin", metavar="NAME"),
    _table(
        "models.device_of",
        "The device of one model, as in smollm2-135m=cpu; the others are on --device. May be repeated.",
        metavar="NAME=DEVICE",
    ),
    _switch("models.preload", True, "Load the models at start, not on first use."),
    _text(
        "models.load_on_use",
        "catalog",
        "Which models a request may load by name: only those configured, the catalog's too, or any on the hub.",
        choices=("configured", "catalog", "hub"),
    ),
    _switch("models.offline", False, "Download nothing; a model that is not on this machine is an error."),
    _whole("memory.memory", None, "Megabytes for weights and KV cache together.", shown="80 % of the machine's memory"),
    _whole(
        "memory.kv_memory",
        None,
        "Megabytes for the KV cache.",
        shown="1024, at most a quarter of --memory; on a GPU what is free",
    ),
    _text(
        "memory.kv_type",
        None,
        "Data type of the KV cache.",
        choices=("fp32", "fp16", "bf16", "int8", "fp8"),
        shown="fp16; on a GPU the compute type",
    ),
    _text("server.host", "127.0.0.1", "Address to listen on; 0.0.0.0 for all interfaces."),
    _whole("server.port", 8000, "Port to listen on; 0 picks a free one.", minimum=0, maximum=65535),
    _switch("server.open", False, "Open the web page in a browser once the server listens."),
    _text("server.api_key_file", None, "File with the API keys that clients must send, one per line.", metavar="FILE"),
    _text(
        "server.admin_key_file",
        None,
        "File with the keys for /admin, one per line. Without it, a server on a loopback address creates a key that "
        "commands and the web page of the same user find, and any other server disables /admin.",
        metavar="FILE",
    ),
    _list(
        "server.allowed_hosts",
        "Host name by which clients may reach the server, besides its own, or * for any. May be repeated. Checked for "
        "/admin, and for every route if there are no API keys.",
        flag="allowed-host",
        metavar="NAME",
    ),
    _text("server.tls_cert", None, "TLS certificate and chain (PEM); enables HTTPS.", metavar="FILE"),
    _text("server.tls_key", None, "Private key of the certificate (PEM).", metavar="FILE"),
    _whole(
        "server.wyoming",
        None,
        "Serve transcription and speech over the Wyoming protocol (Home Assistant) on this port too; 0 picks one.",
        minimum=0,
        maximum=65535,
        metavar="PORT",
    ),
    _text(
        "server.wyoming_host",
        "127.0.0.1",
        "Address to listen on for Wyoming; 0.0.0.0 for all interfaces. The protocol has no keys.",
    ),
    _switch(
        "server.wyoming_zeroconf",
        False,
        "Announce the Wyoming server on the local network; needs the package zeroconf.",
    ),
    _list(
        "server.cors_origins",
        "Origin whose pages may use the server from a browser, or * for any. May be repeated.",
        flag="cors-origin",
        metavar="ORIGIN",
    ),
    _switch("server.strict", False, "Reject requests with unknown fields instead of ignoring those fields."),
    _text(
        "server.files_dir",
        None,
        "Folder for uploaded files and batches.",
        metavar="FOLDER",
        shown="files in ANTIPHON_HOME",
    ),
    _number("server.grace", 30.0, "Seconds that running requests get to finish on SIGTERM."),
    _switch("server.log_requests", True, "Log every request."),
    _text(
        "server.log_format",
        "auto",
        "Format of log lines: text, json, or auto (text on a terminal, JSON otherwise).",
        choices=("auto", "json", "text"),
    ),
    _switch("server.log_text", False, "Include the text that clients send in the log."),
    _text(
        "server.otlp_endpoint",
        None,
        "Send OpenTelemetry traces to this collector, as in http://localhost:4318; needs the extra otel.",
        metavar="URL",
    ),
    _text("engine.policy", "fcfs", "Scheduling policy.", choices=tuple(POLICIES)),
    _whole("engine.max_running", None, "Most requests computed at the same time.", shown="64; 256 on a GPU"),
    _whole("engine.max_waiting", 1024, "Most requests that may wait; further ones get 429."),
    _number(
        "engine.step_seconds",
        0.5,
        "Longest step in seconds: how long a piece of a prompt may delay running answers.",
        minimum=0.01,
    ),
    _whole("engine.max_model_tokens", None, "Limit the context of every model to this many tokens.", 2),
    _switch("engine.prefix_caching", True, "Reuse the KV cache of prompts that begin alike."),
    _switch(
        "engine.batch_invariant",
        False,
        "Guarantee that an answer does not depend on other running requests; slower on a GPU.",
    ),
    _switch("engine.repack", True, "Repack quantised weights for this processor (faster, more memory)."),
    _text(
        "engine.quantize",
        "auto",
        "Quantise float weights to this type; auto is int8 for transcription models, else none. fp8 needs a GPU.",
        choices=("auto", "none", "int8", "q4", "fp8"),
    ),
    _text(
        "engine.precision",
        "fast",
        "Precision of speech models: fast uses 16-bit floats where the processor has them.",
        choices=("fast", "fp32"),
    ),
    _text(
        "engine.speculate",
        Speculation.OFF.value,
        "Compute tokens ahead: off; ngram, where an answer repeats its prompt or itself; or a smaller model, of the "
        "same vocabulary, that also drafts. Answers are the same. Requests may choose.",
    ),
    _text(
        "engine.device",
        "auto",
        "Where models compute: cpu, cuda, cuda:N; auto is the first GPU that can be used, else the CPU.",
        metavar="DEVICE",
    ),
    _switch("engine.record", True, "Run each step as one compiled native program (faster, same output)."),
    _number("engine.watchdog", 120.0, "Restart the engine if a step takes longer than this many seconds.", minimum=1),
    _whole("limits.max_prompt_tokens", None, "Longest prompt, in tokens."),
    _whole("limits.max_output_tokens", None, "Longest answer, in tokens."),
    _whole("limits.max_body", 8, "Largest request body, in megabytes."),
    _whole("limits.max_audio_body", 512, "Largest recording, in megabytes."),
    _number("limits.max_audio_seconds", 14400.0, "Longest recording, in seconds.", minimum=1),
    _whole("limits.max_speech_characters", 200_000, "Longest text for speech, in characters."),
    _whole("limits.max_choices", 64, "Most answers of one request: prompts times n.", maximum=128),
    _whole("limits.max_inputs", 2048, "Most inputs of one embedding request."),
    _whole("limits.max_stop_strings", 16, "Most stop strings of one request.", 0),
    _whole("limits.max_tools", 128, "Most tools of one request.", 0),
    _whole("limits.max_per_key", 256, "Most requests of one API key at the same time; further ones get 429."),
    _whole("limits.max_responses", 1024, "Most stored responses; also most conversations, and most stored chats.", 0),
    _whole(
        "limits.responses_memory",
        64,
        "Megabytes for stored responses; the same for conversations, chats, and transcripts of the background.",
        0,
    ),
    _whole("limits.max_file", 200, "Largest uploaded file, in megabytes."),
    _whole("limits.max_files", 1000, "Most stored files of one API key."),
    _whole("limits.files_space", 2048, "Megabytes for the stored files of one API key, results of batches included."),
    _whole("limits.max_batch_requests", 50_000, "Most requests of one batch."),
    _whole("limits.batch_concurrency", 8, "Most requests of batches that run at once."),
    _whole(
        "limits.max_background",
        64,
        "Most transcriptions in the background that wait or run, of one API key; further ones get 429.",
        0,
    ),
    _whole("limits.background_concurrency", 4, "Most transcriptions in the background that run at once."),
    _number(
        "limits.background_kept",
        86_400.0,
        "Seconds for which they are kept after their end.",
        minimum=1,
    ),
    _whole("limits.max_connections", 1024, "Most open connections; at the limit, idle ones are closed for new ones."),
    _whole("limits.max_header", 64, "Largest headers of a request, in kilobytes; larger ones get 431."),
    _number("limits.header_timeout", 10.0, "Seconds in which the headers of a request must arrive.", minimum=0.1),
    _whole("limits.idle_timeout", 60, "Seconds after which a connection without a request is closed."),
    _number("limits.min_body_rate", 100.0, "Slowest arrival of a request body, in bytes per second; 0 for any."),
    _number("limits.timeout", 600.0, "Longest time for one request, in seconds.", minimum=1),
    _whole("limits.max_sessions", 64, "Most realtime sessions at the same time; further ones get 429.", 0),
    _number(
        "limits.load_timeout", 1800.0, "Longest time for loading a model, without its download, in seconds.", minimum=1
    ),
    _number("limits.session_timeout", 3600.0, "Longest realtime session, in seconds.", minimum=1),
    _number("limits.session_idle_timeout", 900.0, "Seconds after which a silent realtime session ends.", minimum=1),
)

BY_KEY = {option.key: option for option in OPTIONS}
BY_NAME = {option.name: option for option in OPTIONS}
SECTIONS = tuple(dict.fromkeys(option.section for option in OPTIONS))
assert len(BY_NAME) == len(OPTIONS)
