"""A batch goes on after its server was killed, each line once; damaged state does not stop the others."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI, Request

from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.stored.batches.journal import Journal
from antiphon.server.stored.batches.record import BatchRecord
from antiphon.server.stored.batches.storage import open_storage
from antiphon.server.stored.batches.store import BatchStore
from antiphon.server.stored.files.access import files_of
from antiphon.server.stored.files.record import FileRecord
from antiphon.server.stored.files.state_folder import StateFolder
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.errors import ApiError
from support.server.serve_command import ServeCommand
from support.waiting import wait_until, wait_until_async

NUM_REQUESTS = 30
#: In the server that is killed, requests beyond the twentieth are never begun.
HELD = """
import asyncio, itertools
from antiphon.server.generation.text.generation import Generations
numbers, begin = itertools.count(1), Generations.open
async def begin_some(self):
    if next(numbers) > 20:
        await asyncio.sleep(3600)
    await begin(self)
Generations.open = begin_some
"""


@pytest.mark.slow
def test_killed_in_the_middle(chat_folder: Path, tmp_path: Path) -> None:
    """Killed without warning, with a line cut short. Meanwhile the key file got another key, before this one."""
    (tmp_path / "keys").write_text("a-key-of-batches\n")

    def serve(before: str = "") -> tuple[ServeCommand, openai.OpenAI]:
        options = ("--port", "0", "--kv-memory", "16", "--files-dir", str(tmp_path / "files"))
        command = ServeCommand(str(chat_folder), *options, "--api-key-file", str(tmp_path / "keys"), before=before)
        client = openai.OpenAI(base_url=command.url() + "/v1", api_key="a-key-of-batches", max_retries=0)
        return command, client

    def line(number: int) -> dict[str, Any]:
        message = {"role": "user", "content": f"question {number}"}
        body = {"model": "tiny-chat", "messages": [message], "max_tokens": 60, "temperature": 0, "ignore_eos": True}
        return {"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}

    command, client = serve(HELD)
    try:
        data = "\n".join(json.dumps(line(number)) for number in range(NUM_REQUESTS)).encode()
        made = client.files.create(file=("in.jsonl", data), purpose="batch")
        batch = client.batches.create(input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h")

        def completed() -> int:
            counts = client.batches.retrieve(batch.id).request_counts
            assert counts is not None
            return counts.completed

        wait_until(lambda: completed() >= 5, "five completed lines", seen=completed)
        command.process.send_signal(signal.SIGKILL)
        command.wait_for_end()
        results = tmp_path / "files" / "batches" / f"{batch.id}.output"
        num_written = results.read_bytes().count(b"\n")
        assert 5 <= num_written < NUM_REQUESTS
        with open(results, "ab") as stream:
            stream.write(b'{"id": "torn", "custom_id": "r29", "resp')
        (tmp_path / "keys").write_text("another-key-now\na-key-of-batches\n")
        command, client = serve()
        now = lambda: client.batches.retrieve(batch.id)  # noqa: E731
        wait_until(lambda: now().status == "completed", "the batch to complete", seen=now)
        done = now()
        assert done.request_counts is not None and done.request_counts.completed == NUM_REQUESTS
        lines = [json.loads(line) for line in client.files.content(done.output_file_id or "").text.splitlines()]
        assert sorted(line["custom_id"] for line in lines) == sorted(f"r{number}" for number in range(NUM_REQUESTS))
        for result in (lines[0], lines[-1]):
            body = line(int(result["custom_id"][1:]))["body"]
            headers = {"authorization": "Bearer a-key-of-batches"}
            alone = httpx.post(command.url() + "/v1/chat/completions", json=body, headers=headers, timeout=60).json()
            assert result["response"]["body"]["choices"] == alone["choices"]
        assert not list((tmp_path / "files" / "batches").glob("*.output"))
        with pytest.raises(openai.NotFoundError):
            client.with_options(api_key="another-key-now").batches.retrieve(batch.id)
    finally:
        command.process.kill()
        command.process.wait()


def test_a_journal_of_torn_lines(tmp_path: Path) -> None:
    good = {"id": "1", "custom_id": "a", "response": {"status_code": 200, "body": {"usage": {"prompt_tokens": 3}}}}

    async def main() -> None:
        for torn in (b'{"id": "2", "custom_id": "b"', b"{}\n", b"\x00" * 5000, b'"x"\n{"custom_id": "c"}\n'):
            (tmp_path / "batch.output").write_bytes(json.dumps(good).encode() + b"\n" + torn)
            journal = Journal(tmp_path, "batch")
            assert journal.done == {"a"} and journal.counts.completed == 1 and journal.tokens["input"] == 3
            await journal.append({**good, "custom_id": "b"}, False)
            await journal.append({"id": "3", "custom_id": "c", "response": None, "error": {}}, True)
            again = Journal(tmp_path, "batch")
            assert again.done == {"a", "b", "c"} and (again.counts.completed, again.counts.failed) == (2, 1)
            assert again.num_bytes == journal.num_bytes
            (tmp_path / "batch.error").unlink()

    asyncio.run(main())


def test_damaged_records_are_logged_and_the_others_survive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = StateFolder(tmp_path / "state")
    details: dict[str, Any] = dict(
        owner="a", endpoint="/v1/embeddings", input_file_id="file-" + "0" * 32, output_seconds=9
    )
    good, torn = BatchRecord.new(**details), BatchRecord.new(**details)
    for record in (good, torn):
        folder.save(folder.batches / f"{record.id}.json", record)
    path = folder.batches / f"{torn.id}.json"
    path.write_bytes(path.read_bytes()[:50])
    store = BatchStore(folder)
    with caplog.at_level("ERROR", logger="antiphon"):
        store.load()
    assert [record.id for record in store.unfinished()] == [good.id]
    (logged,) = [record for record in caplog.records if record.getMessage() == "the record of a batch is damaged"]
    assert logged.fields["path"] == str(path)  # type: ignore[attr-defined]
    assert path.exists()
    folder.close()


def _opened(config: ServerConfig, check: Callable[[FastAPI], None]) -> None:
    """`check` runs while the folder is open for an application that answers nothing."""
    app = FastAPI()
    client = SimpleNamespace(state="starting")
    serving: Any = SimpleNamespace(config=config, client=client, requests=None)

    async def main() -> None:
        async with open_storage(app, serving):
            check(app)

    asyncio.run(main())


def test_a_second_server_has_no_files(tmp_path: Path) -> None:
    config = ServerConfig(files_dir=tmp_path / "state")
    first = StateFolder(tmp_path / "state")

    def check(app: FastAPI) -> None:
        with pytest.raises(ApiError, match="another server uses") as refused:
            files_of(Request({"type": "http", "app": app}))
        assert refused.value.status == 503 and refused.value.code == "files_unavailable"

    _opened(config, check)
    first.close()

    def works(app: FastAPI) -> None:
        assert files_of(Request({"type": "http", "app": app})) is app.state.files

    _opened(config, works)


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize(("has_file", "code"), [(True, "invalid_api_key"), (False, "file_not_found")])
def test_a_batch_that_cannot_go_on_fails(tmp_path: Path, has_file: bool, code: str, has_begun: bool) -> None:
    """Its key is no longer in the key file, or its input is gone."""
    keys = KeyRing(["a-long-enough-key"])
    folder = StateFolder(tmp_path / "state")
    file_id, owner = "file-" + "0" * 32, "gone" if has_file else keys.owner(0)
    if has_file:
        made = FileRecord(id=file_id, owner=owner, filename="x", purpose="batch", bytes=0, created_at=1)
        (folder.files / f"{file_id}.data").write_bytes(b"")
        folder.save(folder.files / f"{file_id}.json", made)
    record = BatchRecord.new(owner=owner, endpoint="/v1/embeddings", input_file_id=file_id, output_seconds=9)
    if has_begun:
        record.enter("in_progress")
    folder.save(folder.batches / f"{record.id}.json", record)
    folder.close()
    app = FastAPI()
    config = ServerConfig(files_dir=tmp_path / "state", keys=keys)
    serving: Any = SimpleNamespace(config=config, client=SimpleNamespace(state="starting"), requests=None)

    async def main() -> None:
        async with open_storage(app, serving):
            found = app.state.batches.store.find(record.id, owner)
            await wait_until_async(lambda: found.has_ended, "the batch's end", seen=lambda: found)
            assert found.status == "failed" and found.errors[0].code == code

    asyncio.run(main())
