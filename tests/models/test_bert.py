"""BERT equals transformers on a tiny random config, whatever else is in the batch."""

from __future__ import annotations

import pytest
import torch
import transformers

from antiphon import ops
from antiphon.errors import UnsupportedError
from antiphon.executor.embedding import EmbeddingExecutor
from antiphon.models.base.model import Task
from antiphon.models.bert import Bert, BertCrossEncoder
from antiphon.models.registry import build_model
from antiphon.weights.formats.memory import StateDictCheckpoint
from models.test_causal_lm import random_tokens, randomize


def tiny_bert(**sentence: bool) -> tuple[torch.nn.Module, Bert]:
    config = transformers.BertConfig(
        vocab_size=97, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80,
        max_position_embeddings=64,
    )  # fmt: skip
    theirs = randomize(transformers.BertModel(config, add_pooling_layer=False))
    checkpoint = StateDictCheckpoint(theirs.state_dict(), "bert", config.to_dict() | {"sentence": sentence})
    ours = build_model(checkpoint)
    assert isinstance(ours, Bert)
    return theirs, ours


def flatten(texts: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([0] + [len(text) for text in texts])
    ids = torch.tensor([token for text in texts for token in text], dtype=torch.int32)
    positions = torch.cat([torch.arange(len(text), dtype=torch.int32) for text in texts])
    return ids, positions, lengths.cumsum(0).int()


def test_hidden_states_of_a_ragged_batch() -> None:
    theirs, ours = tiny_bert()
    texts = [random_tokens(length, length) for length in (5, 23, 1, 12)]
    states = ours.forward(*flatten(texts)).split([len(text) for text in texts])
    for text, state in zip(texts, states, strict=True):
        with torch.no_grad():
            expected = theirs(torch.tensor([text])).last_hidden_state[0]
        assert (state - expected).abs().max() <= 1e-4


def test_pooling_follows_the_checkpoint() -> None:
    text = random_tokens(9, 3)
    theirs, mean = tiny_bert()
    with torch.no_grad():
        states = theirs(torch.tensor([text])).last_hidden_state[0]
    _, cls = tiny_bert(pooling_mode_cls_token=True, normalize=False)
    torch.testing.assert_close(mean.embed(*flatten([text]))[0], torch.nn.functional.normalize(states.mean(0), dim=0))
    torch.testing.assert_close(cls.embed(*flatten([text]))[0], states[0], atol=1e-5, rtol=1e-5)


def tiny_cross_encoder(**config: object) -> tuple[torch.nn.Module, BertCrossEncoder]:
    theirs_config = transformers.BertConfig(
        vocab_size=97, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=80,
        max_position_embeddings=64, num_labels=1,
    )  # fmt: skip
    theirs = randomize(transformers.BertForSequenceClassification(theirs_config))
    ours = build_model(StateDictCheckpoint(theirs.state_dict(), "bert", theirs_config.to_dict() | config))
    assert isinstance(ours, BertCrossEncoder) and ours.task is Task.SCORE
    return theirs, ours


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("has_sigmoid", [False, True])
def test_scores_of_pairs(backend: str, has_sigmoid: bool) -> None:
    """As transformers computes them, operation by operation and through the recorded program."""
    if backend not in ops.available_backends():
        pytest.skip("built without a C++ compiler")
    name = "torch.nn.modules.linear.Identity"
    theirs, ours = tiny_cross_encoder(**({} if has_sigmoid else {"sentence_transformers": {"activation_fn": name}}))
    pairs = [(random_tokens(size, size), split) for size, split in ((7, 3), (23, 9), (2, 1), (12, 11))]
    ids, positions, starts = flatten([tokens for tokens, _ in pairs])
    types = torch.cat([(torch.arange(len(tokens)) >= split).int() for tokens, split in pairs])
    (part,) = ours.parts()
    with ops.use_backend(backend):
        alone = ours.score(ids, positions, starts, types)
        executor = EmbeddingExecutor(part)
        batched = executor.embed({"token_ids": ids, "positions": positions, "seq_start": starts, "token_types": types})
        assert (executor.program is not None) == (backend == "native")
    torch.testing.assert_close(alone, batched, atol=1e-5, rtol=1e-5)
    for score, (tokens, split) in zip(batched, pairs, strict=True):
        own = (torch.arange(len(tokens)) >= split).long()[None]
        with torch.no_grad():
            logits = theirs(torch.tensor([tokens]), token_type_ids=own).logits[0]
        torch.testing.assert_close(score, logits.sigmoid() if has_sigmoid else logits, atol=1e-5, rtol=1e-4)


def test_scores_depend_on_where_the_second_text_begins() -> None:
    _, ours = tiny_cross_encoder()
    ids, positions, starts = flatten([random_tokens(9, 3)])
    scores = [ours.score(ids, positions, starts, (positions >= split).int()) for split in (2, 7)]
    assert not torch.equal(*scores)


def test_classifiers_of_several_labels_are_rejected() -> None:
    config = transformers.BertConfig(
        vocab_size=97, hidden_size=48, num_hidden_layers=1, num_attention_heads=4, intermediate_size=80, num_labels=3
    )
    state = transformers.BertForSequenceClassification(config).state_dict()
    with pytest.raises(UnsupportedError, match="a classifier of 3 labels"):
        build_model(StateDictCheckpoint(state, "bert", config.to_dict()))
    with pytest.raises(UnsupportedError, match="Tanh"):
        tiny_cross_encoder(sbert_ce_default_activation_function="torch.nn.modules.activation.Tanh")
