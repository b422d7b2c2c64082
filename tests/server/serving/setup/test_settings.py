"""Settings: flag before environment before file before default, told with their origin; what is wrong is refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from antiphon.cli.app import app
from antiphon.errors import InvalidRequestError, MemoryBudgetError
from antiphon.runtime.loading.memory_budget import listed_weight_bytes
from antiphon.server.serving.setup.launch_plan import LaunchPlan
from antiphon.server.serving.setup.option import Option, OptionKind
from antiphon.server.serving.setup.options import BY_NAME, MODELS, OPTIONS
from antiphon.server.serving.setup.settings import ServerSettings

FILE = """
[server]
port = 9100
host = "::1"
cors_origins = ["https://a.example"]
[models]
models = ["smollm2-135m"]
aliases = { small = "smollm2-135m" }
[limits]
timeout = 20
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    monkeypatch.delenv("ANTIPHON_CONFIG", raising=False)


def test_the_order_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(FILE)
    monkeypatch.setenv("ANTIPHON_HOST", "0.0.0.0")
    monkeypatch.setenv("ANTIPHON_PORT", "9200")
    settings = ServerSettings.gather({"port": 9300}, path)
    found = {name: (settings[name], settings.origin(name)) for name in ("port", "host", "timeout", "grace")}
    assert found == {
        "port": (9300, "--port"),
        "host": ("0.0.0.0", "ANTIPHON_HOST"),
        "timeout": (20, str(path)),
        "grace": (30.0, "default"),
    }
    monkeypatch.setenv("ANTIPHON_CONFIG", str(path))
    assert ServerSettings.gather({})["aliases"] == {"small": "smollm2-135m"}


def sample(option: Option) -> tuple[str, Any]:
    """A value that is not the default, as text and as it is."""
    match option.kind:
        case OptionKind.SWITCH:
            return ("no", False) if option.default else ("yes", True)
        case OptionKind.WHOLE:
            return "17", 17
        case OptionKind.NUMBER:
            return "12.5", 12.5
        case OptionKind.LIST:
            return "one, two", ["one", "two"]
        case OptionKind.TABLE:
            return "one=1,two=2", {"one": "1", "two": "2"}
    return ("x", "x") if not option.choices else (option.choices[-1], option.choices[-1])


def test_every_option_has_a_flag() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for command in (commands["serve"], commands["config"]):
        given = {name for parameter in command.params for name in parameter.opts}
        assert {option.switch for option in OPTIONS if option is not MODELS} <= given


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_has_a_variable_and_a_key(option: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, value = sample(option)
    monkeypatch.setenv(option.variable, text)
    settings = ServerSettings.gather({})
    assert settings[option.name] == value and settings.origin(option.name) == option.variable
    monkeypatch.delenv(option.variable)
    path = tmp_path / "again.toml"
    path.write_text(settings.toml())
    again = ServerSettings.gather({}, path)
    assert all(again[other] == settings[other] for other in BY_NAME)
    assert again.origin(option.name) == str(path)


def test_the_command_prints_toml_with_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_GRACE", "5")
    arguments = ["config", "smollm2-135m", "--port", "81", "--alias", "a=smollm2-135m", "--no-preload"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    tables = tomllib.loads(result.stdout)
    assert tables["models"]["models"] == ["smollm2-135m"] and tables["models"]["aliases"] == {"a": "smollm2-135m"}
    assert tables["models"]["preload"] is False and tables["server"]["port"] == 81
    for line in ("port = 81  # --port", "grace = 5.0  # ANTIPHON_GRACE", 'host = "127.0.0.1"  # default'):
        assert line in result.stdout.splitlines()
    assert result.stdout.endswith("\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nprot = 1", r"unknown key 'server.prot': did you mean server.port"),
        ("[limits]\nport = 1", r"unknown key 'limits.port': did you mean server.port"),
        ("[sever]\nport = 1", r"unknown key 'sever': did you mean server"),
        ("port = 1", r"unknown key 'port': did you mean server.port"),
        ("server = 1", r"'server' is a section"),
        ('[server]\nport = "1"', r"port from .* is '1'; it must be a whole number"),
        ("[server]\nport = 70000", r"port from .* is 70000; it must be 65535 or less"),
        ("[server]\nport = true", r"must be a whole number"),
        ('[engine]\npolicy = "fifo"', r"policy from .* is 'fifo'; it must be one of: fcfs, priority, adaptive"),
        ("[models]\nmodels = [1]", r"must be a list of strings"),
        ("[server\n", r"is not TOML"),
    ],
)
def test_wrong_files_are_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequestError, match=words):
        ServerSettings.gather({}, path)


def test_a_missing_file_and_wrong_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequestError, match="cannot read the configuration"):
        ServerSettings.gather({}, tmp_path / "none.toml")
    for variable, text, words in (
        ("ANTIPHON_PORT", "eighty", "port from ANTIPHON_PORT is 'eighty'"),
        ("ANTIPHON_ALIASES", "a", "an entry must be NAME=VALUE"),
    ):
        monkeypatch.setenv(variable, text)
        with pytest.raises(InvalidRequestError, match=words):
            ServerSettings.gather({})
        monkeypatch.delenv(variable)


