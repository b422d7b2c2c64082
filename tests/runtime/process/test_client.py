"""The engine in its own process: the answers of the engine here, refusals by class, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from antiphon import Engine, GrammarSpec, SamplingParams
from antiphon.errors import (
    AntiphonError,
    ContextLengthError,
    EngineError,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
    UnsupportedError,
)
from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.tasks import EmbedInputs, Generate, Listen, Speak, TaskRequest
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.loading.model_text import ModelText
from antiphon.runtime.process.client import EngineClient, EngineState
from antiphon.runtime.process.messages import FromEngine, LoadModel
from antiphon.runtime.process.remote_call import RemoteCall
from antiphon.runtime.text.stream import GenerateStream, merged
from support.engine.engine_client import (
    OPTIONS,
    Answer,
    answers,
    call,
    is_alive,
    unchecked,
    until_free,
    write_encoder,
)
from support.engine.forked_engine import ForkedClient
from support.waiting import wait_until, wait_until_async

INPUTS: dict[type[TaskRequest], list[tuple[Any, ...]]] = {
    Listen: [("push", np.ones(1, np.float32)), ("finish",)],
    Speak: [("append", "a"), ("end_text",), ("release",)],
}


@dataclass
class World:
    """A client with a chat model and an encoder, and the event loop that it lives in."""

    runner: asyncio.Runner
    client: EngineClient
    llama: Path
    encoder: Path


@pytest.fixture(scope="module")
def world(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    encoder = write_encoder(tmp_path_factory.mktemp("encoder"))
    with asyncio.Runner() as runner:
        client = ForkedClient(OPTIONS)

        async def start() -> None:
            await client.start()
            await asyncio.gather(client.load("tiny", str(tiny_llama)), client.load("encoder", str(encoder)))

        runner.run(start())
        assert client.state is EngineState.READY and client.cause is None
        yield World(runner, client, tiny_llama, encoder)
        pid = client.pid
        runner.run(client.close())
        assert pid is not None and not is_alive(pid)


def test_streams_are_what_the_engine_says_here(world: World, tiny_loaded: LoadedModel) -> None:
    prompts = [[index, index + 3, 40] for index in range(16)]
    with Engine(tiny_loaded, **OPTIONS) as engine:
        params = SamplingParams(max_tokens=20, temperature=0.7, seed=11)
        expected = engine.generate(prompts, params)

    async def main() -> list[list[Answer]]:
        calls = [call(prompt, max_tokens=20, temperature=0.7, seed=11) for prompt in prompts]
        return list(await asyncio.gather(*(answers(world.client, asked) for asked in calls)))

    for [found], wanted in zip(world.runner.run(main()), expected, strict=True):
        assert found.text == wanted.text
        assert found.end is not None and found.end.finish_reason == wanted.finish_reason.value
        assert (found.end.prompt_tokens, found.end.completion_tokens) == (3, len(wanted.token_ids))
        assert found.end.total >= found.end.time_to_first_token > 0


def test_samples_logprobs_stops_and_prompt_logprobs(world: World, tiny_loaded: LoadedModel) -> None:
    prompt, sampling = [9, 8, 7, 6], dict(max_tokens=12, temperature=6.0, seed=4, ignore_eos=True)
    with Engine(tiny_loaded, **OPTIONS) as engine:
        params = SamplingParams(logprobs=3, prompt_logprobs=True, **sampling)  # type: ignore[arg-type]
        expected = engine.generate([prompt], params, n=3)
        stop = expected[0].text[5:7]
        stopped = engine.generate([prompt], SamplingParams(stop=(stop,), **sampling))[0]  # type: ignore[arg-type]

    async def main() -> tuple[list[Answer], list[Answer]]:
        whole = await answers(world.client, call(prompt, n=3, logprobs=3, prompt_logprobs=True, **sampling))
        return whole, await answers(world.client, call(prompt, stop=[stop], **sampling))

    found, [short] = world.runner.run(main())
    assert len({answer.text for answer in found}) > 1
    for answer, wanted in zip(found, expected, strict=True):
        assert (answer.text, answer.token_ids) == (wanted.text, wanted.token_ids)
        assert wanted.logprobs is not None and answer.logprobs == pytest.approx(wanted.logprobs, abs=1e-4)
        assert wanted.top_logprobs is not None and [len(top) for top in answer.top_logprobs] == [3] * 12
        assert [t for top in answer.top_logprobs for t, _ in top] == [t for top in wanted.top_logprobs for t, _ in top]
        assert answer.end is not None
        assert answer.end.prompt_logprobs == pytest.approx(wanted.prompt_logprobs, abs=1e-4, nan_ok=True)
    assert short.text == stopped.text and stop not in short.text
    assert short.end is not None and short.end.finish_reason == "stop"


def test_a_grammar_holds_and_an_abort_reaches_one_that_compiles(world: World) -> None:
    async def main() -> Answer:
        stream = world.client.generate(call([1, 2], grammar=GrammarSpec(regex="[ab]{400}"), max_tokens=500))
        stream.close()
        asked = call([1, 2, 3], grammar=GrammarSpec(choice=("yes", "no")), max_tokens=20)
        [answer] = await answers(world.client, asked)
        await until_free(world.client)
        return answer

    assert world.runner.run(main()).text in ("yes", "no")


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (call([1], model="nobody"), ModelNotFoundError, "nobody.*loaded: .*tiny"),
        (call([1], model="encoder"), UnsupportedError, "is an embedding model"),
        (call([]), InvalidRequestError, "no tokens"),
        (call([1] * 5000), ContextLengthError, "5000.*4096"),
        (call([1, 99999]), InvalidRequestError, "99999.*272"),
        (call([1], temperature=-1.0), InvalidRequestError, "temperature is -1"),
        (call([1], logit_bias={300: 1.0}), InvalidRequestError, "logit_bias has token id 300"),
        (call([1], banned_tokens=[-1]), InvalidRequestError, "banned_tokens has token id -1"),
        (call([1], priority=9), InvalidRequestError, "priority is 9"),
        (call([1], grammar=unchecked(GrammarSpec)), InvalidRequestError, "exactly one"),
        (call([1], grammar=GrammarSpec(regex="(")), InvalidRequestError, "regex"),
    ],
)
def test_refusals_come_as_their_class(world: World, asked: Generate, error: type[AntiphonError], words: str) -> None:
    async def main() -> None:
        stream = world.client.generate(asked)
        with pytest.raises(error, match=words):
            await stream.accepted()
        with pytest.raises(error, match=words):
            await anext(stream)

    world.runner.run(main())


def test_a_message_that_cannot_be_decoded_is_rejected_and_harms_no_other(world: World) -> None:
    async def main() -> None:
        process = world.client._process
        assert process is not None
        pid = world.client.pid
        async with world.client.generate(call([1, 2], max_tokens=2000, ignore_eos=True)) as running:
            await anext(running)
            wrong = call([1])
            for name, value in (("prompt", "no tokens"), ("n", "many"), ("params", {"temperature": "hot"})):
                own = msgspec.structs.replace(wrong, id=f"wrong-{name}")
                stream = GenerateStream(RemoteCall(own, process.send), world.client._sink, 1)
                fields = {**msgspec.to_builtins(own), name: value}
                process._commands.send(msgspec.msgpack.encode(fields))
                with pytest.raises(InvalidRequestError, match=r"cannot decode a message of [0-9]+ bytes"):
                    await asyncio.wait_for(stream.accepted(), 30)
            for data in (b"", b"\xc1", b"\x93\x01\x02\x03", msgspec.msgpack.encode({"type": "Nonsense"})):
                process._commands.send(data)
            with pytest.raises(InvalidRequestError, match="cannot decode"):
                await world.client._questions.ask(process, ("load", "x"), LoadModel("x", 5))  # type: ignore[arg-type]
            assert isinstance(await anext(running), TextDelta)
        await until_free(world.client)
        assert world.client.pid == pid and world.client.restarts == 0

    world.runner.run(main())


def test_controls_of_another_kind_of_call_are_ignored(world: World) -> None:
    async def main() -> None:
        process, pid = world.client._process, world.client.pid
        assert process is not None
        async with world.client.generate(call([1, 2], id="text", max_tokens=2000, ignore_eos=True)) as running:
            await anext(running)
            for other in (Listen("text", "tiny", TranscriptionOptions()), Speak("text", "tiny", "", SpeechOptions())):
                control: Any = RemoteCall(other, process.send)
                for method, *arguments in INPUTS[type(other)]:
                    getattr(control, method)(*arguments)
            assert (await world.client.figures())["tiny"]["running"] == 1
            assert isinstance(await anext(running), TextDelta)
        await until_free(world.client)
        assert world.client.pid == pid

    world.runner.run(main())


def test_a_call_that_cannot_be_encoded_leaves_no_reader(world: World) -> None:
    async def main() -> None:
        for _ in range(2):  # the second time its id must not be in use
            with pytest.raises(TypeError):
                world.client.generate(call([1], id="odd", cache_salt=object()))
        assert not world.client._sink.open_ids

    world.runner.run(main())


def test_an_event_that_cannot_be_read_holds_no_other_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    process = world.client._process
    assert process is not None
    take, seen = process._on_event, []

    def stumble(event: FromEngine) -> None:
        seen.append(event)
        if len(seen) == 1:
            raise KeyError("an event of another version")
        take(event)

    async def main() -> None:
        monkeypatch.setattr(process, "_on_event", stumble)
        first = asyncio.create_task(world.client.figures())
        await wait_until_async(lambda: seen, "an event of the engine")
        assert (await asyncio.wait_for(world.client.figures(), 30))["process"]["pid"] == world.client.pid
        first.cancel()

    world.runner.run(main())


def test_a_wrong_count_and_an_id_in_use_are_refused_at_once(world: World) -> None:
    async def main() -> None:
        for n in (0, 129):
            with pytest.raises(InvalidRequestError, match=f"n is {n}"):
                world.client.generate(call([1], n=n))
        async with world.client.generate(call([1], id="twice", max_tokens=2000, ignore_eos=True)) as stream:
            await stream.accepted()
            with pytest.raises(InvalidRequestError, match="'twice' is in use"):
                world.client.generate(call([1], id="twice"))
        await until_free(world.client)

    world.runner.run(main())


def test_overload_refuses_some_and_serves_the_others(world: World) -> None:
    async def main() -> tuple[int, int]:
        calls = [call([index % 50, 1], max_tokens=30, ignore_eos=True) for index in range(400)]
        results = await asyncio.gather(*(answers(world.client, c) for c in calls), return_exceptions=True)
        refused = [result for result in results if isinstance(result, OverloadedError)]
        served = [result for result in results if isinstance(result, list)]
        assert len(refused) + len(served) == len(results)
        assert all(len(answer[0].token_ids) == 30 for answer in served)
        return len(refused), len(served)

    refused, served = world.runner.run(main())
    assert refused > 0 and served >= OPTIONS["max_waiting"]


def test_closing_a_stream_frees_its_blocks(world: World) -> None:
    async def main() -> None:
        client = world.client
        stream = client.generate(call([5, 6, 7], n=2, max_tokens=3000, ignore_eos=True))
        for _ in range(10):
            await anext(stream)
        figures = await client.figures()
        assert figures["tiny"]["running"] == 2 and figures["tiny"]["blocks_owned"] > 0
        assert figures["process"]["pid"] == client.pid and figures["process"]["resident_bytes"] > 50e6
        stream.close()
        stream.close()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await until_free(client)

    world.runner.run(main())


def test_cancelling_ends_a_stream_that_can_still_be_read(world: World) -> None:
    async def main() -> None:
        stream = world.client.generate(call([5, 6], n=2, max_tokens=3000, ignore_eos=True))
        for _ in range(4):
            await anext(stream)
        stream.cancel()
        ends = [item async for item in stream if isinstance(item, Ended)]
        assert [end.finish_reason for end in ends] == ["cancelled"] * 2
        assert sum(end.completion_tokens for end in ends) >= 4

    world.runner.run(main())


def test_a_deadline_ends_a_stream(world: World) -> None:
    """Also when it is the only one there, so that the engine falls idle by it."""
    for seconds in (0.0, 0.03, 0.06, 0.2):
        asked = call([5, 6], max_tokens=4000, ignore_eos=True, timeout=seconds)
        [answer] = world.runner.run(asyncio.wait_for(answers(world.client, asked), 30))
        assert answer.end is not None and answer.end.finish_reason == "deadline"


def test_a_cancelled_wait_loses_nothing(world: World) -> None:
    async def main() -> None:
        stream = world.client.generate(call([5, 6], max_tokens=300, ignore_eos=True))
        ids: list[int] = []
        while True:
            try:
                item = await asyncio.wait_for(anext(stream), 0.0005)
            except TimeoutError:
                continue
            except StopAsyncIteration:
                break
            ids += item.token_ids if isinstance(item, TextDelta) else []
        [whole] = await answers(world.client, call([5, 6], max_tokens=300, ignore_eos=True))
        assert ids == whole.token_ids

    world.runner.run(main())


def test_a_slow_reader_gets_the_whole_in_few_pieces(world: World) -> None:
    async def main() -> None:
        asked = dict(n=3, max_tokens=150, ignore_eos=True, temperature=1.0, logprobs=1)
        stream = world.client.generate(call([3, 4], **asked))  # type: ignore[arg-type]
        await wait_until_async(lambda: not stream.num_unended, "the stream's end", seen=lambda: stream.num_unended)
        items = [item async for item in stream]
        assert [type(item) for item in items] == [TextDelta, Ended] * 3
        wanted = await answers(world.client, call([3, 4], **asked))  # type: ignore[arg-type]
        assert [item.text for item in items if isinstance(item, TextDelta)] == [answer.text for answer in wanted]
        assert all(len(item.logprobs) == 150 for item in items if isinstance(item, TextDelta))

    world.runner.run(main())


def test_merging_keeps_the_order_within_each_sample() -> None:
    end = Ended("a/0", "stop", 1, 2, 0)
    items = [TextDelta("a/0", "x", [1]), TextDelta("a/1", "p", [5]), TextDelta("a/0", "y", [2]), end]
    assert list(merged(items)) == [TextDelta("a/0", "xy", [1, 2]), end, TextDelta("a/1", "p", [5])]


def test_many_streams_with_readers_that_leave(world: World) -> None:
    """The answers that are read to the end are whole, and what the others held comes back."""
    chance = random.Random(1)
    calls = [call([index, 7, 9], max_tokens=60, ignore_eos=True) for index in range(64)]
    leaves = {asked.id: chance.randrange(40) for asked in chance.sample(calls, 24)}

    async def read(asked: Generate) -> str | None:
        async with world.client.generate(asked) as stream:
            text = ""
            async for item in stream:
                if len(text) >= leaves.get(asked.id, 1000):
                    return None
                text += item.text if isinstance(item, TextDelta) else ""
                if chance.random() < 0.05:
                    await asyncio.sleep(0.02)
            return text

    async def main() -> None:
        texts = await asyncio.gather(*(read(asked) for asked in calls))
        await until_free(world.client)
        finished = [(asked, text) for asked, text in zip(calls, texts, strict=True) if text is not None]
        assert len(finished) == 40
        for asked, text in finished[::5]:
            [alone] = await answers(world.client, call(asked.prompt, max_tokens=60, ignore_eos=True))
            assert text == alone.text

    world.runner.run(main())
    assert not world.client._sink.open_ids


def test_embeddings_are_those_of_the_engine_here(world: World) -> None:
    texts = ["hello there", "tell", "the hello"]
    loaded = load_model(str(world.encoder))
    with Engine(loaded, **OPTIONS) as engine:
        expected = np.stack([vector.numpy() for vector in engine.embed(texts)])
    inputs = [loaded.tokenizer.encode(text) for text in texts]

    async def main() -> None:
        found = await world.client.embed(EmbedInputs("embed-1", "encoder", inputs))
        np.testing.assert_allclose(found.vectors, expected, rtol=1e-5, atol=1e-6)
        assert found.prompt_tokens == sum(map(len, inputs))
        with pytest.raises(ContextLengthError, match=r"40 tokens.*takes 32"):
            await world.client.embed(EmbedInputs("embed-2", "encoder", [[1], [1] * 40]))
        with pytest.raises(UnsupportedError, match="tiny is a language model; for embeddings use one of: all-m"):
            await world.client.embed(EmbedInputs("embed-3", "tiny", [[1]]))
        with pytest.raises(InvalidRequestError, match="no inputs"):
            await world.client.embed(EmbedInputs("embed-4", "encoder", []))
        with pytest.raises(OverloadedError, match="4096 requests waiting"):
            await world.client.embed(EmbedInputs("embed-5", "encoder", [[1]] * 5000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.client.embed(EmbedInputs("embed-6", "encoder", [[1] * 30] * 2048)), 0.001)
        await until_free(world.client, "encoder")

    world.runner.run(main())


def test_loads_are_shared_and_failures_have_their_class(world: World) -> None:
    async def main() -> None:
        client = world.client
        first, second = await asyncio.gather(*(client.load("again", str(world.llama)) for _ in range(2)))
        assert first is second and client.models["again"] is first
        assert (first.task, first.max_tokens) == ("generate", 4096) and first.weight_bytes > 100_000
        with pytest.raises(InvalidRequestError, match="unload it"):
            await client.load("again", str(world.encoder))
        [answer] = await answers(client, call([1, 2], model="again", max_tokens=5))
        [wanted] = await answers(client, call([1, 2], max_tokens=5))
        assert answer.text == wanted.text
        running = client.generate(call([1, 2], model="again", max_tokens=3000, ignore_eos=True))
        await running.accepted()
        await client.unload("again")
        assert [item.finish_reason async for item in running if isinstance(item, Ended)] == ["cancelled"]
        assert "again" not in client.models
        with pytest.raises(ModelNotFoundError, match="'again' is not loaded"):
            await client.generate(call([1], model="again")).accepted()
        with pytest.raises(ModelNotFoundError, match="'again' is not loaded"):
            await client.unload("again")
        with pytest.raises(ModelNotFoundError):
            await client.load("nobody", "/no/such/model.gguf")
        assert set(client.models) == {"tiny", "encoder"}

    world.runner.run(main())


def test_signals_for_the_whole_terminal_do_not_reach_the_engine(world: World) -> None:
    pid = world.client.pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    [answer] = world.runner.run(answers(world.client, call([1, 2], max_tokens=5)))
    assert len(answer.token_ids) == 5 and world.client.pid == pid


def test_wrong_options_are_refused_at_the_start() -> None:
    async def main() -> None:
        client = ForkedClient(dict(kv_bytes=1 << 20, preemption="never"))
        with pytest.raises(InvalidRequestError, match="preemption is 'never'"):
            await client.start()
        assert client.state is EngineState.FAILED and client.cause is not None and "never" in client.cause
        with pytest.raises(EngineError, match="failed"):
            client.generate(call([1]))
        with pytest.raises(EngineError, match="failed"):
            await client.load("tiny", "anything")
        await client.close()

    asyncio.run(main())


def test_nothing_is_left_when_a_client_is_closed(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> int | None:
        client = ForkedClient(OPTIONS)
        await client.start()
        assert not list(tmp_path.iterdir()), "the sockets' names go when both sides are connected"
        await client.load("tiny", str(tiny_llama))
        stream = client.generate(call([1], max_tokens=4000, ignore_eos=True))
        await anext(stream)
        pid = client.pid
        await client.close()
        with pytest.raises(EngineError, match="closed"):
            async for _ in stream:
                pass
        assert client.state is EngineState.CLOSED
        await client.close()
        return pid

    def num_descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()  # what earlier tests left is not closed meanwhile
    before = num_descriptors()
    pid = asyncio.run(main())
    assert pid is not None and not is_alive(pid)
    # A thread closes its pipe.
    wait_until(lambda: num_descriptors() <= before, f"at most {before} open descriptors", seen=num_descriptors)


def test_model_text_is_that_of_the_loaded_model(world: World, tiny_loaded: LoadedModel, tiny_gguf: Path) -> None:
    for path in (world.llama, tiny_gguf):
        text = ModelText.load(str(path), offline=True)
        assert text.tokenizer.encode("hello there") == tiny_loaded.tokenizer.encode("hello there")
        assert (text.eos_ids, text.max_tokens) == (tiny_loaded.eos_ids, 4096)
        messages = [{"role": "user", "content": "hello"}]
        assert text.chat_template is not None and tiny_loaded.chat_template is not None
        assert text.chat_template.render(messages) == tiny_loaded.chat_template.render(messages)
    encoder = ModelText.load(str(world.encoder), offline=True)
    assert (encoder.chat_template, encoder.max_tokens) == (None, 32)
    with pytest.raises(ModelNotFoundError):
        ModelText.load("/no/such/model", offline=True)
