"""Session: a client's side of the protocol, without sockets and threads."""

import logging

import pytest

from purgatory import OperationCancelled, OperationExpired
from purgatory.service import (
    NotAllowed,
    OperationFailed,
    Refused,
    RequestAbandoned,
    ServerClosing,
    StoreFailed,
    TooLarge,
    TooManyKeys,
    WrongVersion,
)
from purgatory.service.client.futures import ReplyFuture, ServiceFuture
from purgatory.service.client.jobs.job_waits import JobEndFuture
from purgatory.service.client.session import (
    CALLS_PER_MESSAGE,
    MAX_UNANSWERED,
    PIPELINE_DEPTH,
    Session,
)
from purgatory.service.client.trace_context import wrap
from purgatory.service.client.unsent_calls import MAX_SENDINGS
from purgatory.service.encoding import decode_answer, decode_request, encode
from purgatory.service.job_messages import (
    Begin,
    CancelLeases,
    JobEnds,
    JobFilter,
    JobStates,
    JobStatus,
    LeaseReady,
    ListJobs,
    WatchJobs,
)
from purgatory.service.protocol import (
    NOTHING,
    VERSION,
    Acknowledge,
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
    Hello,
    Jobs,
    KeyFailure,
    Lease,
    LeasedJob,
    OperationStatus,
    OutcomeMessage,
    Outcomes,
    Ping,
    Query,
    Raw,
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
    Welcome,
)
from tests.testing.step_server import limits


class Talk:
    """A session, and a server's side of the conversation."""

    def __init__(self, on_outcome=None, **others):
        self.futures = {}
        self.session = Session("me", self.futures, on_outcome)
        self.limits = limits(**others)

    def connect(self, version=VERSION):
        """Begin a new connection; returns the messages that are sent again."""
        hello = decode_request(self.session.on_connected())
        assert isinstance(hello, Hello)
        assert hello.seq > 0  # 0: unknown
        again = self.session.handle(Welcome(hello.seq, version, "test", self.limits))
        return [decode_request(frame) for frame in again]

    def defer(self, op_id):
        future = self.futures[op_id] = ServiceFuture(None, op_id)
        self.session.add(Submit, [(Submission(op_id, ("k",), 1000), future)])
        return future

    def ask(self, kind, item=None):
        future = ReplyFuture()
        self.session.add(kind, [(item, future)])
        return future

    def sent(self):
        return [decode_request(frame) for frame in self.session.take_messages()]

    def deliver(self, message):
        return [
            decode_request(frame) for frame in self.session.handle(decode_answer(encode(message)))
        ]


@pytest.fixture
def talk():
    made = Talk()
    made.connect()
    return made


def end(number, op_id, outcome="completed", value=None):
    raw = Raw(NOTHING if value is None else encode(value))
    return OutcomeMessage(number, op_id, outcome, 5, "k", raw, "", 0, 1000)


def test_one_call_alone_goes_out_at_once(talk):
    """Calls are sent one by one while few messages are unanswered."""
    for n in range(PIPELINE_DEPTH):
        talk.defer(f"o{n}")
        [message] = talk.sent()
        assert isinstance(message, Submit)
        assert len(message.operations) == 1


def test_calls_gather_while_others_are_unanswered(talk):
    """They are sent when an answer comes, or when they fill a message."""
    for n in range(PIPELINE_DEPTH):
        talk.defer(f"first{n}")
        [last] = talk.sent()
    talk.defer("a")
    talk.defer("b")
    assert talk.sent() == []
    talk.deliver(Submitted(last.seq))
    [message] = talk.sent()
    assert [o.op_id for o in message.operations] == ["a", "b"]
    for n in range(CALLS_PER_MESSAGE):
        talk.defer(f"more{n}")
    [message] = talk.sent()
    assert len(message.operations) == CALLS_PER_MESSAGE


def test_calls_of_changing_kinds_do_not_gather(talk):
    """No call can join a message that is followed by another: such messages do not wait."""
    for n in range(MAX_UNANSWERED):
        talk.ask(Extend, TimeoutExtension(f"o{n}", 5))
        talk.ask(Complete, Completion(f"k{n}"))
    messages = talk.sent()
    assert len(messages) == MAX_UNANSWERED
    talk.deliver(Extended(messages[0].seq, [True]))
    assert len(talk.sent()) == 1


