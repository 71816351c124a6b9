"""Writes a result for other tools: as an HTML page, JUnit or SARIF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..files import Output
from ..language import Instance
from .exits import needing

if TYPE_CHECKING:
    from ..checker.verdict.result import Covered


def needed_for(page: Output | None) -> None:
    """Exits with one line if a package is missing that the page needs."""
    if page is not None:
        with needing("check"):
            from ..diagrams.report import page as _  # noqa: F401


def write_pages(
    page: Output | None,
    junit: Output | None,
    sarif: Output | None,
    result: Covered,
    instance: Instance,
) -> None:
    """Writes the result to each output that is given. Raises CantWriteError."""
    if page is not None:
        from ..diagrams.report.page import to_html

        page.write(to_html(instance, result))
    if junit is not None:
        from ..checker.output.junit import to_junit

        junit.write(to_junit(instance, result))
    if sarif is not None:
        from ..checker.output.sarif import to_sarif

        sarif.write(to_sarif(instance, result, Path.cwd()))
