"""Transcriptions with `background`: an id at once, progress by polling, results until they expire."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import tempfile
from typing import Any

import pytest

from antiphon.server.apis.openai.audio.background import BackgroundTranscriptions
from antiphon.server.web.http.errors import ApiError
from support.server.scripted_transcriptions import PATH, ScriptedServer
from support.waiting import wait_until

OTHER_KEY = "the-second-scribe-key"


def started(scribe: ScriptedServer, seconds: float = 2.0, path: str = PATH, key: str | None = None, **more: Any) -> str:
    """Start a transcription and return its id."""
    answer = scribe.send(seconds, path, key, background="true", **more)
    assert answer.status_code == 200, answer.text
    job: dict[str, Any] = answer.json()
    assert (job["object"], job["background"]) == ("audio.transcription", True)
    assert job["status"] in ("queued", "in_progress")
    return str(job["id"])


def state(scribe: ScriptedServer, job_id: str, key: str | None = None) -> dict[str, Any]:
    answer = scribe.request("GET", f"{PATH}/{job_id}", key)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def wait_until_status(scribe: ScriptedServer, job_id: str, status: str) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    def has_status() -> bool:
        seen.append(state(scribe, job_id))
        return bool(seen[-1]["status"] == status)

    wait_until(has_status, status, seen=lambda: seen[-1])
    return seen[-1]


def wait_until_idle(scribe: ScriptedServer) -> None:
    wait_until(lambda: not len(scribe.running.serving.requests), "all requests to end")


def store_of(scribe: ScriptedServer) -> BackgroundTranscriptions:
    store: BackgroundTranscriptions = scribe.running.app.state.transcriptions
    return store


def listed(scribe: ScriptedServer, key: str | None = None, **query: Any) -> list[str]:
    return [job["id"] for job in scribe.request("GET", PATH, key, params=query).json()["data"]]


def test_progress_and_the_result(scribe: ScriptedServer) -> None:
    job_id = started(scribe, 4.0)
    transcription = scribe.transcription()
    first = wait_until_status(scribe, job_id, "in_progress")
    assert first["progress"] == {"seconds": 0.0, "duration": 4.0, "fraction": 0.0}
    assert first["partial"] == {"text": "", "segments": [], "seconds": 0.0} and first["result"] is None
    transcription.say("one", 1.0)
    wait_until(lambda: state(scribe, job_id)["partial"]["text"], "text")
    found = state(scribe, job_id)
    assert found["progress"] == {"seconds": 1.0, "duration": 4.0, "fraction": 0.25}
    assert (found["partial"]["text"], found["status"], found["expires_at"]) == ("one", "in_progress", None)
    transcription.say("two", 3.0)
    transcription.complete()
    done = wait_until_status(scribe, job_id, "completed")
    assert done["result"] == {"text": "one two", "usage": {"type": "duration", "seconds": 4.0}}
    assert done["progress"] == {"seconds": 4.0, "duration": 4.0, "fraction": 1.0}
    assert (done["partial"], done["error"], done["model"]) == (None, None, "ggml-tiny")
    assert done["expires_at"] - done["completed_at"] == 86_400
    wait_until_idle(scribe)


@pytest.mark.parametrize("format", ["json", "text", "srt", "vtt", "verbose_json"])
def test_the_result_is_what_a_connection_gets(scribe: ScriptedServer, format: str) -> None:
    job_id = started(scribe, response_format=format)
    transcription = scribe.transcription()
    transcription.say("one", 1.5)
    transcription.complete()
    result = wait_until_status(scribe, job_id, "completed")["result"]
    assert isinstance(result, dict) == ("json" in format)
    words = {"json": "one", "text": "one\n", "verbose_json": "one"}
    stamps = {"srt": "00:00:00,000 --> 00:00:01,500\none", "vtt": "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none"}
    if format in stamps:
        assert stamps[format] in result
    else:
        assert (result if format == "text" else result["text"]) == words[format]
    assert format != "verbose_json" or [segment["text"] for segment in result["segments"]] == [" one"]


def test_translations_are_polled_at_the_same_place(scribe: ScriptedServer) -> None:
    """The model knows only English, which is an error before anything is queued."""
    refused = scribe.send(path="/v1/audio/translations", background="true")
    assert refused.status_code == 400 and "only English" in refused.json()["error"]["message"]
    assert not listed(scribe)


def test_each_progress_restarts_the_time_limit(scribe: ScriptedServer) -> None:
    job_id = started(scribe)
    transcription = scribe.transcription()
    limit = scribe.limits[1]  # after that of the upload
    for count, text in enumerate(("one", "two"), start=1):
        transcription.say(text, float(count))
        wait_until(lambda count=count: limit.num_restarts == count, "a restart")  # type: ignore[misc]
    scribe.expire(limit)
    failed = wait_until_status(scribe, job_id, "failed")
    assert failed["error"]["code"] == "timeout" and failed["error"]["message"].endswith("since its last segment")
    assert failed["partial"]["text"] == "one two" and failed["result"] is None
    assert transcription.is_closed


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"language": "klingon"}, "invalid_value", None),
    ({"language": "german"}, "invalid_value", None),  # of an English model
    ({"response_format": "mp4"}, "invalid_value", "response_format"),
    ({"temperature": "3"}, "invalid_value", "temperature"),
    ({"stream": "true"}, "unsupported_value", "background"),
    ({"background": "perhaps"}, "invalid_value", "background"),
    ({"model": "nobody"}, "model_not_found", "model"),
]


@pytest.mark.parametrize(("fields", "code", "param"), WRONG, ids=[str(fields) for fields, *_ in WRONG])
def test_what_is_wrong_is_rejected_at_once(
    scribe: ScriptedServer, fields: dict[str, Any], code: str, param: str | None
) -> None:
    error = scribe.send(**{"background": "true", **fields}).json()["error"]
    assert (error["code"], error["param"]) == (code, param), error["message"]
    assert not listed(scribe) and not scribe.transcriptions


def test_sound_that_is_none_is_rejected_at_once(scribe: ScriptedServer) -> None:
    for sound, told in ((b"this is no sound" * 20, "not a sound file"), (b"", "0 bytes")):
        data = {"model": "whisper-1", "background": "true"}
        error = scribe.request("POST", PATH, data=data, files={"file": ("a.wav", sound)}).json()["error"]
        assert (error["code"], error["param"]) == ("invalid_audio", "file") and told in error["message"]
    error = scribe.send(61.0, background="true").json()["error"]
    assert error["code"] == "invalid_audio" and "60 s" in error["message"]
    assert not listed(scribe)


def test_waiting_cancelling_and_limits(scribe: ScriptedServer) -> None:
    """Two run at once, and a key has three; the key with the fewest running is next."""
    ids = [started(scribe) for _ in range(3)]
    scribe.transcription(2)
    assert [state(scribe, job_id)["status"] for job_id in ids] == ["in_progress", "in_progress", "queued"]
    refused = scribe.send(background="true")
    assert refused.status_code == 429 and refused.json()["error"]["code"] == "too_many_transcriptions"
    assert "3 transcriptions" in refused.json()["error"]["message"] and "retry-after" in refused.headers
    other = started(scribe, key=OTHER_KEY)
    scribe.transcriptions[0].say("half", 1.0)
    wait_until(lambda: state(scribe, ids[0])["partial"]["text"] == "half", "text")
    cancelled = scribe.request("POST", f"{PATH}/{ids[0]}/cancel").json()
    assert (cancelled["status"], cancelled["partial"]["text"]) == ("cancelled", "half")
    scribe.transcription(3)
    assert state(scribe, other, OTHER_KEY)["status"] == "in_progress"  # younger, but of a key with none
    assert scribe.request("POST", f"{PATH}/{ids[0]}/cancel").json() == cancelled
    queued = scribe.request("POST", f"{PATH}/{ids[2]}/cancel").json()
    assert (queued["status"], queued["started_at"]) == ("cancelled", None)
    for transcription in scribe.transcriptions[1:]:
        transcription.complete()
    assert wait_until_status(scribe, ids[1], "completed")["result"]["text"] == ""
    ended = scribe.request("POST", f"{PATH}/{ids[1]}/cancel")
    assert ended.status_code == 400 and ended.json()["error"]["code"] == "transcription_ended"
    wait_until_idle(scribe)
    assert len(scribe.transcriptions) == 3


def test_deleting(scribe: ScriptedServer) -> None:
    job_id = started(scribe)
    transcription = scribe.transcription()
    answer = scribe.request("DELETE", f"{PATH}/{job_id}").json()
    assert answer == {"id": job_id, "object": "audio.transcription", "deleted": True}
    wait_until(lambda: transcription.is_closed, "the end of its work")
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel")):
        missing = scribe.request(method, f"{PATH}/{job_id}{path}")
        assert missing.status_code == 404 and missing.json()["error"]["code"] == "transcription_not_found"
    wait_until_idle(scribe)


def test_keys_see_only_their_own(scribe: ScriptedServer) -> None:
    job_id = started(scribe)
    for method, path in (("GET", ""), ("POST", "/cancel"), ("DELETE", "")):
        assert scribe.request(method, f"{PATH}/{job_id}{path}", OTHER_KEY).status_code == 404
    assert (listed(scribe), listed(scribe, OTHER_KEY)) == ([job_id], [])
    assert state(scribe, job_id)["status"] in ("queued", "in_progress")


def test_lists_come_in_pages_without_texts(scribe: ScriptedServer) -> None:
    ids = [started(scribe) for _ in range(3)]
    scribe.transcription(2).complete()
    wait_until(lambda: len(scribe.transcriptions) == 3, "the third")
    assert listed(scribe) == ids[::-1] and listed(scribe, order="asc") == ids
    assert listed(scribe, limit=2) == ids[:0:-1] and listed(scribe, limit=2, after=ids[1]) == ids[:1]
    answer = scribe.request("GET", PATH, params={"limit": 1}).json()
    assert answer["has_more"] and (answer["first_id"], answer["last_id"]) == (ids[2], ids[2])
    assert not {"result", "partial"} & set(answer["data"][0]) and answer["data"][0]["progress"]["duration"] == 2.0
    assert scribe.request("GET", PATH, params={"after": "nothing"}).status_code == 400


def test_a_result_expires(scribe: ScriptedServer) -> None:
    store = store_of(scribe)
    store._limits = dataclasses.replace(store._limits, background_kept=0.0)
    job_id = started(scribe)
    scribe.transcription().complete()
    wait_until(lambda: scribe.request("GET", f"{PATH}/{job_id}").status_code == 404, "expiry")
    assert not listed(scribe)


def test_a_transcript_too_large_to_keep_is_an_error(scribe: ScriptedServer) -> None:
    store = store_of(scribe)
    store._limits = dataclasses.replace(store._limits, stored_bytes=2000)
    store._ended.max_bytes = 2000
    job_id = started(scribe)
    transcription = scribe.transcription()
    transcription.say("word" * 1000, 1.0)
    transcription.complete()
    failed = wait_until_status(scribe, job_id, "failed")
    assert failed["error"]["code"] == "transcript_too_large" and "2,000 bytes" in failed["error"]["message"]


def test_a_server_that_keeps_nothing_rejects_them(scribe: ScriptedServer) -> None:
    store = store_of(scribe)
    store._limits = dataclasses.replace(store._limits, stored_responses=0)
    error = scribe.send(background="true").json()["error"]
    assert error["param"] == "background" and "--max-responses" in error["message"]


def test_a_failure_of_the_engine_keeps_the_text(scribe: ScriptedServer) -> None:
    job_id = started(scribe)
    transcription = scribe.transcription()
    transcription.say("one", 0.5)
    transcription.fail()
    failed = wait_until_status(scribe, job_id, "failed")
    assert failed["error"]["code"] == "engine_error" and failed["partial"]["text"] == "one"


def test_a_server_that_shuts_down_ends_them(scribe: ScriptedServer) -> None:
    """Running ones at once, whose results could not be fetched; waiting ones when it is their turn."""
    ids = [started(scribe) for _ in range(3)]
    scribe.transcription(2)
    store, serving = store_of(scribe), scribe.running.serving
    jobs = [store.find(job_id, 0) for job_id in ids]
    serving.is_draining = True
    scribe.running.loop.call_soon_threadsafe(lambda: [context.announce_draining() for context in serving.requests])
    wait_until(lambda: all(job.has_ended for job in jobs), "their end", seen=lambda: [job.status for job in jobs])
    assert [(job.error or {}).get("code") for job in jobs] == ["shutting_down"] * 3
    assert len(scribe.transcriptions) == 2
    serving.is_draining = False
    wait_until_idle(scribe)


def test_closing_the_server_cancels_all(scribe: ScriptedServer) -> None:
    ids = [started(scribe) for _ in range(3)]
    scribe.transcription(2)
    store = store_of(scribe)
    asyncio.run_coroutine_threadsafe(store.close(), scribe.running.loop).result(60)
    assert [state(scribe, job_id)["status"] for job_id in ids] == ["cancelled"] * 3
    assert len(scribe.transcriptions) == 2 and all(one.is_closed for one in scribe.transcriptions)
    wait_until_idle(scribe)


def test_an_administrator_cancels_one(scribe: ScriptedServer) -> None:
    job_id = started(scribe)
    scribe.transcription()
    (context,) = [one for one in scribe.running.serving.requests if one.path == PATH]
    error = ApiError(499, "cancelled by an administrator", code="cancelled")
    scribe.running.loop.call_soon_threadsafe(context.end_with, error)
    assert wait_until_status(scribe, job_id, "cancelled")["error"] is None


def open_uploads() -> int:
    """How many deleted temporary files this process holds open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        count += target.startswith(tempfile.gettempdir()) and target.endswith("(deleted)")
    return count


def test_an_upload_that_breaks_off_leaves_nothing(scribe: ScriptedServer) -> None:
    before = open_uploads()
    host, port = scribe.running.url.removeprefix("http://").split(":")
    start = b'--x\r\nContent-Disposition: form-data; name="background"\r\n\r\ntrue\r\n'
    start += b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {scribe.key}\r\n"
        head += "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 3500000\r\n\r\n"
        connection.sendall(head.encode() + start + bytes(2 << 20))
        wait_until(lambda: open_uploads() > before, "a file on disk")
    wait_until_idle(scribe)
    wait_until(lambda: open_uploads() == before, "the file's end")
    assert not listed(scribe)