def test_calls_with_a_message_each_do_not_gather(talk):
    """They are sent at once, as more than PIPELINE_DEPTH."""
    for _ in range(PIPELINE_DEPTH + 2):
        talk.ask(Stats, ())
    assert len(talk.sent()) == PIPELINE_DEPTH + 2


def test_unanswered_messages_are_limited(talk):
    """The other calls wait in the session, not in a socket."""
    for n in range(CALLS_PER_MESSAGE * (MAX_UNANSWERED + 2)):
        talk.defer(f"o{n}")
    messages = talk.sent()
    assert len(messages) == MAX_UNANSWERED
    assert talk.sent() == []
    talk.deliver(Submitted(messages[3].seq))
    assert len(talk.sent()) == 1


def test_a_message_holds_calls_of_one_kind_in_order(talk):
    """Calls of several kinds are sent in the order in which they were made."""
    talk.defer("a")
    count = talk.ask(Complete, Completion("k"))
    done = talk.ask(Cancel, "a")
    talk.ask(Stats, ())
    kinds = []
    while messages := talk.sent():
        for message in messages:
            kinds.append(type(message).__name__)
            if isinstance(message, Submit):
                talk.deliver(Submitted(message.seq))
            elif isinstance(message, Stats):
                talk.deliver(StatsReply(message.seq, {"pending": 1}))
            elif kinds[-1] == "Complete":
                talk.deliver(Completed(message.seq, [3]))
            else:
                talk.deliver(Cancelled(message.seq, [True]))
    assert kinds == ["Submit", "Complete", "Cancel", "Stats"]
    assert (count.result(0), done.result(0)) == (3, True)
    assert not talk.session.busy


def test_a_message_is_no_larger_than_the_server_takes():
    """Calls are spread over several messages; a call that fits into none fails alone."""
    talk = Talk(message_bytes=300)
    talk.connect()
    futures = [talk.defer(f"{n}" * 60) for n in range(5)]
    large = talk.defer("x" * 300)
    last = talk.defer("last")
    got = []
    while messages := talk.session.take_messages():
        for frame in messages:
            assert len(frame) <= 300
            message = decode_request(frame)
            got += [o.op_id for o in message.operations]
            talk.deliver(Submitted(message.seq))
    assert got == [future.op_id for future in [*futures, last]]
    assert isinstance(large.exception(0), TooLarge)
    assert "x" * 300 not in talk.futures


def test_acknowledged_when_the_server_has_it(talk):
    """A refused operation fails with its error; the others of the message are accepted."""
    a, b = talk.defer("a"), talk.defer("b")
    [message] = talk.sent()
    assert not a.acknowledged
    talk.deliver(Submitted(message.seq, [Refusal(1, "too-many-keys", "words")]))
    assert a.acknowledged
    assert not a.done()
    assert type(b.exception(0)) is TooManyKeys
    assert list(talk.futures) == ["a"]


def test_outcomes_resolve_and_are_acknowledged(talk):
    """Each future resolves once, however often its outcome comes."""
    a, b, c = (talk.defer(op_id) for op_id in "abc")
    message = Outcomes([end(1, "a", value=7), end(2, "b", "expired"), end(3, "c", "cancelled")])
    for _ in range(2):
        assert [m.outcomes for m in talk.deliver(message)] == [[1, 2, 3]]
    assert a.result(0) == 7
    assert isinstance(b.exception(0), OperationExpired)
    assert isinstance(c.exception(0), OperationCancelled)
    assert talk.futures == {}


def test_a_value_that_is_none(talk):
    """Another client may have sent anything that looks like MessagePack."""
    a = talk.defer("a")
    outcome = end(1, "a")
    outcome.result = Raw(b"\xd6\xff\xff\xff\xff\xff")
    talk.deliver(Outcomes([outcome]))
    assert a.done()


def test_outcomes_without_a_future_stay_at_the_server(talk):
    """Another client of the name may fetch them."""
    assert talk.deliver(Outcomes([end(1, "unknown")])) == []


