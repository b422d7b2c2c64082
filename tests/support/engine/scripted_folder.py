"""Model folder whose model generates the answers that a test gives it, through a real engine and a real server.

A grammar that rejects an answer changes it, as it changes the answer of any model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from support.architectures import FOLDER
from support.architectures.scripted import ARCHITECTURE, SCRIPT
from support.engine.forked_engine import ForkedClient, ForkedEngineProcess
from support.models.tiny_model import EMBEDDING_ROWS, write_folder


@dataclass
class Script:
    """Answers of a folder's model to the next requests."""

    folder: Path
    number: int = 0

    def write(self, *texts: str) -> None:
        """Set the next answers; the last is repeated. Texts may contain control tokens."""
        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.number += 1
        end = tokenizer.token_to_id("<|im_end|>")
        answers = [[*tokenizer.encode(text, add_special_tokens=False).ids, end] for text in texts]
        path = self.folder / "script.json"
        path.with_suffix(".new").write_text(json.dumps({"number": self.number, "answers": answers}))
        path.with_suffix(".new").replace(path)


def write_scripted(
    folder: Path, chat_template: str, control_tokens: tuple[str, ...] = (), context: int = 4096
) -> Script:
    config = {"model_type": ARCHITECTURE, "vocab_size": EMBEDDING_ROWS, "max_position_embeddings": context}
    config[SCRIPT] = str(folder / "script.json")
    write_folder(folder, {"weight": torch.zeros(1)}, config, chat_template)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(list(control_tokens))
    tokenizer.save(str(folder / "tokenizer.json"))
    script = Script(folder)
    script.write("")
    return script


class ScriptedProcess(ForkedEngineProcess):
    before = f"import antiphon.models; antiphon.models.__path__.append({FOLDER!r})"


class ScriptedClient(ForkedClient):
    """Engine client whose engine can load scripted models."""

    process_class = ScriptedProcess
