"""One system under many releases and constants: independent explorations, and a table of them."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

from ...checksums import checksum, program
from ...language import DEFAULT, DeclarationError, Instance, Protocols, System, instantiate
from ...language.declaration.arguments import one_of
from ...language.protocols import MIXED
from ..check import Options, check
from ..native.jit.memory import fair_limit
from ..prepare import available_threads
from ..verdict.result import Verdict
from ..verdict.violation import RANGE
from .journal import Journal
from .workers import Workers

_ALONE = Workers()
MOST_PIECES = 10_000


@dataclass(frozen=True)
class Piece:
    """An exploration of a sweep: a system with a release and constants, as data for another
    process.
    """

    system: System
    protocol: str
    constants: tuple[tuple[str, int], ...]
    bounds: str = DEFAULT
    switch_on: tuple[str, ...] = ()
    switch_off: tuple[str, ...] = ()
    properties: tuple[str, ...] | None = None
    """The checked properties; None: all."""
    deadlock: bool = True
    strict: bool = False
    keep_going: bool = False
    brief: bool = False
    counterexamples_only: bool = False
    memory: int = 0
    """In bytes. 0: three quarters of the free memory of its machine, shared by the cores."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings that differ between pieces explored together."""
        return {
            "protocol": self.protocol,
            "constants": dict(self.constants),
            "bounds": self.bounds,
            "on": sorted(self.switch_on),
            "off": sorted(self.switch_off),
            "properties": self.properties,
            "deadlock": self.deadlock,
            "strict": self.strict,
            "keep_going": self.keep_going,
            "brief": self.brief,
            "counterexamples_only": self.counterexamples_only,
        }

    def instance(self, *, progress: bool = False) -> Instance:
        """The instance to explore, with the system's progress properties if `progress` is set.
        Raises DeclarationError.
        """
        return instantiate(
            self.system,
            self.protocol,
            dict(self.constants),
            bounds=self.bounds,
            switch_on=self.switch_on,
            switch_off=self.switch_off,
            properties=self.properties,
            progress=progress,
        )


def explore(piece: Piece) -> dict[str, Any]:
    """Explores a piece in one thread; returns the result as JSON data."""
    memory = piece.memory or fair_limit(available_threads())
    options = Options(
        memory=memory,
        deadlock=piece.deadlock,
        strict=piece.strict,
        keep_going=piece.keep_going,
        brief=piece.brief,
        counterexamples_only=piece.counterexamples_only,
    )
    return check(piece.instance(), options).as_json()


def pieces(
    system: System,
    protocols: Sequence[str],
    constants: Mapping[str, Sequence[int]],
    **rest: Any,
) -> list[Piece]:
    """Every combination of these releases and values; the last constant changes fastest.

    Raises DeclarationError for an invalid combination, and for too many.
    """
    many = math.prod(map(len, constants.values())) * len(protocols)
    if many > MOST_PIECES:
        raise DeclarationError(f"{many:,} runs are more than the limit of {MOST_PIECES:,}")
    found = [
        Piece(system, protocol, tuple(zip(constants, values, strict=True)), **rest)
        for protocol in protocols
        for values in product(*constants.values())
    ]
    for piece in found:
        piece.instance()
    return found


def _ranges(text: str) -> Iterator[tuple[str, str]]:
    """The ends of each range of a list. A single value is a range."""
    for part in text.split(","):
        first, to, last = part.partition("..")
        yield first, last if to else first


def releases(text: str, protocols: Protocols) -> list[str]:
    """The releases of a range such as `2.0..4.3`, or of a list such as `2.5,4.3`, which may contain
    mixed protocols such as `4.3+client=2.4`.

    Raises DeclarationError for an unknown release.
    """
    known = list(protocols.releases)
    found: list[str] = []
    for first, last in _ranges(text):
        if MIXED in first and first == last:
            protocols.releases_in(first)
            found += [] if first in found else [first]
            continue
        for name in (first, last):
            if name not in known:
                raise DeclarationError(f"unknown protocol {name}: {one_of(name, known)}")
        low, high = known.index(first), known.index(last)
        if low > high:
            raise DeclarationError(f"{first}..{last}: {first} is newer than {last}")
        found += [name for name in known[low : high + 1] if name not in found]
    return found


