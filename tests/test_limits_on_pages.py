"""Limits and periods on the pages are those of the code; test_statements has the defaults."""

import re
from dataclasses import fields

import msgspec
import pytest

from mq.core.context_core import SLOT_WAIT_S
from purgatory.cli.process import _ENOUGH
from purgatory.journal.journals import ParquetJournal
from purgatory.journal.writer import BATCH
from purgatory.service import errors
from purgatory.service.client.async_client import MAX_RUNNING
from purgatory.service.client.calls import BACKLOG, CALLS_PER_MESSAGE
from purgatory.service.client.connection import _GIVE_UP_PART
from purgatory.service.client.leases.lease_keeper import _KEPT_PER_TIME
from purgatory.service.client.outcomes import ATTEMPTS, FIRST_DELAY_S, MAX_DELAY_S
from purgatory.service.client.route.address_route import ROUND_DELAY_S
from purgatory.service.client.route.socket_options import LOST_AFTER_S
from purgatory.service.client.session import MAX_UNANSWERED, PIPELINE_DEPTH
from purgatory.service.client.unsent_calls import MAX_SENDINGS
from purgatory.service.cluster.lease_watch import YIELD_S
from purgatory.service.cluster.store_lease import MARGIN
from purgatory.service.config import LEAST_TAKEOVER_S, PARTITION, Config
from purgatory.service.gateway.count_feed import PERIOD_S
from purgatory.service.gateway.health import PATIENCE_S
from purgatory.service.gateway.messages import JobRequest, OperationRequest
from purgatory.service.gateway.outcomes import _QUIET_S
from purgatory.service.gateway.server import KEEP_ALIVE_S, MAX_WAIT_S, StreamingProtocol
from purgatory.service.http.listening import MAX_CONNECTIONS, REQUEST_S
from purgatory.service.http.server import _COARSE_ROWS, _COARSE_S
from purgatory.service.job_messages import MOST_KINDS
from purgatory.service.machine_memory import MAX_BYTES, MIN_BYTES, SHARE
from purgatory.service.protocol import MAX_ROOM
from purgatory.service.server import clock, commits, fair_queue, store_loop
from purgatory.service.server.jobs import job_watches
from purgatory.service.server.leases import job_requests
from purgatory.service.server.leases.job_leases import MAX_LOSSES
from purgatory.service.server.leases.lease_ends import _KEPT_ERROR
from purgatory.service.server.limits import limit_requests
from purgatory.service.server.memory import _KEY_BYTES, operation_bytes
from purgatory.service.server.named_leases.named_leases import MAX_LEASES, MAX_WAITERS
from purgatory.service.server.network import (
    accept_gate,
    flood_gates,
    lent_store,
    network,
    waiting_messages,
)
from purgatory.service.server.network.network import WORKER_PING_S
from purgatory.service.server.reads.pending_reads import READS_PER_CLIENT
from purgatory.service.server.records import retention
from purgatory.service.server.records.remembered_replies import SESSION_MS, SESSIONS_PER_CLIENT
from purgatory.service.server.repeats import load_repeats, repeat_requests, repeat_runs
from purgatory.service.server.server_health import READY_BOUND_S, STUCK_S
from purgatory.service.server.validation import MOST_PERIOD_MS
from purgatory.service.store.rows import KEPT_ATTEMPTS, MAX_BATCH
from purgatory.service.store.sqlite.schema import MAX_CHECKED
from purgatory.service.worker.handlers import MAX_CONCURRENCY
from purgatory.service.worker.held_jobs import LOOK_AHEAD_S, MAX_AHEAD
from purgatory.service.worker.worker import STOP_TIMEOUT_S
from tests.test_docs import ROOT, text_of
from timingwheel.lanes import MAX_LANES
from timingwheel.wheel_state import MAX_SEEN

MIB, GIB = 20, 30

