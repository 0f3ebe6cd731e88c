"""BrowserPages: pages of a browser, which one test uses after another."""

from collections import defaultdict
from contextlib import contextmanager

from tests.testing.purgatory_harness import HANG

_FORGET = "() => { try { sessionStorage.clear() } catch { /* about:blank has none */ } }"


class BrowserPages:
    """Pages with the same options are used again: a new window costs the browser 0.3 s of CPU.

    A page keeps what a test has emulated: such a test closes its page.
    """

    def __init__(self, browser):
        self._browser = browser
        self._free = defaultdict(list)

    @contextmanager
    def open(self, listeners, **options):
        """Lend an empty page with listeners by event; it loads nothing more afterwards."""
        free = self._free[repr(sorted(options.items()))]
        page = free.pop() if free else self._browser.new_context(**options).new_page()
        page.set_default_timeout(HANG * 1000)
        for event, listener in listeners.items():
            page.on(event, listener)
        yield page
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        if page.is_closed():
            page.context.close()
            return
        page.unroute_all()
        page.mouse.move(0, 0)
        page.evaluate(_FORGET)
        page.goto("about:blank")
        free.append(page)
