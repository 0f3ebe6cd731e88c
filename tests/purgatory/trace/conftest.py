"""The fixtures of the tests of traces."""

import pytest


@pytest.fixture
def pq():
    """Write columns into a Parquet file, also those that the package would refuse to write."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(path, **columns):
        parquet.write_table(pa.table(columns), path)
        return path

    write.pa = pa
    return write
