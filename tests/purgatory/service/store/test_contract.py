"""What each kind of store promises: the same assertions over SQLite and a real PostgreSQL."""

import pytest
from msgspec import Raw

from purgatory.errors import StoreError
from purgatory.service.store import table_store
from purgatory.service.store.changes import Changes, RememberedChanges
from purgatory.service.store.contract import DAMAGE, DATABASE_ID
from purgatory.service.store.rows import (
    KEPT_ATTEMPTS,
    MAX_BATCH,
    JobState,
    JournalPosition,
    OperationBatch,
    Options,
    QueuedJob,
    RememberedRow,
    StoredAttempt,
    StoredEvent,
    StoredJob,
    StoredLimit,
    StoredOperation,
    StoredRepeat,
    StoredSpread,
    reference_to,
)
from tests.testing.changes import changes_of

#: A text that databases may trip over.
ODD = "a\0b'\"\\ü\U0001f600"
#: Only such a store moves times.
WITHOUT_A_CLOCK = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
#: A list of two that ends after the first.
CUT = b"\x92\x01"


def operation(number):
    """Return an operation as it is read."""
    return StoredOperation(number, "c", f"op-{number}", "kind", 1, 1000, 1, ("k",), b"\x01")


def batches(numbers):
    """Return as many batches as operations of consecutive numbers need."""
    return [
        OperationBatch(
            part[0], "c", 1, [[f"op-{n}", ["k"], 999, 1, "kind", Raw(b"\x01")] for n in part]
        )
        for start in range(numbers.start, numbers.stop, MAX_BATCH)
        if (part := range(start, min(start + MAX_BATCH, numbers.stop)))
    ]


def outcome(seq, number, by_key="k", result=b"\x02"):
    """Return the values of an outcome."""
    return [seq, number, "completed", 5, 0, by_key, result]


def numbers(store):
    """Return the numbers of the operations in a store."""
    return [row.number for row in store.operations()]


def seqs(store):
    """Return the numbers of the outcomes in a store."""
    return [row.seq for row in store.outcomes_without_results()]


def deleted(gone):
    """Return changes that delete operations, and their outcomes of the same numbers."""
    return changes_of(delete_operations=list(gone), delete_outcomes=list(gone))


