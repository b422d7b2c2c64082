"""Grammars of all kinds as bodies of Lark rules, so that several can be joined."""

from __future__ import annotations

import json
from typing import Any

from antiphon.text.gbnf import lark_from_gbnf
from antiphon.text.grammar_spec import OPTIONS_KEY, GrammarSpec


def rule_body(spec: GrammarSpec, style: dict[str, Any]) -> str:
    """Return the text after the colon of a rule. `style` is the spacing of JSON."""
    if spec.regex is not None:
        from llguidance import regex_to_lark

        return f"/{regex_to_lark(spec.regex, use_ascii='d')}/"
    if spec.grammar is not None:
        return f"%lark {{\n{spec.grammar}\n}}"
    if spec.gbnf is not None:
        return f"%lark {{\n{lark_from_gbnf(spec.gbnf)}\n}}"
    if spec.choice is not None:
        return " | ".join(json.dumps(text).replace("\x7f", "\\u007f") for text in dict.fromkeys(spec.choice))
    return json_rule(json.loads(spec.schema_text), json_style(spec, style))


def json_style(spec: GrammarSpec, default: dict[str, Any]) -> dict[str, Any]:
    """Return the spacing of JSON: the grammar's own, else the default."""
    if spec.whitespace_pattern is None:
        return default
    if not spec.whitespace_pattern:
        return {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
    style = {"whitespace_flexible": True, "whitespace_pattern": spec.whitespace_pattern}
    return {**style, "item_separator": ",", "key_separator": ":"}


def json_rule(schema: dict[str, Any], style: dict[str, Any]) -> str:
    return f"%json {json.dumps({**schema, OPTIONS_KEY: style})}"
