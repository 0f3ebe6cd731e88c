"""The live page in a browser: it loads, moves under load, and agrees with /metrics."""

import itertools
import os
import random
import re
import shutil
import socket
import threading
import urllib.request
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from purgatory import Purgatory
from purgatory.service.cluster.cluster_status import ClusterStatus, Role
from purgatory.service.cluster.standby_page import StandbyPage
from purgatory.service.http.server import WebServer
from purgatory.service.http.snapshot import StatusReader, jobs_shown
from purgatory.service.job_messages import JOB_STATES, KindOverview
from purgatory.service.server.jobs.job_timings import TIMING_BOUNDS_MS, KindTimings
from purgatory.service.server.server_health import HealthReport
from purgatory.service.server.stats import ServerStats
from tests.testing.browser_pages import BrowserPages
from tests.testing.purgatory_harness import HANG, PurgatoryHarness

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api")
if CHROMIUM is None and "CI" not in os.environ:
    pytest.skip("there is no chromium here", allow_module_level=True)

DESKTOP = {"width": 1280, "height": 900}
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    sync_api.expect.set_options(timeout=HANG * 1000)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(browser):
    return BrowserPages(browser)


@pytest.fixture
def visit(pages):
    """Open the page of a server; check that it had no error, and loaded nothing from elsewhere."""
    lent, troubles, asked = ExitStack(), [], []

    def visit(web, **options):
        listeners = {
            "pageerror": lambda error: troubles.append(str(error)),
            "console": lambda line: troubles.append(line.text) if line.type == "error" else 0,
            "request": lambda request: asked.append((web.url, request.url)),
        }
        page = lent.enter_context(pages.open(listeners, **{"viewport": DESKTOP} | options))
        page.goto(web.url)
        page.wait_for_selector("#status[data-state=live]")
        return page

    with lent:
        yield visit
    assert troubles == []
    assert all(url.startswith(home) for home, url in asked)


def serve(purgatory, **options):
    """Return a web server of a purgatory."""
    return WebServer(
        "127.0.0.1:0",
        status=StatusReader(purgatory, **options),
        registry=purgatory._registry,
        health=str,
        ready=str,
    )


@pytest.fixture
def bench():
    """A purgatory with a clock that stands still, so that its figures do not change."""
    bench = PurgatoryHarness(registry=CollectorRegistry())
    rng = random.Random(1)
    p = bench.purgatory
    for n in range(400):
        p.defer(n, timeout=rng.expovariate(1 / 300))
    for n in range(60):
        p.complete(n)
    for n in range(60, 75):
        p.cancel_for_key(n)
    for n in range(75, 80):
        p.fail(n, ValueError("no"))
    p.complete("held", hold=1000)
    bench.advance(20.0137)
    return bench


@pytest.fixture
def still(bench):
    with serve(bench.purgatory, now_ms=bench.clock) as web:
        yield web


@pytest.fixture
def busy():
    """A purgatory under load."""
    with Purgatory("busy", registry=CollectorRegistry()) as p, serve(p) as web:
        stop = threading.Event()

        def load():
            rng = random.Random(2)
            numbers = itertools.count()
            while not stop.wait(0.01):
                for n in itertools.islice(numbers, 10):
                    p.defer(n, timeout=rng.expovariate(1))
                p.complete(rng.randrange(n))

        thread = threading.Thread(target=load)
        thread.start()
        yield web
        stop.set()
        thread.join()


def metrics(web):
    """Return name and label values (without the label `name`) -> value."""
    with urllib.request.urlopen(f"{web.url}metrics", timeout=HANG) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "name")): sample.value
        for family in families
        for sample in family.samples
    }


def value(page, name):
    """Return the number that a tile shows."""
    return int(page.get_attribute(f"#{name}", "data-value"))


