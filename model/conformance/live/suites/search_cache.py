"""A cache of the directed suite's searches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from ...possible_states import RowName
from .directed_suite import Way

_PACKAGE: Final = Path(__file__).parents[4]
_SOURCES: Final = ("language", "model", "spec")
"""The folders that a search depends on: the tables, and the code that runs them."""


class Cache(Protocol):
    """Bytes under keys; a key is a hexadecimal digest."""

    def get(self, key: str) -> bytes | None:
        """The bytes under the key, or None."""
        ...

    def put(self, key: str, code: bytes, /) -> None:
        """Stores bytes under the key."""
        ...


class Searches:
    """A cache of search results. The keys are digests of the search's arguments and of the
    sources."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def found(
        self, arguments: Mapping[str, Any], search: Callable[[], Mapping[RowName, Way]]
    ) -> Mapping[RowName, Way]:
        """The ways that this search finds. The search runs only if the cache doesn't have them."""
        key = hashlib.sha256(f"{json.dumps(arguments, sort_keys=True)} {_sources()}".encode())
        known = self._cache.get(key.hexdigest())
        if known is not None:
            return {
                RowName(*row): Way(tuple(lines), races) for row, lines, races in json.loads(known)
            }
        found = search()
        kept = [[row, way.lines, way.races] for row, way in found.items()]
        self._cache.put(key.hexdigest(), json.dumps(kept).encode())
        return found


def _sources() -> str:
    """A digest of the sources."""
    found = hashlib.sha256()
    for path in sorted(each for room in _SOURCES for each in (_PACKAGE / room).rglob("*.py")):
        found.update(path.relative_to(_PACKAGE).as_posix().encode())
        found.update(path.read_bytes())
    return found.hexdigest()
