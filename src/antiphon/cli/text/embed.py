"""`antiphon embed`: texts as vectors, by a model in this process or on a running server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import typer

from antiphon.cli.arguments import model_options
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.options import ServerOptions
from antiphon.cli.text.inputs import InputFile, read_inputs

INPUTS_AT_ONCE = 128


def embed(
    context: typer.Context,
    model: model_options.ModelArgument,
    file: InputFile,
    *,
    device: model_options.Device = "auto",
    no_repack: model_options.NoRepack = False,
    quantize: model_options.Quantize = None,
    no_record: model_options.NoRecord = False,
    offline: model_options.Offline = False,
    remote: ServerOptions,
) -> None:
    """Embed texts. Prints one JSON list of numbers for each line, in order."""
    server = remote.server()
    texts = read_inputs(file)
    if server is not None:
        from antiphon.cli.remote.given import Given

        Given.of(context).allow(("model", "file"), server)
        _print(_remote_vectors(server, model, texts))
        return
    from antiphon.cli.local.session import load
    from antiphon.runtime.frontend.engine import Engine

    loaded = load(model, offline, no_repack, quantize, task="embed", device=device)
    with Engine(loaded, kv_bytes=1 << 20, record=not no_record, device=loaded.device.name) as engine:
        _print(vector.tolist() for vector in engine.embed(texts))


def _print(vectors: Iterable[list[float]]) -> None:
    for vector in vectors:
        print(json.dumps([round(value, 7) for value in vector]))


def _remote_vectors(server: ServerAddress, model: str, texts: list[str]) -> Iterator[list[float]]:
    """Yield a vector per text, in requests of INPUTS_AT_ONCE texts."""
    from antiphon.cli.remote.client import Client, ServerError

    client = Client(server)
    for start in range(0, len(texts), INPUTS_AT_ONCE):
        inputs = texts[start : start + INPUTS_AT_ONCE]
        with client.post("/v1/embeddings", {"model": model, "input": inputs, "encoding_format": "float"}) as response:
            content = response.json()
        try:
            items = sorted(content["data"], key=lambda item: item["index"])
            vectors = [list(map(float, item["embedding"])) for item in items]
        except (KeyError, TypeError, ValueError):
            raise ServerError(f"{server.url} answered without embeddings") from None
        if len(vectors) != len(inputs):
            raise ServerError(f"{server.url} gave {len(vectors)} embeddings for {len(inputs)} texts")
        yield from vectors
