"""What a program reads of a repeat."""

from datetime import UTC, datetime, timedelta

from msgspec import Raw

from purgatory.service.client.repeats.repeat_facts import RepeatFacts
from purgatory.service.encoding import encode
from purgatory.service.job_messages import Repeat, RepeatState


def test_settings():
    """As they were declared; times in seconds."""
    repeat = Repeat(
        *("r", "5 4 * * *", None, "Asia/Tokyo", "mail", Raw(encode({"a": [1]}))),
        *("allow", "all", 1500),
    )
    facts = RepeatFacts(RepeatState(repeat, "shop"))
    assert (facts.name, facts.client, facts.kind, facts.payload) == (
        "r",
        "shop",
        "mail",
        {"a": [1]},
    )
    assert (facts.cron, facts.every, facts.tz) == ("5 4 * * *", None, "Asia/Tokyo")
    assert (facts.overlap, facts.missed, facts.jitter) == ("allow", "all", 1.5)
    assert RepeatFacts(RepeatState(Repeat("r", every_ms=250), "c")).every == 0.25


def test_moments_are_aware_and_of_the_zone():
    """One that this machine does not know is shown in UTC."""
    facts = RepeatFacts(RepeatState(Repeat("r", "* * * * *", tz="Asia/Tokyo"), "c"))
    moment = facts._moment(1_000_000_000_250)
    assert moment == datetime(2001, 9, 9, 1, 46, 40, 250_000, UTC)
    assert moment.utcoffset() == timedelta(hours=9)
    assert facts._moment(None) is None
    unknown = RepeatFacts(RepeatState(Repeat("r", "* * * * *", tz="Mars/Base"), "c"))
    assert unknown._moment(1_000_000_000_250).utcoffset() == timedelta(0)
