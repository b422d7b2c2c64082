"""`SpokenMessage`: one message that is spoken while it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.voice.dialogue.tasks import Tasks
from antiphon.runtime.voice.services import StreamingSynthesis, VoiceServices
from antiphon.runtime.voice.settings import VoiceSettings


class SpokenMessage:
    """Speech of one message. The synthesis is opened at once; text may be appended before it is open.

    `on_chunk` receives each chunk, `on_failed` the error of a failure. A text with nothing that can be spoken makes no
    sound and is no failure.
    """

    def __init__(
        self,
        tasks: Tasks,
        services: VoiceServices,
        settings: VoiceSettings,
        on_chunk: Callable[[SpeechChunk], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._services = services
        self._settings = settings
        self._on_chunk, self._on_failed = on_chunk, on_failed
        self._synthesis: StreamingSynthesis | None = None
        self._text = ""
        self._is_ended = False
        self._task = tasks.start(self._run())

    def append(self, text: str) -> None:
        if self._synthesis is None:
            self._text += text
        else:
            self._synthesis.append(text)

    async def finish(self) -> None:
        """End the text and wait until all of it has been spoken, or the synthesis has failed."""
        self._is_ended = True
        if self._synthesis is not None:
            self._synthesis.end_text()
        await asyncio.wait([self._task])

    def abort(self) -> None:
        """Stop speaking. The engine's call is closed before this returns."""
        if self._synthesis is not None:
            self._synthesis.close()
        self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._speak()
        except Exception as error:
            self._on_failed(error)

    async def _speak(self) -> None:
        synthesis = self._synthesis = await self._services.speak(self._settings)
        has_sound = False
        try:
            if self._text:
                synthesis.append(self._text)
            if self._is_ended:
                synthesis.end_text()
            while True:
                self._on_chunk(await synthesis.__anext__())
                has_sound = True
        except StopAsyncIteration:
            return
        except InvalidRequestError:
            if has_sound:
                raise
        finally:
            synthesis.close()
