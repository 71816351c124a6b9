"""The parts of a state that pictures show as logs, such as the entries of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..expressions import Expression, Operand, lift
from .arguments import check_kind, check_name, pairs
from .errors import DeclarationError


@dataclass(frozen=True, eq=False)
class Log:
    """A sequence in the state that pictures show as a log, entry beside entry.

    * `entry` is an element of the sequence, as `element("e", log.at(p))`; the other expressions may
      read it. `each` is the variable of the machine's instances, such as `p`. Each has its own log.
    * `kind` is an enum's value. Members that have COMMIT or ABORT in their names are markers.
    * `offset` is the entry's offset. Pictures write `producer`, `epoch` and `record` in it;
      `called` is the word for `record`.
    * `high_watermark` and `last_stable_offset` are offsets, drawn as lines.
    * `is_open` is true for an entry of an open transaction, `is_visible` for an entry that a
      read_committed consumer gets. `is_visible` is used only below the last stable offset.

    Raises DeclarationError for an entry that is no element, and for `each` that is no variable.
    """

    title: str
    entry: Expression
    offset: Expression
    each: Expression | None = None
    kind: Operand = None
    producer: Operand = None
    epoch: Operand = None
    record: Operand = None
    high_watermark: Operand = None
    last_stable_offset: Operand = None
    is_open: Operand = None
    is_visible: Operand = None
    called: str = "record"

    def __post_init__(self) -> None:
        check_name("a log", self.title)
        check_kind(f"log {self.title}, entry", self.entry, Expression)
        if self.entry.op != "element":
            raise DeclarationError(
                f"log {self.title}: `{self.entry}` isn't an element: use element(name, log)"
            )
        if self.each is not None and self.each.op != "variable":
            raise DeclarationError(
                f"log {self.title}: `{self.each}` isn't a variable: use KEY.variable(name)"
            )

    @property
    def parts(self) -> Iterator[Expression]:
        """Each expression."""
        yield self.entry
        for name in _PARTS:
            value = getattr(self, name)
            if value is not None:
                yield lift(value)

    def changed(self, change: Callable[[Expression], Expression]) -> Log:
        """The log with each of its expressions changed."""
        given = {name: getattr(self, name) for name in _PARTS}
        made = {n: None if value is None else change(lift(value)) for n, value in given.items()}
        return replace(self, entry=change(self.entry), **made)


_PARTS = (
    "offset", "kind", "producer", "epoch", "record", "high_watermark", "last_stable_offset",
    "is_open", "is_visible",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class LastRecord:
    """The last record of a compacted log, such as that of the transaction log for an id.

    It exists where `when` holds. `fields` are its values, by their names. Pictures of a run show a
    new record whenever a value changes.
    """

    title: str
    fields: Mapping[str, Expression] = field(default_factory=dict[str, Expression])
    when: Operand = True

    def __post_init__(self) -> None:
        check_name("a log", self.title)
        pairs(f"log {self.title}, fields", self.fields, "{name: expression}")

    @property
    def parts(self) -> Iterator[Expression]:
        """Each expression."""
        yield lift(self.when)
        yield from self.fields.values()

    def changed(self, change: Callable[[Expression], Expression]) -> LastRecord:
        """The record with each of its expressions changed."""
        made = {name: change(value) for name, value in self.fields.items()}
        return replace(self, fields=made, when=change(lift(self.when)))
