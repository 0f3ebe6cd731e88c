"""The page of a report."""

import pytest

from purgatory.spark.report.page.page_maker import make_page
from tests.testing.reports import report


@pytest.fixture(scope="module")
def page():
    """The page of a report with two kinds."""
    return make_page(report("a", "b"), "journal")
