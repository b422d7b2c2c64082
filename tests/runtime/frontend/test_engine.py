"""The engine as callers meet it: answers, streams, ends of every kind, errors, and memory that comes back."""

from __future__ import annotations

import gc
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from antiphon import Engine, Priority, SamplingParams
from antiphon.engine.request import FinishReason
from antiphon.errors import (
    ContextLengthError,
    EngineError,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
    UnsupportedError,
)
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots import decoder
from support.waiting import wait_until

LONG = SamplingParams(max_tokens=2000, ignore_eos=True)
OPTIONS: dict[str, Any] = dict(kv_bytes=8 << 20, key_type="fp32", value_type="fp32")


@pytest.fixture
def engine(tiny_loaded: LoadedModel) -> Iterator[Engine]:
    with Engine(tiny_loaded, **OPTIONS) as engine:
        yield engine


def owned(engine: Engine) -> int:
    return engine.figures()[engine.models[0]]["blocks_owned"]


def wait_until_free(engine: Engine) -> None:
    wait_until(lambda: owned(engine) == 0, "all blocks to be free", seen=engine.figures)


def test_generate_many_and_one(engine: Engine) -> None:
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    answers = engine.generate(["hello there", "the", [5, 6, 7]], params)
    assert [len(answer.token_ids) for answer in answers] == [8, 8, 8]
    assert all(answer.finish_reason is FinishReason.LENGTH for answer in answers)
    (alone,) = engine.generate("hello there", params)
    assert alone.token_ids == answers[0].token_ids and alone.text == answers[0].text
    assert answers[0].prompt_tokens == len(engine._factories[engine.models[0]].loaded.tokenizer.encode("hello there"))


def test_messages_go_through_the_chat_template(engine: Engine, tiny_loaded: LoadedModel) -> None:
    messages = [{"role": "user", "content": "hello"}]
    assert tiny_loaded.chat_template is not None
    prompt = tiny_loaded.tokenizer.encode(tiny_loaded.chat_template.render(messages), add_special_tokens=False)
    params = SamplingParams(max_tokens=5, ignore_eos=True)
    assert engine.generate([messages], params)[0].token_ids == engine.generate([prompt], params)[0].token_ids


def test_a_stream_is_the_whole_in_pieces(engine: Engine) -> None:
    params = SamplingParams(max_tokens=30, ignore_eos=True)
    (whole,) = engine.generate("hello", params)
    stream = engine.stream("hello", params)
    deltas = list(stream)
    assert "".join(delta.text for delta in deltas) == whole.text
    assert [token for delta in deltas for token in delta.token_ids] == whole.token_ids
    assert stream.completion().text == whole.text


def test_a_slow_reader_gets_larger_deltas_and_loses_nothing(engine: Engine) -> None:
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    stream = engine.stream("hello", params)
    stream.wait()
    (delta,) = list(stream)
    assert len(delta.token_ids) == 40


def test_two_threads_that_read_one_stream_both_come_to_its_end(engine: Engine) -> None:
    stream = engine.stream("hello", SamplingParams(max_tokens=20, ignore_eos=True))
    with ThreadPoolExecutor(2) as pool:
        parts = [part for deltas in pool.map(lambda _: list(stream), range(2), timeout=60) for part in deltas]
    assert sum(len(part.token_ids) for part in parts) == len(stream.completion().token_ids) == 20


def test_cached_tokens_of_a_second_turn(engine: Engine) -> None:
    """The second turn of a conversation finds the first turn's prompt and answer."""
    first = [random.Random(0).randrange(200) for _ in range(70)]
    (answer,) = engine.generate([first], SamplingParams(max_tokens=40, ignore_eos=True))
    assert answer.cached_tokens == 0
    second = first + answer.token_ids + [1, 2, 3]
    (next_answer,) = engine.generate([second], SamplingParams(max_tokens=2))
    assert next_answer.cached_tokens == (70 + 39) // 16 * 16
    (salted,) = engine.generate([second], SamplingParams(max_tokens=2), cache_salt="another user")
    assert salted.cached_tokens == 0
    assert salted.token_ids == next_answer.token_ids


def test_n_samples_share_the_prompt(engine: Engine) -> None:
    params = SamplingParams(max_tokens=10, temperature=1.0, seed=5, ignore_eos=True)
    prompt = list(range(100))
    answers = engine.generate([prompt], params, n=4)
    assert len({tuple(answer.token_ids) for answer in answers}) == 4
    assert [answer.cached_tokens for answer in answers] == [0, 99, 99, 99]
    for index, answer in enumerate(answers):
        own = SamplingParams(max_tokens=10, temperature=1.0, seed=5 + index, ignore_eos=True)
        assert engine.generate([prompt], own)[0].token_ids == answer.token_ids