class TestNumbers:
    def test_they_agree_with_metrics(self, still, visit):
        """Tiles, rings, tables and histogram show what /metrics has."""
        page, found = visit(still), metrics(still)
        assert value(page, "pending") == found[("purgatory_operations_pending",)] > 100
        for outcome in ("completed", "expired", "cancelled", "failed"):
            assert value(page, outcome) == found["purgatory_operations_total", outcome] > 0
        assert value(page, "held") == found[("purgatory_held_events",)] == 1
        assert value(page, "mailbox") == found[("mq_mailbox_depth",)]
        assert value(page, "executor") == found[("timingwheel_executor_backlog",)]
        rings = page.query_selector_all(".ring:not([data-unused])")
        assert len(rings) == sum(name == "timingwheel_buckets_occupied" for name, *_ in found)
        for ring in rings:
            level, occupied = ring.get_attribute("data-level"), ring.get_attribute("data-occupied")
            assert int(occupied) == found["timingwheel_buckets_occupied", level]
            assert len(ring.query_selector_all(".slot[data-fill]")) == int(occupied)
        tasks = sum(int(ring.get_attribute("data-count")) for ring in rings)
        assert tasks == found[("timingwheel_timers_pending",)]
        cells = page.eval_on_selector_all(
            "#lateness-table tbody td", "cells => cells.map(c => Number(c.textContent))"
        )
        assert sum(cells) == found[("timingwheel_lateness_seconds_count",)] > 0
        assert cells[0] == found["timingwheel_lateness_seconds_bucket", "0.0"]

    def test_what_is_said_is_what_is_shown(self, still, visit):
        """Each picture has a text alternative with the same numbers."""
        page = visit(still)
        labels = page.eval_on_selector_all(
            "svg[role=img]", "all => all.map(svg => svg.getAttribute('aria-label'))"
        )
        assert len(labels) == len(page.query_selector_all(".ring")) + 4
        assert all(labels), labels
        ring = page.query_selector(".ring[data-level='2']")
        count, occupied = ring.get_attribute("data-count"), ring.get_attribute("data-occupied")
        words = ring.query_selector("svg").get_attribute("aria-label")
        assert words.startswith(f"Level 2: {count} operations in {occupied} of 20 slots of 400 ms")
        row = page.eval_on_selector(
            "#wheel-table tbody tr:nth-child(3)", "row => [...row.cells].map(c => c.textContent)"
        )
        assert row == ["2", "400 ms", "8 s", count, occupied, str(20013 // 400 % 20)]


class Ill:
    """The health and the figures of a server, to be changed by the test."""

    def __init__(self):
        self.report = HealthReport("", "", 1.0, 0.0, 0.0)
        self.stats = ServerStats(
            **dict.fromkeys((field.name for field in fields(ServerStats)), 0)
            | {"refused": 12, "commit_failures": 3, "unacknowledged": 7, "held": 2}
        )

    def fall_ill(self):
        """Fail commits, for a minute."""
        trouble = "commits have failed for 60 s, 60 in a row: disk full"
        self.report = HealthReport("", trouble, 61.0, 60.0, 60.0)


@pytest.fixture
def ill():
    return Ill()


@pytest.fixture
def idle(ill):
    """The page of a server that has nothing to do."""
    purgatory = PurgatoryHarness(registry=CollectorRegistry()).purgatory
    with serve(
        purgatory, service=lambda: ill.stats, health=lambda: ill.report, address="tcp://here:7411"
    ) as web:
        yield web


class TestFirstScreen:
    """Without scrolling: is it well, what is due, what failed."""

    def test_where_it_is(self, idle, visit):
        """The title has the host and the address."""
        page = visit(idle, viewport=LAPTOP)
        host = socket.gethostname()
        assert page.inner_text("h1").split() == ["purgatory", "on", host, "tcp://here:7411"]
        assert page.title() == f"0 pending · purgatory on {host}"

    def test_whether_it_is_well(self, idle, ill, visit):
        """It says so, in words and in the title; and why not."""
        page = visit(idle, viewport=LAPTOP)
        assert page.inner_text("#health").startswith("Ready: commits succeed")
        ill.fall_ill()
        page.wait_for_selector("#health[data-state=bad]")
        assert "Not ready: commits have failed for 60 s" in page.inner_text("#health")
        assert page.title().startswith("not ready")
        assert page.inner_text("#late") == "1 min"
        assert page.query_selector(".figure[data-alarm=true] #commit-failures")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRASTS) >= 4.5
        page.close()

    def test_without_a_judgement_nothing_is_said(self, still, visit):
        """A purgatory in a program has no health, and no figures of a server."""
        page = visit(still)
        for hidden in ("#health", "#refused", "#late", "#clients", "#load-title"):
            assert page.is_hidden(hidden)

    def test_what_is_due_and_what_failed(self, idle, visit):
        """In figures, held events and failed operations among them."""
        page = visit(idle, viewport=LAPTOP)
        shown = {name: value(page, name) for name in ("refused", "commit-failures", "unread")}
        assert shown == {"refused": 12, "commit-failures": 3, "unread": 7}
        assert (value(page, "held"), value(page, "failed"), value(page, "pending")) == (2, 0, 0)
        assert page.inner_text("#next-note") == "no deadline is ahead; events are held"

    def test_one_of_each(self, idle, ill, visit):
        """One is no plural."""
        ill.stats = replace(ill.stats, connections=1, messages=1, commits=1)
        page = visit(idle)
        assert page.inner_text("#clients-note") == "1 message"
        assert page.inner_text("#disk-note") == "1 commit"
        assert page.inner_text("#pending-note") == "0 watched keys"

    def test_when_something_is_due_next(self, bench, still, visit):
        """The first slot that is not empty tells, and how long that is."""
        page = visit(still)
        wait_ms = bench.purgatory.timer.delay_to_next() * 1000
        assert abs(value(page, "next") - wait_ms) <= 20
        assert re.fullmatch("or up to .* later", page.inner_text("#next-note"))

    def test_an_hour(self, idle, visit):
        """A button has the charts show an hour, and the last minutes again."""
        page = visit(idle, viewport=LAPTOP)
        page.click("#span")
        sync_api.expect(page.locator("#outcomes-chart")).to_contain_text("60 min ago")
        assert page.get_attribute("#span", "aria-pressed") == "true"
        tops = [page.query_selector(f"#{one}-chart").bounding_box()["y"] for one in CHARTS]
        assert len(set(tops)) == 1  # the button takes no line of its own
        page.click("#span")
        sync_api.expect(page.locator("#outcomes-chart")).to_contain_text("120 s ago")

    def test_charts_are_on_it(self, idle, visit):
        """Those of outcomes and pending operations, whole."""
        page = visit(idle, viewport=LAPTOP)
        for chart in ("#outcomes-chart", "#pending-chart"):
            box = page.query_selector(chart).bounding_box()
            assert box["y"] + box["height"] <= LAPTOP["height"]

    def test_on_a_phone(self, idle, visit):
        """Health, what is due and what went wrong come first."""
        page = visit(idle, viewport=PHONE)
        box = page.query_selector("#commit-failures").bounding_box()
        assert box["y"] + box["height"] <= PHONE["height"]

    def test_idle(self, idle, visit):
        """The wheel is drawn with the levels it would have; the table has those it has."""
        page = visit(idle)
        assert len(page.query_selector_all(".ring")) == 6
        assert len(page.query_selector_all(".ring[data-unused]")) == 5
        assert len(page.query_selector_all("#wheel-table tbody tr")) == 1
        assert not page.is_visible("#idle")
        page.click("#internals > summary")
        assert page.is_visible("#idle")


CHARTS = ("outcomes", "pending")
OPERATIONS = {
    "now_ms": 1_000_000,
    "next": [
        {"due_ms": 1_000_400, "op_id": "order-17", "kind": "order", "client": "shop"},
        {"due_ms": 1_090_000, "op_id": "x" * 200, "kind": "<b>mail</b>", "client": "reminders"},
    ],
    "failures": [
        {
            "at_ms": 940_000,
            "op_id": "a",
            "kind": "mail",
            "client": "shop",
            "error": "KeyError: 'to'",
        }
        | {"attempt": 5, "is_dead": True},
        {"at_ms": 990_000, "op_id": "b", "kind": "", "client": "shop", "error": "NoMoney"}
        | {"attempt": 0, "is_dead": False},
    ],
}


def kind(name, oldest_ready_ms=0, workers=1, *, paused=False, **counts):
    """Return a kind with so many jobs in some states."""
    by_state = tuple(counts.get(state, 0) for state in JOB_STATES)
    return KindOverview(name, by_state, oldest_ready_ms, workers, paused)


NOTHING = "\N{EN DASH}"
CHART_SAYS = "text => document.querySelector('#outcomes-chart').textContent.includes(text)"
JOBS = [
    kind("report", scheduled=3, done=12),
    kind("mail", dead=110, done=5000, running=4),
    kind("mial", ready=2501, oldest_ready_ms=7_260_000, workers=0),
    kind("sms", ready=1, paused=True, oldest_ready_ms=5000),
]


class TestJobs:
    """What is stuck stands first."""

    @pytest.fixture
    def shown(self, bench):
        found, timings = [], {}
        well = HealthReport("", "", 0.0, 0.0, 0.0, -1.0)
        jobs = partial(jobs_shown, found, timings)
        with serve(bench.purgatory, jobs=jobs, health=lambda: well) as web:
            yield web, found, timings

    @pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
    @pytest.mark.parametrize("color_scheme", ["light", "dark"])
    def test_stuck_and_dead_jobs(self, shown, visit, viewport, color_scheme):
        """They are said in words, on the first screen; the kinds in trouble are first."""
        web, found, _ = shown
        found += JOBS
        page = visit(web, viewport=viewport, color_scheme=color_scheme)
        assert page.eval_on_selector_all("#troubles li", "all => all.map(n => n.textContent)") == [
            "2,501 jobs of kind “mial” wait, and no worker takes this kind",
            "110 jobs of kind “mail” are dead",
            "1 job of kind “sms” waits: the kind is paused",
        ]
        assert page.get_attribute("#health", "data-state") == "warning"
        box = page.query_selector("#troubles").bounding_box()
        assert box["y"] + box["height"] <= viewport["height"]
        rows = page.eval_on_selector_all(
            "#jobs-table tbody tr", "all => all.map(row => [...row.cells].map(c => c.textContent))"
        )
        assert [row[0] for row in rows] == ["mial", "mail", "sms", "report"]
        assert rows[0][1:3] == ["2,501", "2 hours"]
        assert value(page, "dead") == 110
        assert page.query_selector(".figure[data-alarm=true] #dead")
        if folder := os.environ.get("PICTURES"):
            name = f"page-{viewport['width']}-{color_scheme}.png"
            (Path(folder) / name).write_bytes(page.screenshot(full_page=True))
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.evaluate(CONTRASTS) >= 4.5

    def test_how_fast_they_are(self, shown, visit):
        """Done and failed a second, and how long half and nearly all take, of the last minute."""
        web, found, timings = shown
        found.append(kind("mail"))
        page = visit(web)
        cells = "[...document.querySelectorAll('#jobs-table td')].map(cell => cell.textContent)"
        assert page.evaluate(cells)[7:11] == ["0", "0", NOTHING, NOTHING]
        timings["mail"] = busy = KindTimings()
        busy.ended[0], busy.failed_attempts = 98, 2
        busy.ran[TIMING_BOUNDS_MS.index(10)], busy.ran[TIMING_BOUNDS_MS.index(1000)] = 60, 40
        sync_api.expect(page.locator("#jobs-table td").nth(9)).to_contain_text("ms")
        done, failed, half, most = page.evaluate(cells)[7:11]
        assert float(done) > float(failed) > 0
        assert (half, most) == ("≤ 10 ms", "≤ 1 s")

    def test_without_jobs(self, shown, visit):
        """There is no table of them."""
        page = visit(shown[0])
        assert not page.is_visible("#jobs")
        assert not page.is_visible("#troubles")
        assert not page.is_visible("#dead")
        assert page.get_attribute("#health", "data-state") == "good"


class TestOperations:
    """The tables of what is due next and what failed last."""

    @pytest.fixture
    def shown(self, bench):
        found = dict(OPERATIONS)
        with serve(bench.purgatory, operations=lambda: found) as web:
            yield web, found

    def rows(self, page, table):
        return page.eval_on_selector_all(
            f"#{table} tbody tr", "all => all.map(row => [...row.cells].map(c => c.textContent))"
        )

    @pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_tables(self, shown, visit, viewport):
        """All that is known, as texts; long ids are broken, and fit the screen."""
        page = visit(shown[0], viewport=viewport)
        assert self.rows(page, "next-table") == [
            ["order-17", "order", "shop", "now"],
            ["x" * 200, "<b>mail</b>", "reminders", "in 1.5 min"],
        ]
        assert page.inner_text("#next") == self.rows(page, "next-table")[0][3]
        assert page.inner_text("#next-note") == "kind order"
        assert self.rows(page, "failures-table") == [
            ["a", "mail", "shop", "KeyError: 'to' · attempt 5, the last", "1 min ago"],
            ["b", "", "shop", "NoMoney", "10 s ago"],
        ]
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        for scroll in page.query_selector_all("#operations .scroll"):
            assert scroll.evaluate("node => node.scrollWidth <= node.clientWidth")
        assert page.evaluate(CONTRASTS) >= 4.5

    def test_many_that_are_due_now(self, shown, visit):
        """They are one row; those that are due later follow."""
        web, found = shown
        now = {"due_ms": 1_000_000, "op_id": "o", "kind": "k", "client": "c"}
        found["next"] = [now] * 8 + OPERATIONS["next"][1:]
        page = visit(web)
        rows = self.rows(page, "next-table")
        assert [row[0] for row in rows] == ["8 operations", "x" * 200]
        found["next"] = [now] * 10
        sync_api.expect(page.locator("#next-table tbody tr")).to_have_count(1)
        assert self.rows(page, "next-table") == [["10 or more operations", "", "", "now"]]

    def test_none(self, shown, still, visit):
        """Empty tables say so; where operations are not shown, there are no tables."""
        web, found = shown
        found |= {"next": [], "failures": []}
        page = visit(web)
        assert self.rows(page, "next-table") == self.rows(page, "failures-table") == [["none"]]
        assert visit(still).is_hidden("#operations")


class TestMotion:
    def test_rings_move_under_load(self, busy, visit):
        """Slots fill and empty, hands turn, outcomes go up, the chart grows."""
        # Playwright looks again by `eval`, which the page's policy refuses.
        page = visit(busy, bypass_csp=True)
        look = """() => [...document.querySelectorAll('.ring')].map(ring => [
            [...ring.querySelectorAll('.slot')].map(s => s.dataset.fill || 0).join(),
            ring.querySelector('.hand-group').getAttribute('transform')])"""
        before = page.evaluate(look)
        assert len(before) >= 3
        page.wait_for_function(MOVED, arg=before)
        expired = value(page, "expired")
        page.wait_for_function(
            "before => Number(document.querySelector('#expired').dataset.value) > before",
            arg=expired,
        )
        path = page.get_attribute("#outcomes-chart [data-series=expired] path", "d")
        assert path.count("L") >= 1

    def test_reduced_motion(self, busy, visit):
        """With reduced motion the hands move with each state, not with each frame."""
        page = visit(busy, reduced_motion="reduce")
        hands, states = page.evaluate(
            """() => new Promise(done => { const seen = new Set(); let left = 20;
                const states = () => performance.getEntriesByType('resource')
                    .filter(e => e.name.endsWith('state.json')).length, before = states();
                const look = () => { seen.add(document.querySelector(
                    '.ring[data-level="2"] .hand-group').getAttribute('transform'));
                    if (--left) requestAnimationFrame(look);
                    else done([seen.size, states() - before]); };
                look(); })"""
        )
        # The place at first, and that of a state which came before and was not shown yet.
        assert hands <= 2 + states

    def test_pause(self, busy, visit):
        """The button stops all movement, and starts it again."""
        page = visit(busy)
        page.click("#pause")
        assert page.inner_text("#status") == "paused"
        hand = ".ring[data-level='2'] .hand-group"
        before = page.get_attribute(hand, "transform")
        page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        assert page.get_attribute(hand, "transform") == before
        page.click("#pause")
        page.wait_for_selector("#status[data-state=live]")


MOVED = """before => before.every(([slots, hand], level) => {
    const ring = document.querySelectorAll('.ring')[level];
    const now = [...ring.querySelectorAll('.slot')].map(s => s.dataset.fill || 0).join();
    const turned = ring.querySelector('.hand-group').getAttribute('transform') !== hand;
    return turned && (level > 2 || now !== slots); })"""


class TestLooks:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_it_fits(self, still, visit, viewport, scheme):
        """Nothing is wider than the screen, no text is cut off, and both schemes are followed."""
        page = visit(still, viewport=viewport, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        cut = page.evaluate(
            """() => [...document.querySelectorAll('h1, h2, p, dt, dd, figcaption, li, button')]
                .filter(e => e.getClientRects().length)
                .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display
                    !== 'inline').map(e => e.textContent)"""
        )
        assert cut == []
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(","))) > 380
        assert light == (scheme == "light")

    def test_words_stand_out(self, still, visit):
        """Text has a contrast of at least 4.5 to its ground, in both schemes."""
        for scheme in ("light", "dark"):
            page = visit(still, color_scheme=scheme)
            assert page.evaluate(CONTRASTS) >= 4.5, scheme

    def test_the_pointer_tells(self, still, visit):
        """A bar under the pointer shows a tooltip."""
        page = visit(still)
        page.click("#internals > summary")
        chart = page.query_selector("#lateness-chart svg")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + 60, box["y"] + box["height"] - 40)
        assert "operations" in page.inner_text("#tip")
        page.mouse.move(5, 5)
        assert page.is_hidden("#tip")


