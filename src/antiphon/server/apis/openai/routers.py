"""Routers of OpenAI's API, except for responses and realtime."""

from __future__ import annotations

from antiphon.server.apis.openai.audio import speech, stored_transcriptions, transcriptions, voices
from antiphon.server.apis.openai.batches import route as batches
from antiphon.server.apis.openai.chat import route as chat
from antiphon.server.apis.openai.files import route as files
from antiphon.server.apis.openai.stored_chats import route as stored_chats
from antiphon.server.apis.openai.text import completions, embeddings, tokenization

ROUTERS = (
    chat.router,
    completions.router,
    stored_chats.router,
    embeddings.router,
    transcriptions.router,
    stored_transcriptions.router,
    speech.router,
    voices.router,
    tokenization.router,
    files.router,
    batches.router,
)
