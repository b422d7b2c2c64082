"""`WindowJob`: one window of sound on its way through the engine: encoded, decoded, retried, aligned."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from antiphon.audio.mel import check_window, window_features
from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.beam import BeamGroup
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.transcript_rules import TranscriptRules
from antiphon.errors import UnsupportedError
from antiphon.models.whisper import Whisper
from antiphon.runtime.calls.control import new_id
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots.resident import encoder_name
from antiphon.runtime.transcription.window.repetition import find_loops
from antiphon.runtime.transcription.words.timestamps import STATES_PER_SECOND, AlignedWord, align_words
from antiphon.text.tokenization.long_text import tail
from antiphon.text.tokenization.whisper_tokens import WhisperTokens
from antiphon.text.tokenization.whisper_vocab import WhisperTokenizer

#: Maximum rate of human speech. A transcript that repeats itself, but not faster than this, may be what was said.
MAX_TOKENS_PER_SECOND = 6.0
#: Mean log-probability of the text outside repetitions below which these are a loop; repetitions themselves become ever
#: more probable. Repeated sentences have -0.3 to 0 with tiny.en, loops in noise -0.5 and less.
MIN_UNREPEATED_LOGPROB = -0.4
#: Limits of a brief window: minimum seconds, minimum seconds of silence after the sound, and the multiple to which its
#: number of states is rounded up.
BRIEF_SECONDS, BRIEF_SILENCE, BRIEF_STEP = 10.0, 4.0, 50
#: Characters kept of the end of the caller's prompt: more than half of a context of 448 tokens can hold.
PROMPT_CHARACTERS = 16_384


@dataclass(frozen=True)
class Recogniser:
    """A loaded Whisper model and its tokens, as window jobs use them."""

    loaded: LoadedModel
    model: Whisper
    tokenizer: WhisperTokenizer
    suppressed: frozenset[int]
    blank: frozenset[int]

    @classmethod
    def of(cls, loaded: LoadedModel) -> Recogniser:
        model, tokenizer = loaded.model, loaded.tokenizer
        if not isinstance(model, Whisper) or not isinstance(tokenizer, WhisperTokenizer):
            raise UnsupportedError(f"model {loaded.name!r} is for {model.task.value}, it does not transcribe")
        return cls(loaded, model, tokenizer, tokenizer.non_speech_ids(), tokenizer.blank_ids())

    @property
    def tokens(self) -> WhisperTokens:
        return self.tokenizer.whisper

    @property
    def window_seconds(self) -> float:
        return self.model.cross_tokens / STATES_PER_SECOND

    def prompt_tokens(self, options: TranscriptionOptions) -> list[int]:
        """Return the tokens of the caller's prompt, which stand before a window."""
        text = tail(options.prompt.strip(), PROMPT_CHARACTERS)
        return self.tokenizer.encode(" " + text, parse_special=False) if text else []

    @property
    def max_prompt_tokens(self) -> int:
        """Maximum tokens of text before the window: half of the context, less the token that opens it."""
        return self.model.config.text_positions // 2 - 1


@dataclass(frozen=True)
class Attempt:
    """A decoding of a window."""

    tokens: tuple[int, ...]  # with timestamps, without opening and end tokens
    text: str
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    language: str
    language_probability: float
    is_complete: bool  # ended by the model, not by the token limit
    seconds: float  # length of the window
    logprobs: tuple[float, ...] = ()  # per token; given tokens count as certain
    repeated: frozenset[int] = frozenset()  # indices of tokens that are repetitions in a loop
    unrepeated_logprob: float = 0.0  # mean log-probability of the other sampled text tokens

    def is_silence(self, options: TranscriptionOptions) -> bool:
        return self.no_speech_prob > options.no_speech_limit and self.avg_logprob < options.logprob_limit

    def is_repetitive(self, options: TranscriptionOptions) -> bool:
        """Return whether the text repeats itself as a model in a loop does, not as people do.

        Repeated speech is complete, not faster than `MAX_TOKENS_PER_SECOND`, and probable where it is said first.
        """
        in_time = self.is_complete and len(self.tokens) <= MAX_TOKENS_PER_SECOND * self.seconds
        if self.repeated:
            return not in_time or self.unrepeated_logprob < MIN_UNREPEATED_LOGPROB
        return self.compression_ratio > options.compression_ratio_limit and not in_time

    def is_doubtful(self, options: TranscriptionOptions) -> bool:
        """Return whether to try again: the text is too repetitive or too improbable, and the window is not silence."""
        if self.is_repetitive(options):
            return not self.is_silence(options)
        return self.avg_logprob < options.logprob_limit and not self.is_silence(options)


