"""What tests of pages and pictures share."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
"""Where each page that a test opened is kept as it was at the end of the test, to look at."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium is installed: apt install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=program, args=sandbox)
        pages = _Photographed(opened)
        yield pages
        pages.close()
        opened.close()


class _Photographed:
    """A browser whose pages leave a screenshot behind, named by the test that opened them."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.pages: list[Any] = []

    def close(self) -> None:
        """Closes the pages that tests have left open."""
        for page in self.pages:
            if not page.is_closed():
                page.close()

    def new_page(self, **options: Any) -> Any:
        """A page, which is photographed when it is closed."""
        page = self.browser.new_page(**options)
        test = os.environ["PYTEST_CURRENT_TEST"].partition(" (")[0].partition("diagrams/")[2]
        name = re.sub(r"[^\w.-]+", "-", test).strip("-")
        self.pages.append(page)
        number = len(self.pages)
        close = page.close

        def keep_and_close() -> None:
            SHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SHOTS / f"{name}-{number}.png")
            close()

        page.close = keep_and_close
        return page
