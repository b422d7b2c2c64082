"""`GrammarCompiler`: compiles the form of an answer into the constraint that enforces it."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import Future
from functools import cached_property
from typing import Any

from antiphon.errors import InvalidRequestError, TokenizerError, UnsupportedError
from antiphon.text.gbnf import lark_from_gbnf
from antiphon.text.grammar_check import GrammarChecks
from antiphon.text.grammar_constraint import (
    EndTokens,
    GrammarConstraint,
    MaskWorkers,
    compute_mask,
    deep_thread,
    error_summary,
)
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.lark_rules import json_style
from antiphon.text.tokenization.tokenizer import Tokenizer

COMPILE_SECONDS = 10.0

#: JSON on one line with at most one space after each comma and colon: what models write most often. Unlimited blanks
#: would let a model write them forever.
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ",[ ]?", "key_separator": ":[ ]?"}

#: Maximum lexer states per grammar, at 1 to 2 kB each; the library itself bounds the work for each mask.
MAX_LEXER_STATES = 50_000

#: Prefix for encoding a text as if it stood in the middle of another.
ANCHOR = "\x02"


class GrammarCompiler:
    """A compiler of grammars for one model. Thread-safe.

    `vocab_size` is the width of the model's logits; `eos_ids` are the tokens that end an answer. The vocabulary is read
    on first use, which takes about a second for 150,000 tokens; `prepare` reads it ahead of time.
    """

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int], vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._eos_ids = frozenset(token_id for token_id in eos_ids if 0 <= token_id < vocab_size)
        self._vocab_size = vocab_size
        self._lock = threading.Lock()
        self._checks = GrammarChecks()

    def prepare(self) -> None:
        """Read the vocabulary and start the threads, unless that was done before."""
        with self._lock:
            _ = self._vocabulary, self._ends, self._workers

    @cached_property
    def _vocabulary(self) -> Any:
        from llguidance import LLTokenizer

        view: Any = _VocabularyView(self._tokenizer, self._eos_ids, self._vocab_size)
        return LLTokenizer(view, eos_token=sorted(self._eos_ids))

    @cached_property
    def _ends(self) -> EndTokens:
        return EndTokens.of(self._eos_ids, self._vocab_size)

    @cached_property
    def _workers(self) -> MaskWorkers:
        return MaskWorkers(max(1, min(4, (os.cpu_count() or 1) // 2)))

    def compile(self, spec: GrammarSpec) -> GrammarConstraint:
        """Return the constraint of a new answer, with its first mask computed.

        Raise `InvalidRequestError` for a grammar that does not parse, is unsupported, cannot be satisfied or is too
        complex. A grammar that is not plain is compiled in another process first, since a compilation cannot be stopped
        here. Do not call this in the engine's thread: it takes milliseconds, and seconds for a hostile grammar.
        """
        if not self._eos_ids:
            raise UnsupportedError("the model has no end token, so an answer of a given form could never end")
        self._checks.check(spec)
        self.prepare()
        result: Future[GrammarConstraint] = Future()
        deep_thread("grammar-compile", self._compile_into, spec, result)
        try:
            return result.result(COMPILE_SECONDS)
        except TimeoutError:
            raise InvalidRequestError(f"the {spec.kind} took more than {COMPILE_SECONDS:.0f} s to compile") from None

    def _compile_into(self, spec: GrammarSpec, result: Future[GrammarConstraint]) -> None:
        try:
            result.set_result(self.build(spec))
        except InvalidRequestError as error:
            result.set_exception(error)
        except BaseException as error:  # a panic of the compiler is no `Exception`
            message = f"the {spec.kind} could not be compiled: {type(error).__name__}: {error}"
            result.set_exception(InvalidRequestError(message))

    def build(self, spec: GrammarSpec) -> GrammarConstraint:
        """Compile on the caller's stack and without limits; otherwise like `compile`."""
        self.prepare()
        from llguidance import LLMatcher, LLParserLimits

        limits = LLParserLimits(max_lexer_states=MAX_LEXER_STATES, verbose_errors=False)
        matcher = LLMatcher(self._vocabulary, _source(spec), log_level=0, limits=limits)
        if matcher.is_error():
            raise InvalidRequestError(f"the {spec.kind} is not usable: {_reworded(matcher.get_error())}")
        mask = compute_mask(matcher, len(self._ends.mask))
        if matcher.is_error():
            if matcher.get_error().startswith("NoExtension"):
                raise InvalidRequestError(f"the {spec.kind} cannot be satisfied: no text matches it")
            raise InvalidRequestError(f"the {spec.kind} is too complex: {error_summary(matcher.get_error())}")
        return GrammarConstraint(matcher, mask, self._ends, self._workers, matcher.is_stopped())


