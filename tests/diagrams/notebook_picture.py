"""The picture of docs/notebooks.md: `python tests/diagrams/notebook_picture.py` takes it again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.diagrams.notebook import html
from epochfence.language import instantiate
from epochfence.tests.diagrams.shots import shot

DOCS = Path(__file__).parents[2] / "docs"
STYLE = "<meta charset='utf-8'><style>body { font: 14px Arial, sans-serif; margin: 12px }</style>"


def main() -> None:
    """Writes the picture: the begin of a run as a table, and a result, one below the other."""
    lease = load_system(str(DOCS / "examples" / "lease.py"))
    result = check(instantiate(lease, "1"), Options(keep_states=True))
    parts = html(result.data.trace().slice(0, 4)), html(result)
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(STYLE + "<br>".join(filter(None, parts)), encoding="utf-8")
        shot(page, DOCS / "notebook.png", {"width": 1000, "height": 800})


if __name__ == "__main__":
    main()
