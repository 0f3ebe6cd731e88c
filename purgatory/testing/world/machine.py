"""Machine: clocks, a disk and descriptors; can be suspended, and lose power."""

from purgatory.service.server.clock import ClockSources
from purgatory.testing.world.disk import Disk
from purgatory.testing.world.world import NS_PER_S, World

# Unix time at the beginning of a world.
EPOCH_NS = 1_700_000_000 * NS_PER_S


class Machine:
    """A machine of a world; `name` is its address in the network."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.disk: Disk = Disk(world)
        self._boots = 0
        # How far the time since boot is ahead of the world's: a second at the first boot.
        self._ahead_ns = NS_PER_S
        self._asleep_ns = 0  # suspended for so long since boot
        self.awake_at_ns: int = 0  # suspended until then
        #: The error of the wall clock.
        self.wall_error_ns: int = 0

    @property
    def boot_id(self) -> str:
        """The identity of the last boot."""
        return f"{self.name} {self._boots}"

    def monotonic_ns(self) -> int:
        """Return the time since boot without suspended time."""
        return self.boot_ns() - self._asleep_ns

    def boot_ns(self) -> int:
        """Return the time since boot."""
        return self.world.now_ns + self._ahead_ns

    def wall_ns(self) -> int:
        """Return Unix time by the wall clock."""
        return EPOCH_NS + self.world.now_ns + self.wall_error_ns

    def clocks(self) -> ClockSources:
        """Return a server's clocks."""
        return ClockSources(self.wall_ns, self.boot_ns, lambda: self.boot_id)

    def suspend(self, delay_ns: int) -> None:
        """Suspend the machine; its monotonic clock stands still."""
        start_ns = max(self.world.now_ns, self.awake_at_ns)
        self.awake_at_ns = start_ns + delay_ns
        self._asleep_ns += delay_ns

    def lose_power(self) -> None:
        """Lose unsynced data, and boot again."""
        self.disk.lose_power()
        self._boots += 1
        self._ahead_ns = NS_PER_S - self.world.now_ns
        self._asleep_ns = self.awake_at_ns = 0
