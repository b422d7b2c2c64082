"""The files that local servers write about themselves: private, whole, and ignored once their server is gone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.server.serving.setup.run_file import LocalServer, RunFileError, local_servers, new_admin_token, published
from antiphon.server.web.access.hosts import is_loopback

SERVER = LocalServer("http://127.0.0.1:8000", 1234, "a-token-of-some-length")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_it_is_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()  # made by somebody less careful
    old = os.umask(umask)
    try:
        with published(SERVER, tmp_path) as path:
            assert mode(path) == 0o600 and mode(path.parent) == 0o700
            assert local_servers(tmp_path) == [SERVER]
            assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    finally:
        os.umask(old)
    assert list((tmp_path / "run").iterdir()) == [] and local_servers(tmp_path) == []


def test_several_servers_also_on_one_port(tmp_path: Path) -> None:
    others = [
        LocalServer("http://[::1]:8000", 2, new_admin_token()),
        LocalServer("https://127.0.0.1:8001", 3, None),
    ]
    with published(SERVER, tmp_path), published(others[0], tmp_path), published(others[1], tmp_path):
        assert local_servers(tmp_path) == [SERVER, *others]
    assert local_servers(tmp_path) == []


def test_what_commands_decide_by_is_read_back(tmp_path: Path) -> None:
    server = LocalServer(
        "http://127.0.0.1:8000",
        1,
        "t",
        "1.2",
        started=3.5,
        load_on_use="hub",
        has_api_keys=True,
        file_models=("a", "b"),
    )
    with published(server, tmp_path):
        assert local_servers(tmp_path) == [server]


@pytest.mark.parametrize("lacking", ["version", "started", "file_models"])
def test_a_file_of_an_earlier_release_names_no_version(lacking: str, tmp_path: Path) -> None:
    """The server is managed as before; no command computes on it."""
    with published(LocalServer("http://127.0.0.1:8000", 1, "t", "1.2", started=3.5), tmp_path) as path:
        content = json.loads(path.read_text())
        del content[lacking]
        path.write_text(json.dumps(content))
        assert local_servers(tmp_path) == [LocalServer("http://127.0.0.1:8000", 1, "t")]


def test_it_is_removed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), published(SERVER, tmp_path):
        raise KeyError
    assert list((tmp_path / "run").iterdir()) == []


def test_a_killed_server_is_ignored_and_its_file_removed(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from antiphon.server.serving.setup.run_file import LocalServer, published
with published(LocalServer("http://127.0.0.1:8000", os.getpid(), "left-behind-token"), Path({str(tmp_path)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    (left,) = (tmp_path / "run").iterdir()
    assert json.loads(left.read_text())["admin_token"] == "left-behind-token"
    with published(SERVER, tmp_path):
        assert local_servers(tmp_path) == [SERVER]
        assert not left.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{not json",
        b'{"url": "http://127.0.0.1:1", "pid": 1}',
        b'{"url": "http://203.0.113.5:1", "pid": 1, "admin_token": "x"}',
        b'{"url": "http://localhost.example:1", "pid": 1, "admin_token": "x"}',
        b'{"url": 5, "pid": 1, "admin_token": "x"}',
        b'{"url": "http://[", "pid": 1, "admin_token": "x"}',
    ],
)
def test_files_that_say_something_else_are_ignored(content: bytes, tmp_path: Path) -> None:
    with published(SERVER, tmp_path) as path:
        path.write_bytes(content)  # its lock stays
        assert local_servers(tmp_path) == []


def test_files_that_others_could_have_written_are_ignored(tmp_path: Path) -> None:
    with published(SERVER, tmp_path) as path:
        (path.parent / "linked.json").symlink_to(path)
        assert local_servers(tmp_path) == [SERVER]
        path.chmod(0o640)
        assert local_servers(tmp_path) == []


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    assert local_servers(tmp_path / "nowhere") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFileError, match="cannot use"), published(SERVER, tmp_path / "file"):
        pass
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "run").symlink_to(elsewhere)
    with pytest.raises(RunFileError, match="not a folder of this user"), published(SERVER, tmp_path / "linked"):
        pass
    assert list(elsewhere.iterdir()) == []


def test_tokens_are_long_and_not_shown() -> None:
    tokens = {new_admin_token() for _ in range(100)}
    assert len(tokens) == 100 and min(map(len, tokens)) >= 40
    assert "a-token" not in repr(SERVER)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST."])
def test_loopback_hosts(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "192.168.1.1", "localhost.example", "127.0.0.1.nip.example", "a"]
)
def test_other_hosts(host: str) -> None:
    assert not is_loopback(host)
