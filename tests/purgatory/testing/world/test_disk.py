"""Disk and SQLite on it: what a loss of power leaves."""

from purgatory.testing.world.disk import Disk
from purgatory.testing.world.world import World


def test_what_was_synced_stays(disk):
    """Content by a sync of the file, its name by one of the directory."""
    handles = disk.open_handles()
    file = disk.open("a", handles, create=True)
    file.write(b"safe", 0)
    file.sync()
    disk.sync_names(handles)
    disk.lose_power()
    assert disk.open("a", handles, create=False).read(10, 0) == b"safe"


def test_what_was_not_synced_is_left_to_chance():
    """It is lost in some worlds, there in others, and torn in some."""
    found = set()
    for seed in range(200):
        disk = Disk(World(seed))
        handles = disk.open_handles()
        file = disk.open("a", handles, create=True)
        file.write(b"a" * 1024, 0)
        file.sync()
        disk.sync_names(handles)
        file.write(b"b" * 1024, 0)
        disk.lose_power()
        found.add(disk.open("a", handles, create=False).read(1024, 0))
    assert found == {b"a" * 1024, b"b" * 1024, b"b" * 512 + b"a" * 512}


def test_names_that_were_not_synced():
    """A new file may be gone, a deleted one may be back."""
    found = set()
    for seed in range(50):
        disk = Disk(World(seed))
        handles = disk.open_handles()
        disk.open("old", handles, create=True)
        disk.sync_names(handles)
        disk.delete("old", handles)
        disk.open("new", handles, create=True)
        disk.lose_power()
        found.add((disk.exists("old"), disk.exists("new")))
    assert found == {(old, new) for old in (False, True) for new in (False, True)}


def test_a_killed_process_writes_nothing(disk):
    """Also in the middle of what it does."""
    handles = disk.open_handles()
    file = disk.open("a", handles, create=True)
    file.write(b"1", 0)
    handles.alive = False
    file.write(b"2", 0)
    file.truncate(0)
    disk.delete("a", handles)
    assert disk.open("a", disk.open_handles(), create=False).read(1, 0) == b"1"
