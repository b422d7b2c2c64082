"""`owner_of_peer`: the user of the process at the other end of a TCP connection within this machine.

Linux lists all TCP sockets of a network namespace in `/proc/net/tcp` and `/proc/net/tcp6`, a row each, with the user
who owns the socket. A connection within the machine has two rows: one of this server's end, one of its peer's.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path

Address = tuple[str, int]

FOLDER = Path("/proc/net")
TABLES = ("tcp", "tcp6")
OVERFLOW_USER = Path("/proc/sys/kernel/overflowuid")
USUAL_OVERFLOW_USER = 65534
#: Bytes of a table after which the search ends: some 400,000 connections.
MAX_TABLE_BYTES = 64 << 20
#: The kernel writes a table page by page and may leave out a row while other connections come and go.
ATTEMPTS = 3
ESTABLISHED = b"01"
#: Columns of a row.
LOCAL, REMOTE, STATE, USER, INODE = 1, 2, 3, 7, 9


def can_tell_owners() -> bool:
    """Return whether this system shows the users of sockets, and shows this process's user unambiguously.

    In a user namespace, Linux shows every user without a number there as the overflow user, usually `nobody`.
    """
    if sys.platform != "linux" or os.geteuid() == _overflow_user():
        return False
    return os.access(FOLDER / TABLES[0], os.R_OK)


def owner_of_peer(peer: Address, own: Address, folder: Path = FOLDER) -> int | None:
    """Return the user id that owns the peer's end of a connection from `peer` to `own`, or None if it is unknown.

    Both addresses are literals. The owner of an end that is not established is unknown: Linux shows closed sockets as
    root's. Takes the time to read a table of all connections, so call it in a thread.
    """
    for _ in range(ATTEMPTS):
        rows = [row for name in TABLES for row in _rows(folder / name, peer, own)]
        if rows:
            return _owner(rows)
    return None


def table_form(address: Address, byte_order: str = sys.byteorder) -> bytes:
    """Return the address as tables show it: words of 32 bits in this machine's byte order, and the port."""
    host, port = ipaddress.ip_address(address[0]).packed, address[1]
    words = (host[start : start + 4] for start in range(0, len(host), 4))
    digits = b"".join((word[::-1] if byte_order == "little" else word).hex().encode() for word in words)
    return b"%s:%04X" % (digits.upper(), port)


def _rows(table: Path, peer: Address, own: Address) -> Iterator[list[bytes]]:
    """Yield the rows of the connection's end at `peer`, without those that lack a column."""
    wanted = {(table_form(local), table_form(remote)) for local, remote in _forms(peer, own)}
    num_bytes = 0
    try:
        with table.open("rb") as lines:
            for line in lines:
                num_bytes += len(line)
                if num_bytes > MAX_TABLE_BYTES:
                    return
                columns = line.split(maxsplit=INODE + 1)
                if len(columns) > INODE and (columns[LOCAL], columns[REMOTE]) in wanted:
                    yield columns
    except OSError:
        return


def _forms(*ends: Address) -> list[list[Address]]:
    """Return both forms of an IPv4 connection, plain and mapped to IPv6, or the one form of an IPv6 connection."""
    hosts = [ipaddress.ip_address(host) for host, _ in ends]
    plain = [getattr(host, "ipv4_mapped", None) or host for host in hosts]
    forms = [[str(host) for host in plain]]
    if all(host.version == 4 for host in plain):
        forms.append([f"::ffff:{host}" for host in plain])
    return [[(host, port) for host, (_, port) in zip(form, ends, strict=True)] for form in forms]


def _owner(rows: list[list[bytes]]) -> int | None:
    """Return the user of all rows, or None if a row has no open socket or the rows differ."""
    if not all(row[STATE] == ESTABLISHED and row[INODE].isdigit() and int(row[INODE]) for row in rows):
        return None
    users = {row[USER] for row in rows}
    (user, *others) = users
    return int(user) if not others and user.isdigit() else None


def _overflow_user() -> int:
    try:
        return int(OVERFLOW_USER.read_text())
    except (OSError, ValueError):
        return USUAL_OVERFLOW_USER
