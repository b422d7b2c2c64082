"""Metrics of text: BLEU and chrF by `sacrebleu`, ROUGE by `rouge-score`, exact match and F1 as in SQuAD."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from antiphon.dependencies import import_dependency
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.metrics.statistics import Rows, Score, Statistic

#: References of each item, one or more texts.
References = Sequence[Sequence[str]]

ROUGE_KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


# -- n-grams ------------------------------------------------------------------------------------------------------


def bleu(predictions: Sequence[str], references: References, tokenize: str = "13a") -> Score:
    """Return corpus BLEU, 0 to 100. An item's value is its sentence BLEU, over the n-gram orders that it has.

    `tokenize` names one of sacrebleu's tokenizers.
    """
    metrics = import_dependency("sacrebleu.metrics", "BLEU", "sacrebleu")
    corpus = metrics.BLEU(tokenize=tokenize)
    return _corpus_score(corpus, metrics.BLEU(tokenize=tokenize, effective_order=True), predictions, references)


def chrf(predictions: Sequence[str], references: References, word_order: int = 0) -> Score:
    """Return corpus chrF, 0 to 100, or chrF++ with `word_order` 2."""
    metrics = import_dependency("sacrebleu.metrics", "chrF", "sacrebleu")
    corpus = metrics.CHRF(word_order=word_order)
    return _corpus_score(corpus, corpus, predictions, references)


def _corpus_score(corpus: Any, sentence: Any, predictions: Sequence[str], references: References) -> Score:
    """Return a score whose rows are sacrebleu's counts per item and whose statistic is the score of their sums.

    sacrebleu's own bootstrap uses the same statistic.
    """
    _check(predictions, references)
    most = max(len(own) for own in references)
    streams = [[own[index] if index < len(own) else None for own in references] for index in range(most)]
    rows = corpus._extract_corpus_statistics(predictions, streams)
    items = [
        float(sentence.sentence_score(text, list(own)).score) for text, own in zip(predictions, references, strict=True)
    ]
    return Score.of_rows(rows, _score_of_sums(corpus), items)


def _score_of_sums(metric: Any) -> Statistic:
    def score(rows: Rows) -> float:
        return float(metric._compute_score_from_stats(rows.sum(axis=0).tolist()).score)

    return score


def rouge(
    predictions: Sequence[str],
    references: References,
    kinds: Sequence[str] = ROUGE_KINDS,
    use_stemmer: bool = False,
) -> dict[str, Score]:
    """Return the F-measure of each kind of ROUGE, 0 to 1: the mean over items, each with its best reference.

    `rougeLsum` treats lines as sentences.
    """
    _check(predictions, references)
    module = import_dependency("rouge_score.rouge_scorer", "ROUGE", "rouge-score")
    scorer = module.RougeScorer(list(kinds), use_stemmer=use_stemmer)
    found = [scorer.score_multi(list(own), text) for text, own in zip(predictions, references, strict=True)]
    return {kind: Score.of_items([float(item[kind].fmeasure) for item in found]) for kind in kinds}


# -- answers ------------------------------------------------------------------------------------------------------


def normalize_answer(text: str) -> str:
    """Normalise a text as SQuAD does: lower case, without punctuation, articles and extra spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predictions: Sequence[str], references: References, normalize: bool = True) -> Score:
    """Return the fraction of predictions that equal a reference. Without `normalize`, only outer spaces are ignored."""
    compared = normalize_answer if normalize else str.strip
    return _best(predictions, references, lambda text, reference: float(compared(text) == compared(reference)))


def f1(predictions: Sequence[str], references: References) -> Score:
    """Return the mean F1 of the words that a prediction shares with its best reference, both normalised."""
    return _best(predictions, references, _word_f1)


def _word_f1(prediction: str, reference: str) -> float:
    found, wanted = normalize_answer(prediction).split(), normalize_answer(reference).split()
    if not found or not wanted:
        return float(found == wanted)
    common = (Counter(found) & Counter(wanted)).total()
    return 2 * common / (len(found) + len(wanted))


def _best(predictions: Sequence[str], references: References, measure: Callable[[str, str], float]) -> Score:
    _check(predictions, references)
    pairs = zip(predictions, references, strict=True)
    return Score.of_items([max(measure(text, reference) for reference in own) for text, own in pairs])


def _check(predictions: Sequence[str], references: References) -> None:
    if len(predictions) != len(references):
        raise InvalidRequestError(f"{len(predictions)} predictions were given with {len(references)} references")
    if not predictions:
        raise InvalidRequestError("there are no predictions: at least one is needed")
    for number, own in enumerate(references, 1):
        if isinstance(own, str) or not own:
            raise InvalidRequestError(
                f"prediction {number} of {len(predictions)} needs a list of one or more references"
            )
