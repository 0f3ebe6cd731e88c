"""Commits as a server makes them, at random, and all that a store has."""

import random

from msgspec import Raw, msgpack

from purgatory.service.store.changes import RememberedChanges
from purgatory.service.store.rows import (
    MAX_BATCH,
    OperationBatch,
    QueuedJob,
    RememberedRow,
    StoredSpread,
    reference_to,
)
from tests.testing.changes import changes_of

CLIENTS = ("a", "b\0", "ü")


class RandomCommits:
    """Makes changes as a server does: numbers grow, what is deleted exists."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.operation = self.seq = self.event = self.extension = self.job = 0
        self.spread = self.place = self.key = self.token = 0
        self.pending, self.ended, self.spreads = [], [], []
        self.remembered = set()

    def some(self, values, most=9):
        """Return a few distinct values of a collection."""
        values = list(values)
        return self.dice.sample(values, min(len(values), self.dice.randrange(most)))

    def maybe(self, share=0.5):
        """Tell whether to do something."""
        return self.dice.random() < share

    def blob(self):
        """Return a value."""
        return msgpack.encode(self.dice.randbytes(self.dice.choice((1, 3, 500))))

    def changes(self):
        """Return the next commit."""
        made = changes_of()
        for part in (self.submit, self.end, self.delete, self.note, self.queue, self.remember):
            if self.maybe():
                part(made)
        return made

    def submit(self, made):
        """Submit batches of some clients."""
        for _ in range(self.dice.randrange(4)):
            self.operation += 1 + self.dice.randrange(2)
            first = self.operation
            items = [
                [f"op{n}", ["k", f"k{n}"], 1000 + n, 1, "", Raw(b"\xc0")]
                for n in range(first, first + self.dice.choice((1, 2, 30, MAX_BATCH)))
            ]
            self.operation += len(items) - 1
            self.pending += range(first, self.operation + 1)
            client, at_ms = self.dice.choice(CLIENTS), self.dice.randrange(10_000)
            made.operations.append(OperationBatch(first, client, at_ms, items))

    def end(self, made):
        """End some operations, also by spreads."""
        if self.maybe(0.3):
            self.spread += 1
            self.spreads.append(self.seq + 1)
        chosen = self.dice.sample(self.pending, self.dice.randrange(len(self.pending) + 1))
        for number in chosen:
            self.seq += 1 + (self.maybe(0.02))
            self.pending.remove(number)
            self.ended.append((number, self.seq))
            result = self.dice.choice(("", bytearray(self.blob()) if self.maybe() else ""))
            if self.spreads and self.maybe():
                result = reference_to(self.spread)
            key = self.dice.choice(("", "k", f"k{number}"))
            made.outcomes += [self.seq, number, "completed", self.seq, 0, key, result]
        if self.spreads:
            first, last = self.spreads[-1], self.seq if self.maybe(0.7) else 0
            row = StoredSpread(self.spread, "k", 1, 0, 9, first, last, 1, "s", 1, 0, b"c", b"v")
            made.spreads += row

    def delete(self, made):
        """Delete what has ended, mostly what came together."""
        start = self.dice.randrange(len(self.ended) + 1)
        gone = self.ended[start : start + self.dice.choice((1, 5, 100, 1000))]
        gone = gone if self.maybe(0.7) else self.some(self.ended)
        self.ended = [one for one in self.ended if one not in set(gone)]
        made.delete_operations = [number for number, _ in gone]
        made.delete_outcomes = [seq for _, seq in gone]

    def note(self, made):
        """Write and delete rows of all small tables."""
        for number in self.some(self.pending):
            made.deadlines += [number, self.dice.randrange(99_999)]
            self.key += 1
            made.progress += [number, f"k{self.key}", self.blob()]
        for _, seq in self.some(self.ended):
            made.jobs += [seq, self.dice.randrange(5), 1, self.dice.randrange(999), "e"]
            for number in self.some(range(1, 99), 4):
                attempt = [number, number, self.dice.randrange(999), "w", self.dice.choice("e ")]
                self.token += 1
                made.attempts += [seq, self.token, *attempt]
            made.results += [seq, self.blob()]
        made.trim_attempts = [seq for _, seq in self.some(self.ended)]
        for key in self.some("abcdef"):
            made.held += [key, self.event, 1, self.dice.randrange(99), -1, self.blob()]
            made.named_leases += [key, "h", self.dice.randrange(99), 5]
            made.limits += [key, 0, self.dice.randrange(9), 0.5]
            made.replies += [key, self.dice.randrange(3), self.dice.randrange(99), self.blob()]
            made.repeats += ["c", key, self.dice.randrange(99), 0, 0, 0, 0, self.blob()]
        made.delete_held = self.some("abcdef")
        made.delete_named_leases = self.some("abcdef")
        made.delete_limits = self.some("abcdef")
        made.delete_repeats = [("c", key) for key in self.some("abcdef")]
        made.delete_replies = [(key, 1) for key in self.some("abcdef")]

    def queue(self, made):
        """Queue rows for the journal, and delete earlier ones."""
        if self.maybe():
            made.delete_queued = (self.event, self.extension, self.job)
        for _ in range(self.dice.randrange(4)):
            self.event += 1
            made.queued_events += [self.event, "k", self.dice.randrange(99), 0, 0]
            self.extension += 1
            made.queued_extensions += [self.extension, "op", 5, 9]
            self.job += 1
            job = QueuedJob(self.job, "j", "k", "done", "c", (), 1, 2, 3, 4, 1, "w", "")
            made.queued_jobs.append(job)

    def remember(self, made):
        """Remember ids, and forget some."""
        made.remembered = changes = RememberedChanges()
        for _ in range(self.dice.randrange(5)):
            self.place += 1
            row = RememberedRow(self.place, self.dice.randrange(999), self.place * 7, 0, b"s")
            changes.rows.append(row)
        changes.deleted = [(place * 7, place) for place in self.some(self.remembered)]
        changes.shards = [(self.dice.randrange(4), self.place, self.blob())]
        self.remembered |= {row.place for row in changes.rows}
        self.remembered -= {place for _, place in changes.deleted}
        changes.count, changes.last_place = len(self.remembered), self.place


def everything(store):
    """Return all that a store has."""
    small = list(store.outcomes_without_results())
    known = [one.seq for one in small][-500:]
    ids = store.remembered
    return {
        "operations": list(store.operations()),
        "submissions": list(store.submissions(7)),
        "outcomes": small,
        "all outcomes": list(store.outcomes()),
        "ends": store.outcomes_by_seqs(known),
        "progress": sorted(store.progress()),
        "sizes": [sorted(store.sizes(table)) for table in ("progress", "held", "replies")],
        "held": sorted(store.held_events()),
        "spreads": store.spreads(),
        "jobs": sorted(store.jobs()),
        "job rows": store.job_rows(known),
        "attempts": store.attempts(known),
        "results": store.results(known),
        "repeats": store.repeats(),
        "limits": sorted(store.limits()),
        "leases": sorted(store.named_leases()),
        "replies": sorted(store.replies()),
        "queue": (store.queued_events(0), store.queued_extensions(0), store.queued_jobs(0)),
        "numbers": (store.last_numbers(), store.deleted_queued(), store.last_event_ms(0)),
        "remembered": (ids.counts(), list(ids.entries(0)), sorted(ids.shards())),
        "due": (sorted(ids.due(500, 10**6)), ids.read(range(1, 400))),
        "oldest": store.oldest_submission_ms() is None,
    }
