"""uv looks for packages where pip is configured to look."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "deploy" / "pip_sources.py"
CONFIGURED = """
[global]
index-url = https://mirror.example/simple
extra-index-url =
    https://first.example/simple
    https://second.example/simple
[install]
find-links = /wheels
"""


def printed(tmp_path: Path, configured: str, **variables: str) -> list[str]:
    """Return the arguments that the script prints under a pip configuration and variables."""
    (tmp_path / "pip.conf").write_text(configured)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), **variables}
    command = [sys.executable, str(SCRIPT)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


def test_each_source_is_given_to_uv(tmp_path: Path) -> None:
    assert printed(tmp_path, CONFIGURED, PIP_TRUSTED_HOST="mirror.example", PIP_NO_INDEX="0") == [
        *("--index-strategy", "unsafe-best-match"),
        *("--index", "https://mirror.example/simple", "--default-index", "https://mirror.example/simple"),
        *("--index", "https://first.example/simple", "--index", "https://second.example/simple"),
        *("--find-links", "/wheels"),
        *("--allow-insecure-host", "mirror.example"),
    ]


def test_a_variable_replaces_what_a_file_says(tmp_path: Path) -> None:
    arguments = printed(tmp_path, CONFIGURED, PIP_FIND_LINKS="/other", PIP_NO_INDEX="1")
    assert "--no-index" in arguments and "/other" in arguments and "/wheels" not in arguments


def test_the_default_index_comes_before_extra_ones(tmp_path: Path) -> None:
    arguments = printed(tmp_path, "[global]\nextra-index-url = https://extra.example/simple\n")
    indexes = [value for option, value in pairwise(arguments) if option == "--index"]
    assert len(indexes) == 2 and indexes[1] == "https://extra.example/simple"
