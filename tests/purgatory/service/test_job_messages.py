"""The bytes of every message about jobs are those that version 3 of the protocol has recorded."""

import pytest
from msgspec import Raw

from purgatory.service import job_messages
from purgatory.service.encoding import decode_answer, decode_request, encode
from purgatory.service.job_messages import (
    ENDED_STATES,
    JOB_STATES,
    Begin,
    CancelJobs,
    CancelLeases,
    CancelMatching,
    ChangeRepeat,
    CountedJobs,
    CountJobs,
    EndLease,
    JobAttempt,
    JobEnds,
    JobFilter,
    JobPage,
    JobsCancelled,
    JobsRescheduled,
    JobsRetried,
    JobStates,
    JobStatus,
    KeepLease,
    KindLimit,
    KindOverview,
    LeaseKept,
    LeaseReady,
    LeaseTaken,
    Limited,
    LimitSet,
    ListJobs,
    MatchingCancelled,
    Overview,
    ReadJobs,
    ReadLimits,
    ReadOverview,
    ReadRepeats,
    Repeat,
    RepeatChanged,
    Repeats,
    RepeatSet,
    RepeatState,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
    SetRepeat,
    TakeLease,
    WatchJobs,
)
from purgatory.service.protocol import Answer, Lease, Push, Request

JOB = JobStatus(
    *("a", "done", 7, "mail", "shop", ("t",), ("k",), 3, 10, 20, 30, 40, 2, 5, "E: w", "w1"),
    *("paused", Raw(b"\x08"), Raw(b"\x07"), 9, (JobAttempt(2, 30, 40, "w1", "E: w"),)),
)
REPEAT = Repeat("r", "0 3 * * *", None, "Europe/Berlin", "mail", Raw(b"\x08"), "allow", "all", 500)

REQUESTS = [
    (ReadJobs(1, ["a", "b"]), "93500192a161a162"),
    (WatchJobs(1, ["a"]), "94510191a161c2"),
    (WatchJobs(1, ["a"], stop=True), "94510191a161c3"),
    (ListJobs(1, JobFilter()), "96520194c0c0c0c0a364756564c0"),
    (
        ListJobs(1, JobFilter("mail", "dead", "t", "shop"), "newest", 5, (20, 7)),
        "96520194a46d61696ca464656164a174a473686f70a66e657765737405921407",
    ),
    (CountJobs(1), "935301c0"),
    (CountJobs(1, JobFilter(tag="t")), "93530194c0c0a174c0"),
    (ReadOverview(1), "936101c0"),
    (ReadOverview(1, "shop"), "936101a473686f70"),
    (CancelJobs(1, ["a"]), "93540191a161"),
    (CancelMatching(1, JobFilter(tag="t")), "93550194c0c0a174c0"),
    (
        RescheduleJobs(1, [Reschedule("a", 1500), Reschedule("b", due_ms=20)]),
        "9356019293a161cd05dcc093a162c014",
    ),
    (RetryJobs(1, ["a"], drop=True), "94570191a161c3"),
    (Begin(1, [Lease(7, 300)]), "935801919207cd012c"),
    (SetLimit(1, "mail", paused=True), "965901a46d61696cc3c0c0"),
    (SetLimit(1, "mail", running=2, per_second=0.5), "965901a46d61696cc002cb3fe0000000000000"),
    (ReadLimits(1), "925a01"),
    (
        SetRepeat(1, REPEAT),
        "935b0199a172a9302033202a202a202ac0ad4575726f70652f4265726c696ea46d61696c08a5616c6c6f77a3616c6ccd01f4",
    ),
    (ChangeRepeat(1, "r", "pause"), "955c01a172a57061757365c0"),
    (ChangeRepeat(1, "r", "run", "shop"), "955c01a172a372756ea473686f70"),
    (ReadRepeats(1), "965d01c064c0c0"),
    (ReadRepeats(1, ("shop", "r"), 5, "shop", "s"), "965d0192a473686f70a17205a473686f70a173"),
    (TakeLease(1, "l", "h", 30000, 1500), "965e01a16ca168cd7530cd05dc"),
    (KeepLease(1, "l", "h", 30000), "955f01a16ca168cd7530"),
    (EndLease(1, "l", "h"), "946001a16ca168"),
]

ANSWERS = [
    (
        JobStates(1, [JOB]),
        "93700191dc0015a161a4646f6e6507a46d61696ca473686f7091a17491a16b030a141e280205a4453a2077a27731a67061757365640807099195021e28a27731a4453a2077",
    ),
    (
        JobStates(1, [JobStatus("b", "unknown")]),
        "93700191dc0015a162a7756e6b6e6f776e00a0a09090000000c0c000c0a0a0a0c0c00090",
    ),
    (JobPage(1, [], (20, 7)), "94710190921407"),
    (CountedJobs(1, [("mail", "dead", 3)]), "9372019193a46d61696ca46465616403"),
    (
        Overview(
            1, [KindOverview("mail", (1, 0, 0, 0, 0, 3, 0), 5, 2, paused=True)], {"failed": 7}
        ),
        "957e019195a46d61696c97010000000003000502c381a66661696c656407a0",
    ),
    (JobsCancelled(1, [True, False]), "93730192c3c2"),
    (MatchingCancelled(1, 5), "93740105"),
    (JobsRescheduled(1, [True]), "93750191c3"),
    (JobsRetried(1, [False]), "93760191c2"),
    (LimitSet(1), "927701"),
    (Limited(1, [KindLimit("mail", True, 2, 0.5)]), "9378019194a46d61696cc302cb3fe0000000000000"),
    (
        RepeatSet(1, RepeatState(REPEAT, "shop", False, 20, None, 3)),
        "9379019699a172a9302033202a202a202ac0ad4575726f70652f4265726c696ea46d61696c08a5616c6c6f77a3616c6ccd01f4a473686f70c214c003",
    ),
    (RepeatChanged(1, False, None), "947a01c2c0"),
    (
        RepeatChanged(1, True, RepeatState(REPEAT, "shop", True)),
        "947a01c39699a172a9302033202a202a202ac0ad4575726f70652f4265726c696ea46d61696c08a5616c6c6f77a3616c6ccd01f4a473686f70c3c0c000",
    ),
    (Repeats(1, [], ("shop", "r")), "947b019092a473686f70a172"),
    (LeaseTaken(1, 300), "937c01cd012c"),
    (LeaseKept(1, True), "937d01c3"),
    (
        JobEnds([JOB]),
        "924391dc0015a161a4646f6e6507a46d61696ca473686f7091a17491a16b030a141e280205a4453a2077a27731a67061757365640807099195021e28a27731a4453a2077",
    ),
    (CancelLeases([Lease(7, 300)], recall=True), "9344919207cd012cc3"),
    (LeaseReady("l", "h"), "9345a16ca168"),
]


def messages_of(*bases):
    """The classes of the module that derive from some classes."""
    classes = [kind for kind in vars(job_messages).values() if isinstance(kind, type)]
    mine = [kind for kind in classes if kind.__module__ == job_messages.__name__]
    return {kind for kind in mine if issubclass(kind, bases)}


def test_every_message_has_a_record():
    """A new message of the module is recorded, too."""
    assert {type(message) for message, _ in REQUESTS} == messages_of(Request)
    assert {type(message) for message, _ in ANSWERS} == messages_of(Answer, Push)


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


def test_the_states_that_end_a_job():
    """They are the last ones of all states."""
    assert JOB_STATES[-3:] == ENDED_STATES
