"""Share a TLS context and a timeout between all HTTP clients of a test process.

`httpx` and `httpx2` read every certificate of the machine for each new client, even for a plain `httpx.get` over HTTP.
That takes 25 to 50 ms of CPU, and the tests create thousands of clients.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import Any

from support.waiting import PATIENCE_SECONDS


def share_tls_context() -> None:
    """Make clients with the default TLS settings share a context."""
    for package in ("httpx", "httpx2"):
        transports: Any = importlib.import_module(f"{package}._transports.default")
        transports.create_ssl_context = _shared(transports.create_ssl_context)


def wait_patiently() -> None:
    """Make clients with the default timeout wait for an answer as long as tests wait for a state, not five seconds."""
    for package in ("httpx", "httpx2"):
        timeout: Any = importlib.import_module(f"{package}._config").DEFAULT_TIMEOUT_CONFIG
        timeout.connect = timeout.read = timeout.write = timeout.pool = PATIENCE_SECONDS


def _shared(create: Any) -> Any:
    @cache
    def create_once(*certificates: str | None) -> Any:
        return create()

    def create_ssl_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        if verify is not True or cert is not None or not trust_env:
            return create(verify=verify, cert=cert, trust_env=trust_env)
        return create_once(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    return create_ssl_context
