"""Tables that a careless program or a hostile one might have written: good rows, and others.

Each function takes a random generator, so that a failure can be repeated.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory.trace import write_events, write_operations

_BAD_BYTES = (b"\xe8", b"\xe9", b"\xc3", b"\xed\xa0\x80", b"\xff\xfe", b"\xf0\x9f\x98")
_BAD_ESCAPES = (b"\\ud800", b"\\udce9", b"\\ude00\\ud83d", b"\\x41", b"\t")
# Of UTF-8: a byte order mark that begins no file is a character as others are.
_BOM = b"\xef\xbb\xbf"
_JUNK = (b" junk", b"}", b",", b"\x00", b" // note", b" null", b'{"more":1}')
# Good by themselves: whether they are read, and as what, is the same question for every engine.
_ODD = (
    b',"more":"\\ud800"}',
    b',"\\udce9":1}',
    b',"more":NaN}',
    b',"more":[[1]]}',
    b',"more":"\xe8"}',
    b',"more":1}\r',
    b" } ",
    b"\t}",
)


def json_lines(rows: Iterable[tuple], rng: Random) -> bytes:
    """Return rows as JSON lines, a third of them spoiled or odd."""
    lines = [json.dumps(row._asdict(), ensure_ascii=rng.random() < 0.5).encode() for row in rows]
    return b"".join(_spoiled_line(line, rng) for line in lines)


def _spoiled_line(line: bytes, rng: Random) -> bytes:
    if rng.random() < 0.67:
        return line + b"\n"
    number = b"%d" % rng.randrange(99)
    first_text = line.index(b'": "') + 4
    return rng.choice(
        [
            line,  # joined with the next one
            line + rng.choice(_JUNK) + b"\n",
            line[:first_text] + rng.choice(_BAD_BYTES) + line[first_text:] + b"\n",
            line[:first_text] + rng.choice(_BAD_ESCAPES) + line[first_text:] + b"\n",
            line[:-1] + rng.choice(_ODD) + b"\n",
            line[:-1] + b', "at_ms": %s, "submitted_ms": %s}\n' % (number, number),
            line.replace(b'"', b"'") + b"\n",
            b"[" + line + b"]\n",
            _BOM + line + b"\n",
            line + _BOM + b"\n",
            line[:first_text] + _BOM + line[first_text:] + b"\n",
            line.replace(b'_ms": ', rng.choice([b'_ms": 0', b'_ms": 1.', b'_ms": -'])) + b"\n",
            line.replace(b'_ms": ', b'_ms": "', 1) + b"\n",
            line[: rng.randrange(len(line))] + b"\n",
            b"\n \n" + line + b"\n\n",
        ]
    )


def csv_records(data: bytes, rng: Random) -> bytes:
    """Spoil some records of CSV; the header stays."""
    head, *records = data.splitlines(keepends=True)
    return head + b"".join(_spoiled_record(record, rng) for record in records)


def _spoiled_record(record: bytes, rng: Random) -> bytes:
    if rng.random() < 0.67:
        return record
    first, comma, rest = record.partition(b",")
    return rng.choice(
        [
            first + rng.choice(_BAD_BYTES) + comma + rest,
            record.rstrip() + rng.choice([b",", b"\xe8", b".0", b'"', b" ", b"\x00"]) + b"\n",
            b'"' + first + rng.choice([b"\r\n", b"\n", b"\r", b'""', b","]) + b'"' + comma + rest,
            first + b'"' + comma + rest,
            _BOM + record,
            first + _BOM + comma + rest,
            record.rstrip() + b"\r\n",
            record.rstrip() + b"\r",
            b"\n" + record,
            b"," + rest,
        ]
    )


def write_mixed(directory: Path, write: object, rows: list, rng: Random) -> None:
    """Write rows as files of all formats, some in directories with names of columns."""
    places = ["", "key=zzz", "at_ms=5/op_id=x", "submitted_ms=7", "date=2026-11-21"]
    for number in range(0, len(rows), 40):
        part = rows[number : number + 40]
        kind = rng.choice(["csv", "jsonl", "parquet"])
        path = directory / rng.choice(places) / f"{number:05}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "jsonl":
            path.write_bytes(json_lines(part, rng))
            continue
        with write(path) as out:
            for row in part:
                out.write(row)
        if kind == "csv":
            path.write_bytes(csv_records(path.read_bytes(), rng))
        else:
            spoil_types(path, rng)


def spoil_types(path: Path, rng: Random) -> None:
    """Give the columns of a Parquet file other types that hold their values."""
    if rng.random() < 0.5:
        _narrow(path)
    if rng.random() < 0.5:
        _write_views(path)


def _narrow(path: Path) -> None:
    """Let integers of a Parquet file have 32 bits, where these hold them."""
    table = pq.read_table(path)
    for place, field in enumerate(table.schema):
        if field.type == pa.int64():
            try:
                column = table[field.name].cast(pa.int32())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, field.name, column)
    pq.write_table(table, path)


def _write_views(path: Path) -> None:
    """Let texts and lists be views, as Polars writes them."""
    table = pq.read_table(path)
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            kind = pa.string_view()
        elif pa.types.is_list(field.type):
            kind = pa.list_view(pa.string_view())
        else:
            continue
        column = pa.chunked_array([pa.array(table[field.name].to_pylist(), kind)])
        table = table.set_column(place, field.name, column)
    pq.write_table(table, path)


WRITERS = {"operations": write_operations, "events": write_events}