class TestOperations:
    def test_are_read_by_another_store(self, store, place):
        """With all that was said of them."""
        payload = [[ODD, [ODD, "l", ODD], 1500, 2, ODD, Raw(b"\x07"), 0, Options(9, (ODD,), 3, 4)]]
        store.commit(
            changes_of(
                operations=[*batches(range(1, 3)), OperationBatch(7, ODD, 100, payload)],
                progress=[1, ODD, b"\x03"],
            )
        )
        other = place.open()
        odd = StoredOperation(
            7, ODD, ODD, ODD, 100, 1600, 2, (ODD, "l"), b"\x07", Options(9, (ODD,), 3, 4)
        )
        assert list(other.operations()) == [operation(1), operation(2), odd]
        assert list(other.progress()) == [(1, ODD, b"\x03")]
        assert other.oldest_submission_ms() == 1
        assert other.last_numbers() == JournalPosition(7, 0)

    @pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 513, 1700])
    def test_any_number(self, store, count):
        """Each is written once."""
        store.commit(changes_of(operations=batches(range(1, count + 1))))
        assert numbers(store) == list(range(1, count + 1))

    def test_from_a_number_on(self, store):
        """As the journal reads them after a crash."""
        ends = outcome(1, 5) + outcome(2, 9)
        store.commit(changes_of(operations=batches(range(1, 1200)), outcomes=ends))
        assert [row.number for row in store.submissions(after=1197)] == [1198, 1199]
        assert [row.number for row in store.submissions(after=1199)] == []
        assert store.by_numbers([3, 1199, 1200, 5000]) == {3: operation(3), 1199: operation(1199)}
        assert store.by_numbers([]) == {}

    def test_a_few_batches(self, store):
        """The next ones after a number, also after one in the middle of a batch."""
        store.commit(changes_of(operations=batches(range(1, 400))))
        assert [row.number for row in store.some_operations(100, 2)] == list(range(101, 257))
        assert [row.number for row in store.some_operations(384, 9)] == list(range(385, 400))
        assert store.some_operations(399, 9) == []

    def test_a_few_batches_before(self, store):
        """The last ones before a number, also before one in the middle of a batch."""
        store.commit(changes_of(operations=batches(range(1, 400))))
        before = [row.number for row in store.some_operations(1 << 62, 2, newest=True)]
        assert before == list(range(399, 256, -1))
        before = [row.number for row in store.some_operations(300, 9, newest=True)]
        assert before == list(range(299, 0, -1))
        assert store.some_operations(1, 9, newest=True) == []

    def test_an_extension(self, store, place):
        """The last deadline is in force; the first one is that of the submission."""
        store.commit(changes_of(operations=batches(range(1, 4))))
        store.commit(changes_of(deadlines=[2, 5000, 3, 6000]))
        store.commit(changes_of(deadlines=[2, 7000]))
        for each in (store, place.open()):
            assert [row.deadline_ms for row in each.operations()] == [1000, 7000, 6000]
            assert [row.deadline_ms for row in each.submissions()] == [1000] * 3
            assert each.by_numbers([2])[2].deadline_ms == 7000

    @pytest.mark.parametrize("gone", [[1], [64, 3], range(1, 65), range(2, 129), range(1, 129)])
    def test_some_of_a_batch_are_deleted(self, store, place, gone):
        """The others stay, also when the next ones are deleted and the batch is written anew."""
        left = sorted(set(range(1, 131)) - set(gone))
        store.commit(changes_of(operations=batches(range(1, 131))))
        store.commit(changes_of(delete_operations=list(gone)))
        assert numbers(store) == left
        store.commit(changes_of(delete_operations=[left.pop()]))
        store = place.open()
        assert numbers(store) == left
        store.commit(changes_of(delete_operations=[left.pop()]))
        assert numbers(store) == left
        assert store.last_numbers().operations == 130

    def test_deleting_deletes_what_belongs_to_it(self, store):
        """Its completed keys and its deadline."""
        store.commit(
            changes_of(
                operations=batches(range(1, 3)),
                progress=[1, "k", b"\x03", 2, "k", b"\x04"],
                deadlines=[1, 5000],
            )
        )
        store.commit(changes_of(delete_operations=[1]))
        assert list(store.progress()) == [(2, "k", b"\x04")]
        assert list(store.sizes("progress")) == [("k", 1)]

    def test_progress_of_an_ended_one(self, store):
        """It does not matter any more."""
        store.commit(changes_of(operations=batches(range(1, 2)), progress=[1, "k", b"\x03"]))
        store.commit(changes_of(outcomes=outcome(1, 1)))
        assert list(store.progress()) == list(store.sizes("progress")) == []


