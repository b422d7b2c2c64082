"""`--adapter`: which model an adapter belongs to, and what is rejected before the server starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import InvalidRequestError, ModelNotFoundError
from antiphon.server.serving.setup.config import AdapterSpec
from antiphon.server.serving.setup.launch_plan import LaunchPlan
from antiphon.server.serving.setup.settings import ServerSettings
from support.models.adapters import random_pairs, write_peft
from support.models.tiny_model import tiny_state


def plan(models: list[str], adapter: str) -> LaunchPlan:
    return LaunchPlan.of(ServerSettings.gather({"models": models, "adapters": [adapter]}, None))


def test_adapters(chat_folder: Path, tmp_path: Path) -> None:

    path, base = str(write_peft(tmp_path / "one", random_pairs(tiny_state(), 4, 1), 8)), str(chat_folder)
    expected = (AdapterSpec(chat_folder.name, "one", path),)
    assert plan([base], f"one={path}").config.adapters == expected
    assert plan([base, "all-minilm-l6-v2"], f"one={path}").config.adapters == expected
    assert plan([base, "smollm2-135m"], f"smollm2-135m:one={path}").config.adapters[0].base == "smollm2-135m"
    with pytest.raises(InvalidRequestError, match=r"could be for .* or smollm2-135m: name it MODEL:one"):
        plan([base, "smollm2-135m"], f"one={path}")
    with pytest.raises(InvalidRequestError, match="is for 'nobody'; the models are"):
        plan([base], f"nobody:one={path}")
    with pytest.raises(InvalidRequestError, match="is not valid"):
        plan([base], f"o ne={path}")
    with pytest.raises(ModelNotFoundError, match="there is no adapter"):
        plan([base], f"one={tmp_path / 'nothing'}")
