"""BERT equals transformers on a tiny random config, whatever else is in the batch."""

from __future__ import annotations

import torch
import transformers

from antiphon.models.bert import Bert
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
