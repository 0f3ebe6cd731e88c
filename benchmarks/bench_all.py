"""All benchmarks, one after the other, and the page of their figures: what `make bench` runs.

    python benchmarks/bench_all.py [--quick] [--only timer,load] [--directory ../build/bench]

Prints all tables. The figures of the timer and of Kafka's load are also kept as JSON, from which
`draw.py` makes `index.html` beside them. The sizes take about half an hour on two idle cores; with
`--quick` a few minutes, which shows that everything works, and little more.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent

# Arguments of each script, and those for a quick run.
SCRIPTS: dict[str, tuple[str, str]] = {
    "timer": (
        "--repeats 2 --seconds 3 --warm 3",
        "--sizes 10000,100000 --repeats 1 --seconds 1 --warm 1",
    ),
    "rearm": ("--repeats 2", "--sizes 10000 --repeats 1"),
    "purgatory_load": (
        "--repeats 2 --seconds 3",
        "--rates 25000,50000,100000 --repeats 1 --seconds 2",
    ),
    "purgatory": ("--repeats 2", "--sizes 10000 --pairs 20000 --repeats 1"),
    "mq": ("", "--messages 20000 --trips 2000 --repeats 1"),
    "bus": ("", "--operations 8000 --repeats 1"),
    "spark": ("--sizes 100000,1000000 --repeats 1", "--sizes 10000 --repeats 1"),
    "spark_stream": ("", "--size 10000 --files 2"),
    "spark_pending": ("", "--pending 1000,10000 --batches 4"),
    "spark_latency": ("", "--rounds 5 --warm 2"),
    "spark_report": ("--rows 1000000", "--rows 100000"),
    "service": ("--repeats 1", "--operations 2000 --pending 10000 --repeats 1"),
    "round_trip": ("", "--trips 50 --repeats 1"),
    "expiry": ("", "--seconds 3"),
}
KEPT = {"timer", "purgatory_load"}


def main() -> int:
    """Run the benchmarks; return the exit status of the first that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(SCRIPTS), help="names, separated by commas")
    parser.add_argument("--directory", default="../build/bench", help="for the page")
    options = parser.parse_args()
    start = time.monotonic()
    for name in options.only.split(","):
        command = [f"bench_{name}.py", *SCRIPTS[name][options.quick].split()]
        if name in KEPT:
            command += ["--json", f"{options.directory}/{name}.json"]
        if status := run(command):
            return status
    status = run(["draw.py", options.directory])
    print(f"\n{(time.monotonic() - start) / 60:.1f} minutes in all")
    return status


def run(command: list[str]) -> int:
    """Run a script of this directory; return its exit status."""
    start = time.monotonic()
    sys.stdout.flush()
    status = subprocess.run([sys.executable, HERE / command[0], *command[1:]], check=False)
    print(f"\n{' '.join(command)}: {time.monotonic() - start:.0f} s", flush=True)
    return status.returncode


if __name__ == "__main__":
    sys.exit(main())
