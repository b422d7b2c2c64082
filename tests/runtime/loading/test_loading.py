"""From files to a resident model: the same numbers from either format, and refusals that name the fault."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from antiphon import ops
from antiphon.errors import CheckpointError, TokenizerError, UnsupportedError
from antiphon.runtime.loading.loading import LoadedModel, load_model
from support.kernels.paged import PagedRunner
from support.models.tiny_model import (
    CHAT_TEMPLATE,
    CONFIG,
    EMBEDDING_ROWS,
    tiny_state,
    vocabulary,
    write_folder,
    write_gguf,
)
from support.models.tiny_model import tiny_tokenizer as their_tokenizer

TEXTS = [
    "hello there",
    "The llama said: hello!\n\n  two  spaces",
    "Grüße, 世界 🌍",
    "<|im_start|>user\nhello<|im_end|>",
]


def logits(loaded: LoadedModel, tokens: list[int]) -> torch.Tensor:
    (rows,) = PagedRunner(loaded.causal_lm(), 1, 64).step([(0, tokens, 0)])
    return rows


@pytest.fixture
def folder(tiny_llama: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny_llama, tmp_path / "model"))


def test_the_folder_and_the_gguf_are_the_same_model(tiny_llama: Path, tiny_gguf: Path) -> None:
    from_folder, from_gguf = load_model(str(tiny_llama)), load_model(str(tiny_gguf))
    tokens = torch.randint(0, len(vocabulary()), (40,), generator=torch.Generator().manual_seed(1)).tolist()
    expected = logits(from_folder, tokens)
    assert expected.std() > 1
    torch.testing.assert_close(logits(from_gguf, tokens), expected, atol=1e-5, rtol=1e-5)
    assert from_gguf.eos_ids == from_folder.eos_ids
    for loaded in (from_folder, from_gguf):
        assert loaded.chat_template is not None and loaded.chat_template.source == CHAT_TEMPLATE
        for text in TEXTS:
            assert loaded.tokenizer.encode(text) == their_tokenizer().encode(text).ids
            assert loaded.tokenizer.decode(loaded.tokenizer.encode(text)) == text


def test_unpermuted_rows_would_show(tiny_gguf: Path, tmp_path: Path) -> None:
    """The equality above is not blind to the order of rows: a file without the reordering computes something else."""
    state = tiny_state()
    name = "model.layers.0.self_attn.q_proj.weight"
    state[name] = state[name].flip(0)
    other = load_model(str(write_gguf(tmp_path / "other.gguf", state)))
    tokens = list(range(40))
    assert (logits(other, tokens) - logits(load_model(str(tiny_gguf)), tokens)).abs().max() > 0.1


def test_transformers_computes_the_same(tiny_llama: Path) -> None:
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(tiny_llama).eval()
    tokens = list(range(60, 90))
    with torch.no_grad():
        expected = theirs(torch.tensor([tokens])).logits[0]
    assert (logits(load_model(str(tiny_llama)), tokens) - expected).abs().max() <= 1e-3


def test_report_names_backend_types_and_phases(tiny_llama: Path) -> None:
    report = load_model(str(tiny_llama)).report
    matrices = sum(tensor.nbytes for tensor in tiny_state().values() if tensor.dim() == 2)
    assert report.bytes_by_type == {"F32": matrices}
    assert list(report.seconds) == ["fetch", "open", "tokenizer", "weights"]
    assert report.line().startswith(f"{ops.active_backend().name} backend; weights F32 0 MB")


def test_without_native_kernels_quantised_weights_are_decoded_once(tiny_llama: Path) -> None:
    with ops.use_backend("reference"):
        loaded = load_model(str(tiny_llama))
    assert loaded.report.backend == "reference"
    assert "converted to BF16" in loaded.report.line()


@pytest.mark.parametrize("name", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    state = tiny_state()
    del state[name]
    with pytest.raises(CheckpointError, match=f"llama checkpoint has no tensor '{name}'"):
        load_model(str(write_folder(tmp_path / "model", state)))


def test_a_missing_tensor_of_a_gguf_has_its_name_in_the_file(tmp_path: Path) -> None:
    state = tiny_state()
    del state["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(CheckpointError, match=r"has no tensor 'blk\.1\.ffn_up\.weight'"):
        load_model(str(write_gguf(tmp_path / "model.gguf", state)))


def test_a_misshaped_tensor_is_named_with_both_shapes(tmp_path: Path) -> None:
    state = tiny_state()
    state["model.layers.0.self_attn.k_proj.weight"] = torch.zeros(16, 64)
    with pytest.raises(CheckpointError, match=r"k_proj\.weight' has shape \[16, 64\], the model needs \[32, 64\]"):
        load_model(str(write_folder(tmp_path / "model", state)))


def test_a_tensor_nobody_asked_for_is_refused_by_name(tmp_path: Path) -> None:
    state = tiny_state() | {"model.layers.0.self_attn.q_norm.weight": torch.ones(16)}
    with pytest.raises(UnsupportedError, match=r"1 tensors that this build does not know: .*q_norm\.weight"):
        load_model(str(write_folder(tmp_path / "model", state)))


def test_a_known_leftover_is_accepted(tmp_path: Path) -> None:
    state = tiny_state() | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    load_model(str(write_folder(tmp_path / "model", state)))


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    config = CONFIG | {"model_type": "mamba"}
    with pytest.raises(UnsupportedError, match=r"architecture 'mamba' is not supported; known: .*llama"):
        load_model(str(write_folder(tmp_path / "model", config=config)))
    with pytest.raises(UnsupportedError, match="architecture 'mamba' is not supported"):
        load_model(str(write_gguf(tmp_path / "model.gguf", architecture="mamba")))


def test_a_tokenizer_larger_than_the_embedding_is_refused_with_both_sizes(tmp_path: Path) -> None:
    state = tiny_state()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        state[name] = state[name][:200].clone()
    with pytest.raises(CheckpointError, match=f"tokenizer has {len(vocabulary())} tokens, the embedding 200 rows"):
        load_model(str(write_folder(tmp_path / "model", state, CONFIG | {"vocab_size": 200})))


def test_a_missing_tokenizer_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no tokenizer\.json beside"):
        load_model(str(folder))


def test_a_broken_tokenizer_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        load_model(str(folder))


@pytest.mark.parametrize("named", [7, [7, 9]])
def test_generation_config_adds_ends(folder: Path, named: int | list[int]) -> None:
    before = load_model(str(folder)).eos_ids
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": named}))
    assert load_model(str(folder)).eos_ids == before | ({7} if named == 7 else {7, 9})


@pytest.mark.parametrize("named", ["</s>", 1.5, ["a"], {"a": 1}])
def test_generation_config_with_other_ends_is_refused(folder: Path, named: object) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": named}))
    with pytest.raises(CheckpointError, match=r"generation_config\.json: eos_token_id is"):
        load_model(str(folder))


def test_a_template_file_comes_before_the_configs_own(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("file {{ messages[0].content }}")
    template = load_model(str(folder)).chat_template
    assert template is not None and template.render([{"role": "user", "content": "x"}]) == "file x"
    (folder / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja"):
        load_model(str(folder))


def test_a_base_model_has_no_template(tmp_path: Path) -> None:
    assert load_model(str(write_folder(tmp_path / "model", chat_template=None))).chat_template is None


def test_padding_rows_are_part_of_the_model(tiny_llama: Path) -> None:
    loaded = load_model(str(tiny_llama))
    assert loaded.model.vocab_size == EMBEDDING_ROWS > loaded.tokenizer.vocab_size == len(vocabulary())