# (page, what it says)
LIMITS = [
    ("service.md", f"within `lost_after={LOST_AFTER_S}` seconds"),
    ("service.md", f"When about {BACKLOG:,} calls are unsent, further ones, `defer` too, block"),
    ("service.md", f"up to {MAX_RUNNING} calls at a time"),
    ("service.md", f"retries within {FIRST_DELAY_S} s, then ever later, up to {MAX_DELAY_S:.0f} s"),
    ("service.md", f"running handlers may finish, for up to {STOP_TIMEOUT_S:.0f} s"),
    ("service.md", f"at least {MIN_BYTES >> MIB} MiB, at most {MAX_BYTES >> GIB} GiB"),
    (
        "service.md",
        f"{operation_bytes('order-17', 'order', ['paid:17']) / 1000:.1f} kB for a small operation",
    ),
    ("service.md", f"{_KEY_BYTES / 1000:.1f} kB and the text for each further key"),
    ("service.md", f"up to {accept_gate.CONNECTION_BYTES // 1000} kB outside the estimate"),
    (
        "service.md",
        f"takes by itself (at most {_ENOUGH:,}), less {accept_gate._LEFT}, less its own files",
    ),
    ("service.md", f"it accepts {accept_gate.MAX_ARRIVALS} new connections a second"),
    ("service.md", f"beyond {MAX_CONNECTIONS} connections the server closes the longest idle"),
    ("service.md", f"have the first {MOST_KINDS} kinds since the start by name"),
    ("service.md", f"other figures the {MOST_KINDS} kinds with most jobs"),
    ("service.md", f"has not returned for {READY_BOUND_S:.0f} s"),
    ("service.md", f"at most {MAX_AHEAD} for each"),
    ("service.md", f"has the last {KEPT_ATTEMPTS} attempts"),
    ("service.md", f"first {_KEPT_ERROR} characters"),
    ("console.md", f"its last {KEPT_ATTEMPTS} attempts"),
    ("protocol.md", f"up to {KEPT_ATTEMPTS} attempts"),
    ("protocol.md", f"`room` above {MAX_ROOM:,}"),
    ("service.md", f"Of remembered ids it checks at most {MAX_CHECKED:,}"),
    ("protocol.md", f"The {MOST_KINDS} kinds with most jobs have counts of their own"),
    ("gateway.md", f"its server answers within {PATIENCE_S:.0f} s"),
    ("gateway.md", f"connections, and an idle one for {KEEP_ALIVE_S:.0f} s"),
    ("gateway.md", f"keeps at most {StreamingProtocol.max_connections:,} connections"),
    ("gateway.md", f"After {_QUIET_S:.0f} s without an outcome comes a line with a colon"),
    ("gateway.md", f"delivers no further outcome, and ends within {_QUIET_S:.0f} s"),
    ("gateway.md", f"must wait for an answer for longer than {MAX_WAIT_S:.0f} s"),
    ("high-availability.md", f"`--takeover-after` ({Config().takeover_after:.0f} s)"),
    ("high-availability.md", f"at least {LEAST_TAKEOVER_S} s, + up to 1 s"),
    ("high-availability.md", f"two thirds of `lost_after` ({LOST_AFTER_S:.0f} s), its client asks"),
    ("high-availability.md", f"it waits for at most {ROUND_DELAY_S[1]} seconds"),
    ("howto/nightly-report.md", f"up to {repeat_requests.MOST:,} repeats"),
    ("howto/nightly-report.md", f"a client {repeat_requests.MOST_OF_A_CLIENT:,}."),
    ("howto/nightly-report.md", f"shortest interval is {repeat_requests.MIN_EVERY_MS} ms"),
    ("design.md", f"one row, as it arrived, up to {MAX_BATCH} operations"),
    ("design.md", f"a transaction of up to {lent_store.MAX_OWN_COMMANDS} requests"),
    ("design.md", f"up to {fair_queue.MAX_BYTES >> MIB} MB, for that is cheapest"),
    ("design.md", f"a transaction takes {fair_queue.SHARED_BYTES >> 10} KB, or one frame"),
    ("design.md", f"with a credit of {fair_queue.CREDIT >> 10} KB a turn"),
    ("design.md", f"{waiting_messages.AHEAD_BYTES >> 10} KiB of each go ahead at a time"),
    ("design.md", f"behind by {network.IN_FLIGHT_BYTES >> MIB} MiB of requests"),
    ("design.md", f"{network.SHARED_IN_FLIGHT_BYTES >> MIB} MiB while several clients ask"),
    ("design.md", f"{network.WAITING_BYTES >> MIB} MiB are set aside"),
    ("design.md", f"of which more than {waiting_messages.MAX_WAITING >> MIB} MiB waits"),
    ("design.md", f"A client has at most {MAX_UNANSWERED} messages under way"),
    ("design.md", f"of a connection with more than {flood_gates.MOST_UNREAD} (`FloodGates`)"),
    (
        "design.md",
        f"more than {accept_gate.MAX_ARRIVALS} new connections have sent something within a second",
    ),
    ("design.md", f"when {BATCH:,} rows have gathered"),
    ("service.md", f"once a minute (`journal_seconds`), earlier with {BATCH:,} rows"),
    ("design.md", f"the next calls of a kind gather, up to {CALLS_PER_MESSAGE}."),
    ("locks.md", f"to sort {MAX_SEEN:,} tasks at most"),
]


