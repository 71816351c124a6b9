"""A change of a system: rows before, after or instead of its rows, and additions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from ..declaration.arguments import check_kind, check_name, items, one_of, pairs
from ..declaration.errors import DeclarationError, declared_at
from ..declaration.pictures import LastRecord, Log
from ..declaration.places import Place, here
from ..expressions import TRUE, Expression, Operand, lift, naming
from ..machines import Event, Machine
from ..messages import Sending
from ..progress.fairness import Fairness
from ..properties import Property
from ..protocols import check_feature
from ..systems import DEFAULT, Budgets, Channel, System, Unreached, events_of
from ..tables import Row, Table, check_hidden
from .features import FeatureInState
from .fields import Moved, named

_ADDED: dict[str, type] = {
    "tables": Table,
    "machines": Machine,
    "properties": Property,
    "features": Expression,
    "constants": Expression,
    "channels": Channel,
    "in_state": FeatureInState,
}
_MAPPED = {
    "settled": "{feature: truth}",
    "bounds": "{constant: number}",
    "budgets": "{event: number}",
    "initials": "{field: value}",
    "fixed": "{constant: number}",
}
BEFORE, AFTER, INSTEAD = "before", "after", "instead"
WITHOUT, ALSO, LIKE = "without", "also", "like"
_REPLACES = (INSTEAD, WITHOUT, ALSO)  # a row has at most one of them


@dataclass(frozen=True, eq=False)
class Edit:
    """An edit of the rows `ids` of a table. Without `ids` it concerns the table itself."""

    kind: str
    table: str
    ids: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    when: Expression = TRUE
    updates: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])
    send: tuple[Sending, ...] = ()
    next_to: str = ""
    place: Place | None = None


@dataclass(frozen=True, eq=False)
class Change:
    """The difference between a system and its variant in another product or a proposal.

    `system + change` is the changed system. It is called `system+change`, and `doc` is added to
    its description. Changes compose: `system + one + other`.

    `table("machine.event")` selects a table. The next calls edit its rows, by their ids::

        Change("hasty", "It skips a number.").table("counter.up").before(
            "up", Row("skip", when=x == 2, set={x: 4})
        )

    * `before(id, *rows)` and `after(id, *rows)` add rows next to a row.
    * `instead(id, *rows)` replaces a row, and `without(*ids)` removes rows.
    * `also(*ids, set={...}, send=(...))` adds updates and messages to rows (no id: to all rows).
    * `like(id, row)` adds a row that does the same as the row `id`, and more.
    * `only_when(condition)` narrows when the event of the table can happen.
    * `without_tables(*names)` and `without_properties(*names)` remove tables and properties.

    The keyword arguments are added to the system:

    * `tables` of further events, and `machines` that only changed rows read or set;
    * `features`; a run can't switch those in `settled`;
    * `properties`, `constants`, `channels`, and `budgets` of events;
    * `bounds` (values of constants, in each set of bounds) and `initials` of fields;
    * `fixed` values of constants that a run can't set in the changed system. A constant that was
      fixed before can be one of `constants`.
    * Features `in_state` become a part of the state, before any other edit: see `FeatureInState`.
    * `moved` gives fields another place: see `Moved`.

    Raises DeclarationError when it is declared, or when it is added to a system, for: an unknown
    table, row or property; two changes of one row; rows that are given before a table is named; an
    added table that the system has; and a change that does nothing.
    """

    name: str
    doc: str = ""
    _: KW_ONLY
    tables: tuple[Table, ...] = ()
    machines: tuple[Machine, ...] = ()
    features: tuple[Expression, ...] = ()
    settled: Mapping[Expression, bool] = field(default_factory=dict[Expression, bool])
    properties: tuple[Property, ...] = ()
    constants: tuple[Expression, ...] = ()
    channels: tuple[Channel, ...] = ()
    budgets: Budgets = field(default_factory=dict[Event, Operand])
    bounds: Mapping[Expression, int] = field(default_factory=dict[Expression, int])
    initials: Mapping[Expression, Operand] = field(default_factory=dict[Expression, Operand])
    fixed: Mapping[Expression, int] = field(default_factory=dict[Expression, int])
    in_state: tuple[FeatureInState, ...] = ()
    moved: Moved | None = None
    left_out: tuple[Edit, ...] = field(default=(), repr=False)
    """The tables and properties that the change removes: see `without_tables`."""
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    """The edits of rows: see `before`."""
    at: str = field(default="", repr=False)
    """The table that the next calls edit: see `table`."""
    declared: Place | None = field(default=None, repr=False)
    """The file and line of the declaration, found automatically."""

    def __post_init__(self) -> None:
        if self.declared is None:
            object.__setattr__(self, "declared", here())
        check_name("a change", self.name)
        where = f"change {self.name}"
        check_kind(f"{where}, doc", self.doc, str)
        for name, kind in _ADDED.items():
            given = items(f"{where}, {name}", getattr(self, name), kind, name[:-1])
            object.__setattr__(self, name, given)
        for name, form in _MAPPED.items():
            pairs(f"{where}, {name}", getattr(self, name), form)
        check_kind(f"{where}, moved", self.moved, Moved, type(None))
        for given in (*self.features, *self.settled):
            check_feature(f"{where}, features", given)

    def __radd__(self, system: System) -> System:
        """The system with this change, as `system + change`.

        Raises DeclarationError, at the line of the change, where it doesn't fit the system.
        """
        return changed(system, self)

    # The rows of a table --------------------------------------------------------------------------

    def table(self, name: str) -> Change:
        """Selects the table `name` ("machine.event") for the next calls."""
        check_name(f"change {self.name}: a table", name)
        return replace(self, at=name)

    def before(self, row: str, *rows: Row) -> Change:
        """Adds rows directly before a row. They are taken first, where their guards hold."""
        return self._edited(BEFORE, (row,), self._rows(BEFORE, rows))

    def after(self, row: str, *rows: Row) -> Change:
        """Adds rows directly after a row. They are taken where its guard doesn't hold."""
        return self._edited(AFTER, (row,), self._rows(AFTER, rows))

    def instead(self, row: str, *rows: Row) -> Change:
        """Replaces a row. Rows that share its id, for other releases, are replaced as well."""
        return self._edited(INSTEAD, (row,), self._rows(INSTEAD, rows))

    def without(self, *rows: str) -> Change:
        """Removes rows."""
        if not rows:
            raise DeclarationError(f"change {self.name}, without: name a row by its id")
        return self._edited(WITHOUT, rows)

    def also(
        self,
        *rows: str,
        set: Mapping[Expression, Operand] | None = None,
        send: tuple[Sending, ...] = (),
    ) -> Change:
        """Adds updates and messages to rows; without an id, to all rows of the table."""
        where = f"change {self.name}, also"
        pairs(f"{where}, set", {} if set is None else set, "{field: value}")
        sent = items(f"{where}, send", send, Sending, "message")
        if not set and not sent:
            raise DeclarationError(f"{where}: give set={{field: value}} or send=(message,)")
        return self._edited(ALSO, rows, updates=set or {}, send=sent)

    def like(self, row: str, more: Row, *, before: str = "") -> Change:
        """Adds a row that does the same as `row`, and `more`. It stands directly before
        `row`, or before another one.

        Its guard is that of `row`, narrowed by the `when` of `more`. It has the updates of both
        (`more` takes precedence), and the messages of both. `more` gives the id and the name, and
        its `goto`, `reply` and `source` replace those of `row`.
        """
        check_kind(f"change {self.name}, like", more, Row)
        return self._edited(LIKE, (row,), (more,), next_to=before or row)

    def only_when(self, condition: Operand) -> Change:
        """Narrows the table's own `when`: the event can happen only where `condition` holds as
        well.
        """
        when = lift(condition)
        if when.same_as(TRUE):
            raise DeclarationError(f"change {self.name}, only_when: True changes nothing")
        return self._edited("only_when", (), when=when)

    def _rows(self, kind: str, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        given = items(f"change {self.name}, {kind}", rows, Row, "row")
        if not given:
            raise DeclarationError(f"change {self.name}, {kind}: give a row, as Row(id, ...)")
        return given

    def _edited(
        self, kind: str, ids: tuple[str, ...], rows: tuple[Row, ...] = (), **more: Any
    ) -> Change:
        where = f"change {self.name}, {kind}"
        if not self.at:
            raise DeclarationError(f'{where}: name a table first, as .table("machine.event")')
        for name in ids:
            check_name(f"{where}: a row", name)
        place = here()
        for name in ids if kind in _REPLACES else ():
            others = [e.kind for e in self.edits if e.table == self.at and name in e.ids]
            earlier = [kind for _ in ids[1:] if ids.count(name) > 1]
            earlier += [other for other in others if other in _REPLACES]
            if earlier:
                raise DeclarationError(
                    f"{where}: {self.at}/{name} is changed already ({earlier[-1]}): make one "
                    "change of both"
                ).within("", place)
        edit = Edit(kind, self.at, ids, rows, place=place, **more)
        return replace(self, edits=(*self.edits, edit))

    # What is removed ------------------------------------------------------------------------------

    def without_tables(self, *names: str) -> Change:
        """Removes tables: their events don't happen."""
        return self._without("tables", names)

    def without_properties(self, *names: str) -> Change:
        """Removes properties. The changed system needn't satisfy them."""
        return self._without("properties", names)

    def _without(self, kind: str, names: tuple[str, ...]) -> Change:
        if not names:
            raise DeclarationError(f"change {self.name}, without_{kind}: give a name")
        for name in names:
            check_name(f"change {self.name}, without_{kind}", name)
        return replace(self, left_out=(*self.left_out, Edit(kind, "", names, place=here())))

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        added = [getattr(self, name) for name in (*_ADDED, *_MAPPED)]
        return self.moved is None and not any((self.edits, self.left_out, *added))


def changed(system: System, change: Change) -> System:
    """The system with a change, as `system + change`.

    Raises DeclarationError, at the line of the change, where it doesn't fit the system.
    """
    check_kind("changed", system, System)
    check_kind("changed", change, Change)
    return _Changed(system, change).system()


class _Changed:
    """The parts of a system that a change is added to."""

    def __init__(self, system: System, change: Change) -> None:
        if change.moved is not None:
            change = replace(change, moved=change.moved.of(system))
        self.base, self.change = system, change
        self.where = f"change {change.name}"
        self.changes = dict(system.changed_rows)
        """The rows that are changed, as `table/row`, each with the name of its change."""
        machines = (*system.machines, *change.machines, *self._machines_of(change.tables))
        self.machines = {machine.name: machine for machine in machines}
        if change.moved is not None:
            placed = (machine for machine in change.moved.machines.values() if machine is not None)
            self.machines.update((machine.name, machine) for machine in placed)

    def system(self) -> System:
        """The changed system."""
        change, base = self.change, self.base
        with declared_at(change.declared):
            if change.is_empty:
                raise DeclarationError(
                    f"{self.where} changes nothing: change a row, or add something"
                )
            for feature in change.in_state:
                self.base = base = feature.applied(base, self.machines.values())
            tables = self._tables()
            properties, lemmas, progress = self._properties()
            protocols = base.protocols
            protocols = replace(protocols, features=(*protocols.features, *change.features))
            if change.settled:
                protocols = protocols.settling(change.settled)
            budgets: dict[Event | tuple[Event, ...], Operand] = {}
            for every in (self._budgets(tables), change.budgets):
                budgets.update(every.items())
            settable = set(change.constants)
            named = {item.name for item in (*properties, *lemmas, *progress)}
            return replace(
                base,
                name=f"{base.name}+{change.name}",
                doc=f"{base.doc} {change.doc}".strip(),
                tables=tables,
                properties=properties,
                lemmas=lemmas,
                progress=progress,
                rankings=base.rankings if change.moved is None else (),
                terminal=base.end if change.moved is None else change.moved.expression(base.end),
                protocols=protocols,
                constants=(
                    *(constant for constant in base.constants if constant not in change.fixed),
                    *change.constants,
                ),
                fixed={
                    **{c: value for c, value in base.fixed.items() if c not in settable},
                    **change.fixed,
                },
                channels=(*base.channels, *change.channels),
                budgets=budgets,
                bounds=self._bounds(),
                initials={**base.initials, **change.initials},
                fairness=tuple(self._fairness(tables)),
                unreached=tuple(self._unreached(tables, named)),
                logs=tuple(self._logs(tables)),
                changed_rows=self.changes,
                declared=change.declared,
            )

    def _logs(self, tables: tuple[Table, ...]) -> Iterator[Log | LastRecord]:
        """The logs of the machines that the changed system keeps."""
        there = {m.name for table in tables for m in (table.machine, *table.others)}
        for log in self.base.logs:
            placed = log if self.change.moved is None else log.changed(self.change.moved.expression)
            fields = (n.data for part in placed.parts for n in naming(part) if n.op == "field")
            if {field.machine for field in fields} <= there:
                yield placed

    # Tables ---------------------------------------------------------------------------------------

    def _tables(self) -> tuple[Table, ...]:
        there = {table.name: self._placed(table) for table in self.base.tables}
        for edit in self._left_out("tables"):
            for name in edit.ids:
                with declared_at(edit.place):
                    self._check(name, there, f"{self.base.name} has no table {name}")
                    del there[name]
        for table in self.change.tables:
            with declared_at(table.declared):
                if table.name in there:
                    raise DeclarationError(
                        f"{self.where}: {self.base.name} has a table {table.name}: change its rows "
                        f'with .table("{table.name}")'
                    )
                there[table.name] = self._placed(table)
        for edit in self.change.edits:
            with declared_at(edit.place):
                self._check(edit.table, there, f"{self.base.name} has no table {edit.table}")
                there[edit.table] = self._edited(there[edit.table], edit)
        return tuple(there.values())

    def _placed(self, table: Table) -> Table:
        """The table with fields that are moved."""
        moved = self.change.moved
        return table if moved is None else moved.table(table, self.machines)

    def _edited(self, table: Table, edit: Edit) -> Table:
        """The table after one edit."""
        ids = tuple(dict.fromkeys(row.id for row in table.rows))
        for name in (*edit.ids, *((edit.next_to,) if edit.next_to else ())):
            gone = self.changes.get(f"{table.name}/{name}")
            if name not in ids and gone is not None:
                raise DeclarationError(
                    f"{self.where}: {table.name} has no row {name!r} any more, because the change "
                    f"{gone} replaces it"
                )
            self._check(name, ids, f"table {table.name} has no row {name!r}")
        for name in edit.ids if edit.kind in _REPLACES else ():
            other = self.changes.setdefault(f"{table.name}/{name}", self.change.name)
            if other != self.change.name:
                raise DeclarationError(
                    f"{self.where}: {table.name}/{name} is changed by {other}: a row can have one "
                    "change"
                )
        if edit.kind == INSTEAD and len(edit.rows) == 1:
            (new,) = edit.rows
            if all(_is_same(row, new) for row in table.rows if row.id in edit.ids):
                raise DeclarationError(
                    f"{self.where}: the row {new.id!r} does the same as the row that it replaces"
                )
        if self.change.in_state:
            edit = self._with_sent(edit)
        rows = tuple(_edited_rows(table.rows, edit))
        if not rows:
            raise DeclarationError(
                f"{self.where}: {table.name} has no row left: remove it with .without_tables()"
            )
        check_hidden(table.name, rows, [row for row in rows if row not in table.rows])
        others = (*table.others, *self._read(edit))
        return replace(
            table,
            rows=rows,
            when=table.when if edit.when.same_as(TRUE) else table.guard & edit.when,
            others=tuple(dict.fromkeys(m for m in others if m is not table.machine)),
        )

    def _with_sent(self, edit: Edit) -> Edit:
        """The edit with the system's own messages: a feature in the state gives some of them a
        field.
        """
        known = {channel.message.name: channel.message for channel in self.base.channels}
        sent = (replace(one, message=known.get(one.message.name, one.message)) for one in edit.send)
        return replace(edit, send=tuple(sent))

    def _read(self, edit: Edit) -> Iterator[Machine]:
        """The machines whose fields an edit reads or sets."""
        more = Row("more", set=edit.updates, send=edit.send)
        for name in named((*edit.rows, more), edit.when):
            if name in self.machines:
                yield self.machines[name]

    @staticmethod
    def _machines_of(tables: Iterable[Table]) -> Iterator[Machine]:
        for table in tables:
            yield from (table.machine, *table.others)

    # The rest -------------------------------------------------------------------------------------

    def _properties(self) -> tuple[tuple[Property, ...], ...]:
        """The properties, lemmas and progress properties that the change keeps, with the added
        ones.
        """
        base = self.base
        lists = [[*base.properties], [*base.lemmas], [*base.progress]]
        for edit in self._left_out("properties"):
            for name in edit.ids:
                with declared_at(edit.place):
                    known = [item.name for items in lists for item in items]
                    self._check(name, known, f"{base.name} has no property {name}")
                lists = [[item for item in items if item.name != name] for items in lists]
        for item in self.change.properties:
            lists[2 if item.is_progress else 0].append(item)
        moved = self.change.moved
        if moved is not None:  # lemmas use the fields before the move
            lists = [[moved.property(item) for item in items] for items in (lists[0], [], lists[2])]
        properties, lemmas, progress = (tuple(items) for items in lists)
        return properties, lemmas, progress

    def _budgets(self, tables: Sequence[Table]) -> Budgets:
        """The system's budgets, without events that have no table any more, and without events that
        the change budgets.
        """
        taken = {table.on for table in tables}
        taken -= {event for events in self.change.budgets for event in events_of(events)}
        left: dict[Event | tuple[Event, ...], Operand] = {}
        for events, most in self.base.budgets.items():
            kept = tuple(event for event in events_of(events) if event in taken)
            if kept:
                left[kept if isinstance(events, tuple) else kept[0]] = most
        return left

    def _bounds(self) -> Mapping[str, Mapping[Expression, int]]:
        bounds, more, fixed = self.base.bounds, self.change.bounds, self.change.fixed
        if more and DEFAULT not in bounds:
            bounds = {DEFAULT: dict[Expression, int](), **bounds}
        both = {name: {**values, **more} for name, values in bounds.items()}
        return {
            name: {constant: value for constant, value in values.items() if constant not in fixed}
            for name, values in both.items()
        }

    def _fairness(self, tables: Sequence[Table]) -> Iterator[Fairness]:
        """The fairness assumptions about rows that are still there."""
        rows = {(table.on, row.id) for table in tables for row in table.rows}
        taken = {table.on for table in tables}
        for item in self.base.fairness:
            kept = tuple(name for name in item.rows if (item.event, name) in rows)
            if item.event in taken and (kept or not item.rows):
                yield item if kept == item.rows else replace(item, rows=kept)

    def _unreached(self, tables: Sequence[Table], properties: Iterable[str]) -> Iterator[Unreached]:
        """The declarations of unreached rows, tables and properties that are still there."""
        there = {*properties, *(table.name for table in tables)}
        there |= {f"{table.name}/{row.id}" for table in tables for row in table.rows}
        for item in self.base.unreached:
            names = tuple(name for name in item.names if name in there)
            if names:
                yield item if names == item.names else replace(item, names=names)

    def _left_out(self, kind: str) -> Iterator[Edit]:
        return (edit for edit in self.change.left_out if edit.kind == kind)

    def _check(self, name: str, known: Iterable[str], said: str) -> None:
        """Raises DeclarationError for an unknown name. The message suggests a similar name."""
        known = tuple(known)
        if name not in known:
            raise DeclarationError(f"{self.where}: {said} ({one_of(name, known)})")


def _edited_rows(rows: tuple[Row, ...], edit: Edit) -> Iterator[Row]:
    """The rows of a table after one edit. Rows with one id are edited together."""
    if edit.kind == LIKE:
        alike = tuple(_like(row, edit.rows[0]) for row in rows if row.id in edit.ids)
        edit = replace(edit, kind=BEFORE, ids=(edit.next_to,), rows=alike)
    of_id = [i for i, row in enumerate(rows) if row.id in edit.ids]
    for i, row in enumerate(rows):
        if i not in of_id:
            yield _with_more(row, edit) if edit.kind == ALSO and not edit.ids else row
            continue
        if edit.kind in (BEFORE, INSTEAD) and i == of_id[0]:
            yield from edit.rows
        if edit.kind in (BEFORE, AFTER):
            yield row
        if edit.kind == ALSO:
            yield _with_more(row, edit)
        if edit.kind == AFTER and i == of_id[-1]:
            yield from edit.rows


def _with_more(row: Row, edit: Edit) -> Row:
    """The row with further updates and messages."""
    for target in edit.updates:
        if any(target.same_as(own) for own in row.set):
            raise DeclarationError(f"row {row.id!r} sets `{target}` itself: write it with instead")
    return replace(row, set={**row.set, **edit.updates}, send=(*row.send, *edit.send))


def _like(row: Row, more: Row) -> Row:
    """A row that does the same as `row`, and more."""
    return replace(
        more,
        when=_both(row.guard, more.guard),
        goto=row.goto if more.goto is None else more.goto,
        set={**row.set, **more.set},
        reply=row.reply if more.reply is None else more.reply,
        send=(*row.send, *more.send),
        drop=(*row.drop, *more.drop),
        during=_both(row.during, more.during),
        source=more.source or row.source,
        note=more.note or row.note,
    )


def _both(one: Expression, other: Expression) -> Expression:
    """The conjunction; if one of the two is the constant true, the other one alone."""
    if one.same_as(TRUE):
        return other
    return one if other.same_as(TRUE) else one & other


def _is_same(row: Row, other: Row) -> bool:
    """Whether two rows have the same content. Their ids and names don't count."""
    updates, others = ({t: lift(value) for t, value in r.set.items()} for r in (row, other))
    return (
        row.guard.same_as(other.guard)
        and row.during.same_as(other.during)
        and lift(row.goto).same_as(lift(other.goto))
        and updates.keys() == others.keys()
        and all(value.same_as(others[target]) for target, value in updates.items())
        and row.reply is other.reply
        and (row.send, row.drop) == (other.send, other.drop)
    )
