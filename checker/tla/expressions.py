"""Writes expressions in TLA+. `language.terms.values` defines their meaning; see
`Epochfence.tla`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...language import (
    Bag,
    Bool,
    DeclarationError,
    Enum,
    Expression,
    Int,
    Key,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
)
from ...language.declaration.typecheck import type_of
from ...language.expressions import QUANTIFIERS, Bound, EnumValue
from ...language.terms.derived import definition
from ...language.types import Constants, Type, Value, initial_value
from .layout import AND, IMPLIES, OR, Choice, Formula, Headed, Junction, joined, line
from .names import Names

Scope = Mapping[Expression, str]
BEFORE = "@"
"""In a function with a new value at some place: the value before."""


class Writer:
    """Writes expressions with the names of variables in `names`. `constants` decide the bounds of
    types.
    """

    def __init__(self, names: Names, constants: Constants) -> None:
        self.names = names
        self.constants = constants

    def formula(self, e: Expression, scope: Scope) -> Formula:
        """The formula of an expression. `scope` has the names of variables that are bound around
        it.

        Raises DeclarationError for an expression that can't be written.
        """
        args = e.args
        match e.op:
            case "and" | "or" if isinstance(type_of(args[0]), Bool):
                if e.data == "implies" and args[0].op == "not":
                    premise = self.formula(args[0].args[0], scope)
                    return Junction(IMPLIES, (premise, self.formula(args[1], scope)))
                return joined(_SIGNS[e.op], *(self.formula(part, scope) for part in args))
            case "if":
                kind = type_of(e)
                then, other = (self.of_type(arg, kind, scope) for arg in args[1:])
                return Choice(self.formula(args[0], scope), then, other)
            case "all" | "any":
                return self.quantified(e, scope)
            case _:
                return self.term(e, scope)

    def text(self, e: Expression, scope: Scope) -> str:
        """The formula of an expression on one line."""
        return line(self.formula(e, scope))

    def term(self, e: Expression, scope: Scope) -> str:
        args = e.args
        match e.op:
            case "const":
                return self.plain_value(e.data)
            case "constant":
                return self.names.constant(e.data.name)
            case "field":
                whole = self.names.variable(f"{e.data.machine}.{e.data.name}")
                return f"{whole}[{self.text(args[0], scope)}]" if args else whole
            case "variable" | "element" | "parameter":
                if e not in scope:
                    raise DeclarationError(f"`{e}` is not bound here")
                return scope[e]
            case "position":
                return f"({scope[e]} - 1)" if e in scope else self.text(args[0], scope)
            case "after":
                return f"({self.text(args[0], scope)})'"
            case "index" if e in scope:
                return scope[e]
            case _ if e.op in QUANTIFIERS:
                return line(self.quantified(e, scope))
            case _:
                return self.plain(e, scope)

    def of_type(self, e: Expression, kind: Type | None, scope: Scope) -> str:
        """An expression converted to a type: a plain value becomes an optional if needed."""
        text = self.text(e, scope)
        is_none = e.op == "const" and e.data is None
        if isinstance(kind, Optional) and not is_none and not isinstance(type_of(e), Optional):
            return f"Some({text})"
        return text

    def plain_value(self, value: Any) -> str:
        if isinstance(value, EnumValue):
            return f'"{value.member}"'
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if value is None:
            return "None"
        if isinstance(value, int):
            return str(value) if value >= 0 else f"({value})"
        raise DeclarationError(f"{value!r} can't be written in TLA+")

    # Operators ------------------------------------------------------------------------------------

    def plain(self, e: Expression, scope: Scope) -> str:  # noqa: C901 (a case for each operator)
        if e.op == "eq":
            return self.compared(e, "=", scope)
        if e.op == "not" and e.args[0].op == "eq":
            return self.compared(e.args[0], "#", scope)
        if e.op in _DEFINED and (defined := definition(e)) is not None:
            return self.text(defined, scope)
        kinds = [type_of(arg) for arg in e.args]
        v = [self.text(arg, scope) for arg in e.args[: 2 if e.op == "updated" else None]]
        match e.op:
            case "not":
                return f"(~{v[0]})"
            case _ if e.op in _OF_SETS and isinstance(kinds[0], Set):
                return f"({v[0]} {_OF_SETS[e.op]} {v[1]})"
            case "add" if isinstance(kinds[0], Sequence):
                return f"({v[0]} \\o {v[1]})"
            case _ if e.op in _OF_NUMBERS:
                return f"({v[0]} {_OF_NUMBERS[e.op]} {v[1]})"
            case "in" if isinstance(kinds[0], Optional):
                return f"({v[0]} \\in {{Some(x) : x \\in {v[1]}}})"
            case "in" if isinstance(kinds[1], Bag):
                return f"({v[0]} \\in DOMAIN {v[1]})"
            case "in":
                return f"({v[0]} \\in {v[1]})"
            case "get":
                return f"{v[0]}.{e.data}"
            case "index" if isinstance(kinds[0], Sequence):
                return f"At({v[0]}, {v[1]})"
            case "index":
                return f"{v[0]}[{v[1]}]"
            case "is_set":
                return f"IsSet({v[0]})"
            case "value":
                kind = type_of(e)
                assert kind is not None
                return f"ValueOr({v[0]}, {self.initial(kind)})"
            case "some":
                return v[0] if isinstance(kinds[0], Optional) else f"Some({v[0]})"
            case "set_of":
                return f"{{{', '.join(v)}}}"
            case "size":
                return f"{_SIZES[type(kinds[0])]}({v[0]})"
            case "make":
                record, names = e.data
                return self.record(record, dict(zip(names, e.args, strict=True)), scope)
            case "replace":
                record = type_of(e)
                assert isinstance(record, Record)
                changes = ", ".join(
                    f"!.{name} = {self.of_type(arg, record.type_of(name), scope)}"
                    for name, arg in zip(e.data, e.args[1:], strict=True)
                )
                return f"[{v[0]} EXCEPT {changes}]"
            case "updated":
                whole = type_of(e)
                assert isinstance(whole, Map)
                inner = {part: name for part, name in scope.items() if name != BEFORE}
                inner[Expression("index", e.args[:2])] = BEFORE
                value = self.of_type(e.args[2], whole.of, inner)
                return f"[{v[0]} EXCEPT ![{v[1]}] = {value}]"
            case _:
                return self.of_sequence(e, v, kinds[0] if kinds else None)

    def compared(self, e: Expression, sign: str, scope: Scope) -> str:
        """A comparison of two values. If only one is optional, the other is converted."""
        kinds = (type_of(arg) for arg in e.args)
        optional = next((kind for kind in kinds if isinstance(kind, Optional)), None)
        left, right = (self.of_type(arg, optional, scope) for arg in e.args)
        return f"({left} {sign} {right})"

    def of_sequence(self, e: Expression, v: list[str], kind: Any) -> str:
        match e.op:
            case "sequence_of":
                return f"<<{', '.join(v)}>>"
            case "slice" if e.args[2].op == "const" and e.args[2].data is None:
                return f"From({v[0]}, {v[1]})"
            case "push":
                capacity = self.number(kind.capacity)
                return f"Push({v[0]}, {v[1]}, {capacity})"
            case "insert_by":
                return f"InsertBefore({v[0]}, {v[1]}, LAMBDA x : x.{e.data} > {v[1]}.{e.data})"
            case _ if e.op in _OF_SEQUENCES:
                return f"{_OF_SEQUENCES[e.op]}({', '.join(v)})"
            case _:
                raise DeclarationError(f"`{e}`: TLA+ has no {e.op} here")

    def record(self, record: Record, given: Mapping[str, Expression], scope: Scope) -> str:
        """A record of these fields. Other fields have their initial values."""
        values = (
            self.of_type(given[name], of, scope) if name in given else self.initial(of)
            for name, of in record.fields
        )
        fields = zip(record.fields, values, strict=True)
        return f"[{', '.join(f'{name} |-> {value}' for (name, _), value in fields)}]"

    # Quantifiers ----------------------------------------------------------------------------------

    def quantified(self, e: Expression, scope: Scope) -> Formula:
        bound, body = e.args
        if bound.op == "variable":
            name = self.names.bound(bound.data.name, scope.values())
            holds = self.formula(body, {**scope, bound: name})
            return self.over(e, name, self.values(bound.data.type), holds)
        name = self.names.bound(bound.data, scope.values())
        inner = {**scope, bound: name}
        kind = type_of(bound.args[0])
        if isinstance(kind, Sequence):
            return self.over_sequence(e, name, inner)
        whole = self.text(bound.args[0], inner)  # in the scope of the name
        match kind:
            case Bag():
                return self.over_bag(e, name, whole, self.formula(body, inner))
            case _:
                return self.over(e, name, whole, self.formula(body, inner))

    def over(self, e: Expression, name: str, domain: str, body: Formula) -> Formula:
        """A quantifier over the members of a set."""
        inside = line(body)
        match e.op:
            case "all" | "any":
                return Headed(f"{_QUANTIFIERS[e.op]} {name} \\in {domain} :", body)
            case "count":
                return f"Cardinality({{{name} \\in {domain} : {inside}}})"
            case "sum":
                return f"Sum([{name} \\in {domain} |-> {inside}])"
            case "max" | "min":
                which = "Greatest" if e.op == "max" else "Least"
                return f"{which}Or0({{{inside} : {name} \\in {domain}}})"
            case "each":
                return f"[{name} \\in {domain} |-> {inside}]"
            case "those":
                return f"{{{name} \\in {domain} : {inside}}}"
            case "first_of" if isinstance(e.args[0].data, Bound):
                return f"LeastOf({{{name} \\in {domain} : {inside}}})"
            case _:
                raise DeclarationError(f"`{e}`: TLA+ has no {e.op} of a set")

    def over_bag(self, e: Expression, name: str, bag: str, body: Formula) -> Formula:
        """A quantifier over the elements of a bag, with their multiplicity."""
        each, inside = f"DOMAIN {bag}", line(body)
        match e.op:
            case "count":
                return f"Sum([{name} \\in {each} |-> IF {inside} THEN {bag}[{name}] ELSE 0])"
            case "sum":
                return f"Sum([{name} \\in {each} |-> {bag}[{name}] * {inside}])"
            case "keep":
                return f"KeptIn({bag}, {{{name} \\in {each} : {inside}}})"
            case "each" | "first_of":
                raise DeclarationError(f"`{e}`: TLA+ has no {e.op} of a bag")
            case _:
                return self.over(e, name, each, body)

    def over_sequence(self, e: Expression, name: str, scope: Scope) -> Formula:
        """A quantifier over the places of a sequence, which TLA+ counts from 1."""
        bound, body = e.args
        at = self.names.bound(f"at_{name}", scope.values())
        inner = {**scope, Expression("position", (bound,)): at}
        whole = self.text(bound.args[0], inner)
        holds = self.formula(body, inner)
        is_one = f"{name} \\in {{{whole}[{at}]}} :"
        match e.op:
            case "all" | "any":
                sign = _QUANTIFIERS[e.op]
                return self.over(e, at, f"DOMAIN {whole}", Headed(f"{sign} {is_one}", holds))
            case "sum" | "max" | "min":
                value = f"LET {name} == {whole}[{at}] IN {line(holds)}"
                return self.over(e, at, f"DOMAIN {whole}", value)
            case _:
                pass
        places = f"{{{at} \\in DOMAIN {whole} : \\E {is_one} {line(holds)}}}"
        match e.op:
            case "count":
                return f"Cardinality({places})"
            case "keep":
                return f"Kept({whole}, {places})"
            case "first_of":
                return f"FirstOf({whole}, {places})"
            case "those":
                return f"{{{whole}[{at}] : {at} \\in {places}}}"
            case _:
                raise DeclarationError(f"`{e}`: TLA+ has no {e.op} of a sequence")

    # Types and values -----------------------------------------------------------------------------

    def number(self, bound: int | Expression) -> str:
        """A bound of a type."""
        return str(bound) if isinstance(bound, int) else self.text(bound, {})

    def values(self, kind: Type) -> str:
        """The set of the values of a scalar type, or of an optional scalar."""
        match kind:
            case Bool():
                return "BOOLEAN"
            case Int():
                return f"({self.number(kind.low)}..{self.number(kind.high)})"
            case Enum():
                names = (f'"{name}"' for name in kind.names_at(self.constants))
                return f"{{{', '.join(names)}}}"
            case Key():
                return f"(0..({self.number(kind.size)} - 1))"
            case Optional():
                return f"OptionalOf({self.values(kind.of)})"
            case _:
                raise DeclarationError(f"{kind}: its values can't be listed in TLA+")

    def belongs(self, text: str, kind: Type, around: tuple[str, ...] = ()) -> Formula:
        """Whether a value belongs to a type."""

        def each(name: str, of: Type, domain: str, place: str) -> Formula:
            bound = self.names.bound(name, around)
            inner = self.belongs(place.format(bound), of, (*around, bound))
            return Headed(f"\\A {bound} \\in {domain} :", inner)

        match kind:
            case Optional():
                return joined(OR, f"({text} = None)", self.belongs(f"{text}[1]", kind.of, around))
            case Set():
                return f"({text} \\subseteq {self.values(kind.of)})"
            case Record():
                return joined(
                    AND, *(self.belongs(f"{text}.{name}", of, around) for name, of in kind.fields)
                )
            case Map():
                return each("key", kind.of, self.values(kind.key), f"{text}[{{}}]")
            case Sequence():
                held = f"(Len({text}) <= {self.number(kind.capacity)})"
                return joined(AND, held, each("place", kind.of, f"DOMAIN {text}", f"{text}[{{}}]"))
            case Bag():
                held = f"(BagSize({text}) <= {self.number(kind.capacity)})"
                return joined(AND, held, each("element", kind.of, f"DOMAIN {text}", "{}"))
            case _:
                return f"({text} \\in {self.values(kind)})"

    def initial(self, kind: Type) -> str:
        """A type's initial value."""
        return self.value(kind, initial_value(kind, self.constants))

    def value(self, kind: Type, value: Value) -> str:
        """A plain value of a type."""
        match kind:
            case Optional():
                return "None" if value is None else f"Some({self.value(kind.of, value)})"
            case Enum():
                return f'"{value}"'
            case Set():
                assert isinstance(value, frozenset)
                return f"{{{', '.join(sorted(self.value(kind.of, one) for one in value))}}}"
            case Sequence():
                return f"<<{', '.join(self.value(kind.of, one) for one in _tuple(value))}>>"
            case Bag():
                filled = "EmptyBag"
                for one in _tuple(value):
                    filled = f"Put({filled}, {self.value(kind.of, one)})"
                return filled
            case Record():
                pairs = zip(kind.fields, _tuple(value), strict=True)
                return f"[{', '.join(f'{n} |-> {self.value(of, one)}' for (n, of), one in pairs)}]"
            case Map():
                first, *others = (self.value(kind.of, one) for one in _tuple(value))
                whole = f"MapOf({self.values(kind.key)}, {first})"
                other = [f"![{at}] = {one}" for at, one in enumerate(others, 1) if one != first]
                return f"[{whole} EXCEPT {', '.join(other)}]" if other else whole
            case _:
                return self.plain_value(value)


def _tuple(value: Value) -> tuple[Value, ...]:
    assert isinstance(value, tuple)
    return value


_SIZES: dict[type, str] = {Set: "Cardinality", Sequence: "Len", Bag: "BagSize"}
_DEFINED = {"wrap", "first", "without_first"}  # expanded; other derived operators have names
_QUANTIFIERS = {"all": "\\A", "any": "\\E"}
_SIGNS = {"and": AND, "or": OR}
_OF_SETS = {"and": "\\cap", "or": "\\cup", "sub": "\\", "le": "\\subseteq"}
_OF_NUMBERS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "\\div",
    "mod": "%",
    "lt": "<",
    "le": "<=",
}
_OF_SEQUENCES = {
    "append": "Append",
    "last": "Last",
    "is_prefix": "IsPrefix",
    "slice": "Slice",
    "put": "Put",
    "take": "Take",
}


def conjuncts(e: Expression) -> Iterable[Expression]:
    """The conjuncts of `e`."""
    if e.op == "and" and isinstance(type_of(e.args[0]), Bool):
        for part in e.args:
            yield from conjuncts(part)
    elif not (e.op == "const" and e.data is True):
        yield e
