"""Markdown's marks, which are not read: headings, bullets, boxes, fences, targets of links."""

from __future__ import annotations

import re

_MARKS = re.compile(
    r"""(?mx)
    ^[ \t>*_+|-]{0,20}(?:\d{1,3}[.)][ \t]{1,3})?[*_]{0,3}(?P<heading>\#{1,6})(?=[\s*_|]|$)
    | ^[ \t]{0,3}(?P<tight>\#{2,6})(?=[^\W\d_])
    | (?<![^\s*_:])(?P<inner>\#{2,6})(?=\s|$)
    | ^[ \t]{0,8}(?P<bullet>[-*+•])(?=[ \t]{1,4}[^\d\s])
    | ^[ \t]{0,8}(?P<fence>(?:`{3,8}|~{3,8})[ \t]?[\w.+\#-]{0,30})[ \t]{0,8}$
    | ^(?P<underline>={3,80})[ \t]{0,8}$
    | (?<=[-*+][ ])(?P<box>\[[ xX]\])(?=\s)
    | (?<![\w)\]])(?P<image>!?)\[[^\[\]\n]{0,200}
      (?P<target>\]\((?!/[^/\n]{1,200}/\))
        (?:<[^<>\n]{1,500}>|(?=[^\s()<>]{0,300}[./\#:])[^\s()<>]{1,600}(?:\([^\s()]{0,100}\)[^\s()]{0,100})?)
        (?:[ \t]["'][^"'\n]{0,200}["'])?\))
    """
)
_GROUPS = tuple(_MARKS.groupindex)
_SIGNS = frozenset("#+-*•`~=[")
#: Marks around words, removed for readers that read every sign.
_EMPHASIS = re.compile(r"(?<!\d)\*|\*(?!\d)|`|~~|(?<!\w)_+|_+(?!\w)")


def without_marks(text: str) -> str:
    """Replace each character of a mark by a blank, so that positions in the text stay the same."""
    if _SIGNS.isdisjoint(text):
        return text
    return _MARKS.sub(_blank, text)


def without_emphasis(text: str) -> str:
    """Replace asterisks, backticks and underscores around words by blanks."""
    return _EMPHASIS.sub(lambda match: " " * len(match[0]), text)


def _blank(match: re.Match[str]) -> str:
    written = match[0]
    for group in _GROUPS:
        start, end = match.span(group)
        if start >= 0:
            start, end = start - match.start(), end - match.start()
            written = written[:start] + " " * (end - start) + written[end:]
    return written