def test_stop_strings_never_show_in_part(engine: Engine) -> None:
    params = SamplingParams(max_tokens=60, ignore_eos=True)
    (whole,) = engine.generate("hello", params)
    stop = whole.text[20:24]
    stream = engine.stream("hello", SamplingParams(max_tokens=60, ignore_eos=True, stop=(stop,)))
    text = "".join(delta.text for delta in stream)
    assert text == whole.text[: whole.text.index(stop)]
    assert stream.completion().finish_reason is FinishReason.STOP


def test_logprobs_of_a_prompt_in_parts_are_those_of_the_whole(
    tiny_loaded: LoadedModel, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits of prompts are bounded in bytes, so that long prompts are read in several steps."""
    prompts = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8, 1, 8]]
    params = SamplingParams(max_tokens=3, ignore_eos=True, prompt_logprobs=True, prompt_top_logprobs=2)
    whole = engine.generate(prompts, params)
    vocab = tiny_loaded.causal_lm().vocab_size
    monkeypatch.setattr(decoder, "PROMPT_LOGIT_BYTES", 3 * 4 * vocab)
    with Engine(tiny_loaded, **OPTIONS) as bounded:
        parts = bounded.generate(prompts, params)
    for one, other in zip(whole, parts, strict=True):
        assert one.token_ids == other.token_ids
        assert one.prompt_logprobs is not None and len(one.prompt_logprobs) == len(one.prompt_top_logprobs or [])
        assert other.prompt_logprobs == pytest.approx(one.prompt_logprobs, abs=1e-4)


def test_logprobs_equal_a_direct_forward(engine: Engine, tiny_loaded: LoadedModel) -> None:
    from support.kernels.paged import PagedRunner

    prompt = [3, 1, 4, 1, 5, 9, 2, 6]
    params = SamplingParams(max_tokens=5, ignore_eos=True, logprobs=2, prompt_logprobs=True)
    (answer,) = engine.generate([prompt], params)
    tokens = prompt + answer.token_ids
    (logits,) = PagedRunner(tiny_loaded.causal_lm(), 1, 16).step([(0, tokens, 0)])
    vocab = tiny_loaded.tokenizer.vocab_size
    expected = logits[:, :vocab].log_softmax(-1)
    own = [expected[position, token].item() for position, token in enumerate(tokens[1:])]
    assert answer.prompt_logprobs == pytest.approx(own[: len(prompt) - 1], abs=1e-4)
    assert answer.logprobs == pytest.approx(own[len(prompt) - 1 :], abs=1e-4)
    assert answer.top_logprobs is not None and len(answer.top_logprobs) == 5
    assert answer.top_logprobs[0][0][1] == pytest.approx(expected[len(prompt) - 1].max().item(), abs=1e-4)
    assert answer.prompt_top_logprobs is not None and [len(top) for top in answer.prompt_top_logprobs] == [2] * 7
    # The prompt may have another number of likeliest tokens than the answer.
    (wider,) = engine.generate([prompt], replace(params, logprobs=None, prompt_top_logprobs=4))
    best = expected[: len(prompt) - 1].topk(4)
    assert wider.prompt_top_logprobs is not None and wider.logprobs is None
    assert [[token for token, _ in top] for top in wider.prompt_top_logprobs] == best.indices.tolist()
    for top, values in zip(wider.prompt_top_logprobs, best.values.tolist(), strict=True):
        assert [value for _, value in top] == pytest.approx(values, abs=1e-4)
    with pytest.raises(InvalidRequestError, match="prompt_top_logprobs is 21"):
        SamplingParams(prompt_top_logprobs=21)


# -- ends ---------------------------------------------------------------------------------------------------------


def test_cancel_keeps_what_was_made(engine: Engine) -> None:
    stream = engine.stream("hello", LONG)
    next(stream)
    stream.cancel()
    for _ in stream:
        pass
    answer = stream.completion()
    assert answer.finish_reason is FinishReason.CANCELLED
    assert 1 <= len(answer.token_ids) < 2000
    wait_until_free(engine)


def test_closing_and_dropping_a_stream_frees_its_blocks(engine: Engine) -> None:
    with engine.stream("hello", LONG) as stream:
        next(stream)
        assert owned(engine) > 0
    wait_until_free(engine)
    stream = engine.stream("hello", LONG)
    next(stream)
    del stream
    gc.collect()
    wait_until_free(engine)


def test_a_timeout_ends_by_deadline(engine: Engine) -> None:
    stream = engine.stream("hello", LONG, timeout=0.05)
    answer = stream.wait()
    assert answer.finish_reason is FinishReason.DEADLINE
    wait_until_free(engine)


def test_a_failing_step_fails_its_requests_with_the_cause(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = engine._core.slots[engine.models[0]].executor

    def broken(*_: Any) -> torch.Tensor:
        raise RuntimeError("matrix fell over")

    monkeypatch.setattr(executor, "submit", broken)
    with pytest.raises(EngineError, match="RuntimeError: matrix fell over"):
        engine.generate("hello", SamplingParams(max_tokens=3))
    monkeypatch.undo()
    assert len(engine.generate("hello", SamplingParams(max_tokens=3, ignore_eos=True))[0].token_ids) == 3
    wait_until_free(engine)


def test_a_broken_loop_tells_everybody_the_cause(tiny_loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(tiny_loaded, **OPTIONS)
    stream = engine.stream("hello", LONG)
    next(stream)

    def broken() -> bool:
        raise MemoryError("no more")

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(engine._core, "step", broken)
    with pytest.raises(EngineError, match="MemoryError: no more"):
        for _ in stream:
            pass
    with pytest.raises(EngineError, match="MemoryError: no more"):
        engine.generate("hello")
    engine.close()


def test_abandoned_requests_leave_no_trace(engine: Engine) -> None:
    """Opened and dropped at random points; the pool is then exactly as it was."""
    source = random.Random(7)
    for _ in range(150):
        stream = engine.stream([source.randrange(200) for _ in range(source.randint(1, 60))], LONG)
        for _ in range(source.choice([0, 0, 1, 3])):
            next(stream)
        if source.random() < 0.5:
            stream.close()
        del stream
    wait_until_free(engine)
    figures = engine.figures()[engine.models[0]]
    assert (figures["running"], figures["waiting"]) == (0, 0)
    engine._loop.call(engine._core.check_integrity).result()


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_a_thousand_abandoned_requests_cost_no_memory(
    tiny_loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a first few hundred have warmed everything up, a thousand more leave pool and resident memory alike."""
    monkeypatch.setattr("antiphon.engine.telemetry.MAX_STEPS", 100)  # how many are kept depends on the machine's pace
    source = random.Random(8)
    engine = Engine(tiny_loaded, **OPTIONS, prefix_caching=False)

    def abandon(count: int) -> int:
        for _ in range(count):
            with engine.stream([source.randrange(200) for _ in range(source.randint(1, 60))], LONG) as stream:
                for _ in range(source.choice([0, 0, 1, 3])):
                    next(stream)
        wait_until_free(engine)
        gc.collect()
        return resident_bytes()

    warm = abandon(500)
    after = abandon(1000)
    assert engine.figures()["arena"]["lent_bytes"] == 0
    engine.close()
    assert after - warm < 8 << 20


# -- refusals -----------------------------------------------------------------------------------------------------


def test_too_long_names_both_sizes(engine: Engine) -> None:
    with pytest.raises(ContextLengthError, match=r"5000 tokens.*4096"):
        engine.generate([[1] * 5000])
    assert owned(engine) == 0


def test_too_large_for_the_cache_names_both_sizes(tiny_loaded: LoadedModel) -> None:
    with (
        Engine(tiny_loaded, **(OPTIONS | dict(kv_bytes=64 << 10))) as small,
        pytest.raises(ContextLengthError, match=r"600 tokens.*holds \d+ \(65536 bytes\)"),
    ):
        small.generate([[1] * 600])


def test_an_answer_stops_where_the_cache_ends(tiny_loaded: LoadedModel) -> None:
    with Engine(tiny_loaded, **(OPTIONS | dict(kv_bytes=64 << 10))) as small:
        (answer,) = small.generate([[1] * 10], LONG)
    assert answer.finish_reason is FinishReason.LENGTH
    assert len(answer.token_ids) < 600


def test_overload_is_refused_with_the_numbers(tiny_loaded: LoadedModel) -> None:
    with Engine(tiny_loaded, **OPTIONS, max_running=1, max_waiting=2) as busy:
        streams = [busy.stream("hello", LONG)]
        next(streams[0])
        streams += [busy.stream("hello", LONG) for _ in range(2)]
        with pytest.raises(OverloadedError, match=r"2 requests waiting and 1 running; at most 2"):
            busy.stream("hello", LONG)
        with pytest.raises(OverloadedError):
            busy.generate(["a", "b"], LONG)
        assert busy.figures()[busy.models[0]]["waiting"] == 2
        for stream in streams:
            stream.close()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (dict(policy="lottery"), "lottery"), (dict(key_type="int3"), "int3"), (dict(block_tokens=5), "5"),
        (dict(preemption="delete"), "delete"), (dict(max_running=0), "max_running"),
        (dict(chunk_tokens=0), "chunk_tokens"),
        (dict(sink_tokens=4), "sink_tokens"), (dict(no_such_option=1), "no_such_option"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_by_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidRequestError, match=word):
        Engine(**options)


def test_wrong_requests_are_refused(engine: Engine) -> None:
    with pytest.raises(ModelNotFoundError, match="no-such-model"):
        engine.generate("hello", model="no-such-model")
    with pytest.raises(InvalidRequestError, match="token id 99999"):
        engine.generate([[99999]])
    with pytest.raises(InvalidRequestError, match="no tokens"):
        engine.generate([[]])
    with pytest.raises(InvalidRequestError, match="n is 0"):
        engine.generate("hello", n=0)
    with pytest.raises(InvalidRequestError, match="banned_tokens has token id 99999"):
        engine.generate("hello", SamplingParams(banned_tokens=frozenset({99999})))
    with pytest.raises(InvalidRequestError, match="2 prompts were given with 1"):
        engine.generate(["a", "b"], [SamplingParams()])
    for ask, needed in ((engine.embed, "embeddings"), (engine.transcribe, "transcription"), (engine.speak, "speech")):
        with pytest.raises(UnsupportedError, match=rf"is a language model; for {needed} use one of: \w"):
            ask("hello")


def test_int8_pages_need_wide_heads(tiny_loaded: LoadedModel) -> None:
    with pytest.raises(InvalidRequestError, match="divisible by 32, not 16"):
        Engine(tiny_loaded, **(OPTIONS | dict(key_type="int8")))


# -- models and figures -------------------------------------------------------------------------------------------


def test_two_models_share_the_arena_and_unloading_gives_it_back(tiny_loaded: LoadedModel, tiny_gguf: Path) -> None:
    from dataclasses import replace

    second = replace(tiny_loaded, name="second")
    with Engine(tiny_loaded, second, **OPTIONS) as engine:
        params = SamplingParams(max_tokens=6, ignore_eos=True)
        (a,) = engine.generate([[1, 2, 3] * 20], params, model=tiny_loaded.name)
        (b,) = engine.generate([[1, 2, 3] * 20], params, model="second")
        assert a.token_ids == b.token_ids and b.cached_tokens == 0
        stream = engine.stream([1, 2, 3], LONG, model="second")
        next(stream)
        engine.unload("second")
        assert stream.wait().finish_reason is FinishReason.CANCELLED
        assert engine.models == [tiny_loaded.name]
        engine.unload(tiny_loaded.name)
        assert engine.figures()["arena"]["lent_bytes"] == 0


def test_trace_shows_each_request_on_a_timeline(tiny_loaded: LoadedModel, tmp_path: Path) -> None:
    import json

    with Engine(tiny_loaded, **OPTIONS, record_requests=True, chunk_tokens=8) as engine:
        engine.generate([[1] * 30, [2] * 5], SamplingParams(max_tokens=4, ignore_eos=True), priority=Priority.HIGH)
        engine.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert {"step", "plan", "build", "run", "sample", "commit", "prefill", "decode", "request", "queued"} <= names
    (requests,) = (event["pid"] for event in events if event["args"].get("name") == "requests")
    assert len({event["tid"] for event in events if event["pid"] == requests and event["ph"] == "X"}) == 2
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_steps_say_what_was_drafted(tiny_loaded: LoadedModel, tmp_path: Path) -> None:
    import json

    with Engine(tiny_loaded, **OPTIONS) as engine:
        # The first draft is computed before its cost is known.
        params = SamplingParams(max_tokens=8, ignore_eos=True, prediction="hello")
        (answer,) = engine.generate([[1] * 30], params)
        engine.write_trace(tmp_path / "trace.json")
        steps = engine.step_records()
    assert answer.drafted_tokens == sum(step.drafted_tokens for step in steps) > 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    written = [event["args"]["drafted_tokens"] for event in events if event["name"] == "step"]
    assert written == [step.drafted_tokens for step in steps]


def test_timings_are_told(engine: Engine) -> None:
    (answer,) = engine.generate("hello", SamplingParams(max_tokens=10, ignore_eos=True))
    timings = answer.timings
    assert 0 < timings.time_to_first_token <= timings.total
    assert len(timings.inter_token_gaps) == 9
    assert timings.time_per_output_token == pytest.approx(sum(timings.inter_token_gaps) / 9)
