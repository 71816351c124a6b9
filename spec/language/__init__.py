"""A small language for protocols: fields, rows, tables, systems and properties as data."""

from .errors import DeclarationError
from .expressions import (
    Expression,
    after,
    all_of,
    all_true,
    any_of,
    any_true,
    append,
    constant,
    count_of,
    each,
    element,
    first,
    if_,
    insert_by,
    keep,
    last,
    lift,
    make,
    maximum,
    minimum,
    push,
    put,
    replace,
    set_of,
    size,
    some,
    take,
    those,
    updated,
    variable,
    without_first,
    wrap,
)
from .instance import Action, ActionRow, Instance, Variable, instantiate
from .properties import Property, invariant, step_property
from .protocols import ONE_PROTOCOL, Protocols, feature
from .systems import Channel, System
from .tables import Event, Machine, Message, Row, Sending, Table, event, message, to_each
from .types import Bag, Bool, Enum, Int, Key, Map, Optional, Record, Sequence, Set, enum, record

__all__ = [
    "ONE_PROTOCOL", "Action", "ActionRow", "Bag", "Bool", "Channel", "DeclarationError", "Enum",
    "Event", "Expression", "Instance", "Int", "Key", "Machine", "Map", "Message", "Optional",
    "Property", "Protocols", "Record", "Row", "Sending", "Sequence", "Set", "System", "Table",
    "Variable", "after", "all_of", "all_true", "any_of", "any_true", "append", "constant",
    "count_of", "each", "element", "enum", "event", "feature", "first", "if_", "insert_by",
    "instantiate", "invariant", "keep", "last", "lift", "make", "maximum", "message", "minimum",
    "push", "put", "record", "replace", "set_of", "size", "some", "step_property", "take", "those",
    "to_each", "updated", "variable", "without_first", "wrap",
]  # fmt: skip
