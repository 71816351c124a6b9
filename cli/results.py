"""What shows a result, or writes it for others: as a page, as the test cases of a test runner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..files import Output
from ..language import Instance
from .endings import needing

if TYPE_CHECKING:
    from ..checker.verdict import Result


def needed_for(page: Output | None) -> None:
    """Ends with one line where the page couldn't be written for want of a package."""
    if page is not None:
        with needing("check"):
            from ..diagrams.report import page as _  # noqa: F401


def write_pages(
    page: Output | None, junit: Output | None, sarif: Output | None, result: Result,
    instance: Instance,
) -> None:  # fmt: skip
    """Writes the result to where it is wanted. Raises CantWrite."""
    if page is not None:
        from ..diagrams.report.page import to_html

        page.write(to_html(instance, result))
    if junit is not None:
        from ..checker.junit import to_junit

        junit.write(to_junit(instance, result))
    if sarif is not None:
        from ..checker.sarif import to_sarif

        sarif.write(to_sarif(instance, result, Path.cwd()))
