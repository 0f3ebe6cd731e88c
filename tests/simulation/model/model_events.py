"""ModelEvents: which operations an event reaches, and what is held for later ones.

Whatever many operations an event ends, it does so at its own moment: the server may need several
transactions for that, see `ServerModel.unpublished`.
"""

from purgatory.service.encoding import encode
from purgatory.service.protocol import Completion, KeyFailure
from tests.simulation.model.model_leases import ModelLeases
from tests.simulation.model.model_operation import End, HeldEvent, ModelOperation
from tests.simulation.model.model_stamp import ModelStamp
from tests.simulation.model.undo import Undo

ANY_NUMBER = -1


class ModelEvents:
    """The waiting operations of a server by their keys, and its held events."""

    def __init__(self, stamp: ModelStamp, undo: Undo, leases: ModelLeases) -> None:
        self._stamp = stamp
        self._leases = leases
        self._undo = undo
        self.waiting: dict[str, dict[int, ModelOperation]] = {}  # by key and place
        self.held: dict[str, HeldEvent] = {}
        #: Events that have been held long enough: they may be on disk for a while.
        self.released: dict[str, HeldEvent] = {}
        #: Operations that have ended, and whose outcomes the server has not shown yet.
        self.unpublished: dict[str, ModelOperation] = {}
        self._last_held = 0

    def watch(self, operation: ModelOperation) -> None:
        """Have an operation wait for its keys."""
        for key in operation.keys:
            self.waiting.setdefault(key, {})[operation.place] = operation
        self._undo.add(self.unwatch, operation)

    def unwatch(self, operation: ModelOperation) -> None:
        """Have an operation wait no longer."""
        for key in operation.keys:
            watchers = self.waiting[key]
            del watchers[operation.place]
            if not watchers:
                del self.waiting[key]

    def _watch_again(self, operation: ModelOperation) -> None:
        for key in operation.keys:
            self.waiting.setdefault(key, {})[operation.place] = operation
        self.unpublished.pop(operation.op_id, None)

    def end(self, operation: ModelOperation, end: End) -> None:
        """End an operation."""
        self._undo.set(operation, "end", end)
        self.unwatch(operation)
        self.unpublished[operation.op_id] = operation
        self._undo.add(self._watch_again, operation)

    def complete(self, completion: Completion) -> int:
        """Complete a key; how many operations that completed."""
        key, limit, hold_ms = completion.key, completion.limit, completion.hold_ms
        units = ANY_NUMBER if limit is None else limit
        self._stamp.open_for(key)
        written_hold_ms = hold_ms if limit is None else 0  # a trace cannot say `limit`
        replaces = self._replace(key, written_hold_ms)
        now_ms = self._stamp.now_ms
        reached, count, is_any_left = self._reach(key, bytes(completion.value), units)
        units -= reached if units > 0 else 0
        cancelled = self._leases.cancel_by_key(key, units)
        units -= cancelled if units > 0 else 0
        event = None
        if hold_ms and units:
            self._last_held += 1
            value = bytes(completion.value)
            event = HeldEvent(self._last_held, now_ms, now_ms + hold_ms, units, value)
        self._undo.set_item(self.held, key, event)
        if written_hold_ms or ((reached or replaces) and not is_any_left):
            self._stamp.note_event(key, failed=False)
        return count + cancelled

    def _replace(self, key: str, hold_ms: int) -> bool:
        """Whether an event replaces one that still counts; a shorter one comes a moment later."""
        before = self.in_force(key)
        if before is None:
            return False
        if before.at_ms == self._stamp.now_ms and before.until_ms >= before.at_ms + hold_ms:
            self._stamp.begin_next()
        return True

    def _reach(self, key: str, value: bytes, units: int) -> tuple[int, int, bool]:
        """Let a completion count, for the longest waiting first.

        Returns for how many operations it has counted, how many that has completed, and whether
        others were left out.
        """
        reached = count = 0
        now_ms = self._stamp.now_ms
        watchers = self.waiting.get(key)
        for place in sorted(watchers) if watchers else ():
            operation = watchers[place] if watchers else None
            if operation is None or not operation.waits_for(key, now_ms):
                continue
            if reached == units:
                return reached, count, True
            reached += 1
            count += self._count(operation, key, value)
        return reached, count, False

    def _count(self, operation: ModelOperation, key: str, value: bytes) -> bool:
        """Let an event count for an operation that waits for it; whether that completes it."""
        now_ms = self._stamp.now_ms
        if operation.need <= 1:
            self.end(operation, End("completed", now_ms, key, value))
            return True
        self._undo.set_item(operation.values, key, value)
        if len(operation.values) < operation.need:
            return False
        self.end(operation, End("completed", now_ms, key, dict(operation.values)))
        return True

    def fail(self, failure: KeyFailure) -> int:
        """Fail a key; how many operations that ended. What is held stays."""
        key = failure.key
        self._stamp.open_for(key)
        now_ms = self._stamp.now_ms
        error = encode((failure.error_type, failure.message))
        found = [one for one in self.waiting.get(key, {}).values() if one.waits_for(key, now_ms)]
        for operation in found:
            named = key if operation.is_job else None
            self.end(operation, End("failed", now_ms, named, error))
        if found:
            self._stamp.note_event(key, failed=True)
        return len(found) + self._leases.cancel_by_key(key, ANY_NUMBER)

    def separate(self, keys: tuple[str, ...]) -> None:
        """Let a submission come after the events before it, in a trace, too.

        Not after a held one with units: each use of it is written as an event of its own.
        """
        stamp = self._stamp
        for key in keys:
            if not stamp.has_event(key):
                continue
            held = self.in_force(key)
            if stamp.has_failure(key) or held is None or held.units == ANY_NUMBER:
                stamp.begin_next()
                return

    def count_held(self, operation: ModelOperation) -> None:
        """Let what is held count for a new operation, in the order in which it came."""
        found = [(event, key) for key in operation.keys if (event := self.in_force(key))]
        for event, key in sorted(found):
            if not operation.waits_for(key, self._stamp.now_ms):
                continue
            if event.units != ANY_NUMBER:
                left = event.units - 1
                self._undo.set_item(self.held, key, event._replace(units=left) if left else None)
                self._stamp.note_event(key, failed=False)
            if self._count(operation, key, event.value):
                return

    def in_force(self, key: str) -> HeldEvent | None:
        """Return what is held for a key and still counts."""
        event = self.held.get(key)
        return event if event is not None and self._stamp.now_ms <= event.until_ms else None

    def release(self, before_ms: int) -> None:
        """Forget the events that were held until before a time."""
        for key in [key for key, event in self.held.items() if event.until_ms < before_ms]:
            self.released[key] = self.held.pop(key)
