"""What a thread and an event for interrupts must do; both leaves have such classes."""

import threading

from tests.testing.interrupts import at_every_place, interrupted_at
from tests.testing.leaks import HANG_TIMEOUT_S

# What `Thread.start` calls, since 3.13 and before.
STARTERS = ("_start_joinable_thread", "_start_new_thread")


def _join(threads):
    for thread in threads:
        thread.join(HANG_TIMEOUT_S)
        assert not thread.is_alive()


def _start_waiting(event, count):
    threads = [threading.Thread(target=event.wait, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def check_start(make, folders, monkeypatch):
    """Interrupt `start` at every place: KeyboardInterrupt comes out, and a thread that runs ends.

    `make(target)` returns a thread.
    """
    begun = []
    name = next(name for name in STARTERS if hasattr(threading, name))
    start = getattr(threading, name)

    def begin(*args, **options):
        begun.append(start(*args, **options))

    monkeypatch.setattr(threading, name, begin)

    def scene(at):
        begun.clear()
        ran = threading.Event()
        thread = make(ran.set)
        interrupter = interrupted_at(at, thread.start, (threading.__file__, *folders))
        if begun:
            assert ran.wait(HANG_TIMEOUT_S)
            _join([thread])
        threading._limbo.pop(thread, None)
        return interrupter

    at_every_place(scene, 4)


def check_alive(make, folders):
    """Interrupt looks at a thread that runs at every place: it is alive, until it ends.

    `make(target)` returns a thread.
    """
    end = threading.Event()
    thread = make(end.wait)
    thread.start()
    _check_look(thread, thread.is_alive, folders)
    _check_look(thread, lambda: thread.join(0), folders)
    end.set()
    _join([thread])


def _check_look(thread, look, folders):
    def scene(at):
        interrupter = interrupted_at(at, look, (threading.__file__, *folders))
        assert thread.is_alive()
        return interrupter

    at_every_place(scene, 1)


def check_wait(make, folders):
    """Interrupt `wait` at every place, before and after `set`: no other thread waits for ever."""

    def scene(at):
        event = make()
        interrupter = interrupted_at(at, lambda: event.wait(0), folders)
        waiting = _start_waiting(event, 2)
        event.set()
        interrupted_at(at, event.wait, folders)
        _join(waiting)
        assert event.wait(HANG_TIMEOUT_S)
        return interrupter

    at_every_place(scene, 1)


def check_set(make, folders):
    """Interrupt `set` at every place: it has done all or nothing."""

    def scene(at):
        event = make()
        waiting = _start_waiting(event, 2)
        interrupter = interrupted_at(at, event.set, folders)
        if not event.is_set():
            event.set()
        _join(waiting)
        return interrupter

    at_every_place(scene, 1)


def check_event(make):
    """Without interrupts it is a `threading.Event`."""
    event = make()
    assert isinstance(event, threading.Event)
    assert not event.is_set()
    assert not event.wait(0)
    assert not event.wait(-1)
    assert not event.wait(0.001)
    for _ in range(2):
        event.set()
        event.set()
        assert event.is_set()
        assert event.wait()
        assert event.wait(0)
        event.clear()
        event.clear()
        assert not event.wait(0)
