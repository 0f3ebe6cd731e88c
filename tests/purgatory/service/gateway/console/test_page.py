"""The console in a browser: an operator's ten tasks, and what an attacker finds."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from purgatory.service import Client, Worker
from purgatory.service.auth.access import Access
from purgatory.service.http.server import WebServer
from purgatory.service.http.snapshot import StatusReader, jobs_shown
from purgatory.service.job_messages import KindOverview
from purgatory.service.server.server_health import HealthReport
from tests.purgatory.service.gateway.console.driver import (
    CHROMIUM,
    DESKTOP,
    HOSTILE,
    PHONE,
    Console,
    make_dead,
    playwright,
)
from tests.testing.browser_pages import BrowserPages
from tests.testing.purgatory_harness import HANG, PurgatoryHarness

sync_api = playwright()
expect = sync_api.expect


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(browser):
    return BrowserPages(browser)


@pytest.fixture
def visit(pages, gateway):
    """Open consoles: `visit(**options of a browser's context)`."""
    made = []

    def open_console(**options):
        made.append(Console(pages, gateway, **options))
        return made[-1]

    yield open_console
    for console in made:
        console.close()


@pytest.fixture
def console(visit):
    return visit(timezone_id="UTC")


@pytest.fixture
def client(server):
    """A client of the token's name."""
    with Client(server.address, name="shop", timeout=HANG) as made:
        yield made


class TestTasks:
    """Each is done within three actions after signing in, and is on disk when the page says so."""

    @pytest.fixture(autouse=True)
    def few_actions(self, console):
        yield
        assert 0 < console.actions <= 3

    def test_cancel_the_jobs_of_a_customer(self, console, client):
        """Filter by tag, cancel all, confirm the count."""
        for n in range(12):
            client.schedule(3600, kind="mail", job_id=f"a-{n}", tags=["customer:42"])
        client.schedule(3600, kind="mail", job_id="b", tags=["customer:43"])
        page = console.sign_in()
        console.enter("tag", "customer:42")
        console.click("button", "Cancel all that match…")
        assert "customer:42" in page.get_by_role("dialog").inner_text()
        console.click("button", "Cancel 12 jobs")
        console.told("12 jobs cancelled")
        assert client.job_counts(state="scheduled") == {("mail", "scheduled"): 1}
        assert client.job("b").state == "scheduled"

    def test_why_a_job_failed(self, console, client):
        """Find it by its id: its error comes first."""
        make_dead(client, "invoice-17", kind="invoice", error="no such customer: 99")
        page = console.sign_in()
        console.enter("Find a job by its id", "invoice-17")
        page.locator(".error", has_text="no such customer: 99").first.wait_for()
        text = page.locator("#main").inner_text()
        assert "1 of 1" in text
        attempt = page.get_by_role("region", name="Attempts").locator("tbody tr")
        assert "ValueError: no such customer: 99" in attempt.inner_text()

    def test_pause_mails(self, console, client):
        """In the view of kinds."""
        client.schedule(3600, kind="mail")
        console.sign_in()
        console.click("link", "Kinds")
        console.click("button", "Pause mail")
        console.told("mail: paused")
        assert [(each.kind, each.paused) for each in client.limits()] == [("mail", True)]

    def test_run_a_report_now(self, console, client):
        """In the view of repeats."""
        client.repeat("nightly", cron="30 2 * * *", kind="report")
        console.sign_in()
        console.click("link", "Repeats")
        console.click("button", "Run now nightly")
        console.told("nightly runs now")
        assert client.job_counts(kind="report", state="ready") == {("report", "ready"): 1}

    def test_reschedule(self, console, client):
        """Find the job, type a time."""
        client.schedule(3600, kind="mail", job_id="a")
        before = client.job("a").due_ms
        console.sign_in()
        console.enter("Find a job by its id", "a")
        console.enter("Move to", "2h")
        console.told("a was moved")
        assert client.job("a").due_ms - before > 3000_000

    def test_retry_all_dead_jobs_of_a_kind(self, console, client):
        """In the view of kinds, with a count to confirm."""
        make_dead(client, "a", "b", "c")
        make_dead(client, "d", kind="print")
        console.sign_in()
        console.click("link", "Kinds")
        console.click("button", "Retry 3 dead mail")
        console.click("button", "Retry 3 dead jobs")
        console.told("3 jobs tried again")
        counts = client.job_counts()
        assert ("mail", "dead") not in counts
        assert counts[("print", "dead")] == 1

    def test_who_waits_for_a_key(self, console, client):
        """In the view of keys."""
        for n in range(3):
            client.submit("order:17", timeout=3600, op_id=f"wait-{n}")
        client.submit("order:18", timeout=3600, op_id="other")
        page = console.sign_in()
        console.click("link", "Keys")
        console.enter("Who waits for the key", "order:17")
        page.get_by_text("3 operations wait for order:17").wait_for()
        assert page.locator(".list tbody tr").count() == 3

    def test_complete_a_key(self, console, client):
        """With a value."""
        client.submit("order:17", timeout=3600, op_id="a")
        console.sign_in()
        console.click("link", "Keys")
        console.enter("Who waits for the key", "order:17")
        console.enter("Value (JSON, or a text)", '{"paid": true}')
        console.told("order:17 was completed: 1 operation ended")
        assert client.query("a").result == {"paid": True}

    def test_what_runs_next(self, console, client):
        """Scheduled jobs are shown due first."""
        for n in (3, 1, 2):
            client.schedule(1000 * n, kind="mail", job_id=f"a-{n}")
        page = console.sign_in()
        console.click("link", "scheduled 3")
        page.locator("nav.chips a[aria-current]", has_text="scheduled").wait_for()
        page.locator(".list tbody tr").nth(2).wait_for()
        assert page.locator(".list tbody th").all_inner_texts() == ["a-1", "a-2", "a-3"]

    def test_limit_the_calls_of_an_api(self, console, client):
        """So many a second, in the view of kinds."""
        client.schedule(3600, kind="call")
        page = console.sign_in()
        console.click("link", "Kinds")
        with page.expect_response(lambda answer: answer.request.method == "PATCH"):
            console.enter("a second", "2.5")
        console.told("call: limited")
        assert [each.per_second for each in client.limits()] == [2.5]


