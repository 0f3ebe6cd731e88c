"""The wheel that a report recommends."""

from purgatory.spark.report.content import WheelRow
from purgatory.spark.report.wheel_choice import choose_wheel


def wheel(tick, size, wakeups, moves):
    """Make the row of a wheel."""
    return WheelRow(tick, size, 3, 1.0, 1, 0.1, moves, 1, wakeups, 0.0, tick - 1)


DEFAULT = wheel(1, 20, 900.0, 2.0)


def test_of_those_late_by_a_percent_the_one_that_wakes_least():
    """A coarser tick wakes less, but is too late; a larger wheel moves less."""
    rows = [DEFAULT, wheel(10, 20, 90, 1.5), wheel(10, 512, 88, 0.2), wheel(100, 512, 9, 0.1)]
    choice = choose_wheel(rows, 2000)
    assert (choice.row, choice.is_default) == (rows[2], False)
    assert choice.call == "Timer(tick_ms=10, wheel_size=512)"
    assert "88 wake-ups a second, not 900" in choice.why
    assert "at most 9 ms late, 0.45 % of the median timeout" in choice.why


def test_the_default_stays_if_no_other_is_clearly_better():
    """A tenth less work is not worth a change."""
    choice = choose_wheel([DEFAULT, wheel(1, 64, 850, 1.9), wheel(10, 20, 1, 0)], 500)
    assert choice.is_default
    assert "as good as any" in choice.why


def test_a_default_with_nothing_to_do_stays():
    """Saving a wake-up in an hour is not worth a change."""
    choice = choose_wheel([wheel(1, 20, 0.01, 2), wheel(10, 20, 0.0, 0)], 60_000)
    assert choice.is_default
    assert "leave it" in choice.why


def test_without_the_default_among_them():
    """The candidates may be any; with a coarse tick only, that is chosen."""
    choice = choose_wheel([wheel(1000, 64, 1, 0)], 20)
    assert choice.call == "Timer(tick_ms=1000, wheel_size=64)"
