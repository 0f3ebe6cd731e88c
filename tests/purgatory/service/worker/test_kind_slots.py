"""As many jobs of a kind at a time as its handler runs."""

import pytest

from purgatory.service.protocol import LeasedJob
from purgatory.service.worker.held_jobs import HeldJob
from purgatory.service.worker.kind_slots import KindSlots


def held(number, kind):
    return HeldJob(LeasedJob(number, 1, f"job {number}", kind, 1, 0, 0), 0.0)


@pytest.fixture
def started():
    return []


@pytest.fixture
def slots(started):
    return KindSlots({"slow": 2}, lambda one: started.append(one.leased.number))


def test_a_kind_with_a_limit(slots, started):
    """Those beyond begin in order, one for each that ends; other kinds do not wait."""
    jobs = [held(number, "slow") for number in range(5)]
    for job in jobs:
        slots.add(job)
    slots.add(held(9, "quick"))
    assert started == [0, 1, 9]
    slots.free(jobs[0])
    slots.free(held(9, "quick"))
    assert started == [0, 1, 9, 2]
    for job in jobs[1:]:
        slots.free(job)
    assert started == [0, 1, 9, 2, 3, 4]
    for number in (5, 6, 7):
        slots.add(held(number, "slow"))
    assert started == [0, 1, 9, 2, 3, 4, 5, 6]
