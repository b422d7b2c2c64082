"""The process that renders untrusted chat templates: `python -m antiphon.text.template_worker`."""

from __future__ import annotations

import pickle
from functools import lru_cache

from antiphon.errors import TemplateError
from antiphon.text.limited_worker import serve
from antiphon.text.template_sandbox import CompiledTemplate

#: Address space in bytes; Python and Jinja take some 100 MB.
MAX_BYTES = 1 << 30
MAX_TEMPLATES = 16
RENDERED, REJECTED = b"r", b"e"

compiled = lru_cache(MAX_TEMPLATES)(CompiledTemplate)


def answer(request: bytes) -> bytes:
    """Return the rendered text or the error message, after a byte that tells which.

    A request without variables only compiles its template, and its text is empty.
    """
    source, variables, guard = pickle.loads(request)
    try:
        template = compiled(source)
        text = "" if variables is None else template.render(variables, guard)
        return RENDERED + text.encode("utf-8", "surrogatepass")
    except TemplateError as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        return REJECTED + str(error).encode("utf-8", "surrogatepass")


if __name__ == "__main__":
    serve(answer, MAX_BYTES)
