"""The picture of docs/traces.md: `python tests/diagrams/levels/picture.py TRACE` takes it again, of
the hanging transaction's trace."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from epochfence.cli import app
from epochfence.tests.diagrams.shots import shot

PICTURE = Path(__file__).parents[3] / "docs" / "levels.png"
STEP = 14  # at which the coordinator has decided to abort


def main(trace: Path) -> None:
    """Writes the picture."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        words = ["diagram", "transactions", "-o", str(page), "--trace", str(trace)]
        CliRunner().invoke(app, words, catch_exceptions=False)
        shot(page, PICTURE, {"width": 1280, "height": 800}, *["ArrowRight"] * STEP)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
