"""What servers of earlier versions of the protocol do not know."""

import pytest

from purgatory.service import WrongVersion
from purgatory.service.client.older_servers import lacks, missing
from purgatory.service.job_messages import CancelMatching, ReadJobs
from purgatory.service.protocol import (
    DEFAULT,
    MADE_UP,
    VERSION,
    Complete,
    Completion,
    Extend,
    Query,
    Submission,
    SubmissionOptions,
    Submit,
)


def submission(**options):
    return Submission("a", ("k",), 1, 0, options=SubmissionOptions(**options))


@pytest.mark.parametrize(
    ("version", "request_type", "item", "name"),
    [
        (1, Query, "a", ""),
        (1, Extend, None, "extend"),
        (2, Extend, None, ""),
        (2, ReadJobs, "a", "read jobs"),
        (2, CancelMatching, None, "cancel matching"),
        (1, Complete, Completion("k"), ""),
        (1, Complete, Completion("k", limit=1), "limit"),
        (1, Complete, Completion("k", hold_ms=1), "hold"),
        (2, Complete, Completion("k", limit=1, hold_ms=1), ""),
        (1, Submit, Submission("a", ("k",), 1), ""),
        (2, Submit, submission(), ""),
        (2, Submit, submission(unique_ms=DEFAULT), ""),
        (2, Submit, submission(unique_ms=MADE_UP), ""),
        (2, Submit, submission(unique_ms=0), "unique_for"),
        (2, Submit, submission(tags=("t",)), "tags"),
        (1, Submit, submission(priority=-1), "priority"),
        (2, Submit, submission(start_within_ms=0), "start_within"),
        (2, Submit, submission(due_ms=0), "at"),
    ],
)
def test_what_is_missing(version, request_type, item, name):
    """A request, an argument of a call, or nothing; a server of this version lacks nothing."""
    assert missing(version, request_type, item) == name
    assert missing(VERSION, request_type, item) == ""


def test_the_error():
    """It names the version of the server, and what is missing."""
    error = lacks(2, "tags")
    assert isinstance(error, WrongVersion)
    assert str(error) == "the server speaks version 2 of the protocol, which lacks tags"
