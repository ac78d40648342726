"""Structured logs: one JSON object a line, with the ids of the task they are about, and never a secret."""

from __future__ import annotations

import json
import logging
import logging.handlers
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from callboard_adapters import redact
from callboard_daemon.files import private_dir
from callboard_daemon.paths import Paths

MAX_BYTES: Final = 20 * 1024 * 1024
BACKUPS: Final = 5
_about: ContextVar[dict[str, str]] = ContextVar("about")


@contextmanager
def about(**ids: str) -> Iterator[None]:
    """Every log line inside the context, in this task and in those it starts, carries these ids."""
    token = _about.set({**_about.get({}), **ids})
    try:
        yield
    finally:
        _about.reset(token)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact.diagnostic(record.getMessage()),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            entry["exception"] = redact.diagnostic(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """For a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        task = getattr(record, "about", {}).get("task_id", "")
        text = f"{at} {record.levelname.lower():7} {redact.diagnostic(record.getMessage())}"
        if record.exc_info:
            text += "\n" + redact.text(self.formatException(record.exc_info))
        return f"{text} [{task}]" if task else text


def _remember(record: logging.LogRecord) -> bool:
    record.about = _about.get({})
    return True


@contextmanager
def logging_to(paths: Paths, level: str, *, stderr: bool) -> Iterator[None]:
    """Log to the profile's rotating file, and to stderr as well when `stderr` is set. Raises `OSError` for a log
    folder that cannot be written."""
    private_dir(paths.log_dir)
    rotating = logging.handlers.RotatingFileHandler(paths.log_file, maxBytes=MAX_BYTES, backupCount=BACKUPS)
    rotating.setFormatter(JsonFormatter())
    handlers: list[logging.Handler] = [rotating]
    if stderr:
        screen = logging.StreamHandler(sys.stderr)
        screen.setFormatter(PlainFormatter() if sys.stderr.isatty() else JsonFormatter())
        handlers.append(screen)
    root = logging.getLogger()
    for handler in handlers:
        handler.addFilter(_remember)
        root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line a request, address and all, is not ours to keep
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
