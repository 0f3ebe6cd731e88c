"""docs/protocol.md has the messages, codes and limits of the code, and no others."""

import re

import pytest
from msgspec import NODEFAULT, Raw
from msgspec.structs import fields

from purgatory.service import errors, job_messages, protocol
from purgatory.service.client.client import Client
from purgatory.service.client.connection import (
    _GIVE_UP_PART,
    _PROBE_ALONE_PART,
    _PROBE_PART,
    _SCOUT_PART,
)
from purgatory.service.client.unsent_calls import MAX_SENDINGS
from purgatory.service.config import Config
from purgatory.service.encoding import unpack
from purgatory.service.protocol import (
    OLDEST_VERSION,
    VERSION,
    Acknowledge,
    Extend,
    Fail,
    Finish,
    How,
    Keep,
    ReadOperations,
    Submit,
    Unread,
    Work,
)
from purgatory.service.server.commands import ClientConnected, ClientDisconnected
from purgatory.service.server.jobs.job_statuses import MOST as MOST_LISTED
from purgatory.service.server.jobs.job_watches import PER_CONNECTION
from purgatory.service.server.jobs.mass_cancels import PORTION
from purgatory.service.server.leases.job_leases import BUSY, NO_WORKER
from purgatory.service.server.limits.kind_limits import PAUSED, RATE, RUNNING
from purgatory.service.server.limits.limit_requests import MOST as MOST_LIMITS
from purgatory.service.server.memory import REPLIES_SHARE
from purgatory.service.server.named_leases.lease_requests import MIN_KEEP_MS
from purgatory.service.server.named_leases.named_lease import ABSENCE_MS
from purgatory.service.server.named_leases.named_leases import MAX_LEASES, MAX_WAITERS, TAKE_UP_MS
from purgatory.service.server.network.connections import (
    ALL_BACKLOGS_BYTES,
    BACKLOG_BYTES,
    BACKLOG_FRAMES,
)
from purgatory.service.server.network.flood_gates import MOST_UNREAD, FloodGates
from purgatory.service.server.network.reception import MAX_REFUSALS
from purgatory.service.server.network.unfinished_messages import UnfinishedMessages
from purgatory.service.server.network.unread_connections import UnreadConnections
from purgatory.service.server.network.waiting_messages import MAX_WAITING
from purgatory.service.server.reads.pending_reads import READS_PER_CLIENT
from purgatory.service.server.records.remembered_replies import (
    REPLIES_PER_SESSION,
    SESSION_MS,
    SESSIONS_PER_CLIENT,
)
from purgatory.service.server.records.retention import READABLE_MS
from purgatory.service.verbs import VERBS
from tests.test_docs import ROOT, text_of
from tests.testing.step_server import StepServer, job, operation

PAGE = (ROOT / "docs" / "protocol.md").read_text()
ITEMS = {  # of requests, by the first name in the item
    "op_id, keys": protocol.Submission,
    "key, value": protocol.Completion,
    "op_id, timeout_ms": protocol.TimeoutExtension,
    "key, error_type": protocol.KeyFailure,
    "number, token, how": protocol.LeaseEnd,
    "job_id, delay_ms": job_messages.Reschedule,
    "name, cron": job_messages.Repeat,
    "kind=nil, state=nil": job_messages.JobFilter,
    "unique_ms=-1": protocol.SubmissionOptions,
    "job_id, state, number": job_messages.JobStatus,
    "op_id, state, kind": protocol.OperationStatus,
    "number, op_id, outcome": protocol.OutcomeMessage,
    "number, token, op_id": protocol.LeasedJob,
    "message_bytes": protocol.Limits,
    "repeat, client, paused": job_messages.RepeatState,
}
# What came with version 3: the messages of this module.
JOB_MESSAGES = {
    value for value in vars(job_messages).values() if hasattr(value, "__struct_config__")
}
# Answers whose page leaves the defaults of lists out: an empty list is what is not listed.
LISTS_ALONE = {"Submitted"}


def messages():
    """Return the messages of the code by their type's number."""
    found = [value for module in (protocol, job_messages) for value in vars(module).values()]
    structs = [each for each in found if hasattr(each, "__struct_config__")]
    return {each.__struct_config__.tag: each for each in structs if each.__struct_config__.tag}


