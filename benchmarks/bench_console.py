"""How long the console's first view takes with many jobs: rows, counts and what is wrong are shown.

    python benchmarks/bench_console.py [--jobs 1000000] [--repeats 5]

A server over SQLite and a gateway, each a process, and Chromium. A tenth of the jobs are ready, in
twenty kinds without a worker. *Sign in*: from the click until the view is there; *again*: a page
that is loaded again; *new*: a browser's profile that has never seen the page. *All jobs*: a token
with `administer`; *own*: one whose jobs the server counts one by one. Medians, in milliseconds.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench_service import free_port
from harness import machine, table
from playwright.sync_api import Browser, Page, sync_playwright
from service_peers import Process

from purgatory.service import Client
from purgatory.service.auth.access import Access
from purgatory.service.auth.token_store import TokenStore

PURGATORY = str(Path(sys.executable).with_name("purgatory"))
KINDS = 20
FLUSHED = 10_000
PATIENCE_S = 120.0
RIGHTS = {"all jobs": ["administer"], "own": ["read"]}
# Runs in the page before the page's own script does.
WATCH = """
addEventListener("click", () => { window.begun = performance.now(); }, true);
new MutationObserver(() => {
  const parts = ["#main tbody tr", "nav.chips a", "#troubles li"];
  if (window.shown === undefined && parts.every((each) => document.querySelector(each))) {
    requestAnimationFrame(() => { window.shown ??= performance.now() - (window.begun ?? 0); });
  }
}).observe(document, {subtree: true, childList: true});
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rows = measure(Path(directory), arguments.jobs, arguments.repeats)
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}")
    title = f"The console's first view with {arguments.jobs:,} jobs, ms"
    print(table(title, ["", "sign in", "again", "new"], rows))


def measure(directory: Path, jobs: int, repeats: int) -> list[list[str]]:
    """Return the rows of the table."""
    address, http = f"tcp://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    most = ["--max-pending", str(2 * jobs), "--max-pending-per-client", str(2 * jobs)]
    serve = ["serve", "--data-dir", "data", "--bind", address, "--http-bind", "", *most]
    server = Process([PURGATORY, *serve], directory)
    gate = ["gateway", "--data-dir", "data", "--address", address, "--bind", http]
    gateway = Process([PURGATORY, *gate], directory)
    try:
        fill(address, jobs)
        tokens = TokenStore(directory / "data" / "keys")
        with sync_playwright() as playwright:
            found = shutil.which("chromium") or shutil.which("chromium-browser")
            chromium = playwright.chromium
            browser = chromium.launch(executable_path=found, args=["--no-sandbox"])
            return [
                [name, *views(browser, f"http://{http}/console", token, repeats)]
                for name, rights in RIGHTS.items()
                for token in [tokens.new(Access("shop", rights=rights))]
            ]
    finally:
        gateway.end()
        server.end()


def fill(address: str, jobs: int) -> None:
    """Schedule jobs; a tenth of them is due."""
    with Client(address, name="shop", timeout=PATIENCE_S) as client:
        for n in range(jobs):
            delay = 86_400 + n % 50_000 if n % 10 else 0
            client.schedule_later(delay, kind=f"kind {n % KINDS}", job_id=f"job-{n}")
            if n % FLUSHED == FLUSHED - 1:
                client.flush()
        client.flush()


def views(browser: Browser, url: str, token: str, repeats: int) -> list[str]:
    """Return the medians of the three ways to the first view."""
    times: dict[str, list[float]] = {"sign in": [], "again": [], "new": []}
    for _ in range(repeats):
        page = new_page(browser)
        page.goto(url)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        times["sign in"].append(shown(page))
        page.reload(wait_until="commit")
        times["again"].append(shown(page))
        page.context.close()
        page = new_page(browser, f"sessionStorage.setItem('purgatory-token', {token!r});")
        page.goto(url, wait_until="commit")
        times["new"].append(shown(page))
        page.context.close()
    return [f"{statistics.median(some):.0f}" for some in times.values()]


def new_page(browser: Browser, script: str = "") -> Page:
    """Return a page of a new profile."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_S * 1000)
    context.add_init_script(script + WATCH)
    return context.new_page()


def shown(page: Page) -> float:
    """Wait until the view is there; returns how many milliseconds that took."""
    for part in ("#main tbody tr", "nav.chips a", "#troubles li"):
        page.locator(part).first.wait_for()
    found: Any = page.evaluate("new Promise(r => requestAnimationFrame(() => r(window.shown)))")
    return float(found)


if __name__ == "__main__":
    main()