@dataclass(eq=False)
class WindowJob:
    """State machine of a window: `start` and `advance` return requests to submit, until `is_done`.

    `language` is detected from this window if it is None. `previous` are tokens of the text before it, `given` the
    tokens of its own beginning that are settled already. With `is_brief` the encoder sees the sound and some silence,
    so that its time follows the length of the sound; a doubtful transcript is made again from the whole window.
    `expected` are tokens of an earlier transcript of less of the sound: a draft, which changes no token. Words are
    aligned if the options request them, or `needs_words` does, given the best attempt.
    """

    recogniser: Recogniser
    samples: Floats
    options: TranscriptionOptions
    language: str | None
    previous: Sequence[int] = ()
    given: Sequence[int] = ()
    deadline: float | None = None
    is_brief: bool = False
    expected: Sequence[int] = ()
    needs_words: Callable[[Attempt], bool] | None = None
    encoded: Tensor | None = None
    attempts: list[Attempt] = field(default_factory=list)
    words: list[AlignedWord] = field(default_factory=list)
    num_tokens: int = 0
    is_done: bool = False
    no_speech_prob: float = 0.0
    _content: bytes = b""
    _pending: dict[str, Request] = field(default_factory=dict)
    _ended: list[Request] = field(default_factory=list)
    _is_aligning: bool = False

    @property
    def seconds(self) -> float:
        return len(self.samples) / SPEECH_RATE

    @property
    def num_states(self) -> int:
        longest = self.recogniser.model.cross_tokens
        if not self.is_brief or not self.recogniser.loaded.device.is_cpu:
            return longest
        seconds = max(BRIEF_SECONDS, self.seconds + BRIEF_SILENCE)
        return min(longest, math.ceil(seconds * STATES_PER_SECOND / BRIEF_STEP) * BRIEF_STEP)

    @property
    def best(self) -> Attempt:
        """The last attempt unless it is doubtful; then the most probable one, preferably not repetitive."""
        last = self.attempts[-1]
        if not last.is_doubtful(self.options):
            return last
        plain = [attempt for attempt in self.attempts if not attempt.is_repetitive(self.options)]
        return max(plain or self.attempts, key=lambda attempt: attempt.avg_logprob)

    def start(self) -> list[Request]:
        inputs = self._inputs()
        self._content = blake2b(inputs.numpy().tobytes(), digest_size=16).digest()
        request = Request(
            new_id(),
            encoder_name(self.recogniser.loaded.name),
            [0] * self.num_states,
            SamplingParams(),
            task="encode",
            priority=self.options.priority,
            deadline=self.deadline,
            inputs=inputs,
        )
        return self._submitted([request])

    def _inputs(self) -> Tensor:
        """Return the encoder's input: mel frames, or on a GPU the samples, from which it computes frames there."""
        recogniser = self.recogniser
        if recogniser.loaded.device.is_cpu:
            num_mels = recogniser.model.config.num_mels
            return torch.from_numpy(window_features(self.samples, num_mels, self.num_states / STATES_PER_SECOND))
        check_window(self.samples, recogniser.window_seconds)
        return torch.from_numpy(np.ascontiguousarray(self.samples, dtype=np.float32))

    def _submitted(self, requests: list[Request]) -> list[Request]:
        self._pending = {request.id: request for request in requests}
        self._ended = []
        return requests

    def advance(self, request: Request) -> list[Request]:
        """Take a request that ended well; return the next ones, if any.

        An empty list means that other requests are awaited, or that the job is done.
        """
        del self._pending[request.id]
        self._ended.append(request)
        if self._pending:
            return []
        if self.encoded is None:
            self.encoded = request.result
            return self._submitted(self._decoding(self.options.temperatures[0]))
        if self._is_aligning:
            self._align(request)
            return self._finish()
        leaders = [ended for ended in self._ended if ended.beam is None or ended.beam.leader is ended]
        attempts = [self._attempt(ended) for ended in leaders]
        # A loop makes itself ever more probable, so the most probable of several samples is often the one with a loop.
        plain = [attempt for attempt in attempts if not attempt.is_repetitive(self.options)]
        self.attempts.append(max(plain or attempts, key=lambda attempt: attempt.avg_logprob))
        tried = len(self.attempts)
        if self.attempts[-1].is_doubtful(self.options) and tried < len(self.options.temperatures):
            if self.num_states < self.recogniser.model.cross_tokens:
                return self._start_again()
            return self._submitted(self._decoding(self.options.temperatures[tried]))
        if (best := self.best).repeated and best.is_repetitive(self.options):
            self.attempts[self.attempts.index(best)] = self._without_loops(best)
        if self.text_tokens() and not self.best.is_silence(self.options) and self._is_word_timed():
            self._is_aligning = True
            return self._submitted([self._aligning()])
        return self._finish()

    def _is_word_timed(self) -> bool:
        return self.options.words or (self.needs_words is not None and self.needs_words(self.best))

    def _start_again(self) -> list[Request]:
        """Start again with the whole window, the input that models are trained on."""
        self.is_brief, self.encoded = False, None
        self.attempts.clear()
        return self.start()

    def _finish(self) -> list[Request]:
        self.is_done = True
        self.encoded = None
        return []

    def text_tokens(self) -> list[int]:
        return [token for token in self.best.tokens if token < self.recogniser.tokens.end]

    # -- requests -----------------------------------------------------------------------------------------------

    def _request(self, prompt: list[int], params: SamplingParams, **details: object) -> Request:
        request = Request(
            new_id(),
            self.recogniser.loaded.name,
            prompt,
            params,
            task="transcribe",
            priority=self.options.priority,
            deadline=self.deadline,
            cross_tokens=self.num_states,
            inputs=self.encoded,
            content=self._content,
            stop_ids=frozenset({self.recogniser.tokens.end}),
        )
        for name, value in details.items():
            setattr(request, name, value)
        return request

    def _opening(self) -> tuple[list[int], list[tuple[int, ...]]]:
        """Return the tokens before a transcript, and the choices at each opening position still to be sampled."""
        tokens = self.recogniser.tokens
        prompt, drawn = [tokens.start], []
        if tokens.is_multilingual:
            task = tokens.translate if self.options.translate else tokens.transcribe
            if self.language is None:
                drawn = [tuple(tokens.languages), (task,)]
            else:
                prompt += [tokens.language_id(self.language), task]
        if not self.options.timestamps:
            if drawn:
                drawn.append((tokens.no_timestamps,))
            else:
                prompt.append(tokens.no_timestamps)
        return prompt, drawn

    def _decoding(self, temperature: float) -> list[Request]:
        """Return the requests of an attempt, of which the most probable result is taken."""
        recogniser, options = self.recogniser, self.options
        tokens, positions = recogniser.tokens, recogniser.model.config.text_positions
        previous = list(self.previous)[-recogniser.max_prompt_tokens :]
        before = [tokens.start_of_previous, *previous] if previous else []
        opening, drawn = self._opening()
        prompt = [*before, *opening, *self.given]
        rules = TranscriptRules(
            begin=len(before) + len(opening) + len(drawn),
            end_id=tokens.end,
            opening=tuple(drawn),
            blank=recogniser.blank,
            first_timestamp=tokens.first_timestamp if options.timestamps else None,
        )
        length = min(positions // 2 + len(drawn), positions - len(prompt))
        count = options.best_of if temperature > 0 else options.beams
        search = BeamGroup[Request](count) if count > 1 and temperature == 0 else None
        draft = self._draft() if count == 1 else []
        requests: list[Request] = []
        for seed in range(count):
            params = SamplingParams(
                temperature, seed=seed, max_tokens=max(1, length), banned_tokens=recogniser.suppressed
            )
            probe = (len(before), tokens.no_speech) if not self.attempts and not requests else None
            parent = requests[0] if requests else None
            request = self._request(prompt, params, rules=rules, probe=probe, fork_of=parent, beam=search)
            request.guess, request.speculates = draft, bool(draft)
            requests.append(request)
        if search is not None:
            search.members = requests
        return requests

    def _draft(self) -> list[int]:
        """Return the expected tokens after the given ones; empty if the given ones differ from them."""
        expected, count = list(self.expected), len(self.given)
        return expected[count:] if expected[:count] == list(self.given) else []

    def _aligning(self) -> Request:
        tokens, opening = self.recogniser.tokens, self._spoken_opening()
        text = self.text_tokens()[: self.recogniser.model.config.text_positions - len(opening) - 3]
        prompt = [*opening, tokens.no_timestamps, *text, tokens.end]
        return self._request(prompt, SamplingParams(max_tokens=1, prompt_logprobs=True), observes=True)

    def _spoken_opening(self) -> list[int]:
        tokens = self.recogniser.tokens
        if not tokens.is_multilingual:
            return [tokens.start]
        task = tokens.translate if self.options.translate else tokens.transcribe
        return [tokens.start, tokens.language_id(self.best.language), task]

    # -- results ------------------------------------------------------------------------------------------------

    def _attempt(self, request: Request) -> Attempt:
        tokens, rules = self.recogniser.tokens, request.rules
        assert rules is not None
        if request.probed is not None:
            self.no_speech_prob = request.probed
        output = request.output
        self.num_tokens += len(output)
        language, probability = self.language or "en", 1.0
        if rules.opening and tokens.is_multilingual and len(rules.opening[0]) > 1 and output:
            language, probability = tokens.language_code(output[0]), float(np.exp(request.drawn_logprobs[0]))
        drawn = request.drawn_logprobs[len(rules.opening) :]
        pairs = list(zip(output[len(rules.opening) :], drawn, strict=False))
        spoken = list(self.given) + [token for token, _ in pairs if token != tokens.end]
        logprobs = [0.0] * len(self.given) + [logprob for token, logprob in pairs if token != tokens.end]
        text, repeated = self._text(spoken), self._repeated(spoken)
        others = [
            logprob
            for index, (token, logprob) in enumerate(zip(spoken, logprobs, strict=True))
            if token < tokens.end and index >= len(self.given) and index not in repeated
        ]
        return Attempt(
            tuple(spoken),
            text,
            request.params.temperature,
            sum(drawn) / (len(drawn) + (not output or output[-1] != tokens.end)),
            compression_ratio(text),
            self.no_speech_prob,
            language,
            probability,
            request.finish_reason is FinishReason.STOP,
            self.seconds,
            tuple(logprobs),
            repeated,
            sum(others) / max(1, len(others)),
        )

    def _text(self, tokens: Sequence[int]) -> str:
        end = self.recogniser.tokens.end
        return self.recogniser.tokenizer.decode(token for token in tokens if token < end)

    def _repeated(self, spoken: Sequence[int]) -> frozenset[int]:
        """Return indices of tokens that are repetitions in a loop, except given ones. Timestamps may stand between."""
        indices = [index for index, token in enumerate(spoken) if token < self.recogniser.tokens.end]
        loops = find_loops([spoken[index] for index in indices])
        repeated = (index for loop in loops for index in indices[loop.first_repeated : loop.end])
        return frozenset(index for index in repeated if index >= len(self.given))

    def _without_loops(self, attempt: Attempt) -> Attempt:
        """Return the attempt with each loop cut to its first occurrence. Timestamps stay."""
        kept = [index for index in range(len(attempt.tokens)) if index not in attempt.repeated]
        tokens = tuple(attempt.tokens[index] for index in kept)
        text = self._text(tokens)
        return replace(
            attempt,
            tokens=tokens,
            text=text,
            compression_ratio=compression_ratio(text),
            logprobs=tuple(attempt.logprobs[index] for index in kept),
            repeated=frozenset(),
        )

    def _align(self, request: Request) -> None:
        opening = self._spoken_opening()
        text = list(request.prompt[len(opening) + 1 : -1])
        heads, _, states = next(iter(request.observed.values())).shape
        attention = np.zeros((heads, len(request.prompt), states), np.float32)
        for start, part in request.observed.items():
            attention[:, start : start + part.shape[1]] = part.numpy()
        first = len(opening)  # the log-probability of prompt[i] is at i - 1
        probabilities = np.exp(request.prompt_logprobs[first : first + len(text)]).tolist()
        num_states = min(self.num_states, max(1, round(self.seconds * STATES_PER_SECOND)))
        self.words = align_words(
            attention, text, probabilities, self.recogniser.tokenizer, self.best.language, num_states, first
        )
        request.observed.clear()


def compression_ratio(text: str) -> float:
    """Return the text's bytes divided by its compressed bytes; far above 2, the text repeats itself."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data)) if data else 1.0