def parts_of(text):
    """Split at the commas that are in no bracket."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def message_parts():
    """Yield the number of each message on the page, and the parts that follow it."""
    for match in re.finditer(r"`\[(\d+)((?:, .*?)?)\](?=`)", PAGE):
        yield int(match[1]), parts_of(match[2].removeprefix(", "))


def test_each_message_is_on_the_page():
    """The numbers of requests, answers and pushes are those of the code."""
    assert {number for number, _ in message_parts()} == set(messages())


@pytest.mark.parametrize(("number", "parts"), list(message_parts()), ids=str)
def test_a_message_has_the_parts_of_the_code(number, parts):
    """As many parts as fields, and as many of them with a default."""
    message = messages()[number]
    defaults = [part for part in parts if re.search(r"(^\w+|[\]}])=", part)]
    optional = [each for each in fields(message) if each.required is False]
    assert len(parts) == len(fields(message)), parts
    if message.__name__ not in LISTS_ALONE:
        assert len(defaults) == len(optional), parts


def shown(default):
    """Write a default as the page does."""
    if default is None or isinstance(default, Raw):
        return "nil"
    return f'"{default}"' if isinstance(default, str) else str(default).lower()


@pytest.mark.parametrize("start", ITEMS)
def test_an_item_has_the_fields_of_the_code(start):
    """Names, order and defaults; a default may be left out in an answer."""
    places = re.findall(rf"\[({re.escape(start)}[^\[\]]*(?:\[\][^\[\]]*)*)\]", PAGE)
    assert places
    for place in places:
        named = [part.partition("=") for part in parts_of(place) if part != "…"]
        known = fields(ITEMS[start])
        assert [name for name, _, _ in named] == [each.name for each in known][: len(named)]
        assert len(named) == len(known) or "…" in place
        for (_, equals, text), field in zip(named, known, strict=False):
            if equals and field.default is not NODEFAULT:
                assert text == shown(field.default) or (text, field.default) == ("[]", ())


def test_the_table_of_codes():
    """Each code of a refusal is in the table, and no other."""
    table = PAGE[PAGE.index("| code | reason |") :].split("\n\n")[0]
    listed = {
        code
        for line in table.splitlines()
        for code in re.findall(r"`([a-z-]+)`", line.split("|")[1])
    }
    codes = {getattr(each, "code", "") for each in vars(errors).values() if isinstance(each, type)}
    assert listed == codes - {"", errors.Refused.code}


def test_what_earlier_versions_lack():
    """The section names the messages of version 3 by number, and the requests of version 2."""
    section = " ".join(PAGE[PAGE.index("## Versions 2 and 1") :].split())
    lacked = re.search(r"neither the messages ((?:\d+ to \d+(?:, | and )?)+)", section)[1]
    ranges = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) to (\d+)", lacked)]
    numbers = {number for first, last in ranges for number in range(first, last + 1)}
    newer = {each.__struct_config__.tag for each, verb in VERBS.items() if verb.version == VERSION}
    answers = {
        verb.answer.__struct_config__.tag for verb in VERBS.values() if verb.version == VERSION
    }
    of_jobs = {number for number, message in messages().items() if message in JOB_MESSAGES}
    assert newer | answers | of_jobs == numbers & set(messages())
    first = section[section.index("Version 1 has neither") :]
    names = {ReadOperations: "list", Extend: "extend", Fail: "fail", Unread: "unread"}
    later = {each for each, verb in VERBS.items() if verb.version == 2}
    for request in later - {Acknowledge, Work, Keep, Finish}:
        assert f"`{names[request]}`" in first


def test_what_is_answered_from_memory():
    """The page names the requests whose changes are on no disk when they are answered."""
    server = StepServer(None)
    handler = server.handler
    on_disk = {Submit, *handler._changes, *handler._repeatable}
    server.store.close()
    changing = {each for each, verb in VERBS.items() if verb.right != "read"}
    sentence = re.search(r"\*\*An answer means that the change is on disk\*\*.*", PAGE)[0]
    names = {each.__name__.lower() for each in changing - on_disk}
    assert set(re.findall(r"\*(\w+)\*(?!\*)", sentence)) == names == {"acknowledge", "work", "keep"}


def test_why_a_ready_job_waits():
    """The page has each reason of the code."""
    sentence = re.search(r"`why` of a ready job is ([^.]*)\.", PAGE)[1]
    reasons = {PAUSED, RUNNING, RATE, NO_WORKER, BUSY}
    assert set(re.findall(r"`([^`]*)`", " ".join(sentence.split()))) == reasons
    assert "empty while a worker holds the job ahead" in " ".join(sentence.split())


@pytest.fixture
def server():
    """A server, step by step, with its store in memory."""
    server = StepServer(None)
    yield server
    server.store.close()


def text():
    """Return the page as one line."""
    return " ".join(PAGE.split())


def test_how_long_a_job_has_an_error(server):
    """Not when it is rescheduled, is retried when dead, or is done."""
    assert "`error`: of the last failed attempt, until the job is done, is rescheduled, or is " in (
        text()
    )
    moved, dead = fail_once(server, "moved", 2), fail_once(server, "dead", 1)
    assert (moved, dead) == (("retrying", "Boom: x"), ("dead", "Boom: x"))
    move = job_messages.Reschedule("moved", 5000)
    assert server.ask(job_messages.RescheduleJobs, [move]).done == [True]
    assert server.ask(job_messages.RetryJobs, ["dead"]).done == [True]
    [again] = server.leased
    assert (server.job("moved").state, server.job("moved").error) == ("retrying", "")
    assert (server.job("dead").state, server.job("dead").error) == ("running", "")
    server.finish(again)
    assert (server.job("dead").state, server.job("dead").error) == ("done", "")


def fail_once(server, job_id, attempts):
    """Have the first attempt of a job fail; return the job's state and error."""
    server.submit(job(job_id, timeout_ms=0, kind=job_id))
    server.pass_time(2)
    [leased] = server.work(job_id, attempts=attempts, route=job_id.encode())
    server.finish(leased, how=How.FAILED, delay_ms=60_000, error="Boom: x")
    status = server.job(job_id)
    return status.state, status.error


