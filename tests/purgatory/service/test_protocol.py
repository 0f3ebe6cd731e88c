"""The bytes of every message are those that the versions of the protocol have recorded."""

import msgspec
import pytest
from msgspec import Raw

from purgatory.service.encoding import decode_answer, decode_request, encode, for_futures_only
from purgatory.service.errors import Malformed
from purgatory.service.job_messages import (
    Begin,
    CancelJobs,
    CancelMatching,
    ChangeRepeat,
    CountJobs,
    EndLease,
    JobFilter,
    KeepLease,
    ListJobs,
    ReadJobs,
    ReadLimits,
    ReadOverview,
    ReadRepeats,
    Repeat,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
    SetRepeat,
    TakeLease,
    WatchJobs,
)
from purgatory.service.protocol import (
    MAX_INT,
    Acknowledge,
    Acknowledged,
    Bye,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Completion,
    Extend,
    Extended,
    Fail,
    Failed,
    Failure,
    Finish,
    Finished,
    Hello,
    How,
    Jobs,
    Keep,
    Kept,
    KeyFailure,
    Known,
    Lease,
    LeasedJob,
    LeaseEnd,
    Limits,
    Operations,
    OperationStatus,
    OutcomeMessage,
    Outcomes,
    Ping,
    Query,
    ReadOperations,
    Refusal,
    States,
    Stats,
    StatsReply,
    Submission,
    SubmissionOptions,
    Submit,
    Submitted,
    TimeoutExtension,
    Unread,
    UnreadOutcomes,
    Welcome,
    Work,
    Working,
)
from purgatory.service.verbs import VERBS

REQUESTS = [
    (Hello(1, 1, "c"), "96010101a163a0c3"),
    (Hello(1, 2, "c", "s", takes=False), "96010102a163a173c2"),
    (
        Submit(2, [Submission("a", ("k", "l"), 1500, 2, "pay", Raw(b"\x07"))]),
        "9302029197a16192a16ba16ccd05dc02a370617907c0",
    ),
    (Submit(2, [Submission("a", ("k",), 0)]), "9302029197a16191a16b0001a0c0c0"),
    (
        Submit(
            2, [Submission("a", ("k",), 0, 0, options=SubmissionOptions(60, ("t",), -3, 1500, 20))]
        ),
        "9302029197a16191a16b0000a0c0953c91a174fdcd05dc14",
    ),
    (
        Complete(3, [Completion("k", Raw(b"\x07")), Completion("l")]),
        "9303039294a16b07c00094a16cc0c000",
    ),
    (Complete(3, [Completion("k", Raw(b"\x07"), 2, 1500)]), "9303039194a16b0702cd05dc"),
    (Cancel(4, ["a", "b"]), "93040492a161a162"),
    (Query(5, ["a"]), "93050591a161"),
    (Acknowledge(6, [1, 300]), "9406069201cd012cc2"),
    (Acknowledge(6, [1], answer=True), "9406069101c3"),
    (Stats(7), "920707"),
    (Bye(8), "920808"),
    (Extend(9, [TimeoutExtension("a", 1500)]), "9309099192a161cd05dc"),
    (Fail(10, [KeyFailure("k", "E", "w")]), "930a0a9193a16ba145a177"),
    (Unread(11, 300), "930b0bcd012c"),
    (Work(12, {"mail": 5}, 8, 60000), "980c0c81a46d61696c0508cdea60c280c2"),
    (Work(12, {"mail": 5}, 8, 60000, detached=True), "980c0c81a46d61696c0508cdea60c380c2"),
    (
        Work(12, {"mail": 5}, 8, 60000, kind_rooms={"mail": 2}, begins=True),
        "980c0c81a46d61696c0508cdea60c281a46d61696c02c3",
    ),
    (Keep(13, [Lease(7, 300)]), "930d0d919207cd012c"),
    (
        Finish(14, [LeaseEnd(7, 300, How.FAILED, 1000, "E: w")]),
        "930e0e919607cd012c01cd03e8a4453a2077c0",
    ),
    (Finish(14, [LeaseEnd(7, 300, How.DONE, result=Raw(b"\x07"))]), "930e0e919607cd012c0000a007"),
    (
        ReadOperations(17, 7, 5, "pay", None, "c", "pending"),
        "9a11110705a3706179c0a163a770656e64696e67a66f6c64657374c3",
    ),
]

