"""A conversation's prompt is what the model's template makes of its messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.errors import TemplateError
from antiphon.runtime.conversation import Conversation
from antiphon.text.chat_template import ChatTemplate
from support.scripted import scripted


def prompt(conversation: Conversation) -> str:
    return conversation.loaded.tokenizer.decode(conversation.prompt_ids())


def test_turns_in_order_and_ready_for_the_answer() -> None:
    conversation = Conversation(scripted([], []), "be brief")
    conversation.add_user("hello")
    conversation.add_assistant("hi")
    conversation.add_user("bye")
    assert prompt(conversation) == (
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n"
        "<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n"
    )
    start = conversation.loaded.tokenizer.id_of("<|im_start|>")
    assert conversation.prompt_ids().count(start) == 5  # type: ignore[arg-type]


def test_reset_keeps_the_system_message() -> None:
    conversation = Conversation(scripted([], []), "be brief")
    conversation.add_user("hello")
    conversation.reset()
    conversation.add_user("again")
    assert "hello" not in prompt(conversation) and "be brief" in prompt(conversation)


def test_without_a_system_message_the_template_sees_none() -> None:
    conversation = Conversation(scripted([], []))
    conversation.add_user("hello")
    assert prompt(conversation).startswith("<|im_start|>user\nhello")


def test_a_base_model_gets_the_bare_texts() -> None:
    conversation = Conversation(replace(scripted([], []), chat_template=None), "Once")
    conversation.add_user("upon")
    assert prompt(conversation) == "Once\nupon"


def test_a_refusing_template_is_the_users_error() -> None:
    template = ChatTemplate("{{ raise_exception('no system messages') }}")
    conversation = Conversation(replace(scripted([], []), chat_template=template))
    conversation.add_user("hello")
    with pytest.raises(TemplateError, match="no system messages"):
        conversation.prompt_ids()


def test_conversations_share_nothing() -> None:
    loaded = scripted([], [])
    one, other = Conversation(loaded), Conversation(loaded)
    one.add_user("hello")
    assert other.messages == []
