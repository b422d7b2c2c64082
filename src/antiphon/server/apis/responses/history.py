"""`History`: the items that a response answers: those of a previous response or a conversation, then the new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.server.apis.responses.compaction import unpack
from antiphon.server.apis.responses.items import listed
from antiphon.server.apis.responses.request_schemas import ITEMS, ConversationReference, Item
from antiphon.server.apis.responses.store import ResponseStore
from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.server.stored.conversations import ConversationStore, StoredConversation
from antiphon.server.web.bodies.stepped_validation import STEP
from antiphon.server.web.http.errors import invalid


@dataclass(frozen=True)
class History:
    """Items that a response answers.

    `items` build the prompt, `inputs` are the same items as the API lists them, and `given` are the new ones among the
    inputs.
    """

    items: list[Item]
    inputs: list[WireEvent]
    given: list[WireEvent] = field(default_factory=list)
    conversation: StoredConversation | None = None


async def history(
    input_: str | Sequence[Item] | None,
    previous_id: str | None,
    conversation: str | ConversationReference | None,
    stores: tuple[ResponseStore, ConversationStore],
    owner: int | None,
) -> History:
    """Collect the items that a request refers to. Raises `ApiError` for ids that are unknown or of another key."""
    responses, conversations = stores
    new = _items(input_)
    await unpack(new)
    given = [listed(item) for item in new]
    if conversation is not None:
        conversation_id = conversation if isinstance(conversation, str) else conversation.id
        found = conversations.find(conversation_id, owner, "conversation")
        if previous_id is not None and not _is_in(responses, previous_id, found, owner):
            message = "previous_response_id is not of this conversation; give one of the two"
            raise invalid(message, "previous_response_id")
        items = found.items
        return History([*await _validated(items), *new], [*items, *given], given, found)
    if previous_id is not None:
        previous = responses.find(previous_id, owner, "previous_response_id")
        inputs = [*previous.inputs, *previous.body["output"], *given]
        return History([*previous.items, *new], inputs, given)
    return History(new, given, given)


async def _validated(items: Sequence[WireEvent]) -> list[Item]:
    """Validate the items of a conversation in steps, so that other requests run in between."""
    made: list[Item] = []
    for start in range(0, len(items), STEP):
        part = ITEMS.validate_python(items[start : start + STEP])
        await unpack(part, None)
        made += part
        await asyncio.sleep(0)
    return made


def _items(input_: str | Sequence[Item] | None) -> list[Item]:
    """Return the items; plain text is a user message."""
    if isinstance(input_, str):
        return ITEMS.validate_python([{"role": "user", "content": input_}])
    return list(input_ or ())


def _is_in(responses: ResponseStore, previous_id: str, conversation: StoredConversation, owner: int | None) -> bool:
    """Return whether the conversation already contains that response."""
    previous = responses.find(previous_id, owner, "previous_response_id")
    return (previous.body.get("conversation") or {}).get("id") == conversation.id
