"""Rot: a server on a database with wrong bits says that it is damaged, or cannot know."""

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.contract import DAMAGE
from purgatory.testing.world.server import DATABASE
from tests.simulation import rot
from tests.simulation.errors import Violation
from tests.simulation.rot import Rot
from tests.simulation.simulation import simulate


def test_bits_flip_in_a_database_at_rest(simulation, monkeypatch):
    """The server is closed before, and another one is started on what is left."""
    monkeypatch.setattr(rot, "_LOOK_S", 60.0)
    before = simulation.server.starts
    Rot(simulation.world, simulation.server).happen()
    told = "\n".join(simulation.world.history)
    assert "of the database flip" in told
    assert simulation.server.starts >= before


@pytest.mark.parametrize(("said", "is_wrong"), [(DAMAGE, False), ("cannot read: no", True)])
def test_what_a_server_has_to_say(simulation, monkeypatch, said, is_wrong):
    """An error that does not speak of damage sends its reader elsewhere."""

    def refuse():
        raise StoreError(f"purgatory.db: {said}", fatal=True)

    monkeypatch.setattr(simulation.server, "start", refuse)
    rot = Rot(simulation.world, simulation.server)
    if is_wrong:
        with pytest.raises(Violation, match="said of a database with wrong bits"):
            rot.happen()
    else:
        rot.happen()


def test_an_end_without_a_reason(simulation, monkeypatch):
    """A server that ends by another error has not looked at what it has read."""

    def fail():
        raise KeyError("op-1")

    monkeypatch.setattr(simulation.server, "start", fail)
    with pytest.raises(KeyError):
        Rot(simulation.world, simulation.server).happen()


def test_the_bits_that_flip(simulation):
    """They are wrong on disk, too: no loss of power brings them back."""
    disk = simulation.server.machine.disk
    file = disk.file(str(DATABASE))
    right = bytes(file.data)
    file.sync()
    file.flip(8 * 100 + 3)
    wrong = bytes(file.data)
    assert [offset for offset in range(len(right)) if right[offset] != wrong[offset]] == [100]
    simulation.server.lose_power()
    assert disk.file(str(DATABASE)).data == wrong


def test_worlds_that_end_so():
    """Some seeds do, after all else was judged."""
    assert simulate(3).faults["bits_rot"] == 1
    assert "bits_rot" not in simulate(4).faults
