"""The generated pages are those of the recorded digests, and the site is built with them."""

from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from epochfence.tests.generated import DOCS, ROOT, TRACKED, digests, generated, recorded

pytestmark = [pytest.mark.slow, pytest.mark.together]  # the pages are generated once
RENEW = "python tests/generated.py renews it"


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


def test_the_site_builds(tmp_path: Path) -> None:
    without = {"playground": False}  # which has tests of its own
    at = str(tmp_path)
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=at, extra=without))
    assert (tmp_path / "language" / "index.html").exists()
    for name in generated():
        built = Path(name).with_suffix("") / "index.html" if name.endswith(".md") else Path(name)
        assert (tmp_path / built).is_file(), name
    assert 'href="protocol/transaction/"' in (tmp_path / "index.html").read_text()
