"""The admin key for the page: given over the connection or for a ticket, and refused to everybody else."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from antiphon.server.page.handover import TICKET_SECONDS, KeyHandover
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.web.access import socket_owner
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.access.socket_owner import can_tell_owners
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.listener import bind, held_localhost
from support.server.forwarder import forwarder, forwarder_of_nobody
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.server.serve_command import ServeCommand

KEY = "an-admin-key-for-the-page"
#: Name that the server allows besides those of this machine, as behind a proxy.
ALLOWED = "antiphon.example"
JSON = ("content-type", "application/json")
BY_CONNECTION = pytest.mark.skipif(not can_tell_owners(), reason="this system does not show the users of connections")
BY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as another user: run this test as root")

Headers = list[tuple[str, str]]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_ticket_is_valid_once() -> None:
    handover = KeyHandover(KEY)
    ticket = handover.issue()
    assert ticket is not None and KEY not in ticket
    for wrong in ("", "wrong", ticket + "x", "ü" * 43):
        with pytest.raises(ApiError):
            handover.redeem(wrong)
    assert handover.redeem(ticket) == KEY
    with pytest.raises(ApiError, match="used already or has expired"):
        handover.redeem(ticket)


def test_a_ticket_expires_and_gives_way_to_a_later_one() -> None:
    clock = Clock()
    handover = KeyHandover(KEY, clock=clock)
    first, second = handover.issue(), handover.issue()
    assert first is not None and second is not None
    with pytest.raises(ApiError):
        handover.redeem(first)
    clock.now += TICKET_SECONDS - 1
    assert handover.redeem(second) == KEY
    last = handover.issue()
    clock.now += TICKET_SECONDS
    with pytest.raises(ApiError):
        handover.redeem(str(last))


def test_without_a_token_there_is_no_ticket() -> None:
    handover = KeyHandover()
    assert handover.issue() is None
    for wrong in ("", "None"):
        with pytest.raises(ApiError):
            handover.redeem(wrong)


@pytest.fixture
def giving(servers: ServerPool) -> Iterator[RunningServer]:
    """A server that has made its own token, and lets pages of all origins use its API."""
    config = ServerConfig(
        models=(), admin_keys=KeyRing([KEY]), allowed_hosts=(ALLOWED,), cors_origins=("*",), offline=True
    )
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        running.app.state.key_handover = KeyHandover(KEY)
        yield running


class Answer:
    """Response to a request that was written byte by byte."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def key(self) -> str | None:
        """The admin key in the response; None if the key is nowhere in it."""
        if KEY.encode() not in self.body + repr(self.headers).encode():
            return None
        assert self.status == 200
        return str(orjson.loads(self.body)["admin_key"])

    @property
    def code(self) -> str:
        error = orjson.loads(self.body)["error"]
        assert self.status == 403 and error["message"].startswith("the admin key is not given: "), error
        return str(error["code"])


def ask(
    port: int, *headers: tuple[str, str], body: bytes = b"{}", line: str = "POST /page/admin-key HTTP/1.1"
) -> Answer:
    """Ask for the key over a connection of its own. Without a Host among the headers, Host is the address."""
    names = {name.lower() for name, _ in headers}
    sent = [*headers, ("content-length", str(len(body))), ("connection", "close")]
    sent += [] if "host" in names else [("host", f"127.0.0.1:{port}")]
    sent += [] if "content-type" in names else [JSON]
    head = "".join(f"{name}: {value}\r\n" for name, value in sent if name)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"{line}\r\n{head}\r\n".encode() + body)
        data = bytearray()
        while part := connection.recv(1 << 16):
            data += part
    return Answer(bytes(data))


def port_of(server: RunningServer) -> int:
    return int(server.url.rpartition(":")[2])


@BY_CONNECTION
def test_the_servers_user_gets_the_key_which_is_not_kept(giving: RunningServer) -> None:
    port = port_of(giving)
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", f"[::1]:{port}", f"page.localhost:{port}"):
        own = [("origin", f"http://{host}"), ("sec-fetch-site", "same-origin")]
        for more in ([], own, [("sec-fetch-site", "none")]):
            answer = ask(port, ("host", host), *more)
            assert answer.key == KEY
            assert answer.headers["cache-control"] == "no-store"
            assert not any(name.startswith("access-control") for name in answer.headers)
    models = httpx.get(giving.url + "/v1/models", headers={"origin": "http://a.example"})
    assert models.headers["access-control-allow-origin"] == "*", "pages of other origins may use the API"
    assert "/page" not in httpx.get(giving.url + "/openapi.json").text


