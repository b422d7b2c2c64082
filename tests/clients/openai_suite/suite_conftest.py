"""Fixtures for the tests of openai-python's own `tests/api_resources`, which are run against a real server.

Those tests were written for a mock that answers anything: their ids name nothing, their files hold "Example data" and
some of their numbers ask for nothing. `mapping` replaces these by real ones on the way to the server. Copied into the
folder of the unpacked tests by `tests/clients/test_openai_suite.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from mapping import Mapping
from openai import AsyncOpenAI, OpenAI

BASE_URL = os.environ["TEST_API_BASE_URL"]
pytest.register_assert_rewrite("tests.utils")


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    from pytest_asyncio import is_async_test

    for item in items:
        if is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "respx2: routes that are mocked; here the server answers")


class Mapped(httpx2.BaseTransport):
    def __init__(self) -> None:
        self._inner = httpx2.HTTPTransport()
        self._mapping = Mapping(BASE_URL)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        response = self._inner.handle_request(self._mapping.request(request))
        if not self._mapping.is_mocked(request):
            return response
        return self._mapping.mocked(response, response.read())


class AsyncMapped(httpx2.AsyncBaseTransport):
    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._mapping = Mapping(BASE_URL)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        response = await self._inner.handle_async_request(self._mapping.request(request))
        if not self._mapping.is_mocked(request):
            return response
        return self._mapping.mocked(response, await response.aread())


class Unmocked:
    """Takes the place of a mock's routes, and mocks nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


@pytest.fixture
def respx2_mock() -> Unmocked:
    return Unmocked()


def _options(param: Any) -> dict[str, Any]:
    strict = param.get("strict", True) if isinstance(param, dict) else bool(param)
    return dict(base_url=BASE_URL, api_key="My API Key", _strict_response_validation=strict, max_retries=0, timeout=60)


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest) -> Iterator[OpenAI]:
    with OpenAI(http_client=httpx2.Client(transport=Mapped()), **_options(getattr(request, "param", True))) as made:
        yield made


@pytest.fixture(scope="session")
async def async_client(request: pytest.FixtureRequest) -> AsyncIterator[AsyncOpenAI]:
    http = httpx2.AsyncClient(transport=AsyncMapped())
    async with AsyncOpenAI(http_client=http, **_options(getattr(request, "param", True))) as made:
        yield made
