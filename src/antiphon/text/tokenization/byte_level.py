"""GPT-2's spelling of bytes as printable characters."""

from __future__ import annotations

from functools import cache


@cache
def character_bytes() -> dict[str, int]:
    """Return the byte that each of the 256 characters stands for: itself if printable Latin-1, the rest from U+0100."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(256 + offset): byte for offset, byte in enumerate(others)})
    return table


def spelled_bytes(text: str) -> bytes:
    """Return the bytes of a token in GPT-2's spelling; a token with any other character is plain UTF-8 text."""
    table = character_bytes()
    try:
        return bytes([table[character] for character in text])
    except KeyError:
        return text.encode("utf-8")