@pytest.mark.parametrize(
    ("end", "state"), [("time", "dead"), ("connection", "dead"), ("", "ready")]
)
def test_which_ends_of_a_lease_fail_an_attempt(tmp_path, end, state):
    """Not the end of the server's process: after a restart a job with one attempt runs again."""
    assert "A lease that ends by time, or with its connection, is a failed attempt if" in text()
    assert "has begun; the end of the server's process fails none." in text()
    said = "if the lease ends before, unless by a server's restart"
    assert said in text_of("docs/glossary.md")
    server = StepServer(tmp_path / "db")
    server.hello()
    server.submit(job("a", timeout_ms=0))
    server.pass_time(2)
    [leased] = server.work(attempts=1, lease_ms=1000)
    assert (leased.attempt, server.job("a").state) == (1, "running")
    if end == "time":
        server.let_pass(2000)
    elif end == "connection":
        server.send(ClientDisconnected("c", b"w"))
    else:
        server.crash()
    assert server.job("a").state == state
    server.store.close()


@pytest.mark.parametrize("begins", [True, False])
def test_a_cancelled_job_that_a_worker_holds_ahead(server, begins):
    """It does not end at once: it may end done, if its handler has begun meanwhile."""
    assert "and one that a worker holds ahead, gets no further attempt" in text()
    assert "A job that no worker holds ends at once." in Client.cancel_job_later.__doc__
    server.work(begins=True)
    server.submit(job("a", timeout_ms=0))
    server.pass_time(2)
    [leased] = server.leased
    assert server.ask(job_messages.CancelJobs, ["a"]).done == [True]
    assert server.job("a").state == "ready"
    server.post_finish(leased, how=How.DONE if begins else How.RETURNED)
    server.step()
    assert server.job("a").state == ("done" if begins else "cancelled")


def test_a_dead_job_is_neither_cancelled_nor_moved(server):
    """Though it has not ended: the page, and the docstrings of the client's methods."""
    assert "`[117, seq, [bool, …]]`: false: the job is running or dead, has ended, or is" in text()
    for call in (Client.cancel_job, Client.reschedule_job):
        assert "has ended, is dead or is not known" in call.__doc__
    fail_once(server, "dead", 1)
    assert server.ask(job_messages.CancelJobs, ["dead"]).done == [False]
    move = job_messages.Reschedule("dead", 5000)
    assert server.ask(job_messages.RescheduleJobs, [move]).done == [False]


