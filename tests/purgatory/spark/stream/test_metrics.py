"""Metrics of a stream."""

import pytest
from prometheus_client import CollectorRegistry

from purgatory.spark.stream.metrics import StreamMetrics
from purgatory.trace import KeyEvent, Operation
from tests.testing.eventually import eventually
from tests.testing.stream_input import StreamInput

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def feed(tmp_path):
    """Two operations, of which one completes."""
    feed = StreamInput(tmp_path)
    feed.put("operations", [Operation("a", "", 0, 9, ("k",)), Operation("b", "", 5, 9, ("x",))])
    feed.put("events", [KeyEvent("k", 9), KeyEvent("q", 50)])
    return feed


def test_metrics_show_the_checkpoint_and_what_spark_says(spark, feed):
    """They count rows and outcomes; the listener has the duration of the last batch."""
    feed.put("operations", [Operation("c", "", 60, 9, ("k",))])
    stream = feed.stream(spark, name="one", watermark_ms=0, files_a_batch=2)
    metrics = StreamMetrics(stream)
    registry = CollectorRegistry()
    registry.register(metrics)

    def value(name, **labels):
        return registry.get_sample_value(f"purgatory_stream_{name}", {"name": "one", **labels})

    spark.streams.addListener(metrics)
    try:
        stream.run(once=True)
        eventually(lambda: value("batch_seconds") and not value("running"))
    finally:
        spark.streams.removeListener(metrics)
    assert value("operations_total", outcome="completed") == 1
    assert value("operations_total", outcome="expired") == 1
    assert value("operations_pending") == 1
    assert value("rows_total", table="events", fate="taken") == 2
    assert value("rows_total", table="events", fate="late") == 0
    assert value("batches_total") == 1
    assert value("event_time_seconds") == 0.049
