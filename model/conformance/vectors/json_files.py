"""Vectors as JSON: `vectors.schema.json` has the format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ....spec.releases.features import KAFKA, RELEASED
from ...engine.machine import Machine
from ..live.run import why_not
from ..possible_states import RowName
from .search import OF_MACHINES, Event, Found, Run, Search
from .values import message, named

FORMAT: Final = 1
"""The version of the file format. It rises when a reader of the old format would fail."""
SCHEMA: Final = "vectors.schema.json"
_NOT_FOUND = "the search finds no way to it"


def vectors(search: Search, of: str) -> dict[str, Any]:
    """The vectors of a coordinator or a leader, and the rows without a vector."""
    rows = [row for row in search.rows if row.machine in OF_MACHINES[of]]
    found = [one for one in search.found.values() if one.row in rows]
    found.sort(key=lambda one: (one.row, json.dumps(named(one.event.arguments), sort_keys=True)))
    covered = {one.row for one in found}
    return {
        "$schema": SCHEMA,
        "format": FORMAT,
        "release": search.protocol,
        "of": of,
        "rows": len(rows),
        "rows_covered": len(covered),
        "not_covered": [{**row._asdict(), "why": _why(row)} for row in rows if row not in covered],
        "vectors": list(map(_vector, found)),
    }


def _why(row: RowName) -> str:
    """The reason why a row has no vector, without the option of `conform` at its end."""
    why = why_not(row)
    return _NOT_FOUND if why is None else f"{_NOT_FOUND}: {why.partition(': --')[0]}"


def text(data: dict[str, Any]) -> str:
    """The text of the file, with a line for each vector."""
    head = {name: value for name, value in data.items() if name != "vectors"}
    lines = ",\n".join(f"    {json.dumps(vector)}" for vector in data["vectors"])
    return f'{json.dumps(head, indent=2)[:-2]},\n  "vectors": [\n{lines}\n  ]\n}}\n'


def _vector(one: Found) -> dict[str, Any]:
    machine = one.before.copy()
    sent = one.event.happens(machine) or ()
    before, after = named(one.before.state), named(machine.state)
    made: dict[str, Any] = {
        **one.row._asdict(), "releases": list(_releases(one.before, one)), "class": one.kind,
        "reached": {"requests": list(map(named, one.requests))} | _run(one.run),
        "before": before, **_event(one.event), "sent": list(map(message, sent)),
        "after": {name: value for name, value in after.items() if before[name] != value},
    }  # fmt: skip
    if one.request is not None:
        made["request"], made["response"] = named(one.request), named(one.response or {})
    return made


def _event(event: Event) -> dict[str, Any]:
    return {
        "arguments": named(event.arguments),
        "without": list(event.without),
        "outside": named(event.outside),
    }


def _run(run: Run | None) -> dict[str, Any]:
    if run is None:
        return {}
    events = [{"event": event.name, **_event(event)} for event in run.events]
    return {"of": run.of, "events": events}


def _releases(machine: Machine, one: Found) -> Iterator[str]:
    """The releases with this row."""
    rows = [row for table in machine.tables for row in table.rows if _is(one.row, row, table)]
    for release in RELEASED:
        features = KAFKA.features_at(release) - {*one.event.without}
        if any(KAFKA.holds(row.during, features) for row in rows):
            yield release


def _is(name: RowName, row: Any, table: Any) -> bool:
    return RowName.of(table, row) == name