@BY_CONNECTION
@BY_ROOT
def test_another_user_of_the_machine_is_refused(giving: RunningServer) -> None:
    """The forwarder's connection to the server belongs to `nobody`, and its requests name no proxy."""
    with forwarder_of_nobody(port_of(giving)) as port:
        answer = ask(port)
        assert (answer.key, answer.code) == (None, "other_user")
        assert "user 65534, and the server runs as user 0" in answer.body.decode()


@BY_CONNECTION
@pytest.mark.parametrize(
    "header", [b"X-Forwarded-For: 192.0.2.7", b"X-FORWARDED-FOR: 127.0.0.1", b"Forwarded: for=192.0.2.7", b"Via: 1.1 a"]
)
def test_a_proxy_on_the_same_machine_is_refused(giving: RunningServer, header: bytes) -> None:
    with forwarder(port_of(giving), header) as port:
        answer = ask(port)
        assert (answer.key, answer.code) == (None, "proxied")


@BY_CONNECTION
def test_a_forwarder_of_the_same_user_that_adds_nothing_counts_as_this_user(giving: RunningServer) -> None:
    """The server cannot see behind such a forwarder; docs/design/server.md says so."""
    with forwarder(port_of(giving)) as port:
        assert ask(port).key == KEY


HOSTS = (
    "evil.example",
    ALLOWED,
    socket.gethostname(),
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil.example",
    "2130706433",
    "0x7f000001",
    "127.1",
    "0.0.0.0",
    "[::]",
    "[::1",
    "[::1%25lo]",
    "localhost:8000:8000",
    "localhost, evil.example",
    "",
)


@BY_CONNECTION
@pytest.mark.parametrize("host", HOSTS)
def test_a_rebound_host_is_refused(giving: RunningServer, host: str) -> None:
    answer = ask(port_of(giving), ("host", host), ("origin", f"http://{host}"), ("sec-fetch-site", "same-origin"))
    assert (answer.key, answer.code) == (None, "invalid_host")


