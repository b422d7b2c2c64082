"""Arguments of a wrong type, and engines that are closed: each is one sentence with the argument's name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon import AsyncEngine, Engine, EngineError, InvalidRequestError, SamplingParams
from antiphon.runtime.loading.loading import LoadedModel

OPTIONS: dict[str, Any] = dict(kv_bytes=8 << 20)
LONG = SamplingParams(max_tokens=2000, ignore_eos=True)
#: Methods that both engines have, with the arguments of a call that only a closed engine rejects.
CALLS: dict[str, tuple[Any, ...]] = {
    "chat": ([{"role": "user", "content": "hello"}],),
    "detokenize": ([5],),
    "embed": ("hello",),
    "figures": (),
    "generate": ("hello",),
    "listen": (),
    "load": ("smollm2-135m",),
    "load_adapter": ("adapter",),
    "profile_lines": (),
    "profiles": (),
    "sampling_defaults": (),
    "speak": ("hello",),
    "start_profile": (),
    "step_records": (),
    "stream": ("hello",),
    "tokenize": ("hello",),
    "transcribe": ("sound.wav",),
    "unload": ("model",),
    "write_trace": ("trace.json",),
}
OF_THREADS: dict[str, tuple[Any, ...]] = {
    "distributions": ([5, 6], print),
    "stream_samples": ("hello",),
    "transcribe_all": (["sound.wav"],),
    "transcribe_events": ("sound.wav",),
}
OF_ASYNCIO: dict[str, tuple[Any, ...]] = {"hear": ()}
#: Methods without an error: a closed engine has nothing to end.
QUIET = {"abort", "close"}
CLOSED = r"^the engine is closed$"
PROMPT = "a prompt is a string, a list of token ids, or a list of messages such as"


@pytest.fixture(scope="module")
def engine(tiny_llama: Path) -> Iterator[Engine]:
    with Engine(tiny_llama, **OPTIONS) as engine:
        yield engine


def messages(*contents: Any) -> list[Any]:
    return [{"role": "user", "content": content} for content in contents]


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("chat", ("hello",), {}, "messages is 'hello' (str); it must be a list of messages such as {"),
    ("chat", (messages("hello")[0],), {}, "messages is {'role': 'user', 'content': 'hello'} (dict); it must be a list"),
    ("chat", (["hello"],), {}, "messages[0] is 'hello' (str); it must be a message such as {"),
    ("chat", ([],), {}, "messages is [] (list); it must be a list of messages"),
    ("chat", ([{"content": "hello"}],), {}, "messages[0] has no role; a message is such as {"),
    ("chat", ([{"role": "user"}],), {}, "messages[0] has no content; a message is such as {"),
    ("chat", (messages("hello", 5),), {}, "messages[1] has content 5 (int)"),
    ("chat", (messages([{"type": "image_url"}]),), {}, "messages[0].content[0] is {'type': 'image_url'} (dict)"),
    ("chat", (messages("hello"),), {"n": 0}, "n is 0; it must be 1 to 128"),
    ("chat", (messages("hello"),), {"params": {}}, "params is {} (dict); it must be SamplingParams"),
    (
        "chat",
        (messages("hello"),),
        {"grammar": {}},
        "grammar is {} (dict); it must be a GrammarSpec or a pydantic class",
    ),
    ("generate", (5,), {}, f"prompts is 5 (int); {PROMPT}"),
    ("generate", (None,), {}, f"prompts is None; {PROMPT}"),
    ("generate", (b"hello",), {}, f"prompts is b'hello' (bytes); {PROMPT}"),
    ("generate", (["hello", 5],), {}, f"prompts[1] is 5 (int); {PROMPT}"),
    ("generate", ([1, 2.5],), {}, f"prompts[1] is 2.5 (float); {PROMPT}"),
    ("generate", ([[1, "2"]],), {}, f"prompts[0][1] is '2' (str); {PROMPT}"),
    ("generate", (np.array([1, 2]),), {}, f"prompts is a ndarray of int64 with shape [2]; {PROMPT}"),
    ("generate", ("hello",), {"params": [5]}, "params[0] is 5 (int); it must be SamplingParams"),
    ("generate", ("hello",), {"params": [LONG, LONG]}, "1 prompts were given with 2 sets of params"),
    ("generate", ("hello",), {"n": "2"}, "n is '2' (str); it must be an integer"),
    ("generate", ("hello",), {"model": 5}, "model is 5 (int); it must be the name of a loaded model"),
    ("generate", ("hello",), {"priority": "high"}, "priority is 'high' (str); it must be a Priority"),
    (
        "generate",
        ("hello",),
        {"timeout": float("nan")},
        "timeout is nan (float); it must be a number of seconds above 0",
    ),
    ("generate", ("hello",), {"timeout": -1}, "timeout is -1 (int); it must be a number of seconds above 0"),
    ("generate", ("hello",), {"cache_salt": None}, "cache_salt is None; it must be a string"),
    ("stream", (Path("hello"),), {}, f"(PosixPath); {PROMPT}"),
    ("tokenize", (b"hello",), {}, "text is b'hello' (bytes); it must be a string"),
    ("tokenize", ("hello",), {"parse_special": "no"}, "parse_special is 'no' (str); it must be True or False"),
    ("detokenize", ("hello",), {}, "tokens is 'hello' (str); it must be a list of token ids"),
    ("embed", ([1],), {}, "texts is [1] (list); it must be a string or a list of strings"),
    ("transcribe", (5,), {}, "source is 5 (int); it must be a path, the bytes of a file, a file opened for reading"),
    ("transcribe", (torch.zeros(4),), {}, "source is a Tensor of torch.float32 with shape [4]; it must be a path"),
    ("transcribe", ("sound.wav",), {"raw": "s16le"}, "raw is 's16le' (str); it must be a RawFormat"),
    ("transcribe", ("sound.wav",), {"wrds": True}, "there is no option 'wrds'; did you mean words?"),
    ("transcribe", ("sound.wav",), {"words": "yes"}, "words is 'yes' (str); it must be True or False"),
    ("listen", (), {"interval": 0}, "interval is 0 (int); it must be a number of seconds above 0"),
    ("speak", (5,), {}, "text is 5 (int); it must be a string"),
    ("speak", (b"hello",), {}, "text is b'hello' (bytes); it must be a string"),
    ("speak", ("hello",), {"speed": "fast"}, "speed is 'fast' (str); it must be a number"),
    ("load", (None,), {}, "model is None; it must be a catalog name, a path or a hub reference"),
    ("load", ("x",), {"device": 0}, "device is 0 (int); it must be the name of a device"),
    ("load_adapter", (5,), {}, "path is 5 (int); it must be a path"),
    ("unload", (None,), {}, "name is None; it must be the name of a loaded model or adapter"),
    ("sampling_defaults", (), {"temprature": 1}, "there is no option 'temprature'; did you mean temperature?"),
    ("start_profile", (5,), {}, "limits is 5 (int); it must be MachineLimits"),
    ("write_trace", (5,), {}, "path is 5 (int); it must be a path"),
]


@pytest.mark.parametrize(("method", "arguments", "options", "message"), WRONG)
def test_a_wrong_argument_is_named_with_what_is_taken(
    engine: Engine, method: str, arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        getattr(engine, method)(*arguments, **options)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_the_same_sentences_come_from_the_asynchronous_engine(tiny_llama: Path) -> None:
    async def ask() -> None:
        async with AsyncEngine(tiny_llama, **OPTIONS) as engine:
            for method, arguments, options, message in WRONG:
                with pytest.raises(InvalidRequestError) as raised:
                    result = getattr(engine, method)(*arguments, **options)
                    if inspect.isawaitable(result):
                        await result
                assert message in str(raised.value)

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ((5,), {}, "a model is 5 (int); it must be a catalog name, a path or a hub reference"),
        ((["a", "b"],), {}, "a model is ['a', 'b'] (list)"),
        ((), {"config": 5}, "config is 5 (int); it must be an EngineConfig"),
        ((), {"kv_byts": 5}, "there is no option 'kv_byts'; did you mean kv_bytes?"),
        ((), {"kv_bytes": "1 GB"}, "kv_bytes is '1 GB' (str); it must be an integer or None"),
        ((), {"offline": "yes"}, "offline is 'yes' (str); it must be True or False"),
        ((), {"adapters": "lora"}, "adapters is 'lora' (str); it must be a mapping of names to paths"),
    ],
)
def test_wrong_arguments_of_an_engine(models: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        Engine(*models, **options)
    assert message in str(raised.value)


def test_an_asynchronous_engine_needs_an_event_loop() -> None:
    with pytest.raises(InvalidRequestError, match="create it in a coroutine, or use Engine"):
        AsyncEngine()


# -- closed engines -----------------------------------------------------------------------------------------------


def public_methods(kind: type) -> set[str]:
    return {name for name, member in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize(("kind", "own"), [(Engine, OF_THREADS), (AsyncEngine, OF_ASYNCIO)])
def test_every_public_method_is_called_below(kind: type, own: dict[str, Any]) -> None:
    served = {"embedding_requests", "samples", "speaker", "transcriber"}  # for calls in the engine process
    assert public_methods(kind) - served - QUIET == {*CALLS, *own}


def test_every_method_of_a_closed_engine_says_so() -> None:
    engine = Engine(**OPTIONS)
    engine.close()
    engine.close()
    for method, arguments in (CALLS | OF_THREADS).items():
        options = {"n": 2} if method == "stream_samples" else {}
        with pytest.raises(EngineError, match=CLOSED):
            getattr(engine, method)(*arguments, **options)
    with pytest.raises(EngineError, match=CLOSED), engine:
        pass


def test_every_method_of_a_closed_asynchronous_engine_says_so() -> None:
    async def ask() -> None:
        engine = AsyncEngine(**OPTIONS)
        engine.close()
        engine.close()
        engine.abort("request-1")
        for method, arguments in (CALLS | OF_ASYNCIO).items():
            with pytest.raises(EngineError, match=CLOSED):
                result = getattr(engine, method)(*arguments)
                if inspect.isawaitable(result):
                    await result
        with pytest.raises(EngineError, match=CLOSED):
            async with engine:
                pass

    asyncio.run(ask())


def test_a_stream_that_runs_when_its_engine_is_closed_says_so(tiny_loaded: LoadedModel) -> None:
    with Engine(tiny_loaded, **OPTIONS) as engine:
        read, waited = engine.stream("hello", LONG), engine.stream("hello", LONG)
        assert next(read).token_ids
    with pytest.raises(EngineError, match="the engine is closed"):
        list(read)
    for ended in (read.wait, read.completion, waited.wait):
        with pytest.raises(EngineError, match="the engine is closed"):
            ended()
    read.cancel()
    read.close()


def test_an_asynchronous_stream_that_runs_when_its_engine_is_closed_says_so(tiny_loaded: LoadedModel) -> None:
    async def ask() -> None:
        async with AsyncEngine(tiny_loaded, **OPTIONS) as engine:
            stream = await engine.stream("hello", LONG)
        with pytest.raises(EngineError, match="the engine is closed"):
            await stream.wait()
        stream.close()

    asyncio.run(ask())
