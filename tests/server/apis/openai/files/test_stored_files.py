"""`/v1/files` through openai-python: stored, listed, read and deleted, each key by itself and within its quota."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from antiphon.server.serving.setup.config import Limits
from antiphon.server.stored.files.state_folder import StateFolder, StateFolderError
from antiphon.server.stored.files.store import FileStore
from support.server.http_server import RunningServer

Owners = tuple[openai.OpenAI, openai.OpenAI]


@pytest.fixture
def clean(owners: Owners) -> Iterator[Owners]:
    """Both keys without files before and after."""
    for _ in range(2):
        for client in owners:
            for found in client.files.list():
                client.files.delete(found.id)
        if _ == 0:
            yield owners


@pytest.mark.parametrize(("given", "kept"), [
    ("../../etc/passwd", "passwd"),
    ("C:\\Users\\me\\notes.txt", "notes.txt"),
    ("a/..", "upload"),
    ("..", "upload"),
    ("dir/", "upload"),
    ("a..b.txt", "a..b.txt"),
])  # fmt: skip
def test_names_of_files_have_no_folders(client: openai.OpenAI, given: str, kept: str) -> None:
    made = client.files.create(file=(given, b"x"), purpose="user_data")
    assert made.filename == kept
    sent = client.files.with_raw_response.content(made.id).headers["content-disposition"]
    assert sent == f'attachment; filename="{kept}"'
    client.files.delete(made.id)


def test_upload_read_list_and_delete(client: openai.OpenAI) -> None:
    made = client.files.create(file=("räksmörgås \u202e.bin", b"\x00\xff\r\n" * 5000), purpose="user_data")
    assert (made.bytes, made.purpose, made.status, made.expires_at) == (20_000, "user_data", "processed", None)
    assert made.filename == "räksmörgås .bin"
    assert client.files.retrieve(made.id) == made
    assert client.files.content(made.id).read() == b"\x00\xff\r\n" * 5000
    for_batch = client.files.create(file=b"{}", purpose="batch")
    assert for_batch.expires_at == for_batch.created_at + 30 * 24 * 3600 and for_batch.filename == "upload"
    soon = client.files.create(file=b"", purpose="assistants", expires_after={"anchor": "created_at", "seconds": 3600})
    assert soon.bytes == 0 and soon.expires_at == soon.created_at + 3600
    ids = [made.id, for_batch.id, soon.id]
    listed = [one.id for one in client.files.list(order="asc", limit=2)]  # pages of two
    assert [one for one in listed if one in ids] == ids
    assert [one.id for one in client.files.list() if one.id in ids] == ids[::-1]
    assert {one.purpose for one in client.files.list(purpose="batch")} == {"batch"}
    assert list(client.files.list(purpose="purpose")) == []
    assert client.files.list(limit=0).data == []
    for one in ids:
        assert client.files.delete(one).deleted
        for call in (client.files.retrieve, client.files.content, client.files.delete):
            with pytest.raises(openai.NotFoundError) as missing:
                call(one)
            assert missing.value.code == "file_not_found"


def test_forms_that_are_rejected(client: openai.OpenAI, server: RunningServer) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"purpose": "nonsense"}, "purpose"),
        ({}, "purpose"),
        ({"purpose": "batch", "expires_after[seconds]": "3600"}, "expires_after"),
        ({"purpose": "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "60"}, "expires_after"),
    ]
    for fields, param in cases:
        answer = httpx.post(server.url + "/v1/files", data=fields, files={"file": b"x"})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"].startswith(param)
    assert httpx.post(server.url + "/v1/files", json={}).status_code == 415
    for path in ("..%2F..%2Fetc%2Fpasswd", "file-" + "0" * 32, "lock"):
        assert httpx.get(f"{server.url}/v1/files/{path}/content").status_code == 404


def test_another_key_finds_nothing(clean: Owners) -> None:
    first, second = clean
    made = first.files.create(file=b"mine", purpose="user_data")
    assert [one.id for one in first.files.list()] == [made.id] and list(second.files.list()) == []
    for call in (second.files.retrieve, second.files.content, second.files.delete):
        with pytest.raises(openai.NotFoundError):
            call(made.id)
    assert first.files.content(made.id).read() == b"mine"


def test_quotas_are_per_key(clean: Owners, shared: RunningServer) -> None:
    first, second = clean
    with pytest.raises(openai.APIStatusError, match=r"at most [\d,]+ are allowed") as large:
        first.files.create(file=b"x" * 100_000, purpose="user_data")
    assert large.value.status_code == 413
    for _ in range(3):
        first.files.create(file=b"x" * 18_000, purpose="user_data")
    with pytest.raises(openai.BadRequestError, match=r"room for 6,000 of 60,000 bytes") as full:
        first.files.create(file=b"x" * 18_000, purpose="user_data")
    assert full.value.code == "storage_quota_exceeded"
    last = first.files.create(file=b"x", purpose="user_data")
    with pytest.raises(openai.BadRequestError, match="4 files; at most 4"):
        first.files.create(file=b"x", purpose="user_data")
    second.files.create(file=b"x" * 18_000, purpose="user_data")
    first.files.delete(last.id)
    first.files.create(file=b"x", purpose="user_data")


def test_nobody_else_can_read_the_folder(shared: RunningServer, clean: Owners) -> None:
    clean[0].files.create(file=b"x", purpose="user_data")
    root = shared.serving.config.files_dir
    assert root is not None
    for path in (root, *root.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_full_disk_is_told(clean: Owners, shared: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(openai.InternalServerError, match="No space left") as failed:
            clean[0].files.create(file=b"x", purpose="user_data")
    assert failed.value.status_code == 507 and failed.value.code == "storage_full"
    assert list(clean[0].files.list()) == []
    root = shared.serving.config.files_dir
    assert root is not None and list((root / "files").iterdir()) == []
    assert clean[0].files.create(file=b"x", purpose="user_data").bytes == 1


async def _filled(folder: StateFolder, tmp_path: Path) -> list[str]:
    store = FileStore(folder, Limits())
    names = []
    for number in range(4):
        (tmp_path / "source").write_bytes(b"x" * number)
        with open(tmp_path / "source", "rb") as stream:
            names.append((await store.add("a", stream, "n", "user_data", None)).id)
    return names


def test_damaged_records_are_logged_and_the_others_survive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    folder = StateFolder(tmp_path / "state")
    good, torn, short, other = asyncio.run(_filled(folder, tmp_path))
    (folder.files / f"{torn}.json").write_bytes(b'{"id": "file')
    (folder.files / f"{short}.data").write_bytes(b"")
    (folder.files / f"{other}.json").write_text((folder.files / f"{good}.json").read_text())
    (folder.files / "file-0.data").write_bytes(b"without a record")
    (folder.files / "file-0.data.partial").write_bytes(b"half")
    folder.close()
    folder = StateFolder(tmp_path / "state")
    store = FileStore(folder, Limits())
    with caplog.at_level("ERROR", logger="antiphon"):
        store.load()
    assert [record.id for record in store.of_owner("a")] == [good]
    logged = [getattr(record, "fields", {}) for record in caplog.records]
    causes = {fields["path"][-42:]: fields["cause"] for fields in logged if "path" in fields}
    assert len(causes) == 3
    assert "JSON" in causes[f"{torn}.json"] and "0 bytes; the record says 2" in causes[f"{short}.json"]
    assert f"is of {good}" in causes[f"{other}.json"]
    left = {path.name for path in folder.files.iterdir()}
    assert f"{torn}.data" in left and "file-0.data" not in left and "file-0.data.partial" not in left
    folder.close()


def test_one_server_at_a_time(tmp_path: Path) -> None:
    first = StateFolder(tmp_path / "state")
    with pytest.raises(StateFolderError, match=r"another server uses .*--files-dir"):
        StateFolder(tmp_path / "state")
    first.close()
    second = StateFolder(tmp_path / "state")
    thread = threading.Thread(target=second.close)
    thread.start()
    thread.join()
    StateFolder(tmp_path / "state").close()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StateFolderError, match=r"cannot use|not a folder"):
        StateFolder(tmp_path / "file")