# The lowest contrast, by WCAG 2, of any text with the nearest ground behind it.
CONTRASTS = """() => {
    const parse = c => c.match(/[\\d.]+/g).map(Number);
    const light = c => { const [r, g, b] = c.map(v => { v /= 255;
        return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
        return .2126 * r + .7152 * g + .0722 * b; };
    const ground = e => { for (; e; e = e.parentElement) {
        const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3]) return c; }
        return [255, 255, 255]; };
    const texts = [...document.querySelectorAll('body *')].filter(e =>
        [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())
        && e.getClientRects().length);
    return Math.min(...texts.map(e => {
        const style = getComputedStyle(e);
        const ink = parse(e.ownerSVGElement ? style.fill : style.color).slice(0, 3);
        const [a, b] = [light(ink), light(ground(e).slice(0, 3))].sort((x, y) => y - x);
        return (a + .05) / (b + .05); })); }"""


class TestServerThatEnds:
    def test_it_is_told(self, bench, browser):
        """The page says "no answer", and keeps its last figures."""
        context = browser.new_context(viewport=DESKTOP)
        page = context.new_page()
        with serve(bench.purgatory) as web:
            page.goto(web.url)
            page.wait_for_selector("#status[data-state=live]")
        page.wait_for_selector("#status[data-state=lost]", timeout=HANG * 1000)
        assert page.inner_text("#status") == "no answer"
        assert "No answer since" in page.inner_text("#health")
        assert page.title().startswith("no answer")
        assert value(page, "pending") == bench.purgatory.delayed
        context.close()


