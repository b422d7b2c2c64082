"""The sandboxed Jinja environment of chat templates, which bounds their work and the text they write.

A template comes with a model file, so it is an untrusted program. It cannot reach Python's internals, and an endless
loop or string ends in an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from string import Formatter
from typing import Any, ClassVar

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError, TemplateSyntaxError
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace

from antiphon.errors import TemplateError

MAX_STEPS = 200_000
MAX_ERROR_CHARACTERS = 300
MAX_CHARACTERS = 16_000_000
MAX_NUMBER_BITS = 256
TICK = "antiphon_tick"
BOUND = "antiphon_bound"

_steps: ContextVar[list[int]] = ContextVar("steps")
_guard: ContextVar[str] = ContextVar("guard", default="")


def start_rendering(guard: str = "") -> None:
    """Reset the step limit for the rendering that follows in this context.

    `guard` is a character that JSON must not escape, because it is removed from the prompt later.
    """
    _steps.set([MAX_STEPS])
    _guard.set(guard)


def _tick(steps: int = 1) -> None:
    left = _steps.get()
    left[0] -= steps
    if left[0] < 0:
        raise TemplateRuntimeError(f"the template takes more than {MAX_STEPS} steps")


def _range(*bounds: int) -> range:
    """Return Jinja's bounded `range` and count its length as steps, since filters iterate over it too."""
    numbers = safe_range(*bounds)
    _tick(len(numbers))
    return numbers