@pytest.mark.parametrize(("page", "statement"), LIMITS)
def test_a_page_states_the_limit_of_the_code(page, statement):
    """The number on the page is the one in the code."""
    text = " ".join((ROOT / "docs" / page).read_text().split())
    assert " ".join(statement.split()) in text


def test_the_table_of_limits():
    """service.md has each `max_` setting, its default, and the error beyond."""
    page = (ROOT / "docs" / "service.md").read_text()
    table = page[page.index("### Limits") : page.index("### Memory and connections")]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    settings = {setting.strip("`"): most for _, most, setting, _ in rows if setting}
    for setting, most in settings.items():
        if setting == "max_timeout":
            assert most == f"{Config().max_timeout / 86400:.0f} days"
        elif setting != "max_memory":
            assert most.startswith(f"{getattr(Config(), setting):,}")
    every = {field.name for field in fields(Config) if field.name.startswith("max_")}
    assert every - {"max_items"} == settings.keys()
    for *_, beyond in rows:
        name = re.search(r"`(\w+)`", beyond)[1]
        assert hasattr(errors, name) or name == "ValueError"
    repeats = f"{repeat_requests.MOST_OF_A_CLIENT:,}, {repeat_requests.MOST:,}"
    assert repeats in table
    assert f"| {MAX_LEASES:,} each |" in table
    assert MAX_LEASES == MAX_WAITERS
    assert f"| kinds with a limit or a pause | {limit_requests.MOST:,} |" in table
    assert f"| kinds of a worker | {job_requests.MAX_KINDS:,} |" in table
    watched = f"{job_watches.PER_CONNECTION:,}, {job_watches.MOST:,}"
    assert f"| jobs whose `result` a client, all clients wait for | {watched} |" in table
    assert f"of a client that wait | {READS_PER_CLIENT} |" in table
    assert f"also submits with ids counts twice | {SESSIONS_PER_CLIENT:,} |" in table
    assert f"and for coroutines | {MAX_CONCURRENCY:,} |" in table
    assert MOST_PERIOD_MS == 10 * 366 * 86_400_000


