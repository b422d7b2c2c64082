"""Whisper's tokenizers: byte-level BPE whose merges are ranked by the ids of the resulting tokens."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

from antiphon.errors import TokenizerError
from antiphon.regular_file import read_regular_text
from antiphon.text.tokenization.byte_level import character_bytes, spelled_bytes
from antiphon.text.tokenization.merging import merged
from antiphon.text.tokenization.pre_tokenizers import GPT2_PATTERN
from antiphon.text.tokenization.tokenizer import SpecialTokens
from antiphon.text.tokenization.vocabulary import TokenType, Vocabulary, VocabularyTokenizer
from antiphon.text.tokenization.whisper_tokens import WhisperTokens

#: Symbols that are not speech: a transcript does not begin with brackets, notes or speakers' dashes.
SYMBOLS = list('"#()*+/:;<=>@[\\]^_`{|}~「」『』')
SYMBOLS += [
    "<<",
    ">>",
    "<<<",
    ">>>",
    "--",
    "---",
    "-(",
    "-[",
    "('",
    '("',
    "((",
    "))",
    "(((",
    ")))",
    "[[",
    "]]",
    "{{",
    "}}",
]
SYMBOLS += ["♪♪", "♪♪♪"]
NOTES = set("♩♪♫♬♭♮♯")


class WhisperTokenizer(VocabularyTokenizer):
    """A tokenizer of byte strings, whose ids are their ranks, followed by Whisper's special tokens.

    `decode` with `skip_special_tokens` also leaves out timestamps.
    """

    def __init__(self, tokens: Sequence[bytes], vocab_size: int) -> None:
        self.whisper = WhisperTokens.of_vocabulary(vocab_size)
        count = self.whisper.end
        if len(tokens) < count:
            raise TokenizerError(f"the vocabulary spells {len(tokens)} tokens of text, Whisper's needs {count}")
        special = self.whisper.spellings
        spelled = {byte: character for character, byte in character_bytes().items()}
        text = ["".join(spelled[byte] for byte in token) for token in tokens[:count]]
        types = [TokenType.NORMAL] * count + [TokenType.CONTROL] * len(special)
        end = self.whisper.end
        super().__init__(
            Vocabulary([*text, *special.values()], types),
            SpecialTokens(bos_id=None, eos_id=end, eos_ids=frozenset({end}), special_ids=frozenset(special)),
        )
        self._bytes = list(tokens[:count]) + [spelling.encode() for spelling in special.values()]
        self._ranks = {token: rank for rank, token in enumerate(tokens[:count]) if token}
        missing = [byte for byte in range(256) if bytes([byte]) not in self._ranks]
        if missing:
            raise TokenizerError(f"the vocabulary has no token for {len(missing)} of the 256 bytes")
        self._split = pre_tokenizers.Split(Regex(GPT2_PATTERN), behavior="isolated")
        self._merged = lru_cache(maxsize=8192)(self._merge)

    def encode_run(self, text: str, after_token: bool) -> list[int]:
        words = [word for word, _ in self._split.pre_tokenize_str(text)]
        return [token for word in words for token in self._merged(word.encode("utf-8"))]

    def _merge(self, word: bytes) -> tuple[int, ...]:
        return tuple(self._ranks[token] for token in merged(word, self._ranks.get))

    def token_bytes(self, token_id: int) -> bytes:
        self.check_id(token_id)
        return self._bytes[token_id]

    def non_speech_ids(self) -> frozenset[int]:
        """Return the ids that begin a symbol which speakers never pronounce, and the ids of marks."""
        found = {self.encode(" -")[0], self.encode(" '")[0]}
        for symbol in (*SYMBOLS, *NOTES):
            for ids in (self.encode(symbol), self.encode(" " + symbol)):
                if len(ids) == 1 or symbol in NOTES:
                    found.add(ids[0])
        tokens = self.whisper
        found |= {tokens.transcribe, tokens.translate, tokens.start, tokens.start_of_previous}
        return frozenset(found | {tokens.start_of_model, tokens.no_speech})

    def blank_ids(self) -> frozenset[int]:
        """Return the ids that must not begin a transcript: blank and end."""
        return frozenset(self.encode(" ")) | {self.whisper.end}


def tokens_from_json(path: Path) -> list[bytes]:
    """Return the text tokens by id from a `tokenizer.json`, whose vocabulary spells bytes as characters."""
    try:
        content = json.loads(read_regular_text(path))
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path} cannot be read as JSON: {error}") from error
    model = content.get("model") if isinstance(content, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict) or not all(type(token_id) is int for token_id in vocabulary.values()):
        raise TokenizerError(f"{path} has no vocabulary of tokens and ids")
    by_id = {token_id: token for token, token_id in vocabulary.items()}
    if sorted(by_id) != list(range(len(by_id))):
        raise TokenizerError(f"{path}: its {len(by_id)} token ids are not consecutive from 0")
    return [spelled_bytes(by_id[token_id]) for token_id in range(len(by_id))]


def tokens_from_tiktoken(path: Path) -> list[bytes]:
    """Return the tokens by rank from a file of lines `base64 rank`."""
    tokens: dict[int, bytes] = {}
    try:
        for line in read_regular_text(path, "ascii").splitlines():
            if line:
                token, rank = line.split()
                # An empty token is written as "=" alone.
                tokens[int(rank)] = base64.b64decode(token.strip("=") and token, validate=True)
    except (OSError, ValueError, binascii.Error) as error:
        raise TokenizerError(f"{path}: line {len(tokens) + 1} is not a token and its rank: {error}") from error
    if sorted(tokens) != list(range(len(tokens))):
        raise TokenizerError(f"{path}: its {len(tokens)} ranks are not consecutive from 0")
    return [tokens[rank] for rank in range(len(tokens))]