class TestViews:
    """What the views show, and do."""

    def test_they_are_live(self, console, client):
        """A job that comes is shown without a click; so is its end."""
        page = console.sign_in()
        page.locator("#status[data-state=live]").wait_for()
        client.schedule(3600, kind="mail", job_id="new")
        page.get_by_role("link", name="new", exact=True).click()
        page.locator(".badge[data-state=scheduled]").wait_for()
        client.cancel_job("new")
        page.locator(".badge[data-state=cancelled]").wait_for()

    def test_page_by_page(self, console, client):
        """More jobs are added, and none is shown twice."""
        for n in range(120):
            client.schedule_later(3600 + n, kind="mail", job_id=f"a-{n}")
        client.flush(HANG)
        page = console.sign_in()
        for count in (50, 100, 120):
            page.get_by_text(f"{count} jobs shown").wait_for()
            if count < 120:
                page.get_by_role("button", name="More").click()
        ids = page.locator(".list tbody th").all_inner_texts()
        assert ids == [f"a-{n}" for n in range(119, -1, -1)]

    def test_actions_of_a_job(self, console, client):
        """Each asks the server, and the page shows what is then."""
        make_dead(client, "a", "b")
        client.schedule(3600, kind="later", job_id="c")
        page = console.sign_in(where="#job?id=a")
        page.get_by_role("button", name="Retry").click()
        console.told("a is tried again")
        page.locator(".badge[data-state=ready]").wait_for()
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel the job").click()
        page.locator(".badge[data-state=cancelled]").wait_for()
        console.expected.append("404")  # a dropped job is forgotten
        page.goto(f"{console.gateway.url}/console#job?id=b")
        page.get_by_role("button", name="Drop…").click()
        page.keyboard.press("Escape")
        assert client.job("b").state == "dead"
        page.get_by_role("button", name="Drop…").click()
        page.get_by_role("button", name="Drop the job").click()
        console.told("b was dropped")
        assert client.job("b") is None
        page.get_by_role(
            "heading", name="Jobs"
        ).wait_for()  # of the dropped job nothing is left to show
        page.goto(f"{console.gateway.url}/console#job?id=c")
        page.get_by_role("button", name="Run now").click()
        console.told("c runs now")
        assert client.job("c").state == "ready"

    def test_a_job_that_was_given_back(self, console, client):
        """Its attempt counts for nothing, and is no event."""
        client.schedule(0, kind="mail", job_id="a")
        page = console.sign_in(where="#job?id=a")
        url = f"{console.gateway.url}/v1/leases"
        sent = {"headers": {"Authorization": f"Bearer {console.token}"}}
        [job] = page.request.post(url, data={"kinds": ["mail"]}, **sent).json()["jobs"]
        events = page.get_by_role("region", name="Events").locator("tbody td:nth-child(2)")
        expect(events).to_have_text(["scheduled", "due", "attempt 1 began"])
        page.request.post(f"{url}/return", data={"leases": [job["lease"]]}, **sent)
        expect(events).to_have_text(["scheduled", "due"])

    def test_reschedule_to_a_day(self, visit, client):
        """It begins at midnight of the browser's time zone."""
        client.schedule(3600, kind="mail", job_id="a")
        console = visit(timezone_id="Pacific/Apia")
        console.sign_in(where="#job?id=a")
        console.enter("Move to", "2027-03-01")
        console.told("a was moved")
        assert client.job("a").due == datetime(2027, 2, 28, 11, tzinfo=UTC)

    def test_payload_and_result(self, console, client, server):
        """As JSON."""
        worker = Worker(server.address, name="shop")
        worker.on("sum")(lambda job: sum(job.payload["numbers"]))
        with worker:
            client.schedule(0, kind="sum", job_id="a", payload={"numbers": [1, 2]})
            client.result("a", HANG)
        page = console.sign_in(where="#job?id=a")
        page.locator(".badge[data-state=done]").wait_for()
        assert page.locator("pre").all_inner_texts() == [
            '{\n  "numbers": [\n    1,\n    2\n  ]\n}',
            "3",
        ]

    def test_without_a_payload(self, console, client):
        """There is no part for it."""
        client.schedule(3600, kind="mail", job_id="a")
        client.submit("k", timeout=3600, op_id="b")
        page = console.sign_in(where="#job?id=a")
        expect(page.locator("#main section h2")).to_have_text(["Facts", "Attempts", "Events"])
        page.goto(f"{console.gateway.url}/console#operation?id=b")
        expect(page.locator("#main section h2")).to_have_text(["Facts", "Keys"])

    def test_nothing_yet(self, console, server):
        """A list without a filter says that there is nothing, with one that nothing matches."""
        page = console.sign_in()
        for what in ("job", "operation"):
            page.goto(f"{console.gateway.url}/console#{what}s")
            page.get_by_text(f"There are no {what}s.").wait_for()
            page.goto(f"{console.gateway.url}/console#{what}s?kind=mail")
            page.get_by_text(f"No {what} matches.").wait_for()

    def test_kinds_in_trouble(self, console, client):
        """They are first, and what is wrong is in red; so is the number of dead jobs."""
        for n in range(5):
            client.schedule(3600 + n, kind="call")
        make_dead(client, "a", "b", "c")
        client.schedule(0, kind="mial")
        page = console.sign_in(where="#kinds")
        expect(page.locator("#troubles li")).to_have_count(2)
        expect(page.locator(".list tbody th")).to_have_text(["mail", "mial", "call"])
        alarm = page.locator("#main a[data-alarm=true]")
        expect(alarm).to_have_text(["3", "1"])
        red = page.evaluate(
            "getComputedStyle(document.querySelector('#main a[data-alarm=true]')).color"
        )
        assert red == "rgb(179, 38, 30)"
        page.goto(f"{console.gateway.url}/console#jobs")
        expect(alarm).to_have_text(["dead 3"])

    def test_jobs_without_a_kind(self, console, client):
        """Their links lead to them alone, and their retry counts them alone, before it asks."""
        make_dead(client, "a", "b", kind="")
        make_dead(client, "c", kind="mail")
        page = console.sign_in(where="#kinds")
        console.click("button", "Retry 2 dead no kind")
        assert "(none)" in page.get_by_role("dialog").inner_text()
        page.get_by_role("button", name="Leave them").click()
        page.get_by_role("row", name="(none)").get_by_role("link", name="2").click()
        expect(page.get_by_role("table", name="Jobs").locator("tbody tr")).to_have_count(2)
        console.click("button", "Retry all that match…")
        console.click("button", "Retry 2 dead jobs")
        console.told("2 jobs tried again")
        assert client.job("c").state == "dead"

    def test_repeats(self, console, client):
        """Pause, resume and delete."""
        client.repeat("poll", every=900, kind="poll")
        page = console.sign_in(where="#repeats")
        row = page.locator(".list tbody tr").inner_text()
        assert "every 15 min" in row
        assert re.search(r"\d\d:\d\d:\d\d UTC \(in ", row)
        page.get_by_role("button", name="Pause poll").click()
        console.told("poll is paused")
        assert client.repeats()[0].paused
        page.get_by_role("button", name="Resume poll").click()
        console.told("poll goes on")
        page.get_by_role("button", name="Delete poll").click()
        page.get_by_role("button", name="Delete the repeat").click()
        console.told("poll was deleted")
        assert list(client.repeats()) == []

    def test_operations(self, console, client):
        """By state and key; extended and cancelled."""
        client.submit("order:1", timeout=3600, op_id="a", kind="order")
        client.submit("order:2", timeout=3600, op_id="b", kind="order")
        client.complete("order:2")
        page = console.sign_in(where="#operations?state=pending")
        page.get_by_role("link", name="a", exact=True).click()
        before = client.query("a").deadline_ms
        page.get_by_label("New timeout").fill("3h")
        page.get_by_role("button", name="Extend").click()
        console.told("a has a new deadline")
        assert client.query("a").deadline_ms > before
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel the operation").click()
        page.locator(".badge[data-state=cancelled]").wait_for()

    def test_let_a_key_fail(self, console, client):
        """The operations that wait for it fail."""
        client.submit("order:1", timeout=3600, op_id="a")
        page = console.sign_in(where="#keys?key=order%3A1")
        page.get_by_label("Message").fill("lost")
        page.get_by_role("button", name="Let the key fail").click()
        console.told("order:1 failed: 1 operation ended")
        assert client.query("a").state == "failed"

    def test_an_action_that_fails(self, console, client, server):
        """The page says so, and says nothing of the disk."""
        client.schedule(3600, kind="mail", job_id="a")
        page = console.sign_in(where="#job?id=a")
        page.get_by_role("button", name="Cancel…").wait_for()
        page.route("**/v1/jobs/a", lambda route: route.abort())
        console.expected.append("ERR_FAILED")
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel the job").click()
        console.told("The gateway does not answer")
        assert "On disk" not in page.locator("#notices").inner_text()

    def test_an_administrator_sees_all_clients(self, console, client, server):
        """Others see their own client's jobs, and counts, alone."""
        with Client(server.address, name="other", timeout=HANG) as other:
            other.schedule(3600, kind="mail", job_id="theirs")
        client.schedule(3600, kind="mail", job_id="ours")
        page = console.sign_in()
        page.get_by_role("link", name="scheduled 1", exact=True).wait_for()
        assert page.locator(".list tbody th").all_inner_texts() == ["ours"]
        page.get_by_role("button", name="Sign out").click()
        console.sign_in("boss", ["administer"])
        page.get_by_role("link", name="scheduled 2", exact=True).wait_for()
        page.get_by_role("link", name="theirs", exact=True).wait_for()


