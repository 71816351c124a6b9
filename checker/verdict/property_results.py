"""The result of each property in a run with --keep-going."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from ...language import DeclarationError, Instance, Property
from ..native.codegen.sharing import DEADLOCK as STUCK
from ..native.codegen.sharing import MOST_PROPERTIES, Flags
from ..native.codegen.sharing import RANGE as OUT_OF_RANGE
from ..native.search.explore import Carrier
from ..prepare import Prepared
from .result import Counterexample, PropertyVerdict, Result, Verdict
from .violation import DEADLOCK, RANGE, Kind, seen

Path: TypeAlias = Callable[[Carrier, int, list[bytes]], list[set[bytes]]]
"""The packed states on shortest runs to some states of a level, by level."""
MOST_WAYS = 4  # most runs that are followed at once; few, because there are many counterexamples


def check_number(instance: Instance) -> None:
    """Raises DeclarationError for more properties than a continuing run can check."""
    many = len(instance.properties)
    if many > MOST_PROPERTIES:
        raise DeclarationError(
            f"a run that keeps going checks at most {MOST_PROPERTIES} properties of states and "
            f"steps, not {many}: name some of them"
        )


def tell_each(
    prepared: Prepared,
    carrier: Carrier,
    result: Result,
    path: Path | None,
) -> None:
    """Adds a shortest counterexample of each violation to the result of a search that continued.
    `path` finds the counterexample; without it only its length is added. Other properties are
    unchanged, but unknown if a step left a range, because later states weren't explored. Raises
    ReplayError.
    """
    every = _lengths(prepared, carrier) if path is None else _shown(prepared, carrier, path)
    found = {item.name: item for item in every}
    names = dict.fromkeys((*(item.name for item in result.properties), *found))
    others = {item.name: item for item in result.properties}
    if RANGE in found:
        result.verdict = Verdict.BROKEN
        others = {name: PropertyVerdict(name, "unknown") for name in others}
    result.properties = [found[name] if name in found else others[name] for name in names]
    result.vacuous = [item for item in result.vacuous if item.subject not in found]


def _shown(prepared: Prepared, carrier: Carrier, path: Path) -> Iterator[PropertyVerdict]:
    instance = prepared.instance
    of = _by_flag(instance)
    for flag, first in carrier.found.wrong.items():
        yield seen(
            instance,
            _kind(of, flag),
            path(carrier, *first),
            prepared.pack,
            ranges=flag == OUT_OF_RANGE,
            among=[of[flag]] if flag in of else [],
            most=MOST_WAYS,
        ).property_verdict(instance, with_trace=True)


def _lengths(prepared: Prepared, carrier: Carrier) -> Iterator[PropertyVerdict]:
    of = _by_flag(prepared.instance)
    beside = {STUCK: DEADLOCK, OUT_OF_RANGE: RANGE}
    for flag, (level, _) in carrier.found.wrong.items():
        name = beside[flag] if flag in beside else of[flag].name
        steps = level + (_kind(of, flag) is Kind.STEP)
        yield PropertyVerdict(name, "broken", steps)


def _kind(of: Mapping[int, Property], flag: int) -> Kind:
    """The violation: a state that is stuck or breaks an invariant, or a step."""
    if flag == STUCK:
        return Kind.DEADLOCK
    return Kind.STATE if flag in of and of[flag].kind == "invariant" else Kind.STEP


def _by_flag(instance: Instance) -> dict[int, Property]:
    flags = Flags(instance).of
    return {flags[item.name]: item for item in instance.properties}


def judge(instance: Instance, result: Result) -> None:
    """Sets the verdict to that of the gravest violation, with a shortest run of its kind. The limit
    that ended a search early then becomes a note, unless it was an interrupt.
    """
    broken = [item for item in result.properties if item.verdict == "broken"]
    if not broken or result.verdict is Verdict.INTERRUPTED:
        return
    if result.verdict is Verdict.INCONCLUSIVE:
        result.notes.append(result.reason)
    progress = {item.name for item in instance.progress}

    def gravity(item: PropertyVerdict) -> int:
        return 2 if item.name in progress else 1 if item.name == DEADLOCK else 0

    verdicts = Verdict.BROKEN, Verdict.DEADLOCK, Verdict.LEADS_TO_BROKEN
    ordered = sorted(broken, key=lambda item: (gravity(item), item.trace_length))
    first = ordered[0]
    result.verdict, result.trace = verdicts[gravity(first)], first.trace
    result.each = [
        Counterexample(
            verdicts[gravity(item)], "" if item.name == DEADLOCK else item.name, (), item.trace
        )
        for item in ordered
        if item.trace is not None
    ]
    names = ", ".join(item.name for item in broken)
    result.reason = f"{len(broken)} of {len(result.properties)} properties don't hold: {names}."
    if len(broken) == 1 and first.trace is not None:
        result.reason = first.trace.conclusion
