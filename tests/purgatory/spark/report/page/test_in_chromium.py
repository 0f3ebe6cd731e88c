"""The page of a report in a browser: nothing is cut off, kinds can be chosen, data saved."""

import csv
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from purgatory.spark.report.page.page_maker import make_page
from tests.testing.job_journals import job_report_of, mixed_jobs
from tests.testing.purgatory_harness import HANG
from tests.testing.reports import HOSTILE, report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api")
if CHROMIUM is None and "CI" not in os.environ:
    pytest.skip("there is no chromium here", allow_module_level=True)

LONG = "a_name_without_any_place_to_break_it_" * 3
PHONE = {"width": 390, "height": 844}
# The texts that leave their drawing, but for the stroke around them.
CUT = """() => [...document.querySelectorAll('svg text')].filter(one => {
    const box = one.getBoundingClientRect(), all = one.closest('svg').getBoundingClientRect();
    return box.width && (box.left < all.left - 2 || box.right > all.right + 2);
}).map(one => one.textContent)"""
KINDS = ("payment", HOSTILE, LONG, "parcel", "reply", "lease")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of the page of a report with several kinds."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(make_page(report(*KINDS), LONG, [LONG]), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def visit(browser, address):
    """Open the page; check that it had no error, and loaded nothing else."""
    contexts, troubles, asked = [], [], []

    def visit(width, media="screen"):
        context = browser.new_context(viewport={"width": width, "height": 800})
        context.set_default_timeout(HANG * 1000)
        contexts.append(context)
        page = context.new_page()
        page.emulate_media(media=media)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda line: troubles.append(line.text) if line.type == "error" else 0)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert troubles == []
    assert {url for url in asked if not url.startswith("data:")} == {address}


@pytest.mark.parametrize(
    ("width", "media"), [(390, "screen"), (768, "screen"), (1280, "screen"), (720, "print")]
)
def test_nothing_is_cut_off(visit, width, media):
    """On a phone, a tablet, a desk and on paper, no part is wider than the page."""
    page = visit(width, media)
    wide = """() => [...document.querySelectorAll('main *')].filter(one => {
        const box = one.getBoundingClientRect(), clipped = one.closest('thead, svg');
        return box.width && !clipped && box.right > document.documentElement.clientWidth + 1;
    }).map(one => one.outerHTML.slice(0, 200))"""
    assert page.evaluate(wide) == []
    for head in page.locator("details.section > summary").all() if width == 390 else ():
        head.click()
    assert page.evaluate(CUT) == []
    size = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    scroll, client = page.evaluate(size)
    assert scroll <= client


def test_a_phone_does_not_scroll_for_ever(visit, tmp_path, browser):
    """What stands out and the figures come first; sections open with a tap."""
    page = visit(390)
    assert page.evaluate("document.documentElement.scrollHeight") <= 4000
    jobs = job_report_of(mixed_jobs(2000))
    file = tmp_path / "jobs.html"
    full = replace(report(*KINDS), jobs=jobs)
    file.write_text(make_page(full, "journal"), encoding="utf-8")
    phone = browser.new_page(viewport=PHONE)
    phone.goto(file.as_uri())
    assert phone.evaluate("document.documentElement.scrollHeight") <= 4000
    assert not phone.locator("table").first.is_visible()
    phone.locator("details.section > summary").first.click()
    assert phone.locator("table").first.is_visible()
    phone.close()
    desk = browser.new_page(viewport={"width": 1280, "height": 900})
    desk.goto(file.as_uri())
    assert desk.evaluate("document.querySelector('main').scrollWidth") <= 860  # as wide as it may
    desk.close()


def test_one_drawing_for_each_width(visit):
    """A phone gets the narrow drawings, a desk the wide ones, and each cell of a table its head."""
    phone, desk = visit(390), visit(1280)
    for head in phone.locator("details.section > summary").all():
        head.click()
    for page, shown, hidden in ((phone, "narrow", "wide"), (desk, "wide", "narrow")):
        assert page.locator(f"svg.{shown}").first.is_visible()
        assert not page.locator(f"svg.{hidden}").first.is_visible()
    head = "getComputedStyle(document.querySelector('td'), '::before').content"
    assert phone.evaluate(head) == '"operations"'
    assert desk.evaluate(head) == "none"


def test_kinds_can_be_chosen(visit):
    """A kind's box shows and hides its line; the others stay."""
    page = visit(1280)
    figure = page.locator("figure", has_text="Still waiting after a time")
    lines = figure.locator("svg.wide path.line")
    shown = [lines.nth(n).is_visible() for n in range(lines.count())]
    assert shown == [True] * 5 + [False] * 2
    figure.locator("input.k1").uncheck()
    figure.locator("input.k6").check()
    shown = [lines.nth(n).is_visible() for n in range(lines.count())]
    assert shown == [True, False, True, True, True, False, True]


def test_data_of_a_figure_is_saved(visit):
    """The link of a figure saves its rows."""
    page = visit(1280)
    figure = page.locator("figure", has_text="Operations submitted")
    with page.expect_download() as saved:
        figure.locator("a.csv").click()
    assert saved.value.suggested_filename == "week.csv"
    head, *rows = csv.reader(Path(saved.value.path()).read_text().splitlines())
    assert head == ["weekday", "hour", "operations", "expired"]
    assert rows[3] == ["3", "3", "4", "3"]


def test_paper_has_what_clicks_open(visit):
    """In print, details are open, and what only a screen can use is left out."""
    page = visit(720, "print")
    assert page.locator("details details table").bounding_box()["height"] > 100
    assert not page.locator("a.csv").first.is_visible()