def test_a_setup_has_what_the_settings_say() -> None:
    flags = {
        "models": ["smollm2-135m", "all-minilm-l6-v2"],
        "memory": 2000,
        "keep_alive": "5m",
        "keep_alive_of": ["smollm2-135m=-1"],
        "pinned": ["all-minilm-l6-v2"],
        "aliases": ["gpt=tinyllama-1.1b"],
        "max_per_key": 3,
    }
    flags["voice_aliases"] = ["narrator=bm_george"]
    assert not LaunchPlan.of(ServerSettings.gather(flags)).config.is_strict
    setup = LaunchPlan.of(ServerSettings.gather({**flags, "strict": True}))
    assert setup.config.is_strict
    assert setup.engine["quantize"] == "auto" and setup.config.voice_aliases == {"narrator": "bm_george"}
    assert (setup.memory_bytes, setup.kv_bytes) == (2000 << 20, 500 << 20)
    assert (setup.engine["kv_bytes"], setup.engine["cpu_kv_bytes"]) == (None, 500 << 20)  # a GPU's is its own
    chat, encoder = setup.config.models
    assert (setup.engine["device"], chat.device, encoder.device) == ("auto", None, None)
    assert (chat.keep_alive, chat.is_pinned) == (float("inf"), False)
    assert (encoder.keep_alive, encoder.is_pinned) == (300, True)
    assert setup.config.limits.requests_per_key == 3 and setup.config.aliases == {"gpt": "tinyllama-1.1b"}


def test_devices_of_models() -> None:
    flags = {"models": ["smollm2-135m", "all-minilm-l6-v2", "tinyllama-1.1b"], "device_of": ["all-minilm-l6-v2=cpu"]}
    plan = LaunchPlan.of(ServerSettings.gather({**flags, "device": "cuda:1"}))
    assert plan.engine["device"] == "cuda:1" and [spec.device for spec in plan.config.models] == [None, "cpu", None]
    expected = {name: listed_weight_bytes(name) for name in ("smollm2-135m", "tinyllama-1.1b")}
    assert plan.engine["expected_weights"] == expected
    assert LaunchPlan.of(ServerSettings.gather({**flags, "device": "cpu"})).engine["expected_weights"] == {}
    small = {"models": ["tinyllama-1.1b"], "memory": 100}
    with pytest.raises(MemoryBudgetError, match="no model fits in the memory budget of 100 MB"):
        LaunchPlan.of(ServerSettings.gather({**small, "device": "cpu"}))
    LaunchPlan.of(ServerSettings.gather({**small, "device": "cuda"}))  # the memory of the machine is not the GPU's


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"device": "gpu"}, "device is 'gpu'; it must be auto, cpu, cuda or cuda:N"),
        ({"models": ["smollm2-135m"], "device_of": ["smollm2-135m=tpu"]}, "device is 'tpu'"),
        ({"models": ["smollm2-135m"], "device_of": ["other=cpu"]}, "device_of names 'other'; the models are smollm2"),
        ({"memory": 100, "kv_memory": 200}, "kv_memory is 200 MB and memory is 100 MB: nothing is left"),
        (
            {"memory": 600, "kv_memory": 200, "speculate": "qwen2.5-coder-0.5b", "device": "cpu"},
            "kv_memory is 200 MB, the draft model takes 468 MB and memory is 600 MB: nothing is left",
        ),
        (
            {"aliases": ["a=smolm2"]},
            "alias 'a' leads to 'smolm2', which is not a known model: did you mean smollm2-135m",
        ),
        ({"aliases": ["smollm2-135m=tinyllama-1.1b"]}, "alias 'smollm2-135m' is the name of a model"),
        ({"quantize": "int3"}, "quantize from --quantize is 'int3'; it must be one of: auto, none, int8, q4"),
        ({"api_key_file": "nosuch"}, "^cannot read the API key file nosuch: no such file or directory$"),
        ({"api_key_file": "."}, "^cannot read the API key file .: is a directory$"),
        ({"pinned": ["nobody"]}, "pinned names 'nobody'; the models are qwen2.5-coder-0.5b, all-minilm"),
        ({"keep_alive": "soon"}, "keep_alive is 'soon'"),
        ({"tls_cert": "cert.pem"}, "tls_cert and tls_key go together"),
        ({"tls_cert": "/nowhere/cert.pem", "tls_key": "/nowhere/key.pem"}, "no TLS file /nowhere/cert.pem"),
    ],
)
def test_setups_that_make_no_sense(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        LaunchPlan.of(ServerSettings.gather(flags))


def test_a_key_cannot_be_of_both_kinds(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("the-same-secret\n")
    with pytest.raises(InvalidRequestError, match="an admin key is also an API key"):
        LaunchPlan.of(ServerSettings.gather({"api_key_file": str(keys), "admin_key_file": str(keys)}))


def test_a_budget_that_no_model_fits_in() -> None:
    """Known from the catalog before anything is fetched, with the megabytes that would do."""
    message = (
        r"memory budget of 50 MB, of which 12 MB .*: qwen2.5-coder-0.5b needs (\d+) MB, all-minilm-l6-v2 needs (\d+) MB"
    )
    with pytest.raises(MemoryBudgetError, match=message) as caught:
        LaunchPlan.of(ServerSettings.gather({"memory": 50}))
    found = re.search(message, str(caught.value))
    assert found is not None
    smaller = min(int(found[1]), int(found[2]))
    LaunchPlan.of(ServerSettings.gather({"memory": smaller}))
    with pytest.raises(MemoryBudgetError, match="raise --memory"):
        LaunchPlan.of(ServerSettings.gather({"memory": smaller - 1}))
    with pytest.raises(MemoryBudgetError, match="of which 10 MB"):
        LaunchPlan.of(ServerSettings.gather({"memory": 50, "kv_memory": 10}))
    LaunchPlan.of(ServerSettings.gather({"memory": 50, "preload": False}))


def test_a_larger_budget_keeps_a_gigabyte_for_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.truncate(5000 << 20)
    with pytest.raises(MemoryBudgetError, match="large needs 6,024 MB; raise"):
        LaunchPlan.of(ServerSettings.gather({"models": [str(path)], "memory": 5000}))