def _source(spec: GrammarSpec) -> str:
    """Return the grammar in the library's notation."""
    from llguidance import LLMatcher, regex_to_lark

    if spec.regex is not None:
        return str(LLMatcher.grammar_from_lark(f"start: /{regex_to_lark(spec.regex, use_ascii='d')}/"))
    if spec.grammar is not None:
        return str(LLMatcher.grammar_from_lark(spec.grammar))
    if spec.gbnf is not None:
        return str(LLMatcher.grammar_from_lark(lark_from_gbnf(spec.gbnf)))
    if spec.choice is not None:
        strings = " | ".join(json.dumps(text).replace("\x7f", "\\u007f") for text in dict.fromkeys(spec.choice))
        return str(LLMatcher.grammar_from_lark(f"start: CHOICE\nCHOICE: {strings}"))
    return str(LLMatcher.grammar_from_json_schema(spec.schema_text, overrides=json_style(spec, JSON_STYLE)))  # type: ignore[arg-type]


def _reworded(message: str) -> str:
    if message.startswith("oneOf constraints"):
        return "oneOf is supported only where its branches provably exclude each other; use anyOf"
    if message.startswith("lexer precomputation failed"):
        return "its patterns are too complex"
    return error_summary(message)


class _VocabularyView:
    """A `Tokenizer` with the interface that the library expects: the bytes of every token, and text to tokens.

    Where a grammar allows one continuation only, the library forces the tokens that encode its text, so these tokens
    must spell exactly that text, also in the middle of an answer.
    """

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int], vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = min(eos_ids)
        self.bos_token_id = None
        self.special_token_ids = sorted(tokenizer.special_ids | eos_ids)
        known = min(tokenizer.vocab_size, vocab_size)
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(known)] + [b""] * (vocab_size - known)

    def __call__(self, text: str) -> list[int]:
        data = text.encode()
        ids = self._encode(text)
        size = len(self.tokens)
        if all(token_id < size for token_id in ids) and b"".join(self.tokens[token_id] for token_id in ids) == data:
            return ids
        return self._longest_matches(data)

    def _encode(self, text: str) -> list[int]:
        def encode(text: str) -> list[int]:
            return self._tokenizer.encode(text, add_special_tokens=False, parse_special=False)

        if not self._tokenizer.strips_leading_space:
            return encode(text)
        return encode(ANCHOR + text)[len(encode(ANCHOR)) :]

    def _longest_matches(self, data: bytes) -> list[int]:
        """Return tokens that spell the bytes, taking the longest match each time instead of the tokenizer's choice."""
        ids, longest = self._ids_by_bytes
        out: list[int] = []
        start = 0
        while start < len(data):
            for end in range(min(len(data), start + longest), start, -1):
                if (token_id := ids.get(data[start:end])) is not None:
                    out.append(token_id)
                    start = end
                    break
            else:
                raise TokenizerError(f"the vocabulary has no token for the byte {data[start : start + 1]!r}")
        return out

    @cached_property
    def _ids_by_bytes(self) -> tuple[dict[bytes, int], int]:
        special = set(self.special_token_ids)
        ids = {data: token_id for token_id, data in enumerate(self.tokens) if data and token_id not in special}
        return ids, max(map(len, ids))
