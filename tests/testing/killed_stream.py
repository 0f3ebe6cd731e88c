"""A driver process that kills itself with SIGKILL during a micro-batch; see `test_stream_killed`.

    python -m tests.testing.killed_stream DIRECTORY BATCH SECONDS

It kills itself SECONDS after its micro-batch BATCH, counted from 0, has begun, or when the next one
begins, if that is earlier.
"""

import itertools
import os
import signal
import sys
import threading
from pathlib import Path

from purgatory.spark.session import local_session
from purgatory.spark.stream.query import Stream
from tests.testing.java import QUICK_CONF
from tests.testing.stream_input import StreamInput


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_after(batches, seconds):
    """Kill this process some time after a micro-batch has begun, so that it is interrupted.

    At the latest when the next one begins: on a fast machine, or if the timer's thread stalls, the
    stream would come to its end.
    """
    timer = threading.Timer(seconds, _die)
    timer.daemon = True
    run_batch = Stream._run_micro_batch
    begun = itertools.count()

    def take_and_die(self, batch, number):
        number_here = next(begun)
        if number_here == batches:
            timer.start()
        elif number_here > batches:
            _die()
        run_batch(self, batch, number)

    Stream._run_micro_batch = take_and_die


def main(directory, batches, seconds):
    """Run the stream on the input in a directory, to its end or to the kill."""
    _kill_after(batches, seconds)
    spark = local_session(cores=1, memory="1g", conf=QUICK_CONF)
    StreamInput(Path(directory)).stream(spark, watermark_ms=0).run(until_end=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
