"""Kafka's load: it is drawn as asked for, and all of it is done."""

import statistics
from itertools import pairwise

import pytest
from bench_purgatory_load import LATENCIES, TIMEOUT, Load, Run, draw, one_load, one_purgatory


class Recorded:
    """A request that records how it is used."""

    def __init__(self, completes_at):
        self.completes_at = completes_at
        self.completed = 0

    def force_complete(self):
        self.completed += 1
        return True


class TestDraw:
    """Arrivals, latencies and the order of completions."""

    @pytest.mark.parametrize("profile", LATENCIES)
    def test_rate_and_latencies(self, profile):
        """The last request comes when the time is over; latencies have the wanted quartiles."""
        load = draw(profile, 5000, 4)
        assert len(load.arrivals) == 20_000
        assert load.arrivals == sorted(load.arrivals)
        assert load.arrivals[-1] == pytest.approx(4)
        latencies = [
            end - start for start, end in zip(load.arrivals, load.completions, strict=True)
        ]
        _, median, third = statistics.quantiles(latencies, n=4)
        assert (median, third) == pytest.approx(LATENCIES[profile], rel=0.05)

    @pytest.mark.parametrize("profile", LATENCIES)
    def test_order(self, profile):
        """Exactly the requests with a latency below the timeout complete, the earliest first."""
        load = draw(profile, 1000, 1)
        in_time = {
            number
            for number, start in enumerate(load.arrivals)
            if load.completions[number] - start < TIMEOUT
        }
        assert set(load.order) == in_time
        assert {number for number, early in enumerate(load.in_time) if early} == in_time
        assert len(load.order) == len(in_time) < len(load.arrivals)
        ends = [load.completions[number] for number in load.order]
        assert all(before <= after for before, after in pairwise(ends))

    def test_same_again(self):
        """A load can be repeated."""
        assert draw("low", 100, 1) == draw("low", 100, 1)


class TestRun:
    """One thread submits, another completes."""

    def test_each_once(self):
        """All are submitted in order, and those that complete are completed once."""
        submitted = []

        def submit(completes_at):
            submitted.append(Recorded(completes_at))
            return submitted[-1]

        load = Load([0.0, 0.01, 0.011], [0.03, 0.02, 9.0], [1, 0], [True, True, False])
        run = Run(load, submit)
        assert 0.011 <= run.do() < 60
        ends = [round(request.completes_at - run._start, 6) for request in submitted]
        assert ends == load.completions
        assert [request.completed for request in submitted] == [1, 1, 0]
        assert run._requests == [None] * 3  # no request is kept
        assert 0 <= run.behind < 60

    def test_figures(self):
        """A purgatory ends every request, and about half expire where the latency is high."""
        figures = one_purgatory("high", 500, 0.5)
        assert 0 < figures["actual"] <= 500 * 1.001
        assert 0.3 < figures["expired"] < 0.7
        assert figures["cpu"] > one_load("high", 500, 0.001)["cpu"] >= 0
