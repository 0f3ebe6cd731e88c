"""The check: what the server says otherwise than the model is found, in few worlds."""

import pytest

from purgatory.service.server import commits
from purgatory.service.server.records.held_keys import HeldKeys
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.key_events import KeyEvents
from purgatory.service.store.changes import Changes
from tests.simulation.simulation import Settings, simulate

SETTINGS = Settings(seconds=10.0)


def found(seeds=range(3)):
    """Return what is wrong in the first worlds; empty if nothing is."""
    return next((why for seed in seeds if (why := simulate(seed, SETTINGS).violation)), "")


def test_a_server_that_is_right_is_told_apart():
    """No difference, with jobs, faults and restarts."""
    assert found() == ""


def test_a_wrong_order_of_limited_events_is_found(monkeypatch):
    """The latest first."""
    watchers_of = ServerState.watchers_of
    monkeypatch.setattr(ServerState, "watchers_of", lambda *args: watchers_of(*args)[::-1])
    assert "the model of the server says otherwise" in found()


def test_a_pause_that_is_too_long_is_found(monkeypatch):
    """Nothing expires for a minute after a failed commit."""
    monkeypatch.setattr(commits, "RETRY_MS", 60_000)
    settings = Settings(seconds=10.0, kinds=("disk_full",))
    found = (simulate(seed, settings).violation for seed in range(6))
    assert any("nothing expires before" in why for why in found)


def test_a_replaced_event_that_stays_is_found(monkeypatch):
    """What comes later is not held, and the one before is."""
    set_held = HeldKeys.set

    def keep(self, key, event):
        before = self.by_key.get(key)
        if event is not None or before is None or before.until_ms < before.at_ms + 1000:
            set_held(self, key, event)

    def complete(self, completion):
        with monkeypatch.context() as patched:
            patched.setattr(HeldKeys, "set", keep)
            return complete_and_hold(self, completion)

    complete_and_hold = KeyEvents._complete_and_hold
    monkeypatch.setattr(KeyEvents, "_complete_and_hold", complete)
    assert "the model of the server says otherwise" in found(range(5, 10))


def test_a_reply_that_is_not_on_disk_is_found(monkeypatch):
    """At the next start."""
    monkeypatch.setattr(Changes, "replies", property(lambda _: [], lambda *_: None), raising=False)
    assert "the disk has something else than the model" in found(range(2, 10))


@pytest.mark.parametrize("seed", [3, 12])
def test_a_world_without_the_model_is_the_same(seed):
    """It only looks: the history is what it was."""
    histories = [
        simulate(seed, Settings(seconds=5.0, has_model=on), with_history=True).history
        for on in (False, True)
    ]
    assert histories[0] == histories[1]
