"""One Chromium for all tests of the page, and the server that they look at."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bucketlake.ui.server import Address, Limits, Running

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
SETTLED = "() => [...document.querySelectorAll('.panel[data-state]')].every(p => !['loading', 'waiting'].includes(p.dataset.state))"
FITS = "width => innerWidth === width && document.documentElement.scrollWidth <= document.documentElement.clientWidth"
VISIT = (
    "async () => { for (const one of document.querySelectorAll('.panel')) { one.scrollIntoView();"
    " await new Promise(done => requestAnimationFrame(() => setTimeout(done, 30))); } scrollTo(0, 0); }"
)


def chromium() -> str:
    """The browser's program; the test is skipped where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("PEER MISSING: chromium (Debian's package)")
    return found


@contextmanager
def served(catalog: Any, **limits: Any) -> Iterator[Running]:
    """A server of the page in a thread."""
    running = Running(catalog, Address(port=0), Limits(**limits))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join(20)


class Window:
    """A page of the browser that remembers whatever should not be: errors, refused loads, requests to others."""

    def __init__(self, browser: Any, running: Running, width: int = 1280, theme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce"
        )
        self.context.set_default_timeout(15_000)
        self.page = self.context.new_page()
        self.running = running
        self.wrong: list[str] = []
        self.meant: str | None = None
        """What a test provokes: such texts of the console, however late they come, are not wrong."""
        self.page.on("console", lambda m: self._said(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda r: None if r.url.startswith(running.origin) else self.wrong.append(r.url))
        self.page.goto(running.url)
        self.page.wait_for_url(f"{running.origin}/")
        self.page.wait_for_selector("#mode:not([hidden])")

    def _said(self, text: str) -> None:
        if self.meant is None or self.meant not in text:
            self.wrong.append(text)

    def anew(self) -> None:
        """Go back to where everything begins."""
        self.page.set_viewport_size({"width": 1280, "height": 900})
        self.page.emulate_media(color_scheme="light", media="screen")
        self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        self.meant = None
        self.wrong.clear()
        self.page.goto(f"{self.running.origin}/")
        self.page.wait_for_selector("#mode:not([hidden])")

    def room(self, table: str, room: str) -> Any:
        """Go to a part of a table and wait until all figures are there."""
        self.page.goto(f"{self.running.origin}/#/table/{table}/{room}")
        self.page.wait_for_selector(".figures")
        self.page.wait_for_selector(".panel")
        self.settle()
        return self.page

    def settle(self) -> None:
        self.page.evaluate(VISIT)
        self.page.wait_for_function(SETTLED)

    def states(self) -> dict[str, str]:
        """The state of every figure by its name."""
        pairs = self.page.eval_on_selector_all(".panel", "all => all.map(p => [p.dataset.panel, p.dataset.state])")
        return dict(pairs)

    def resize(self, width: int) -> None:
        """Give the window this width and wait until the page fits into it; figures are drawn anew a moment later.

        Raises:
            playwright.TimeoutError: the page stays wider than its window.
        """
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.wait_for_function(FITS, arg=width)

    def takes_theme(self, theme: str) -> None:
        """Wait until the page wears a theme: the browser tells it of a change some time later."""
        self.page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)

    def picture(self, name: str, clip: dict[str, int] | None = None) -> None:
        """A picture for the documents, where they are asked for."""
        folder = os.environ.get("BUCKETLAKE_PICTURES")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=f"{folder}/{name}.png", clip=clip)

    def close(self) -> None:
        self.context.close()