ANSWERS = [
    (
        Welcome(1, 1, "purgatory 1", Limits(1, 2, 3, 4, 5, 6, 7)),
        "95200101ab7075726761746f7279203199010203040506070000",
    ),
    (
        Submitted(2, [Refusal(0, "taken", "why")], [Known(1, "pending")]),
        "942102919300a574616b656ea3776879919201a770656e64696e67",
    ),
    (Completed(3, [0, 2]), "932203920002"),
    (Cancelled(4, [True, False]), "93230492c3c2"),
    (
        States(5, [OperationStatus("a", "unknown")]),
        "932405919ea161a7756e6b6e6f776ea0a090010000c0c090c0c000",
    ),
    (
        States(
            5, [OperationStatus("a", "completed", "pay", "c", ["k"], 1, 10, 20, 15, "k", ["k"])]
        ),
        "932405919ea161a9636f6d706c65746564a3706179a16391a16b010a140fa16b91a16bc0c000",
    ),
    (
        StatsReply(7, {"pending": 1, "uptime_seconds": 0.5}),
        "93250782a770656e64696e6701ae757074696d655f7365636f6e6473cb3fe0000000000000",
    ),
    (Failure(None, "malformed", "why"), "9426c0a96d616c666f726d6564a3776879"),
    (Failure(8, "closing", "why"), "942608a7636c6f73696e67a3776879"),
    (
        Outcomes(
            [
                OutcomeMessage(
                    1, "a", "completed", 15, "k", Raw(b"\x07"), "pay", 10, 20, Raw(b"\x08")
                )
            ]
        ),
        "9340919a01a161a9636f6d706c657465640fa16b07a37061790a1408c3",
    ),
    (
        Outcomes([OutcomeMessage(2, "b", "expired", 20)]),
        "9340919a02a162a76578706972656414c0c0a00000c0c3",
    ),
    (Ping(), "9141"),
    (Extended(9, [True, False]), "93270992c3c2"),
    (Failed(10, [0, 2]), "93280a920002"),
    (
        Outcomes([OutcomeMessage(3, "c", "failed", 20, None, Raw(encode(["E", "w"])))]),
        "9340919a03a163a66661696c656414c092a145a177a00000c0c3",
    ),
    (
        UnreadOutcomes(11, [OutcomeMessage(2, "b", "expired", 20)]),
        "93290b919a02a162a76578706972656414c0c0a00000c0",
    ),
    (Acknowledged(6, 2), "932a0602"),
    (Working(12), "922b0c"),
    (Kept(13, [True, False]), "942c0d92c3c290"),
    (Kept(13, [True], [0]), "942c0d91c39100"),
    (Finished(14, [True]), "932d0e91c3"),
    (Operations(17, [], 9), "9430119009"),
    (
        Jobs([LeasedJob(7, 300, "a", "mail", 1, 10, 20, Raw(b"\x08"), ["t"])]),
        "9242919907cd012ca161a46d61696c010a140891a174",
    ),
    (
        Jobs([LeasedJob(7, 300, "a", "mail", 1, 10, 20, Raw(b"\x08"))]),
        "9242919907cd012ca161a46d61696c010a140890",
    ),
]


@pytest.mark.parametrize(("message", "recorded"), REQUESTS)
def test_requests_have_their_recorded_bytes(message, recorded):
    """Encoding gives the recorded bytes, and decoding them gives the request."""
    assert encode(message).hex() == recorded
    assert decode_request(bytes.fromhex(recorded)) == message


@pytest.mark.parametrize(("message", "recorded"), ANSWERS)
def test_answers_have_their_recorded_bytes(message, recorded):
    """Encoding gives the recorded bytes, and decoding them gives the answer."""
    assert encode(message).hex() == recorded
    assert decode_answer(bytes.fromhex(recorded)) == message


# What a client of version 1 sends, and a server of version 1 answers, shorter by what was added.
VERSION_1 = [
    (Hello(1, 1, "c"), "94010101a163"),
    (Complete(3, [Completion("k", Raw(b"\x07")), Completion("l")]), "9303039292a16b0792a16cc0"),
    (Acknowledge(6, [1, 300]), "9306069201cd012c"),
    (Work(12, {"mail": 5}, 8, 60000), "950c0c81a46d61696c0508cdea60"),  # before `detached`
]
# What a client of version 2 sends, and a server of version 2 answers, likewise.
VERSION_2 = [
    (
        Submit(2, [Submission("a", ("k", "l"), 1500, 2, "pay", Raw(b"\x07"))]),
        "9302029196a16192a16ba16ccd05dc02a370617907",
    ),
    (Work(12, {"mail": 5}, 8, 60000, detached=True), "960c0c81a46d61696c0508cdea60c3"),
    (
        Finish(14, [LeaseEnd(7, 300, How.FAILED, 1000, "E: w")]),
        "930e0e919507cd012c01cd03e8a4453a2077",
    ),
]
ANSWERS_2 = [
    (Kept(13, [True, False]), "932c0d92c3c2"),
    (
        Jobs([LeasedJob(7, 300, "a", "mail", 1, 10, 20, Raw(b"\x08"))]),
        "9242919807cd012ca161a46d61696c010a1408",
    ),
]
# Of version 2, before there was `take`.
OUTCOMES_2 = "9240919a02a162a76578706972656414c0c0a00000c0"
STATES_1 = "932405919ba161a7756e6b6e6f776ea0a090010000c0c090"
WELCOME_1 = "95200101ab7075726761746f727920319701020304050607"


