"""Expressions as Python's source text, for one layout of state and one choice of ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....language.declaration.errors import DeclarationError
from ....language.declaration.typecheck import type_of
from ....language.expressions import QUANTIFIERS, EnumValue, Expression, Field, divisor
from ....language.terms.derived import definition
from ....language.terms.operators import append
from ....language.terms.scopes import free_variables
from ....language.terms.values import between, canonical, element_at, last_of, without
from ....language.types import Enum, Int, Key, Optional, Set, Type, Value
from ....language.types import Sequence as Line
from ..values import (
    FRESH,
    Ranges,
    Sparse,
    UnboundedError,
    changed,
    known_keys,
    no_others,
    or_initial,
    placed,
    tells_apart,
    updated,
)

_INFIX = {
    "eq": "==", "lt": "<", "add": "+", "sub": "-", "mul": "*", "in": "in",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """The place of each field, in the state or outside of the machine, and the name of each
    parameter."""

    places: Mapping[tuple[str, str], str]
    names: Mapping[Expression, str]


class Source:
    """The lines of a function that is being written, and their names.

    Expressions in `shared` are assigned to a local variable at their first use.
    """

    def __init__(self, layout: Layout, ranges: Ranges) -> None:
        self.layout = layout
        self.ranges = ranges
        self.names: dict[str, Any] = {
            "_Sparse": Sparse, "_FRESH": FRESH, "_known": known_keys, "_no_others": no_others,
            "_last": last_of, "_at": element_at,
            "_slice": between, "_or": or_initial,
            "_updated": updated,
            "_take": without, "_with": changed,
            "_placed": placed,
        }  # fmt: skip
        self.lines: list[str] = []
        self.indent = 1
        self.known: dict[Expression, str] = {}
        self.shared: set[Expression] = set()
        self.count = 0

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _assigned(self, code: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self._line(f"{name} = {code}")
        return name

    def code(self, e: Expression, scope: Mapping[Expression, str] | None = None) -> str:
        """The expression as Python; shared parts are put into locals first."""
        if e in self.known:
            return self.known[e]
        if e in self.shared:
            name = self._assigned(self._code(e, scope or {}))
            self.known[e] = name
            return name
        return self._code(e, scope or {})

    def _constant(self, value: Any) -> str:
        name = f"c_{len(self.names)}"
        self.names[name] = value
        return name

    def _place(self, field: Field) -> str:
        found = self.layout.places.get((field.machine, field.name))
        if found is None:
            raise DeclarationError(f"{field.machine}.{field.name} is not within reach here")
        return found

    def _is_open(self, kind: Type | None) -> bool:
        return self.ranges.open_keys and isinstance(kind, Key)

    def _domain_of(self, kind: Type | None) -> str:
        match kind:
            case Enum():
                return repr(self.ranges.names(kind))
            case Key():
                return f"range({self.ranges.keys(kind)})"
            case Int():
                low, high = self.ranges.of_int(kind)
                if low is None or high is None or high - low > 10_000:
                    raise UnboundedError(f"a quantifier over {kind} has no end at real ranges")
                return f"range({low}, {high + 1})"
            case Optional():
                return f"(None, *{self._domain_of(kind.of)})"
            case _:
                return "(False, True)"

    def _known(
        self,
        maps: Sequence[Expression],
        items: Sequence[Expression],
        sets: Sequence[Expression],
        scope: Mapping[Expression, str],
    ) -> str:
        if not (maps or items or sets):
            return "()"
        lists: list[str] = []
        for part in maps:
            if part.op == "field":  # another machine's field, for the instance of the variable
                lists.append(self._place(part.data))
            else:
                lists.append(self.code(part, scope))
        held = [self.code(part, scope) for part in items]
        inside = [self.code(part, scope) for part in sets]
        maps_, items_, sets_ = (
            f"({''.join(f'{c}, ' for c in cs)})" for cs in (lists, held, inside)
        )
        return f"_known({maps_}, {items_}, {sets_})"

    def _code(self, e: Expression, scope: Mapping[Expression, str]) -> str:  # noqa: C901 (a case for each operator)
        op, args, data = e.op, e.args, e.data
        match op:
            case "const":
                return repr(data.member if isinstance(data, EnumValue) else data)
            case "constant":
                number = self.ranges.number(e)
                if number is None:
                    raise UnboundedError(f"{e} has no value at real ranges")
                return repr(number)
            case "field":
                place = self._place(data)
                return f"{place}[{self.code(args[0], scope)}]" if args else place
            case "this":
                return "this"
            case "variable" | "element" | "parameter":
                if e in scope:
                    return scope[e]
                if e not in self.layout.names:
                    raise DeclarationError(f"`{e}` is not bound here")
                return self.layout.names[e]
            case "and" | "or" if isinstance(type_of(args[0]), Set):
                sign = "&" if op == "and" else "|"
                return f"({self.code(args[0], scope)} {sign} {self.code(args[1], scope)})"
            case "and" | "or":
                return f"({self.code(args[0], scope)} {op} {self.code(args[1], scope)})"
            case "not" if args[0].op == "lt" and args[0] not in self.shared:
                left, right = (self.code(part, scope) for part in args[0].args)
                return f"({left} >= {right})"
            case "not":
                return f"(not {self.code(args[0], scope)})"
            case "if":
                test, then, other = (self.code(part, scope) for part in args)
                return f"({then} if {test} else {other})"
            case "eq" if any(part.op == "const" and part.data is None for part in args):
                left, right = args
                some = left if right.op == "const" and right.data is None else right
                return f"({self.code(some, scope)} is None)"
            case "position":
                if e in scope:
                    return scope[e]
                if self._is_open(type_of(args[0])):
                    raise UnboundedError(f"`{e}`: keys of any kind have no order")
                return self.code(args[0], scope)
            case _ if op in _INFIX:
                return f"({self.code(args[0], scope)} {_INFIX[op]} {self.code(args[1], scope)})"
            case _ if op in QUANTIFIERS:
                return self._quantified(e, scope)
            case "push" if self.ranges.number(_capacity(e)) is None:
                return self.code(append(*args), scope)
            case _ if (defined := definition(e)) is not None:
                return self.code(defined, scope)
            case _:
                return self._structured(e, [self.code(part, scope) for part in args])

    def _simple(self, code: str) -> bool:
        return code.isidentifier()

    def _structured(self, e: Expression, v: list[str]) -> str:  # noqa: C901 (a case for each operator)
        op, args, data = e.op, e.args, e.data
        kind: Any = type_of(args[0]) if args else None
        match op:
            case "index":
                return self._at(*v) if isinstance(kind, Line) else f"{v[0]}[{v[1]}]"
            case "slice" if v[1].isdecimal() and v[2] == "None":
                return f"{v[0]}[{v[1]}:]"
            case "slice":
                return f"_slice({v[0]}, {v[1]}, {v[2]})"
            case "div" | "mod":
                by = self.ranges.number(args[1])
                if by is None:
                    raise UnboundedError(f"`{e}`: {args[1]} has no value at real ranges")
                return f"({v[0]} {'//' if op == 'div' else '%'} {divisor(e, by)})"
            case "get":
                return f"{v[0]}[{[name for name, _ in kind.fields].index(data)}]"
            case "value":
                of = type_of(e)
                assert of is not None
                initial = self._constant_value(self.ranges.initial(of))
                if self._simple(v[0]):
                    return f"({v[0]} if {v[0]} is not None else {initial})"
                return f"_or({v[0]}, {initial})"
            case "some":
                return v[0]
            case "set_of":
                return f"frozenset(({''.join(f'{part}, ' for part in v)}))"
            case "sequence_of":
                return f"({''.join(f'{part}, ' for part in v)})"
            case "size":
                return f"len({v[0]})"
            case "updated":
                return f"_updated({v[0]}, {v[1]}, {v[2]})"
            case "make":
                record, names = data
                given = dict(zip(names, v, strict=True))
                parts = (
                    given.get(name) or self._constant_value(self.ranges.initial(of))
                    for name, of in record.fields
                )
                return f"({''.join(f'{part}, ' for part in parts)})"
            case "replace":
                places = [name for name, _ in kind.fields]
                changes = {places.index(n): c for n, c in zip(data, v[1:], strict=True)}
                if self._simple(v[0]):
                    parts = (changes.get(i, f"{v[0]}[{i}]") for i in range(len(places)))
                    return f"({''.join(f'{part}, ' for part in parts)})"
                inner = ", ".join(f"{place}: {code}" for place, code in changes.items())
                return f"_with({v[0]}, {{{inner}}})"
            case "last":
                if self._simple(v[0]):
                    return f"({v[0]}[-1] if {v[0]} else None)"
                return f"_last({v[0]})"
            case "put":
                return f"{self._canonical(kind.of)}((*{v[0]}, {v[1]}))"
            case "take":
                return f"_take({v[0]}, {v[1]})"
            case _:
                raise DeclarationError(f"no operator is called {op}")

    def _at(self, sequence: str, place: str) -> str:
        if place == "0" and self._simple(sequence):
            return f"({sequence}[0] if {sequence} else None)"
        return f"_at({sequence}, {place})"

    def _constant_value(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        return self._constant(value)

    def _canonical(self, of: Type) -> str:
        constants = self.ranges.constants
        name = f"_canonical_{len(self.names)}"

        def ordered(values: Iterable[Value]) -> tuple[Value, ...]:
            return canonical(of, tuple(values), constants)

        self.names[name] = ordered
        return name

    def _quantified(self, e: Expression, scope: Mapping[Expression, str]) -> str:
        bound, body = e.args
        name = f"k{self.count}"
        self.count += 1
        inside = {**scope, bound: name}
        if bound.op == "element":
            domain = self.code(bound.args[0], scope)
            kind = type_of(bound.args[0])
            loop = f"for {name} in {domain}"
            if isinstance(kind, Line):
                place = Expression("position", (bound,))
                if any(node.same_as(place) for node in _inside(body)):
                    inside[place] = f"{name}_at"
                    loop = f"for {name}_at, {name} in enumerate({domain})"
        elif self._is_open(type_of(bound)):
            return self._open_quantified(e, name, inside, scope)
        else:
            loop = f"for {name} in {self._domain_of(type_of(bound))}"
        code = self.code(body, inside)
        match e.op:
            case "all" | "any":
                return f"{e.op}({code} {loop})"
            case "count":
                return f"sum(1 {loop} if {code})"
            case "sum":
                return f"sum([{code} {loop}])"
            case "max" | "min":
                return f"{e.op}([{code} {loop}], default=0)"
            case "each":
                return f"tuple([{code} {loop}])"
            case "those":
                return f"frozenset({name} {loop} if {code})"
            case "keep":
                return f"tuple([{name} {loop} if {code}])"
            case _:
                return f"next(({name} {loop} if {code}), None)"

    def _open_quantified(
        self, e: Expression, name: str, inside: Mapping[Expression, str],
        scope: Mapping[Expression, str],
    ) -> str:  # fmt: skip
        bound, body = e.args
        inner = _bound_in(body)
        parts = tells_apart(bound, body, lambda part: not (free_variables(part) & inner))
        keys = self._known(*parts, scope)
        code = self.code(body, inside)
        every = f"for {name} in (*{keys}, _FRESH)"
        listed = f"for {name} in {keys}"
        others = f"(lambda {name}: {code})(_FRESH)"
        match e.op:
            case "all" | "any" | "max" | "min":
                return f"{e.op}({code} {every})"
            case "first_of":
                raise UnboundedError(f"`{e}`: keys of any kind have no order")
            case "each" if any(parts):
                return f"_Sparse({others}, {{{name}: {code} {listed}}})"
            case "each":
                return f"_Sparse({others})"
            case "count":
                refused = f"_no_others({others}, {self._constant(str(e))})"
                return f"({refused} or sum(1 {listed} if {code}))"
            case "sum":
                refused = f"_no_others({others} != 0, {self._constant(str(e))})"
                return f"({refused} or sum([{code} {listed}]))"
            case _:
                refused = f"_no_others({others}, {self._constant(str(e))})"
                return f"({refused} or frozenset({name} {listed} if {code}))"


def _capacity(e: Expression) -> Expression | int:
    kind = type_of(e)
    assert isinstance(kind, Line)
    return kind.capacity


def _inside(e: Expression) -> Iterator[Expression]:
    yield e
    for part in e.args:
        yield from _inside(part)


def _bound_in(body: Expression) -> set[Expression]:
    return {node.args[0] for node in _inside(body) if node.op in QUANTIFIERS}
