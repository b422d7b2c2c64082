"""Adapters in an engine: several in one batch, loaded and unloaded between steps, never sharing what they computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from antiphon import ops
from antiphon.engine.core import EngineCore
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import AntiphonError, InvalidRequestError, ModelNotFoundError, UnsupportedError
from antiphon.runtime.frontend import adapters as slots_module
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.adapters import load_adapter
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.resident import make_slots
from support.models.adapters import merged, random_pairs, write_gguf_adapter, write_peft
from support.models.tiny_model import tiny_state, write_bert, write_folder, write_gguf

PARAMS = SamplingParams(max_tokens=12, ignore_eos=True)
PROMPTS = ["hello there", "the the the", "once upon a time there was a little cat who saw the big red ball"]
BACKENDS = [
    ("reference", False),
    *(("native", record) for record in (True, False) if "native" in ops.available_backends()),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("adapters")
    first = write_peft(root / "first", random_pairs(tiny_state(), 8, 1), 16)
    queries = [name for name in tiny_state() if "q_proj" in name or "up_proj" in name]
    some = random_pairs(tiny_state(), 16, 2, [name.removesuffix(".weight") for name in queries], 0.3)
    return [first, write_peft(root / "second", some, 8, torch.float16, use_rslora=True)]


@pytest.fixture
def engine(tiny_llama: Path, folders: list[Path]) -> Iterator[Engine]:
    names = {"first": folders[0], "tiny-llama:second": folders[1]}
    with Engine(str(tiny_llama), kv_bytes=16 << 20, block_tokens=4, adapters=names) as made:
        yield made


def test_models_and_adapters_have_names(engine: Engine) -> None:
    assert engine.models == ["tiny-llama", "tiny-llama:first", "tiny-llama:second"]
    unnamed, named = (engine.generate(PROMPTS[0], PARAMS, model=model)[0].token_ids for model in (None, "tiny-llama"))
    assert unnamed == named


@pytest.mark.parametrize(("backend", "record"), BACKENDS)
def test_in_one_batch_each_has_the_tokens_it_has_alone(
    backend: str, record: bool, tiny_llama: Path, folders: list[Path]
) -> None:
    """Two adapters and the base, decoding together; the adapters differ in rank, type and layers."""
    with ops.use_backend(backend):
        loaded = load_model(str(tiny_llama))
        core = EngineCore()
        config = EngineConfig(kv_bytes=16 << 20, record=record, key_type="fp32", value_type="fp32")
        (slot,) = make_slots(loaded, Arena.allocate(config), config)
        core.add_model(slot)
        digests = {-1: b""}
        for number, folder in enumerate(folders):
            fitted = load_adapter(loaded, folder, folder.name).fitted
            core.add_adapter(loaded.name, number, fitted.digest)
            fitted.attach(number)
            digests[number] = fitted.digest

        def run(*wanted: tuple[str, int]) -> list[list[int]]:
            requests = [
                Request(f"{text}/{number}", loaded.name, loaded.tokenizer.encode(text), PARAMS)
                for text, number in wanted
            ]
            for request, (_, number) in zip(requests, wanted, strict=True):
                request.adapter, request.content = number, digests[number]
                core.add(request)
            while core.has_work:
                core.step()
            assert all(request.error is None for request in requests), requests[0].error
            return [request.output for request in requests]

        wanted = [(text, number) for text in PROMPTS for number in (0, -1, 1)]
        alone = [run(pair)[0] for pair in wanted]
        assert run(*wanted) == alone
        assert len({tuple(tokens) for tokens in alone[:3]}) == 3  # the adapters matter
        assert run((PROMPTS[0], -1), (PROMPTS[1], -1)) == [alone[1], alone[4]]  # a step without adapters again
        slot.executor.close()


def test_tokens_are_those_of_merged_weights(engine: Engine, tmp_path: Path) -> None:
    state = merged(tiny_state(), random_pairs(tiny_state(), 8, 1), 16)
    with Engine(str(write_folder(tmp_path / "merged", state)), kv_bytes=16 << 20) as other:
        expected = [completion.token_ids for completion in other.generate(PROMPTS, PARAMS)]
    got = engine.generate(PROMPTS, PARAMS, model="tiny-llama:first")
    assert [completion.token_ids for completion in got] == expected


@pytest.mark.parametrize("quantised", ["Q8_0", "Q4_0"])
def test_on_a_quantised_base(quantised: str, folders: list[Path], tmp_path: Path) -> None:
    """A PEFT adapter and a GGUF one of the same matrices, on a packed base."""
    path = write_gguf(tmp_path / "base.gguf", quantised=quantised)
    gguf_adapter = write_gguf_adapter(tmp_path / "g.gguf", random_pairs(tiny_state(), 8, 1), 16)
    with Engine(str(path), kv_bytes=16 << 20, adapters={"p": folders[0]}) as engine:
        assert engine.load_adapter(gguf_adapter).name == "base:g"
        base, peft, gguf = ([c.token_ids for c in engine.generate(PROMPTS, PARAMS, model=n)] for n in engine.models)
    assert peft == gguf != base


def test_cached_prefixes_are_not_shared_between_adapters(engine: Engine, folders: list[Path]) -> None:
    def cached(model: str) -> int:
        return engine.generate(PROMPTS[2], PARAMS, model=model)[0].cached_tokens

    for model in engine.models:
        assert cached(model) == 0
    for model in engine.models:
        assert cached(model) > 0
    first = engine.generate(PROMPTS[2], PARAMS, model="tiny-llama:first")[0].token_ids
    engine.unload("tiny-llama:first")
    engine.load_adapter(folders[1], "first")  # another under the same name
    assert engine.generate(PROMPTS[2], PARAMS, model="tiny-llama:first")[0].token_ids != first
    engine.unload("tiny-llama:first")
    engine.load_adapter(folders[0], "first")  # the same again
    assert cached("tiny-llama:first") > 0
    assert engine.generate(PROMPTS[2], PARAMS, model="tiny-llama:first")[0].token_ids == first


def test_samples_of_one_prompt(engine: Engine) -> None:
    params = SamplingParams(max_tokens=8, temperature=1.0, seed=5, ignore_eos=True)
    several = [s.wait().token_ids for s in engine.stream_samples(PROMPTS[2], params, n=3, model="tiny-llama:first")]
    single = [s.wait().token_ids for s in engine.stream_samples(PROMPTS[2], params, n=3, model="tiny-llama:first")]
    assert several == single
    assert len({tuple(tokens) for tokens in several}) > 1


def test_unloading_ends_its_requests_and_no_others(engine: Engine) -> None:
    endless = SamplingParams(max_tokens=3000, ignore_eos=True)
    streams = {name: engine.stream(PROMPTS[0], endless, model=name) for name in engine.models}
    for stream in streams.values():
        next(stream)
    engine.unload("tiny-llama:first")
    assert streams["tiny-llama:first"].wait().finish_reason == "cancelled"
    assert not streams["tiny-llama"].output.is_done
    with pytest.raises(ModelNotFoundError, match=r"'tiny-llama:first' is not loaded; .*did you mean tiny-llama"):
        engine.generate(PROMPTS[0], PARAMS, model="tiny-llama:first")
    engine.unload("tiny-llama")
    assert engine.models == []
    assert {stream.wait().finish_reason for stream in streams.values()} == {"cancelled"}


def test_a_request_made_before_its_adapter_was_unloaded(engine: Engine, folders: list[Path]) -> None:
    """It is rejected, and not computed with the adapter that has the slot now."""
    (output,) = engine.samples(PROMPTS[0], PARAMS, model="tiny-llama:first")
    engine.unload("tiny-llama:first")
    engine.load_adapter(folders[1], "third")
    with pytest.raises(ModelNotFoundError, match="was unloaded"):
        engine._loop.add([output.request]).result()


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "../x", "x" * 129, ".hidden", "a\n"])
def test_names_that_are_not_valid(name: str, engine: Engine, folders: list[Path]) -> None:
    with pytest.raises(InvalidRequestError, match="is not valid"):
        engine.load_adapter(folders[0], name)


def test_what_cannot_be_loaded(engine: Engine, folders: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'tiny-llama:first' is loaded already"):
        engine.load_adapter(folders[0])
    with pytest.raises(InvalidRequestError, match="name the model that it belongs to"):
        engine.load_adapter(folders[0], "x", model="tiny-llama:first")
    with pytest.raises(ModelNotFoundError, match="no such file or folder"):
        engine.load_adapter(tmp_path / "nothing")
    with pytest.raises(UnsupportedError, match="an adapter of a qwen2 model; 'tiny-llama' is a llama"):
        pairs = random_pairs(tiny_state(), 4, 0)
        engine.load_adapter(write_gguf_adapter(tmp_path / "q.gguf", pairs, 8, architecture="qwen2"))
    engine.load(str(write_bert(tmp_path)))
    with pytest.raises(AntiphonError, match="embedding"):
        engine.load_adapter(folders[0], "x", model="bert")
    assert engine.models == ["tiny-llama", "tiny-llama:first", "tiny-llama:second", "bert"]


def test_too_many(engine: Engine, folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "MAX_ADAPTERS", 3)
    engine.load_adapter(folders[0], "third")
    with pytest.raises(InvalidRequestError, match="'tiny-llama' has 3 adapters, the most at a time"):
        engine.load_adapter(folders[0], "fourth")


def test_its_memory_is_freed(tiny_loaded: LoadedModel, folders: list[Path]) -> None:
    import gc
    import weakref

    with Engine(tiny_loaded, kv_bytes=16 << 20) as engine:
        adapter = engine.load_adapter(folders[0])
        engine.generate(PROMPTS[0], PARAMS, model=adapter.name)
        data = weakref.ref(adapter.fitted.layers[0][1].down.parts[0].data)
        engine.unload(adapter.name)
        del adapter
        gc.collect()
        assert data() is None
