"""Every option of a server, once: its key in the configuration file, its flag, its variable, its kind and default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from antiphon.errors import InvalidRequestError

#: What turns a switch off in a variable; anything else turns it on.
FALSE = ("0", "false", "no", "off")


class Kind(Enum):
    """How a value is written: in the file as TOML's own type, in a variable as text."""

    TEXT = "text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    SWITCH = "true or false"
    LIST = "a list of texts"
    TABLE = "a table of texts"


@dataclass(frozen=True)
class Option:
    """`key` is `section.name`; the flag is `--name` and the variable `ANTIPHON_NAME`."""

    key: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    #: The flag, where it is not the name: of a list it is for one item.
    flag: str | None = None
    #: What the help calls the default, where it is not a plain value.
    shown: str | None = None
    metavar: str | None = None

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]

    @property
    def switch(self) -> str:
        return f"--{self.flag or self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"ANTIPHON_{self.name.upper()}"

    def from_text(self, text: str, origin: str) -> Any:
        """A value as an environment variable holds it: lists are parted by commas, tables are `name=value` pairs."""
        match self.kind:
            case Kind.TEXT:
                return self.check(text, origin)
            case Kind.SWITCH:
                return text.strip().lower() not in FALSE
            case Kind.WHOLE | Kind.NUMBER:
                try:
                    return self.check(int(text) if self.kind is Kind.WHOLE else float(text), origin)
                except ValueError:
                    raise self._wrong(text, origin) from None
        items = [item.strip() for item in text.split(",") if item.strip()]
        return self.check(items if self.kind is Kind.LIST else self.pairs(items, origin), origin)

    def pairs(self, items: list[str], origin: str) -> dict[str, str]:
        """`name=value` as a table."""
        table = {}
        for item in items:
            name, separator, value = item.partition("=")
            if not (name and separator and value):
                raise InvalidRequestError(f"{self.name} from {origin} has {item!r}; an entry is NAME=VALUE")
            table[name.strip()] = value.strip()
        return table

    def check(self, value: Any, origin: str) -> Any:
        """The value, if it is of the kind and in the range; an error that tells where it came from otherwise."""
        if value is None:
            return None
        accepted = {
            Kind.TEXT: isinstance(value, str),
            Kind.WHOLE: type(value) is int,
            Kind.NUMBER: type(value) in (int, float),
            Kind.SWITCH: type(value) is bool,
            Kind.LIST: isinstance(value, list) and all(isinstance(item, str) for item in value),
            Kind.TABLE: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
        }
        if not accepted[self.kind]:
            raise self._wrong(value, origin)
        if self.choices and value not in self.choices:
            raise InvalidRequestError(f"{self.name} from {origin} is {value!r}; there are: {', '.join(self.choices)}")
        low, high = self.minimum, self.maximum
        if low is not None and value < low:
            raise InvalidRequestError(f"{self.name} from {origin} is {value}; it must be {low:g} or more")
        if high is not None and value > high:
            raise InvalidRequestError(f"{self.name} from {origin} is {value}; it must be {high:g} or less")
        return value

    def _wrong(self, value: Any, origin: str) -> InvalidRequestError:
        return InvalidRequestError(f"{self.name} from {origin} is {value!r}; it must be {self.kind.value}")


def _text(key: str, default: str | None, help_: str, **more: Any) -> Option:
    return Option(key, Kind.TEXT, default, help_, **more)


def _whole(key: str, default: int | None, help_: str, minimum: int = 1, **more: Any) -> Option:
    return Option(key, Kind.WHOLE, default, help_, minimum=minimum, **more)


def _number(key: str, default: float, help_: str, minimum: float = 0, **more: Any) -> Option:
    return Option(key, Kind.NUMBER, default, help_, minimum=minimum, **more)


def _switch(key: str, default: bool, help_: str) -> Option:
    return Option(key, Kind.SWITCH, default, help_)


def _list(key: str, help_: str, **more: Any) -> Option:
    return Option(key, Kind.LIST, [], help_, **more)


def _table(key: str, help_: str, **more: Any) -> Option:
    return Option(key, Kind.TABLE, {}, help_, **more)


#: The one option that is given as arguments, not by a flag.
MODELS = Option(
    "models.models",
    Kind.LIST,
    ["qwen2.5-coder-0.5b", "all-minilm-l6-v2"],
    "Catalog names, files, folders or hub references; without any, qwen2.5-coder-0.5b and all-minilm-l6-v2.",
)

