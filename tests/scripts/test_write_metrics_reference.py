"""Tests of `scripts/write_metrics_reference.py`: the page is what the collectors show."""

import re

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

from scripts import write_metrics_reference

ROOT = write_metrics_reference.PAGE.parents[2]


def test_the_page_is_what_the_collectors_show():
    """After a change of a metric: run scripts/write_metrics_reference.py."""
    assert write_metrics_reference.PAGE.read_text() == write_metrics_reference.page()


def test_alerts_and_dashboards_ask_for_metrics_of_the_page():
    """Each name in the deployed files is one of the page's, as queries use it."""
    page = write_metrics_reference.PAGE.read_text()
    named = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    deployed = [*(ROOT / "docs/deploy").rglob("*.yml"), *(ROOT / "docs/deploy").rglob("*.json")]
    text = " ".join(path.read_text() for path in deployed)
    asked = set(re.findall(r"\b(?:purgatory|timingwheel|mq)_[a-z_]+", text))
    of_histograms = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert len(of_histograms) > 20
    assert of_histograms <= named


def test_a_row():
    """Labels are those of the series, declared or found, without a histogram's bounds."""
    gauge = GaugeMetricFamily("x_pending", "What waits.", labels=["name"])
    assert write_metrics_reference._row(gauge) == "| `x_pending` | gauge | `name` | What waits |"
    seconds = HistogramMetricFamily("x_seconds", "Time", [("1", 2.0), ("+Inf", 3.0)], 4.0)
    assert write_metrics_reference._row(seconds) == "| `x_seconds` | histogram |  | Time |"
