"""Wait for replicas as a Kafka broker does: a subclass of DelayedOperation with its own condition.

A write is acknowledged once enough replicas have it, or refused after its timeout.
"""

from concurrent.futures import Future
from dataclasses import dataclass, field

from purgatory import DelayedOperation, Purgatory


@dataclass
class Partition:
    """How far each replica of a partition has come."""

    name: str
    offsets: dict[str, int] = field(default_factory=dict)

    def replicas_at(self, offset: int) -> int:
        """Return how many replicas have everything up to an offset."""
        return sum(reached >= offset for reached in self.offsets.values())


class DelayedWrite(DelayedOperation):
    """Waits until `acks` replicas have reached `offset`."""

    def __init__(self, partition: Partition, offset: int, acks: int, timeout: float) -> None:
        super().__init__(timeout)
        self.partition = partition
        self.offset = offset
        self.acks = acks
        self.answer: Future[str] = Future()

    def try_complete(self) -> bool:
        """Check the condition; never called by two threads at a time."""
        return self.partition.replicas_at(self.offset) >= self.acks and self.force_complete()

    def on_complete(self) -> None:
        """Answer the producer; called exactly once, on completion or expiry."""
        enough = self.partition.replicas_at(self.offset) >= self.acks
        self.answer.set_result("acknowledged" if enough else "not enough replicas")


def main() -> None:
    """Write twice; only the first write reaches two replicas."""
    partition = Partition("orders-0", {"leader": 2})
    with Purgatory("produce") as purgatory:
        first = DelayedWrite(partition, offset=1, acks=2, timeout=30)
        second = DelayedWrite(partition, offset=2, acks=2, timeout=0.1)
        for write in (first, second):
            purgatory.try_complete_else_watch(write, [partition.name])

        partition.offsets["follower"] = 1  # a follower has fetched the first write
        print(purgatory.check_and_complete(partition.name), "completed")
        print("offset 1:", first.answer.result())
        print("offset 2:", second.answer.result())


if __name__ == "__main__":
    main()
