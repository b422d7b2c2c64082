"""Every environment variable that Antiphon reads. An argument given in code or on the command line comes first.

- `ANTIPHON_HOME`: where models and the history of `antiphon chat` are kept; the platform's cache folder when unset.
- `ANTIPHON_OFFLINE`: when set to anything but `0`, `false`, `no` or `off`, nothing is fetched.
- `ANTIPHON_CONFIG`: the configuration file of a server.
- `ANTIPHON_` and the name of an option of `antiphon serve` in capitals, as in ANTIPHON_PORT: that option's value.
- `HF_ENDPOINT`, `HF_TOKEN`: the model hub's own variables for its address and for access to gated models.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DEFAULT_HUB_ENDPOINT = "https://huggingface.co"


def home() -> Path:
    """The folder that holds fetched models; it need not exist yet."""
    chosen = os.environ.get("ANTIPHON_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "antiphon"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "antiphon"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon"


def offline() -> bool:
    """Whether fetching is forbidden for the whole process."""
    return os.environ.get("ANTIPHON_OFFLINE", "").strip().lower() not in ("", "0", "false", "no", "off")


def config_file() -> Path | None:
    """The configuration file of a server, if the environment names one."""
    chosen = os.environ.get("ANTIPHON_CONFIG")
    return Path(chosen).expanduser() if chosen else None


def option(variable: str) -> str | None:
    """The value of a server's option; one that is set to nothing is not set."""
    return os.environ.get(variable) or None


def hub_endpoint() -> str:
    """The address of the model hub, without a slash at its end."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_HUB_ENDPOINT).rstrip("/")


def hub_token() -> str | None:
    return os.environ.get("HF_TOKEN") or None
