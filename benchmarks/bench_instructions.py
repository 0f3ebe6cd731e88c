"""Instructions of one call on each hot path, counted by callgrind: steady where times are not.

    python bench_instructions.py [SCENE ...] [--json FILE] [--against FILE]

Counts each scene with N and with 2 N calls in fresh processes; the difference, divided by N, leaves
start and warm-up out. The cycle collector is off, as one full collection more or less would be a
quarter of a scene. `--against` compares with a file that `--json` wrote, of another version for
instance. Needs valgrind, and takes a minute a scene.
"""

import argparse
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mq
from purgatory import Purgatory
from timingwheel import InlineExecutor, ManualClock, Timer

CALLS = 3000
WARM_UP = 500


def _timer() -> tuple[Timer, ManualClock]:
    clock = ManualClock()
    return Timer(clock=clock, executor=InlineExecutor()), clock


def schedule(count: int) -> None:
    """Schedule timers that stay pending."""
    timer, _ = _timer()
    for delay in range(count):
        timer.schedule(1.0 + delay * 0.001, int)


def cancel(count: int) -> None:
    """Schedule timers and cancel them."""
    timer, _ = _timer()
    for task in [timer.schedule(1.0 + delay * 0.001, int) for delay in range(count)]:
        task.cancel()


def drain(count: int) -> None:
    """Schedule timers and let all of them fire."""
    timer, clock = _timer()
    for delay in range(count):
        timer.schedule(1.0 + delay * 0.001, id, None)
    for _ in range(count // 100 + 20):
        clock.advance(0.1)
        timer.advance_clock()


def defer(count: int) -> None:
    """Submit operations that stay pending."""
    purgatory = Purgatory(timer=_timer()[0])
    for key in range(count):
        purgatory.defer(key, timeout=30)


def pair(count: int) -> None:
    """Submit an operation, complete it and read its result."""
    purgatory = Purgatory(timer=_timer()[0])
    for key in range(count):
        future = purgatory.defer(key, timeout=30)
        purgatory.complete(key, 1)
        future.result()


def push_to_pull(count: int) -> None:
    """Send a message from PUSH to PULL within a thread."""
    context: mq.Context[mq.Socket] = mq.Context()
    push, pull = context.socket(mq.PUSH), context.socket(mq.PULL)
    push.bind("inproc://scene")
    pull.connect("inproc://scene")
    for _ in range(count):
        push.send(b"message")
        pull.recv()
    push.close()
    pull.close()
    context.term()


SCENES: dict[str, Callable[[int], None]] = {
    each.__name__: each for each in (schedule, cancel, drain, defer, pair, push_to_pull)
}


def instructions(scene: str, count: int) -> int:
    """Return the instructions of a fresh process that runs `scene` with `count` calls."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [sys.executable, __file__, scene, "--run", str(count)]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def main() -> None:
    """Count, print a table, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", default=list(SCENES), metavar="SCENE")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    if arguments.run:
        gc.disable()
        SCENES[arguments.scenes[0]](arguments.run)
        return
    before = json.loads(arguments.against.read_text()) if arguments.against else {}
    counts = {}
    for scene in arguments.scenes:
        less, more = (instructions(scene, WARM_UP + times * CALLS) for times in (1, 2))
        counts[scene] = (more - less) // CALLS
        ratio = f"{counts[scene] / before[scene]:8.3f}" if scene in before else ""
        print(f"{scene:14}{counts[scene]:10,}{ratio}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(counts))


if __name__ == "__main__":
    main()