class TestOutcomes:
    def test_are_read(self, store, place):
        """An empty text is no key, or no result."""
        ends = outcome(1, 2) + outcome(2, 1, "", "") + outcome(4, 3, ODD, bytearray(b"\xa1\0"))
        store.commit(changes_of(operations=batches(range(1, 4)), outcomes=ends))
        for each in (store, place.open()):
            found = [list(row) for row, _ in each.outcomes_by_seqs([4, 2, 1, 3])]
            assert found == [
                outcome(1, 2),
                outcome(2, 1, None, None),
                outcome(4, 3, ODD, b"\xa1\0"),
            ]
            small = [(row.seq, row.number, row.by_key) for row in each.outcomes_without_results()]
            assert small == [(1, 2, None), (2, 1, None), (4, 3, None)]
            assert each.last_numbers() == JournalPosition(3, 4)

    def test_with_their_operations(self, store):
        """In order of `seq`."""
        ends = outcome(1, 5) + outcome(2, 9)
        store.commit(changes_of(operations=batches(range(1, 1200)), outcomes=ends))
        [(end, row)] = store.outcomes_by_seqs([2])
        assert (end.seq, end.number, row.number, row.op_id) == (2, 9, 9, "op-9")
        assert [row.seq for row in store.outcomes_without_results(after=1)] == [2]
        assert store.outcomes_by_seqs([]) == []

    def test_are_deleted_without_operations(self, store):
        """A copy writes the last number, and deletes the row, though no operation has existed."""
        store.commit(changes_of(outcomes=outcome(5, 0)))
        store.commit(changes_of(delete_outcomes=[5]))
        assert (seqs(store), store.last_numbers().outcomes) == ([], 5)

    @pytest.mark.parametrize("count", [1, 255, 256, 257, 1700])
    def test_any_number(self, store, count):
        """Each is written once, and keeps its values."""
        ends = [v for n in range(1, count + 1) for v in outcome(n, n, f"k{n}", bytes([n % 128]))]
        store.commit(changes_of(operations=batches(range(1, count + 1)), outcomes=ends))
        assert seqs(store) == list(range(1, count + 1))
        asked = [1, count, max(1, count // 2)]
        for end, row in store.outcomes_by_seqs(asked):
            assert (end.number, end.by_key, end.result) == (
                end.seq,
                f"k{end.seq}",
                bytes([end.seq % 128]),
            )
            assert row.number == end.number

    @pytest.mark.parametrize("gone", [[1], [7, 3], range(1, 33), range(2, 65), range(1, 65)])
    def test_some_are_deleted(self, store, place, gone):
        """The others stay, and their numbers are never given twice."""
        left = sorted(set(range(1, 67)) - set(gone))
        ends = [v for n in range(1, 67) for v in outcome(n, n, f"k{n}")]
        store.commit(changes_of(operations=batches(range(1, 67)), outcomes=ends))
        store.commit(deleted(gone))
        assert seqs(store) == left
        store.commit(deleted([left.pop()]))
        store = place.open()
        assert seqs(store) == left
        found = store.outcomes_by_seqs(list(range(1, 67)))
        assert [(end.seq, end.by_key) for end, _ in found] == [(n, f"k{n}") for n in left]
        if left:
            store.commit(deleted(left))
        assert seqs(store) == []
        assert place.open().last_numbers() == JournalPosition(66, 66)

    def test_numbers_after_all_is_deleted(self, store, place):
        """They go on."""
        store.commit(changes_of(operations=batches(range(1, 3)), outcomes=outcome(1, 2)))
        store.commit(changes_of(delete_operations=[1, 2], delete_outcomes=[1]))
        assert numbers(store) == seqs(store) == []
        assert place.open().last_numbers() == JournalPosition(2, 1)

    def test_a_spread(self, store, place):
        """Its value is that of the outcomes that refer to it; it goes with the last of them."""
        spread = StoredSpread(3, ODD, 5, 0, 9, 1, 2, 2, ODD, 1, 0, b"\x01", b"\xa1v")
        store.commit(
            changes_of(
                operations=batches(range(1, 4)),
                outcomes=outcome(1, 1, "k", reference_to(3)) + outcome(2, 2, "k", reference_to(3)),
                spreads=list(spread),
            )
        )
        store.commit(changes_of(outcomes=outcome(3, 3)))
        for each in (store, place.open()):
            assert each.spreads() == [spread]
            assert [end.result for end, _ in each.outcomes_by_seqs([1, 2])] == [b"\xa1v"] * 2
        store = place.open()
        store.commit(changes_of(delete_operations=[1], delete_outcomes=[1]))
        assert store.spreads() == [spread]
        store.commit(changes_of(delete_operations=[2], delete_outcomes=[2]))
        assert store.spreads() == []
        assert seqs(store) == [3]

    def test_a_spread_that_goes_on(self, store):
        """It stays, though no outcome refers to it yet."""
        spread = StoredSpread(3, "k", 5, 0, 9, 1, 0, 2, "s", 1, 0, b"\x01", b"\xa1v")
        store.commit(changes_of(operations=batches(range(1, 3)), spreads=list(spread)))
        store.commit(changes_of(delete_operations=[1]))
        assert store.spreads() == [spread]


class TestJobs:
    def test_states(self, store, place):
        """A later row replaces an earlier one; deleting the outcome deletes it."""
        store.commit(changes_of(operations=batches(range(1, 4)), outcomes=outcome(1, 1)))
        store.commit(changes_of(jobs=[1, JobState.WAITING, 1, 700, ODD]))
        store.commit(changes_of(jobs=[1, JobState.DEAD, 2, 800, "boom"], results=[1, b"\x05"]))
        for each in (store, place.open()):
            assert each.jobs() == [StoredJob(1, JobState.DEAD, 2, 800)]
            assert each.job_rows([2, 1]) == {1: (JobState.DEAD, 2, 800, "boom")}
            assert each.results([1, 2]) == {1: b"\x05"}
        store = place.open()
        store.commit(changes_of(delete_operations=[1], delete_outcomes=[1]))
        assert store.jobs() == []
        assert store.results([1]) == store.job_rows([1]) == {}

    def test_attempts(self, store, place):
        """In the order of their ends; a later one of a place replaces an earlier one."""
        store.commit(changes_of(operations=batches(range(1, 4)), outcomes=outcome(1, 1)))
        store.commit(changes_of(attempts=[1, 0, 20, 5, 7, "w", ODD, 1, 1, 1, 1, 4, "v", "boom"]))
        store.commit(changes_of(attempts=[1, 1, 21, 8, 9, "w", "", 2, 1, 1, 3, 4, "v", "x"]))
        for each in (store, place.open()):
            assert each.attempts([1, 2, 3]) == {
                1: [
                    StoredAttempt(1, 0, 20, 5, 7, "w", ODD),
                    StoredAttempt(1, 1, 21, 8, 9, "w", ""),
                ],
                2: [StoredAttempt(2, 1, 1, 3, 4, "v", "x")],
            }
        store = place.open()
        store.commit(changes_of(delete_operations=[1], delete_outcomes=[1]))
        assert [*store.attempts([1, 2])] == [2]

    def test_two_rows_of_one_job(self, store):
        """The last one of a commit counts."""
        store.commit(changes_of(jobs=[1, 0, 1, 5, "a", 2, 0, 1, 5, "b", 1, 2, 2, 6, "c"]))
        assert store.job_rows([1, 2]) == {1: (2, 2, 6, "c"), 2: (0, 1, 5, "b")}

    def test_repeats(self, store, place):
        """In order of clients and names."""
        rows = [
            StoredRepeat("b", "x", 9, 0, 1, 0, 0, b"\x01"),
            StoredRepeat("a", ODD, 5, 4, 0, 2, 60, b"\x02"),
            StoredRepeat("a", "A", 5, 4, 0, 2, 60, b"\x02"),
        ]
        store.commit(changes_of(repeats=[value for row in rows for value in row]))
        assert place.open().repeats() == [rows[2], rows[1], rows[0]]
        store = place.open()
        store.commit(changes_of(delete_repeats=[("a", ODD), ("b", "y")]))
        assert store.repeats() == [rows[2], rows[0]]

    def test_limits(self, store, place):
        """A rate may be a fraction."""
        store.commit(changes_of(limits=[ODD, 1, 5, 0.25, "b", 0, 0, 0.0]))
        assert sorted(place.open().limits())[1:] == [StoredLimit("b", 0, 0, 0.0)]
        store = place.open()
        store.commit(changes_of(delete_limits=["b"]))
        assert store.limits() == [StoredLimit(ODD, 1, 5, 0.25)]

    def test_named_leases(self, store, place):
        """The last holder counts."""
        store.commit(changes_of(named_leases=["a", ODD, 1, 500]))
        store.commit(changes_of(named_leases=["a", "y", 2, 600, "b", "z", 1, 700]))
        assert sorted(place.open().named_leases()) == [("a", "y", 2, 600), ("b", "z", 1, 700)]
        store = place.open()
        store.commit(changes_of(delete_named_leases=["a"]))
        assert store.named_leases() == [("b", "z", 1, 700)]


class TestOthers:
    def test_held_events(self, store, place):
        """A later one replaces that of its key."""
        event = StoredEvent(1, 5, 105, -1, b"\x01")
        store.commit(changes_of(held=[ODD, *event, "b", *event]))
        store.commit(changes_of(held=["b", 2, 6, 106, 3, b"\xa1v"]))
        later = place.open()
        assert sorted(later.held_events()) == sorted(
            [(ODD, event), ("b", StoredEvent(2, 6, 106, 3, b"\xa1v"))]
        )
        assert sorted(later.sizes("held")) == sorted([(ODD, 1), ("b", 2)])
        later.commit(changes_of(delete_held=["b", "c"]))
        assert later.held_events() == [(ODD, event)]

    def test_replies(self, store, place):
        """Those of a session are in order."""
        store.commit(
            changes_of(
                replies=["s", 2, 100, b"\x91\x02", "s", 1, 100, b"\x91\x01", ODD, 9, 99, b"\x90"]
            )
        )
        assert place.open().replies() == [
            (ODD, 9, 99, b"\x90"),
            ("s", 1, 100, b"\x91\x01"),
            ("s", 2, 100, b"\x91\x02"),
        ]
        store = place.open()
        assert sorted(store.sizes("replies")) == sorted([(ODD, 1), ("s", 2), ("s", 2)])
        store.commit(changes_of(delete_replies=[("s", 1), (ODD, 9), ("x", 2)]))
        assert store.replies() == [("s", 2, 100, b"\x91\x02")]

    @pytest.mark.parametrize(
        ("changes", "read"),
        [
            ({"outcomes": outcome(1, 1, "k", CUT)}, lambda store: store.outcomes_by_seqs([1])),
            ({"results": [1, CUT]}, lambda store: store.results([1])),
            ({"progress": [1, "k", CUT]}, lambda store: [*store.progress()]),
            ({"held": ["k", 1, 5, 105, -1, CUT]}, lambda store: store.held_events()),
            ({"replies": ["s", 2, 100, CUT]}, lambda store: store.replies()),
            (
                {"spreads": [3, "k", 5, 0, 9, 1, 0, 2, "s", 1, 0, b"\x01", CUT]},
                lambda store: store.spreads(),
            ),
        ],
        ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
    )
    def test_a_value_that_is_no_messagepack(self, store, changes, read):
        """A wrong bit is told as such: it does not get into a frame."""
        store.commit(changes_of(operations=batches(range(1, 2)), **changes))
        with pytest.raises(StoreError, match=DAMAGE) as caught:
            read(store)
        assert caught.value.fatal

    def test_metadata(self, store, place):
        """Texts, whole numbers and bytes; a database has an id that stays."""
        store.set_metadata({"a": 1, "b": ODD, "c": b"\x00\xff"})
        store.set_metadata({"a": 1 << 60})
        found = place.open().metadata()
        assert (found["a"], found["b"], found["c"]) == (1 << 60, ODD, b"\x00\xff")
        assert found[DATABASE_ID] == store.metadata()[DATABASE_ID]

    def test_room(self, store):
        """What is written to see whether there is room is gone."""
        before = store.metadata()
        store.check_room(100_000)
        assert store.metadata() == before

    def test_size(self, store):
        """It is known."""
        assert store.stored_bytes() > 0
        assert store.trouble() == ""

    def test_closing(self, store):
        """It says so: what happens to its files is no trouble then."""
        assert not store.is_closing
        store.close()
        assert store.is_closing

    def test_a_lost_store(self, store):
        """Once it is known to be lost, nothing is written."""
        store.lost = OSError("gone")
        with pytest.raises(OSError, match="gone"):
            store.commit(changes_of(operations=batches(range(1, 2))))
        assert numbers(store) == []


def queued_job(number):
    """Return the end of a job for the journal."""
    return QueuedJob(number, f"j{number}", "k", "done", "c", ("t",), 1, 2, 3, 4, 1, "w", "")


class TestJournalQueue:
    def test_rows(self, store, place):
        """They are read from a number on, until they are deleted."""
        store.commit(
            changes_of(
                queued_events=[1, ODD, 5000, 7, 1, 2, "k", 6000, 0, 0],
                queued_extensions=[1, ODD, 5000, 900],
                queued_jobs=[queued_job(1), queued_job(2)],
            )
        )
        store.commit(changes_of(queued_jobs=[queued_job(3)]))
        later = place.open()
        assert later.queued_events(0) == [(1, ODD, 5000, 7, 1), (2, "k", 6000, 0, 0)]
        assert later.queued_extensions(0) == [(1, ODD, 5000, 900)]
        assert later.queued_jobs(0) == [queued_job(1), queued_job(2), queued_job(3)]
        assert later.queued_jobs(1) == [queued_job(2), queued_job(3)]
        assert later.last_event_ms(0) == 6000
        assert later.last_event_ms(2) is None
        assert later.last_numbers() == JournalPosition(0, 0, 2, 1, 3)
        assert later.deleted_queued() == (0, 0, 0)
        later.commit(changes_of(delete_queued=(1, 1, 2)))
        assert later.deleted_queued() == (1, 1, 2)
        assert later.queued_events(0) == [(2, "k", 6000, 0, 0)]
        assert later.queued_jobs(0) == [queued_job(3)]
        assert place.open().last_numbers() == JournalPosition(0, 0, 2, 1, 3)


def remembered(rows=(), deleted=(), shards=(), count=None):
    """Return changes of remembered ids, rows given as (place, until_ms)."""
    changes = Changes()
    changes.remembered = RememberedChanges()
    changes.remembered.rows = [
        RememberedRow(place, until_ms, place + 1, 5, b"\x01") for place, until_ms in rows
    ]
    changes.remembered.deleted = [(place + 1, place) for place in deleted]
    changes.remembered.shards = list(shards)
    changes.remembered.count = len(rows) if count is None else count
    changes.remembered.last_place = max([place for place, _ in rows], default=0)
    return changes


class TestRemembered:
    def test_rows(self, store, place):
        """They are read by place, the latest first."""
        store.commit(remembered([(1, 100), (2, 200), (7, 300)]))
        table = place.open().remembered
        assert table.counts() == (3, 7)
        assert table.read([2, 7, 9]) == [
            RememberedRow(7, 300, 8, 5, b"\x01"),
            RememberedRow(2, 200, 3, 5, b"\x01"),
        ]
        assert table.read([]) == []
        assert list(table.entries(1)) == [(3, 2), (8, 7)]

    def test_rows_whose_time_is_over(self, store):
        """In portions, and not before."""
        store.commit(remembered([(1, 300), (2, 100), (3, 200)]))
        table = store.remembered
        assert table.due(99, 9) == []
        assert table.due(200, 9) == [(3, 2), (4, 3)]
        assert len(table.due(300, 2)) == 2
        store.commit(remembered(deleted=[2, 3], count=1))
        assert table.due(300, 9) == [(2, 1)]
        assert table.counts()[0] == 1

    @WITHOUT_A_CLOCK
    def test_times_are_moved(self, store, place):
        """Those of rows from before and after."""
        store.commit(remembered([(1, 100)]))
        store.shift_times(50, {})
        store.commit(remembered([(2, 100)], count=2))
        for each in (store, place.open()):
            rows = each.remembered.read([1, 2])
            assert [(row.place, row.until_ms) for row in rows] == [(2, 100), (1, 150)]
            assert each.remembered.due(149, 9) == [(3, 2)]
            assert len(each.remembered.due(150, 9)) == 2

    def test_shards(self, store, place):
        """A later one of the same number replaces it."""
        store.commit(remembered(shards=[(0, 5, b"12345678"), (1, 5, b"")]))
        store.commit(remembered(shards=[(0, 9, b"87654321")]))
        assert list(place.open().remembered.shards()) == [(0, 9, b"87654321"), (1, 5, b"")]

    def test_pages(self, store, monkeypatch):
        """Any number of rows is read, a page at a time."""
        monkeypatch.setattr(table_store, "_ENTRIES", 2)
        monkeypatch.setattr(table_store, "_SHARDS", 2)
        for count in range(6):
            assert [place for _, place in store.remembered.entries(0)] == list(range(1, count + 1))
            assert [shard for shard, *_ in store.remembered.shards()] == list(range(count))
            store.commit(remembered([(count + 1, 100)], shards=[(count, 5, b"")]))


@WITHOUT_A_CLOCK
class TestTimes:
    def test_of_what_waits(self, store, place):
        """They are moved; those of operations that have ended stay."""
        store.commit(
            changes_of(
                operations=batches(range(1, 5)),
                outcomes=outcome(1, 2),
                deadlines=[1, 3000, 2, 4000],
                held=["k", 1, 5, 105, -1, b"\x01"],
                jobs=[1, 0, 1, 700, ""],
                attempts=[1, 0, 1, 3, 4, "w", "E"],
                replies=["s", 1, 100, b"r"],
                named_leases=["a", "x", 1, 500],
                repeats=["c", "calendar", 9, 0, 0, 0, 0, b"", "c", "every", 9, 0, 0, 0, 60, b""],
            )
        )
        store.shift_times(50, {"fact": 1})
        for each in (store, place.open()):
            times = [(row.submitted_ms, row.deadline_ms) for row in each.operations()]
            assert times == [(51, 3050), (1, 4000), (51, 1050), (51, 1050)]
            assert each.held_events()[0][1][1:3] == (55, 155)
            assert each.job_rows([1])[1][2] == 750
            assert each.attempts([1])[1][0].ended_ms == 4
            assert each.replies()[0][2] == 150
            assert each.named_leases()[0][3] == 550
            assert [row.next_ms for row in each.repeats()] == [9, 59]
            assert each.metadata()["fact"] == 1


def test_trimmed_attempts(place, store):
    """The last leases of a job stay; all of another job stay, of which the last ends are read."""
    most = KEPT_ATTEMPTS + 7
    for seq in (1, 2):
        for token in range(1, most + 1):  # an end that is told late: the order of ends differs
            store.commit(changes_of(attempts=[seq, token, 1, 5, 100 - token, "w", f"E{token}"]))
    store.commit(changes_of(trim_attempts=[1]))
    store = place.open()
    found = store.attempts([1, 2])
    assert [one.error for one in found[1]] == [f"E{token}" for token in range(most, 7, -1)]
    assert [one.error for one in found[2]] == [f"E{token}" for token in range(20, 0, -1)]
