"""Texts of random common words with a given number of tokens."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from antiphon.bench.load.http_stream import CollectedAnswer, HttpClient

#: Words that are, with a space before them, a token each in most vocabularies.
COMMON = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city community name president team minute idea body information "
    "back parent face others level office door health person art war history party result change morning reason "
    "research girl guy moment air teacher force education foot boy age policy process music market sense nation plan "
    "college interest death experience effect use class control field development role effort rate heart drug show "
    "leader light voice wife police mind price report decision son view relationship town road arm difference value"
)
WORDS = COMMON.split()

#: Maximum corrections of a text; after them, its length may be off by a token or two.
CORRECTIONS = 6
SIZED_AT_ONCE = 8

Counter = Callable[[str], Awaitable[int]]


def random_words(source: random.Random, count: int) -> list[str]:
    return [source.choice(WORDS) for _ in range(count)]


async def find_counter(client: HttpClient, model: str) -> Counter | None:
    """Return a function that counts tokens with the server's `/tokenize`, or None if there is no such endpoint."""
    bodies: tuple[Callable[[str], dict[str, object]], ...] = (
        lambda text: {"model": model, "prompt": text, "add_special_tokens": False},
        lambda text: {"content": text, "add_special": False},
    )
    for body in bodies:

        async def count(text: str, body: Callable[[str], dict[str, object]] = body) -> int:
            answer = CollectedAnswer()
            await client.request("POST", "/tokenize", msgspec.json.encode(body(text)), answer)
            return _num_tokens(answer)

        if await count("time year people way") > 0:
            return count
    return None


def _num_tokens(answer: CollectedAnswer) -> int:
    if answer.status != 200:
        return 0
    try:
        tokens = msgspec.json.decode(answer.content)["tokens"]
        return len(tokens)
    except (msgspec.DecodeError, KeyError, TypeError):
        return 0


async def sized_texts(sizes: list[int], seed: str, counter: Counter | None) -> list[str]:
    """Return a text per size. Without a counter, a word counts as a token, which is close but not exact."""
    gate = asyncio.Semaphore(SIZED_AT_ONCE)

    async def make(number: int, size: int) -> str:
        source = random.Random(f"{seed} {number}")
        words = random_words(source, size)
        if counter is None or not size:
            return " ".join(words)
        async with gate:
            for _ in range(CORRECTIONS):
                excess = await counter(" ".join(words)) - size
                if excess > 0 and len(words) > 1:
                    del words[max(1, len(words) - excess) :]
                elif excess < 0:
                    words += random_words(source, -excess)
                else:
                    break
        return " ".join(words)

    return list(await asyncio.gather(*(make(number, size) for number, size in enumerate(sizes))))
