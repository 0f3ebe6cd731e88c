"""Run the drill: `python -m tests.drill --seed 1 --faults 100 --standby synchronous`.

It exits with 1 if a promise was broken, or if none of a kind of fault has happened though there was
time for each. `--control` plays a scene with and without one of the defences: 1 if there is no harm
without it, or harm with it.
"""

import argparse
import statistics
import sys
from collections import Counter

from tests.drill.controls import CONTROLS
from tests.drill.drill import Drill
from tests.drill.faults import FAULTS, Faults
from tests.postgres.cluster import remove_template
from tests.postgres.programs import MISSING, is_installed


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run one drill, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--only", default="", help="kinds of faults, separated by commas")
    parser.add_argument(
        "--standby", choices=("none", "synchronous", "asynchronous"), default="none"
    )
    parser.add_argument("--takeover-after", type=float, default=2.0)
    parser.add_argument("--control", choices=sorted(CONTROLS), help="play a negative control")
    arguments = parser.parse_args()
    if not is_installed():
        say(MISSING)
        return 1
    if arguments.control:
        harm = CONTROLS[arguments.control].run(arguments.seed, say)
        remove_template()
        return 0 if harm.without > 0 == harm.with_defence else 1
    faults = Faults(arguments.seed, [name for name in arguments.only.split(",") if name])
    standby = None if arguments.standby == "none" else arguments.standby
    drill = Drill(arguments.seed, standby=standby, takeover_after=arguments.takeover_after, say=say)
    try:
        with drill:
            try:
                drill.run(arguments.faults, faults)
            except BaseException:
                say(drill.logs())
                raise
            return report(drill, faults, arguments.faults)
    finally:
        remove_template()


def report(drill: Drill, faults: Faults, count: int) -> int:
    """Print what happened; returns the exit code."""
    say(f"load: {drill.books.summary()}")
    say(f"faults: {dict(faults.happened)}, sessions: {dict(drill.hits)}")
    say(f"in doubt: {drill.doubts}, answers to observers: {dict(drill.observers.answers)}")
    if drill.aborts:
        say(f"servers ended by libzmq: {dict(drill.aborts)}")
    for what, times in drill.times.items():
        median, longest = statistics.median(times), max(times)
        say(f"{what}: median {median:.2f} s, longest {longest:.2f} s, of {len(times)}")
    violations = Counter(each.kind for each in drill.books.violations)
    say(f"broken promises: {dict(violations) or 'none'}")
    for violation in drill.books.violations[:20]:
        say(f"  {violation.kind}: {violation.text}")
    for job in drill.books.overtaken[:2]:
        say(f"job {job.job_id}: another handler ran before its result came:")
        say(drill.books.history_of(job))
    missing = drill.possible_faults - set(faults.happened) if count >= 2 * len(FAULTS) else set()
    if missing:
        say(f"did not happen: {sorted(missing)}")
    return 1 if violations or missing else 0


if __name__ == "__main__":
    sys.exit(main())