def values(text: str) -> list[int]:
    """The numbers of a range such as `1..3`, or of a list such as `1,2,5`.

    Raises ValueError for other text, DeclarationError for too many numbers.
    """
    found: list[int] = []
    for first, last in _ranges(text):
        low, high = int(first), int(last)
        if low > high:
            raise ValueError(text)
        if high - low >= MOST_PIECES:
            raise DeclarationError(f"{first}..{last}: name {MOST_PIECES:,} values or fewer")
        found += range(low, high + 1)
    return list(dict.fromkeys(found))


def digest(piece: Piece) -> str:
    """A hash of everything that a piece's result depends on, except what is `chosen`: the code of
    this package, and the whole declaration of the system."""
    return hashlib.sha256(code().encode() + _content(piece.system)).hexdigest()


def code(kinds: Iterable[str] = ("py",)) -> str:
    """A hash of the code of this package, in files of these kinds."""
    package = Path(__file__).resolve().parents[2]
    rooms = [package / name for name in ("language", "spec", "model", "checker")]
    found = hashlib.sha256(program().encode())
    for file in sorted(f for room in rooms for kind in kinds for f in room.rglob(f"*.{kind}")):
        found.update(checksum(file.read_bytes()).encode())
    return found.hexdigest()


class _Content(pickle.Pickler):
    """Pickles equal values to equal bytes, whether they are one object or several, with sorted sets
    and dictionaries. Equal parts of a declaration are one object.
    """

    def persistent_id(self, value: Any, /) -> Any:
        if type(value) is str:
            return value.encode("utf-8", "surrogatepass")
        if type(value) is tuple:
            return list(cast("tuple[Any, ...]", value))
        if isinstance(value, (set, frozenset)):
            return tuple(sorted(map(_content, cast("set[Any]", value))))
        if type(value) is dict:  # the order of imports may decide the order of fields
            pairs = cast("dict[Any, Any]", value).items()
            return dict(sorted(pairs, key=lambda pair: _content(pair[0])))
        return None

    def reducer_override(self, value: Any, /) -> Any:
        """The fields of a declaration, without computed values."""
        if is_dataclass(value) and not isinstance(value, type):
            return type(value), tuple(getattr(value, part.name) for part in fields(value))
        return NotImplemented


def _content(value: Any) -> bytes:
    """Bytes that are equal for equal values in all processes."""
    written = io.BytesIO()
    _Content(written, pickle.HIGHEST_PROTOCOL).dump(value)
    return written.getvalue()


def sweep(
    every: Sequence[Piece],
    workers: Workers = _ALONE,
    journal: Journal | None = None,
    on_result: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """The results of all pieces, in their order. A piece with a result in the `journal` isn't
    explored again, unless its run didn't finish.

    Ctrl-C ends it with the results so far, if there are any. Raises JournalError, SparkError, and
    DeclarationError if the whole declaration is wrong.
    """
    results = [_known(journal, piece) for piece in every]
    left = [at for at, result in enumerate(results) if result is None]
    name = f"sweep {every[0].system.name}" if every else "sweep"
    try:
        for at, result in workers.each(explore, [every[at] for at in left], name):
            if result["exit_code"] == Verdict.INTERRUPTED.value:
                raise KeyboardInterrupt
            results[left[at]] = result
            if journal is not None:
                journal.add(every[left[at]].chosen, result)
            if on_result is not None:
                on_result(result)
    except KeyboardInterrupt:
        if not any(results):
            raise
    return [result for result in results if result is not None]


def _known(journal: Journal | None, piece: Piece) -> dict[str, Any] | None:
    """The result in the journal. An unfinished one is repeated with more memory."""
    result = None if journal is None else journal.get(piece.chosen)
    if result is None or result["exit_code"] == Verdict.INCONCLUSIVE.value:
        return None
    verdicts = {item["name"]: item["verdict"] for item in result["properties"]}
    cut_short = piece.keep_going and "unknown" in verdicts.values() and RANGE not in verdicts
    return None if cut_short else result


def worst(results: Sequence[Mapping[str, Any]], expected: int | None = None) -> Verdict:
    """The verdict of a whole sweep, the gravest of its results: broken, deadlock, a broken progress
    property, interrupted (also if fewer than the `expected` results are there), inconclusive, or
    holds.
    """
    found = {Verdict(result["exit_code"]) for result in results}
    if expected is not None and len(results) < expected:
        found.add(Verdict.INTERRUPTED)
    order = (
        Verdict.BROKEN,
        Verdict.DEADLOCK,
        Verdict.LEADS_TO_BROKEN,
        Verdict.INTERRUPTED,
        Verdict.INCONCLUSIVE,
    )
    return next((verdict for verdict in order if verdict in found), Verdict.HOLDS)
