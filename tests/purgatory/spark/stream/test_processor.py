"""The operator's maps in the state store."""

from purgatory.spark.stream.processor import ShardProcessor

# The names in the checkpoints that exist: a new name would be an empty map.
MAPS = (
    *("watchers", "ids", "holds"),
    *("deadlines", "waiting", "deadlines_pages", "waiting_pages"),
    "facts",
)


class Handle:
    """Opens maps that tell their names and types."""

    def getMapState(self, name, key, value):
        """Return the arguments."""
        return name, key.simpleString(), value.simpleString()


def test_each_map_has_the_name_of_earlier_versions():
    """So that a stream goes on from its checkpoint, and no two maps share their entries."""
    processor = ShardProcessor(["operations", "events"], 0, 0)
    processor.init(Handle())
    types = "struct<number:bigint>", "struct<packed:binary>"
    assert processor._maps == {name: (name, *types) for name in MAPS}
