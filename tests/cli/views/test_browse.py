"""`explore` runs as long as its page is open."""

import gc
from typing import Any

import pytest
import typer

from epochfence import loopback
from epochfence.cli.views import browse
from epochfence.garbage import BY_DEFAULT


def test_python_looks_for_garbage_as_often_as_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, int]] = []

    class Server:
        def run(self, **_: Any) -> None:
            seen.append(gc.get_threshold())
            raise KeyboardInterrupt

    monkeypatch.setattr(loopback, "http_server", lambda _: Server())
    before = gc.get_threshold()
    assert before != BY_DEFAULT, "tests have it look seldom, as main() does"
    with pytest.raises(typer.Exit):
        browse._serve(None, "lease", 0, "")  # pyright: ignore[reportArgumentType, reportPrivateUsage]
    assert seen == [BY_DEFAULT]
    assert gc.get_threshold() == before
