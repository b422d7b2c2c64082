"""Log lines as JSON. What a client wrote, or a model answered, is never in them."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any

logger = logging.getLogger("antiphon.server")


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    logger.log(level, event, extra={"fields": fields})


def log_failure(error: Exception, **fields: Any) -> None:
    """Where an unforeseen error came from. Its message is left out: it may hold what a client wrote."""
    log("failure", logging.ERROR, error=type(error).__name__, frames=frames_of(error), **fields)


def frames_of(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames][-12:]


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        line["event"] = record.getMessage()
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields |= {"error": type(error).__name__, "frames": frames_of(error)}
        return json.dumps({**line, **fields}, default=str)


def set_up_logs(with_requests: bool) -> None:
    """Lines on standard error: every request, or only what went wrong."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger("antiphon")
    root.handlers = [handler]
    root.setLevel(logging.INFO if with_requests else logging.WARNING)
    root.propagate = False
