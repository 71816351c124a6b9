"""One system under many releases and constants: independent explorations, and a table of them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import psutil

from ..spec.language import DEFAULT, DeclarationError, Instance, Protocols, System, instantiate
from .check import Options, available_threads, check
from .kept import Kept
from .spread import Spread
from .verdict import Verdict

_ALONE = Spread()


@dataclass(frozen=True)
class Piece:
    """An exploration of a sweep: a system with a release and constants, ready to be sent."""

    system: System
    protocol: str
    constants: tuple[tuple[str, int], ...]
    bounds: str = DEFAULT
    switch_on: tuple[str, ...] = ()
    switch_off: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    memory: int = 0
    """In bytes; 0 for three quarters of what is free where it runs, shared by its cores."""

    @property
    def chosen(self) -> dict[str, Any]:
        """What tells it from the others of its sweep."""
        return {"protocol": self.protocol, **dict(self.constants)}

    def instance(self) -> Instance:
        """The instance to explore. Raises DeclarationError."""
        return instantiate(
            self.system, self.protocol, dict(self.constants), bounds=self.bounds,
            switch_on=self.switch_on, switch_off=self.switch_off,
            properties=self.properties or None,
        )  # fmt: skip


def explore(piece: Piece) -> dict[str, Any]:
    """The result of one exploration as plain data, in one thread."""
    share = psutil.virtual_memory().available * 3 // (4 * available_threads())
    return check(piece.instance(), Options(memory=piece.memory or share)).as_json()


def pieces(
    system: System,
    protocols: Sequence[str],
    constants: Mapping[str, Sequence[int]],
    **rest: Any,
) -> list[Piece]:
    """Every combination of these releases and values; the last constant changes fastest.

    Raises DeclarationError for one that can't be instantiated.
    """
    found = [
        Piece(system, protocol, tuple(zip(constants, values, strict=True)), **rest)
        for protocol in protocols
        for values in product(*constants.values())
    ]
    for piece in found:
        piece.instance()
    return found


def _ranges(text: str) -> Iterator[tuple[str, str]]:
    """The ends of each range of a list; a single value is both ends of its own."""
    for part in text.split(","):
        first, to, last = part.partition("..")
        yield first, last if to else first


def releases(text: str, protocols: Protocols) -> list[str]:
    """The releases of a range as in `2.0..4.3`, or of a list as in `2.5,4.3`.

    Raises DeclarationError for one that there is not.
    """
    known = list(protocols.releases)
    found: list[str] = []
    for first, last in _ranges(text):
        for name in (first, last):
            if name not in known:
                raise DeclarationError(f"no protocol is called {name}: take {', '.join(known)}")
        low, high = known.index(first), known.index(last)
        if low > high:
            raise DeclarationError(f"{first}..{last}: {first} is newer than {last}")
        found += [name for name in known[low : high + 1] if name not in found]
    return found


def values(text: str) -> list[int]:
    """The numbers of a range as in `1..3`, or of a list as in `1,2,5`. Raises ValueError."""
    found: list[int] = []
    for first, last in _ranges(text):
        numbers = range(int(first), int(last) + 1)
        if not numbers:
            raise ValueError(text)
        found += [number for number in numbers if number not in found]
    return found


def digest(piece: Piece) -> str:
    """A hash of all that a piece's result depends on."""
    folder = Path(__file__).resolve().parent.parent
    files = [*(folder / "spec").rglob("*.py"), *(folder / "checker").glob("*.py")]
    own = [
        getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if name.startswith("_declared_")
    ]
    files += [Path(file) for file in own if file]
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(file.read_bytes())
    rest = (piece.system.name, piece.bounds, piece.switch_on, piece.switch_off, piece.properties)
    found.update(repr(rest).encode())
    return found.hexdigest()


def sweep(
    every: Sequence[Piece],
    spread: Spread = _ALONE,
    kept: Kept | None = None,
    on_result: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """The results of all pieces, in their order; those that are `kept` aren't explored again.

    Raises SparkError, and DeclarationError for a declaration that is faulty as a whole.
    """
    results = [kept.get(piece.chosen) if kept is not None else None for piece in every]
    left = [at for at, result in enumerate(results) if result is None]
    name = f"sweep {every[0].system.name}" if every else "sweep"
    for at, result in spread.each(explore, [every[at] for at in left], name):
        results[left[at]] = result
        if kept is not None:
            kept.add(every[left[at]].chosen, result)
        if on_result is not None:
            on_result(result)
    return [result for result in results if result is not None]


def worst(results: Sequence[Mapping[str, Any]]) -> Verdict:
    """What a sweep comes to: something broken, a deadlock, something not decided, or all holds."""
    found = {Verdict(result["exit_code"]) for result in results}
    order = (Verdict.BROKEN, Verdict.DEADLOCK, Verdict.INCONCLUSIVE)
    return next((verdict for verdict in order if verdict in found), Verdict.HOLDS)
