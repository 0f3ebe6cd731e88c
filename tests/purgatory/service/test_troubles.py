"""The sentences about what is wrong."""

import pytest

from purgatory.service.job_messages import JOB_STATES, KindOverview, Overview
from purgatory.service.troubles import (
    all_troubles,
    by_trouble,
    cluster_troubles,
    in_trouble,
    readiness_trouble,
)


def kind(name="mail", age_s=0, workers=1, paused=False, **counts):
    """Return the jobs of a kind."""
    by_state = tuple(counts.get(state, 0) for state in JOB_STATES)
    return KindOverview(name, by_state, 1000 * age_s, workers, paused)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (kind(ready=5), []),
        (kind(ready=5, age_s=299), []),
        (kind(ready=1, age_s=600), ["1 job of kind “mail” waits, the oldest for 10 min"]),
        (kind(ready=2, workers=0), ["2 jobs of kind “mail” wait, and no worker takes this kind"]),
        (kind(ready=2, workers=0, paused=True), ["2 jobs of kind “mail” wait: the kind is paused"]),
        (kind(workers=0, done=9, scheduled=3), []),
        (kind("", dead=1), ["1 job of no kind is dead"]),
        (kind(dead=1200), ["1,200 jobs of kind “mail” are dead"]),
    ],
)
def test_jobs(found, said):
    """Jobs that nobody runs, and dead ones; nothing of jobs that go on."""
    assert all_troubles({}, Overview(1, [found], {})) == said


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({}, ""),
        ({"ready": 1, "failing_seconds": 3}, ""),
        ({"ready": 0, "failing_seconds": 3}, "commits have failed for 3 s"),
        ({"ready": 0, "failing_seconds": 130}, "commits have failed for 2 min"),
        ({"ready": 0, "oldest_due_age_seconds": 61}, "the oldest due outcome is 61 s late"),
        ({"ready": 0}, "its disk hangs"),
    ],
)
def test_readiness(figures, said):
    """Why the server is not ready, with a duration that changes once a minute."""
    assert readiness_trouble(figures).startswith(said)
    assert bool(readiness_trouble(figures)) == bool(said)


def test_the_worst_is_first():
    """The server, then jobs by their number, then what other servers would give."""
    figures = {"ready": 0, "failing_seconds": 3, "standbys": 0, "replicated": 0}
    kinds = [kind(dead=110), kind("mial", workers=0, ready=2501)]
    found = all_troubles(figures, Overview(1, kinds, {}, "disk is full"))
    assert found[0] == "Not ready: commits have failed for 3 s: disk is full"
    assert [text.split()[0] for text in found] == ["Not", "2,501", "110", "No", "Not"]


def test_kinds_are_in_the_order_of_the_sentences():
    """So the first sentence and the first row of a table are about the same kind."""
    well = kind("report", ready=3)
    stuck, paused = kind("mial", workers=0, ready=2), kind("sms", paused=True, ready=1)
    kinds = [kind("call"), paused, well, stuck, kind(dead=110)]
    assert [each.kind for each in in_trouble(kinds)] == ["mail", "mial", "sms"]
    assert [each.kind for each in by_trouble(kinds)] == ["mail", "mial", "sms", "report", "call"]
    told = all_troubles({}, Overview(1, kinds, {}))
    assert [text.partition("“")[2].partition("”")[0] for text in told] == ["mail", "mial", "sms"]


def test_other_servers():
    """A server alone has none, and nobody expects any."""
    assert cluster_troubles({}) == []
    assert cluster_troubles({"standbys": 1, "replicated": 1}) == []
    assert len(cluster_troubles({"standbys": 0, "replicated": 0})) == 2
