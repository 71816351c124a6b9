"""The generated pages are those of the recorded digests. The site is built with them, and each of
its pages can be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from epochfence.tests.diagrams.playground.test_page import CONTRAST
from epochfence.tests.diagrams.report.test_page import MEASURE
from epochfence.tests.generated import DOCS, ROOT, TRACKED, digests, generated, recorded

pytestmark = [pytest.mark.slow, pytest.mark.together]  # the pages are generated once
RENEW = "python tests/generated.py renews it"
KINDS = (
    "", "tour/", "playground/", "findings/", "findings/1/", "bugs/", "bugs/kafka-14402/", "rules/",
    "rules/3/", "protocol/", "protocol/producer/", "errors/NOT_COORDINATOR/", "matrix/",
    "proofs/5/", "performance/", "language/types/", "serve-apis/", "zh/", "zh/checked/",
    "zh/semantics/", "zh/rules/", "404.html",
)  # fmt: skip
"""A page of each kind: with charts, tables, programs, drawings, and in Chinese."""
REPOSITORY = "https://127.0.0.2/epochfence"
WIDTHS = (1366, 390)
LEAST_PRINT = 10  # px
MOST_SCREENS = 12
# A page's colours fade into those of the other theme.
AT_ONCE = """() => {
  const style = document.head.appendChild(document.createElement('style'));
  style.textContent = '* { transition: none !important; }';
}"""
SCHEME = "(name) => document.body.setAttribute('data-md-color-scheme', name)"
SCREENS = "() => document.documentElement.scrollHeight / innerHeight"
WIDE_CODE = """() => [...document.querySelectorAll('pre, pre code')]
  .filter((of) => of.scrollWidth > of.clientWidth).map((of) => of.innerText)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, without the playground, which has tests of its own."""
    at = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REPOSITORY_URL", REPOSITORY)
        config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(at))
    config.extra["playground"] = False
    build(config)
    return at


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Where the site is served."""
    with served(folder) as at:
        yield at


class Quiet(SimpleHTTPRequestHandler):
    """Files, without a line for each request."""

    def log_message(self, format: str, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder's files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Visit:
    """A tab, with the errors of its console and the requests to other hosts."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.page = browser.new_page(viewport={"width": 1366, "height": 768}, **options)
        self.address = address
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(url)

    def problems(self, name: str, *schemes: str) -> list[Any]:
        """What is wrong with the look of a page, at each width and in these themes."""
        self.page.set_viewport_size({"width": 1366, "height": 768})
        self.page.goto(self.address + name, timeout=120_000)
        self.page.evaluate(AT_ONCE)
        found: list[Any] = []
        if (screens := self.page.evaluate(SCREENS)) > MOST_SCREENS:
            found.append(f"{screens:.1f} screens")
        found += self.page.evaluate(WIDE_CODE)
        for scheme in schemes:
            self.page.evaluate(SCHEME, scheme)
            found += [(scheme, *text) for text in self.page.evaluate(CONTRAST)]
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 768})
            least, widest = self.page.evaluate(MEASURE)
            found += [f"text of {least} px"] if least < LEAST_PRINT else []
            found += [f"{widest} wide at {width}"] if widest > width else []
        found += self.wrong
        self.wrong.clear()
        return [(name, *found)] if found else []


def test_the_digests_are_those_of_the_pages() -> None:
    old, new = recorded(), digests()
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    assert changed == [], RENEW


def test_the_digests_are_sorted_and_each_page_has_one() -> None:
    names = [*recorded()]
    assert names == sorted({*names})


@pytest.mark.parametrize("name", TRACKED)
def test_the_drawings_of_readme_are_current(name: str) -> None:
    assert (DOCS / name).read_bytes() == generated()[name], RENEW
    assert f"docs/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_site_has_each_generated_page(folder: Path) -> None:
    assert (folder / "language" / "index.html").exists()
    for name in generated():
        built = Path(name).with_suffix("") / "index.html" if name.endswith(".md") else Path(name)
        assert (folder / built).is_file(), name
    index = (folder / "index.html").read_text()
    assert 'href="protocol/transaction/"' in index
    assert f'href="{REPOSITORY}"' in index


def test_a_page_of_each_kind_can_be_read(browser: Any, address: str) -> None:
    visit = Visit(browser, address)
    assert [one for name in KINDS for one in visit.problems(name, "default", "slate")] == []


def test_what_is_wrong_with_a_page_is_seen(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        "<body style='background: #fff; margin: 0'><p style='color: #aaa; font-size: 9px'>grey</p>"
        "<img src='http://127.0.0.2:1/x.svg'><pre style='overflow: auto; width: 9em'>"
        "a line that is too long for its block</pre><div style='width: 1400px; height: 9999px'>"
    )
    with served(tmp_path) as address:
        ((_, *found),) = Visit(browser, address).problems("", "default")
    assert found[:2] == ["13.1 screens", "a line that is too long for its block"]
    assert [scheme for scheme, text, _ in found[2:3]] == ["default"]
    assert found[3:7] == ["text of 9 px", "1400 wide at 1366", "text of 9 px", "1400 wide at 390"]
    assert "http://127.0.0.2:1/x.svg" in found[7:]
