"""What writes a result for others to read: as a page, and as the test cases of a test runner."""

from __future__ import annotations

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
    page: Output | None, junit: Output | None, result: Result, instance: Instance
) -> None:
    """Writes the result to where it is wanted. Raises CantWrite."""
    if page is not None:
        from ..diagrams.report.page import to_html

        page.write(to_html(instance, result))
    if junit is not None:
        from ..checker.junit import to_junit

        junit.write(to_junit(instance, result))
