"""Which server a command talks to, if any: `--base-url` or ANTIPHON_BASE_URL, and the API key for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from antiphon import environment
from antiphon.errors import InvalidRequestError, UsageError

SHAPE = "write it as http://host:port"


@dataclass(frozen=True)
class ServerAddress:
    """A server's address, checked. `prefix` is the path before `/v1`."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    api_key: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """As in a URL and in a Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _default_port(self.scheme) else f"{name}:{self.port}"

    @classmethod
    def parse(cls, base_url: str, api_key: str | None = None, origin: str = "--base-url") -> ServerAddress:
        """`base_url` may end in `/v1`; `origin` is where it was given, for error messages."""
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
        return cls(parts.scheme, parts.hostname, port or _default_port(parts.scheme), prefix, api_key)


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def chosen_server(base_url: str | None, api_key_file: Path | None, local: bool) -> ServerAddress | None:
    """The server that a command is to use; None if it is to compute in this process."""
    if local:
        if base_url is not None:
            raise UsageError("--local and --base-url exclude each other")
        _reject_key_file(api_key_file)
        return None
    if base_url is not None:
        if not base_url.strip():
            raise UsageError("--base-url is empty; to ignore ANTIPHON_BASE_URL, use --local")
        return ServerAddress.parse(base_url, api_key(api_key_file))
    from_environment = environment.base_url()
    if from_environment is None:
        _reject_key_file(api_key_file)
        return None
    return ServerAddress.parse(from_environment, api_key(api_key_file), "ANTIPHON_BASE_URL")


def _reject_key_file(api_key_file: Path | None) -> None:
    if api_key_file is not None:
        raise UsageError("--api-key-file is for a server; give its address with --base-url")


def api_key(file: Path | None) -> str | None:
    """The key for a server's API: the file's, else the environment's."""
    if file is not None:
        return key_in(file, "--api-key-file")
    return checked_key(environment.api_key(), "ANTIPHON_API_KEY")


def key_in(file: Path, option: str) -> str:
    """The first key of a file that has one key per line, as a server reads it."""
    try:
        lines = file.expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidRequestError(f"cannot read the {option} {file}: {reason}") from error
    keys = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    if not keys:
        raise InvalidRequestError(f"the {option} {file} has no key: write one key per line")
    key = checked_key(keys[0], f"{option} {file}")
    assert key is not None
    return key


def checked_key(key: str | None, origin: str) -> str | None:
    """A key that a header can carry; the message does not show it."""
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidRequestError(
            f"the key of {origin} has characters that a key cannot have (spaces, control or non-ASCII)"
        )
    return key
