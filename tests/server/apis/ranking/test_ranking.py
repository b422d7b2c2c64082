"""Reranking and scoring: by the cosine of embeddings, and by a cross-encoder as transformers computes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

from antiphon.server.apis.ranking import scores
from antiphon.server.generation.text import embeddings
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer
from support.server.pool import ServerPool

QUERY = "a choir"
DOCUMENTS = ["hello", "a choir sings", "a chair", "seven"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "choir", "sings", "hello", "chair", "seven"]


def post(server: RunningServer, path: str, body: dict[str, Any], status: int = 200) -> Any:
    answer = httpx.post(server.url + path, json=body, timeout=60)
    assert answer.status_code == status, answer.text
    return answer.json()


def cosines(server: RunningServer) -> list[float]:
    with server.openai() as client:
        rows = client.embeddings.create(model="bert", input=[QUERY, *DOCUMENTS]).data
    query, *others = (np.array(row.embedding) / np.linalg.norm(row.embedding) for row in rows)
    return [float(query @ other) for other in others]


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_rerank_by_embeddings(server: RunningServer, path: str) -> None:
    wanted = cosines(server)
    answer = post(server, path, {"model": "bert", "query": QUERY, "documents": DOCUMENTS})
    order = [result["index"] for result in answer["results"]]
    assert order == sorted(range(len(DOCUMENTS)), key=lambda index: -wanted[index])
    for result in answer["results"]:
        assert result["relevance_score"] == pytest.approx(wanted[result["index"]], abs=1e-5)
        shown = result.get("document")
        assert shown == (None if path == "/v2/rerank" else {"text": DOCUMENTS[result["index"]]})
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] > 0


def test_options_of_rerank(server: RunningServer) -> None:
    body = {"model": "bert", "query": QUERY, "documents": [{"text": text} for text in DOCUMENTS]}
    all_of_them = post(server, "/v1/rerank", body)["results"]
    best = post(server, "/v1/rerank", {**body, "top_n": 2, "return_documents": False})["results"]
    assert best == [{"index": one["index"], "relevance_score": one["relevance_score"]} for one in all_of_them[:2]]
    long = {**body, "documents": [*DOCUMENTS, "seven " * 50]}
    assert "tokens" in post(server, "/v1/rerank", long, 400)["error"]["message"]
    for cut in (
        {"truncate_prompt_tokens": -1},
        {"truncate_prompt_tokens": 8},
        {"truncate": True},
        {"max_tokens_per_doc": 9},
    ):
        assert len(post(server, "/v1/rerank", {**long, **cut})["results"]) == 5


@pytest.mark.parametrize("path", ["/v1/score", "/score"])
def test_scores_by_embeddings(server: RunningServer, path: str) -> None:
    wanted = cosines(server)
    answer = post(server, path, {"model": "bert", "text_1": QUERY, "text_2": DOCUMENTS})
    assert [row["index"] for row in answer["data"]] == list(range(len(DOCUMENTS)))
    assert [row["score"] for row in answer["data"]] == pytest.approx(wanted, abs=1e-5)
    same = post(server, path, {"model": "bert", "text_1": DOCUMENTS, "text_2": DOCUMENTS})
    assert [row["score"] for row in same["data"]] == pytest.approx([1.0] * 4, abs=1e-5)


def test_what_does_not_fit_is_rejected(server: RunningServer) -> None:
    ask = {"model": "bert", "query": QUERY, "documents": DOCUMENTS}
    assert "embedding model" in post(server, "/v1/rerank", {**ask, "model": "tiny-chat"}, 400)["error"]["message"]
    post(server, "/v1/rerank", {**ask, "model": "nothing"}, 404)
    for broken in ({"documents": []}, {"query": ""}, {"documents": [""]}, {"truncate_prompt_tokens": 0}):
        post(server, "/v1/rerank", {**ask, **broken}, 400)
    uneven = {"model": "bert", "text_1": DOCUMENTS[:2], "text_2": DOCUMENTS[:3]}
    assert "as many" in post(server, "/v1/score", uneven, 400)["error"]["message"]


# -- a cross-encoder ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cross_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random cross-encoder, as transformers saves it, with BERT's tokenizer over a few words."""
    folder = tmp_path_factory.mktemp("ranking") / "cross"
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=32, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(
        json.dumps(config.to_dict() | {"architectures": ["BertForSequenceClassification"]})
    )
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture
def crossed(servers: ServerPool, cross_folder: Path) -> Iterator[RunningServer]:
    config = ServerConfig(models=(ModelSpec.of(str(cross_folder)),), offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


def wanted_scores(folder: Path, pairs: list[tuple[str, str]], **options: Any) -> list[float]:
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    model = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            float(model(**tokenizer(*pair, return_tensors="pt", **options)).logits.sigmoid()[0, 0]) for pair in pairs
        ]


