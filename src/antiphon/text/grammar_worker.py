"""The process that compiles grammars on trial: `python -m antiphon.text.grammar_worker`.

Only the masks depend on the vocabulary, and the library bounds their work. So a grammar is compiled here over single
bytes, and one that takes too long ends with this process.
"""

from __future__ import annotations

import pickle
import threading
from functools import cache
from typing import Any

from antiphon.errors import InvalidRequestError
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.grammar_constraint import deep_thread
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.limited_worker import serve
from antiphon.text.tokenization.bytes_vocab import BytesTokenizer

MAX_BYTES = 2 << 30
#: Control tokens that grammars of tool calls name for some models.
CONTROL_TOKENS = ("<|python_tag|>", "<tool_call>")


@cache
def _compiler() -> GrammarCompiler:
    tokenizer = BytesTokenizer(CONTROL_TOKENS)
    return GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)


def answer(request: bytes) -> bytes:
    """Return nothing if the grammar is usable, else the error message."""
    spec: GrammarSpec = pickle.loads(request)
    causes: list[Any] = []

    def build() -> None:
        try:
            _compiler().build(spec)
        except BaseException as error:
            causes.append(error)

    thread: threading.Thread = deep_thread("grammar-compile", build)
    thread.join()
    for cause in causes:
        if isinstance(cause, MemoryError):
            raise cause
        if isinstance(cause, InvalidRequestError):
            return str(cause).encode("utf-8", "replace")
        return f"the {spec.kind} could not be compiled: {type(cause).__name__}: {cause}".encode("utf-8", "replace")
    return b""


if __name__ == "__main__":
    serve(answer, MAX_BYTES)