@pytest.mark.parametrize(("message", "recorded"), VERSION_1 + VERSION_2)
def test_requests_of_earlier_versions(message, recorded):
    """They are read as before."""
    assert decode_request(bytes.fromhex(recorded)) == message


@pytest.mark.parametrize(("message", "recorded"), ANSWERS_2)
def test_answers_of_version_2(message, recorded):
    """They are read as before."""
    assert decode_answer(bytes.fromhex(recorded)) == message


def test_outcomes_of_an_earlier_version_2():
    """Each connection that is sent them takes them."""
    assert decode_request(bytes.fromhex("95010102a163a173")).takes
    message = decode_answer(bytes.fromhex(OUTCOMES_2))
    assert message == Outcomes([OutcomeMessage(2, "b", "expired", 20)])
    assert message.take


def test_outcomes_for_futures_only():
    """Of the frame only the last element changes."""
    outcomes = [OutcomeMessage(2, "b", "expired", 20)]
    assert for_futures_only(encode(Outcomes(outcomes))) == encode(Outcomes(outcomes, take=False))


def test_states_of_version_1():
    """They have neither result nor payload."""
    assert decode_answer(bytes.fromhex(STATES_1)) == States(5, [OperationStatus("a", "unknown")])


def test_the_welcome_of_version_1():
    """It has two limits less."""
    assert decode_answer(bytes.fromhex(WELCOME_1)).limits == Limits(1, 2, 3, 4, 5, 6, 7)


REQUESTS = [Hello, Bye, Begin, *VERBS]


def numbers_in(kind):
    """Yield the types of all integers of a message, also those of its items."""
    if isinstance(kind, msgspec.inspect.IntType):
        yield kind
    for name in kind.__struct_fields__:
        parts = getattr(kind, name, None)
        for part in parts if isinstance(parts, tuple) else [parts]:
            if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field):
                yield from numbers_in(part)


@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda kind: kind.__name__)
def test_each_number_of_a_request_has_a_bound(request_type):
    """None is larger than what a database and a machine integer hold."""
    numbers = list(numbers_in(msgspec.inspect.type_info(request_type)))
    assert numbers
    assert all(number.le is not None and number.le <= MAX_INT for number in numbers)


def with_numbers(value, number):
    """Yield the message once for each of its numbers but the type, with another one there."""
    if isinstance(value, list | tuple):
        for index, part in enumerate(value):
            for other in with_numbers(part, number):
                yield [*value[:index], other, *value[index + 1 :]]
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from ({**value, key: other} for other in with_numbers(part, number))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield number


LARGE_NUMBERS = [
    Hello(1, 2, "c"),
    Submit(1, [Submission("a", ("k",), 1, options=SubmissionOptions(1, (), 1, 1, 1))]),
    Complete(1, [Completion("k", limit=1)]),
    Cancel(1, ["a"]),
    Query(1, ["a"]),
    Acknowledge(1, [1, 2]),
    Stats(1),
    Bye(1),
    Extend(1, [TimeoutExtension("a", 1)]),
    Fail(1, [KeyFailure("k", "E")]),
    Unread(1, 1),
    Work(1, {"": 1}, 1, 1, kind_rooms={"": 1}),
    Keep(1, [Lease(1, 1)]),
    Finish(1, [LeaseEnd(1, 1, 1, 1)]),
    ReadOperations(1, 1, 1),
    ReadJobs(1, ["a"]),
    WatchJobs(1, ["a"]),
    ListJobs(1, JobFilter(), limit=1, after=(1, 1)),
    CountJobs(1, JobFilter()),
    ReadOverview(1),
    CancelJobs(1, ["a"]),
    CancelMatching(1, JobFilter()),
    RescheduleJobs(1, [Reschedule("a", 1, 1)]),
    RetryJobs(1, ["a"]),
    Begin(1, [Lease(1, 1)]),
    SetLimit(1, "mail", running=1, per_second=0.5),
    ReadLimits(1),
    SetRepeat(1, Repeat("r", every_ms=1, jitter_ms=1)),
    ChangeRepeat(1, "r", "run"),
    ReadRepeats(1, limit=1),
    TakeLease(1, "l", "h", 1, 1),
    KeepLease(1, "l", "h", 1),
    EndLease(1, "l", "h"),
]


@pytest.mark.parametrize("message", LARGE_NUMBERS, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("number", [MAX_INT + 1, (1 << 64) - 1])
def test_a_number_that_is_too_large_is_refused(message, number):
    """Wherever it is in a request; the largest one that is taken is."""
    assert {type(one) for one in LARGE_NUMBERS} == set(REQUESTS)
    tag, *fields = msgspec.msgpack.decode(encode(message))
    for changed in with_numbers(fields, number):
        with pytest.raises(Malformed, match="not a message"):
            decode_request(encode([tag, *changed]))
    for changed in with_numbers(fields, MAX_INT):
        decode_request(encode([tag, *changed]))
