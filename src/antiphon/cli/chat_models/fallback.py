"""`FallbackModel`: a chat model on a running server, and in this process once the server cannot answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon.cli.chat_models.interface import AnswerStream, ChatModel
from antiphon.cli.remote.address import ServerAddress
from antiphon.cli.remote.running import is_unable, note_unable
from antiphon.errors import AntiphonError


class FallbackModel:
    """`ChatModel` that uses a server until it cannot answer, for example because it has ended.

    `load` is then called once, and its model answers this message and the next ones. The conversation stays, since
    every request has all of its messages.
    """

    def __init__(self, server: ServerAddress, model: ChatModel, load: Callable[[], ChatModel]) -> None:
        self.name = model.name
        self._server = server
        self._model = model
        self._load: Callable[[], ChatModel] | None = load

    def answer(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> AnswerStream:
        try:
            return self._model.answer(messages, settings)
        except AntiphonError as error:
            if self._load is None or not is_unable(self._server, error):
                raise
            note_unable(self._server, error)
            self._model = self._load()
            self._load = None
        return self._model.answer(messages, settings)
