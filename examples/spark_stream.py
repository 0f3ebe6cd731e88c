"""Resolve operations and events as a stream on Spark, in two runs that share a checkpoint.

Each outcome leaves once, however often the stream is stopped and started. Needs the extra `spark`.
"""

import json
import tempfile
from pathlib import Path

from purgatory.spark.session import open_session
from purgatory.spark.stream.query import Stream
from purgatory.spark.stream.sources import directory_source
from purgatory.trace import read_outcomes

OPERATIONS = [
    {"op_id": "o1", "submitted_ms": 1000, "timeout_ms": 500, "keys": ["paid:1"]},
    {"op_id": "o2", "submitted_ms": 1200, "timeout_ms": 500, "keys": ["paid:2"]},
]
EVENTS = [{"key": "paid:1", "at_ms": 1400}]


def put(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    """Write rows aside as JSON lines and move them in whole, as a stream's input has to come."""
    folder.mkdir(exist_ok=True)
    aside = folder.parent / name
    aside.write_text("".join(json.dumps(row) + "\n" for row in rows))
    aside.rename(folder / name)


def run(place: Path) -> None:
    """Process all present rows, end every operation, and stop."""
    with open_session() as spark:
        stream = Stream(
            spark,
            directory_source(spark, str(place / "operations")),
            directory_source(spark, str(place / "events")),
            out=str(place / "out"),
            checkpoint=str(place / "checkpoint"),
        )
        counts = stream.run(until_end=True).counts
        print(f"{counts['completed']} completed, {counts['expired']} expired so far")


def main() -> None:
    """Run the stream, add rows, and run the stream again."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        put(place / "operations", "1.jsonl", list(OPERATIONS))
        put(place / "events", "1.jsonl", list(EVENTS))
        run(place)
        later = {"op_id": "o3", "submitted_ms": 5000, "timeout_ms": 500, "keys": ["paid:3"]}
        put(place / "operations", "2.jsonl", [later])
        run(place)
        for outcome in sorted(read_outcomes(place / "out")):
            print(outcome.op_id, outcome.outcome, outcome.waited_ms)


if __name__ == "__main__":
    main()
