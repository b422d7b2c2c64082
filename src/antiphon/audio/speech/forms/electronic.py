"""Web and mail addresses, file names, names on networks."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.rule import DIGITS, LETTERS, Match, alternatives, rule
from antiphon.audio.speech.number_words import cardinal, spelled

_SIGNS = {
    ".": "dot", "/": "slash", "-": "dash", "_": "underscore", "@": "at", ":": "colon", "#": "hash",
    "?": "question mark", "=": "equals", "&": "and", "%": "percent", "+": "plus", "~": "tilde",
}  # fmt: skip
_TOP_DOMAINS = "com|org|net|io|edu|gov|mil|ai|dev|co|uk|de|fr|it|es|nl|ch|jp|info|app|me|us|ca|eu|tv|xyz"
#: Parts that are read letter by letter, besides those without a vowel.
_SPELLED = frozenset(["www", "io", "uk", "ai", "us", "eu", "de", "it", "es", "py", "js", "exe", "id", "tv", "ui"])
_READ = {"json": "jason", "jpg": "jay peg", "jpeg": "jay peg", "wav": "wave", "gmail": "G mail", "src": "source"}
_FILES = (
    "py js ts tsx jsx cpp hpp cc rs go rb java txt json html htm css pdf png jpg jpeg gif svg mp3 mp4 wav flac ogg zip "
    "tar gz csv tsv xml yaml yml toml ini cfg sh exe dll docx xlsx pptx md ipynb gguf safetensors onnx log"
)
_EXTENSIONS = _FILES.split()


def _address(match: Match) -> str:
    """Read the parts as words and signs by name, without "https://"."""
    text = re.sub(r"^(?:https?|ftp)://", "", match[0]).rstrip("/")
    return " ".join(filter(None, (_part(piece) for piece in re.findall(r"[A-Za-z]+|\d+|[^A-Za-z\d]", text))))


def _part(piece: str) -> str:
    if piece.isdecimal():
        return cardinal(piece) if len(piece) < 3 and piece[0] != "0" else spelled(piece)
    if not piece.isalpha():
        return _SIGNS.get(piece, "")
    lower = piece.lower()
    if lower in _READ:
        return _READ[lower]
    no_vowel = 1 < len(piece) <= 5 and not re.search("[aeiouy]", lower)
    return " ".join(piece.upper()) if no_vowel or lower in _SPELLED else piece


_DOMAIN = rf"(?:[\w-]{{1,63}}\.){{1,5}}(?:{_TOP_DOMAINS})\b(?!\.\w)"
_FOLDERS = r"(?:\.{0,2}/)?(?:[\w-]{1,64}/){0,12}"
_WORD = LETTERS + DIGITS
RULES = [
    rule(
        r"(?<![\w+&-])[\w+-][\w.+&-]{0,63}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?:/[\w./-]{0,200}\w)?",
        _address,
        _WORD,
        "@",
    ),
    rule(r"\b(?:https?|ftp|file)://[^\s<>\"')\]]{0,2000}[\w/]", _address, "hf", ":"),
    rule(
        rf"(?<![\w@.-])(?:www\.[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,6}}|{_DOMAIN})(?:/[\w./-]{{0,200}}[\w/])?",
        _address,
        _WORD,
        ".",
    ),
    rule(
        rf"(?<![\w@-]){_FOLDERS}[\w-]{{1,64}}(?:\.[\w-]{{1,64}}){{0,3}}\.(?:{alternatives(_EXTENSIONS)})\b(?!\.\w)",
        _address,
        f"{_WORD}./_",
        ".",
    ),
    rule(r"(?<!\w)\.NET\b", lambda m: "dot net", "."),
    rule(r"(?<![\w@])@(?=\w)", lambda m: "at", "@"),
    rule(r"(?<![\w#])#(?=[^\W\d])", lambda m: "hashtag", "#"),
]
