"""Reasons: each error of msgspec, in the words of JSON."""

import msgspec
import pytest

from purgatory.service.gateway.messages import (
    BatchRequest,
    JobRequest,
    JobSelection,
    KeyChange,
    LeaseList,
    LimitRequest,
)
from purgatory.service.gateway.reasons import reason_of


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (JobRequest, "[]", "the body is an array; expected an object"),
        (JobRequest, '{"delay": []}', "delay is an array; expected a number, a string, null"),
        (JobRequest, '{"delay": -1}', "delay: expected a number of 0 or more"),
        (JobRequest, '{"priority": 1.5}', "priority is a number; expected a whole number"),
        (JobRequest, '{"priority": 11}', "priority: expected a whole number of 10 or less"),
        (JobRequest, '{"priority": -11}', "priority: expected a whole number of -10 or more"),
        (JobRequest, '{"tags": [""]}', "tags[0]: expected a string of length 1 or more"),
        (JobRequest, '{"kind": null}', "kind is null; expected a string"),
        (
            JobRequest,
            '{"at": "tomorrow"}',
            "at: expected a time with its zone, as 2027-03-01T09:00:00+01:00",
        ),
        (
            JobRequest,
            '{"at": "2027-03-01T09:00:00"}',
            "at: expected a time with its zone, as 2027-03-01T09:00:00+01:00",
        ),
        (LimitRequest, '{"kind": "a", "per_second": 1e9}', "per_second: expected a number of"),
        (LimitRequest, "{}", "the body lacks the field `kind`"),
        (KeyChange, '{"error": {}}', "error lacks the field `type`"),
        (
            KeyChange,
            '{"error": {"type": "X", "text": ""}}',
            "error has the unknown field `text`; expected type, message",
        ),
        (
            BatchRequest,
            '{"operations": [{"keys": [], "kees": 1}]}',
            "operations[0].keys: expected an array of length 1 or more",
        ),
        (
            BatchRequest,
            '{"operations": [{"kees": 1}]}',
            "operations[0] has the unknown field `kees`; expected keys, timeout, need, kind,",
        ),
        (JobSelection, '{"state": "old"}', "state is 'old'; expected scheduled, ready, running,"),
        (LeaseList, '{"leases": ["x"]}', "leases[0]: expected a text as the gateway gave it"),
    ],
)
def test_a_reason(kind, body, reason):
    """It names the place, and what is expected, without a type of Python."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(body, type=kind)
    said = reason_of(str(caught.value), "the body", kind)
    assert said.startswith(reason)
    assert not set(said.split()) & {"`str`", "`int`", "None", "array`"}


def test_another_error():
    """It is shown as it is: a later msgspec may have more."""
    assert reason_of("Bad moon - at `$.at`", "the body", JobRequest) == "at: Bad moon"
