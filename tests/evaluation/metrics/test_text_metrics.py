"""BLEU, chrF and ROUGE are their packages' numbers; exact match and F1 those of SQuAD's script."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.metrics.statistics import bootstrap_interval
from antiphon.evaluation.metrics.text import bleu, chrf, exact_match, f1, normalize_answer, rouge

SENTENCES = (
    "The cat sat quietly on the old mat by the door.",
    "An unexpected storm delayed every train to Berlin on Friday.",
    'She said: "I\'d rather walk home", and left at 7:30.',
    "Prices rose by 2.5% in March, the agency reported.",
    "Der Hund schläft im Garten, während die Kinder spielen.",
)


def corpus(seed: int, count: int = 30, most: int = 1) -> tuple[list[str], list[list[str]]]:
    """Sentences with words left out, doubled and swapped, beside one to `most` references."""
    source = random.Random(seed)
    predictions, references = [], []
    for _ in range(count):
        sentence = source.choice(SENTENCES)
        references.append([sentence, *(changed(sentence, source) for _ in range(source.randrange(most)))])
        predictions.append(changed(sentence, source))
    return predictions, references


def changed(sentence: str, source: random.Random) -> str:
    words = sentence.split()
    for _ in range(source.randrange(5)):
        index = source.randrange(len(words))
        words[index : index + 1] = source.choice([[], [words[index]] * 2, ["house"], [words[index].upper()]])
        words = words or ["house"]
    return " ".join(words)


# -- BLEU and chrF ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_bleu_is_sacrebleus(seed: int) -> None:
    predictions, references = corpus(seed)
    score = bleu(predictions, references)
    assert score.value == sacrebleu.corpus_bleu(predictions, [[own[0] for own in references]]).score
    assert 0 < score.value < 100
    alone = [sacrebleu.sentence_bleu(a, b).score for a, b in zip(predictions, references, strict=True)]
    assert score.items == alone


@pytest.mark.parametrize("word_order", [0, 2])
def test_chrf_is_sacrebleus(word_order: int) -> None:
    predictions, references = corpus(7)
    score = chrf(predictions, references, word_order)
    theirs = sacrebleu.corpus_chrf(predictions, [[own[0] for own in references]], word_order=word_order)
    assert score.value == theirs.score
    alone = [
        sacrebleu.sentence_chrf(a, b, word_order=word_order).score for a, b in zip(predictions, references, strict=True)
    ]
    assert score.items == alone


def test_items_may_have_different_numbers_of_references() -> None:
    predictions, references = corpus(8, most=3)
    assert {len(own) for own in references} == {1, 2, 3}
    streams = [[own[index] if index < len(own) else None for own in references] for index in range(3)]
    assert bleu(predictions, references).value == sacrebleu.corpus_bleu(predictions, streams).score
    assert chrf(predictions, references).value == sacrebleu.corpus_chrf(predictions, streams).score


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_rows_of_drawn_items_give_the_score_of_the_drawn_corpus(metric: type[bleu]) -> None:  # type: ignore[valid-type]
    predictions, references = corpus(9, most=2)
    score = metric(predictions, references)
    chosen = np.random.default_rng(0).integers(30, size=30)
    drawn = metric([predictions[index] for index in chosen], [references[index] for index in chosen])
    assert score.statistic(score.rows[chosen]) == pytest.approx(drawn.value, abs=1e-9)
    low, high = bootstrap_interval(score.rows, score.statistic, 200)
    assert low < score.value < high


def test_the_tokenizer_is_sacrebleus() -> None:
    predictions, references = ["今天天气很好。"], [["今天天气非常好。"]]
    assert bleu(predictions, references, "zh").value == pytest.approx(
        sacrebleu.corpus_bleu(predictions, [["今天天气非常好。"]], tokenize="zh").score
    )


# -- ROUGE --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_stemmer", [False, True])
def test_rouge_is_rouge_scores(use_stemmer: bool) -> None:
    predictions, references = corpus(10)
    scores = rouge(predictions, references, use_stemmer=use_stemmer)
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], use_stemmer=use_stemmer)
    alone = [scorer.score(own[0], text) for text, own in zip(predictions, references, strict=True)]
    assert set(scores) == {"rouge1", "rouge2", "rougeL", "rougeLsum"}
    for kind, score in scores.items():
        assert score.items == [item[kind].fmeasure for item in alone]
        assert score.value == pytest.approx(np.mean(score.items), abs=1e-12)
        assert 0 < score.value < 1


def test_the_best_reference_counts_for_rouge() -> None:
    assert rouge(["a red car"], [["nothing here", "a red car"]], ["rouge1"])["rouge1"].value == 1.0


# -- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # lm-eval is only there in `make test-all`
def test_answers_are_compared_as_squad_compares_them() -> None:
    from lm_eval.tasks.qasper import metrics as squad

    predictions, references = corpus(11)
    predictions += ["The Eiffel Tower!", "an apple", "U.S.A.", "theatre", "nothing", "a the an"]
    references += [["Eiffel tower"], ["the Apple."], ["USA"], ["the atre"], ["something"], ["word"]]
    words = [squad.f1_abstractive([a], [b[0]]) for a, b in zip(predictions, references, strict=True)]
    assert f1(predictions, references).items == pytest.approx(words, abs=1e-12)
    equal = [
        float(squad.normalize_answer(a) == squad.normalize_answer(b[0]))
        for a, b in zip(predictions, references, strict=True)
    ]
    assert exact_match(predictions, references).items == equal
    assert 0 < sum(equal) < len(equal)
    assert [normalize_answer(text) for text in predictions] == [squad.normalize_answer(text) for text in predictions]


def test_the_best_reference_counts_for_answers() -> None:
    assert exact_match(["Paris"], [["London", "paris."]]).value == 1.0
    assert f1(["red car"], [["blue", "a red bus"]]).value == pytest.approx(0.5)


def test_an_answer_without_words_equals_only_another() -> None:
    assert f1(["the", "the", "x"], [["a"], ["x"], ["a"]]).items == [1.0, 0.0, 0.0]


def test_exact_match_without_normalisation() -> None:
    assert exact_match([" 42\n", "42."], [["42"], ["42"]], normalize=False).items == [1.0, 0.0]


def test_what_cannot_be_scored_is_rejected() -> None:
    for metric in (bleu, chrf, rouge, exact_match, f1):
        with pytest.raises(InvalidRequestError, match="2 predictions were given with 1"):
            metric(["a", "b"], [["a"]])  # type: ignore[operator]
        with pytest.raises(InvalidRequestError, match="prediction 2 of 2"):
            metric(["a", "b"], [["a"], []])  # type: ignore[operator]
        with pytest.raises(InvalidRequestError, match="prediction 1 of 1"):
            metric(["a"], ["a"])  # type: ignore[operator, list-item]
        with pytest.raises(InvalidRequestError, match="at least one"):
            metric([], [])  # type: ignore[operator]
