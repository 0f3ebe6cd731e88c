"""Mutants of repeats: the calendar, summer time, missed times, what a restart keeps.

The worlds of `tests.simulation.steering.repeat_world` have to find each.
"""

from tests.mutants.mutants import SERVER, Mutant

_RUNS = SERVER + "repeats/repeat_runs.py"

REPEAT_MUTANTS = [
    Mutant(
        "a repeat that runs at the second of two equal times",
        "purgatory/cron/expression.py",
        "    earlier = wall.replace(tzinfo=tz, fold=0).astimezone(UTC)\n",
        "    earlier = wall.replace(tzinfo=tz, fold=1).astimezone(UTC)\n",
    ),
    Mutant(
        "an hourly repeat that does not go by real time",
        "purgatory/cron/expression.py",
        "self._by_real_time(after) if self.is_hourly else self._by_the_clock(after)",
        "self._by_the_clock(after)",
    ),
    Mutant(
        "a daily repeat that goes by real time, twice at a fold",
        "purgatory/cron/expression.py",
        "self._by_real_time(after) if self.is_hourly else self._by_the_clock(after)",
        "self._by_real_time(after)",
    ),
    Mutant(
        "missed times that never run",
        _RUNS,
        '        if missed == "none":\n',
        '        if missed != "all":\n',
    ),
    Mutant(
        "missed times that run once for all",
        _RUNS,
        '        if missed == "all":\n',
        '        if missed == "never":\n',
    ),
    Mutant(
        "one missed time that runs for each",
        _RUNS,
        "return self.begin(transaction, record, at_ms, record.time_after(record.missed_until_ms))",
        "return self.begin(transaction, record, at_ms, record.time_after(at_ms))",
    ),
    Mutant(
        "a repeat that a restart delays by a time",
        SERVER + "repeats/load_repeats.py",
        "    next_ms = row.next_ms\n",
        "    next_ms = row.next_ms + (row.every_ms or 0) // 2\n",
    ),
]
