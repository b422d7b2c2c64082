"""`antiphon embed` with a running server."""

from __future__ import annotations

import json

import typer

from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.client import Client, ServerError
from antiphon.cli.remote.given import Given

OPTIONS = ("model", "file")
INPUTS_AT_ONCE = 128


def embed_remotely(context: typer.Context, server: ServerAddress, texts: list[str]) -> None:
    """`antiphon embed`: a line for each text, in order, printed batch by batch."""
    given = Given.of(context)
    given.allow(OPTIONS, server)
    client = Client(server)
    for start in range(0, len(texts), INPUTS_AT_ONCE):
        for vector in _vectors(client, given.every["model"], texts[start : start + INPUTS_AT_ONCE]):
            print(json.dumps([round(value, 7) for value in vector]))


def _vectors(client: Client, model: str, texts: list[str]) -> list[list[float]]:
    with client.post("/v1/embeddings", {"model": model, "input": texts, "encoding_format": "float"}) as response:
        content = response.json()
    try:
        items = sorted(content["data"], key=lambda item: item["index"])
        vectors = [list(map(float, item["embedding"])) for item in items]
    except (KeyError, TypeError, ValueError):
        raise ServerError(f"{client.address.url} answered without embeddings") from None
    if len(vectors) != len(texts):
        raise ServerError(f"{client.address.url} gave {len(vectors)} embeddings for {len(texts)} texts")
    return vectors
