"""Pictures of pages for the documentation, by a headless Chromium."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright


def shot(page: Path, picture: Path, size: ViewportSize, *keys: str) -> None:
    """Writes what a page shows in a window of this size, once these keys were pressed."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=sandbox)
        shown = browser.new_page(viewport=size, color_scheme="light")
        shown.goto(page.as_uri())
        for key in keys:
            shown.keyboard.press(key)
        shown.screenshot(path=picture)
        browser.close()
