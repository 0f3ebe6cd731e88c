"""The programs in examples/ run, and print what they are about."""

import asyncio
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from purgatory.aio import AsyncPurgatory
from tests.testing.java import SHORT_LIVED_OPTIONS
from timingwheel import InlineExecutor, ManualClock, Timer

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "timer.py": ["b stops", "b is silent", "still watched: a c"],
    "kafka_style.py": [
        "1 completed",
        "offset 1: acknowledged",
        "offset 2: not enough replicas",
    ],
    "delayed_job.py": [
        "called off: True",
        "order 1 is not paid yet",
        "order 3 is not paid yet",
        "too late: True",
    ],
    "heartbeats.py": [
        "40,000 heartbeats, 0 silent, 20,000 watched",
        "15,000 silent, 5,000 watched",
        "the right ones: True",
    ],
    "lease.py": [
        "the printer is taken",
        "renewed: True",
        "a prints",
        "b prints",
        "c prints",
        "renewed: False",
    ],
    "retry.py": ["message 1: received, attempt 3", "message 2 was sent 5 times"],
    "webhook_aiohttp.py": ['{"paid": 12.5}', '{"detail": "order 18 is not paid yet"}'],
    "webhook_fastapi.py": ['{"paid":12.5}', '{"detail":"order 18 is not paid yet"}'],
    "futures.py": ["HELLO", "not completed within 100 ms: needed 1 of ('reply', 2)"],
    "asyncio_futures.py": [
        "order 1 is paid: 12.50",
        "order 2 is given up",
        "cancelled: True waiting: 0",
    ],
    "service_client.py": [
        "the server has ended, and starts again",
        "completed: 1",
        "order-17: {'amount': 12.5}",
        "order-18: expired",
    ],
    "replay.py": ["1000 parcels: 913 in time, 87 late", "longest wait: 2 hours"],
    "spark_stream.py": [
        "1 completed, 1 expired so far",
        "1 completed, 2 expired so far",
        "o1 completed 400",
        "o2 expired 500",
        "o3 expired 500",
    ],
}
NEEDS = {
    "service_client.py": "zmq",
    "spark_stream.py": "pyspark",
    "webhook_aiohttp.py": "aiohttp",
    "webhook_fastapi.py": "fastapi",
}
ARGUMENTS = {"heartbeats.py": ["20000"]}  # a million peers take half a minute, interpreted

# What is about one thing that a program can copy.
HOWTOS = (
    "delayed_job.py futures.py heartbeats.py lease.py retry.py webhook_aiohttp.py "
    "webhook_fastapi.py"
)


def test_each_example_is_listed():
    """A new program gets its output written down here."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", HOWTOS.split())
def test_a_howto_is_short(name):
    """A program of under 60 lines is read at once."""
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 60


# One of them starts Spark: seconds on an idle machine, minutes on a busy one.
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", PRINTED)
def test_example_prints(name, tmp_path):
    """Run as a user does, in an empty directory, warnings being errors."""
    pytest.importorskip(NEEDS.get(name, "purgatory"))
    tree = str(ROOT) if (ROOT / "purgatory").is_dir() else ""  # or what is installed
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *ARGUMENTS.get(name, [])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": tree, "SPARK_SUBMIT_OPTS": SHORT_LIVED_OPTIONS},
        timeout=400,
        check=False,
    )
    assert (done.stdout.splitlines(), done.stderr) == (PRINTED[name], "")


class _Hurried(AsyncPurgatory):
    """Cancels a task in the moment in which its turn ends."""

    def defer(self, *keys, **options):
        task = asyncio.current_task()
        future = super().defer(*keys, **options)
        if keys[0][0] == "turn":
            future.add_done_callback(lambda _: task.cancel())
        return future


def test_a_turn_that_expires_passes_no_lease_on():
    """Also if its task is cancelled in the same moment: a lease has one holder."""
    make_leases = runpy.run_path(str(EXAMPLES / "lease.py"))["Leases"]

    async def have_one_holder():
        async with _Hurried("leases") as purgatory:
            leases = make_leases(purgatory)
            held = await leases.acquire("printer", seconds=30)
            for _ in range(2):
                second = asyncio.create_task(leases.acquire("printer", seconds=30, timeout=0))
                await asyncio.wait([second])
                assert second.cancelled()
            held.cancel()

    asyncio.run(have_one_holder())


def test_a_reminder_that_is_sent_is_kept_no_longer():
    """Orders that nobody pays would take more and more memory."""
    clock = ManualClock()
    with Timer(clock=clock, executor=InlineExecutor()) as timer:
        reminders = runpy.run_path(str(EXAMPLES / "delayed_job.py"))["Reminders"](timer)
        reminders.order_placed(1)
        clock.advance(3600)
        timer.advance_clock()
        assert (reminders.sent.qsize(), reminders._jobs) == (1, {})
        reminders.order_changed(1)
        assert not reminders.order_paid(1)
