"""Text on a page is escaped."""

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
