"""Public names of earlier versions, which programs may import."""

from purgatory.spark import resolve as earlier_resolve
from purgatory.spark import schema as earlier_schema
from purgatory.spark.batch import resolve
from purgatory.spark.tables import row_checks, schema


def test_modules_of_earlier_versions_have_the_same_names():
    """The former modules give the very functions and schemas of the current ones."""
    assert earlier_resolve.resolve is resolve.resolve
    assert earlier_schema.EVENTS is schema.EVENTS
    assert earlier_schema.OPERATIONS is schema.OPERATIONS
    assert earlier_schema.check_events is row_checks.check_events
    assert earlier_schema.check_operations is row_checks.check_operations