ALONE = ClusterStatus(role=Role.ACTIVE, address="tcp://a:7411", active="tcp://a:7411", epoch=7)


def test_an_active_server_among_others(bench, visit):
    """What is missing is said as other troubles are; a line has facts."""
    status, well = [ALONE], HealthReport("", "", 0.0, 0.0, 0.0, -1.0)
    shown = {"cluster": lambda: status[0].shown(), "health": lambda: well}
    with serve(bench.purgatory, **shown) as web:
        page = visit(web)
        assert page.inner_text("#health") == "Ready, but not protected"
        assert page.get_attribute("#health", "data-state") == "warning"
        missing = page.locator("#troubles li").all_inner_texts()
        assert [text.partition(":")[0] for text in missing] == ["No standby", "Not replicated"]
        line = page.locator("#cluster")
        assert line.inner_text() == "Active, epoch 7"
        assert line.get_attribute("data-state") == "plain"
        status[0] = replace(ALONE, standbys=["tcp://b:7411"], replicated=True, partition="orders")
        page.wait_for_selector("#cluster[data-state=good]")
        assert page.get_attribute("#health", "data-state") == "good"
        assert not page.is_visible("#troubles")
        words = "partition orders · 1 standby: tcp://b:7411 · the database has a synchronous"
        assert words in line.inner_text()
        page.close()