def test_a_cross_encoder_scores_as_transformers_does(crossed: RunningServer, cross_folder: Path) -> None:
    wanted = wanted_scores(cross_folder, [(QUERY, text) for text in DOCUMENTS])
    assert max(wanted) - min(wanted) > 0.01
    answer = post(crossed, "/v1/score", {"model": "cross", "text_1": QUERY, "text_2": DOCUMENTS})
    assert [row["score"] for row in answer["data"]] == pytest.approx(wanted, abs=1e-5)
    ranked = post(crossed, "/v1/rerank", {"model": "cross", "query": QUERY, "documents": DOCUMENTS, "top_n": 3})
    order = sorted(range(len(DOCUMENTS)), key=lambda index: -wanted[index])
    assert [result["index"] for result in ranked["results"]] == order[:3]


def test_the_second_text_of_a_long_pair_is_cut(crossed: RunningServer, cross_folder: Path) -> None:
    long = "seven hello " * 30
    ask = {"model": "cross", "text_1": QUERY, "text_2": long}
    (wanted,) = wanted_scores(cross_folder, [(QUERY, long)], truncation="only_second", max_length=32)
    cut = post(crossed, "/v1/score", {**ask, "truncate_prompt_tokens": -1})
    assert cut["data"][0]["score"] == pytest.approx(wanted, abs=1e-5) and cut["usage"]["total_tokens"] == 32
    refused = post(crossed, "/v1/score", ask, 400)["error"]
    assert refused["code"] == "context_length_exceeded" and "65 tokens" in refused["message"]


def test_a_query_is_encoded_once(crossed: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def counted(model: Any, text: str, name: str, is_cut: bool) -> list[int]:
        encoded.append(text)
        return embeddings.encoded_input(model, text, name, is_cut)

    monkeypatch.setattr(scores, "encoded_input", counted)
    post(crossed, "/v1/rerank", {"model": "cross", "query": QUERY, "documents": DOCUMENTS})
    assert encoded == [QUERY] and len(DOCUMENTS) > 1


def test_a_cross_encoder_does_not_embed(crossed: RunningServer) -> None:
    refused = post(crossed, "/v1/embeddings", {"model": "cross", "input": "hello"}, 400)["error"]
    assert "is a cross-encoder; this request needs an embedding model" in refused["message"]
    (card,) = (one for one in httpx.get(crossed.url + "/v1/models").json()["data"] if one["id"] == "cross")
    assert card["task"] == "score"


def test_without_a_model_the_one_that_fits_is_taken(server: RunningServer, crossed: RunningServer) -> None:
    ask = {"query": QUERY, "documents": DOCUMENTS}
    for running, name in ((server, "bert"), (crossed, "cross")):
        assert post(running, "/v1/rerank", ask)["model"] == name
        assert post(running, "/v1/score", {"text_1": QUERY, "text_2": DOCUMENTS})["model"] == name


@pytest.mark.parametrize("name", ["bert", "cross"])
def test_errors_name_the_field(server: RunningServer, crossed: RunningServer, name: str) -> None:
    running = crossed if name == "cross" else server
    long = "seven " * 50
    for path, body, param in (
        ("/v1/rerank", {"query": QUERY, "documents": ["a", long]}, "documents"),
        ("/v1/rerank", {"query": long, "documents": ["a"]}, "query"),
        ("/v1/score", {"text_1": QUERY, "text_2": ["a", long]}, "text_2"),
        ("/v1/score", {"text_1": ["a", long], "text_2": ["a", "a"]}, "text_1"),
    ):
        error = post(running, path, {"model": name, **body}, 400)["error"]
        assert (error["param"], error["code"]) == (param, "context_length_exceeded")
        assert error["message"].startswith("This model's maximum context length is ")
    many = post(running, "/v1/score", {"model": name, "text_1": "a", "text_2": ["a"] * 3000}, 400)["error"]
    assert many["param"] == "text_2" and "3000 pairs" in many["message"]
