"""`RouteTable`: the routes of a server, the full form of a path, and suggestions for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from starlette.routing import BaseRoute, Route, WebSocketRoute

from antiphon.server.web.http.errors import ApiError

PREFIX = "/v1/"
MAX_PATH_SHOWN = 200
MIN_LIKENESS = 0.5


class RouteTable:
    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        known = list(routes)
        self.routes = [route for route in known if isinstance(route, Route)]
        paths = [route.path for route in known if isinstance(route, Route | WebSocketRoute)]
        own = {_first_segment(path) for path in paths if not path.startswith(PREFIX)}
        prefixed = {_first_segment(path.removeprefix(PREFIX)) for path in paths if path.startswith(PREFIX)}
        self._unprefixed = prefixed - own

    def canonical(self, path: str) -> str:
        """Return the path with `/v1` before it if that was left out."""
        return f"/v1{path}" if _first_segment(path) in self._unprefixed and path.startswith("/") else path

    def methods(self, path: str) -> list[str]:
        """Return the methods of the path; empty if there is no such path."""
        found = {method for route in self.routes if route.path_regex.match(path) for method in route.methods or ()}
        return sorted(found | ({"HEAD"} if "GET" in found else set()))

    def not_found(self, method: str, path: str) -> ApiError:
        near = self._nearest(method, path[:MAX_PATH_SHOWN])
        hint = f"; did you mean {near}?" if near else ""
        return ApiError(404, f"there is no route {_shown(method, path)}{hint}", code="not_found")

    def not_allowed(self, method: str, path: str) -> ApiError:
        methods = self.methods(path)
        message = f"there is no route {_shown(method, path)}; this path allows {', '.join(methods)}"
        return ApiError(405, message, code="method_not_allowed", headers={"allow": ", ".join(methods)})

    def _nearest(self, method: str, path: str) -> str | None:
        """Return the route with the most similar path, preferably of the same method, or None."""
        public = [route for route in self.routes if route.include_in_schema]
        for routes in ([route for route in public if method in (route.methods or ())], public):
            found = difflib.get_close_matches(path, [route.path for route in routes], n=1, cutoff=MIN_LIKENESS)
            if found:
                route = next(route for route in routes if route.path == found[0])
                return f"{method if method in (route.methods or ()) else min(route.methods or ())} {_plain(route.path)}"
        return None


def _first_segment(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]


def _plain(path: str) -> str:
    """Return the path without the converters of its parameters."""
    return path.replace(":path}", "}")


def _shown(method: str, path: str) -> str:
    cut = path[:MAX_PATH_SHOWN]
    return f"{method[:20]} {cut if cut.isprintable() else ascii(cut)[1:-1]}"
