"""The server log: JSON lines, or text on a terminal. structlog is imported when the first line is written."""

import logging
import sys
from functools import cache
from typing import Any

from anygpu.errors import AnygpuError, Internal
from anygpu.printable import printable

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_options = {"level": "info", "format": "auto"}


def configure(level: str, style: str) -> None:
    """Set the level and style of the log. `style` is json, text or auto."""
    _options.update(level=level, format=style)
    _forward_library_logs()


def info(event: str, **details: Any) -> None:
    if LEVELS[_level()] <= LEVELS["info"]:
        _logger().info(event, **details)


def warning(event: str, **details: Any) -> None:
    if LEVELS[_level()] <= LEVELS["warning"]:
        _logger().warning(event, **details)


def failure(event: str, error: BaseException, **details: Any) -> None:
    """Log a failure that does not stop the server. Only unexpected errors, which may be bugs, get a traceback."""
    if isinstance(error, AnygpuError) and not isinstance(error, Internal):
        _logger().error(event, error=str(error), code=error.code, **details)
    else:
        _logger().error(event, exc_info=error, **details)


def _level() -> str:
    return _options["level"] if _options["level"] in LEVELS else "info"


@cache
def _logger() -> Any:
    import structlog

    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if _is_text():
        processors += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()), _escape_controls]
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return structlog.wrap_logger(structlog.PrintLogger(sys.stderr), processors=processors)


def _escape_controls(logger: Any, method: str, line: str) -> str:
    """Make control characters visible: names and messages in the log come from users and jobs."""
    return printable(line, colours=sys.stderr.isatty())


def _is_text() -> bool:
    return _options["format"] == "text" or (_options["format"] == "auto" and sys.stderr.isatty())


class _ForwardHandler(logging.Handler):
    """Forwards warnings of libraries to the server log."""

    def emit(self, record: logging.LogRecord) -> None:
        details = {"logger": record.name}
        if record.exc_info and record.exc_info[1]:
            failure(record.getMessage(), record.exc_info[1], **details)
        else:
            warning(record.getMessage(), **details)


def _forward_library_logs() -> None:
    root = logging.getLogger()
    root.handlers = [_ForwardHandler(level=logging.WARNING)]
    root.setLevel(logging.WARNING)
