"""Vacuity of a result: rows that no run took, premises that no state met.

A property that holds says little if its premise is never true, or if the rows that could break it
are never taken. Each such item is reported, with a reason where the settings or the system's
declaration give one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...language import Expression, Instance, Message, lift
from ...language.systems import NETWORK
from ...language.terms.folding import truth
from .constant_folding import message_of, names_settings, only_unchanged, ruled_out
from .probes import TERMINAL, Probe, fields_read, is_untested

SETTINGS = "ruled out by these constants and this release"
NO_REASON = "no known reason"
ENDED_EARLY = "not taken before the search ended"


@dataclass(frozen=True)
class Vacuity:
    """An item that no state or step of a run reaches.

    `kind` is `row`, `event`, `message`, `premise`, `property` or `run`; `subject` names it, and
    `what` says what never happens. `rows` are never taken because of it. `explained` is the known
    reason, or empty. It is `whole` if the property holds vacuously: no state met the condition of
    any part of it.
    """

    kind: str
    subject: str
    what: str
    rows: tuple[str, ...] = ()
    explained: str = ""
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.subject} {self.what}"

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "what": self.what,
            "rows": list(self.rows),
            "explained": self.explained or None,
            "whole": self.whole,
        }


def vacuities(
    instance: Instance, taken: Sequence[int], unmet: Sequence[Probe], unbreakable: Sequence[str]
) -> list[Vacuity]:
    """Lists the vacuous items of a run. `taken` counts how often each row was taken, `unmet` are
    the probes that no state met, and `unbreakable` the properties that no row can break."""
    found: list[Vacuity] = []
    if not instance.properties and not instance.progress:
        found.append(Vacuity("run", "the run", "checks no property"))
    if not any(taken):
        return [
            *found,
            Vacuity("run", "the run", "takes no step: only the initial states are reachable"),
        ]
    found += _Rows(instance, taken, unmet).found()
    found += _premises(instance, unmet, unbreakable)
    return found


def waits(met: Iterable[Probe]) -> list[Vacuity]:
    """The rows that waited for a channel of the default capacity, as one item."""
    found = [f"{probe.about} ({probe.shown})" for probe in met if probe.kind == "wait"]
    what = f"waited for a full channel: {', '.join(found)}"
    return [Vacuity("channel", "rows", what)] if found else []


def untaken(met: Iterable[Probe]) -> list[str]:
    """Notes on messages that no row takes in some state."""
    return [
        f"some message in flight waits, maybe for ever, because no row of {probe.about} takes it "
        "(lint has an example; if it should wait, write the condition into the table's when=)"
        for probe in met
        if probe.kind == "untaken"
    ]


def reason(item: Vacuity) -> str:
    """The short form of the reason."""
    return item.explained.partition(": ")[0] or NO_REASON


def vacuously(untested: Mapping[str, Vacuity]) -> str:
    """A sentence on the properties that hold vacuously, with the reasons."""
    named = (f"{name} ({reason(item)})" for name, item in untested.items())
    return f"{', '.join(named)} {'holds' if len(untested) == 1 else 'hold'} vacuously"


def by_reason(vacuous: Iterable[Vacuity]) -> Counter[str]:
    """The number of vacuous items by reason; items with rows count as their rows."""
    found = Counter[str]()
    for item in vacuous:
        found[reason(item)] += max(1, len(item.rows))
    return found


def could_say_more(met: Iterable[Probe], unmet: Sequence[Probe]) -> list[str]:
    """Notes on properties and on `terminal` that could be stronger: a stronger condition holds."""
    if any(probe.kind == "end" for probe in unmet):
        never = f"{TERMINAL} is never true at the end of a run"
        return [*_parts([x for x in unmet if x.of != "end"]), never]
    ways = [probe for probe in met if probe.kind == "way"]
    goes_on = [
        f"{TERMINAL} is true in states where a run can continue, for example by {way.about}; a run "
        f"stuck there isn't reported as a deadlock: {way.shown}"
        for way in ways[:1]
    ]
    return [*_parts(unmet), *goes_on]


def _parts(unmet: Sequence[Probe]) -> list[str]:
    never = {probe.expression for probe in unmet if probe.kind != "way"}
    parts = [x for x in unmet if x.kind == "part" and (x.behind is None or x.behind not in never)]
    return list(dict.fromkeys(f"{x.about} {x.shown}" for x in parts))


def wrongly_unreached(instance: Instance, taken: Sequence[int]) -> list[str]:
    """Rows that the system declares unreached at these settings, but that a run took."""
    declared = declared_unreached(instance)
    return [
        name
        for name, count in zip(instance.row_names, taken, strict=True)
        if count and name in declared
    ]


def declared_unreached(instance: Instance) -> dict[str, str]:
    """The rows, tables and properties that the system declares unreached here, with the reasons."""
    return {
        name: item.why
        for item in instance.system.unreached
        if truth(lift(item.when), instance.constants, instance.features)
        for name in item.names
    }


def known_reasons(instance: Instance) -> dict[str, str]:
    """The rows, tables and properties with a known reason why runs don't reach them here: a
    recorded run takes them, or the system declares them unreached. The reason of a table doesn't
    apply to a single row if others are taken.
    """
    return recorded_reasons(instance) | declared_unreached(instance)


def recorded_reasons(instance: Instance) -> dict[str, str]:
    """The reasons from recorded runs that took these rows or met these premises. A verdict prints
    the whole reason of a premise, but only the kind of a row's reason, before the colon.
    """
    system = instance.system
    runs = [
        (run, run.why_not(system, instance.constants, instance.features)) for run in system.reached
    ]
    tables = dict.fromkeys(row.partition("/")[0] for row in instance.row_names)
    properties = [item.name for item in system.every_property]
    found: dict[str, str] = {}
    for name in (*instance.row_names, *tables, *properties):
        reasons = [reason for run, reason in runs if run.reaches(name, system)]
        known = [reason for reason in reasons if reason is not None]
        if known and len(known) == len(reasons):
            shortest = min(known, key=len)
            is_row = name not in properties
            found[name] = (
                f"{shortest} takes it" if is_row else f"{shortest.partition(': ')[2]} meets it"
            )
    return found


def _premises(
    instance: Instance, unmet: Sequence[Probe], unbreakable: Sequence[str]
) -> Iterator[Vacuity]:
    known = known_reasons(instance)
    by_name = {item.name: item for item in (*instance.system.properties, *instance.system.lemmas)}

    def explained(name: str, condition: Expression, settled: bool) -> str:
        of_settings = settled and fields_read(condition) and names_settings(condition)
        return SETTINGS if of_settings else known.get(name, "")

    off = ruled_out(instance).rows if unbreakable else ()
    never_met = {probe.expression for probe in unmet}
    untested = {x.name for x in instance.properties if is_untested(x.name, x.expression, never_met)}
    for name in unbreakable:
        what = "can't be broken: no change by a row can make it false"
        premises = [x for x in unmet if x.about == name and x.kind == "premise"]
        of_settings = all(names_settings(x.expression) for x in premises)
        reason = explained(name, by_name[name].expression, settled=of_settings)
        if not reason and only_unchanged(instance, fields_read(by_name[name].expression), off):
            reason = SETTINGS
        yield Vacuity("property", name, what, (), reason, whole=name in untested)
    reported: set[tuple[str, str]] = set()
    for probe in unmet:
        inner = probe.behind is not None and probe.behind in never_met
        reported_elsewhere = probe.kind not in ("premise", "domain") or probe.of == "end"
        if reported_elsewhere or probe.about in unbreakable or inner:
            continue
        where = "at the start of a step" if probe.of == "start" else "in any state"
        what = f"holds vacuously: its premise is never true {where}: {probe.shown}"
        if probe.kind == "domain":
            what = f"holds vacuously: {probe.shown} is always empty"
        if (probe.about, what) not in reported:
            reported.add((probe.about, what))
            settled = truth(probe.expression, instance.constants, instance.features) is False
            why = explained(probe.about, probe.expression, settled)
            yield Vacuity("premise", probe.about, what, (), why, whole=probe.about in untested)


class _Rows:
    """The rows that a run never took, grouped by message and event."""

    def __init__(self, instance: Instance, taken: Sequence[int], unmet: Sequence[Probe]) -> None:
        self.instance = instance
        self.unsent = {probe.about for probe in unmet if probe.kind == "message"}
        self.never = [
            name for name, count in zip(instance.row_names, taken, strict=True) if not count
        ]
        self.left = dict.fromkeys(self.never)
        self.rows: dict[str, list[str]] = {}
        for name in instance.row_names:
            self.rows.setdefault(name.partition("/")[0], []).append(name)
        self.happens = {
            name.partition("/")[0]
            for name, count in zip(instance.row_names, taken, strict=True)
            if count
        }
        self.ruled_out = ruled_out(instance)
        self.known = known_reasons(instance)

    def found(self) -> Iterator[Vacuity]:
        """First the messages, then the events, then the remaining rows one by one."""
        for channel in self.instance.system.channels:
            yield from self._of_message(channel.message)
        for table in self.instance.system.tables:
            if table.name in self.rows and all(n in self.left for n in self.rows[table.name]):
                yield self._made("event", table.name, "never happens", self.rows[table.name])
        for name in list(self.left):
            yield self._made("row", name, "is never taken", [name])

    def _of_message(self, message: Message) -> Iterator[Vacuity]:
        tables = [t for t in self.instance.system.tables if message_of(t.on) == message]
        names = [t.name for t in tables]
        names += [f"{NETWORK}.{message.name}", f"{NETWORK}.{message.name} again"]
        if message.name in self.unsent:
            every = [row for name in names for row in self.rows.get(name, ())]
            yield self._made("message", message.name, "is never sent", every, message)
            return
        takers = [table for table in tables if table.on == message and table.name in self.rows]
        if not takers:
            yield self._made("message", message.name, "is sent, but no table takes it", [])
        for table in takers:
            rows = self.rows[table.name]
            if all(row in self.left for row in rows):
                what = f"is sent, but {table.machine.name} never takes it"
                yield self._made("message", message.name, what, rows)

    def _made(
        self,
        kind: str,
        subject: str,
        what: str,
        rows: Iterable[str],
        message: Message | None = None,
    ) -> Vacuity:
        names = tuple(row for row in rows if row in self.left)
        for name in names:
            del self.left[name]
        reasons = [self._reason(name) for name in names] or [""]
        if message is not None and message in self.ruled_out.messages:
            reasons = [SETTINGS]
        explained = "" if "" in reasons else reasons[0]
        return Vacuity(kind, subject, what, names, explained)

    def _reason(self, row: str) -> str:
        if row in self.ruled_out.rows:
            return SETTINGS
        if row in self.known:
            return self.known[row]
        table = row.partition("/")[0]
        return "" if table in self.happens else self.known.get(table, "")
