"""What the pages for users of a server state is what a server does."""

import shutil

import pyarrow.parquet as pq
import pytest
from msgspec import Raw

from purgatory.service import Client, Config, ServiceDaemon
from purgatory.service.encoding import encode
from purgatory.service.errors import TooManySessions
from purgatory.service.job_messages import CancelJobs
from purgatory.service.protocol import (
    Complete,
    Completion,
    Fail,
    KeyFailure,
    Query,
    SubmissionOptions,
    Submit,
)
from purgatory.service.server.records import remembered_replies, retention
from purgatory.service.store_copy.ends import copy_store
from tests.test_docs import text_of
from tests.testing.step_server import StepServer, job, operation


@pytest.fixture
def server():
    """A server, step by step, with its store in memory; an event ends four operations at once."""
    server = StepServer(None, portion=4)
    server.hello()
    yield server
    server.store.close()


@pytest.mark.parametrize("timeout_ms", [0, 5000])
@pytest.mark.parametrize("failed", [False, True])
def test_the_answer_to_an_event_counts_cancelled_jobs(server, timeout_ms, failed):
    """protocol.md: also if the key ends its operations in portions."""
    server.submit(*[operation(f"o{n}", "k") for n in range(20)])
    server.submit(job("a", "k", timeout_ms=timeout_ms))
    server.pass_time(2)
    if failed:
        reply = server.ask(Fail, [KeyFailure("k", "Error", "why")])
    else:
        reply = server.ask(Complete, [Completion("k", Raw(encode(None)))])
    assert reply.counts == [21]
    assert server.job("a").state == "cancelled"
    said = "The answer to **complete** or **fail** counts the cancelled jobs, too."
    assert said in text_of("docs/protocol.md")


def test_acknowledged_outcomes_and_ended_jobs_are_counted_together(server, monkeypatch):
    """service.md, protocol.md: outcomes of operations end the time of a job, and the reverse."""
    monkeypatch.setattr(retention, "RETAINED_OUTCOMES", 3)
    monkeypatch.setattr(retention, "DELETED_TOGETHER", 1)
    server.submit(job("made-up"))
    assert server.ask(CancelJobs, ["made-up"]).done == [True]
    assert server.job("made-up").state == "cancelled"
    for number in range(5):
        server.submit(operation(f"o{number}", "k"))
        [outcome] = server.complete_and_push("k")[1]
        server.acknowledge(outcome.number)
    server.pass_time(1000)
    assert server.job("made-up").state == "unknown"
    assert server.ask(Query, ["o0"]).states[0].state == "unknown"
    said = "of all acknowledged outcomes and ended jobs among the last 10,000."
    assert said in text_of("docs/protocol.md")


def test_an_outcome_has_values_too_large_for_the_answer_about_one_id():
    """service.md, protocol.md: as of an operation that needed many keys with large values."""
    server = StepServer(None, message_bytes=1500)
    server.hello()
    server.submit(operation("a", "k", "l", need=2))
    for key in ("k", "l"):
        [outcome] = server.complete_and_push(key, "x" * 900)[1] or [None]
    assert server.query("a").left_out > 1800
    assert len(outcome.result) > 1800
    server.store.close()
    said = "beyond `message_bytes` only outcomes have them."
    assert said in text_of("docs/protocol.md")


def test_submits_with_ids_take_a_session_of_their_own(server, monkeypatch):
    """service.md, protocol.md: such a client counts twice."""
    monkeypatch.setattr(remembered_replies, "SESSIONS_PER_CLIENT", 2)
    given = operation("given", "k")
    given.options = SubmissionOptions()
    assert server.ask(Submit, [given], session="one", seq=1).refused == []
    assert server.ask(Complete, [Completion("k")], session="one", seq=2).counts == [1]
    refusal = server.ask(Complete, [Completion("k")], session="two", seq=1)
    assert refusal.code == TooManySessions.code
    assert "(one that also submits with ids counts twice)" in text_of("docs/protocol.md")


def test_due_jobs_are_among_the_unacknowledged(server):
    """metrics.md: a job that waits for a worker, though no client gets its outcome."""
    server.submit(job("due", timeout_ms=0), job("later", timeout_ms=60_000))
    server.pass_time(2)
    assert server.state.retention.unacknowledged == 1
    said = "`purgatory_server_unacknowledged` | gauge | | Outcomes kept for their clients, and due"
    assert said in text_of("docs/reference/metrics.md")


@pytest.mark.parametrize(("with_journal", "written"), [(True, ["b"]), (False, ["a", "b"])])
def test_the_journal_of_a_copied_store(tmp_path, with_journal, written):
    """service.md: it goes on where a copy of the journal ends; else rows come twice."""

    def run(name, op_id):
        config = Config(data_dir=tmp_path / name, bind="tcp://127.0.0.1:0", http_bind="")
        with ServiceDaemon(config) as service, Client(service.server.address) as client:
            client.submit("k", op_id=op_id)

    run("old", "a")
    copy_store(str(tmp_path / "old"), str(tmp_path / "new"))
    if with_journal:
        shutil.copytree(tmp_path / "old" / "journal", tmp_path / "new" / "journal")
    run("new", "b")
    last = max((tmp_path / "new" / "journal" / "operations").rglob("*.parquet"))
    assert pq.read_table(last)["op_id"].to_pylist() == written
    assert "but needs copies of `keys` and `journal`." in text_of("docs/service.md")


def test_which_metrics_of_a_purgatory_a_server_leaves_at_0():
    """metrics.md: its held events and waiting requests have metrics of their own."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        client.complete("k", hold=60)
        found = {
            sample.name: sample.value
            for metric in service.server.registry.collect()
            for sample in metric.samples
        }
    assert found["purgatory_server_held"] == 1
    names = ("purgatory_held_events", "mq_mailbox_commands_total", "mq_mailbox_depth")
    assert [found[name] for name in names] == [0, 0, 0]
    said = "Of a server `purgatory_held_events` and `mq_mailbox_…` are 0:"
    assert said in text_of("docs/reference/metrics.md")
