"""What tests of the console share: a page in a browser that has signed in, and jobs to look at."""

import os
import shutil
from contextlib import ExitStack

import pytest

from purgatory.service import Worker
from purgatory.service.auth.access import Access
from tests.testing.purgatory_harness import HANG

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
#: Texts that are a script, a tag or an attribute where a program takes them for markup.
HOSTILE = '"><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'


def playwright():
    """Return playwright; skips the module where there is no browser, but for CI."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None and "CI" not in os.environ:
        pytest.skip("there is no chromium here", allow_module_level=True)
    return sync_api


class Console:
    """A browser's page of a gateway's console; records what it loads, and what goes wrong."""

    def __init__(self, pages, gateway, **options):
        self.gateway = gateway
        self.requests, self.troubles, self.expected = [], [], []
        listeners = {
            "pageerror": lambda error: self.troubles.append(str(error)),
            "request": lambda request: self.requests.append(request),
            "console": self._note,
        }
        self._lent = ExitStack()
        self.page = self._lent.enter_context(
            pages.open(listeners, **{"viewport": DESKTOP} | options)
        )
        self.actions = 0

    def _note(self, line):
        if line.type == "error" and not any(word in line.text for word in self.expected):
            self.troubles.append(line.text)

    def sign_in(self, name="shop", rights=("submit", "complete", "read", "work"), where=""):
        """Open the console and type a new token; returns the page."""
        self.token = self.gateway.tokens.new(Access(name, rights=rights))
        self.page.goto(f"{self.gateway.url}/console{where}")
        self.page.get_by_label("Token").fill(self.token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()
        return self.page

    def show(self, view):
        """Go to another view, without loading the console anew; the view reads its rows later."""
        self.page.evaluate(
            """view => new Promise(shown => {
                window.addEventListener("hashchange", () => shown(), { once: true });
                location.hash = view;
            })""",
            view,
        )

    def click(self, role, name, exact=True):
        """Click something: one action of an operator."""
        self.actions += 1
        self.page.get_by_role(role, name=name, exact=exact).click()

    def enter(self, label, text, press=True):
        """Type a text, and press Enter if that is the end of it: one action."""
        self.actions += press
        field = self.page.get_by_label(label, exact=True)
        field.fill(text)
        if press:
            field.press("Enter")

    def told(self, text):
        """Wait for a message: what it tells of is on disk."""
        self.page.locator("#notices").get_by_text(text).wait_for()

    def close(self):
        """Give the page back; check that it had no error, and loaded nothing from elsewhere."""
        self._lent.close()
        assert not self.troubles, self.troubles
        for request in self.requests:
            assert request.url.startswith(self.gateway.url + "/"), request.url
            assert not hasattr(self, "token") or self.token not in request.url


def make_dead(client, *job_ids, kind="mail", error="no such address", **options):
    """Have attempts at jobs fail for good."""
    worker = Worker(client.address, name=client.name, max_attempts=1)

    @worker.on(kind)
    def fail(job):
        raise ValueError(error)

    with worker:
        for job_id in job_ids:
            client.schedule(0, kind=kind, job_id=job_id, **options)
        for job_id in job_ids:
            with pytest.raises(Exception, match=r"(?s)."):
                client.result(job_id, HANG)
