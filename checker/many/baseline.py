"""Compares a result with an earlier one of the same declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...checksums import validator
from ...language import Instance
from ...strict_json import NotJsonError, read_json
from ..verdict.result import Result, Verdict
from ..verdict.violation import DEADLOCK, RANGE

MOVED = 14
"""The exit code of a run in which everything holds, and that isn't as its baseline was."""

_COUNTS = ("states", "transitions", "depth")
BESIDE = (RANGE, DEADLOCK)  # reported only if broken


class BaselineError(Exception):
    """An unusable baseline. The message has the reason."""


@cache
def _is_valid() -> Any:
    schema = Path(__file__).parents[1] / "output" / "result.schema.json"
    return validator(json.loads(schema.read_text("utf-8")))


@dataclass(frozen=True)
class Moved:
    """The differences from the baseline. Each of `changed` is a name with the value before and now.
    Rows in `begin` fire only now, rows in `cease` only before. Rows that are `new` or `gone` fire
    in neither run. `counts` are rows that fire in both with different counts, with both numbers.
    """

    changed: tuple[tuple[str, Any, Any], ...]
    begin: tuple[str, ...]
    cease: tuple[str, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]
    counts: tuple[tuple[str, int, int], ...]

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def as_json(self) -> dict[str, Any]:
        """The differences for JSON."""
        return {
            "moved": bool(self),
            "changed": [{"what": what, "before": a, "now": b} for what, a, b in self.changed],
            "rows_that_begin_to_fire": list(self.begin),
            "rows_that_cease_to_fire": list(self.cease),
            "new_rows": list(self.new),
            "rows_gone": list(self.gone),
            "row_counts": [{"row": row, "before": a, "now": b} for row, a, b in self.counts],
        }


def read_baseline(path: Path, instance: Instance, *, deadlock: bool = True) -> dict[str, Any]:
    """The result in a file of `check --json`, for the same declaration as `instance`.

    Raises BaselineError if the file can't be read, has no result of a finished run, or has one of
    another declaration; the message names the first difference.
    """
    from fastjsonschema import JsonSchemaValueException

    try:
        baseline: Any = read_json(path.read_bytes())
        _is_valid()(baseline)
    except OSError as error:
        raise BaselineError(f"can't read {path}: {error.strerror}") from None
    except NotJsonError as error:
        raise BaselineError(f"{path}: {error}") from None
    except JsonSchemaValueException as error:
        why = str(error.message).removeprefix("data").lstrip(". ")
        raise BaselineError(f"{path} is not a result of check --json: {why}") from None
    if baseline["verdict"] in ("inconclusive", "interrupted"):
        raise BaselineError(f"{path} is {baseline['verdict']}: use the result of a finished run")
    difference = next(_differences(baseline, instance, deadlock), None)
    if difference is not None:
        raise BaselineError(f"{path} is a result of another declaration: {difference}")
    return baseline


def _differences(baseline: Mapping[str, Any], instance: Instance, deadlock: bool) -> Iterator[str]:
    """The differences between a baseline's declaration and this one."""
    for name, here in (("system", instance.system.name), ("protocol", instance.protocol)):
        if baseline[name] != here:
            yield f"{name} {baseline[name]} in the file, {here} now"
    there, here = baseline["constants"], instance.chosen
    for name in dict.fromkeys((*there, *here)):
        if there.get(name) != here.get(name):
            yield f"{name}={there.get(name, 'none')} in the file, {here.get(name, 'none')} now"
    every = (*instance.properties, *instance.progress)
    named = {p["name"] for p in baseline["properties"]} - {*BESIDE}
    yield from _sets("property", named, {p.name for p in every})
    yield from _sets("feature", set(baseline["features"]), set(instance.features))
    looked = "looked for" if deadlock and instance.may_deadlock else "not looked for"
    if baseline["deadlocks"] != looked:
        yield f"deadlocks {baseline['deadlocks']} in the file, {looked} now"


def _sets(what: str, there: set[str], here: set[str]) -> Iterator[str]:
    for name in sorted(there - here):
        yield f"{what} {name} only in the file"
    for name in sorted(here - there):
        yield f"{what} {name} only now"


def compare(baseline: Mapping[str, Any], result: Result) -> Moved:
    """The differences from the baseline. Counts are compared only if both runs explored all states:
    a run that ends at a broken property has explored only a part.
    """
    now = result.as_json()
    before = {row["name"]: row["taken"] for row in baseline["rows"]}
    here = dict(result.rows)
    whole = now["verdict"] == baseline["verdict"] == Verdict.HOLDS.name.lower()
    pairs = [(name, before.get(name, 0), here.get(name, 0)) for name in (before | here)]
    counts = [pair for pair in pairs if pair[1] != pair[2]] if whole else []
    differing = {name for name, *_ in counts}
    return Moved(
        tuple(_changed(baseline, now, whole)),
        tuple(name for name, old, _ in counts if not old),
        tuple(name for name, _, new in counts if not new),
        tuple(name for name in here if name not in before and name not in differing),
        tuple(name for name in before if name not in here and name not in differing),
        tuple(item for item in counts if item[1] and item[2]),
    )


def _changed(
    baseline: Mapping[str, Any], now: Mapping[str, Any], whole: bool
) -> Iterator[tuple[str, Any, Any]]:
    for name in ("verdict", *(_COUNTS if whole else ()), "symmetry", "left_out"):
        if baseline[name] != now[name]:
            yield name, baseline[name], now[name]
    before, here = (
        {item["name"]: _outcome(item) for item in of["properties"]} for of in (baseline, now)
    )
    for name in dict.fromkeys((*here, *(x for x in BESIDE if x in before))):
        absent = "holds" if name in BESIDE else "unknown"
        old, new = (outcomes.get(name, absent) for outcomes in (before, here))
        if old != new:
            yield name, old, new
    vacuous = [
        sorted({f"{x['subject']} {x['what']}" for x in r["vacuous"]}) for r in (baseline, now)
    ]
    if whole and vacuous[0] != vacuous[1]:
        yield "vacuous", vacuous[0], vacuous[1]


def _outcome(item: Mapping[str, Any]) -> str:
    length = item["trace_length"]
    return item["verdict"] if length is None else f"{item['verdict']} after {length} steps"
