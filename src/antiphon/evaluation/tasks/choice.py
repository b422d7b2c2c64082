"""`choice`: multiple choice by log-likelihood, with each choice scored as a continuation of the question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from antiphon.engine.sampling_params import SamplingParams
from antiphon.evaluation.items import Line
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric


@dataclass(frozen=True)
class ChoiceQuestion:
    """Question with choices; `answer` is the index of the right one. Errors name the `source`."""

    id: str
    text: str
    choices: list[str]
    answer: int
    source: str = ""


class Choice(EvaluationTask[ChoiceQuestion]):
    """Task in which the choice with the highest sum of log-probabilities after the question wins.

    The choice follows the question after a space. Per byte, the sum is divided by the choice's length, so that long
    choices are not at a disadvantage.
    """

    name = "choice"
    summary = "multiple choice by log-likelihood"
    metrics = (
        Metric("accuracy", ("correct",), unit="%"),
        Metric("accuracy per byte", ("correct_per_byte",), unit="%"),
    )
    sample = "choice.jsonl"
    fields = "question, choices (a list of texts) and answer (the right one, or its index, counted from 0)"

    def item(self, line: Line) -> ChoiceQuestion:
        choices = line.texts("choices")
        if len(choices) < 2:
            raise line.error(f"'choices' has {len(choices)} text; it must have 2 or more")
        if not all(choice.strip() for choice in choices):
            raise line.error("'choices' has an empty text")
        given = line.fields.get("answer")
        answer = choices.index(given) if isinstance(given, str) and given in choices else -1
        if isinstance(given, str) and answer < 0:
            raise line.error(f"'answer' is {given!r}, which is none of the choices")
        if answer < 0:
            answer = line.integer("answer")
        if not 0 <= answer < len(choices):
            raise line.error(f"'answer' is {answer}; there are {len(choices)} choices, counted from 0")
        text = line.text("question").rstrip()
        if not text:
            raise line.error("'question' is empty")
        return ChoiceQuestion(line.id, text, choices, answer, line.location)

    def evaluate(self, subject: Subject, work: Sequence[ChoiceQuestion]) -> Iterator[ItemResult]:
        tokenizer = subject.loaded.tokenizer
        contexts = [len(tokenizer.encode(question.text)) for question in work]
        prompts = (tokenizer.encode(f"{question.text} {choice}") for question in work for choice in question.choices)
        sources = (question.source for question in work for _ in question.choices)
        answers = subject.generate(prompts, SamplingParams(max_tokens=1, prompt_logprobs=True), sources)
        for question, context in zip(work, contexts, strict=True):
            sums = []
            for _ in question.choices:
                logprobs = next(answers).prompt_logprobs
                assert logprobs is not None
                sums.append(sum(logprobs[context - 1 :]))  # a prompt's first token has no log-probability
            yield scored(question, sums)


def scored(question: ChoiceQuestion, sums: Sequence[float]) -> ItemResult:
    per_byte = [total / len(choice.encode()) for total, choice in zip(sums, question.choices, strict=True)]
    chosen, chosen_per_byte = (values.index(max(values)) for values in (list(sums), per_byte))
    return ItemResult(
        question.id,
        {
            "correct": float(chosen == question.answer),
            "correct_per_byte": float(chosen_per_byte == question.answer),
            "logprobs": list(sums),
        },
        question.choices[chosen],
    )
