"""Histograms: quantiles by nearest rank, totals, and round widths of bins."""

import math
import random

import pytest

from purgatory.spark.report.content import ValueCount
from purgatory.spark.report.histograms import QUANTILES, bin_width_ms, in_total, quantiles


def nearest_rank(values):
    """Return the quantiles of values by nearest rank."""
    ordered = sorted(values)
    return tuple(ordered[max(1, math.ceil(q * len(ordered))) - 1] for q in QUANTILES)


@pytest.mark.parametrize("seed", range(20))
def test_quantiles_are_nearest_ranks(seed):
    """They equal those of the sorted values; rows that do not count are passed over."""
    rng = random.Random(seed)
    values = [rng.randrange(30) for _ in range(rng.choice([1, 2, 10, 1000]))]
    counted = {value: values.count(value) for value in values}
    rows = [ValueCount(value, counted.get(value, 0), 0, 5, 0) for value in range(-2, 32)]
    assert quantiles(rows, lambda row: row.completed) == nearest_rank(values)


def test_nothing_counted():
    """Without a value there is no quantile."""
    assert quantiles([ValueCount(1, 0, 0, 3, 0)], lambda row: row.completed) == ()


def test_total():
    """Counts of one value are added, and values ascend."""
    one = [ValueCount(1, 1, 0, 2, 0), ValueCount(5, 1, 1, 1, 1)]
    other = [ValueCount(0, 3, 0, 0, 0), ValueCount(5, 1, 0, 0, 2)]
    assert in_total([one, other], ValueCount) == [other[0], one[0], ValueCount(5, 2, 1, 1, 3)]


@pytest.mark.parametrize(
    ("span", "width"),
    [(0, 1), (96, 1), (97, 2), (60_000, 1000), (365 * 86_400_000, 7 * 86_400_000)],
)
def test_bins_have_round_widths(span, width):
    """The width is the smallest round one that needs no more than 96 bins."""
    assert bin_width_ms(span) == width


def test_bins_of_an_age():
    """A very long span has at most 96 bins, of a multiple of 28 days."""
    width = bin_width_ms(2**61)
    assert width % (28 * 86_400_000) == 0
    assert 2**61 / width <= 96
