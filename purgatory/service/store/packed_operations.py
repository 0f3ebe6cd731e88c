"""PackedBatch: operations as both stores write them, a batch in each row.

Operations never change, and are mostly deleted together. A batch costs a tenth of a row for each.
Immutable; any thread.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from purgatory.service.store.rows import OperationBatch, Options, StoredOperation

_NO_PAYLOAD: Final = b"\xc0"  # MessagePack's None


class PackedOperation(msgspec.Struct, array_like=True, gc=False):
    """An operation in the array of its row."""

    op_id: str
    keys: tuple[str, ...]
    timeout_ms: int
    need: int = 1
    kind: str = ""
    payload: Raw = Raw(_NO_PAYLOAD)
    submitted_offset_ms: int = 0  # its submission minus the batch's
    options: Options | None = None


class PackedBatch(NamedTuple):
    """A row; `numbers`: None, or a MessagePack array of those left."""

    first: int
    last: int
    size: int
    client: str
    submitted_ms: int
    numbers: bytes | None
    operations: bytes | bytearray

    @classmethod
    def of(cls, batch: OperationBatch) -> Self:
        """Pack a batch."""
        first, client, submitted_ms, operations = batch
        count = len(operations)
        packed = bytearray(_encode(operations))  # see `Changes`
        return cls(first, first + count - 1, count, client, submitted_ms, None, packed)

    def all_numbers(self) -> Sequence[int]:
        """Return the operations' numbers, ascending."""
        return (
            range(self.first, self.last + 1) if self.numbers is None else _decode_ints(self.numbers)
        )

    def raws(self) -> list[Raw]:
        """Return the operations, undecoded."""
        return _decode_list(self.operations)

    def items(self) -> Iterator[tuple[int, Raw]]:
        """Yield number and operation, undecoded."""
        return zip(self.all_numbers(), self.raws(), strict=True)

    def all(self, after: int = 0, deleted: Collection[int] = ()) -> list[StoredOperation]:
        """Return the operations above `after`, but for `deleted`.

        Decoding a whole row takes half as long as one by one.
        """
        numbers, client, submitted_ms = self.all_numbers(), self.client, self.submitted_ms
        found = [
            stored_operation(number, client, submitted_ms, packed)
            for number, packed in zip(numbers, _decode_all(self.operations), strict=True)
        ]
        if deleted or self.first <= after:
            return [one for one in found if one.number > after and one.number not in deleted]
        return found

    def beyond(self, number: int, *, newest: bool) -> list[StoredOperation]:
        """Return the operations above `number`, or below it, the last first (`newest`)."""
        if newest:
            return [one for one in reversed(self.all()) if one.number < number]
        return self.all(number)

    def some(self, numbers: Sequence[int]) -> Iterator[StoredOperation]:
        """Yield the operations among `numbers`."""
        raws = dict(self.items())
        for number in numbers:
            if number in raws:
                packed = _decode_operation(raws[number])
                yield stored_operation(number, self.client, self.submitted_ms, packed)

    def without(self, deleted: Collection[int]) -> Self:
        """Return the row without some operations."""
        kept = [(number, raw) for number, raw in self.items() if number not in deleted]
        return self._replace(
            size=len(kept),
            numbers=_encode([number for number, _ in kept]),
            operations=_encode([raw for _, raw in kept]),
        )

    def moved(self, by_ms: int, unmoved: Collection[int]) -> bytes:
        """Return the operations, whose submissions move by `by_ms`, but for `unmoved` ones.

        `submitted_ms` of the batch has moved already.
        """
        operations = _decode_all(self.operations)
        for number, operation in zip(self.all_numbers(), operations, strict=True):
            if number in unmoved:
                operation.submitted_offset_ms -= by_ms
        return _encode([_values(one) for one in operations])


def stored_operation(
    number: int, client: str, submitted_ms: int, packed: PackedOperation
) -> StoredOperation:
    """Return an operation of a row; `submitted_ms`: of the batch."""
    keys, payload = packed.keys, bytes(packed.payload)
    submitted_ms += packed.submitted_offset_ms
    return StoredOperation(
        number,
        client,
        packed.op_id,
        packed.kind,
        submitted_ms,
        submitted_ms + packed.timeout_ms,
        packed.need,
        keys if len(keys) == 1 else tuple(dict.fromkeys(keys)),
        None if payload == _NO_PAYLOAD else payload,
        packed.options,
    )


COLUMNS: Final = ", ".join(PackedBatch._fields)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_list: Final = msgspec.msgpack.Decoder(list[Raw]).decode
_decode_ints: Final = msgspec.msgpack.Decoder(list[int]).decode
_decode_all: Final = msgspec.msgpack.Decoder(list[PackedOperation]).decode
_decode_operation: Final = msgspec.msgpack.Decoder(PackedOperation).decode


def _values(operation: PackedOperation) -> Any:
    """Return what is written: options only if any exist, as older programs expect."""
    return astuple(operation)[:-1] if operation.options is None else operation
