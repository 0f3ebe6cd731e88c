"""The files that have each outcome of a stream once, as docs/spark.md says."""

from pathlib import Path


def outcome_files(out: Path, archive: Path) -> list[Path]:
    """Return the archive's files, and those of the output that are not merged yet."""
    recent = sorted(out.glob("part-*.parquet"))
    merged = sorted(archive.glob("part-*.parquet"))
    last = merged[-1].stem.split("-")[2] if merged else ""
    return merged + [file for file in recent if file.stem.split("-")[1] > last]
