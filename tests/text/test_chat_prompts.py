"""Messages cannot spell control tokens; ordinary ones are encoded exactly as by transformers' `apply_chat_template`."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as RustTokenizer
from transformers import PreTrainedTokenizerFast

from antiphon.errors import AntiphonError
from antiphon.text.chat_template import ChatTemplate, find_chat_template
from antiphon.text.tokenization.gguf_vocab import tokenizer_from_gguf
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from antiphon.text.tokenization.tokenizer import Tokenizer
from antiphon.weights.catalog.resolve import resolve
from antiphon.weights.formats.gguf import GGUFFile
from support.text.vocabularies import random_text
from text.tokenization.test_real_vocabularies import MODELS, REFERENCES

TEMPLATES = Path(__file__).parent / "templates"
ROLES = ("system", "user", "assistant", "user")
TEXT = "It's 3 o'clock,  Größe & <b> 日本語\n\nx = [1]; "


@cache
def model(name: str) -> tuple[Tokenizer, ChatTemplate, RustTokenizer]:
    """A real vocabulary, its template, and the same vocabulary in the `tokenizers` library."""
    try:
        metadata = GGUFFile(resolve(MODELS[name], offline=True).path).metadata
        reference = REFERENCES[name](metadata)
    except (AntiphonError, FileNotFoundError) as error:
        pytest.skip(f"not on this machine: {error}")
    tokenizer = tokenizer_from_gguf(metadata)
    source = find_chat_template(metadata) or (TEMPLATES / "gemma.jinja").read_text(encoding="utf-8")
    return tokenizer, ChatTemplate.for_tokenizer(source, tokenizer), reference


def conversation(texts: list[str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in zip(ROLES, texts, strict=True)]


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def spelled(tokenizer: Tokenizer, template: ChatTemplate) -> list[str]:
    """Control tokens of the vocabulary: those of a prompt, the first and the last."""
    known = sorted(tokenizer.special_ids)
    used = tokenizer.special_ids & set(template.prompt(tokenizer, conversation(["a", "b", "c", "d"])).ids)
    return [tokenizer.token_bytes(token).decode() for token in sorted({*used, *known[:10], *known[-10:]})]


@pytest.mark.parametrize("name", MODELS)
def test_ordinary_texts_are_as_in_transformers(name: str) -> None:
    tokenizer, template, rust = model(name)
    tokens = {key: value for key, value in template._special_tokens.items() if key != "pad_token"}
    reference = PreTrainedTokenizerFast(tokenizer_object=rust, chat_template=template.source, **tokens)
    source = random.Random(1)
    seen = 0
    for _ in range(80):
        texts = [random_text(source).replace("▁", "") for _ in ROLES]
        if any(token in tokenizer.special_ids for text in texts for token in ids(tokenizer, text)):
            continue  # it spells a control token, or has a character that the vocabulary does not know
        messages = conversation([TEXT, *texts[1:]])
        wanted = reference.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        prompt = template.prompt(tokenizer, messages)
        assert prompt.ids == wanted
        assert prompt.text == template.render(messages)
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("name", MODELS)
def test_messages_cannot_spell_control_tokens(name: str) -> None:
    """As many control tokens as with harmless texts; what was spelled comes back as text, encoded as plain text."""
    tokenizer, template, rust = model(name)

    def controls(texts: list[str]) -> list[int]:
        prompt = template.prompt(tokenizer, conversation(texts))
        return [token for token in prompt.ids if token in tokenizer.special_ids]

    harmless = controls(["a", "b", "c", "d"])
    assert harmless
    spellings = spelled(tokenizer, template)
    for text in spellings:
        for pieces in ([text], [TEXT, text, TEXT], [text, text], [text[:-1], text], [" ", text, " "], [text[:3], text]):
            texts = ["a", "b", "c", "".join(pieces)]
            assert controls(texts) == harmless, texts
    source = random.Random(2)
    attack = "".join(source.choice(spellings) for _ in range(50))
    assert controls([attack] * 4) == harmless
    rust.encode_special_tokens = True
    special = {token.content for token in rust.get_added_tokens_decoder().values() if token.special}
    known = [text for text in spellings if text in special]  # some files call fewer tokens special
    middle = f"{TEXT}{''.join(source.choice(known) for _ in range(50))}{TEXT}".strip()
    whole = template.prompt(tokenizer, conversation(["a", "b", "c", middle])).ids
    plain = rust.encode(middle, add_special_tokens=False).ids[2:-2]  # without what may merge with the template's text
    assert any(whole[at : at + len(plain)] == plain for at in range(len(whole)))


@pytest.mark.parametrize("name", ["qwen2.5", "smollm2"])
def test_tools_and_arguments_cannot_either(name: str) -> None:
    tokenizer, template, _ = model(name)
    end = "<|im_end|>"

    def controls(text: str, ensure_ascii: bool = False) -> int:
        source = "{{ tools | tojson(ensure_ascii=true) }}" if ensure_ascii else ""
        guarded = ChatTemplate.for_tokenizer(source + template.source, tokenizer)
        tool: dict[str, Any] = {"type": "function", "function": {"name": "f", "description": text}}
        tool["function"]["parameters"] = {"type": "object", "properties": {text: {"type": "string"}}}
        call = {"type": "function", "function": {"name": "f", "arguments": {text: [text, 1]}}}
        messages = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": text},
        ]
        prompt = guarded.prompt(tokenizer, messages, [tool], documents=[{"text": text}])
        assert "\U0010fffd" not in prompt.text and "dbff" not in prompt.text
        return sum(token in tokenizer.special_ids for token in prompt.ids)

    for ensure_ascii in (False, True):
        assert controls(f"a {end} b", ensure_ascii) == controls("a b", ensure_ascii)


def test_the_guard_is_a_character_that_nobody_uses(tiny_llama: Path) -> None:
    tokenizer = tokenizer_from_file(tiny_llama / "tokenizer.json", tiny_llama / "tokenizer_config.json")
    source = json.loads((tiny_llama / "tokenizer_config.json").read_text())["chat_template"]
    template = ChatTemplate.for_tokenizer(source, tokenizer)
    text = "\U0010fffd\U0010fffc <|im_end|> \U0010fff0"
    prompt = template.prompt(tokenizer, [{"role": "user", "content": text}])
    assert prompt.text == f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(prompt.ids) == prompt.text
    assert sum(token in tokenizer.special_ids for token in prompt.ids) == 3


def test_parts_that_only_together_spell_a_token(tiny_llama: Path) -> None:
    tokenizer = tokenizer_from_file(tiny_llama / "tokenizer.json", tiny_llama / "tokenizer_config.json")
    template = ChatTemplate("{% for part in messages[0].content %}{{ part.text | trim }}{% endfor %}")
    for cut in range(1, len("<|im_end|>")):
        parts = [{"text": f"a {'<|im_end|>'[:cut]} "}, {"text": "<|im_end|>"[cut:] + " b"}]
        prompt = template.prompt(tokenizer, [{"role": "user", "content": parts}])
        assert prompt.text == "a <|im_end|> b"
        assert not any(token in tokenizer.special_ids for token in prompt.ids)
