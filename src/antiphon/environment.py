"""Every environment variable that Antiphon reads. An argument given in code or on the command line comes first.

- `ANTIPHON_HOME`: the folder for models, the history of `antiphon chat`, the files and batches of a server, and
  compiled GPU kernels; the platform's cache folder when unset.
- `ANTIPHON_OFFLINE`: when set to anything but `0`, `false`, `no` or `off`, nothing is downloaded.
- `ANTIPHON_CONFIG`: the configuration file of a server.
- `ANTIPHON_` and the name of an option of `antiphon serve` in capitals, as in ANTIPHON_PORT: that option's value.
- `ANTIPHON_BASE_URL`: a running server that commands use instead of loading a model.
- `ANTIPHON_API_KEY`, `ANTIPHON_ADMIN_KEY`: the keys that commands send to that server.
- `HF_ENDPOINT`, `HF_HUB_CACHE` (or `HF_HOME`), `HF_HUB_OFFLINE`: the model hub's own variables for its address, its
  cache and whether it may be asked. `huggingface_hub` itself reads `HF_TOKEN` and the proxy variables.
- `DISPLAY`, `WAYLAND_DISPLAY`, `BROWSER`: whether a browser can be opened here.
- `NOTIFY_SOCKET`: set by systemd, where a server reports that it listens and still responds.
- `TRITON_CACHE_DIR`, `TRITON_HOME`: Triton's own variables for where compiled GPU kernels are kept; `kernels` in
  `ANTIPHON_HOME` when both are unset.
- `TRITON_INTERPRET`: Triton's own variable; when it is 1, its interpreter runs GPU kernels on the CPU, for tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from antiphon.errors import HomeError

DEFAULT_HUB_ENDPOINT = "https://huggingface.co"


def home() -> Path:
    """Return the folder of downloaded models, which need not exist yet; raise HomeError if it cannot be a folder."""
    chosen = os.environ.get("ANTIPHON_HOME")
    path = Path(chosen).expanduser().absolute() if chosen else _platform_cache() / "antiphon"
    _require_folder(path, "ANTIPHON_HOME" if chosen else "the folder for models")
    return path


def _platform_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def offline() -> bool:
    """Return whether downloads are forbidden for the whole process."""
    return os.environ.get("ANTIPHON_OFFLINE", "").strip().lower() not in ("", "0", "false", "no", "off")


def config_file() -> Path | None:
    """Return the configuration file of a server that the environment names, or None."""
    chosen = os.environ.get("ANTIPHON_CONFIG")
    return Path(chosen).expanduser() if chosen else None


def can_show_a_browser() -> bool:
    """Return whether a browser can open a window. Without a display, Python's `webbrowser` may use the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def option(variable: str) -> str | None:
    """Return the value of a server's option, or None if it is unset or empty."""
    return os.environ.get(variable) or None


def inherited(names: Iterable[str]) -> dict[str, str]:
    """Return the variables among `names` that are set, as the whole environment of a process."""
    return {name: os.environ[name] for name in names if name in os.environ}


def notify_socket() -> str | None:
    """Return the address where systemd receives messages about this service, or None."""
    return os.environ.get("NOTIFY_SOCKET") or None


def base_url() -> str | None:
    """Return the URL of the server that commands use by default, or None."""
    return os.environ.get("ANTIPHON_BASE_URL", "").strip() or None


def api_key() -> str | None:
    return os.environ.get("ANTIPHON_API_KEY", "").strip() or None


def admin_key() -> str | None:
    return os.environ.get("ANTIPHON_ADMIN_KEY", "").strip() or None


def hub_endpoint() -> str:
    """Return the address of the model hub, without a trailing slash."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_HUB_ENDPOINT).rstrip("/")


def hub_cache() -> Path:
    """Return the Hugging Face cache folder, as `huggingface_hub` finds it; it need not exist."""
    chosen = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if not chosen:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
        chosen = os.path.join(os.environ.get("HF_HOME") or os.path.join(caches, "huggingface"), "hub")
    return Path(os.path.expandvars(chosen)).expanduser().absolute()


def hub_is_off() -> bool:
    """Return whether `HF_HUB_OFFLINE` forbids all requests to the model hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE")


def _require_folder(path: Path, name: str) -> None:
    """Raise HomeError if `path` or one of its parents is a file, or may not be read."""
    for folder in (path, *path.parents):
        try:
            if folder.is_dir():
                return
            is_file = folder.exists()
        except PermissionError as error:
            raise HomeError(f"{name} ({path}) may not be read: set ANTIPHON_HOME to a folder of your own") from error
        if is_file:
            where = "a file, not a folder" if folder == path else f"inside {folder}, which is a file"
            raise HomeError(f"{name} ({path}) is {where}: set ANTIPHON_HOME to a folder")


def interprets_triton() -> bool:
    """Return whether Triton's interpreter runs GPU kernels; Triton reads the variable when it is imported."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def triton_cache_is_chosen() -> bool:
    """Return whether the user has set where Triton keeps compiled kernels."""
    return any(os.environ.get(name) for name in ("TRITON_CACHE_DIR", "TRITON_HOME"))
