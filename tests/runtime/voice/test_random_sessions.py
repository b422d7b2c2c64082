"""Random sessions: the order of events holds, nothing leaks, every session ends.

Speech, silence, interruptions, tools, commits, truncates, disconnects, deaths of the engine, other settings.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from antiphon.errors import EngineError, InvalidRequestError
from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.voice.events import (
    ResponseDone,
    ResponseStarted,
    ResponseStatus,
    SessionError,
    SettingsChanged,
    SoundDelta,
    UserSpeechStarted,
)
from antiphon.runtime.voice.items import FunctionCall, FunctionOutput, Item, Message, Role, SoundPart, TextPart, new_id
from antiphon.runtime.voice.request import ResponseRequest
from antiphon.runtime.voice.services import AnswerPiece
from antiphon.runtime.voice.settings import Modality, VoiceSettings
from antiphon.text.tool_calls.pieces import CallArguments, CallStart, Content
from support.voice.driver import Driver
from support.voice.fake_clock import run
from support.voice.fake_hearing import FakeHearing, HearingDelays
from support.voice.fake_services import RATE, AnswerScript, FakeServices, says

#: Sessions per part, and parts in the fast suite and in the soak.
PER_PART, NUM_PARTS, NUM_SOAK_PARTS = 60, 4, 100
#: Codes that a random command may meet.
EXPECTED_ERRORS = {
    "input_audio_buffer_commit_empty", "engine_error", "response_cancel_not_active", "invalid_value",
    "conversation_already_has_active_response", "item_delete_invalid_item_id", "item_retrieve_invalid_item_id",
    "item_truncate_invalid_item_id", "item_create_invalid", "invalid_request", "too_many_responses",
}  # fmt: skip

#: Of failures.
CAUSES = ("the engine process died", "a step failed", "a fault", "hearing was restarted", "failed: no")


class RandomSession:
    """What one client does, and what its engine answers."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        delays = HearingDelays(
            guess=lambda turn: rng.uniform(0.0, 0.5),
            transcript=lambda turn: rng.uniform(0.0, 1.5),
            is_noise=lambda turn: turn % 7 == 3 and not self.is_calm,
            is_dropped=lambda turn: turn % 5 == 4 and not self.is_calm,
            fails=lambda turn: turn % 9 == 5 and not self.is_calm,
        )
        self.shows_transcripts = rng.random() < 0.8
        self.is_calm = False
        self.num_configured = 0
        self.services = FakeServices(self._script, delays, rng.uniform(0.01, 0.6))
        self.services.restart_seconds = rng.choice([0.0, 0.2, 3.0])

    def _script(self, items: Sequence[Item], settings: VoiceSettings) -> AnswerScript:
        rng = self.rng
        if self.is_calm:
            return says("all is well, I hope")
        pieces: list[AnswerPiece] = []
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            pieces += [Content(f" word{index}" + rng.choice(["", "", ",", "."])) for index in range(rng.randrange(20))]
            if rng.random() < 0.3:
                pieces += [
                    CallStart(0, "look"),
                    *(CallArguments(0, part) for part in rng.choice([[], ['{"a":', "1}"]])),
                ]
        error = rng.choice(
            [None] * 12 + [EngineError("a step failed"), InvalidRequestError("too long"), OSError("a fault")]
        )
        return AnswerScript(pieces, rng.uniform(0.0, 0.2), rng.uniform(0.0, 0.3), error, rng.random() < 0.1)

    def settings(self) -> VoiceSettings:
        rng = self.rng
        detection = rng.choice([TurnDetection.SERVER_VAD] * 3 + [TurnDetection.SEMANTIC_VAD, TurnDetection.MANUAL])
        return VoiceSettings(
            modality=rng.choice([Modality.AUDIO, Modality.AUDIO, Modality.TEXT]),
            turns=TurnSettings(detection, silence_ms=rng.choice([200, 500]), idle_timeout_ms=rng.choice([None, 900])),
            create_response=rng.random() < 0.9,
            interrupt_response=rng.random() < 0.8,
            show_transcripts=self.shows_transcripts,
            show_unsettled=self.shows_transcripts,
            transcription_model=rng.choice([None] * 6 + ["another"]),
            answer=rng.random() < 0.95,
        )

    async def step(self, driver: Driver) -> None:
        rng, session = self.rng, driver.session
        match rng.randrange(18):
            case 0 | 1 | 2:
                await driver.say(rng.randrange(1, 15) * 100)
            case 3 | 4 | 5 | 6:
                await driver.be_silent(rng.randrange(1, 20) * 100)
            case 7:
                session.commit("a")
            case 8:
                session.clear()
            case 9:
                session.add_item(self._item(driver), rng.choice([None, None, "root", "nothing", self._id(driver)]))
            case 10:
                request = ResponseRequest(metadata={"n": "1"})
                if rng.random() < 0.5:
                    items = rng.choice([None, (self._item(driver),)])
                    request = ResponseRequest(replace(session.settings, answer=True), items, in_conversation=False)
                session.respond(request, "b")
            case 11:
                known = [event.response.id for event in driver.all(ResponseStarted)]
                session.cancel(rng.choice([None, "nothing", *known[-2:]]), "c")
            case 12:
                session.truncate(self._id(driver), rng.choice([0, 0, 0, 1]), rng.randrange(4000), "d")
            case 13:
                rng.choice([session.delete_item, session.retrieve_item])(self._id(driver), "e")
            case 14:
                self._configure(driver, self.settings())
            case 15 if rng.random() < 0.3:
                self.services.kill()
            case 16 | 17:
                await self._talk_over(driver)

    def _configure(self, driver: Driver, settings: VoiceSettings) -> None:
        driver.session.configure(settings)
        self.num_configured += 1

    async def _talk_over(self, driver: Driver) -> None:
        """A turn, and speech while its answer is being made or heard; then the client says what it played."""
        await driver.say(600)
        await driver.be_silent(self.rng.randrange(6, 20) * 100)
        await driver.say(self.rng.randrange(1, 8) * 100)
        sound = driver.all(SoundDelta)
        if sound and self.rng.random() < 0.7:
            sent_ms = sum(len(delta.samples) for delta in sound if delta.place == sound[-1].place) * 1000 // RATE
            end_ms = self.rng.choice([0, sent_ms // 2, sent_ms, sent_ms + 500])
            driver.session.truncate(sound[-1].place.item_id, 0, end_ms)

    async def _still_answers(self, driver: Driver) -> None:
        """Whatever happened before, a turn by voice is answered."""
        self.is_calm = True
        driver.session.clear()
        driver.session.configure(VoiceSettings())
        await driver.be_silent(4000)  # what was owed is answered
        num_done = len(driver.all(ResponseDone))
        await driver.say(600)
        await driver.be_silent(800)
        await driver.rest(30)
        (last,) = driver.all(ResponseDone)[num_done:]
        assert last.response.status is ResponseStatus.COMPLETED
        driver.order.finish(self.shows_transcripts)

    def _id(self, driver: Driver) -> str:
        return self.rng.choice(["nothing", *(item.id for item in driver.session.items)])

    def _item(self, driver: Driver) -> Item:
        calls = [item for item in driver.session.items if isinstance(item, FunctionCall)]
        if calls and self.rng.random() < 0.7:
            return FunctionOutput(new_id("item"), calls[-1].call_id, "{}")
        sound = SoundPart(samples=np.zeros(16_000, np.float32))
        return Message(new_id("item"), Role.USER, (self.rng.choice([TextPart("hello"), sound]),))

    async def live(self) -> tuple[Driver, bool]:
        """Half of the sessions are left to come to rest before they are closed; the others end where they are."""
        rests = self.rng.random() < 0.5
        async with Driver(self.services, self.settings()) as driver:
            for _ in range(self.rng.randrange(1, 25)):
                await self.step(driver)
                if self.rng.random() < 0.7:
                    await asyncio.sleep(self.rng.random())
            if rests:
                self._configure(driver, replace(driver.session.settings, create_response=False))
                await driver.rest(60)
                driver.order.finish(self.shows_transcripts)
                assert all(isinstance(call, FakeHearing) for call in self.services.open_calls)
                assert len(self.services.open_calls) == 1
                assert len(driver.all(SettingsChanged)) == self.num_configured
                await self._still_answers(driver)
        return driver, rests


def one_session(seed: int) -> Driver:
    session = RandomSession(seed)
    driver, rests = run(session.live())
    for error in driver.all(SessionError):
        assert error.code in EXPECTED_ERRORS, error
        assert error.code != "engine_error" or any(cause in error.message for cause in CAUSES), error
    if rests:
        started = {event.response.id for event in driver.all(ResponseStarted)}
        assert started == {event.response.id for event in driver.all(ResponseDone)}
        assert [item.id for item in driver.session.items] == driver.order.items
    return driver


@pytest.mark.parametrize(
    "part", [part if part < NUM_PARTS else pytest.param(part, marks=pytest.mark.soak) for part in range(NUM_SOAK_PARTS)]
)
def test_random_sessions(part: int) -> None:
    drivers = []
    for seed in range(part * PER_PART, (part + 1) * PER_PART):
        try:
            drivers.append(one_session(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    # They did what they are about.
    endings = {(done.response.status, done.response.reason) for d in drivers for done in d.all(ResponseDone)}
    # Few responses are cancelled by the client, and none in some parts of the soak.
    assert len(endings) in ((5,) if part < NUM_PARTS else (4, 5))
    assert sum(len(driver.all(UserSpeechStarted)) for driver in drivers) > PER_PART
    assert sum(driver.services.num_calls for driver in drivers) > 2 * PER_PART