def test_which_jobs_a_cancellation_by_filter_ends(server):
    """A job counts by its state when the server reaches the job, not when the request came."""
    assert "goes through the jobs submitted before, the newest first, and cancels each" in text()
    server.submit(*[job(f"j{n}", timeout_ms=5) for n in range(3 * PORTION)])
    server.post(job_messages.CancelMatching, job_messages.JobFilter(state="scheduled"))
    server.advance()  # it arrives
    server.post(Submit, [job("later", timeout_ms=5000)])
    server.advance()  # and begins
    server.pass_time(6)  # due in the transaction of the second portion
    states = [server.job(f"j{n}").state for n in range(3 * PORTION)]
    assert states == ["ready"] * PORTION + ["cancelled"] * 2 * PORTION
    assert server.job("later").state == "scheduled"


def test_what_version_1_hears_of_a_failed_operation(server):
    """The error, as later versions do, though version 1 has no `fail`."""
    said = "version 1 that another client fails has the outcome `failed`, with the error."
    assert said in text()
    server.send(ClientConnected(b"r", "c", 0, OLDEST_VERSION))
    server.submit(operation("a", "k"))
    server.post(Fail, [protocol.KeyFailure("k", "Broken", "pipe")], client="d")
    [outcome] = server.step()[1]
    assert (outcome.outcome, unpack(outcome.result)) == ("failed", ["Broken", "pipe"])


def test_for_how_long_an_outcome_is_sent():
    """Until the acknowledgement, but not for longer than the setting says."""
    assert Config().retention == 7 * 86400
    assert "until the acknowledgement, for a week at most (`retention`)" in text()


def most_unfinished():
    """Return how many bytes a peer may send without a complete message, with the defaults."""
    limits = {"most": MOST_UNREAD, "message_bytes": Config().max_message_bytes}
    looks = UnfinishedMessages(
        0, FloodGates(UnreadConnections()), **limits, max_memory=0, is_crowded=bool
    )
    return looks._most_bytes


def test_the_periods_in_words():
    """What the page writes as words."""
    assert SESSION_MS == 10 * 60_000
    assert 2 * REPLIES_SHARE == 16  # half of the share is for all, the other for each client's part
    assert (TAKE_UP_MS, ABSENCE_MS, MAX_SENDINGS) == (10_000, 30_000, 5)
    assert (_PROBE_PART, _SCOUT_PART) == (0.33, 0.67)  # a third, two thirds
    assert (_PROBE_ALONE_PART, _GIVE_UP_PART) == (1, 4)  # after `lost_after`, and four times that


@pytest.mark.parametrize(
    "statement",
    [
        f"# The protocol of the service, version {VERSION}\n",
        f"the version before, down to {OLDEST_VERSION}",
        f"answers to the last {REPLIES_PER_SESSION} of these requests",
        f"a client has at most {REPLIES_PER_SESSION} such requests unanswered",
        f"remembers {SESSIONS_PER_CLIENT:,} sessions of a client",
        f"than the server has taken of its last {MOST_UNREAD} messages",
        f"At most {READS_PER_CLIENT} of a client's queries wait",
        f"the server may answer as before, for up to {READABLE_MS // 1000} s",
        f"`keep_ms` is at least {MIN_KEEP_MS}.",
        f"at most {MAX_LEASES:,} names and {MAX_WAITERS:,} waiters",
        f"Kinds with a limit are at most {MOST_LIMITS:,}.",
        f"A connection may watch {PER_CONNECTION:,} jobs.",
        f"A page has at most {MOST_LISTED} jobs.",
        f"at most {PORTION} in each transaction",
        f"a connection's {MAX_REFUSALS + 1:,}st request",
        f"A peer that has sent {most_unfinished() >> 20} MiB and no complete message",
        f"{BACKLOG_FRAMES:,} of its answers, or {BACKLOG_BYTES >> 20} MiB, are queued unread",
        f"At {ALL_BACKLOGS_BYTES >> 20} MiB for all clients, it cuts off those that have not read",
        f"for the longest time, down to {ALL_BACKLOGS_BYTES >> 21} MiB",
        f"a connection of which more than {MAX_WAITING >> 20} MiB waits",
    ],
)
def test_the_page_states_a_limit_of_the_code(statement):
    """Numbers of the page are those of the code."""
    assert " ".join(statement.split()) in " ".join(PAGE.split())
