"""Rot: bits of a database that flip while no server runs, and what the next server makes of it.

It comes last in a world: values may be wrong from then on, so no other promise holds. A server has
to say that the database is damaged, at its start or later, or it cannot know and goes on.
"""

import random
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.store.contract import DAMAGE
from purgatory.testing.world.server import DATABASE, ServerHost
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.errors import Violation

#: Modulo 16, the seeds of worlds that end so.
ROT_SEEDS: Final = (3, 8, 14)
# Seconds in which a server ends that is told to, and after which the next one is looked at.
_CLOSE_S: Final = 10.0
_LOOK_S: Final = 2000.0


class Rot:
    """The last fault of a world; its clients and workers are gone."""

    def __init__(self, world: World, server: ServerHost) -> None:
        self._world = world
        self._server = server
        # Chance of its own: the world is the same without it.
        self._chance = random.Random(f"rot {world.seed}")

    def happen(self) -> None:
        """Flip bits, and start the server; raises Violation if it ends and does not say why."""
        self._close_server()
        self._flip_bits()
        try:
            self._server.start()
            self._world.run(_LOOK_S)
        except StoreError as error:
            if DAMAGE not in str(error):
                raise Violation(f"said of a database with wrong bits: {error}") from error

    def _close_server(self) -> None:
        """End the server, so that all of its log is in the database."""
        self._server.stay_down(int(2 * _CLOSE_S * NS_PER_S))
        process = self._server.process
        if process is not None:
            process.close(_CLOSE_S)
        self._world.run(_CLOSE_S)
        self._server.kill()

    def _flip_bits(self) -> None:
        file = self._server.machine.disk.file(str(DATABASE))
        count = self._chance.choice((1, 8, 64))
        self._world.note(f"disk: {count} bits of the database flip")
        for _ in range(count):
            file.flip(self._chance.randrange(file.size * 8))
