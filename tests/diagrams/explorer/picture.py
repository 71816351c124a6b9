"""The picture of docs/explore.md: `python tests/diagrams/explorer/picture.py` takes it again."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

import uvicorn
from playwright.sync_api import ViewportSize, sync_playwright

from epochfence.diagrams.explorer.app import application
from epochfence.diagrams.explorer.explorer import Explorer
from epochfence.diagrams.explorer.until import until
from epochfence.tests.diagrams.explorer.test_app import lease_at

PICTURE = Path(__file__).parents[3] / "docs" / "explore.png"
SIZE: ViewportSize = {"width": 1280, "height": 760}


def main() -> None:
    """Writes the picture: the lease at release 1 before the step that breaks it, with 2 beside."""
    explorer = Explorer(lease_at("1"), ["2"], lease_at)
    session = explorer.session
    found = until(session.instance, session.initials[0], "NoStaleWrite is broken", explorer.places)
    link = explorer.link(session.extended((0,), found.states[:-1]), "2")
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application(explorer), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=sandbox)
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/#{link}")
        page.wait_for_selector(".other")
        page.wait_for_selector("#theatre[aria-busy=false]")
        page.screenshot(path=PICTURE)
        browser.close()
    server.should_exit = True
    thread.join()


if __name__ == "__main__":
    main()
