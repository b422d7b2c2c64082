"""GPT-2's spelling of bytes as printable characters."""

from __future__ import annotations

from functools import cache


@cache
def character_bytes() -> dict[str, int]:
    """The byte that each of the 256 characters stands for: printable Latin-1 for itself, the rest from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(256 + offset): byte for offset, byte in enumerate(others)})
    return table


def spelled_bytes(text: str) -> bytes:
    """Bytes of a token in that spelling; a token with any other character is plain UTF-8 text."""
    table = character_bytes()
    try:
        return bytes([table[character] for character in text])
    except KeyError:
        return text.encode("utf-8")