def test_outcomes_without_a_future_go_to_on_outcome(caplog):
    """They are acknowledged when it returns, not when it raises."""
    got = []

    def take(outcome):
        got.append(outcome.op_id)
        if outcome.op_id == "bad":
            raise ValueError("no")

    talk = Talk(take)
    talk.connect()
    [message] = talk.deliver(Outcomes([end(1, "good"), end(2, "bad")]))
    assert isinstance(message, Acknowledge)
    assert (got, message.outcomes) == (["good", "bad"], [1])
    assert "on_outcome of client 'me' raised" in caplog.text


def test_unanswered_messages_are_resent_on_a_new_connection(talk):
    """It is sent again unchanged; an answer that comes twice does no harm."""
    a = talk.defer("a")
    [message] = talk.sent()
    talk.session.on_disconnected(lost=True)
    b = talk.defer("b")
    assert talk.sent() == []
    [again] = talk.connect()
    assert again == message
    [other] = talk.sent()
    assert other.operations[0].op_id == "b"
    for _ in range(2):
        talk.deliver(Submitted(message.seq))
        talk.deliver(Submitted(other.seq))
    assert a.acknowledged
    assert b.acknowledged


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("is_accepted", [True, False])
def test_which_connections_a_message_loses(talk, lost, is_accepted):
    """Those that were lost after a welcome: the message may be the cause."""
    call = talk.ask(Complete, Completion("k"))
    assert len(talk.sent()) == 1
    for _ in range(MAX_SENDINGS):
        assert not call.done()
        talk.session.on_disconnected(lost)
        if is_accepted:
            talk.connect()
    assert call.done() == (lost and is_accepted)


@pytest.mark.parametrize("code", ["hello", "closing", "too-many-clients", "standby"])
def test_transient_errors(talk, code):
    """The messages are sent again on another connection."""
    a = talk.defer("a")
    [message] = talk.sent()
    talk.deliver(Failure(message.seq, code, "words"))
    assert talk.session.connection_lost
    assert not a.done()
    assert (talk.session.standby is not None) is (code == "standby")
    assert talk.connect() == [message]
    assert (talk.session.connection_lost, talk.session.standby) == (False, None)


def test_a_message_that_failed(talk):
    """All calls of the message fail, and no other."""
    a, b = talk.defer("a"), talk.defer("b")
    [message] = talk.sent()
    c = talk.defer("c")
    talk.sent()
    talk.deliver(Failure(message.seq, "store", "disk full"))
    assert type(a.exception(0)) is type(b.exception(0)) is StoreFailed
    assert str(a.exception(0)) == "disk full"
    assert not c.done()
    assert list(talk.futures) == ["c"]


def test_a_server_of_another_version_fails_everything():
    """The calls made before, and those made later."""
    talk = Talk()
    a = talk.defer("a")
    hello = decode_request(talk.session.on_connected())
    for version in (3, 2):
        words = f"version is {version}; expected 9"
        [hello] = talk.deliver(Failure(hello.seq, "version", words))
    talk.deliver(Failure(hello.seq, "version", "version is 1; expected 9"))
    assert type(a.exception(0)) is WrongVersion
    assert type(talk.defer("b").exception(0)) is WrongVersion


def test_an_error_without_a_request(talk, caplog):
    """It is logged."""
    with caplog.at_level(logging.WARNING):
        talk.deliver(Failure(None, "malformed", "what was that"))
    assert "what was that" in caplog.text


def test_the_end_fails_what_is_unresolved(talk):
    """Calls and futures fail with the error."""
    a, b = talk.defer("a"), talk.defer("b")
    [message] = talk.sent()
    talk.deliver(Submitted(message.seq))
    count = talk.ask(Complete, Completion("k"))
    wait = JobEndFuture("job")
    talk.session.job_waits.enter(wait)
    talk.session.fail(ServerClosing("over"))
    assert talk.session.finished_calls == 3
    for future in (a, b, count, wait):
        assert str(future.exception(0)) == "over"


def test_calls_after_a_refusal(talk):
    """They fail at once, leave nothing behind, and each has an error of its own."""
    talk.session.fail(NotAllowed("no"))
    future, count = talk.defer("a"), talk.ask(Complete, Completion("k"))
    wait = JobEndFuture("job")
    talk.session.add(WatchJobs, [("job", talk.session.job_waits.enter(wait))])
    errors = [each.exception(0) for each in (future, count, wait)]
    assert [*map(repr, errors)] == [repr(NotAllowed("no"))] * 3
    assert len({id(error) for error in (*errors, talk.session.failure)}) == 4
    assert talk.futures == {}
    assert len(talk.session.job_waits) == 0
    assert talk.session.finished_calls == 3