def _dict(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return dict(*args, **kwargs)


def _bound(value: Any) -> Any:
    """Return the value, or raise `TemplateRuntimeError` if it is larger than any prompt needs."""
    if isinstance(value, str | bytes | list | tuple | dict) and len(value) > MAX_CHARACTERS:
        raise TemplateRuntimeError(f"the template makes a value longer than {MAX_CHARACTERS}")
    if isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
        raise TemplateRuntimeError(f"the template makes a number of more than {MAX_NUMBER_BITS} bits")
    return value


def _insert_limits(template: nodes.Template) -> None:
    """Count every iteration of a loop and every call of a macro, and bound the result of every `~`."""
    for name in template.find_all(nodes.Name):
        if name.name in (TICK, BOUND):
            raise TemplateSyntaxError(f"the name {name.name!r} is reserved", name.lineno)
    counted: list[nodes.For | nodes.Macro | nodes.CallBlock] = [
        *template.find_all(nodes.For),
        *template.find_all(nodes.Macro),
        *template.find_all(nodes.CallBlock),
    ]
    for node in counted:
        tick = nodes.ExprStmt(nodes.Call(nodes.Name(TICK, "load"), [], [], None, None))
        node.body.insert(0, tick.set_lineno(node.lineno))
    for concat in list(template.find_all(nodes.Concat)):
        inner = nodes.Concat(concat.nodes)
        bounded = nodes.Call(nodes.Name(BOUND, "load"), [inner], [], None, None)
        bounded.set_lineno(concat.lineno)
        concat.nodes = [bounded]


class TemplateNamespace(Namespace):
    """Jinja's `namespace` without names that begin with an underscore."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise SecurityError(f"the template sets {name!r} in a namespace")
        super().__setitem__(name, value)


class CompiledTemplate:
    """A compiled template in its own sandbox. Every failure is a `TemplateError` with a message of one line."""

    def __init__(self, source: str) -> None:
        with _compile_errors():
            sandbox = TemplateSandbox()
            tree = sandbox.parse(source)
            _check_names(sandbox, tree)
            self._template = sandbox.from_string(tree)

    def render(self, variables: dict[str, Any], guard: str = "") -> str:
        """Return the rendered text; `guard` is a character that JSON must not escape."""
        start_rendering(guard)
        try:
            return "".join(_bounded(self._template.generate(**variables)))
        except TemplateError:
            raise
        except Exception as error:
            raise TemplateError(f"the chat template refused the messages: {_line(error)}") from error


def _check_names(sandbox: TemplateSandbox, template: nodes.Template) -> None:
    """Reject unknown filters and tests, also in branches where Jinja would look them up only when rendering."""
    for node in template.find_all((nodes.Filter, nodes.Test)):
        known = sandbox.filters if isinstance(node, nodes.Filter) else sandbox.tests
        if node.name not in known:
            raise TemplateSyntaxError(f"no filter or test named {node.name!r}", node.lineno)


@contextmanager
def _compile_errors() -> Iterator[None]:
    try:
        yield
    except TemplateSyntaxError as error:
        raise TemplateError(f"the chat template does not compile, line {error.lineno}: {_line(error)}") from error
    except (JinjaError, RecursionError, ValueError, OverflowError, SyntaxError, MemoryError) as error:
        raise TemplateError(f"the chat template does not compile: {_line(error)}") from error


def _bounded(parts: Iterator[str]) -> Iterator[str]:
    size = 0
    for part in parts:
        size += len(part)
        if size > MAX_CHARACTERS:
            raise TemplateError(f"the chat template writes more than {MAX_CHARACTERS} characters")
        yield part


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, RecursionError):
        text = "it calls itself too deeply"
    return text if len(text) <= MAX_ERROR_CHARACTERS else text[:MAX_ERROR_CHARACTERS] + "…"


class GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}`, which marks answers for training: its content is rendered as usual."""

    tags: ClassVar[set[str]] = {"generation"}  # type: ignore[misc]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The Jinja environment that Hugging Face's chat templates expect."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols])
        self.filters["tojson"] = _tojson
        for name in ("center", "indent", "format", "replace", "join", "wordwrap"):
            self.filters[name] = _bounded_filter(self.filters[name])
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["range"] = _range
        self.globals["dict"] = _dict
        self.globals["namespace"] = TemplateNamespace
        del self.globals["lipsum"]
        self.globals[TICK] = _tick
        self.globals[BOUND] = _bound

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _insert_limits(template)
        template.set_environment(self)
        return template

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            for text, times in ((left, right), (right, left)):
                if isinstance(text, str | list | tuple) and isinstance(times, int):
                    _check_size(len(text) * times)
        elif operator == "**":
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MAX_NUMBER_BITS:
                raise TemplateRuntimeError(f"the template raises {left.bit_length()} bits to the power of {right}")
        elif operator == "%" and isinstance(left, str):
            _check_percent_format(left)
        return _bound(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Check the format string here, because the function that Jinja replaces `str.format` with hides it."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_brace_format(value.__self__)
        return wrapped

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str):
            _check_arguments(owner, function.__name__, args)
        return _bound(super().call(context, function, *args, **kwargs))


def _check_size(size: int) -> None:
    if size > MAX_CHARACTERS:
        raise TemplateRuntimeError(f"the template makes a value of {size} characters; {MAX_CHARACTERS} are allowed")


def _check_format(text: str) -> None:
    """Reject a `%` or `str.format` format string whose widths have a large sum."""
    _check_size(len(text) + sum(int(number[:12]) for number in re.findall("[0-9]+", text)))


def _check_percent_format(text: str) -> None:
    _check_format(text)
    if re.search(r"%[-+ #0-9.]*\*", text):
        raise SecurityError("the template formats with a width taken from an argument")


def _check_brace_format(text: str) -> None:
    _check_format(text)
    if any("{" in (spec or "") for _, _, spec, _ in Formatter().parse(text)):
        raise SecurityError("the template formats with a width taken from an argument")


def _check_arguments(owner: str, name: str, args: tuple[Any, ...]) -> None:
    """Reject a call of a string method whose result would be far longer than its string, before it runs."""
    if name == "replace" and len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        _check_size(len(owner) + owner.count(args[0]) * len(args[1]))
    elif name == "join" and args and isinstance(args[0], list | tuple | str):
        _check_size(len(owner) * len(args[0]))
    elif name == "expandtabs":
        _check_size(owner.count("\t") * max((arg for arg in args if isinstance(arg, int)), default=8))
    else:
        for argument in args:
            if isinstance(argument, int):
                _check_size(argument)


def _bounded_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter with a check that rejects arguments which would make its result huge."""

    def bounded(*args: Any, **kwargs: Any) -> Any:
        texts = [value for value in args if isinstance(value, str)]
        if function.__name__ == "do_format" and texts:
            _check_percent_format(texts[0])
        if function.__name__ == "do_replace" and len(texts) >= 3:
            _check_size(len(texts[0]) + texts[0].count(texts[1]) * len(texts[2]))
        for value in (*args, *kwargs.values()):
            if isinstance(value, int):
                _check_size(value)
        return _bound(function(*args, **kwargs))

    for mark in ("jinja_pass_arg", "jinja_async_variant"):
        if hasattr(function, mark):
            setattr(bounded, mark, getattr(function, mark))
    return bounded


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON without Jinja's HTML escapes; the options are those that Hugging Face's templates use."""
    if isinstance(indent, int):
        _check_size(indent * 1000)
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    guard = _guard.get()
    return text.replace(json.dumps(guard)[1:-1], guard) if ensure_ascii and guard else text


def _raise_exception(message: Any) -> str:
    raise TemplateRuntimeError(str(message))


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)
