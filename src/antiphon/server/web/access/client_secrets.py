"""`ClientSecrets`: short-lived keys that open sessions of `/v1/realtime` and nothing else, for use in a browser."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Any

from antiphon.counted import counted
from antiphon.server.web.http.errors import ApiError

PREFIX = "ek_"
MIN_SECONDS, DEFAULT_SECONDS, MAX_SECONDS = 10, 600, 7200
#: Maximum unexpired secrets of one API key, bytes of all their sessions, and bytes of one session.
MAX_SECRETS = 1000
MAX_BYTES = 16 << 20
MAX_SESSION_BYTES = 1 << 18


@dataclass(frozen=True)
class ClientSecret:
    """Secret made with an API key. `key` is that key's number, which its sessions count for; None without keys.

    `session` is the update that its sessions begin with, `size` its bytes.
    """

    key: int | None
    expires_at: int
    session: dict[str, Any]
    size: int


class ClientSecrets:
    """Secrets in memory, as hashes: after a restart of the server no secret is valid. For one event loop."""

    def __init__(self) -> None:
        self._secrets: dict[bytes, ClientSecret] = {}

    def create(self, key: int | None, session: dict[str, Any], size: int, seconds: int) -> tuple[str, ClientSecret]:
        """Return a new secret's text and record. Raise `ApiError` if the session or the key's total is too large."""
        self._remove_expired()
        if size > MAX_SESSION_BYTES:
            message = f"the session has {size:,} bytes; at most {MAX_SESSION_BYTES:,} are allowed"
            raise ApiError(400, message, code="invalid_value", param="session")
        own = [secret for secret in self._secrets.values() if secret.key == key]
        held = sum(secret.size for secret in own)
        if len(own) >= MAX_SECRETS or held + size > MAX_BYTES:
            message = (
                f"this key has {counted(len(own), 'client secret')} with {held:,} bytes that have not expired; at most "
                f"{MAX_SECRETS:,} and {MAX_BYTES:,} bytes are allowed"
            )
            headers = {"retry-after": str(MIN_SECONDS)}
            raise ApiError(429, message, code="too_many_client_secrets", kind="overloaded_error", headers=headers)
        value = PREFIX + secrets.token_hex(24)
        made = ClientSecret(key, int(time.time()) + seconds, session, size)
        self._secrets[_hash(value.encode())] = made
        return value, made

    def find(self, value: bytes | None) -> ClientSecret | None:
        """Return the record of a secret's text, or None if it is unknown or has expired."""
        found = self._secrets.get(_hash((value or b"").strip()))
        return None if found is None or found.expires_at <= time.time() else found

    def _remove_expired(self) -> None:
        now = time.time()
        self._secrets = {value: secret for value, secret in self._secrets.items() if secret.expires_at > now}


def is_client_secret(value: bytes | None) -> bool:
    return (value or b"").strip().startswith(PREFIX.encode())


def _hash(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()
