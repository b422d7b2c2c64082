"""Grammars of all kinds as the body of a rule in a Lark grammar, so that several can be joined into one."""

from __future__ import annotations

import json
from typing import Any

from antiphon.text.grammar_spec import OPTIONS_KEY, GrammarSpec


def rule_body(spec: GrammarSpec, style: dict[str, Any]) -> str:
    """What stands after the colon of a rule. `style` is how JSON is spaced."""
    if spec.regex is not None:
        from llguidance import regex_to_lark

        return f"/{regex_to_lark(spec.regex, use_ascii='d')}/"
    if spec.grammar is not None:
        return f"%lark {{\n{spec.grammar}\n}}"
    if spec.choice is not None:
        return " | ".join(json.dumps(text).replace("\x7f", "\\u007f") for text in dict.fromkeys(spec.choice))
    return json_rule(json.loads(spec.schema_text), style)


def json_rule(schema: dict[str, Any], style: dict[str, Any]) -> str:
    return f"%json {json.dumps({**schema, OPTIONS_KEY: style})}"
