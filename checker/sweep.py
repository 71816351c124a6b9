"""One system under many releases and constants: independent explorations, and a table of them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import psutil

from ..spec.language import DEFAULT, DeclarationError, Instance, Protocols, System, instantiate
from .check import Options, available_threads, check
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


# Results that are kept ---------------------------------------------------------------------------


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


class SweepError(Exception):
    """A file of results that can't be used."""


class Kept:
    """Results in a file of JSON lines, each written as soon as it is there.

    Raises SweepError where the file can't be read or written, or isn't of a sweep.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self.digest = path, digest
        self.found: dict[str, dict[str, Any]] = {}
        try:
            whole = path.read_bytes() if path.exists() else b""
            lines = whole.splitlines(keepends=True)
            if lines and not lines[-1].endswith(b"\n"):  # a run was killed as it wrote
                whole = whole[: -len(lines.pop())]
                path.write_bytes(whole)
            for number, line in enumerate(lines, 1):
                try:
                    told = json.loads(line)
                    if told["digest"] == digest:
                        self.found[_key(told["chosen"])] = told["result"]
                except (ValueError, KeyError, TypeError):
                    raise SweepError(f"{path}, line {number}: no result of a sweep") from None
            with path.open("ab"):
                pass
        except OSError as error:
            raise SweepError(f"can't use {path}: {error.strerror}") from None

    def get(self, piece: Piece) -> dict[str, Any] | None:
        """The result that is there already."""
        return self.found.get(_key(piece.chosen))

    def add(self, piece: Piece, result: dict[str, Any]) -> None:
        """Keeps a result."""
        line = {"digest": self.digest, "chosen": piece.chosen, "result": result}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _key(chosen: Mapping[str, Any]) -> str:
    return json.dumps(chosen, sort_keys=True)


def sweep(
    every: Sequence[Piece],
    spread: Spread = _ALONE,
    kept: Kept | None = None,
    on_result: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """The results of all pieces, in their order; those that are `kept` aren't explored again.

    Raises SparkError, and DeclarationError for a declaration that is faulty as a whole.
    """
    results = [kept.get(piece) if kept is not None else None for piece in every]
    left = [at for at, result in enumerate(results) if result is None]
    name = f"sweep {every[0].system.name}" if every else "sweep"
    for at, result in spread.each(explore, [every[at] for at in left], name):
        results[left[at]] = result
        if kept is not None:
            kept.add(every[left[at]], result)
        if on_result is not None:
            on_result(result)
    return [result for result in results if result is not None]


def worst(results: Sequence[Mapping[str, Any]]) -> Verdict:
    """What a sweep comes to: something broken, a deadlock, something not decided, or all holds."""
    found = {Verdict(result["exit_code"]) for result in results}
    order = (Verdict.BROKEN, Verdict.DEADLOCK, Verdict.INCONCLUSIVE)
    return next((verdict for verdict in order if verdict in found), Verdict.HOLDS)
