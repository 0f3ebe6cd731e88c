"""Files of traces that the package itself would refuse to write."""

import gzip

import pytest

from purgatory.trace import BadRows


def text_file(tmp_path, name, text):
    """Write a text, or bytes, into a file; compressed if its name ends in `.gz`."""
    path = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def first_bad(read, path):
    """Read a file that has bad rows; return the first of them."""
    with pytest.raises(BadRows) as caught:
        list(read(path))
    assert str(path) in str(caught.value)
    return caught.value.rows[0]


def round_trip(path, write, read, rows):
    """Write rows and read them back."""
    with write(path) as out:
        for row in rows:
            out.write(row)
    assert out.count == len(rows)
    return list(read(path))
