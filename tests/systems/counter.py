"""A counter, which several tests take as their system."""

from __future__ import annotations

from typing import Any

from epochfence.language import (
    Expression,
    Instance,
    Int,
    Machine,
    Property,
    Row,
    System,
    Table,
    event,
    instantiate,
    invariant,
)


class Ticker:
    """A machine with a number `x` from 0 to `most`, which `up` raises by one at each `tick`."""

    def __init__(
        self, most: Expression | int = 3, name: str = "counter", *, any_initial: bool = False
    ) -> None:
        self.machine = Machine(name)
        self.x = self.machine.field("x", Int(0, most), any_initial=any_initial)
        self.most = most
        self.tick = event("tick")
        self.up = Row("up", set={self.x: self.x + 1})

    def below(self, limit: Expression | int, name: str = "Small") -> Property:
        """The property that x is below a number."""
        return invariant(name, self.x < limit, "x is small.")

    @property
    def small(self) -> Property:
        """A property that holds in the whole range."""
        return self.below(self.most + 1)

    def table(self, *rows: Row, when: Any = True) -> Table:
        """What a tick does: these rows, or `up`."""
        return Table(self.machine, self.tick, rows or (self.up,), when=when)

    def system(
        self,
        *properties: Property,
        to: Expression | int | None = None,
        rows: tuple[Row, ...] = (),
        **parts: Any,
    ) -> System:
        """The counter counts up to a number, or beyond its range; `parts` are of the system."""
        table = self.table(*rows, when=True if to is None else self.x < to)
        given: dict[str, Any] = {"name": "counting", "tables": (table,), "terminal": True}
        return System(properties=properties or (self.small,), **(given | parts))

    def instance(self, *properties: Property, **parts: Any) -> Instance:
        """The system settled."""
        return instantiate(self.system(*properties, **parts))