def test_a_message_that_would_be_too_large_is_several():
    """It is split as often as needed, in order; a call that is too large alone fails alone."""
    talk = Talk(message_bytes=400)
    talk.connect()
    futures = [talk.defer(f"o{n}") for n in range(50)]
    large = talk.defer("o" * 500)
    after = talk.defer("after")
    asked = []
    while messages := talk.sent():
        for message in messages:
            assert len(encode(message)) <= 400
            asked += [operation.op_id for operation in message.operations]
            talk.deliver(Submitted(message.seq))
    assert asked == [*(f"o{n}" for n in range(50)), "after"]
    assert all(future.acknowledged for future in (*futures, after))
    assert isinstance(large.exception(0), TooLarge)
    assert "o" * 500 not in talk.futures
    assert (talk.session._unsent.count, talk.session.finished_calls, talk.session.busy) == (
        0,
        52,
        False,
    )


def test_a_message_has_no_more_items_than_the_server_takes():
    """Calls and acknowledgements are spread over several messages."""
    talk = Talk(items=3)
    talk.connect()
    for n in range(10):
        talk.defer(f"o{n}")
    counts = []
    while messages := talk.sent():
        for message in messages:
            counts.append(len(message.operations))
            talk.deliver(Submitted(message.seq))
    assert counts == [3, 3, 3, 1]
    told = Outcomes([end(n + 1, f"o{n}") for n in range(10)])
    assert [len(message.outcomes) for message in talk.deliver(told)] == [3, 3, 3, 1]


def test_queries_whose_answer_is_too_large_are_asked_again_in_halves():
    """Down to a single one, which fails."""
    talk = Talk()
    talk.connect()
    futures = [talk.ask(Query, f"o{n}") for n in range(5)]
    counts = []
    while messages := talk.sent():
        for message in messages:
            ids = message.op_ids
            counts.append(len(ids))
            if len(ids) > 2 or "o4" in ids:
                talk.deliver(Failure(message.seq, "too-large", "the answer is too large"))
            else:
                states = [OperationStatus(op_id, "pending") for op_id in ids]
                talk.deliver(States(message.seq, states))
    assert counts == [5, 2, 3, 1, 2, 1, 1]
    assert [future.result(0).op_id for future in futures[:4]] == ["o0", "o1", "o2", "o3"]
    assert isinstance(futures[4].exception(0), TooLarge)
    assert (talk.session._unsent.count, talk.session.busy) == (0, False)
    assert talk.session.finished_calls == 5


@pytest.mark.parametrize("code", ["malformed", "too-large", "too-many-held", "too-much-memory"])
def test_a_bad_call_refuses_no_other(code):
    """The server refuses a message as a whole: the halves come again, down to the bad call."""
    talk = Talk()
    talk.connect()
    futures = [talk.ask(Complete, Completion(key, Raw(NOTHING))) for key in "abcde"]
    counts, done = [], []
    while messages := talk.sent():
        for message in messages:
            keys = [one.key for one in message.completions]
            counts.append(len(keys))
            if "d" in keys:
                talk.deliver(Failure(message.seq, code, "why"))
            else:
                done += keys
                talk.deliver(Completed(message.seq, [1] * len(keys)))
    assert (counts, done) == ([5, 2, 3, 1, 2, 1, 1], ["a", "b", "c", "e"])
    assert isinstance(futures.pop(3).exception(0), Refused)
    assert [future.result(0) for future in futures] == [1] * 4


def test_a_refusal_of_all_calls_is_not_repeated():
    """A right that is missing, or a disk that fails, is so for each of them."""
    talk = Talk()
    talk.connect()
    futures = [talk.ask(Complete, Completion(key, Raw(NOTHING))) for key in "ab"]
    [message] = talk.sent()
    talk.deliver(Failure(message.seq, "store", "the disk is full"))
    assert talk.sent() == []
    assert all(isinstance(future.exception(0), StoreFailed) for future in futures)