FOREIGN: list[tuple[Headers, str]] = [
    ([("origin", "http://evil.example")], "invalid_origin"),
    ([("origin", "http://127.0.0.1:1")], "invalid_origin"),
    ([("origin", "http://localhost:PORT")], "invalid_origin"),
    ([("origin", "https://127.0.0.1:PORT")], "invalid_origin"),
    ([("origin", "http://user@127.0.0.1:PORT")], "invalid_origin"),
    ([("origin", "http://127.0.0.1:PORT/")], "invalid_origin"),
    ([("origin", "null")], "invalid_origin"),
    ([("origin", "")], "invalid_origin"),
    ([("origin", "http://127.0.0.1:PORT"), ("origin", "http://evil.example")], "invalid_origin"),
    ([("origin", "http://127.0.0.1:PORT"), ("Origin", "http://127.0.0.1:PORT")], "invalid_origin"),
    ([("sec-fetch-site", "cross-site")], "cross_site"),
    ([("sec-fetch-site", "same-site")], "cross_site"),
    ([("sec-fetch-site", "")], "cross_site"),
    ([("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], "cross_site"),
    ([("host", "localhost"), ("host", "evil.example")], "invalid_host"),
    ([("host", "localhost"), ("Host", "localhost")], "invalid_host"),
    ([("x-forwarded-proto", "http")], "proxied"),
    ([("x-forwarded", "")], "proxied"),
    ([("x-real-ip", "127.0.0.1")], "proxied"),
    ([("x-original-host", "a.example")], "proxied"),
    ([("cf-connecting-ip", "192.0.2.7")], "proxied"),
]


@BY_CONNECTION
@pytest.mark.parametrize(("headers", "code"), FOREIGN)
def test_a_page_of_another_origin_is_refused(giving: RunningServer, headers: Headers, code: str) -> None:
    port = port_of(giving)
    answer = ask(port, *((name, value.replace("PORT", str(port))) for name, value in headers))
    assert (answer.key, answer.code) == (None, code)
    assert not any(name.startswith("access-control") for name in answer.headers)


@BY_CONNECTION
def test_other_requests_for_the_key(giving: RunningServer) -> None:
    """Requests of other forms get no key, or the checks apply to them as well."""
    port, route = port_of(giving), "/page/admin-key"
    assert ask(port, ("", ""), ("host", "localhost"), line=f"POST {route} HTTP/1.0").code == "proxied"
    without_host = ask(port, ("Host", "localhost"), line=f"POST {route} HTTP/1.0")
    assert without_host.key is None
    absolute = f"POST http://evil.example{route} HTTP/1.1"
    assert ask(port, ("host", "evil.example"), line=absolute).code == "invalid_host"
    preflight = [("origin", "http://evil.example"), ("access-control-request-method", "POST")]
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
        assert ask(port, line=f"{method} {route} HTTP/1.1").status in (404, 405)
    options = ask(port, *preflight, line=f"OPTIONS {route} HTTP/1.1")
    assert options.status == 405 and not any(name.startswith("access-control") for name in options.headers)
    upgrade = [
        ("upgrade", "websocket"),
        ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("sec-websocket-version", "13"),
    ]
    for method in ("GET", "POST"):
        told = ask(port, ("connection", "upgrade"), *upgrade, body=b"", line=f"{method} {route} HTTP/1.1")
        assert told.status in (400, 404) and told.key is None
    for path in (f"{route}/", f"/{route}", f"/v1{route}", "/PAGE/admin-key", "/page/x/../admin-key"):
        assert ask(port, line=f"POST {path} HTTP/1.1").key is None
    assert ask(port, ("content-type", "text/plain")).status == 415


@BY_CONNECTION
def test_a_system_that_does_not_show_users_gives_the_key_for_a_ticket_only(
    giving: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_owner.sys, "platform", "darwin")
    port, ticket = port_of(giving), giving.app.state.key_handover.issue()
    assert ask(port).code == "unknown_user"
    body = orjson.dumps({"ticket": ticket})
    assert ask(port, ("x-forwarded-for", "192.0.2.7"), body=body).code == "proxied"
    assert ask(port, ("host", "evil.example"), body=body).code == "invalid_host"
    assert ask(port, ("origin", "http://evil.example"), body=body).code == "invalid_origin"
    assert ask(port, body=body).key == KEY, "a refusal does not use up the ticket"
    assert ask(port, body=body).code == "invalid_ticket"


@pytest.mark.parametrize("body", [{"ticket": 1}, {"ticket": "x" * 201}, {"ticket": "x" * 5000}, []])
def test_wrong_bodies(giving: RunningServer, body: Any) -> None:
    assert ask(port_of(giving), body=orjson.dumps(body)).status in (400, 413)


def test_a_server_without_a_token_of_its_own_gives_nothing(giving: RunningServer) -> None:
    giving.app.state.key_handover = KeyHandover()
    answer = ask(port_of(giving))
    assert answer.code == "no_admin_token" and "--admin-key-file" in answer.body.decode()
    assert ask(port_of(giving), body=b'{"ticket": "x"}').code == "no_admin_token"


@pytest.mark.long("two servers start")
def test_a_server_with_a_key_file_or_for_other_machines_gives_nothing(chat_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEY)
    arguments = [str(chat_folder), "--no-preload", "--port", "0", "--kv-memory", "16"]
    for options in (["--admin-key-file", str(tmp_path / "keys")], ["--host", "0.0.0.0"]):
        command = ServeCommand(*arguments, *options)
        try:
            port = int(command.url().rpartition(":")[2])
            answer = ask(port)
            assert (answer.key, answer.code) == (None, "no_admin_token")
            assert ask(port, body=b'{"ticket": ""}').code == "no_admin_token"
        finally:
            command.process.send_signal(signal.SIGTERM)
            assert command.wait_for_end() == 0, command.text()


def other_localhost(listener: socket.socket) -> AbstractContextManager[socket.socket]:
    return socket.create_server(("127.0.0.1", listener.getsockname()[1]))


def test_names_count_only_if_no_other_program_can_serve_them(giving: RunningServer) -> None:
    """A browser tries 127.0.0.1 and ::1 for `localhost`; another user's page on one would count as the server's own."""
    giving.app.state.key_handover = KeyHandover(KEY, owns_names=False)
    port = port_of(giving)
    for name in ("localhost", "page.localhost"):
        answer = ask(port, ("host", f"{name}:{port}"))
        assert answer.code == "invalid_host" and "by the address that the server printed" in answer.body.decode()
    if can_tell_owners():
        assert ask(port).key == KEY
    with bind("127.0.0.2", 0) as listener, held_localhost(listener) as is_held:
        assert is_held
        with pytest.raises(OSError, match="Address already in use"), other_localhost(listener):
            pass
    with other_localhost(listener := bind("127.0.0.2", 0)), listener, held_localhost(listener) as is_held:
        assert not is_held
