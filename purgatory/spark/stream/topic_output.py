"""Outcomes to a Kafka topic, beside the output directory: at least once.

Kafka's sink of Spark has no transactions. So a micro-batch sends its outcomes before they are
published in the output, and one that is repeated after a failure sends them again. The message of
an outcome is then the same, byte for byte: its key is the operation's id, its value a JSON object
with the columns of an outcome. A consumer that keeps what it has seen, by key, drops repeats.

Used by the thread that runs micro-batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from purgatory.spark.stream.sources import KAFKA, missing_connector
from purgatory.spark.tables.schema import OUTCOMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SERVERS: Final = "kafka.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class TopicOutput:
    """A Kafka topic for outcomes.

    `servers`: host:port, or several separated by commas. `options` are those of Spark's sink. The
    session needs Spark's Kafka connector.
    """

    topic: str
    servers: str
    options: Mapping[str, str] = field(default_factory=dict)

    def check(self, spark: SparkSession) -> None:
        """Raise `SparkError` if Spark has no Kafka connector. Contacts no broker."""
        try:
            given = {_SERVERS: self.servers, "subscribe": self.topic}
            spark.read.format(KAFKA).options(**given).load()
        except AnalysisException as error:
            raise missing_connector(spark, f"kafka:{self.topic}") from error

    def send(self, outcomes: DataFrame) -> None:
        """Send outcomes, and wait until the brokers have acknowledged them."""
        messages = outcomes.select(
            F.col("op_id").alias("key"),
            F.to_json(F.struct(*OUTCOMES.names), {"ignoreNullFields": "false"}).alias("value"),
        )
        given = {_SERVERS: self.servers, **self.options, "topic": self.topic}
        messages.write.format(KAFKA).mode("append").options(**given).save()
