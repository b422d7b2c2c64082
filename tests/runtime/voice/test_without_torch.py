"""A session runs in the server's process, which has no torch."""

from __future__ import annotations

import subprocess
import sys


def test_a_session_imports_without_torch() -> None:
    code = "import sys, antiphon.runtime.voice.session; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
