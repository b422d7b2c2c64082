"""Signs that are read by name, and markup that is not read."""

from __future__ import annotations

import unicodedata

from antiphon.audio.speech.forms.rule import Match, alternatives, initials, rule

_SIGNS = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "%": "percent", "#": "hash", "°": "degrees", "º": "degrees",
    "×": "times", "÷": "divided by", "±": "plus or minus", "≈": "about", "≤": "at most", "≥": "at least",
    "≠": "is not", "<": "less than", ">": "greater than", "§": "section", "§§": "sections", "¶": "paragraph",
    "©": "copyright", "®": "registered", "™": "trademark", "→": "to", "⇒": "implies", "↔": "to and from",
    "√": "square root of", "∞": "infinity", "∑": "sum of", "∏": "product of", "∫": "integral of", "∂": "partial",
    "∈": "in", "∉": "not in", "∅": "the empty set", "∩": "intersection", "∪": "union", "⊂": "subset of",
    "∀": "for all", "∃": "there exists", "∝": "is proportional to", "≡": "is identical to", "¬": "not", "∆": "delta",
    "∇": "nabla", "⋅": "times", "∴": "therefore", "∵": "because", "µ": "micro", "Ω": "ohm", "℮": "estimated",
    "$": "dollar", "£": "pound", "€": "euro", "¥": "yen", "₹": "rupee", "₩": "won", "₽": "ruble", "₿": "bitcoin",
    "¢": "cent", "‰": "per mille", "♯": "sharp", "♭": "flat", "№": "number", "★": "star", "☆": "star",
    "✓": "check mark", "✔": "check mark", "✗": "cross mark", "/": "slash",
    "<=": "is at most", ">=": "is at least", "!=": "is not", "==": "equals", "=>": "gives", "->": "to", "<->": "to",
    "&&": "and", "||": "or",
}  # fmt: skip
_TAG_NAMES = (
    "a b i u em strong p br hr div span h1 h2 h3 h4 h5 h6 ul ol li code pre table tr td th img sup sub speak break "
    "prosody emphasis s say-as voice audio phoneme mark"
)
_TAGS = _TAG_NAMES.split()
_GREEK = "Α-Ρα-ρΣ-Ωσ-ω"
_GREEK_NAMES = {"LAMDA": "lambda", "FINAL": "sigma"}


def _greek(match: Match) -> str:
    """Read a Greek letter that stands alone; words of them are another language."""
    name = unicodedata.name(match[0], "").split(" WITH ")[0].split(" LETTER ")[-1].split()[0]
    return _GREEK_NAMES.get(name, name.lower())


_ENTITIES = {"&amp;": "and", "&lt;": "less than", "&gt;": "greater than"}  # others are spaces and quotes
RULES = [
    rule(r"(?m)^>(?=\s)", lambda m: "", ">"),  # Markdown's quotations
    rule(rf"</?(?:{alternatives(_TAGS)})(?:\s[^<>\n]{{0,200}})?/?>|</?[A-Za-z][\w-]{{0,30}}/>", lambda m: "", "<"),
    rule(r"</[A-Za-z][\w-]{0,30}>", lambda m: "", "<"),
    rule(r"(?<!\w)<(?P<name>[A-Za-z][a-z]{0,30})>", lambda m: m["name"], "<"),  # a placeholder
    rule(r"&(?:amp|nbsp|lt|gt|quot|apos|#\d{1,6});", lambda m: _ENTITIES.get(m[0], ""), "&"),
    rule(r"\b[A-G]#(?!\w)", lambda m: f"{m[0][0]} sharp", "ABCDEFG", "#"),
    rule(r"#(?=\s?\d)", lambda m: "number", "#"),
    rule(r"~(?=\s?[$£€]?\d)", lambda m: "about", "~"),
    rule(r"(?<=[\d)])\*(?=[\d(])|(?<=[\w)][ ])\*(?=[ ][\w(])", lambda m: "times", "*"),
    rule(rf"(?<![{_GREEK}])[{_GREEK}](?![{_GREEK}])", _greek, map(chr, range(0x391, 0x3CA))),
    rule(alternatives(_SIGNS), lambda m: _SIGNS[m[0]], initials(_SIGNS)),
]
