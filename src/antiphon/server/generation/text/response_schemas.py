"""Bodies of answers, for the OpenAPI document. Handlers write answers as plain dictionaries."""

from __future__ import annotations

from typing import Literal

from antiphon.server.web.http.schemas import AnswerBody, Count


class PromptTokensDetails(AnswerBody):
    cached_tokens: Count


class CompletionTokensDetails(AnswerBody):
    """Drafted tokens: those accepted into the answer, and the rejected ones."""

    accepted_prediction_tokens: Count
    rejected_prediction_tokens: Count


class CompletionTimings(AnswerBody):
    """Seconds of the slowest choice, and the drafted tokens of all choices, if any were drafted."""

    queue: float
    time_to_first_token: float
    time_per_output_token: float
    total: float
    draft_n: Count | None = None
    draft_n_accepted: Count | None = None


class CompletionUsage(AnswerBody):
    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails
    timings: CompletionTimings | None = None


class TopLogprob(AnswerBody):
    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class CompletionLogprobs(AnswerBody):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class PromptLogprob(AnswerBody):
    logprob: float
    rank: int
    decoded_token: str


#: Log-probabilities by token id, the prompt's own token first; None for the first token.
PromptLogprobs = list[dict[str, PromptLogprob] | None]


class CompletionChoice(AnswerBody):
    index: Count
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]
    prompt_logprobs: PromptLogprobs | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None


class CompletionAnswer(AnswerBody):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class EmbeddingRow(AnswerBody):
    object: Literal["embedding"]
    index: Count
    embedding: list[float] | str


class EmbeddingUsage(AnswerBody):
    prompt_tokens: Count
    total_tokens: Count


class EmbeddingAnswer(AnswerBody):
    object: Literal["list"]
    model: str
    data: list[EmbeddingRow]
    usage: EmbeddingUsage


class TokensAnswer(AnswerBody):
    tokens: list[int]
    token_strs: list[str]
    count: Count
    max_model_len: int


class PromptAnswer(AnswerBody):
    prompt: str
