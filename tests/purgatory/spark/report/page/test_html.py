"""Text on a page is escaped."""

from purgatory.spark.report.content import Advice
from purgatory.spark.report.page.html import advice_list, table
from purgatory.spark.report.page.page_maker import make_page
from tests.testing.pages import Reader
from tests.testing.reports import HOSTILE, report


def test_names_from_the_data_are_text():
    """Names of kinds, keys and the journal are escaped."""
    page = make_page(report(HOSTILE, "_b"), HOSTILE, [HOSTILE])
    reader = Reader(page)
    assert not reader.all("script")
    assert "\x00" not in page
    shown = '<script>alert("1")</script> & $x^2$ [red]--> \ufffd 日本 \ufffd'
    assert sum(shown in text for text in reader.text) >= 3
    assert any(text.strip("\u200b\n") == "_b" for text in reader.text)


def test_short_names_are_not_broken():
    """A name that may be long is, so that the table fits."""
    assert '<table class="short">' in table("Wheels", ["size", "levels"], [["100 ms x 512", "3"]])
    assert "<table><caption>" in table("Kinds", ["kind", "done"], iter([["k" * 17, "3"]]))


def test_options_are_not_broken():
    """A command is copied as it is; dashes of the data are text."""
    said = advice_list([Advice("mail", "try:", "purgatory jobs retry --kind a--b <--c")])
    assert 'retry <span class="whole">--kind</span> a--b &lt;--c</code></li>' in said
