"""Measure tokens per second with LoRA adapters and with the base model, in turns.

    python benchmarks/lora.py [--model smollm2-135m] [--rank 16] [--rounds 7] [--tokens 64] [--quantize q4]
        [--llama-cpp]

The adapters are random, in bf16 as PEFT saves them, on every linear layer. Each round runs all cases in turn. Printed
are medians, and the cost relative to the base in the same case: the median of the rounds' ratios of CPU seconds per
token, which other programs on the machine disturb less than tokens per second. `--llama-cpp` adds a stream of llama.cpp
(the `xllamacpp` package's library) with and without the same adapter in a GGUF file.

    one      tokens after a prompt of 32, one stream
    eight    the same, 8 streams: with one adapter, and over 4 adapters
    prompt   a prompt of 512 tokens
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from antiphon import Engine, SamplingParams
from antiphon.models.base.adapters import adapter_targets
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.loading.weight_forms import WeightOptions

NUM_ADAPTERS = 4
PROMPT, LONG_PROMPT = 32, 512


def write_adapter(loaded: LoadedModel, folder: Path, rank: int, seed: int) -> Path:
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, target in adapter_targets(loaded.model).items():
        shapes = {"A": (rank, target.linear.weight.columns), "B": (target.rows, rank)}
        for kind, shape in shapes.items():
            values = 0.01 * torch.randn(shape, generator=generator)
            tensors[f"base_model.model.{name}.lora_{kind}.weight"] = values.to(torch.bfloat16)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": "all-linear"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


class Rates:
    """Cases by name, each a function that returns the engine's tokens per second."""

    def __init__(self, engine: Engine, loaded: LoadedModel, tokens: int) -> None:
        self._engine = engine
        self._tokens = tokens
        self._vocabulary = loaded.tokenizer.vocab_size
        self._random = random.Random(0)
        base, *adapters = engine.models
        self.cases: dict[str, Callable[[], float]] = {
            "one stream, base": lambda: self.decode([base]),
            "one stream, an adapter": lambda: self.decode(adapters[:1]),
            "8 streams, base": lambda: self.decode([base] * 8),
            "8 streams, one adapter": lambda: self.decode(adapters[:1] * 8),
            "8 streams, 4 adapters": lambda: self.decode(adapters * 2),
            "8 streams, base and 3 adapters": lambda: self.decode([base, *adapters[:3]] * 2),
            "prompt of 512, base": lambda: self.prompt(base),
            "prompt of 512, an adapter": lambda: self.prompt(adapters[0]),
        }

    def _prompt(self, length: int) -> list[int]:
        return [self._random.randrange(self._vocabulary) for _ in range(length)]

    def decode(self, models: list[str]) -> float:
        """Return tokens per second of steps in which all streams decode: from the last first token to the first end."""
        params = SamplingParams(max_tokens=self._tokens, ignore_eos=True)
        streams = [self._engine.stream(self._prompt(PROMPT), params, model=model) for model in models]
        for stream in streams:
            stream.wait()
        marks = [stream.output.request.marks.tokens for stream in streams]
        begun, ended = max(times[0] for times in marks), min(times[-1] for times in marks)
        return sum(begun < at <= ended for times in marks for at in times) / (ended - begun)

    def prompt(self, model: str) -> float:
        stream = self._engine.stream(self._prompt(LONG_PROMPT), SamplingParams(max_tokens=1), model=model)
        stream.wait()
        marks = stream.output.request.marks
        return LONG_PROMPT / (marks.tokens[0] - marks.first_scheduled)


