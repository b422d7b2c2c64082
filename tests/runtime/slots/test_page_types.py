"""Page types that a device has no kernels for are rejected when a model is loaded."""

from __future__ import annotations

import pytest

from antiphon import Engine
from antiphon.errors import UnsupportedError
from antiphon.ops import native
from antiphon.runtime.loading.loading import LoadedModel


@pytest.mark.skipif(not native.available(), reason="the reference has all page types")
@pytest.mark.parametrize("name", ["key_type", "value_type"])
def test_fp8_on_the_cpu(name: str, tiny_loaded: LoadedModel) -> None:
    options = {"key_type": "fp16", "value_type": "fp16", name: "fp8"}
    with pytest.raises(UnsupportedError, match="fp8 pages are not supported on the CPU; use int8"):
        Engine(tiny_loaded, device="cpu", kv_bytes=8 << 20, **options)  # type: ignore[arg-type]
