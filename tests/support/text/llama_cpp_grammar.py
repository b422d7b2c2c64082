"""Grammars as llama.cpp applies them, through the C interface that the `xllamacpp` package's library exports."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.models.llama_cpp import _Parameters


class _TokenData(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class _TokenArray(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.POINTER(_TokenData)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    ]


class LlamaGrammar:
    """State of an answer under a grammar."""

    def __init__(self, library: Any, vocabulary: int, grammar: str, vocab_size: int) -> None:
        self._library = library
        self._vocab_size = vocab_size
        self._sampler = library.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
        assert self._sampler, f"llama.cpp does not take {grammar}"

    def allowed(self) -> set[int]:
        data = (_TokenData * self._vocab_size)(*(_TokenData(token, 1.0, 0.0) for token in range(self._vocab_size)))
        array = _TokenArray(data, self._vocab_size, -1, False)
        self._library.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return {array.data[index].id for index in range(array.size) if array.data[index].logit > -1e30}

    def advance(self, token: int) -> None:
        self._library.llama_sampler_accept(self._sampler, token)

    def close(self) -> None:
        self._library.llama_sampler_free(self._sampler)


@contextmanager
def llama_vocabulary(path: Path) -> Iterator[tuple[Any, int]]:
    """Yield llama.cpp's library and its handle of a GGUF file's vocabulary."""
    import xllamacpp

    library = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("*.so"))))
    silence = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    library.llama_model_default_params.restype = _Parameters
    for name in ("llama_model_load_from_file", "llama_model_get_vocab", "llama_sampler_init_grammar"):
        getattr(library, name).restype = ctypes.c_void_p
    library.llama_model_load_from_file.argtypes = [ctypes.c_char_p, _Parameters]
    library.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
    library.llama_sampler_init_grammar.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    library.llama_sampler_apply.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.llama_sampler_accept.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.llama_sampler_free.argtypes = [ctypes.c_void_p]
    library.llama_model_free.argtypes = [ctypes.c_void_p]
    library.llama_log_set(silence, None)
    library.llama_backend_init()
    model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
    assert model, f"llama.cpp could not load {path}"
    try:
        yield library, library.llama_model_get_vocab(model)
    finally:
        library.llama_model_free(model)
