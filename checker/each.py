"""What becomes of each property in a run that goes on after one of them breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..language import DeclarationError, Instance
from .fault import DEADLOCK, RANGE, Kind, Seen, seen
from .native.explore import Carrier
from .native.sharing import DEADLOCK as STUCK
from .native.sharing import MOST_PROPERTIES, Flags
from .native.sharing import RANGE as OUT_OF_RANGE
from .verdict import PropertyVerdict, Result, Verdict

if TYPE_CHECKING:
    from .check import Prepared


def check_number(instance: Instance) -> None:
    """Raises DeclarationError for more properties than a run can go on with."""
    many = len(instance.properties)
    if many > MOST_PROPERTIES:
        raise DeclarationError(
            f"a run that goes on tells {MOST_PROPERTIES} properties of states and steps apart, and "
            f"these are {many}: name some of them"
        )


def tell_each(
    prepared: Prepared,
    carrier: Carrier,
    result: Result,
    path: Callable[[Carrier, int, bytes], list[bytes]],
) -> None:
    """Puts a shortest counterexample of all that is wrong into the result of a search that went on.
    What isn't stays as the result has it, and is unknown where a step left a range: nothing is
    known of what comes behind. Raises Disagreement."""
    found = {item.name: item for item in _every(prepared, carrier, path)}
    names = dict.fromkeys((*(item.name for item in result.properties), *found))
    others = {item.name: item for item in result.properties}
    if RANGE in found:
        result.verdict = Verdict.BROKEN
        others = {name: PropertyVerdict(name, "unknown") for name in others}
    result.properties = [
        found[name].told(prepared.instance, with_trace=True) if name in found else others[name]
        for name in names
    ]
    result.vacuous = [item for item in result.vacuous if item.subject not in found]


def _every(
    prepared: Prepared, carrier: Carrier, path: Callable[[Carrier, int, bytes], list[bytes]]
) -> Iterator[Seen]:
    instance = prepared.instance
    flags = Flags(instance).of
    for flag, first in carrier.found.wrong.items():
        among = [item for item in instance.properties if flags[item.name] == flag]
        kind = Kind.DEADLOCK if flag == STUCK else Kind.STEP
        if among and among[0].kind == "invariant":
            kind = Kind.STATE
        yield seen(
            instance, kind, path(carrier, *first), prepared.pack,
            ranges=flag == OUT_OF_RANGE, among=among,
        )  # fmt: skip


def judge(instance: Instance, result: Result) -> None:
    """Makes the verdict that of the gravest that is broken, and a shortest run of that kind the
    counterexample; what ended a search early is a note then, unless it was interrupted."""
    broken = [item for item in result.properties if item.trace is not None]
    if not broken or result.verdict is Verdict.INTERRUPTED:
        return
    if result.verdict is Verdict.INCONCLUSIVE:
        result.notes.append(result.reason)
    progress = {item.name for item in instance.progress}

    def gravity(item: PropertyVerdict) -> int:
        return 2 if item.name in progress else 1 if item.name == DEADLOCK else 0

    first = min(broken, key=lambda item: (gravity(item), item.trace_length))
    verdicts = Verdict.BROKEN, Verdict.DEADLOCK, Verdict.LEADS_TO_BROKEN
    result.verdict, result.trace = verdicts[gravity(first)], first.trace
    assert first.trace is not None
    result.reason = first.trace.conclusion
