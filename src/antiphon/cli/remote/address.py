"""`ServerAddress`: a server's address and API key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from antiphon import environment
from antiphon.cli.terminal.files import read_text
from antiphon.errors import InvalidRequestError, UsageError

SHAPE = "write it as http://host:port"


@dataclass(frozen=True)
class ServerAddress:
    """Validated address of a server. `prefix` is the path before `/v1`."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    api_key: str | None = field(default=None, repr=False)
    #: Whether a command found the server itself; it then may compute in its own process instead.
    is_found: bool = False

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """Host and non-default port, as in a URL and in a Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _default_port(self.scheme) else f"{name}:{self.port}"

    @classmethod
    def parse(
        cls, base_url: str, api_key: str | None = None, origin: str = "--base-url", *, is_found: bool = False
    ) -> ServerAddress:
        """Parse a base URL, which may end in `/v1`; `origin` names its source in error messages."""
        try:
            parts = urlsplit(base_url.strip())
            port = parts.port
        except ValueError as error:
            raise UsageError(f"{origin} is {base_url!r}: {error}; {SHAPE}") from None
        if "@" in parts.netloc:
            raise UsageError(f"{origin} has a user name or password in it; give a key in ANTIPHON_API_KEY")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{origin} is {base_url!r}; {SHAPE}")
        if parts.query or parts.fragment:
            raise UsageError(f"{origin} is {base_url!r}; a base URL has no '?' or '#', {SHAPE}")
        prefix = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        if not f"{prefix}{parts.hostname}".isascii() or any(not mark.isprintable() or mark == " " for mark in prefix):
            raise UsageError(f"{origin} is {base_url!r}; a base URL is written in ASCII without spaces")
        return cls(parts.scheme, parts.hostname, port or _default_port(parts.scheme), prefix, api_key, is_found)


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def api_key(file: Path | None) -> str | None:
    """Return the key for a server's API from the file, or else from the environment."""
    if file is not None:
        return key_in(file, "--api-key-file")
    return checked_key(environment.api_key(), "ANTIPHON_API_KEY")


def key_in(file: Path, option: str) -> str:
    """Return the first key of a file with one key per line, parsed as by a server."""
    lines = read_text(file.expanduser(), f"cannot read the {option} {file}").splitlines()
    keys = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    if not keys:
        raise InvalidRequestError(f"the {option} {file} has no key: write one key per line")
    key = checked_key(keys[0], f"{option} {file}")
    assert key is not None
    return key


def checked_key(key: str | None, origin: str) -> str | None:
    """Return the key if a header can carry it; raise an error without the key otherwise."""
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidRequestError(
            f"the key of {origin} has characters that a key cannot have (spaces, control or non-ASCII)"
        )
    return key
