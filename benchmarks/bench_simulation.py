"""The simulation: how much faster than real time a service of 20 clients is simulated.

    python benchmarks/bench_simulation.py [--seconds 3600] [--rate 10]

One core; *hours* are simulated hours in one of CPU time. The programs make `--rate` calls a second
together: submissions, completions and the others, without faults.
"""

import argparse
import logging
import sys
import time
from pathlib import Path

from harness import machine

import timingwheel

sys.path.append(str(Path(__file__).parents[1]))  # for `tests`; what is installed comes before
from tests.simulation.programs.workload import usual_workload
from tests.simulation.simulation import Settings, Simulation

CLIENTS = 20


def main() -> None:
    """Run one world, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--rate", type=float, default=10.0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    workload = usual_workload(CLIENTS, options.rate)
    settings = Settings(seconds=options.seconds, kinds=(), workload=workload)
    start = time.process_time()
    verdict = Simulation(1, settings).run()
    cpu_s = time.process_time() - start
    assert not verdict.violation, verdict.violation
    print(machine())
    how = "compiled" if timingwheel.COMPILED else "interpreted"
    print(f"{how}: {verdict.simulated_s / cpu_s:.0f} hours; {verdict.operations} operations,",
          f"{verdict.steps} steps, {cpu_s:.1f} CPU seconds")  # fmt: skip


if __name__ == "__main__":
    main()