def test_every_hello_names_the_session():
    """So the server knows which requests it has done before."""
    talk = Talk()
    hellos = [decode_request(talk.session.on_connected()) for _ in range(2)]
    assert len({hello.session for hello in hellos}) == 1
    assert hellos[0].session not in ("", decode_request(Talk().session.on_connected()).session)


def refuse_version(talk, version=1):
    """Answer hellos as a server of a version does; returns the hello that it accepts."""
    hello = decode_request(talk.session.on_connected())
    for offered in range(VERSION, version, -1):
        assert hello.version == offered
        refusal = Failure(hello.seq, "version", f"version is {offered}; expected {version}")
        [hello] = talk.deliver(refusal)
    assert (hello.version, hello.client) == (version, "me")
    return hello


def test_a_server_of_version_1():
    """What it knows works; the new verbs fail, naming what is missing, and nothing else does."""
    talk = Talk()
    hello = refuse_version(talk)
    assert talk.deliver(Welcome(hello.seq, 1, "old", talk.limits)) == []
    plain = talk.ask(Complete, Completion("k"))
    limited = talk.ask(Complete, Completion("k", limit=1))
    held = talk.ask(Complete, Completion("k", hold_ms=5))
    extended = talk.ask(Extend, TimeoutExtension("o", 5))
    failed = talk.ask(Fail, KeyFailure("k", "Error"))
    unread, acknowledged = talk.ask(Unread, (0,)), talk.ask(Acknowledge, ([1], True))
    talk.defer("o")
    sent = talk.sent()
    assert [type(message) for message in sent] == [Complete, Submit]
    assert len(sent[0].completions) == 1
    talk.deliver(Completed(sent[0].seq, [1]))
    assert plain.result(0) == 1
    lacking = {
        "limit": limited,
        "hold": held,
        "extend": extended,
        "fail": failed,
        "unread": unread,
        "acknowledge": acknowledged,
    }
    for name, future in lacking.items():
        with pytest.raises(WrongVersion, match=f"version 1 of the protocol, which lacks {name}$"):
            future.result(0)
    assert talk.session.finished_calls == 8
    talk.deliver(Submitted(sent[1].seq))
    assert not talk.session.busy


def test_a_server_of_version_2():
    """Options that it does not know fail, and the others of the message go on."""
    talk = Talk()
    hello = refuse_version(talk, 2)
    assert talk.deliver(Welcome(hello.seq, 2, "old", talk.limits)) == []
    plain = talk.defer("plain")
    tagged = talk.futures["tagged"] = ServiceFuture(None, "tagged")
    submission = Submission("tagged", ("k",), 1000, options=SubmissionOptions(tags=("t",)))
    talk.session.add(Submit, [(submission, tagged)])
    listed = talk.ask(ListJobs, (JobFilter(),))
    extended = talk.ask(Extend, TimeoutExtension("o", 5))
    sent = talk.sent()
    assert [type(message) for message in sent] == [Submit, Extend]
    assert [each.op_id for each in sent[0].operations] == ["plain"]
    for name, future in {"tags": tagged, "list jobs": listed}.items():
        with pytest.raises(WrongVersion, match=f"version 2 of the protocol, which lacks {name}$"):
            future.result(0)
    assert list(talk.futures) == ["plain"]
    assert not plain.done()
    assert not extended.done()
    assert talk.session.finished_calls == 4


def test_a_server_that_speaks_no_version():
    """Its refusal is the error of all calls."""
    talk = Talk()
    future = talk.ask(Complete, Completion("k"))
    hello = refuse_version(talk)
    assert talk.deliver(Failure(hello.seq, "version", "version is 1; expected 9")) == []
    with pytest.raises(WrongVersion, match="expected 9"):
        future.result(0)


def test_a_server_that_is_replaced_by_an_older_one(talk):
    """Unanswered calls that it does not know fail, the others are sent again."""
    extended = talk.ask(Extend, TimeoutExtension("o", 5))
    plain = talk.ask(Complete, Completion("k"))
    assert len(talk.sent()) == 2
    hello = refuse_version(talk)
    [again] = talk.deliver(Welcome(hello.seq, 1, "old", talk.limits))
    assert isinstance(again, Complete)
    assert not plain.done()
    with pytest.raises(WrongVersion, match="lacks extend"):
        extended.result(0)


