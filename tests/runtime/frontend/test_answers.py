"""One request from prompt to text: what is emitted, when it ends, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import ContextLengthError, InvalidRequestError
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.text.output import Completion
from support.engine.scripted import ScriptedModel, scripted
from support.models.tiny_model import tiny_tokenizer, vocabulary

PROMPT = [1, 2, 3]
EOS = vocabulary().index("<|im_end|>")


def encode(text: str) -> list[int]:
    return tiny_tokenizer().encode(text).ids


def single_bytes(text: str) -> list[int]:
    """One token per byte, so that every string is split wherever it can be."""
    tokens = vocabulary()
    return [tokens.index(part) for byte in text.encode() for part in byte_token(byte)]


def byte_token(byte: int) -> list[str]:
    from antiphon.text.tokenization.byte_level import spelled_bytes

    return [token for token in vocabulary()[:256] if spelled_bytes(token) == bytes([byte])]


def answer(loaded: LoadedModel, prompt: Sequence[int], params: SamplingParams) -> tuple[list[str], Completion]:
    """The pieces of text as they were shown, and the whole."""
    with Engine(loaded, kv_bytes=1 << 20) as engine:
        stream = engine.stream(prompt, params)
        pieces = [delta.text for delta in stream if delta.text]
        return pieces, stream.completion()


def say(script: Sequence[int], prompt: Sequence[int] = PROMPT, **params: object) -> tuple[list[str], Completion]:
    return answer(scripted(script, prompt), prompt, SamplingParams(**params))  # type: ignore[arg-type]


def test_text_until_the_end_token() -> None:
    pieces, generation = say([*encode("hello there"), EOS, *encode("more")])
    assert "".join(pieces) == "hello there"
    assert generation.token_ids == [*encode("hello there"), EOS]
    assert generation.finish_reason == "stop"
    assert generation.prompt_tokens == 3


def test_ignore_eos_goes_on_and_shows_no_control_token() -> None:
    pieces, generation = say([*encode("a"), EOS, *encode("b")], ignore_eos=True, max_tokens=3)
    assert "".join(pieces) == "ab"
    assert (generation.token_ids[1], generation.finish_reason) == (EOS, "length")


def test_every_end_id_ends() -> None:
    pieces, generation = say([*encode("a"), vocabulary().index("<|endoftext|>")])
    assert ("".join(pieces), generation.finish_reason) == ("a", "stop")


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_max_tokens(limit: int) -> None:
    pieces, generation = say(single_bytes("0123456789"), max_tokens=limit)
    assert "".join(pieces) == "0123456789"[:limit]
    assert (len(generation.token_ids), generation.finish_reason) == (limit, "length")


def test_the_last_token_is_not_computed_needlessly() -> None:
    loaded = scripted(single_bytes("0123456789"), PROMPT)
    _, generation = answer(loaded, PROMPT, SamplingParams(max_tokens=4))
    assert isinstance(loaded.model, ScriptedModel)
    assert loaded.model.fed == [*PROMPT, *generation.token_ids[:-1]]


def test_the_context_ends_an_answer() -> None:
    loaded = scripted(single_bytes("0123456789"), PROMPT, max_positions=8)
    pieces, generation = answer(loaded, PROMPT, SamplingParams(max_tokens=100))
    assert "".join(pieces) == "01234"
    assert generation.finish_reason == "length"


@pytest.mark.parametrize("length", [8, 9, 200])
def test_a_prompt_that_leaves_no_place_is_refused_with_both_sizes(length: int) -> None:
    loaded = scripted([], PROMPT, max_positions=8)
    with pytest.raises(ContextLengthError, match=f"prompt has {length} tokens; model 'scripted' takes 8"):
        answer(loaded, [1] * length, SamplingParams())


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="no tokens"):
        answer(scripted([], PROMPT), [], SamplingParams())


def test_a_long_prompt_is_computed_in_chunks() -> None:
    chunk = EngineConfig().chunk_tokens
    assert chunk is not None
    prompt = [5] * (2 * chunk + 7)
    loaded = scripted([*encode("hello"), EOS], prompt, max_positions=2048)
    assert answer(loaded, prompt, SamplingParams())[1].text == "hello"
    assert isinstance(loaded.model, ScriptedModel)
    assert loaded.model.chunks[:3] == [chunk, chunk, 7]


def test_a_stop_string_over_several_tokens_is_never_shown_in_part() -> None:
    pieces, generation = say(single_bytes("yes STOP no"), stop=("STOP",))
    assert "".join(pieces) == "yes " and not any("S" in piece for piece in pieces)
    assert generation.finish_reason == "stop"
    assert generation.token_ids == single_bytes("yes STOP")


def test_the_beginning_of_a_stop_string_is_shown_once_it_is_none() -> None:
    assert "".join(say([*single_bytes("a STO b"), EOS], stop=("STOP",))[0]) == "a STO b"
    assert "".join(say([*single_bytes("a STO"), EOS], stop=("STOP",))[0]) == "a STO"
    assert "".join(say(single_bytes("a STO"), stop=("STOP",), max_tokens=5)[0]) == "a STO"


@settings(max_examples=60, deadline=None)
@given(text=st.text("abé🙂", max_size=12), stops=st.lists(st.text("abé🙂", min_size=1, max_size=3), max_size=2))
def test_what_is_shown_is_the_text_before_the_first_stop(text: str, stops: list[str]) -> None:
    pieces, _ = say([*single_bytes(text), EOS], stop=tuple(stops))
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    shown = text
    if ends:
        found = text[: min(ends)]
        shown = found[: -max(len(stop) for stop in stops if found.endswith(stop))]
    assert "".join(pieces) == shown
    assert all(piece and "\ufffd" not in piece for piece in pieces)


def test_half_a_character_at_the_end_is_marked() -> None:
    assert "".join(say([*single_bytes("é")[:1], EOS])[0]) == "\ufffd"


@pytest.fixture(scope="module")
def tiny(tiny_llama: Path) -> LoadedModel:
    return load_model(str(tiny_llama))


def draw(tiny: LoadedModel, **params: object) -> list[int]:
    prompt = tiny.tokenizer.encode("hello there")
    return answer(tiny, prompt, SamplingParams(max_tokens=24, **params))[1].token_ids  # type: ignore[arg-type]


def test_a_seed_gives_its_text_again(tiny: LoadedModel) -> None:
    hot = dict(temperature=2.0, ignore_eos=True)
    assert draw(tiny, **hot, seed=1) == draw(tiny, **hot, seed=1)
    assert len({tuple(draw(tiny, **hot, seed=seed)) for seed in range(5)}) == 5


def test_greedy_needs_no_seed(tiny: LoadedModel) -> None:
    assert draw(tiny, seed=1) == draw(tiny, seed=2) == draw(tiny, temperature=1.0, top_k=1, seed=3)


def test_greedy_equals_transformers(tiny: LoadedModel, tiny_llama: Path) -> None:
    import torch
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(tiny_llama).eval()
    prompt = tiny.tokenizer.encode("hello there")
    out = theirs.generate(
        torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=EOS, pad_token_id=EOS
    )
    assert draw(tiny) == out[0, len(prompt) :].tolist()


def test_a_step_reads_everything_but_a_table_of_its_own(tiny: LoadedModel) -> None:
    everything = sum(weight.resident_bytes for weight in tiny.model.weights())
    assert tiny.bytes_per_step() == everything - 272 * 64 * 4
