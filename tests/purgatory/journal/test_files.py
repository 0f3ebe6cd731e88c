"""JournalFiles: each row is in exactly one finished file, also after a crash; the pace."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory.journal import files as journal_files
from purgatory.journal.files import (
    LEAST_PAUSE_S,
    JournalError,
    JournalFiles,
    JournalLock,
    WritePace,
)
from purgatory.trace import KeyEvent
from purgatory.trace.tables import EVENTS


class Thread:
    """One that works, and notes its pauses; seconds."""

    def __init__(self):
        self.time = 100.0
        self.pauses = []
        self.pace = WritePace(now=lambda: self.time, sleep=self.sleep)

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.time += seconds

    def work(self, seconds):
        self.time += seconds
        self.pace.pause()


@pytest.fixture
def thread():
    return Thread()


def test_a_pause_is_longer_than_the_work(thread):
    """Three times as long, and what has passed before the write does not count."""
    thread.time += 1000
    thread.pace.begin()
    thread.work(0.002)
    thread.work(0.01)
    assert thread.pauses == pytest.approx([0.006, 0.03])


def test_all_pauses_of_a_write(thread):
    """They take a second, then each is as short as can be; the next write begins anew."""
    thread.pace.begin()
    for _ in range(100):
        thread.work(0.01)
    long, short = thread.pauses[:34], thread.pauses[34:]
    assert sum(long) == pytest.approx(1.0)
    assert short == [LEAST_PAUSE_S] * 66
    thread.pace.begin()
    thread.work(0.01)
    assert sum(long) + thread.pauses[-1] == pytest.approx(1.03)


def test_an_urgent_write(thread):
    """It makes short ones while another thread waits for it."""
    urgent = [True, False]
    thread.pace.is_urgent = lambda: urgent.pop(0)
    thread.pace.begin()
    thread.work(0.01)
    thread.work(0.02)
    assert thread.pauses == pytest.approx([LEAST_PAUSE_S, 0.06])


def test_pauses_in_a_write(tmp_path, thread):
    """After each portion that is taken, and after each that is written: no longer step is made."""
    events = JournalFiles(tmp_path, EVENTS, "abc", pace=thread.pace)
    events.append(numbered(*range(2 * journal_files.PORTION + 1)))
    assert len(thread.pauses) == 3 + 3


DAY = 86_400_000


class Crash(BaseException):
    """Stands for a crash at this place."""


def numbered(*times, first=1):
    """Return a row for each time, numbered from `first`."""
    return [(n, KeyEvent(f"k{n}", at)) for n, at in enumerate(times, first)]


def on_disk(directory):
    """Return all rows that a reader of the directory sees, in order of their numbers."""
    found = pyarrow.dataset.dataset(directory, format="parquet", partitioning="hive")
    rows = found.to_table().to_pylist() if found.files else []
    return sorted((int(row["key"][1:]), row["at_ms"], row.get("date")) for row in rows)


def files(directory):
    """Return the paths of all files, hidden ones included."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.*"))


class TestLayout:
    def test_a_directory_a_date(self, tmp_path):
        """Rows go to the date of their time in UTC; the name has source, first and last number."""
        table = JournalFiles(tmp_path, EVENTS, "abc")
        table.append(numbered(0, 1, DAY - 1, DAY, 3 * DAY))
        assert files(tmp_path) == [
            f"date=1970-01-01/abc-{1:020}-{3:020}.parquet",
            f"date=1970-01-02/abc-{4:020}-{4:020}.parquet",
            f"date=1970-01-04/abc-{5:020}-{5:020}.parquet",
        ]
        assert [number for number, *_ in on_disk(tmp_path)] == [1, 2, 3, 4, 5]
        assert on_disk(tmp_path)[2] == (3, DAY - 1, "1970-01-01")

    def test_nothing_makes_no_file(self, tmp_path):
        """An empty append writes no file."""
        table = JournalFiles(tmp_path, EVENTS, "abc")
        table.append([])
        assert (files(tmp_path), table.last) == ([], 0)

    def test_a_time_no_calendar_has(self, tmp_path):
        """Rows beyond the calendar are in Hive's partition for nulls, and can be read."""
        JournalFiles(tmp_path, EVENTS, "abc").append(numbered(2**62, 0, -(2**62)))
        assert [at for _, at, _ in on_disk(tmp_path)] == [2**62, 0, -(2**62)]

    def test_large_files_are_split(self, tmp_path, monkeypatch):
        """No file has more than FILE_ROWS rows."""
        monkeypatch.setattr(journal_files, "FILE_ROWS", 4)
        JournalFiles(tmp_path, EVENTS, "abc").append(iter(numbered(*range(10))))
        assert [name[-13:-8] for name in files(tmp_path)] == ["00004", "00008", "00010"]
        assert len(on_disk(tmp_path)) == 10

    def test_groups_are_small(self, tmp_path):
        """A group is written at once, which takes a processor from other threads for so long."""
        count = journal_files.GROUP_ROWS + 1
        JournalFiles(tmp_path, EVENTS, "abc").append(numbered(*range(count)))
        [name] = files(tmp_path)
        found = pyarrow.parquet.ParquetFile(tmp_path / name).metadata
        groups = [found.row_group(n).num_rows for n in range(found.num_row_groups)]
        assert groups == [count - 1, 1]

    @pytest.mark.parametrize("source", ["", "a-b", "A", "a/b"])
    def test_names_of_sources(self, tmp_path, source):
        """A source that cannot be part of a file name is refused."""
        with pytest.raises(ValueError, match="source"):
            JournalFiles(tmp_path, EVENTS, source)

    def test_numbers_must_grow(self, tmp_path):
        """Rows out of order are refused, and no file is left behind."""
        table = JournalFiles(tmp_path, EVENTS, "abc")
        table.append(numbered(0, 0))
        for rows in (numbered(0, first=2), [*numbered(0, first=9), *numbered(0, first=8)]):
            with pytest.raises(ValueError, match="comes after"):
                table.append(rows)
        assert len(files(tmp_path)) == 1