class TestKeyboardAndPhone:
    """It can be used without a mouse, and on a phone."""

    def test_keys_alone(self, console, client):
        """Sign in, find a job and run it with the keyboard."""
        client.schedule(3600, kind="mail", job_id="a")
        page = console.sign_in()
        page.get_by_role("link", name="a", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Run now").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Job a"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Run now"
        page.keyboard.press("Enter")
        console.told("a runs now")

    def test_the_focus_stays(self, console, client):
        """A list that is read again keeps the focus on the same job."""
        client.schedule(3600, kind="mail", job_id="a")
        page = console.sign_in()
        page.get_by_role("link", name="a", exact=True).focus()
        client.schedule(3600, kind="mail", job_id="b")
        page.get_by_role("link", name="b", exact=True).wait_for()
        assert page.evaluate("document.activeElement.textContent") == "a"

    def test_skip_to_the_content(self, console, client):
        """The view stays the same, also if the page is loaded again."""
        page = console.sign_in(where="#kinds")
        page.locator("a.skip").press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.reload()
        page.get_by_role("heading", name="Kinds").wait_for()

    def test_the_focus_after_an_action(self, console, client):
        """It is on the button that undoes the action, or else on the title."""
        client.repeat("nightly", cron="30 2 * * *", kind="report")
        page = console.sign_in(where="#repeats")
        page.get_by_role("button", name="Pause nightly").press("Enter")
        expect(page.get_by_role("button", name="Resume nightly")).to_be_focused()
        page.get_by_role("button", name="Delete nightly").press("Enter")
        page.get_by_role("button", name="Delete the repeat").press("Enter")
        console.told("nightly was deleted")
        expect(page.get_by_role("heading", name="Repeats")).to_be_focused()

    def test_what_is_typed_stays(self, console, client):
        """A form that is filled in is not drawn anew, and keeps the focus when it is sent."""
        client.schedule(3600, kind="mail")
        page = console.sign_in(where="#kinds")
        page.get_by_label("at a time").fill("4")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        client.schedule(0, kind="call")
        page.get_by_text("1 job of kind “call” waits").wait_for()
        page.keyboard.press("Enter")
        console.told("mail: limited")
        assert client.limits()[0].running == 4
        page.get_by_role("rowheader", name="call").wait_for()
        focus = "document.activeElement.ariaLabel"
        assert page.evaluate(focus) == "Limit mail"

    def test_the_page_stays_where_it_is(self, console, client):
        """A list that is read again does not scroll to what has the focus."""
        for n in range(120):
            client.schedule_later(3600 + n, kind="mail", job_id=f"a-{n}")
        client.flush(HANG)
        page = console.sign_in()
        page.get_by_role("button", name="More").click()
        page.get_by_text("100 jobs shown").wait_for()
        page.evaluate("window.scrollTo(0, 300)")
        client.schedule(3600, kind="mail", job_id="b")
        page.get_by_role("link", name="b", exact=True).wait_for()
        assert page.evaluate("[document.activeElement.textContent, scrollY]") == ["More", 300]

    def test_hints_of_fields(self, visit, client):
        """They are as readable as labels are."""
        client.schedule(3600, kind="mail")
        page = visit(color_scheme="light").sign_in(where="#kinds")
        page.locator("input[type=number]").first.wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            label, hint = page.evaluate(
                """() => [['label span', null], ['input[type=number]', '::placeholder']].map(
                ([where, part]) => getComputedStyle(document.querySelector(where), part).color)"""
            )
            assert label == hint
        page.close()

    def test_a_phone(self, visit, client):
        """Nothing is wider than the screen, in any view."""
        client.schedule(3600, kind="mail", job_id="a", tags=["customer:42"], payload="x" * 300)
        client.repeat("nightly", cron="30 2 * * *", kind="report")
        client.submit("order:" + "9" * 100, timeout=3600, op_id="o")
        console = visit(viewport=PHONE)
        page = console.sign_in()
        page.locator("#status[data-state=live]").wait_for()
        content = dict.fromkeys(["jobs", "kinds", "repeats", "operations"], ".list tbody tr")
        key = "order:" + "9" * 100
        named = {f"keys?key={key}": "strong", "operation?id=o": "li", "job?id=a": "pre"}
        for view, found in {**content, "keys": "h2", **named}.items():
            console.show(view)
            page.locator(f"#main {found}").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


class TestAttacks:
    """What others can do: nothing."""

    def test_texts_are_no_markup(self, console, client):
        """Ids, kinds, payloads, tags, errors, keys and names of repeats are shown as they are."""
        make_dead(client, HOSTILE, kind=HOSTILE, error=HOSTILE, payload=HOSTILE, tags=[HOSTILE])
        waits = f"{HOSTILE} waits"
        client.submit(HOSTILE, timeout=3600, op_id=waits, kind=HOSTILE, payload=HOSTILE)
        client.repeat(HOSTILE, every=900, kind=HOSTILE, payload=HOSTILE)
        page = console.sign_in()
        page.locator(".list tbody tr").first.wait_for()
        page.get_by_role("link", name=HOSTILE, exact=True).click()
        page.locator(".error").wait_for()
        assert HOSTILE in page.locator(".error").inner_text()
        assert page.locator("pre").inner_text() == HOSTILE
        for view in ("kinds", "repeats", "operations"):
            page.evaluate("view => { location.hash = view }", f"#{view}")
            page.locator(".list tbody tr").first.wait_for()
            assert page.locator("#main").get_by_text(HOSTILE).count()
        page.get_by_role("link", name=waits, exact=True).first.click()
        page.locator("pre").wait_for()
        assert page.locator("#main img, #main script, #main [onerror]").count() == 0
        assert page.title() != "owned"

    def test_marks_of_direction(self, console, client):
        """They are shown as escapes: a name that they reorder would read as another one."""
        client.repeat("evil\u202egnp", cron="30 2 * * *", kind="report")
        make_dead(client, "a\u2066b", kind="mail", error="two\nlines\x1b[31m\u202e")
        page = console.sign_in(where="#repeats")
        page.get_by_role("button", name="Delete evil").click()
        assert "evil\\u202egnp" in page.get_by_role("dialog").inner_text()
        page.get_by_role("button", name="Keep").click()
        console.click("link", "Jobs")
        console.enter("Find a job by its id", "a\u2066b")
        error = page.locator("#main .error", has_text="\\u001b[31m\\u202e").first
        assert "two\nlines" in error.inner_text()

    def test_odd_addresses(self, console):
        """A view that is unknown is the first one; a bad filter is told."""
        console.expected += ["400", "404"]
        page = console.sign_in(where="#__proto__")
        page.locator("#main h2").first.wait_for()
        for view in ("constructor", "jobs?state=%3Cb%3E", "job"):
            console.show(view)
            page.locator("#main h2").first.wait_for()

    def test_the_browser_refuses_scripts(self, console):
        """Inline scripts, markup from texts, and resources of other origins."""
        page = console.sign_in()
        console.expected += ["Content Security Policy", "TrustedHTML", "TrustedScript", "Refused"]
        assert (
            page.evaluate("""() => {
            try { document.body.innerHTML = "<b>x</b>"; return "set"; }
            catch (error) { return error.name; }
        }""")
            == "TypeError"
        )
        assert (
            page.evaluate("""async () => {
            const script = document.createElement("script");
            try { script.textContent = "document.title = 'owned'"; } catch { return "refused"; }
            document.head.append(script);
            return document.title;
        }""")
            != "owned"
        )
        assert (
            page.evaluate("""async () => {
            try { await fetch("https://example.org/"); return "loaded"; }
            catch { return "refused"; }
        }""")
            == "refused"
        )
        console.requests = [each for each in console.requests if "example.org" not in each.url]

    def test_it_cannot_be_framed(self, console, gateway):
        """A page around it gets nothing to click on."""
        headers = httpx.get(f"{gateway.url}/console").headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        console.expected += ["frame", "Framing", "ERR_BLOCKED_BY_RESPONSE", "404"]
        page = console.page
        page.goto(f"{gateway.url}/healthz")
        page.evaluate("""() => new Promise(resolve => {
            const frame = document.createElement("iframe");
            frame.src = "/console";
            frame.onload = resolve;
            document.body.append(frame);
        })""")
        [frame] = page.main_frame.child_frames
        assert frame.query_selector("#main") is None

    def test_other_sites(self, gateway, shop, client):
        """A request of another site's page is refused, with a good token, too; no cookie is set."""
        client.schedule(3600, kind="mail", job_id="a")
        origin = {"Origin": "https://evil.example"}
        for method, path in (
            ("POST", "/v1/jobs/a/run"),
            ("DELETE", "/v1/jobs/a"),
            ("POST", "/v1/batch/jobs/cancel"),
            ("POST", "/v1/batch/jobs/retry"),
            ("PATCH", "/v1/limits"),
            ("GET", "/v1/counts/stream"),
            ("GET", "/v1/access"),
        ):
            answer = shop.request(method, path, headers=origin)
            assert (answer.status_code, answer.json()["code"]) == (403, "origin")
            assert not any("access-control" in name for name in answer.headers)
            assert httpx.request(method, gateway.url + path).status_code == 401
        assert "set-cookie" not in httpx.get(f"{gateway.url}/console").headers
        assert client.job("a").state == "scheduled"

    def test_the_token_is_in_no_url(self, console, client):
        """It is in a header, in this tab's memory, and gone after signing out; never in a URL."""
        client.schedule(3600, kind="mail", job_id="a")
        page = console.sign_in()
        page.get_by_role("link", name="a", exact=True).click()
        page.get_by_role("button", name="Run now").wait_for()
        asked = [each for each in console.requests if "/v1/" in each.url]
        assert all(each.headers["authorization"] == f"Bearer {console.token}" for each in asked)
        assert console.token not in page.url
        assert console.token not in page.content()
        assert page.evaluate("localStorage.length") == 0
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.get_by_role("button", name="Run now").wait_for()
        page.get_by_role("button", name="Sign out").click()
        assert page.evaluate("sessionStorage.length") == 0
        page.reload()
        page.get_by_label("Token").wait_for()

    def test_a_token_in_the_url_is_not_taken(self, gateway, console):
        """Neither as a parameter nor after `#`."""
        token = gateway.tokens.new(Access("shop"))
        assert httpx.get(f"{gateway.url}/v1/access?token={token}").status_code == 401
        console.page.goto(f"{gateway.url}/console?token={token}#jobs?token={token}")
        console.page.get_by_label("Token").wait_for()

    def test_a_reader(self, console, client, gateway):
        """A token that may only read sees no actions, and the gateway refuses them anyway."""
        make_dead(client, "dead")
        client.schedule(3600, kind="mail", job_id="a", tags=["t"])
        client.repeat("nightly", cron="30 2 * * *", kind="report")
        client.submit("order:1", timeout=3600, op_id="op")
        page = console.sign_in("shop", ["read"])
        for view in (
            "jobs?tag=t",
            "jobs?state=dead",
            "job?id=a",
            "job?id=dead",
            "kinds",
            "repeats",
            "operations",
            "operation?id=op",
            "keys?key=order%3A1",
        ):
            page.evaluate("view => { location.hash = view }", f"#{view}")
            page.locator("#main :is(.list, dl)").first.wait_for()
            buttons = set(page.locator("#main button").all_inner_texts())
            assert buttons <= {"Find", "Show", "More"}, view
        with httpx.Client(
            base_url=gateway.url, headers={"Authorization": f"Bearer {console.token}"}
        ) as reader:
            for method, path, body in (
                ("POST", "/v1/jobs/a/run", None),
                ("PATCH", "/v1/jobs/a", {"delay": 1}),
                ("DELETE", "/v1/jobs/a", None),
                ("POST", "/v1/jobs/dead/retry", None),
                ("DELETE", "/v1/jobs/dead", None),
                ("POST", "/v1/batch/jobs/cancel", {"tag": "t"}),
                ("POST", "/v1/batch/jobs/retry", {}),
                ("PATCH", "/v1/limits", {"kind": "mail", "paused": True}),
                ("POST", "/v1/repeats/nightly/run", None),
                ("DELETE", "/v1/repeats/nightly", None),
                ("POST", "/v1/keys/order:1", {}),
                ("DELETE", "/v1/operations/op", None),
            ):
                answer = reader.request(method, path, json=body)
                assert answer.status_code == 403, (method, path)
        assert client.job("a").state == "scheduled"
        assert client.job("dead").state == "dead"

    def test_a_revoked_token(self, console, gateway):
        """The page asks for another one."""
        page = console.sign_in()
        page.locator("#status[data-state=live]").wait_for()
        console.expected.append("401")
        gateway.tokens.revoke("shop")
        page.get_by_label("Token").wait_for()
        page.get_by_text("was revoked").or_(page.get_by_text("any more")).wait_for()
        assert page.evaluate("sessionStorage.length") == 0

    def test_a_wrong_token(self, console):
        """Is told, and not kept."""
        page = console.page
        console.expected.append("401")
        page.goto(f"{console.gateway.url}/console")
        page.get_by_label("Token").fill("nonsense")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").wait_for()
        assert page.evaluate("sessionStorage.length") == 0


AXE = Path(os.environ.get("PURGATORY_AXE", "build/axe/package/axe.min.js"))


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not here")
class TestAxe:
    """What axe finds."""

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_console(self, visit, client, scheme, size):
        """Nothing serious in any view."""
        make_dead(client, "dead")
        client.schedule(3600, kind="mail", job_id="a", tags=["t"], payload={"to": "ada"})
        client.repeat("nightly", cron="30 2 * * *", kind="report")
        client.submit("order:1", timeout=3600, op_id="op")
        console = visit(viewport=size, color_scheme=scheme, bypass_csp=True)
        page = console.page
        page.goto(f"{console.gateway.url}/console")
        assert serious(page) == []
        page = console.sign_in()
        for view in (
            "jobs",
            "jobs?state=dead",
            "job?id=dead",
            "job?id=a",
            "kinds",
            "repeats",
            "operations",
            "operation?id=op",
            "keys?key=order%3A1",
        ):
            page.evaluate("view => { location.hash = view }", f"#{view}")
            page.locator("#main :is(.list, dl)").first.wait_for()
            assert serious(page) == [], view
        page.evaluate("location.hash = '#job?id=dead'")
        page.get_by_role("button", name="Drop…").click()
        assert serious(page) == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_page_of_the_server(self, pages, scheme, size):
        """Nothing serious in the live page, with stuck and dead jobs."""
        purgatory = PurgatoryHarness(registry=CollectorRegistry()).purgatory
        kinds = [KindOverview("mial", (0, 9, 0, 0, 0, 3, 0), 5000, workers=0)]
        health = HealthReport("", "commits have failed", 0.0, 0.0, 3.0)
        for n in range(30):
            purgatory.defer(n, timeout=n + 1)
        web = WebServer(
            "127.0.0.1:0",
            status=StatusReader(
                purgatory, jobs=lambda: jobs_shown(kinds, {}), health=lambda: health
            ),
            registry=purgatory._registry,
            health=str,
            ready=str,
        )
        options = {"viewport": size, "color_scheme": scheme, "bypass_csp": True}
        with web, pages.open({}, **options) as page:
            page.goto(web.url)
            page.wait_for_selector("#status[data-state=live]")
            page.wait_for_selector("#troubles li")
            assert serious(page) == []


def serious(page):
    """Return what axe finds that is serious."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run().then(({violations}) => violations)")
    return [
        (each["id"], [node["html"] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
