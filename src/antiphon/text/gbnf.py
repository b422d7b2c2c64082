"""GBNF, the grammar notation of llama.cpp, translated to the Lark notation of the grammar compiler.

GBNF has no tokens: its rules go down to single characters. So every character becomes its own terminal, no terminal is
matched greedily, and a text is accepted exactly if the rules derive it.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import NoReturn

from antiphon.errors import InvalidRequestError

ROOT = "root"
MAX_DEPTH = 64
#: Maximum nested parentheses in a Lark rule, whose compiler takes 30. Deeper ones become rules.
MAX_LARK_DEPTH = 24
#: Limit of llama.cpp.
MAX_REPETITIONS = 2_000
#: Maximum characters, classes and references in all rules, each times its repetitions.
MAX_ELEMENTS = 20_000

NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-_")
SIMPLE_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-", "^": "^"}
HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
POSTFIX = {"*": (0, None), "+": (1, None), "?": (0, 1)}
SIGNS = {bounds: sign for sign, bounds in POSTFIX.items()}


def is_gbnf(text: str) -> bool:
    """Return whether the grammar is written in GBNF: it defines a rule with `::=` at the start of a line."""
    for line in text.splitlines():
        name, sign, _ = line.partition("::=")
        if sign and name.strip() and NAME_CHARACTERS.issuperset(name.strip()):
            return True
    return False


def lark_from_gbnf(text: str) -> str:
    """Return the grammar in Lark, with `root` as its start.

    Raise `InvalidRequestError`, with the line, for a syntax error, an undefined rule or an exceeded limit.
    """
    return _Parser(text).lark()


@dataclass(frozen=True)
class _Part:
    """An expression in Lark and the number of elements that it expands to."""

    lark: str
    size: int
    #: Levels of nested parentheses.
    depth: int = 0


@dataclass
class _Parser:
    text: str
    position: int = 0
    #: Lark rule names by GBNF name, and the line of each name's first mention.
    names: dict[str, str] = field(default_factory=dict)
    mentioned: dict[str, int] = field(default_factory=dict)
    rules: dict[str, _Part] = field(default_factory=dict)
    #: Bodies of the Lark rules that replace deeply nested expressions.
    nested: list[str] = field(default_factory=list)
    #: Terminal names by regular expression.
    terminals: dict[str, str] = field(default_factory=dict)

    def lark(self) -> str:
        self._space(across_lines=True)
        while self.position < len(self.text):
            self._rule()
        if ROOT not in self.rules:
            raise InvalidRequestError(f"the grammar has no rule {ROOT!r}")
        for name, line in self.mentioned.items():
            if name not in self.rules:
                raise InvalidRequestError(f"line {line} of the grammar: rule {name!r} is not defined")
        size = sum(part.size for part in self.rules.values())
        if size > MAX_ELEMENTS:
            raise InvalidRequestError(
                f"the grammar has {size:,} elements with its repetitions; at most {MAX_ELEMENTS:,} are allowed"
            )
        lines = [f"start: {self.names[ROOT]}"]
        lines += [f"{self.names[name]}: {part.lark}" for name, part in self.rules.items()]
        lines += [f"nested_{index}: {body}" for index, body in enumerate(self.nested)]
        lines += [f"{name}: /{pattern}/" for pattern, name in self.terminals.items()]
        return "\n".join(lines) + "\n"

    # -- rules --------------------------------------------------------------------------------------------------

    def _rule(self) -> None:
        name = self._name()
        self._space()
        if not self.text.startswith("::=", self.position):
            self._fail(f"'::=' is expected after {name!r}")
        self.position += 3
        self._space(across_lines=True)
        self.rules[name] = self._alternatives(depth=0)
        self._lark_name(name)
        if self.position < len(self.text) and self._here() not in "\r\n":
            self._fail(f"{self._here()!r} is not expected")
        self._space(across_lines=True)

    def _alternatives(self, depth: int) -> _Part:
        if depth > MAX_DEPTH:
            self._fail(f"parentheses are nested more than {MAX_DEPTH} levels deep")
        parts = [self._sequence(depth)]
        while self._here() == "|":
            self.position += 1
            self._space(across_lines=True)
            parts.append(self._sequence(depth))
        return _Part(" | ".join(part.lark for part in parts), sum(part.size for part in parts), _deepest(parts))

    def _sequence(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while (part := self._element(depth)) is not None:
            self._space(across_lines=depth > 0)
            while (bounds := self._bounds()) is not None:
                part = self._repeated(part, *bounds)
                self._space(across_lines=depth > 0)
            parts.append(part)
        lark = " ".join(part.lark for part in parts) or '""'
        return _Part(lark, sum(part.size for part in parts) or 1, _deepest(parts))

    def _element(self, depth: int) -> _Part | None:
        """Parse the next element of a sequence; return None where the sequence ends."""
        here = self._here()
        if here == '"':
            return self._literal()
        if here == "[":
            return self._class()
        if here == ".":
            self.position += 1
            return self._terminal("(.|\\n)")
        if here in NAME_CHARACTERS and here:
            line = self._line()
            name = self._name()
            self.mentioned.setdefault(name, line)
            return _Part(self._lark_name(name), 1)
        if here == "(":
            self.position += 1
            self._space(across_lines=True)
            inside = self._alternatives(depth + 1)
            if self._here() != ")":
                self._fail("')' is missing")
            self.position += 1
            return self._group(inside)
        if here in "<!" and here:
            self._fail("tokens (<name>, <[id]>) are not supported")
        return None

    def _repeated(self, part: _Part, least: int, most: int | None) -> _Part:
        if most == 0:
            return _Part('""', 1)
        sign = SIGNS.get((least, most))
        if sign is None:
            sign = f"{{{least},{'' if most is None else most}}}"
        size = part.size * max(1, least if most is None else most)
        if size > MAX_ELEMENTS:
            self._fail(f"a repetition expands to {size:,} elements; at most {MAX_ELEMENTS:,} are allowed")
        # Lark rejects a repetition of a repetition without parentheses.
        group = self._group(part)
        return _Part(group.lark + sign, size, group.depth)

    def _group(self, inside: _Part) -> _Part:
        if inside.depth < MAX_LARK_DEPTH:
            return _Part(f"({inside.lark})", inside.size, inside.depth + 1)
        self.nested.append(inside.lark)
        return _Part(f"nested_{len(self.nested) - 1}", inside.size)

    def _bounds(self) -> tuple[int, int | None] | None:
        """Parse a repetition; return its minimum and maximum (None: no limit), or None if nothing is repeated here."""
        here = self._here()
        if here in POSTFIX:
            self.position += 1
            return POSTFIX[here]
        if here != "{":
            return None
        end = self.text.find("}", self.position)
        inside = self.text[self.position + 1 : end] if end >= 0 else ""
        least, comma, most = (piece.strip() for piece in inside.partition(","))
        numbers = [number for number in (least, most) if number]
        if not least.isascii() or not all(number.isascii() and number.isdecimal() for number in numbers) or not least:
            self._fail("a repetition is {m}, {m,} or {m,n}")
        if any(len(number) > 9 or int(number) > MAX_REPETITIONS for number in numbers):
            self._fail(f"a repetition has more than {MAX_REPETITIONS:,} times")
        first = int(least)
        last = first if not comma else int(most) if most else None
        if last is not None and last < first:
            self._fail(f"a repetition of at least {first} and at most {last} times is not possible")
        self.position = end + 1
        return first, last

    # -- characters ---------------------------------------------------------------------------------------------

    def _literal(self) -> _Part:
        self.position += 1
        parts: list[str] = []
        while self._here() != '"':
            code = self._character("the string")
            parts.append(self._terminal(f"[{_spelled(code)}]").lark)
        self.position += 1
        return _Part(f"({' '.join(parts)})" if len(parts) > 1 else parts[0] if parts else '""', max(1, len(parts)))

    def _class(self) -> _Part:
        self.position += 1
        sign = ""
        if self._here() == "^":
            sign = "^"
            self.position += 1
        ranges = ""
        while self._here() != "]":
            first = last = self._character("the class")
            if self._here() == "-" and self.text[self.position + 1 : self.position + 2] not in ("]", ""):
                self.position += 1
                last = self._character("the class")
            if last < first:
                self._fail(f"the range from {chr(first)!r} to {chr(last)!r} is empty")
            ranges += _spelled(first) + (f"-{_spelled(last)}" if last > first else "")
        self.position += 1
        if not ranges:
            self._fail("the class has no characters")
        return self._terminal(f"[{sign}{ranges}]")

    def _character(self, inside: str) -> int:
        """Parse a character or an escape and return its code point."""
        here = self._here()
        if here in ("", "\n", "\r"):
            self._fail(f"{inside} is not closed")
        self.position += 1
        if here != "\\":
            return self._scalar(ord(here))
        escape = self._here()
        self.position += 1
        if escape in SIMPLE_ESCAPES:
            return ord(SIMPLE_ESCAPES[escape])
        if escape in HEX_ESCAPES:
            digits = self.text[self.position : self.position + HEX_ESCAPES[escape]]
            if len(digits) < HEX_ESCAPES[escape] or not set(digits) <= set(string.hexdigits):
                self._fail(f"\\{escape} takes {HEX_ESCAPES[escape]} hexadecimal digits")
            self.position += len(digits)
            return self._scalar(int(digits, 16))
        self._fail(f"\\{escape} is not an escape")

    def _scalar(self, code: int) -> int:
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self._fail(f"U+{code:04X} is not a character")
        return code

    def _terminal(self, pattern: str) -> _Part:
        return _Part(self.terminals.setdefault(pattern, f"C{len(self.terminals)}"), 1)

    # -- text ---------------------------------------------------------------------------------------------------

    def _here(self) -> str:
        return self.text[self.position : self.position + 1]

    def _name(self) -> str:
        start = self.position
        while self._here() and self._here() in NAME_CHARACTERS:
            self.position += 1
        if start == self.position:
            self._fail("the name of a rule is expected")
        return self.text[start : self.position]

    def _lark_name(self, name: str) -> str:
        return self.names.setdefault(name, f"rule_{len(self.names)}")

    def _space(self, across_lines: bool = False) -> None:
        """Skip blanks and comments, and also line ends if `across_lines`."""
        while here := self._here():
            if here == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            elif here in " \t" or (across_lines and here in "\r\n"):
                self.position += 1
            else:
                return

    def _line(self) -> int:
        return self.text.count("\n", 0, self.position) + 1

    def _fail(self, message: str) -> NoReturn:
        raise InvalidRequestError(f"line {self._line()} of the grammar: {message}")


def _deepest(parts: list[_Part]) -> int:
    return max((part.depth for part in parts), default=0)


def _spelled(code: int) -> str:
    return f"\\x{{{code:X}}}"
