"""The schemas of the tables."""

from purgatory.spark.tables.schema import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES
from purgatory.trace import Extension, KeyEvent, Operation, Outcome


def test_the_schemas_are_those_of_a_trace():
    """Names and their order are those of the rows of a trace."""
    rows = {Operation: OPERATIONS, KeyEvent: EVENTS, Extension: EXTENSIONS, Outcome: OUTCOMES}
    for row, schema in rows.items():
        assert list(row._fields) == schema.names