def test_waits_for_jobs_at_an_older_server(talk):
    """They fail when the server is replaced, and the next ones at once."""
    for _ in range(2):
        future = JobEndFuture("a")
        watch = talk.session.job_waits.enter(future)
        talk.session.add(WatchJobs, [("a", watch)])
        for message in talk.sent():
            talk.deliver(JobStates(message.seq, [JobStatus("a", "ready")]))
        if not future.done():
            talk.session.on_disconnected(lost=True)
            hello = refuse_version(talk, 2)
            talk.deliver(Welcome(hello.seq, 2, "old", talk.limits))
            assert talk.sent() == []
        with pytest.raises(WrongVersion, match="lacks watch jobs"):
            future.result(0)
    assert len(talk.session.job_waits) == 0
    assert not talk.session.busy


def test_a_newer_server_is_found_on_the_next_connection(talk):
    """The version is offered anew on each connection."""
    hello = refuse_version(talk)
    talk.deliver(Welcome(hello.seq, 1, "old", talk.limits))
    talk.connect()
    extended = talk.ask(Extend, TimeoutExtension("o", 5))
    [message] = talk.sent()
    talk.deliver(Extended(message.seq, [True]))
    assert extended.result(0) is True


def test_when_a_caller_may_send_its_call():
    """With a connection, while no other call is unanswered, and until the session has failed."""
    talk = Talk()

    def begin():
        return talk.session.begin(Query, ("a", ReplyFuture()))

    assert begin() is None
    talk.connect()
    [message] = map(decode_request, begin())
    assert begin() is None
    talk.deliver(States(message.seq, [OperationStatus("a", "unknown")]))
    assert len(begin()) == 1
    talk.session.fail(ServerClosing("over"))
    assert begin() is None


@pytest.mark.parametrize(("version", "most"), [(VERSION, 1000), (3, 1000), (2, None)])
def test_how_large_a_result_may_be(version, most):
    """As a payload; not known without a connection, and an older server keeps none."""
    talk = Talk()
    assert talk.session.max_result_bytes is None
    talk.connect(version)
    assert talk.session.max_result_bytes == most


def test_failing(talk):
    """The future of an operation that failed raises the error's name and text."""
    future = talk.defer("o")
    count = talk.ask(Fail, KeyFailure("k", "ValueError", "why"))
    for message in talk.sent():
        talk.deliver(Failed(message.seq, [1]) if isinstance(message, Fail)
                     else Submitted(message.seq))  # fmt: skip
    assert count.result(0) == 1
    talk.deliver(Outcomes([end(1, "o", "failed", ["ValueError", "why"])]))
    with pytest.raises(OperationFailed, match=r"^ValueError: why$") as caught:
        future.result(0)
    assert (caught.value.error_type, caught.value.message) == ("ValueError", "why")


@pytest.mark.parametrize("error", [None, 5, [], ["only one"], {}])
def test_an_error_of_a_later_version(talk, error):
    """It fails the future, too."""
    future = talk.defer("o")
    talk.deliver(Outcomes([end(1, "o", "failed", error)]))
    with pytest.raises(OperationFailed):
        future.result(0)


