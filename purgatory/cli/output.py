"""Output of commands: texts, tables and lines of JSON."""

import base64
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from purgatory.cli.connection import BAD_NEWS
from purgatory.cli.options import import_extra
from purgatory.printable import counted, printable, printable_json

#: Characters of an id in a table of 80 columns.
SHORT_ID: Final = 16
SPANS: Final = ((86_400, "d"), (3600, "h"), (60, "min"))


def say(text: str, *, file: TextIO | None = None) -> None:
    """Print a line that may contain foreign texts."""
    print(printable(text), file=file)


def value_text(value: Any) -> str:
    """Return a text as it is, any other value as JSON."""
    return value if isinstance(value, str) else printable_json(json_text(value, is_ascii=False))


def json_text(value: Any, *, is_ascii: bool = True) -> str:
    """Return a value as one line of JSON: bytes as base64, times as in ISO 8601."""
    try:
        try:
            return json.dumps(value, default=_part, allow_nan=False, ensure_ascii=is_ascii)
        except (TypeError, ValueError):  # keys that are no texts; NaN
            return json.dumps(_plain(value), ensure_ascii=is_ascii)
    except RecursionError:
        return json.dumps("(nested too deeply to be shown)")


def _part(value: Any) -> Any:
    """Return what stands for a value that `json` does not know."""
    if hasattr(value, "__struct_fields__"):
        return _fields(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    try:
        return base64.b64encode(value).decode()  # also of a Raw, which Python cannot hold
    except TypeError:
        return repr(value)


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _plain(value: Any) -> Any:
    """Return a value with null for NaN and infinity, and with keys that JSON has."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | None) else _plain(_part(value))


def _key(key: Any) -> Any:
    if isinstance(key, str | int | None):
        return key
    return str(key) if isinstance(key, float) else _part(key)


def optional_text(value: Any) -> str:
    """Return the text of a value; empty for None."""
    return "" if value is None else value_text(value)


def result_text(outcome: str, value: Any) -> str:
    """Return the value of an operation or, after a failure, the error."""
    if outcome == "failed" and isinstance(value, list) and len(value) >= 2:
        return ": ".join(str(text) for text in value[:2] if text)
    return optional_text(value)


def moment(unix_ms: int) -> str:
    """Return Unix milliseconds as a local time."""
    try:
        local = datetime.fromtimestamp(unix_ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return f"{unix_ms} ms"
    return local.isoformat(" ", "milliseconds")


def age(unix_ms: int, now_ms: float | None = None) -> str:
    """Return how far Unix milliseconds are from now: "2 h ago", "in 2 h"."""
    seconds = (time.time() * 1000 if now_ms is None else now_ms) / 1000 - unix_ms / 1000
    shown = _span(abs(seconds))
    if shown == "0 s":
        return "now"
    return f"{shown} ago" if seconds > 0 else f"in {shown}"


def _span(seconds: float) -> str:
    for length, unit in SPANS:
        if seconds >= length:
            return f"{int(seconds / length)} {unit}"
    return f"{int(seconds)} s"


def took(seconds: float) -> str:
    """Return a duration: "0.0312 s", "5 min"."""
    return f"{seconds:.3g} s" if seconds < 60 else _span(seconds)


def short(name: str, most: int = SHORT_ID) -> str:
    """Return a name, cut if long."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def print_json(records: Iterable[Any]) -> None:
    """Print messages of the protocol, each as it comes."""
    for record in records:
        fields = (f"{json.dumps(name)}: {json_text(one)}" for name, one in _fields(record).items())
        print(f"{{{', '.join(fields)}}}")


def print_records(
    records: Iterable[Any],
    head: Sequence[str],
    row: Callable[[Any], Sequence[str]],
    tail: Callable[[int], str],
    *,
    as_json: bool,
    is_wide: bool = True,
) -> None:
    """Print messages of the protocol as JSON or as a table; `tail` makes the last line.

    A table that is not wide has a line for each message, and cuts texts.
    """
    if as_json:
        print_json(records)
        return
    rows = [row(record) for record in records]
    print_table(head, rows, is_wide=is_wide)
    print(tail(len(rows)))


def list_tail(thing: str, limit: int) -> Callable[[int], str]:
    """Return the `tail` of a list of at most `limit` things."""

    def tail(count: int) -> str:
        more = "; there may be more: --limit" if count == limit else ""
        return f"{counted(count, thing)}{more}"

    return tail


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, is_wide: bool = True
) -> None:
    """Print rows of texts below a head, if any. See `print_records`."""
    if rows:
        shown = [list(map(printable, row)) for row in rows]
        screen = import_extra("purgatory.cli.screen", "service")
        screen.print_table(head, shown, folds=is_wide)


def report_missing(names: Sequence[str], why: str) -> int:
    """Print a line for each name to stderr; return the exit code."""
    for name in names:
        say(f"{name}: {why}", file=sys.stderr)
    return BAD_NEWS if names else 0


def report_done(
    noun: str, ids: Sequence[str], done: Sequence[bool], words: str, nothing: str
) -> int:
    """Print how many were done, and to stderr why others were not; return the exit code."""
    found = dict(zip(ids, done, strict=True))
    print(f"{counted(sum(found.values()), noun)} {words}")
    return report_missing([name for name, is_done in found.items() if not is_done], nothing)


def print_facts(groups: Iterable[Mapping[str, str]], *, right: bool = False) -> None:
    """Print names and texts in groups; empty texts are left out."""
    shown = [[(name, printable(text)) for name, text in group.items() if text] for group in groups]
    if shown:
        import_extra("purgatory.cli.screen", "service").print_facts(shown, right=right)