def test_a_standby(bench, visit):
    """The page says where the active server is, and shows no figures; nothing is red."""
    status = replace(ALONE, role=Role.STANDBY, address="tcp://b:7411", standbys=["tcp://b:7411"])
    with WebServer(
        "127.0.0.1:0",
        status=StandbyPage(lambda: status),
        registry=CollectorRegistry(),
        health=str,
        ready=str,
    ) as web:
        page = visit(web)
        assert "Standby; active: tcp://a:7411" in page.locator("#cluster").inner_text()
        assert page.inner_text("#health") == "Stands by: tcp://a:7411 is active"
        assert page.get_attribute("#health", "data-state") == "plain"
        assert page.title().startswith("standby")
        assert page.locator("#troubles li").count() == 1  # its database is not replicated
        assert page.is_visible("#troubles")
        assert page.locator("#where").inner_text() == "tcp://b:7411"
        assert not page.locator("#pending").is_visible()
        status = replace(status, active="")
        page.wait_for_selector("#health[data-state=bad]")
        page.close()


def test_durations(still, visit):
    """In their largest unit, of which one is no plural."""
    durations = (
        "url => import(url).then(({duration}) => [20, 8e3, 132e3, 36e5, 361e4, 72e5].map(duration))"
    )
    found = visit(still).evaluate(durations, f"{still.url}text.js")
    assert found == ["20 ms", "8 s", "2.2 min", "1 hour", "1 hour", "2 hours"]


def test_a_server_alone_has_no_line(still, visit):
    """There are no others."""
    assert not visit(still).locator("#cluster").is_visible()