def test_the_limits_in_words():
    """What pages write in words."""
    assert ATTEMPTS == 10  # service.md: after ten calls
    assert MAX_SENDINGS == 5  # service.md: lost five times after the same request
    assert SHARE == 2  # service.md: half of the machine's or the cgroup's memory
    assert accept_gate.MEMORY_SHARE == 8  # service.md: an eighth of `max_memory`
    assert REQUEST_S == 5  # service.md: five seconds for each request
    assert STUCK_S == 60  # service.md: not ended for a minute
    assert LOOK_AHEAD_S == 0.1  # service.md: a tenth of a second of jobs
    assert MAX_LOSSES == 5  # protocol.md: lost five times before a begin
    assert _KEPT_PER_TIME == 3  # howto/one-at-a-time.md: renews three times
    assert YIELD_S == 5  # high-availability.md: the lease again after five seconds
    assert _GIVE_UP_PART == 4  # high-availability.md: four times `lost_after`
    assert WORKER_PING_S == 1  # protocol.md: every second
    assert Config().journal_seconds == 60  # service.md: once a minute
    assert ParquetJournal.__init__.__kwdefaults__["seconds"] == 10  # service.md: every ten seconds
    assert _COARSE_ROWS * _COARSE_S == 3600  # service.md, design.md: an hour
    assert (MOST_KINDS, PERIOD_S) == (100, 1)  # console.md: the hundred busiest; once a second
    assert SESSION_MS == 600_000  # service.md, CHANGELOG.md: sent again within ten minutes
    assert repeat_runs.LATE_MS == 60_000  # nightly-report.md: more than a minute late
    assert repeat_runs.REFUSED_MS == 1000  # nightly-report.md: again each second
    assert repeat_runs.REMEMBERED_EVERY_MS == 60_000  # nightly-report.md: below a minute
    assert retention.RETAINED_OUTCOMES_MS == 600_000  # nightly-report.md, service.md: ten minutes
    assert load_repeats.SET_BACK_MS == 3 * 3_600_000  # nightly-report.md: less than three hours
    assert clock.JUMP_MS == 1000  # design.md: set by a second or more
    assert clock.TICK_NS == 250_000  # design.md: a quarter of a millisecond
    assert fair_queue.SHARED_MS == 10_000  # design.md: within ten seconds
    assert accept_gate.BEHIND_S == 0.05  # design.md: for a twentieth of a second
    assert accept_gate.WINDOW_S == 1  # design.md: within a second
    assert store_loop.READ_S == 0.002  # design.md: two milliseconds between two transactions
    assert commits.RETRY_MS == 1000  # design.md: expiry is tried again a second later
    assert SLOT_WAIT_S == 1  # mq.md: waits up to a second
    assert PIPELINE_DEPTH == 2  # design.md: while two messages are unanswered
    assert MARGIN == 0.1  # glossary.md: a tenth earlier
    assert PARTITION.fullmatch("a" * 20)  # high-availability.md: at most 20
    assert not PARTITION.fullmatch("a" * 21)
    assert MAX_LANES == 8  # locks.md: up to eight lanes


@pytest.mark.parametrize(
    ("kind", "field", "text"), [(OperationRequest, "keys", "k"), (JobRequest, "tags", "t")]
)
def test_the_gateway_has_limits_of_its_own(kind, field, text):
    """gateway.md: whatever the server's `max_keys`."""
    others = {"timeout": 1} if field == "keys" else {"delay": 1}
    found = msgspec.convert({field: [text] * 100, **others}, kind)
    assert len(getattr(found, field)) == 100
    with pytest.raises(msgspec.ValidationError, match="length <= 100"):
        msgspec.convert({field: [text] * 101, **others}, kind)
    statement = "has at most 100 keys, a job 100 tags, also if the server allows more"
    assert statement in text_of("docs/gateway.md")


def test_the_gateway_counts_characters():
    """gateway.md: the server counts bytes, and may allow more."""
    longest = "\N{EURO SIGN}" * 1024
    found = msgspec.convert({"keys": [longest], "op_id": longest}, OperationRequest)
    assert (found.keys, found.op_id) == ([longest], longest)
    with pytest.raises(msgspec.ValidationError, match="length <= 1024"):
        msgspec.convert({"keys": [longest + "k"]}, OperationRequest)
    statement = "Ids and keys in a body are texts of up to 1,024 characters,"
    assert statement in text_of("docs/gateway.md")


def test_the_oldest_database():
    """Pages and tests want the PostgreSQL that the store wants."""
    session = pytest.importorskip("purgatory.service.store.postgres.sessions.session")
    oldest = session.OLDEST_SERVER // 10_000
    text = (ROOT / "docs" / "high-availability.md").read_text()
    assert f"(version {oldest} or newer)" in text
    assert f"`postgresql` ({oldest} or newer;" in text_of("CONTRIBUTING.md")
