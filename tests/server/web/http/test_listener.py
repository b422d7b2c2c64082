"""The socket of a server: a port in use is an error that suggests a free one."""

from __future__ import annotations

import re
import socket

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.server.web.http.listener import bind


def test_a_port_in_use_suggests_one_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidRequestError) as raised:
            bind("127.0.0.1", port, "--wyoming")
        found = re.fullmatch(rf"port {port} of 127\.0\.0\.1 is in use; try --wyoming (\d+)", str(raised.value))
        assert found is not None
        with bind("127.0.0.1", int(found[1])) as listener:
            listener.listen()


def test_a_suggestion_is_not_in_use_either() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        try:
            second = socket.create_server(("127.0.0.1", port + 1))
        except (OSError, OverflowError):
            pytest.skip("the next port is in use already, or there is none")
        with second, pytest.raises(InvalidRequestError) as raised:
            bind("127.0.0.1", port)
    suggested = int(str(raised.value).rpartition(" ")[2])
    assert suggested not in (port, port + 1) and suggested > 0


def test_an_address_of_another_machine_has_no_better_port() -> None:
    with pytest.raises(InvalidRequestError, match=r"cannot listen on 192\.0\.2\.1 port 8000"):
        bind("192.0.2.1", 8000)
