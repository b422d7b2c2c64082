"""`/api/pull`: one download for all requests of a model, which outlives them, and only of what requests may load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from antiphon.errors import FetchError
from antiphon.runtime.residency.resident import Resident
from antiphon.server.apis.ollama.pull import _lines, _reference
from antiphon.server.serving import downloads as downloads_module
from antiphon.server.serving.downloads import Downloads
from antiphon.server.serving.models import ServedModels
from antiphon.server.serving.setup.config import LoadOnUse, ModelSpec, ServerConfig
from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.middleware import gate
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.telemetry.metrics import Metrics
from antiphon.weights.catalog.fetch import FetchProgress
from support.waiting import wait_until_async

Report = Callable[[FetchProgress], None]


def test_requests_share_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    async def main() -> None:
        release = asyncio.Event()

        async def fetch(reference: str, offline: bool, report: Report, cancelled: object) -> None:
            begun.append(reference)
            report(FetchProgress(reference, "fetching", 10, 100))
            await release.wait()
            if reference == "broken":
                raise FetchError("the hub is not reachable")

        monkeypatch.setattr(downloads_module, "fetch_model", fetch)
        downloads = Downloads(offline=False)
        first = downloads.start("a")
        assert downloads.start("a") is first and len(downloads) == 1
        waiting = asyncio.create_task(first.wait())
        await wait_until_async(lambda: begun, "the download to begin")
        waiting.cancel()  # its client disconnected
        await asyncio.gather(waiting, return_exceptions=True)
        assert not first.task.done() and begun == ["a"]
        lines = _lines(first, RequestContext("x"))
        assert b"pulling manifest" in await anext(lines)
        others = [downloads.start(name) for name in ("b", "c", "broken")]
        with pytest.raises(ApiError, match="4 models are being downloaded; at most 4") as refused:
            downloads.start("e")
        assert refused.value.status == 503 and "retry-after" in refused.value.headers
        release.set()
        assert [line async for line in lines] == [
            b'{"status":"fetching","completed":10,"total":100}\n',
            b'{"status":"success"}\n',
        ]
        assert b"not reachable" in b"".join([line async for line in _lines(others[-1], RequestContext("x"))])
        assert not len(downloads) and downloads.start("a") is not first

    asyncio.run(main())


@pytest.mark.parametrize(
    ("allowed", "name", "wanted"),
    [
        (LoadOnUse.CONFIGURED, "own", "/a/path"),
        (LoadOnUse.CONFIGURED, "smollm2-135m", None),
        (LoadOnUse.CATALOG, "SmolLM2-135m", "smollm2-135m"),
        (LoadOnUse.CATALOG, "hub:some/repository", None),
        (LoadOnUse.HUB, "hub:some/repository", "hub:some/repository"),
        (LoadOnUse.HUB, "/etc/passwd", None),
    ],
)
def test_names_are_resolved_without_being_kept(allowed: LoadOnUse, name: str, wanted: str | None) -> None:
    config = ServerConfig(models=(ModelSpec("own", "/a/path"),), load_on_use=allowed, memory_bytes=1 << 30)
    client: Any = SimpleNamespace(kv_bytes=1 << 20, on_state=None)
    models = ServedModels(config, client)
    serving: Any = SimpleNamespace(models=models, config=config)
    known = set(models.residency.models)
    if wanted is None:
        with pytest.raises(ApiError) as refused:
            _reference(serving, name)
        assert refused.value.status == 404
    else:
        assert _reference(serving, name) == wanted
    assert set(models.residency.models) == known


def test_the_path_of_an_adapter_is_not_fetched() -> None:
    config = ServerConfig(models=(ModelSpec("own", "/a/path"),), memory_bytes=1 << 30)
    client: Any = SimpleNamespace(kv_bytes=1 << 20, on_state=None)
    models = ServedModels(config, client)
    models.residency.add(Resident("own:style", "/a/style", base=models.residency.models["own"]))
    serving: Any = SimpleNamespace(models=models, config=config)
    with pytest.raises(ApiError, match="'own:style' is an adapter") as refused:
        _reference(serving, "own:style")
    assert refused.value.status == 400 and "/a/style" not in refused.value.message


def test_a_download_has_no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SLACK_SECONDS", 0.0)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(20):  # longer than the limit, which is no time at all
            await asyncio.sleep(0)
        await json_response({})(scope, receive, send)

    async def main() -> list[int]:
        hosts = AllowedHosts("127.0.0.1")
        rules = Rules(AdminAccess(None, hosts), hosts, request_seconds=0.0)
        guarded = gate.Gate(app, rules, ActiveRequests(), Metrics(), lambda: False)
        transport = httpx.ASGITransport(guarded)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [(await client.post(path)).status_code for path in ("/api/pull", "/api/chat")]

    assert asyncio.run(main()) == [200, 504]