class RecordingLink:
    """What a session tells its worker."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda *news: self.told.append((name, *news))


LEASED = [LeasedJob(1, 2, "job", "mail", 1, 0, 0)]
LEASES = [Lease(1, 2)]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (LeaseReady("n", "h"), [("lease", LeaseReady("n", "h"))]),
        (Jobs(LEASED), [("on_jobs", LEASED)]),
        (CancelLeases(LEASES), [("on_cancelled", CancelLeases(LEASES))]),
        (Ping(), []),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("listens", [True, False])
def test_news_of_leases(talk, message, told, listens):
    """Each kind goes to who listens to it, and to nobody else; nothing is sent."""
    link = RecordingLink()
    if listens:
        talk.session.worker = link
        talk.session.on_lease_ready = lambda news: link.told.append(("lease", news))
    assert talk.deliver(message) == []
    assert link.told == (told if listens else [])
    assert talk.session.has_callbacks(message) is not isinstance(message, Ping)


def _watch_no_longer(talk):
    future = JobEndFuture("job")
    talk.session.add(WatchJobs, [("job", talk.session.job_waits.enter(future))])
    [message] = talk.sent()
    talk.deliver(JobStates(message.seq, [JobStatus("job", "ready")]))
    talk.session.job_waits.leave(future)


@pytest.mark.parametrize(
    ("have_something", "kind"),
    [
        (lambda talk: talk.ask(Complete, Completion("k")), Complete),
        (lambda talk: talk.session.received.handled.append(1), None),
        (_watch_no_longer, None),
        (lambda talk: talk.session.begun.append(Lease(1, 2)), Begin),
    ],
    ids=["calls", "acknowledgements", "watches", "begun"],
)
def test_without_a_connection_nothing_is_sent(talk, have_something, kind):
    """Calls wait for the next one; what is of the last connection alone is dropped."""
    have_something(talk)
    talk.session.on_disconnected(lost=True)
    assert talk.sent() == []
    talk.connect()
    assert [type(message) for message in talk.sent()] == ([] if kind is None else [kind])
    have_something(talk)
    assert len(talk.sent()) == 1


def test_messages_that_lost_connections_are_sent_one_by_one(talk):
    """The next one after the answer, on the same connection; new ones after all of these."""
    calls = [talk.ask(kind, item) for kind, item in ((Complete, Completion("k")), (Query, "a"))]
    first, second = talk.sent()
    for sent in ([first, second], [first]):
        talk.session.on_disconnected(lost=True)
        assert talk.connect() == sent
    talk.ask(Extend, TimeoutExtension("a", 5))
    assert talk.sent() == []
    talk.deliver(Completed(first.seq, [1]))
    talk.session.on_disconnected(lost=True)
    assert talk.sent() == []
    assert talk.connect() == [second]
    talk.deliver(States(second.seq, [OperationStatus("a", "unknown")]))
    assert [type(message) for message in talk.sent()] == [Extend]
    assert all(call.done() for call in calls)


def test_a_message_is_given_up_once_it_has_lost_its_connections(talk):
    """It may be the cause; later calls are sent."""
    call = talk.ask(Complete, Completion("k"))
    sendings = len(talk.sent())
    while not call.done():
        talk.session.on_disconnected(lost=True)
        sendings += len(talk.connect())
    assert sendings == MAX_SENDINGS
    with pytest.raises(RequestAbandoned, match=f"lost {MAX_SENDINGS} times"):
        call.result(0)
    talk.ask(Query, "a")
    assert len(talk.sent()) == 1


@pytest.mark.parametrize("told", [JobStates, JobEnds])
def test_the_end_of_a_job_has_the_programs_values(talk, told):
    """With the answer, or later."""
    future = JobEndFuture("job")
    talk.session.add(WatchJobs, [("job", talk.session.job_waits.enter(future))])
    [message] = talk.sent()
    traced = wrap("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Raw(encode("p")))
    done = JobStatus("job", "done", payload=traced, result=Raw(encode(5)))
    if told is JobEnds:
        talk.deliver(JobStates(message.seq, [JobStatus("job", "running")]))
        talk.deliver(JobEnds([done]))
    else:
        talk.deliver(JobStates(message.seq, [done]))
    assert (future.result(0).payload, future.result(0).result) == ("p", 5)


def test_questions_whether_a_server_lives():
    """A probe asks nothing; a hello to another server takes no outcomes from there."""
    talk = Talk(on_outcome=print)
    talk.connect()
    probe, hello = map(decode_request, (talk.session.probe(), talk.session.trial_hello()))
    assert (type(probe), probe.op_ids) == (Query, [])
    assert (type(hello), hello.client, hello.version, hello.takes) == (Hello, "me", VERSION, False)
    assert hello.seq > probe.seq > 1


@pytest.mark.parametrize("why", ["", "unsent", "unanswered", "future", "worker", "wait", "handler"])
def test_when_frames_are_expected(why):
    """While something is to be told to the client, and always if it has an `on_outcome`."""
    talk = Talk(on_outcome=print if why == "handler" else None)
    if why == "unanswered":
        talk.connect()
    if why.startswith("un"):
        talk.ask(Query, "a")
        talk.sent()
    elif why == "future":
        talk.futures["a"] = ServiceFuture(None, "a")
    elif why == "worker":
        talk.session.worker = RecordingLink()
    elif why == "wait":
        talk.session.job_waits.enter(JobEndFuture("job"))
    assert talk.session.expects_frames is bool(why)
