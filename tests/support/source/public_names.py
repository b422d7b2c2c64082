"""The names that the signatures of the public classes use, found by walking them from `Engine` and `AsyncEngine`."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar, get_args

from antiphon import AsyncEngine, Engine
from support.python_docs import NOT_CONSTRUCTED, is_internal, members

#: Classes that are handed back and forth, whose attributes are for the engine itself.
OPAQUE = {"LoadedModel", "LoadedAdapter", "MachineLimits", "ModelProfile", "StepRecord", "TextFeed"}
#: Methods without a name in the reference that a caller uses by syntax.
PROTOCOLS = ("__iter__", "__next__", "__aiter__", "__anext__", "__enter__", "__aenter__")


def public_names(*roots: type) -> dict[str, Any]:
    """Return classes and type aliases of the package by the name that a public signature calls them."""
    found: dict[str, Any] = {}
    todo: list[Any] = list(roots or (Engine, AsyncEngine))
    done: list[Any] = []
    while todo:
        one = todo.pop()
        if one in done:
            continue
        done.append(one)
        if not isinstance(one, type):  # an alias, or the argument of a generic base
            todo += _classes(one)
            continue
        found[one.__name__] = one
        if one.__name__ in OPAQUE:
            continue
        todo += [argument for base in getattr(one, "__orig_bases__", ()) for argument in get_args(base)]
        for annotation, module in _annotations(one):
            for name in re.findall(r"[A-Za-z_]\w*", annotation):
                known = vars(builtins) | vars(module)
                if name not in known:
                    raise LookupError(
                        f"{one.__name__} names {name}, which {module.__name__} has only for type checkers"
                    )
                if _is_ours(name, meant := known[name]):
                    found[name] = meant
                    todo.append(meant)
    return found


def _is_ours(name: str, meant: Any) -> bool:
    if isinstance(meant, type):
        return meant.__module__.startswith("antiphon.")
    if isinstance(meant, ModuleType | TypeVar) or meant is None:
        return False
    return meant is not getattr(typing, name, None)


def _classes(alias: Any) -> Iterator[type]:
    for argument in get_args(alias):
        if isinstance(argument, type) and argument.__module__.startswith("antiphon."):
            yield argument
        else:
            yield from _classes(argument)


def _annotations(one: type) -> Iterator[tuple[str, ModuleType]]:
    """Yield the annotations of the class's public methods, properties and fields, with the module that they are in."""
    functions: list[Callable[..., Any]] = [
        member.fget if isinstance(member, property) else member for _, member in members(one)
    ]
    functions += [member for name in PROTOCOLS if inspect.isfunction(member := getattr(one, name, None))]
    if dataclasses.is_dataclass(one):
        for base in one.__mro__:
            names = [name for name in vars(base).get("__annotations__", {}) if not is_internal(one, base, name)]
            yield from ((vars(base)["__annotations__"][name], sys.modules[base.__module__]) for name in names)
    elif one not in NOT_CONSTRUCTED and inspect.isfunction(one.__init__):
        functions.append(one.__init__)
    for function in functions:
        for each in [*typing.get_overloads(function), function]:
            for annotation in each.__annotations__.values():
                yield str(annotation), sys.modules[each.__module__]
