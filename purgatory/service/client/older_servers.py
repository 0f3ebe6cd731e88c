"""What servers of earlier protocol versions lack. Any thread."""

import re
from collections.abc import Callable
from typing import Any, Final

from purgatory.service.client.calls import RequestType
from purgatory.service.errors import WrongVersion
from purgatory.service.protocol import Complete, Completion, Submission, Submit
from purgatory.service.verbs import VERBS

_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _missing_in_completion(version: int, completion: Completion) -> str:
    if version >= 2:
        return ""
    if completion.limit is not None:
        return "limit"
    return "hold" if completion.hold_ms else ""


def _missing_in_submission(version: int, submission: Submission) -> str:
    """Name the missing option; the default of `unique_ms` is each server's own."""
    options = submission.options
    if version >= 3 or options is None:
        return ""
    given = {
        "at": options.due_ms is not None,
        "tags": bool(options.tags),
        "priority": bool(options.priority),
        "start_within": options.start_within_ms is not None,
        "unique_for": options.unique_ms >= 0,
    }
    return next((name for name, is_given in given.items() if is_given), "")


_ITEMS: Final[dict[RequestType, Callable[[int, Any], str]]] = {
    Complete: _missing_in_completion,
    Submit: _missing_in_submission,
}


def missing(version: int, request: RequestType, item: Any) -> str:
    """Name what a server of a version lacks for a call, or return an empty text."""
    if VERBS[request].version > version:
        return _WORDS.sub(" ", request.__name__).lower()
    check = _ITEMS.get(request)
    return "" if check is None else check(version, item)


def lacks(version: int, name: str) -> WrongVersion:
    """Return the error of a call that the server cannot do."""
    return WrongVersion(f"the server speaks version {version} of the protocol, which lacks {name}")
