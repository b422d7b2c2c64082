"""`truncation: auto`: drops the oldest turns of a conversation until it fits the model's context."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.server.apis.responses.chat_body import chat_body
from antiphon.server.apis.responses.request_schemas import Item, MessageItem, ResponseBody
from antiphon.server.generation.chat.chat_call import ChatCall, prepare_chat
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import ApiError


async def prepare_fitting(serving: Serving, body: ResponseBody, items: Sequence[Item]) -> ChatCall:
    """Prepare the chat; with `truncation: auto`, drop as few of the oldest turns as necessary to make it fit.

    A turn begins with a message of the user. Instructions and the last turn always stay, so the prompt may still be too
    long.
    """
    try:
        chat = await prepare_chat(serving, chat_body(body, items))
        if body.truncation != "auto" or _has_room(chat, body):
            return chat
    except ApiError as error:
        if body.truncation != "auto" or error.code != "context_length_exceeded":
            raise
    turns = [index for index, item in enumerate(items) if index and _is_message(item, "user")]
    low, high, best = 0, len(turns), None
    while low < high:
        middle = (low + high) // 2
        found = await _if_fitting(serving, body, _without(items, turns[middle]))
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return best or await prepare_chat(serving, chat_body(body, _without(items, turns[-1] if turns else 0)))


async def _if_fitting(serving: Serving, body: ResponseBody, items: list[Item]) -> ChatCall | None:
    try:
        chat = await prepare_chat(serving, chat_body(body, items))
    except ApiError as error:
        if error.code != "context_length_exceeded":
            raise
        return None
    return chat if _has_room(chat, body) else None


def _has_room(chat: ChatCall, body: ResponseBody) -> bool:
    """Return whether the requested output tokens, at most half of the context, fit after the prompt."""
    wanted = min(body.max_output_tokens or 1, chat.model.max_tokens // 2)
    return len(chat.call.prompt) + wanted <= chat.model.max_tokens


def _without(items: Sequence[Item], start: int) -> list[Item]:
    """Return the items from `start` on, preceded by the instructions among the earlier items."""
    return [item for item in items[:start] if _is_message(item, "system", "developer")] + list(items[start:])


def _is_message(item: Item, *roles: str) -> bool:
    return isinstance(item, MessageItem) and item.role in roles
