"""What the log of `purgatory serve` looks like: lines of text, or a JSON object a line."""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import Any, Final

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What every record has; other attributes were given as `extra`.
_COMMON: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line: time, level, logger, thread, message.

    `time` is ISO 8601, UTC. `fields` has what was given as `extra`, `exception` the traceback; both
    are left out if there is none. Values that JSON does not know are shown as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        time = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        fields = {name: value for name, value in vars(record).items() if name not in _COMMON}
        if fields:
            line["fields"] = fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure_logging(log_format: str, *, verbose: bool) -> None:
    """Log to stderr, as "text" or as "json"; warnings and worse, or what is done, too."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
