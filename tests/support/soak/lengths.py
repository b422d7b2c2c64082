"""`soak` for tests that have a short and a full length: the short one is an ordinary test, the full one a soak test."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", params=[False, pytest.param(True, marks=pytest.mark.soak)], ids=["few", "many"])
def soak(request: pytest.FixtureRequest) -> bool:
    """Return whether a test runs at its full length."""
    return bool(request.param)
