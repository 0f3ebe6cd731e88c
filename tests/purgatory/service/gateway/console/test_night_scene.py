"""A night: 2,501 stuck and 110 dead jobs, a mistyped kind, a full disk, a dead standby.

The page, `purgatory top`, the console and the alert rules each say it first. With PICTURES set to a
directory, the page and the console are photographed.
"""

import contextlib
import os
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from purgatory.cli.entry_point import main
from purgatory.service import Client, Config, ServiceError
from purgatory.service.cluster.cluster_daemon import ClusterDaemon
from purgatory.service.cluster.cluster_status import Role
from purgatory.service.platform import boot_ns
from tests.purgatory.service.gateway.conftest import RunningGateway
from tests.purgatory.service.gateway.console.driver import (
    CHROMIUM,
    DESKTOP,
    PHONE,
    Console,
    make_dead,
    playwright,
)
from tests.purgatory.service.test_alerts import ALERTS, METRIC, RULES, program
from tests.testing.browser_pages import BrowserPages
from tests.testing.eventually import eventually
from tests.testing.failing_disk import DiskFaults
from tests.testing.fake_lease import FakeDatabase, FakeLeaseTable
from tests.testing.purgatory_harness import HANG

sync_api = playwright()
expect = sync_api.expect

STUCK = "2,501 jobs of kind “mial” wait, and no worker takes this kind"
DEAD = "110 jobs of kind “mail” are dead"
ALONE = "No standby: if this server ends, nothing answers"
UNSAFE = "Not replicated: a loss of the database loses what was acknowledged"


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A server over a database, in trouble; its `url` is the page's."""
    directory = tmp_path_factory.mktemp("night")
    table, faults = FakeLeaseTable(boot_ns, time.time_ns() // 1_000_000), DiskFaults()

    def daemon(stack):
        config = Config(
            store="postgresql://nowhere/purgatory",
            data_dir=directory / "none",
            bind="tcp://127.0.0.1:*",
            http_bind="127.0.0.1:0",
            journal=False,
        )
        database = FakeDatabase(directory / "a.db", table, faults.connect)
        return stack.enter_context(ClusterDaemon(config, database=database))

    with contextlib.ExitStack() as stack:
        active = daemon(stack)
        eventually(lambda: active.status().role is Role.ACTIVE)
        with contextlib.ExitStack() as short:
            daemon(short)
            eventually(lambda: active.status().standbys)
        eventually(lambda: not active.status().standbys)  # the standby has died
        break_down(active.member.address, faults)
        for path in ("state.json", "history.json", "metrics"):  # the page's threads begin
            urllib.request.urlopen(active.url + path, timeout=HANG).close()
        yield active
        faults.clear()


def break_down(address, faults):
    """Let jobs die and be stuck, then fill the disk."""
    with Client(address, name="shop", timeout=HANG) as client:
        make_dead(client, *[f"invoice-{n}" for n in range(110)])
        for n in range(2501):
            client.schedule_later(0, kind="mial", job_id=f"letter-{n}")
        client.flush(HANG)
        eventually(lambda: client.overview().kinds[-1].count("ready") == 2501)
        faults.fail()
        with pytest.raises(ServiceError):
            client.submit("k")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(browser):
    return BrowserPages(browser)


def all_looks(page):
    """Show a page on a desktop and a phone, in light and dark; yields the viewport and the name."""
    for viewport in (DESKTOP, PHONE):
        for color_scheme in ("light", "dark"):
            page.set_viewport_size(viewport)
            page.emulate_media(color_scheme=color_scheme)
            yield viewport, f"{viewport['width']}-{color_scheme}"
    page.close()  # what was emulated would stay


def photograph(page, name):
    """Keep a picture, if PICTURES says where."""
    if folder := os.environ.get("PICTURES"):
        (Path(folder) / f"{name}.png").write_bytes(page.screenshot(full_page=True))


def fits(page, locator, viewport):
    """Check that a part is on the first screen, and nothing is wider than the screen."""
    box = locator.bounding_box()
    assert box["y"] + box["height"] <= viewport["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_the_page(night, pages):
    """The server's own trouble, then jobs and the missing standby; all on the first screen."""
    with pages.open({}, viewport=DESKTOP) as page:
        for viewport, look in all_looks(page):
            page.goto(night.url)
            expect(page.locator("#health")).to_contain_text(
                re.compile("^Not ready: commits have failed for .* database or disk is full"),
                timeout=HANG * 1000,
            )
            assert page.get_attribute("#health", "data-state") == "bad"
            expect(page.locator("#troubles li")).to_have_text([STUCK, DEAD, ALONE, UNSAFE])
            expect(page.locator("#jobs-table tbody th")).to_have_text(["mial", "mail"])
            assert page.title().startswith("not ready")
            photograph(page, f"night-page-{look}")
            fits(page, page.locator("#troubles"), viewport)


def test_the_console(night, pages, tmp_path):
    """The same sentences above each view."""
    with RunningGateway(night.member.address, tmp_path / "keys") as gateway:
        console = Console(pages, gateway)
        page = console.sign_in(rights=("administer",))
        for viewport, look in all_looks(page):
            console.show("jobs")
            the_console_tells(page)
            photograph(page, f"night-console-{look}")
            fits(page, page.locator("#troubles"), viewport)
            console.show("job?id=invoice-7")
            expect(page.get_by_role("region", name="Attempts")).to_contain_text("no such address")
            expect(page.locator("#troubles")).to_contain_text(STUCK)
            photograph(page, f"night-job-{look}")
        console.close()


def the_console_tells(page):
    """Check what the first view says of the night."""
    lines = page.locator("#troubles li")
    expect(lines).to_have_count(5, timeout=HANG * 1000)
    trouble = lines.first.inner_text()
    assert re.match(r"Not ready: commits have failed for \d+ (s|min): .* disk is full$", trouble)
    expect(lines).to_contain_text(["Not ready", STUCK, DEAD, ALONE, UNSAFE])
    expect(page.get_by_role("link", name="ready 2,501")).to_be_visible()


def test_an_action_is_acknowledged_on_disk_alone(night, pages, tmp_path):
    """While commits fail the console says that the action has failed; and nothing has changed."""
    with RunningGateway(night.member.address, tmp_path / "keys") as gateway:
        console = Console(pages, gateway)
        console.expected.append("503")
        page = console.sign_in(rights=("administer",), where="#job?id=letter-7")
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel the job").click()
        console.told("disk is full")
        assert "On disk" not in page.locator("#notices").inner_text()
        assert page.locator("#main .badge").inner_text() == "ready"
        console.close()


def test_top(night, monkeypatch, capsys):
    """It begins with the troubles, in lines that fit 80 columns."""
    monkeypatch.setenv("PURGATORY_ADDRESS", night.member.address)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["top", "--count", "1"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    said = " ".join(lines[:8])
    assert "NOT READY: commits have failed for" in said
    assert "disk is full" in said
    for trouble in (STUCK, DEAD, ALONE, UNSAFE):
        assert f"! {trouble}" in said
    [kinds] = [at for at, line in enumerate(lines) if "dead" in line and "running" in line]
    assert "mial" in lines[kinds + 1]
    assert "mail" in lines[kinds + 2]


def test_the_alerts(night, tmp_path):
    """Each trouble fires its alert, by the metrics of this server as they are, and no other."""
    with urllib.request.urlopen(f"{night.url}metrics", timeout=HANG) as answer:
        text = answer.read().decode()
    names = {name for rule in ALERTS for name, _ in METRIC.findall(rule["expr"])}
    series = ["      - {series: 'up{instance=\"a\"}', values: '1x40'}"]
    for name, labels, value in re.findall(r"^(\w+)(\{.*\})? ([-+.e\d]+)$", text, re.MULTILINE):
        if name in names:
            lasts = name.endswith(("failing_seconds", "oldest_ready_seconds")) and float(value)
            grows = "+15" if lasts else ""
            inside = ", ".join(filter(None, ['instance="a"', labels[1:-1]]))
            series.append(f"      - {{series: '{name}{{{inside}}}', values: '{value}{grows}x40'}}")
    assert {"purgatory_server_ready", "purgatory_jobs"} <= {
        re.search(r"series: '(\w+)", line)[1] for line in series
    }
    expected = (
        *("PurgatoryNotReady", "PurgatoryCommitsFail", "PurgatoryJobsDead", "PurgatoryJobsWait"),
        *("PurgatoryKindWithoutWorker", "PurgatoryNoStandby", "PurgatoryNotReplicated"),
    )
    samples = [f"- {{labels: '{{alertname=\"{name}\"}}', value: 1}}" for name in expected]
    shutil.copy(RULES, tmp_path / "alerts.yml")
    (tmp_path / "night.yml").write_text(
        "rule_files: [alerts.yml]\nevaluation_interval: 15s\ntests:\n  - interval: 15s\n"
        "    input_series:\n" + "\n".join(series) + "\n    promql_expr_test:\n"
        '      - expr: count by (alertname) (ALERTS{alertstate="firing"})\n'
        "        eval_time: 8m\n        exp_samples:\n          "
        + "\n          ".join(samples)
        + "\n"
    )
    command = [program("promtool"), "test", "rules", tmp_path / "night.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
    assert done.returncode == 0, done.stdout + done.stderr
