"""Figures of jobs by kind: exact counts, ages and workers, for a bounded number of kinds."""

import threading

import pytest

from purgatory.service.job_messages import JOB_STATES, MOST_KINDS, OTHER
from purgatory.service.server.jobs.kind_figures import kind_figures
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import job, step_server

__all__ = ["step_server"]


def figures(server):
    """Return the figures by kind."""
    return {each.kind: each for each in kind_figures(server.state, server.time.ms)}


def counted(found):
    """Return the states of a kind that have jobs."""
    return {state: n for state, n in zip(JOB_STATES, found.counts, strict=True) if n}


def test_ready_jobs_without_a_worker(step_server):
    """They are counted, with the age of the oldest; no worker takes the kind."""
    step_server.submit(job("a", kind="mial"), job("b", kind="mial", timeout_ms=9000))
    step_server.let_pass(1100)
    step_server.pass_time(5000)
    found = figures(step_server)["mial"]
    assert counted(found) == {"ready": 1, "scheduled": 1}
    assert 5000 <= found.oldest_ready_ms <= 5200
    assert found.workers == 0


def test_a_worker_takes_the_kind(step_server):
    """A running job is not ready: there is no oldest one."""
    step_server.submit(job("a", kind="mail"))
    step_server.work("mail", "sms")
    step_server.let_pass(1100)
    found = figures(step_server)
    assert found.keys() == {"mail"}
    assert (found["mail"].oldest_ready_ms, found["mail"].workers) == (0, 1)


def test_workers_of_another_client_name_do_not_count_while_jobs_wait(step_server):
    """They take none of these jobs, so an alert must see that no worker does."""
    step_server.work("mail", route=b"x", client="wrong")
    step_server.submit(job("a", kind="mail", timeout_ms=1000))
    assert figures(step_server)["mail"].workers == 1
    step_server.let_pass(1100)
    found = figures(step_server)["mail"]
    assert (counted(found), found.workers) == ({"ready": 1}, 0)
    step_server.work("mail")
    assert figures(step_server)["mail"].workers == 2


@pytest.mark.parametrize("others", [0, 1, 3])
def test_the_busiest_kinds_have_figures_of_their_own(step_server, others):
    """The others are together, with the oldest age of all, beside jobs of a kind of that name."""
    step_server.submit(*[job(f"old {n}", kind=f"rare {n}") for n in range(4)])
    step_server.submit(*[job(f"other {n}", kind=OTHER) for n in range(others)])
    for first in range(0, 2 * MOST_KINDS, 50):
        names = [f"{n}" for n in range(first, first + 50)]
        step_server.submit(*[job(name, kind=f"kind {int(name) // 2}") for name in names])
    step_server.let_pass(3000)
    found = figures(step_server)
    few = kind_figures(step_server.state, step_server.time.ms)
    assert len(few) == len(found) == MOST_KINDS + (others < 3)
    assert counted(found[OTHER]) == {"ready": 4 + others + 2 * (others == 3)}
    assert found[OTHER].oldest_ready_ms > 1000


def test_they_are_read_while_the_store_thread_goes_on(step_server):
    """No reader fails, whatever changes meanwhile."""
    stop, errors = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                kind_figures(step_server.state, step_server.time.ms)
            except Exception as error:  # shown by the assertion
                errors.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(150):
        step_server.submit(job(f"{n}", kind=f"{n % 40}", timeout_ms=1))
        step_server.pass_time(2)
        if n % 3 == 0:
            leased = step_server.work(*[f"{kind}" for kind in range(n % 40)], room=2)
            step_server.finish(*leased)
    stop.set()
    reader.join(HANG)
    assert errors == []
