"""`antiphon embed`: texts as vectors, by a model in this process or on a running server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.arguments import model_options
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.options import ServerOptions
from antiphon.cli.text.inputs import INPUT_HELP, read_inputs
from antiphon.errors import UsageError
from antiphon.weights.catalog.defaults import EMBEDDING_MODEL
from antiphon.weights.catalog.references import is_file_reference, path_exists

INPUTS_AT_ONCE = 128
#: Name of a server's own choice of an embedding model.
SERVER_MODEL = "default-embedding"


def embed(
    context: typer.Context,
    model: Annotated[str | None, model_options.model_argument(EMBEDDING_MODEL)] = None,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help=f"{INPUT_HELP} A single argument is the file.")
    ] = None,
    *,
    device: model_options.Device = "auto",
    no_repack: model_options.NoRepack = False,
    quantize: model_options.Quantize = None,
    no_record: model_options.NoRecord = False,
    offline: model_options.Offline = False,
    verbose: model_options.Verbose = False,
    remote: ServerOptions,
) -> None:
    """Embed texts. Prints one JSON list of numbers for each line, in order."""
    named = remote.named_server()
    chosen, path, is_default = _arguments(model, file, EMBEDDING_MODEL if named is None else SERVER_MODEL)
    texts = read_inputs(path)
    server = remote.server(context, ("model", "file"), {"embed": chosen}, is_default=is_default)
    if server is not None:
        from antiphon.cli.remote.running import local_if_unable

        with local_if_unable(server):
            _print(_remote_vectors(server, chosen, texts))
            return
    from antiphon.cli.local.session import load
    from antiphon.runtime.frontend.engine import Engine

    loaded = load(chosen, offline, no_repack, quantize, task="embed", device=device, verbose=verbose)
    with Engine(loaded, kv_bytes=1 << 20, record=not no_record, device=loaded.device.name) as engine:
        _print(vector.tolist() for vector in engine.embed(texts))


def _arguments(model: str | None, file: Path | None, default: str) -> tuple[str, Path, bool]:
    """Return the model, the file, and whether the model is the default one. A single argument is the file."""
    if model is not None and file is not None:
        return model, file, False
    if model is None:
        raise UsageError("no file: give one with a text on each line, or '-' for standard input")
    if model != "-" and not path_exists(model):
        hint = f"; after the model {model} goes a file" if not is_file_reference(model) else ""
        raise UsageError(f"there is no file {model}{hint}: antiphon embed [MODEL] FILE")
    return default, Path(model), True


def _print(vectors: Iterable[list[float]]) -> None:
    for vector in vectors:
        print(json.dumps([round(value, 7) for value in vector]))


def _remote_vectors(server: ServerAddress, model: str, texts: list[str]) -> Iterator[list[float]]:
    """Yield a vector per text, in requests of INPUTS_AT_ONCE texts."""
    from antiphon.cli.remote.client import Client, ServerError

    client = Client(server)
    for start in range(0, len(texts), INPUTS_AT_ONCE):
        inputs = texts[start : start + INPUTS_AT_ONCE]
        try:
            body = {"model": model, "input": inputs, "encoding_format": "float"}
            with client.post("/v1/embeddings", body) as response:
                content = response.json()
        except ServerError as error:
            if start:  # some vectors have been printed: the command cannot begin again in this process
                raise ServerError(f"after {start} of {len(texts)} texts: {error}") from error
            raise
        try:
            items = sorted(content["data"], key=lambda item: item["index"])
            vectors = [list(map(float, item["embedding"])) for item in items]
        except (KeyError, TypeError, ValueError):
            raise ServerError(f"{server.url} answered without embeddings") from None
        if len(vectors) != len(inputs):
            raise ServerError(f"{server.url} gave {len(vectors)} embeddings for {len(inputs)} texts")
        yield from vectors
