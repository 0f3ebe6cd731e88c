"""Process: threads that the world steps, and a death that leaves nothing running."""

import pytest

from purgatory.testing.world.world import NS_PER_S


class Loop:
    """A loop that notes the times of its steps, and ends after so many."""

    def __init__(self, process, sleep_s=None, steps=10):
        self._process = process
        self._sleep_s = sleep_s
        self._left = steps
        self.times = []
        self.is_shut_down = False

    def step(self):
        self._left -= 1
        self.times.append(self._process.monotonic())

    def sleep_seconds(self):
        return self._sleep_s

    def finished(self):
        return self._left <= 0

    def shut_down(self):
        self.is_shut_down = True


def test_a_thread_sleeps_as_its_loop_says(world, process):
    """A step a second, each a little late; after the last one the thread ends."""
    loop = Loop(process, sleep_s=1.0, steps=3)
    thread = process.thread(loop, "name")
    thread.start()
    thread.join()
    gaps = [after - before for before, after in zip(loop.times, loop.times[1:], strict=False)]
    assert gaps == pytest.approx([1.0, 1.0], abs=0.03)
    assert (loop.is_shut_down, thread.is_alive()) == (True, False)


def test_a_thread_that_is_woken(world, process):
    """It takes a step soon, and one only, however often it is woken before."""
    loop = Loop(process)
    thread = process.thread(loop, "name")
    thread.wake()  # it was not started
    world.run(1)
    assert loop.times == []
    thread.start()
    world.run(1)
    for _ in range(3):
        thread.wake()
    world.run(1)
    assert len(loop.times) == 2


def test_the_doorbell_is_the_next_threads(world, process):
    """What rings wakes the thread that was made after the doorbell."""
    bell, loop = process.doorbell(), Loop(process)
    mailbox = process.mailbox()
    bell.register(mailbox.fileno())
    process.thread(loop, "name").start()
    world.run(1)
    mailbox.send("command")
    world.run(1)
    assert len(loop.times) == 2


def test_a_suspended_machine_takes_no_step(world, process):
    """Its threads go on when it is awake; its monotonic clock stood still."""
    loop = Loop(process, sleep_s=0.1, steps=1000)
    process.thread(loop, "name").start()
    world.run(1)
    steps, clock = len(loop.times), process.monotonic()
    process.machine.suspend(5 * NS_PER_S)
    world.run(4.9)
    assert len(loop.times) == steps
    world.run(1)
    assert len(loop.times) > steps
    assert process.monotonic() - clock == pytest.approx(0.9, abs=0.01)


def test_nothing_happens_after_a_kill(world, process):
    """No thread takes a step, what is written has no effect, and connections end."""
    loop = Loop(process, sleep_s=0.1, steps=1000)
    thread = process.thread(loop, "name")
    thread.start()
    file = process.machine.disk.open("a", process.handles, create=True)
    world.run(1)
    process.kill()
    steps = len(loop.times)
    file.write(b"late", 0)
    world.run(1)
    assert (thread.is_alive(), len(loop.times), file.size()) == (False, steps, 0)


def test_a_wait_lets_the_world_go_on(world, process):
    """Until what is waited for, or as long as was asked for."""
    world.after(NS_PER_S, lambda: done.append(1))
    done = []
    process.wait(lambda: bool(done), 10.0)
    assert world.now_ns == NS_PER_S
    process.wait(lambda: False, 2.0)
    assert world.now_ns == 3 * NS_PER_S
