"""The picture of docs/traces.md: `python tests/diagrams/levels/picture.py TRACE` takes it anew, of
the hanging transaction's trace."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import ViewportSize, sync_playwright
from typer.testing import CliRunner

from epochfence.cli import app

PICTURE = Path(__file__).parents[3] / "docs" / "levels.png"
SIZE: ViewportSize = {"width": 1280, "height": 800}
STEP = 14


def main(trace: Path) -> None:
    """Writes the picture: the coordinator's states where it has decided to abort."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        words = ["diagram", "transactions", "-o", str(page), "--trace", str(trace)]
        CliRunner().invoke(app, words, catch_exceptions=False)
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        with sync_playwright() as running:
            browser = running.chromium.launch(executable_path=program, args=sandbox)
            shown = browser.new_page(viewport=SIZE, color_scheme="light")
            shown.goto(page.as_uri())
            for _ in range(STEP):
                shown.keyboard.press("ArrowRight")
            shown.screenshot(path=PICTURE)
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
