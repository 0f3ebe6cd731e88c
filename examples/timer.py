"""Watch three workers by their heartbeats, with a timer alone.

Each heartbeat re-arms the worker's timer; a worker that stays silent for three seconds is reported.
"""

import threading

from timingwheel import Timer

SILENCE_S = 3.0
BEAT_S = 0.05


def main() -> None:
    """Let three workers beat, stop one, and wait until it is missed."""
    missed = threading.Event()

    def report(worker: str) -> None:
        print(f"{worker} is silent")
        missed.set()

    with Timer("heartbeats") as timer:
        watches = {worker: timer.schedule(SILENCE_S, report, worker) for worker in ("a", "b", "c")}

        def beat(worker: str) -> None:
            if worker not in stopped:
                timer.add(watches[worker])  # again: it counts anew from now
                timer.schedule(BEAT_S, beat, worker)

        stopped: set[str] = set()
        for worker in watches:
            beat(worker)
        stopped.add("b")  # a cancelled beat may be running just now
        print("b stops")
        missed.wait()
        print("still watched:", *(worker for worker, watch in watches.items() if not watch.done()))


if __name__ == "__main__":
    main()
