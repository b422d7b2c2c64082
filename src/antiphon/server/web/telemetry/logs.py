"""Log lines for people or as JSON, without any text of clients or models."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any

logger = logging.getLogger("antiphon.server")


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    logger.log(level, event, extra={"fields": fields})


def log_failure(error: Exception, **fields: Any) -> None:
    """Log the origin of an unexpected error, without its message, which may contain text of a client."""
    log("internal error", logging.ERROR, error=type(error).__name__, frames=frames_of(error), **fields)


def frames_of(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames][-12:]


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields |= {"error": type(error).__name__, "frames": frames_of(error)}
    return fields


class JsonLines(logging.Formatter):
    """Formatter that writes one JSON object per line, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        line["event"] = record.getMessage()
        return json.dumps({**line, **fields_of(record)}, default=str)


class TextLines(logging.Formatter):
    """Formatter for people: local time, the level unless it is INFO, the event, and the rest as `name=value`.

    A request is written as in access logs: `POST /v1/embeddings 200 0.03s model=all-minilm-l6-v2`.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record)
        frames = fields.pop("frames", [])
        event = record.getMessage()
        if event == "request" and {"method", "route", "status", "seconds"} <= fields.keys():
            method, route, status, seconds = (fields.pop(name) for name in ("method", "route", "status", "seconds"))
            event = f"{method} {route} {status} {seconds:.2f}s"
        if "request_id" in fields:
            fields["request_id"] = fields.pop("request_id")  # last, since it is long
        parts = [time.strftime("%H:%M:%S", time.localtime(record.created))]
        parts += [record.levelname] if record.levelno != logging.INFO else []
        parts += [event, *(f"{name}={_shown(value)}" for name, value in fields.items())]
        return "\n".join([" ".join(parts), *(f"    {frame}" for frame in frames)])


def _shown(value: Any) -> str:
    """Return a field's value, quoted if it would not be read as one word."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text.isprintable() or not text or " " in text else text


def set_up_logs(with_requests: bool, format_: str = "auto") -> None:
    """Log to standard error: every request, or only warnings. `auto` means text on a terminal, JSON elsewhere."""
    handler = logging.StreamHandler()
    is_text = sys.stderr.isatty() if format_ == "auto" else format_ == "text"
    handler.setFormatter(TextLines() if is_text else JsonLines())
    root = logging.getLogger("antiphon")
    root.handlers = [handler]
    root.setLevel(logging.INFO if with_requests else logging.WARNING)
    root.propagate = False
