"""Attention sinks and a recent window: bounded memory, and the attention that was asked for."""

from __future__ import annotations

import torch

from antiphon import Engine, SamplingParams
from antiphon.ops import CacheLayout, KVCache
from antiphon.runtime.loading.loading import LoadedModel
from support.kernels.paged import PagedRunner

OPTIONS = dict(kv_bytes=8 << 20, key_type="fp32", value_type="fp32", block_tokens=4, prefix_caching=False)
PROMPT = [(7 * index) % 200 for index in range(300)]


def most_owned(engine: Engine) -> int:
    steps = engine._core.telemetry.steps  # the last is added after the answer is told, by the engine's thread
    return engine._loop.call(lambda: max(record.blocks_owned for record in steps)).result()


def test_the_middle_is_given_back(tiny_loaded: LoadedModel) -> None:
    params = SamplingParams(max_tokens=60, ignore_eos=True)
    owned = {}
    for recent in (None, 32):
        options = OPTIONS | dict(chunk_tokens=16, recent_tokens=recent, sink_tokens=8 if recent else 0)
        with Engine(tiny_loaded, **options) as engine:  # type: ignore[arg-type]
            (answer,) = engine.generate([PROMPT], params)
            assert len(answer.token_ids) == 60
            owned[recent] = most_owned(engine)
    assert owned[None] == -(-359 // 4)
    # 2 blocks of sinks, 8 of the window, 4 of a chunk, and the edges.
    assert owned[32] <= 2 + 8 + 4 + 2


def test_queries_see_the_sinks_and_the_window_alone(tiny_loaded: LoadedModel) -> None:
    """Token by token with compression equals one forward in which nothing was freed but the same was masked."""
    with Engine(tiny_loaded, **OPTIONS, recent_tokens=32, sink_tokens=8) as engine:  # type: ignore[arg-type]
        (answer,) = engine.generate([PROMPT], SamplingParams(max_tokens=12, ignore_eos=True, logprobs=0))
    tokens = PROMPT + answer.token_ids
    runner = PagedRunner(tiny_loaded.causal_lm(), 1, len(tokens))
    layouts = [
        CacheLayout(layout.group, 4, recent_tokens=32, sink_tokens=8) for layout in runner.cache.layouts.values()
    ]
    runner.cache = KVCache(runner.cache.arena, layouts)
    (logits,) = runner.step([(0, tokens, 0)])
    expected = logits[:, : tiny_loaded.tokenizer.vocab_size].log_softmax(-1)
    for index, (token, logprob) in enumerate(zip(answer.token_ids, answer.logprobs or [], strict=True)):
        assert abs(expected[len(PROMPT) - 1 + index, token].item() - logprob) < 1e-4
    (whole,) = PagedRunner(tiny_loaded.causal_lm(), 1, len(tokens)).step([(0, tokens, 0)])
    assert not torch.allclose(whole, logits, atol=1e-2)  # the middle did matter


def test_windows_and_sinks_share_prefixes(tiny_loaded: LoadedModel) -> None:
    """A prefix hit needs only the blocks that can be seen, and gives the same answer."""
    options = OPTIONS | dict(prefix_caching=True, recent_tokens=32, sink_tokens=8)
    params = SamplingParams(max_tokens=10, ignore_eos=True)
    with Engine(tiny_loaded, **options) as engine:  # type: ignore[arg-type]
        (first,) = engine.generate([PROMPT], params)
        (second,) = engine.generate([PROMPT], params)
    assert first.cached_tokens == 0 and second.cached_tokens == 296
    assert first.token_ids == second.token_ids
