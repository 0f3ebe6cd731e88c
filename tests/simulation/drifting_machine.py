"""DriftingMachine: a machine whose clocks run too fast or too slow."""

from typing import Final

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.world import World

#: The largest drift of a clock, as of Linux's corrections.
MAX_DRIFT_PPM: Final = 500


class DriftingMachine(Machine):
    """Not for a server, which counts deadlines by these clocks."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._drift_ppm = 0
        self._drift_since_ns = 0  # by the world's clock

    def boot_ns(self) -> int:
        now_ns = self.world.now_ns + self._ahead_ns
        return now_ns + self._drifted_ns() if self._drift_ppm else now_ns

    def _drifted_ns(self) -> int:
        return (self.world.now_ns - self._drift_since_ns) * self._drift_ppm // 1_000_000

    def drift(self, ppm: int) -> None:
        """Let the monotonic and the boot clock gain `ppm` microseconds a second from now on."""
        self.world.note(f"{self.name}: its clock gains {ppm} microseconds a second")
        self._ahead_ns += self._drifted_ns()
        self._drift_since_ns, self._drift_ppm = self.world.now_ns, ppm

    def lose_power(self) -> None:
        super().lose_power()
        self._ahead_ns -= self._drifted_ns()
