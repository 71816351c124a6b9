"""Rows as plain Python functions: expressions become source text, and that is compiled once.

`evaluate` says what an expression means; a test compares the two. What occurs more than once in a
table's rows is computed once, before the first row that needs it: expressions have no effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...language.errors import DeclarationError
from ...language.expressions import QUANTIFIERS, EnumValue, Expression, Field, divisor
from ...language.scopes import free_variables
from ...language.typecheck import type_of
from ...language.types import Bool, Enum, Int, Key, Map, Optional, Record, Set, Type, Value
from ...language.types import Sequence as Line
from ...language.values import canonical
from .values import FRESH, Ranges, Sparse, Unbounded, known_keys, no_others, tells_apart

_PLAIN = {"const", "constant", "parameter", "this", "variable", "element"}
_INFIX = {
    "eq": "==", "lt": "<", "le": "<=", "add": "+", "sub": "-", "mul": "*", "in": "in",
}  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """A message that a row sends: what makes it of its fields, these, for which values of the
    variables `to_each`, and under which condition."""

    make: Callable[..., Any]
    fields: tuple[Expression, ...]
    to_each: tuple[Expression, ...]
    when: Expression


@dataclass(frozen=True)
class Rule:
    """A row, ready to be compiled."""

    name: str
    guard: Expression
    updates: tuple[tuple[Expression, Expression], ...]
    sends: tuple[Sent, ...] = ()
    room: Expression | None = None


def _lasting(
    updates: tuple[tuple[Expression, Expression], ...],
) -> list[tuple[Expression, Expression]]:
    """The updates without those of which nothing is left: the whole is set after its part."""
    kept: list[tuple[Expression, Expression]] = []
    later = set[Expression]()
    for target, value in reversed(updates):
        wholes = {target}
        node = target
        while node.op != "field":
            node = node.args[0]
            wholes.add(node)
        if wholes.isdisjoint(later):
            kept.insert(0, (target, value))
        later.add(target)
    return kept


@dataclass(frozen=True)
class Layout:
    """Where things are: each field's place in the state, or in what is outside of the machine, and
    the name of each parameter."""

    places: Mapping[tuple[str, str], str]
    names: Mapping[Expression, str]


def _first_from(values: Any) -> Any:
    return values[0] if values else None


def _last_of(values: Any) -> Any:
    return values[-1] if values else None


def _at(values: Any, place: int) -> Any:
    return values[place] if 0 <= place < len(values) else None


def _slice(values: Any, start: int, stop: int | None) -> Any:
    return values[max(0, start) : None if stop is None else max(0, stop)]


def _or(value: Any, initial: Any) -> Any:
    return initial if value is None else value


def _updated(whole: Any, key: Any, value: Any) -> Any:
    if isinstance(whole, Sparse):
        changed = whole.copy()
        changed[key] = value
        return changed
    return (*whole[:key], value, *whole[key + 1 :])


def _insert_by(sequence: Any, value: Any, at: int) -> Any:
    place = next((i for i, other in enumerate(sequence) if other[at] > value[at]), len(sequence))
    return (*sequence[:place], value, *sequence[place:])


def _take(bag: Any, value: Any) -> Any:
    if value not in bag:
        return bag
    place = bag.index(value)
    return (*bag[:place], *bag[place + 1 :])


def _with(whole: Any, changes: Mapping[int, Any]) -> Any:
    return tuple(changes.get(place, value) for place, value in enumerate(whole))


def _placed(whole: Any, path: Sequence[Any], value: Any) -> Any:
    if not path:
        return value
    key = path[0]
    return _updated(whole, key, _placed(whole[key], path[1:], value))


class Compiler:
    """Turns tables into functions, for one layout of state and one choice of ranges.

    A function is called with the machine's fields `s` (a list, changed in place), the fields
    outside of it `o`, its identity `this`, and the event's parameters. It answers the row's index
    and what was sent, or None where the event can't happen.
    """

    def __init__(
        self, layout: Layout, ranges: Ranges, *,
        out_of_range: Callable[[str, Any], Exception],
        refused: Callable[[str, Type, Any], Exception],
    ) -> None:  # fmt: skip
        self.layout = layout
        self.ranges = ranges
        self.names: dict[str, Any] = {
            "_Sparse": Sparse, "_FRESH": FRESH, "_known": known_keys, "_no_others": no_others,
            "_first": _first_from, "_last": _last_of, "_at": _at, "_slice": _slice,
            "_or": _or, "_updated": _updated,
            "_insert_by": _insert_by, "_take": _take, "_with": _with, "_placed": _placed,
            "_out_of_range": out_of_range, "_refused": refused,
        }  # fmt: skip
        self.lines: list[str] = []
        self.indent = 1
        self.known: dict[Expression, str] = {}
        self.shared: set[Expression] = set()
        self.hidden: set[Expression] = set()
        self.count = 0

    # Functions --------------------------------------------------------------------------------

    def function(
        self, parameters: Mapping[str, Type], when: Expression, rules: Sequence[Rule],
        *, checked: bool = False, apply: bool = True,
    ) -> Callable[..., Any]:  # fmt: skip
        """The function of a table. `apply`: it changes the state, else it only finds the row.
        With `checked` every stored value is looked at as a whole, and no parameter is."""
        self.lines, self.known, self.indent = [], {}, 1
        if not checked:
            for parameter, kind in parameters.items():
                self._admit(parameter, kind)
        self.shared = self._repeated(when, rules, apply)
        self.checked = checked
        self._test(when, "return None", negated=True)
        ends = False
        for at, rule in enumerate(rules):
            unconditional = rule.guard.op == "const" and rule.guard.data is True
            if unconditional:
                self._body(at, rule, apply)
                ends = True
                break
            condition = self.code(rule.guard)
            self._line(f"if {condition}:")
            self._nested(lambda at=at, rule=rule: self._body(at, rule, apply))
        if not ends:
            self._line("return None")
        return self._made(parameters)

    def expression(self, value: Expression, parameters: Mapping[str, Type]) -> Callable[..., Any]:
        """The function that comes to an expression's value."""
        self.lines, self.known, self.indent = [], {}, 1
        self.shared = self._repeated(value, (), False)
        self._line(f"return {self.code(value)}")
        return self._made(parameters)

    def _made(self, parameters: Mapping[str, Type]) -> Callable[..., Any]:
        source = f"def made({', '.join(('s', 'o', 'this', *parameters))}):\n"
        made: dict[str, Any] = {}
        exec(source + "\n".join(self.lines), self.names, made)
        return made["made"]

    def _admit(self, name: str, kind: Type) -> None:
        """The check of a parameter's type and range."""
        inner = kind.of if isinstance(kind, Optional) else kind
        match inner:
            case Bool():
                fits = f"{name} is True or {name} is False"
            case Int() | Key() if (ends := self._ends(inner)) is not None:
                low, high = ends
                fits = f"type({name}) is int and {low} <= {name} <= {high}"
            case Key():
                fits = f"{name}.__hash__ is not None"
            case Enum():
                known = self._constant(set(self.ranges.names(inner)))
                fits = f"{name}.__class__ is str and {name} in {known}"
            case _:
                self.names["_contains"] = self.ranges.contains
                fits = f"_contains({self._constant(inner)}, {name})"
        nothing = f"{name} is None or " if isinstance(kind, Optional) else ""
        wrong = f"_refused({name!r}, {self._constant(kind)}, {name})"
        self._line(f"if not ({nothing}{fits}): raise {wrong}")

    def _ends(self, kind: Int | Key) -> tuple[int, int] | None:
        if isinstance(kind, Key):
            count = self.ranges.keys(kind)
            return None if count is None else (0, count - 1)
        low, high = self.ranges.of_int(kind)
        return None if low is None or high is None else (low, high)

    def _repeated(self, when: Expression, rules: Sequence[Rule], apply: bool) -> set[Expression]:
        seen: Counter[Expression] = Counter()
        self.hidden = set[Expression]()

        def count(node: Expression) -> None:
            seen[node] += 1
            if node.op in QUANTIFIERS:
                self.hidden.add(node.args[0])  # inside, it is another one than a parameter
            if seen[node] == 1:
                for part in node.args:
                    count(part)

        count(when)
        for rule in rules:
            count(rule.guard)
            if not apply:
                continue
            for target, value in rule.updates:
                count(value)
                for part in target.args:
                    count(part)
            for sent in rule.sends:
                for part in (sent.when, *sent.fields):
                    count(part)
        return {
            node
            for node, times in seen.items()
            if times > 1 and node.op not in _PLAIN and not self._bound_inside(node)
        }

    def _bound_inside(self, node: Expression) -> bool:
        """Whether something that a quantifier binds stands free in it."""
        outside = self.layout.names.keys() - self.hidden
        return any(name not in outside for name in free_variables(node))

    def _body(self, at: int, rule: Rule, apply: bool) -> None:
        if rule.room is not None:
            self._test(rule.room, "return None", negated=True)
        if not apply:
            self._line(f"return {at}")
            return
        updates = _lasting(rule.updates)
        values = [(target, self._local(value)) for target, value in updates]
        paths = [self._path(target) for target, _ in values]
        for (target, local), (_, value) in zip(values, updates, strict=True):
            self._check(target, value, local)
        sent = self._sent(rule.sends)
        self._store([(*path, local) for path, (_, local) in zip(paths, values, strict=True)])
        self._line(f"return {at}, {sent}")

    def _key(self, key: Expression) -> str:
        code = self.code(key)
        return code if code.isidentifier() else self._assigned(code)

    def _local(self, value: Expression) -> str:
        code = self.code(value)
        name = code if code.isidentifier() else self._assigned(code)
        if self.ranges.open_keys and isinstance(type_of(value), Map):
            self._line(f"{name}.shared = True")  # it may be another field's as well
        return name

    def _assigned(self, code: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self._line(f"{name} = {code}")
        return name

    def _path(self, target: Expression) -> tuple[str, list[str], list[int]]:
        """The field that a target is part of, the keys and then the record fields to it."""
        keys: list[str] = []
        gets: list[int] = []
        node = target
        while node.op != "field":
            if node.op == "get":
                kind = type_of(node.args[0])
                assert isinstance(kind, Record)
                place = [name for name, _ in kind.fields].index(node.data)
                if keys:
                    keys.insert(0, str(place))
                else:
                    gets.insert(0, place)
            else:
                keys.insert(0, self._key(node.args[1]))
            node = node.args[0]
        if node.args:
            keys.insert(0, self._key(node.args[0]))
        return self._place(node.data), keys, gets

    def _store(self, updates: list[tuple[str, list[str], list[int], str]]) -> None:
        at = 0
        while at < len(updates):
            base, keys, gets, value = updates[at]
            at += 1
            in_place = self.ranges.open_keys and len(keys) == 1
            if in_place and len(gets) <= 1:
                self._line(f"if {base}.shared: {base} = {base}.copy()")
            if not gets and (not keys or in_place):
                self._line(f"{base}{f'[{keys[0]}]' if keys else ''} = {value}")
            elif len(gets) == 1 and (not keys or in_place):
                changes = {gets[0]: value}
                while at < len(updates):
                    other, again, more, local = updates[at]
                    if (other, again) != (base, keys) or len(more) != 1:
                        break
                    changes[more[0]] = local
                    at += 1
                whole = f"{base}{f'[{keys[0]}]' if keys else ''}"
                inner = ", ".join(f"{place}: {local}" for place, local in changes.items())
                self._line(f"{whole} = _with({whole}, {{{inner}}})")
            else:
                path = ", ".join((*keys, *map(str, gets)))
                self._line(f"{base} = _placed({base}, ({path},), {value})")

    def _check(self, target: Expression, value: Expression, local: str) -> None:
        kind = type_of(target)
        assert kind is not None
        if self.checked:
            place = self._constant(kind)
            self.names["_contains"] = self.ranges.contains
            name = self._constant(str(target))
            self._line(f"if not _contains({place}, {local}): raise _out_of_range({name}, {local})")
            return
        inner = kind.of if isinstance(kind, Optional) else kind
        if not isinstance(inner, Int) or value.op in ("const", "parameter", "field", "get"):
            return
        low, high = self.ranges.of_int(inner)
        bounds = f"{'' if low is None else f'{low} <= '}{local}"
        bounds += "" if high is None else f" <= {high}"
        nothing = f"{local} is not None and " if isinstance(kind, Optional) else ""
        name = self._constant(str(target))
        self._line(f"if {nothing}not {bounds}: raise _out_of_range({name}, {local})")

    def _sent(self, sends: Sequence[Sent]) -> str:
        if not sends:
            return "()"
        if all(not sent.to_each and _is_true(sent.when) for sent in sends):
            # before the state changes, which messages tell of
            messages = "".join(f"{self._message(sent, {})}, " for sent in sends)
            return self._assigned(f"({messages})")
        out = self._assigned("[]")
        for sent in sends:
            if not sent.to_each:
                self._line(f"if {self.code(sent.when)}: {out}.append({self._message(sent, {})})")
                continue
            scope: dict[Expression, str] = {}
            loops = ""
            for place, bound in enumerate(sent.to_each):
                # what tells this variable's values apart: the whole condition
                name, domain = f"k{self.count}", self._open_domain(bound, sent, place, scope)
                self.count += 1
                loops += f" for {name} in {domain}"
                scope[bound] = name
            condition = self.code(sent.when, scope)
            message = self._message(sent, scope)
            self._line(f"{out}.extend({message}{loops} if {condition})")
        return f"tuple({out})"

    def _open_domain(
        self, bound: Expression, sent: Sent, place: int, scope: Mapping[Expression, str]
    ) -> str:
        if not self._is_open(type_of(bound)):
            return self._domain_of(type_of(bound))
        inner = {*sent.to_each[place:]}
        maps, items, sets = tells_apart(
            bound, sent.when, lambda part: not (free_variables(part) & inner)
        )
        return self._known(maps, items, sets, scope)

    def _message(self, sent: Sent, scope: Mapping[Expression, str]) -> str:
        make = self._constant(sent.make)
        inner = ", ".join(self.code(value, scope) for value in sent.fields)
        return f"{make}({inner})"

    def _test(self, condition: Expression, then: str, *, negated: bool) -> None:
        if _is_true(condition):
            return
        code = self.code(condition)
        self._line(f"if {'not ' if negated else ''}({code}): {then}")

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _nested(self, write: Callable[[], None]) -> None:
        known = dict(self.known)
        self.indent += 1
        write()
        self.indent -= 1
        self.known = known

    # Expressions ------------------------------------------------------------------------------

    def code(self, e: Expression, scope: Mapping[Expression, str] | None = None) -> str:
        """The expression as Python; what is shared is put into a local first."""
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
                    raise Unbounded(f"a quantifier over {kind} has no end at real ranges")
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
            if part.op == "field":  # another machine's field, read at the variable
                lists.append(self._place(part.data))
            else:
                lists.append(self.code(part, scope))
        held = [self.code(part, scope) for part in items]
        inside = [self.code(part, scope) for part in sets]
        maps_, items_, sets_ = (
            f"({''.join(f'{c}, ' for c in cs)})" for cs in (lists, held, inside)
        )
        return f"_known({maps_}, {items_}, {sets_})"

    def _code(self, e: Expression, scope: Mapping[Expression, str]) -> str:
        op, args, data = e.op, e.args, e.data
        match op:
            case "const":
                return repr(data.member if isinstance(data, EnumValue) else data)
            case "constant":
                number = self.ranges.number(e)
                if number is None:
                    raise Unbounded(f"{e} has no value at real ranges")
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
                    raise Unbounded(f"`{e}`: keys of any kind have no order")
                return self.code(args[0], scope)
            case _ if op in _INFIX:
                return f"({self.code(args[0], scope)} {_INFIX[op]} {self.code(args[1], scope)})"
            case _ if op in QUANTIFIERS:
                return self._quantified(e, scope)
            case _:
                return self._structured(e, [self.code(part, scope) for part in args])

    def _simple(self, code: str) -> bool:
        return code.isidentifier()

    def _structured(self, e: Expression, v: list[str]) -> str:
        op, args, data = e.op, e.args, e.data
        kind: Any = type_of(args[0]) if args else None
        match op:
            case "index":
                return f"_at({v[0]}, {v[1]})" if isinstance(kind, Line) else f"{v[0]}[{v[1]}]"
            case "slice":
                return f"_slice({v[0]}, {v[1]}, {v[2]})"
            case "is_prefix":
                return f"(_slice({v[1]}, 0, len({v[0]})) == {v[0]})"
            case "div" | "mod":
                by = self.ranges.number(args[1])
                if by is None:
                    raise Unbounded(f"`{e}`: {args[1]} has no value at real ranges")
                return f"({v[0]} {'//' if op == 'div' else '%'} {divisor(e, by)})"
            case "get":
                return f"{v[0]}[{[name for name, _ in kind.fields].index(data)}]"
            case "is_set":
                return f"({v[0]} is not None)"
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
            case "wrap":
                low, high = self.ranges.of_int(data)
                assert low is not None
                assert high is not None
                return f"(({v[0]} - {low}) % {high - low + 1} + {low})"
            case "first":
                return f"_first({v[0]})"
            case "last":
                if self._simple(v[0]):
                    return f"({v[0]}[-1] if {v[0]} else None)"
                return f"_last({v[0]})"
            case "without_first":
                return f"{v[0]}[1:]"
            case "append":
                return f"(*{v[0]}, {v[1]})"
            case "push":
                most = self.ranges.number(kind.capacity)
                if most is None:
                    return f"(*{v[0]}, {v[1]})"
                return f"(*({v[0]} if len({v[0]}) < {most} else {v[0]}[1:]), {v[1]})"
            case "insert_by":
                place = [name for name, _ in kind.of.fields].index(data)
                return f"_insert_by({v[0]}, {v[1]}, {place})"
            case "put":
                return f"{self._canonical(kind.of)}((*{v[0]}, {v[1]}))"
            case "take":
                return f"_take({v[0]}, {v[1]})"
            case _:
                raise DeclarationError(f"no operator is called {op}")

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
                raise Unbounded(f"`{e}`: keys of any kind have no order")
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


def _is_true(condition: Expression) -> bool:
    return condition.op == "const" and condition.data is True


def _inside(e: Expression) -> Iterator[Expression]:
    yield e
    for part in e.args:
        yield from _inside(part)


def _bound_in(body: Expression) -> set[Expression]:
    return {node.args[0] for node in _inside(body) if node.op in QUANTIFIERS}
