"""The vectors of a release, searched for once in a process."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from epochfence.model.vectors.search import Search
from epochfence.model.vectors.written import text, vectors

RELEASE = "4.3"


@cache
def written(of: str) -> dict[str, Any]:
    return json.loads(text(vectors(search(), of)))


@cache
def search() -> Search:
    return Search(RELEASE)
