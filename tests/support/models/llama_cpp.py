"""Logits from llama.cpp, through the C interface that the `xllamacpp` package's library exports."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import torch

#: Bytes reserved for a parameter struct, passed by value; enough for any layout, so the exact one need not be known.
_OPAQUE_BYTES = 1024


class _Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * _OPAQUE_BYTES)]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


def llama_cpp_logits(path: Path, tokens: list[int], vocab_size: int, adapter: Path | None = None) -> np.ndarray:
    """Return logits [tokens, vocab] of a prompt of at most 512 tokens, with llama.cpp's default settings.

    `adapter` is the path of a LoRA adapter in GGUF.
    """
    import xllamacpp

    library = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("*.so"))))
    silence = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    for name in ("llama_model_default_params", "llama_context_default_params"):
        getattr(library, name).restype = _Parameters
    library.llama_model_load_from_file.restype = ctypes.c_void_p
    library.llama_model_load_from_file.argtypes = [ctypes.c_char_p, _Parameters]
    library.llama_init_from_model.restype = ctypes.c_void_p
    library.llama_init_from_model.argtypes = [ctypes.c_void_p, _Parameters]
    library.llama_batch_init.restype = _Batch
    library.llama_decode.argtypes = [ctypes.c_void_p, _Batch]
    library.llama_get_logits.restype = ctypes.POINTER(ctypes.c_float)
    library.llama_get_logits.argtypes = [ctypes.c_void_p]
    library.llama_log_set(silence, None)
    library.llama_backend_init()
    model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
    assert model, f"llama.cpp could not load {path}"
    context = library.llama_init_from_model(model, library.llama_context_default_params())
    assert context
    threads = torch.get_num_threads()
    library.llama_set_n_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
    library.llama_set_n_threads(context, threads, threads)  # the default of four threads spins on fewer cores
    if adapter is not None:
        _set_adapter(library, model, context, adapter)
    batch = library.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    assert library.llama_decode(context, batch) == 0
    logits = np.ctypeslib.as_array(library.llama_get_logits(context), (len(tokens), vocab_size)).copy()
    for free, handle in (("llama_free", context), ("llama_model_free", model)):
        getattr(library, free).argtypes = [ctypes.c_void_p]
        getattr(library, free)(handle)
    return logits


def _set_adapter(library: ctypes.CDLL, model: int, context: int, path: Path) -> None:
    library.llama_adapter_lora_init.restype = ctypes.c_void_p
    library.llama_adapter_lora_init.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    adapter = library.llama_adapter_lora_init(model, str(path).encode())  # freed with the model
    assert adapter, f"llama.cpp could not load {path}"
    adapters, scales = (ctypes.c_void_p * 1)(adapter), (ctypes.c_float * 1)(1.0)
    library.llama_set_adapters_lora.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    assert library.llama_set_adapters_lora(context, adapters, 1, scales) == 0
