"""The user at the other end of a connection: written tables of the kernel, and real connections."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.server.web.access import socket_owner
from antiphon.server.web.access.socket_owner import Address, can_tell_owners, owner_of_peer, table_form
from antiphon.server.web.http.listener import bind

PEER, OWN = ("127.0.0.1", 40_000), ("127.0.0.1", 8000)
PEER6, OWN6 = ("::1", 40_000), ("::1", 8000)
MAPPED, MAPPED_OWN = ("::ffff:127.0.0.1", 40_000), ("::ffff:127.0.0.1", 8000)
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(local: Address, remote: Address, user: object = 1000, state: str = "01", inode: object = 4711) -> str:
    ends = f"{table_form(local).decode()} {table_form(remote).decode()}"
    return f"   1: {ends} {state} 00000000:00000000 00:00000000 00000000 {user:>5}        0 {inode} 1 0000 20 4 30 10\n"


def tables(folder: Path, *rows: str, ipv6: tuple[str, ...] = ()) -> Path:
    (folder / "tcp").write_text(HEAD + "".join(rows))
    (folder / "tcp6").write_text(HEAD + "".join(ipv6))
    return folder


def test_addresses_are_words_in_the_byte_order_of_the_machine() -> None:
    assert table_form(("127.0.0.1", 8000), "little") == b"0100007F:1F40"
    assert table_form(("127.0.0.1", 8000), "big") == b"7F000001:1F40"
    assert table_form(("::1", 80), "little") == b"00000000000000000000000001000000:0050"
    assert table_form(("::1", 80), "big") == b"00000000000000000000000000000001:0050"
    assert table_form(MAPPED_OWN, "little") == b"0000000000000000FFFF00000100007F:1F40"


def test_the_peers_row_counts_and_not_the_servers_own(tmp_path: Path) -> None:
    rows = (row(OWN, ("0.0.0.0", 0), 7, "0A"), row(OWN, PEER, 7), row(PEER, OWN, 1001), row(PEER, ("127.0.0.1", 1), 7))
    assert owner_of_peer(PEER, OWN, tables(tmp_path, *rows)) == 1001
    assert owner_of_peer(PEER6, OWN6, tables(tmp_path, ipv6=(row(OWN6, PEER6, 7), row(PEER6, OWN6, 1002)))) == 1002


@pytest.mark.parametrize(("peer", "own"), [(PEER, OWN), (MAPPED, MAPPED_OWN), (PEER, MAPPED_OWN), (MAPPED, OWN)])
def test_an_ipv4_connection_may_be_listed_as_ipv6(tmp_path: Path, peer: Address, own: Address) -> None:
    assert owner_of_peer(peer, own, tables(tmp_path, row(PEER, OWN, 5))) == 5
    assert owner_of_peer(peer, own, tables(tmp_path, ipv6=(row(MAPPED, MAPPED_OWN, 6),))) == 6


@pytest.mark.parametrize(
    "rows",
    [
        (),
        ("\n", "nonsense\n", "   1: 0100007F:9C40 0100007F:1F40 01\n"),
        (row(PEER, OWN, user="x"),),
        (row(PEER, OWN, user=-1),),
        (row(PEER, OWN, state="06", inode=0, user=0),),  # TIME_WAIT: shown as root's
        (row(PEER, OWN, state="04", user=0),),
        (row(PEER, OWN, inode=0, user=0),),  # closed by its program: shown as root's
        (row(PEER, OWN, inode="?"),),
        (row(PEER, OWN, user=0), row(PEER, OWN, user=1000)),
        (row(PEER, OWN, user=0), row(PEER, OWN, user=0, inode=0)),
        (row(OWN, PEER),),
        (row(PEER, OWN).replace("9C40", "9C4"),),
    ],
)
def test_no_row_or_a_doubtful_row_names_nobody(tmp_path: Path, rows: tuple[str, ...]) -> None:
    assert owner_of_peer(PEER, OWN, tables(tmp_path, *rows)) is None


def test_without_tables_nobody_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert owner_of_peer(PEER, OWN, tmp_path / "absent") is None
    monkeypatch.setattr(socket_owner, "FOLDER", tmp_path / "absent")
    assert not can_tell_owners()


def test_the_search_ends_in_a_huge_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_owner, "MAX_TABLE_BYTES", 1000)
    rows = [row(("127.0.0.2", port), OWN) for port in range(20)]
    assert owner_of_peer(PEER, OWN, tables(tmp_path, *rows, row(PEER, OWN))) is None
    assert owner_of_peer(PEER, OWN, tables(tmp_path, row(PEER, OWN), *rows)) == 1000


def test_the_user_that_stands_for_unknown_users_is_ambiguous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(socket_owner, "FOLDER", tables(tmp_path))
    (tmp_path / "overflowuid").write_text("4242\n")
    monkeypatch.setattr(socket_owner, "OVERFLOW_USER", tmp_path / "overflowuid")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert can_tell_owners()
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert not can_tell_owners()
    monkeypatch.setattr(socket_owner, "OVERFLOW_USER", tmp_path / "absent")
    assert can_tell_owners()
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert not can_tell_owners()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not can_tell_owners()


@pytest.mark.skipif(not can_tell_owners(), reason="this system does not show the users of connections")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_real_connections(host: str) -> None:
    try:
        listener = bind(host, 0)
    except InvalidRequestError as error:
        pytest.skip(str(error))
    listener.listen()
    with listener, socket.create_connection(listener.getsockname()[:2]) as client:
        server, peer = listener.accept()
        with server:
            assert owner_of_peer(peer[:2], server.getsockname()[:2]) == os.geteuid()
            client.close()
            assert owner_of_peer(peer[:2], server.getsockname()[:2]) is None
