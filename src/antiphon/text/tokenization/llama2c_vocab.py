"""The `tokenizer.bin` of llama2.c: a SentencePiece vocabulary as binary records."""

from __future__ import annotations

import struct
from pathlib import Path

from antiphon.errors import TokenizerError
from antiphon.regular_file import read_regular
from antiphon.text.tokenization.sentencepiece import SPACE, SentencePieceTokenizer
from antiphon.text.tokenization.tokenizer import SpecialTokens, Tokenizer
from antiphon.text.tokenization.vocabulary import TokenType, Vocabulary

UNKNOWN_ID, BOS_ID, EOS_ID, FIRST_BYTE_ID = 0, 1, 2, 3
MAX_TOKEN_BYTES = 1 << 16


def tokenizer_from_llama2c(path: Path, vocab_size: int) -> Tokenizer:
    """Read a file of the longest token's length, then `vocab_size` records of score, length and bytes.

    Ids 0, 1 and 2 are unknown, begin and end of text. The next 256 are bytes, spelled `<0x0A>` or, by older exporters,
    as the character with that code point. Spaces are spelled as spaces.
    """
    if vocab_size <= EOS_ID:
        raise TokenizerError(f"a llama2.c vocabulary has at least 3 tokens, not {vocab_size}")
    try:
        data = read_regular(path)
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror or error}") from error
    tokens: list[str] = []
    scores: list[float] = []
    offset = 4
    for token_id in range(vocab_size):
        if offset + 8 > len(data):
            raise TokenizerError(f"{path} ends at byte {len(data)}, in token {token_id} of {vocab_size}")
        score, length = struct.unpack_from("<fi", data, offset)
        offset += 8
        if not 0 <= length <= min(MAX_TOKEN_BYTES, len(data) - offset):
            raise TokenizerError(f"token {token_id} of {path} has {length} bytes; {len(data) - offset} are left")
        try:
            tokens.append(data[offset : offset + length].decode("utf-8").replace(" ", SPACE))
        except UnicodeDecodeError:
            raise TokenizerError(f"token {token_id} of {path} is not UTF-8") from None
        scores.append(score)
        offset += length
    types: list[int] = [TokenType.NORMAL] * vocab_size
    for token_id, kind, text in (
        (UNKNOWN_ID, TokenType.UNKNOWN, "<unk>"),
        (BOS_ID, TokenType.CONTROL, "<s>"),
        (EOS_ID, TokenType.CONTROL, "</s>"),
    ):
        types[token_id] = kind
        tokens[token_id] = text
    for token_id in range(FIRST_BYTE_ID, min(FIRST_BYTE_ID + 256, vocab_size)):
        byte = token_id - FIRST_BYTE_ID
        spelling = f"<0x{byte:02X}>"
        if tokens[token_id] in (spelling, chr(byte).replace(" ", SPACE)):
            types[token_id] = TokenType.BYTE
            tokens[token_id] = spelling
    vocabulary = Vocabulary(tokens, types)
    special = SpecialTokens(
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        unknown_id=UNKNOWN_ID,
        eos_ids=frozenset({EOS_ID}),
        special_ids=vocabulary.special_ids,
    )
    return SentencePieceTokenizer(vocabulary, scores, special, space_prefix=True, prefix_ids=(BOS_ID,))
