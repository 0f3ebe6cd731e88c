"""Texts for people: foreign texts for terminals and logs, and counts of things.

A line break forges a line of a log; an escape sequence moves a terminal's cursor, or fills its
clipboard; marks of direction reorder a text. Any thread.
"""

import re
from typing import Final

# Control characters, line and paragraph separators, marks of direction, and surrogates.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return a text on one line, unprintable characters escaped as in Python: `\n`, `\x1b`."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_json(line: str) -> str:
    """Return the same JSON, with unprintable characters escaped."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def counted(count: float, thing: str) -> str:
    """Return a number of things: "1 operation", "2,000 operations"."""
    return f"{count:,.0f} {thing}" if count == 1 else f"{count:,.0f} {thing}s"
