"""Systems: machines put together with a network, an environment, bounds and properties."""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import DeclarationError
from .expressions import ConstantInfo, Expression, Operand, children_first, lift
from .properties import Property
from .protocols import ONE_PROTOCOL, Protocols
from .tables import Event, Loss, Machine, Message, Table
from .types import Key


@dataclass(frozen=True)
class Channel:
    """How messages of one kind travel: unordered, delayed at will, at most `capacity` an address.

    A row that would send into a full bag waits. `lossy`: any message in flight may vanish, without
    bound. `duplicates`: how often in a run a message in flight may be doubled.
    """

    message: Message
    capacity: Operand = 1
    lossy: bool = False
    duplicates: Operand = 0


@dataclass(frozen=True, eq=False)
class System:
    """What is checked: tables, the channels between machines, and what must hold.

    `budgets` bound how often an event may happen in a run. `interchangeable` keys may be renamed
    without changing anything, which symmetry reduction uses. A state without a successor is a
    deadlock unless `terminal` holds in it. `reach` says what the default bounds reach and what
    they don't.

    Raises DeclarationError for a feature that the protocols don't declare, a message without a
    channel, two tables for one machine and event, or two properties of one name.
    """

    name: str
    tables: tuple[Table, ...]
    properties: tuple[Property, ...]
    doc: str = ""
    constants: tuple[Expression, ...] = ()
    protocols: Protocols = ONE_PROTOCOL
    channels: tuple[Channel, ...] = ()
    budgets: dict[Event, Operand] = field(default_factory=dict[Event, Operand])
    interchangeable: tuple[Key, ...] = ()
    terminal: Operand = False
    reach: str = ""

    def __post_init__(self) -> None:
        known = {info.name for info in self.protocols.infos}
        for table in self.tables:
            for row in table.rows:
                parts = (row.guard, row.during, *(v for _, v in table.updates(row)))
                for node in (n for part in parts for n in children_first(part)):
                    if node.op == "feature" and node.data.name not in known:
                        raise DeclarationError(
                            f"table {table.name}, row {row.name!r}: "
                            f"{node.data.name} is no feature of {self.name}'s protocols"
                        )
        self._unique("table", [table.name for table in self.tables])
        self._unique("property", [item.name for item in self.properties])
        self._unique("constant", [info.name for info in self.constant_infos])
        channels = {channel.message for channel in self.channels}
        for table in self.tables:
            sent = {s.message for row in table.rows for s in table.sendings(row)}
            taken = table.on.message if isinstance(table.on, Loss) else table.on
            wanted = sent | ({taken} if isinstance(taken, Message) else set[Message]())
            for missing in wanted - channels:
                raise DeclarationError(
                    f"system {self.name}: {missing.name} (table {table.name}) has no channel"
                )

    def _unique(self, what: str, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise DeclarationError(f"system {self.name}: two {what} declarations of {name}")

    @property
    def constant_infos(self) -> tuple[ConstantInfo, ...]:
        """What the constants stand for."""
        return tuple(constant.data for constant in self.constants)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of the tables, each once, in order."""
        seen: dict[str, Machine] = {}
        for table in self.tables:
            for machine in (table.machine, *table.elsewhere):
                seen.setdefault(machine.name, machine)
        return tuple(seen.values())

    @property
    def end(self) -> Expression:
        """`terminal` as an expression."""
        return lift(self.terminal)