OPTIONS: tuple[Option, ...] = (
    MODELS,
    _table(
        "models.aliases",
        "Another name for a model, as default-chat=smollm2-135m; may be repeated.",
        flag="alias",
        metavar="NAME=MODEL",
    ),
    _text("models.keep_alive", "-1", "How long an idle model stays: seconds, 5m, 1h; -1 for ever, 0 not at all."),
    _table(
        "models.keep_alive_of",
        "The same for one model, as smollm2-135m=10m; may be repeated.",
        metavar="NAME=TIME",
    ),
    _list("models.pinned", "A model that is never unloaded to make room; may be repeated.", flag="pin", metavar="NAME"),
    _switch("models.preload", True, "Load the models at the start, not when they are first used."),
    _text(
        "models.load_on_use",
        "catalog",
        "Which other models a request may bring in by naming them: none, the catalog's, or any on the hub.",
        choices=("configured", "catalog", "hub"),
    ),
    _switch("models.offline", False, "Fetch nothing; a model that is not here is an error."),
    _whole("memory.memory", None, "Megabytes for weights, keys and values together.", shown="80 % of what there is"),
    _whole("memory.kv_memory", None, "Megabytes for keys and values.", shown="1024, at most a quarter of --memory"),
    _text("memory.kv_type", "fp16", "Type of keys and values.", choices=("fp32", "fp16", "bf16", "int8")),
    _text("server.host", "127.0.0.1", "Address to listen on; 0.0.0.0 is every one."),
    _whole("server.port", 8000, "Port; 0 takes a free one.", minimum=0, maximum=65535),
    _text("server.api_key_file", None, "Keys that clients must give, one a line.", metavar="FILE"),
    _text(
        "server.admin_key_file",
        None,
        "Keys for /admin, one per line. Without it, a server on a loopback address makes a key that the commands of "
        "the same user find, and any other server keeps /admin off.",
        metavar="FILE",
    ),
    _list(
        "server.admin_hosts",
        "Host name under which /admin may be reached, besides the server's own; may be repeated.",
        flag="admin-host",
        metavar="NAME",
    ),
    _text("server.tls_cert", None, "Certificate and chain (PEM): serve HTTPS.", metavar="FILE"),
    _text("server.tls_key", None, "The certificate's key (PEM).", metavar="FILE"),
    _list(
        "server.cors_origins",
        "Origin whose pages may use the server from a browser, or *; may be repeated.",
        flag="cors-origin",
        metavar="ORIGIN",
    ),
    _number("server.grace", 30.0, "Seconds that running requests get to finish on SIGTERM."),
    _switch("server.log_requests", True, "A line of JSON for every request."),
    _switch("server.log_text", False, "Put what clients send into the log."),
    _text(
        "server.otlp_endpoint",
        None,
        "Where OpenTelemetry traces go, as http://localhost:4318; needs the extra otel.",
        metavar="URL",
    ),
    _text("engine.policy", "fcfs", "Scheduling.", choices=("fcfs", "priority", "adaptive")),
    _whole("engine.max_running", 64, "Requests computed together."),
    _whole("engine.max_waiting", 1024, "Requests that may wait; more get 429."),
    _number(
        "engine.step_seconds",
        0.5,
        "Seconds of a step at most: how long a piece of a prompt may hold up answers.",
        minimum=0.01,
    ),
    _whole("engine.max_model_tokens", None, "Context of every model, if its own is longer.", 2),
    _switch("engine.prefix_caching", True, "Keep the keys and values of prompts for requests that begin alike."),
    _switch("engine.batch_invariant", False, "Insist that an answer depends on nothing else that runs."),
    _switch("engine.repack", True, "Lay quantised weights out for this processor; else they stay as stored, slower."),
    _text("engine.quantize", None, "Quantise weights that a file has as floats.", choices=("int8", "q4")),
    _text(
        "engine.precision",
        "fast",
        "What models that speak compute in: 16-bit floats where the processor has them, or 32 bits.",
        choices=("fast", "fp32"),
    ),
    _switch("engine.record", True, "Run forwards as native programs; same answers, less time."),
    _number("engine.watchdog", 120.0, "Seconds that a step may take before the engine is started again.", minimum=1),
    _whole("limits.max_prompt_tokens", None, "Longest prompt allowed."),
    _whole("limits.max_output_tokens", None, "Longest answer allowed."),
    _whole("limits.max_body", 8, "Megabytes of the largest request."),
    _whole("limits.max_audio_body", 512, "Megabytes of the largest recording."),
    _number("limits.max_audio_seconds", 14400.0, "Seconds of the longest recording.", minimum=1),
    _whole("limits.max_speech_characters", 200_000, "Characters of the longest text to be spoken."),
    _whole("limits.max_choices", 64, "Prompts times n of one request.", maximum=128),
    _whole("limits.max_inputs", 2048, "Inputs of one request for embeddings."),
    _whole("limits.max_stop_strings", 16, "Stop strings of one request.", 0),
    _whole("limits.max_tools", 128, "Tools of one request.", 0),
    _whole("limits.max_per_key", 256, "Requests of one API key at once; more get 429."),
    _whole("limits.max_responses", 1024, "Responses that are kept to be gone on from.", 0),
    _whole("limits.responses_memory", 64, "Megabytes of the responses that are kept.", 0),
    _number("limits.timeout", 600.0, "Seconds that a request may take.", minimum=1),
)

BY_KEY = {option.key: option for option in OPTIONS}
BY_NAME = {option.name: option for option in OPTIONS}
SECTIONS = tuple(dict.fromkeys(option.section for option in OPTIONS))
assert len(BY_NAME) == len(OPTIONS)
