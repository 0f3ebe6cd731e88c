"""The output of a stream: staged files are published under names that say their micro-batch."""

import json

import pytest
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from purgatory.cli.entry_point import main
from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import LocalFileSystem
from purgatory.spark.stream import output as output_module
from purgatory.spark.stream.output import StreamOutput, TopicOutput
from purgatory.trace import KeyEvent, Operation
from tests.testing.stream_input import StreamInput


@pytest.fixture
def output(tmp_path):
    """An output directory that belongs to the stream `mine`."""
    output = StreamOutput(LocalFileSystem(), str(tmp_path / "out"))
    output.claim("mine")
    return output


def stage(output, *names):
    """Write files into the staging directory."""
    for name in names:
        LocalFileSystem().create(f"{output.path}/_staging/{name}", name)


def visible(path):
    """Return the names of all files of the output, by path."""
    files = (file.relative_to(path) for file in path.rglob("part-*"))
    return sorted(str(file) for file in files if file.parts[0] != "_staging")


def test_a_micro_batch_that_is_repeated_replaces_its_files(output, tmp_path):
    """A run that was killed while publishing is repeated by the next one, with the same rows."""
    for _ in range(2):
        stage(output, "outcomes/part-a", "outcomes/_SUCCESS", "_late/events/part-b")
        output.publish(7, ["", "_late/events"])
        assert visible(tmp_path / "out") == [
            "_late/events/part-000000007-000.parquet",
            "part-000000007-000.parquet",
        ]


def test_rows_without_a_file_are_an_error(output, spark):
    """To go on would lose them in silence."""
    elsewhere = StreamOutput(_Elsewhere(), output.path)
    with pytest.raises(SparkError, match="3 rows were written, but no file of them exists"):
        elsewhere.stage(spark.range(3).coalesce(1), 3, "")


class _Elsewhere(LocalFileSystem):
    def names(self, path):
        return []


def test_the_first_claim_counts(output):
    """Another stream is told that the output is not its own."""
    output.claim("another")
    output.check_owner("mine", "checkpoint", is_new=False)
    with pytest.raises(CheckpointMismatch, match="holds the output of another checkpoint"):
        output.check_owner("another", "checkpoint", is_new=False)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null"])
def test_a_damaged_marker(output, tmp_path, text):
    """The output belongs to nobody until it is repaired."""
    marker = tmp_path / "out" / "_stream.json"
    assert json.loads(marker.read_text(encoding="utf-8")) == {"stream": "mine"}
    marker.write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointMismatch, match=r"_stream\.json: damaged: not the JSON object"):
        output.check_owner("mine", "checkpoint", is_new=False)


# Several micro-batches each, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


class Messages(DataSourceWriter):
    """Appends messages to a file, as a broker would to its log; refuses what Spark's sink does."""

    def __init__(self, schema, options):
        assert [(f.name, f.dataType.typeName()) for f in schema] == [
            ("key", "string"),
            ("value", "string"),
        ]
        self.path = f"{options['kafka.bootstrap.servers']}/{options['topic']}"

    def write(self, iterator):
        """Write the messages of a partition."""
        with open(self.path, "a", encoding="utf-8") as out:  # noqa: PTH123 - runs in a worker
            out.writelines(f"{row.key}\t{row.value}\n" for row in iterator)
        return WriterCommitMessage()


class StandIn(DataSource):
    """The options of Spark's Kafka sink; `servers` is a directory."""

    @classmethod
    def name(cls):
        """Return the name of the format; Spark keeps that of Kafka for its connector."""
        return "stand_in"

    def schema(self):
        """Return the columns of a source."""
        return "key binary, value binary"

    def writer(self, schema, overwrite):
        """Return a writer; Kafka only appends."""
        assert not overwrite
        return Messages(schema, self.options)


@pytest.fixture
def connected(spark, monkeypatch):
    """A session of its own that has the stand-in."""
    monkeypatch.setattr(output_module, "KAFKA", StandIn.name())
    session = spark.newSession()
    session.dataSource.register(StandIn)
    return session


@pytest.fixture
def feed(tmp_path):
    """Three operations, of which two have an outcome at 14."""
    feed = StreamInput(tmp_path)
    rows = [("a", 0, "k"), ("b", 5, "x"), ("c", 60, "é")]
    feed.put("operations", [Operation(op_id, "", at, 9, (key,)) for op_id, at, key in rows])
    feed.put("events", [KeyEvent("k", 9), KeyEvent("q", 50)])
    return feed


def sent(feed):
    """Return the messages of the topic, by key."""
    lines = (feed.path / "ended").read_text(encoding="utf-8").splitlines()
    return sorted(tuple(line.split("\t")) for line in lines)


def test_each_outcome_is_a_message_at_least_once(connected, feed, monkeypatch):
    """Of a micro-batch that is repeated the same messages come again, so a consumer can drop them.

    The key is the operation's id, the value has all columns of the outcome.
    """
    topic = TopicOutput("ended", str(feed.path))
    stream = feed.stream(connected, watermark_ms=0, topic=topic)

    def die(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(stream._checkpoint.output, "publish", die)
        with pytest.raises(OSError, match="no space"):
            stream.run(until_end=True)
    assert (len(sent(feed)), feed.outcomes()) == (2, [])
    feed.stream(connected, watermark_ms=0, topic=topic).run(until_end=True)
    messages = sent(feed)
    assert [key for key, _ in messages] == ["a", "a", "b", "b", "c"]
    assert [json.loads(value) for _, value in sorted(set(messages))] == [
        o._asdict() for o in feed.outcomes()
    ]


def test_without_the_connector_nothing_begins(spark, feed):
    """The error names Spark's Kafka connector; no checkpoint is made."""
    with pytest.raises(SparkError, match=r"kafka:ended: Spark has no .* --packages org\.apache"):
        feed.stream(spark, topic=TopicOutput("ended", "localhost:9092"))
    assert not feed.checkpoint.exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "--outcomes-topic: no broker"),
        (["--outcomes-option", "kafka.bootstrap.servers=h:1"], "kafka:ended: Spark has no Kafka"),
    ],
)
def test_the_command_needs_a_broker_for_it(spark, feed, capsys, more, words):
    """One line; that of the sources, or one of its own."""
    given = [f"--{name}={feed.path / name}" for name in ("operations", "events", "out")]
    checkpoint = f"--checkpoint={feed.checkpoint}"
    topic = ["--outcomes-topic", "ended", *more]
    assert main(["spark", "run", *given, checkpoint, "--once", *topic]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
