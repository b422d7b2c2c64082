"""llm: a model and an embedding model configured by file, a prompt, a stream and a schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import BASE_URL, CHAT, KEY, QUESTION, SCHEMA

with tempfile.TemporaryDirectory() as folder:
    entry = {"model_id": "ours", "model_name": CHAT, "api_base": BASE_URL, "api_key_name": "ours"}
    entry["supports_schema"] = True
    Path(folder, "extra-openai-models.yaml").write_text(json.dumps([entry]))
    Path(folder, "keys.json").write_text(json.dumps({"ours": KEY}))
    environment = os.environ | {"LLM_USER_PATH": folder}

    def ask(*arguments: str) -> str:
        command = [sys.executable, "-m", "llm", "prompt", "-m", "ours", QUESTION, "-o", "max_tokens", "40", *arguments]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    options = ("-o", "temperature", "0")
    assert ask(*options) == ask("--no-stream", *options) != ""
    assert json.loads(ask("--schema", json.dumps(SCHEMA), *options))["sky"] in ("blue", "grey")