def write_gguf(loaded: LoadedModel, folder: Path, path: Path, alpha: float) -> Path:
    """Write a PEFT adapter as a GGUF file. Rows are not reordered, since their order does not change the speed."""
    import gguf
    from safetensors.torch import load_file

    tensors = load_file(folder / "adapter_model.safetensors")
    writer = gguf.GGUFWriter(path, type(loaded.model).__name__.lower())
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for name in adapter_targets(loaded.model):
        for ours, theirs in (("A", "a"), ("B", "b")):
            own = f"{loaded.model.gguf_name(f'{name}.weight')}.lora_{theirs}"
            writer.add_tensor(own, tensors[f"base_model.model.{name}.lora_{ours}.weight"].half().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class LlamaCpp:
    """A stream of llama.cpp through its C interface, at its default settings."""

    def __init__(self, path: Path, adapter: Path | None, threads: int) -> None:
        import xllamacpp

        class Parameters(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_uint8 * 1024)]  # opaque: the exact layout need not be known

        class Batch(ctypes.Structure):
            _fields_ = [("count", ctypes.c_int32), ("pointers", ctypes.c_void_p * 6)]

        self._lib = lib = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("*.so"))))
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
        lib.llama_model_default_params.restype = lib.llama_context_default_params.restype = Parameters
        lib.llama_model_load_from_file.restype, lib.llama_model_load_from_file.argtypes = pointer, [text, Parameters]
        lib.llama_init_from_model.restype, lib.llama_init_from_model.argtypes = pointer, [pointer, Parameters]
        lib.llama_set_n_threads.argtypes = [pointer, number, number]
        lib.llama_batch_get_one.restype, lib.llama_batch_get_one.argtypes = Batch, [ctypes.POINTER(number), number]
        lib.llama_decode.argtypes = [pointer, Batch]
        lib.llama_get_memory.restype, lib.llama_get_memory.argtypes = pointer, [pointer]
        lib.llama_memory_clear.argtypes = [pointer, ctypes.c_bool]
        self._silence = ctypes.CFUNCTYPE(None, ctypes.c_int, text, pointer)(lambda *_: None)
        lib.llama_log_set(self._silence, None)
        model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        self._context = lib.llama_init_from_model(model, lib.llama_context_default_params())
        lib.llama_set_n_threads(self._context, threads, threads)
        if adapter is not None:
            lib.llama_adapter_lora_init.restype = pointer
            lib.llama_adapter_lora_init.argtypes = [pointer, text]
            found = (pointer * 1)(lib.llama_adapter_lora_init(model, str(adapter).encode()))
            lib.llama_set_adapters_lora.argtypes = [pointer, pointer, ctypes.c_size_t, pointer]
            assert found[0] and not lib.llama_set_adapters_lora(self._context, found, 1, (ctypes.c_float * 1)(1.0))

    def _decode(self, tokens: list[int]) -> None:
        held = (ctypes.c_int32 * len(tokens))(*tokens)
        assert not self._lib.llama_decode(self._context, self._lib.llama_batch_get_one(held, len(tokens)))

    def decode(self, count: int) -> float:
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        self._decode(list(range(300, 300 + PROMPT)))
        begun = time.perf_counter()
        for token in range(count):
            self._decode([400 + token])
        return count / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--quantize", choices=("int8", "q4"), help="what float weights of the base become")
    parser.add_argument("--llama-cpp", action="store_true", help="also llama.cpp, one stream; needs a GGUF model")
    options = parser.parse_args()
    loaded = load_model(options.model, options=WeightOptions(True, options.quantize))
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        paths = [write_adapter(loaded, root / f"a{i}", options.rank, i) for i in range(NUM_ADAPTERS)]
        adapters = {path.name: path for path in paths}
        size = sum(path.stat().st_size for path in paths[0].iterdir()) / 1e6
        with Engine(loaded, kv_bytes=512 << 20, adapters=adapters, prefix_caching=False) as engine:
            cases = Rates(engine, loaded, options.tokens).cases
            if options.llama_cpp:
                from antiphon.ops.threads import default_threads
                from antiphon.weights.catalog.resolve import resolve

                file, threads = resolve(options.model).path, default_threads()
                adapter = write_gguf(loaded, paths[0], root / "a.gguf", 2.0 * options.rank)
                plain, adapted = LlamaCpp(file, None, threads), LlamaCpp(file, adapter, threads)
                cases["llama.cpp one stream, base"] = lambda: plain.decode(options.tokens)
                cases["llama.cpp one stream, an adapter"] = lambda: adapted.decode(options.tokens)
            rates: dict[str, list[float]] = {name: [] for name in cases}
            costs: dict[str, list[float]] = {name: [] for name in cases}
            for round_number in range(options.rounds + 1):
                for name, measure in cases.items():
                    begun = time.process_time()
                    rate = measure()
                    if round_number:  # the first round warms up
                        rates[name].append(rate)
                        costs[name].append(time.process_time() - begun)
                print(f"round {round_number}", file=sys.stderr)
    print(
        f"{options.model}, rank {options.rank}, an adapter is {size:.1f} MB; tok/s, median of {options.rounds} rounds"
    )
    print(f"{'case':36} {'tok/s':>8} {'of the base':>12} {'CPU time':>9}")
    for name, values in rates.items():
        base = name.partition(",")[0] + ", base"
        rate, cost = (_ratio(of[name], of[base]) for of in (rates, costs))
        print(f"{name:36} {statistics.median(values):8.1f} {rate:12.2f} {cost:9.2f}")


def _ratio(values: list[float], base: list[float]) -> float:
    return statistics.median(value / other for value, other in zip(values, base, strict=True))


if __name__ == "__main__":
    main()
