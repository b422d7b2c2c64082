"""`EngineLM`: the engine as a model of the `lm-eval` package, which importing this module requires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval import utils
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import has_bos_prefix, normalize_gen_kwargs

from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.subject import IN_FLIGHT, Subject
from antiphon.runtime.text.output import Completion

MAX_GENERATED = 256
#: lm-eval's generation options that the engine has under the same name.
SAMPLING = ("top_k", "top_p", "min_p", "typical_p", "repetition_penalty")
#: lm-eval's generation options that are translated separately, or have no meaning for a decoder with a cache.
OTHERS = ("do_sample", "temperature", "until", "max_gen_toks", "seed", "use_cache")


class EngineLM(TemplateLM):
    """Log-likelihoods and answers in the form in which lm-eval requests them from transformers' models.

    Texts are encoded with the special tokens that the model expects around a text, and without a chat template.
    """

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self._subject = subject
        self._tokenizer = subject.loaded.tokenizer
        #: Maximum prompt tokens before the last one; one position is reserved for the token that every request
        #: generates.
        self.max_length = subject.loaded.model.max_positions - 2

    # -- tokens -------------------------------------------------------------------------------------------------

    @property
    def eot_token_id(self) -> int:
        found = self._tokenizer.special.eos_id
        if found is None:
            raise InvalidRequestError(f"model {self._subject.name!r} has no end token, which lm-eval needs")
        return found

    @property
    def prefix_token_id(self) -> int:
        """Token that precedes a text without context."""
        return self.eot_token_id if self._tokenizer.special.bos_id is None else self._tokenizer.special.bos_id

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        if add_special_tokens is None:
            add_special_tokens = not has_bos_prefix(string, self._tokenizer.decode([self.prefix_token_id]))
        return self._tokenizer.encode(string, add_special_tokens=add_special_tokens)

    # -- requests -----------------------------------------------------------------------------------------------

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        return super().loglikelihood(requests, disable_tqdm=True)

    def _loglikelihood_tokens(self, requests: Sequence[Any], **_: Any) -> list[tuple[float, bool]]:
        """Return each ending's log-likelihood after its context, and whether greedy decoding generates it."""
        prompts, lengths = [], []
        for _text, context, ending in requests:
            if not ending or len(ending) > self.max_length:
                raise InvalidRequestError(
                    f"an ending has {len(ending):,} tokens; model {self._subject.name!r} can score 1 to "
                    f"{self.max_length:,}"
                )
            prompts.append([*context, *ending][-(self.max_length + 1) :])
            lengths.append(len(ending))
        params = SamplingParams(max_tokens=1, prompt_logprobs=True, prompt_top_logprobs=1)
        answers = self._answers(prompts, [params] * len(prompts))
        return [_ending_score(answer, length) for answer, length in zip(answers, lengths, strict=True)]

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = True) -> list[float]:
        """Return the log-likelihood of each text. A long text is cut into windows that score every token once."""
        windows, counts = [], []
        for request in requests:
            pairs = utils.get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0]),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            own = [(None, *utils.make_disjoint_window(pair)) for pair in pairs]
            windows += own
            counts.append(len(own))
        scores = iter(self._loglikelihood_tokens(windows))
        return [sum(next(scores)[0] for _ in range(count)) for count in counts]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = True) -> list[str]:
        """Return answers up to a stop string. Every sampled request has a seed of its own."""
        prompts, params = [], []
        for seed, request in enumerate(requests):
            context, options = request.args
            own = sampling_params(options, seed)
            longest = self.max_length + 2 - own.max_tokens
            if longest < 1:
                raise InvalidRequestError(
                    f"the task generates up to {own.max_tokens:,} tokens; model {self._subject.name!r} takes "
                    f"{self.max_length + 2:,} with the prompt"
                )
            prompts.append(self.tok_encode(context)[-longest:])
            params.append(own)
        return [answer.text for answer in self._answers(prompts, params)]

    def _answers(self, prompts: Sequence[list[int]], params: Sequence[SamplingParams]) -> list[Completion]:
        found: list[Completion] = []
        for start in range(0, len(prompts), IN_FLIGHT):
            some = slice(start, start + IN_FLIGHT)
            found += self._subject.engine.generate(prompts[some], params[some], model=self._subject.name)
        return found


def _ending_score(answer: Completion, length: int) -> tuple[float, bool]:
    assert answer.prompt_logprobs is not None and answer.prompt_top_logprobs is not None
    own, tops = answer.prompt_logprobs[-length:], answer.prompt_top_logprobs[-length:]
    return sum(own), all(value == top[0][1] for value, top in zip(own, tops, strict=True))


def sampling_params(options: dict[str, Any], seed: int = 0) -> SamplingParams:
    """Translate lm-eval's generation options; reject options that the engine does not have."""
    given = dict(normalize_gen_kwargs(options, MAX_GENERATED))
    unknown = sorted(set(given) - {*SAMPLING, *OTHERS})
    if unknown:
        raise InvalidRequestError(f"the task has options of generation that this engine does not have: {unknown}")
    chosen = {name: given[name] for name in SAMPLING if given.get(name) is not None}
    is_sampled = bool(given.get("do_sample"))
    return SamplingParams(
        temperature=float(given.get("temperature", 1.0)) if is_sampled else 0.0,
        max_tokens=given["max_gen_toks"],
        stop=tuple(text for text in given["until"] if text),
        seed=seed if is_sampled else 0,
        **(chosen if is_sampled else {}),
    )
