"""The pages and drawings that `make docs` generates, and the digest of each.

The site is built with them (docs/.theme/hooks.py). The repository has their digests only:
`python tests/generated.py` renews tests/generated.sha256, and the drawings that README shows.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from epochfence.diagrams.pages import pages
from epochfence.diagrams.reference import affected, error_pages, rule_pages
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.tests import house, speed
from epochfence.tests.model.serve import apis_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DIGESTS = ROOT / "tests" / "generated.sha256"
TRACKED = ("diagrams/transactions-transaction.svg", speed.PICTURE)
"""The drawings that README shows: the repository has these too."""


@cache
def generated() -> dict[str, bytes]:
    """Each generated file by its path in docs/."""
    return {
        **pages(map(shipped, SHIPPED)),
        **error_pages.pages(),
        **rule_pages.pages(),
        **affected.pages(),
        house.PAGE: house.page().encode(),
        house.PICTURE: house.picture(),
        speed.PICTURE: speed.picture(),
        apis_page.PAGE: apis_page.page().encode(),
    }


def digests() -> dict[str, str]:
    """The digest of each generated file, as it is now."""
    return {name: sha256(content).hexdigest() for name, content in generated().items()}


def recorded() -> dict[str, str]:
    """The digest of each generated file, as the repository has it."""
    lines = DIGESTS.read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def renew() -> None:
    """Writes the digests, one line for each file, and the tracked drawings."""
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests().items())]
    DIGESTS.write_text("".join(lines), encoding="utf-8")
    for name in TRACKED:
        (DOCS / name).write_bytes(generated()[name])


if __name__ == "__main__":
    renew()
