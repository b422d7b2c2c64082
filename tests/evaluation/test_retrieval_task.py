"""`retrieval`: its data, its ranking by hand, and what sentence-transformers' evaluator gives for the same model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.results import figures
from antiphon.evaluation.run import run_task
from antiphon.evaluation.settings import EngineSetting, opened
from antiphon.evaluation.tasks.registry import make_task
from antiphon.runtime.loading.loading import load_model
from support.models.tiny_model import write_bert

#: The embedding of each text; lengths differ, so that only the angle may count.
VECTORS = {
    "red": [1.0, 0.1, 0.0],
    "crimson": [5.0, 0.0, 0.0],
    "sky": [0.0, 3.0, 0.3],
    "grass": [0.0, 0.2, 1.0],
    "green": [0.5, 0.1, 2.0],
    "blue": [0.0, 1.0, 0.0],
    "ruby": [4.0, 4.0, 0.1],
}


class Embedder:
    def embed(self, texts: list[str], *, model: str) -> list[torch.Tensor]:
        return [torch.tensor(VECTORS[text]) for text in texts]


def fake_subject() -> Any:
    tokenizer = SimpleNamespace(encode=lambda text, max_tokens: [1])
    loaded = SimpleNamespace(tokenizer=tokenizer, model=SimpleNamespace(max_positions=8))
    return SimpleNamespace(engine=Embedder(), name="embedder", loaded=loaded)


def test_rankings_by_hand(tmp_path: Path) -> None:
    """Documents: crimson, ruby, sky, grass. Ruby is the second best for red, and blue's only other near one."""
    data = tmp_path / "data.jsonl"
    data.write_text(
        '{"id": "r", "query": "red", "positive": ["crimson", "ruby"], "negatives": ["sky"]}\n'
        '{"id": "b", "query": "blue", "positive": "ruby"}\n'
        '{"id": "g", "query": "green", "positive": "sky", "negatives": "grass"}\n'
    )
    task = make_task("retrieval")
    run = run_task(task, fake_subject(), task.read(data))
    assert [item.id for item in run.items] == ["r", "b", "g"]
    assert [item.output for item in run.items] == ["crimson", "sky", "grass"]
    assert [item.values["recall@1"] for item in run.items] == [0.5, 0.0, 0.0]
    # red: crimson, ruby, …; blue: sky, ruby, …; green: grass, crimson, ruby, sky (cosines 0.97, 0.24, 0.22, 0.15)
    assert [item.values["reciprocal_rank"] for item in run.items] == pytest.approx([1.0, 0.5, 0.25])
    assert [item.values["recall@5"] for item in run.items] == [1.0, 1.0, 1.0]


def test_a_limit_leaves_the_documents_as_they_are(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"query": "blue", "positive": "ruby"}\n{"query": "red", "positive": "crimson"}\n'
                    '{"query": "green", "positive": "sky"}\n')  # fmt: skip
    task = make_task("retrieval")
    run = run_task(task, fake_subject(), task.read(data), limit=1)
    assert len(run.items) == 1
    assert run.items[0].output == "sky"  # of the third line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": "a"}', "data.jsonl:2: 'positive' or 'positives' is missing"),
        ('{"positive": "a"}', "data.jsonl:2: 'query' is missing"),
        ('{"query": "a", "positive": []}', "data.jsonl:2: 'positive' is an empty list"),
        ('{"query": "a", "positive": "b", "negatives": ["c", "b"]}', "data.jsonl:2: a document is both positive and"),
        ('{"query": "a", "positive": "b", "negatives": 3}', "data.jsonl:2: 'negatives' is a number"),
        ("{", "data.jsonl:2: this is not JSON"),
    ],
)
def test_lines_that_are_wrong(tmp_path: Path, line: str, message: str) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"query": "a", "positive": "b"}\n' + line)
    with pytest.raises(InvalidRequestError, match=message.replace(".", r"\.")):
        make_task("retrieval").read(data)


def test_a_text_that_is_too_long_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"query": "a", "positive": "b"}\n{"query": "a", "positive": "' + "z" * 100 + '"}')
    task = make_task("retrieval")
    loaded = load_model(str(write_bert(tmp_path)), device="cpu")
    with (
        opened(loaded, EngineSetting({})) as subject,
        pytest.raises(InvalidRequestError, match=r"data\.jsonl:2: a text has .* tokens; model 'bert' takes 32"),
    ):
        run_task(task, subject, task.read(data))


def test_the_sample_is_read() -> None:
    queries = make_task("retrieval").read(None)
    assert len(queries) == 24
    assert all(len(query.positives) == 1 and len(query.negatives) == 2 for query in queries)


@pytest.mark.weights
@pytest.mark.slow
def test_it_is_what_sentence_transformers_evaluates(model_path: Any) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import InformationRetrievalEvaluator

    task = make_task("retrieval")
    queries = task.read(None)
    documents = {text: text for query in queries for text in (*query.positives, *query.negatives)}
    evaluator = InformationRetrievalEvaluator(
        {query.id: query.text for query in queries},
        documents,
        {query.id: set(query.positives) for query in queries},
        mrr_at_k=[len(documents)],
        ndcg_at_k=[10],
        precision_recall_at_k=[1, 5, 10],
        accuracy_at_k=[1],
        map_at_k=[1],
    )
    theirs = evaluator(SentenceTransformer(str(model_path("all-minilm-l6-v2")), device="cpu"))
    loaded = load_model("all-minilm-l6-v2", device="cpu")
    with opened(loaded, EngineSetting({})) as subject:
        run = run_task(task, subject, queries)
    found = {figure.metric.name: figure.value for figure in figures(task.metrics, run.items)}
    for name, key in (
        ("recall@1", "cosine_recall@1"),
        ("recall@5", "cosine_recall@5"),
        ("recall@10", "cosine_recall@10"),
        ("MRR", f"cosine_mrr@{len(documents)}"),
        ("nDCG@10", "cosine_ndcg@10"),
    ):
        assert found[name] == pytest.approx(theirs[key], abs=1e-6), name
    assert 0.5 < found["MRR"] < 1