class TestGoingOn:
    def test_behind_the_last(self, tmp_path):
        """A new writer finds the last row of its own source on disk."""
        JournalFiles(tmp_path, EVENTS, "abc").append(numbered(0, DAY, 2 * DAY))
        JournalFiles(tmp_path, EVENTS, "xyz").append(numbered(DAY, 0, first=40))
        assert JournalFiles(tmp_path, EVENTS, "abc").last == 3
        assert JournalFiles(tmp_path, EVENTS, "xyz").last == 41
        assert JournalFiles(tmp_path, EVENTS, "new").last == 0

    def test_earlier_dates_may_be_deleted(self, tmp_path):
        """As docs/service.md says: of the newest date the writer goes on."""
        JournalFiles(tmp_path, EVENTS, "abc").append(numbered(0, DAY, 2 * DAY))
        for date in ("1970-01-01", "1970-01-02"):
            shutil.rmtree(tmp_path / f"date={date}")
        table = JournalFiles(tmp_path, EVENTS, "abc")
        assert table.last == 3
        table.append(numbered(2 * DAY, first=4))
        assert [number for number, *_ in on_disk(tmp_path)] == [3, 4]

    def test_what_was_unfinished_is_swept(self, tmp_path):
        """Readers ignore an unfinished file, and the next writer removes it."""
        day = tmp_path / "date=2026-01-01"
        day.mkdir()
        (day / ".unfinished-1-0").write_bytes(b"PAR1")
        assert on_disk(tmp_path) == []
        JournalFiles(tmp_path, EVENTS, "abc")
        assert files(tmp_path) == []

    @given(
        batches=st.lists(st.lists(st.integers(0, 3 * DAY), max_size=8), min_size=1, max_size=5),
        crashes=st.lists(st.integers(0, 30), max_size=4),
    )
    def test_exactly_once_over_crashes(self, tmp_path_factory, batches, crashes):
        """After a crash before any disk operation and a restart every row is there once."""
        directory = tmp_path_factory.mktemp("journal")
        rows = numbered(*(at for batch in batches for at in batch))
        ends = [sum(map(len, batches[: n + 1])) for n in range(len(batches))]
        for steps in crashes:
            crashes_before(steps, lambda: write_all(directory, rows, ends))
        write_all(directory, rows, ends)
        assert on_disk(directory) == [(n, row.at_ms, date(row.at_ms)) for n, row in rows]
        assert not [name for name in files(directory) if "unfinished" in name]


def write_all(directory, rows, ends):
    """Write all batches that are not on disk yet."""
    table = JournalFiles(directory, EVENTS, "abc")
    for end in ends:
        table.append(rows[table.last : end])


def crashes_before(steps, function):
    """Call the function, and crash before the given disk operation."""
    left = [steps]

    def counted(real):
        def step(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return real(*arguments, **options)

        return step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", counted(os.fsync))
        patch.setattr(Path, "mkdir", counted(Path.mkdir))
        patch.setattr(Path, "replace", counted(Path.replace))
        patch.setattr(Path, "unlink", counted(Path.unlink))  # a dead process removes no file
        try:
            function()
        except Crash:
            pass


def date(at_ms):
    """Return the date of a time on the first days of 1970."""
    return f"1970-01-{1 + at_ms // DAY:02}"


class TestErrors:
    def test_a_disk_that_fails(self, tmp_path, monkeypatch):
        """A failed write raises an error that names the file; the next attempt writes all."""
        table = JournalFiles(tmp_path, EVENTS, "abc")

        def full(descriptor):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(JournalError, match="No space left"):
                table.append(numbered(1, 2))
        assert (table.last, on_disk(tmp_path)) == (0, [])
        table.append(numbered(1, 2))
        assert (table.last, len(on_disk(tmp_path))) == (2, 2)

    def test_a_name_that_is_not_synced(self, tmp_path, monkeypatch):
        """The rows come again, in another file; the file whose name may be lost is removed."""
        table = JournalFiles(tmp_path, EVENTS, "abc")
        table.append(numbered(0))
        fsync = os.fsync

        def fails(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(5, "Input/output error")
            fsync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(JournalError, match="Input/output error"):
                table.append(numbered(0, first=2))
        table.append(numbered(0, 0, first=2))
        assert (table.last, [number for number, *_ in on_disk(tmp_path)]) == (3, [1, 2, 3])

    def test_a_file_in_the_way(self, tmp_path):
        """A directory that cannot be made raises a JournalError that names it."""
        (tmp_path / "taken").write_text("")
        with pytest.raises(JournalError, match="taken"):
            JournalFiles(tmp_path / "taken" / "outcomes", EVENTS, "abc")

    def test_one_process_at_a_time(self, tmp_path):
        """A second lock is refused until the first is closed, in another process too."""
        code = (
            "import sys; from pathlib import Path\n"
            "from purgatory.journal.files import JournalLock\n"
            "JournalLock(Path(sys.argv[1]))"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        with JournalLock(tmp_path):
            with pytest.raises(JournalError, match="another process"):
                JournalLock(tmp_path)
            refused = subprocess.run(command, capture_output=True, text=True, check=False)
            assert "another process writes this journal" in refused.stderr
        assert subprocess.run(command, check=False).returncode == 0
