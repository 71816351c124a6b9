"""Rows as plain Python functions: expressions become source text, and that is compiled once.

`evaluate` defines an expression's meaning; a test compares the two. Expressions have no effects, so
a common part of a table's rows is computed once, before the first row that needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....language.declaration.typecheck import type_of
from ....language.expressions import QUANTIFIERS, Expression
from ....language.terms.scopes import free_variables
from ....language.types import Bool, Enum, Int, Key, Map, Optional, Record, Type
from ..values import Ranges, tells_apart
from .source import Layout, Source

_PLAIN = {"const", "constant", "parameter", "this", "variable", "element"}


@dataclass(frozen=True)
class Sent:
    """A message that a row sends: its constructor, its fields, the variables of its receivers
    (`to_each`), and its condition."""

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
    """The updates without those that a later update overwrites, itself or as part of a larger
    value."""
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


class Compiler(Source):
    """Turns tables into functions, for one layout of state and one choice of ranges.

    A function is called with the machine's fields `s` (a list, changed in place), the fields
    outside of it `o`, its identity `this`, and the event's parameters. It returns the row's index
    and the messages, or None if the event can't happen.
    """

    def __init__(
        self, layout: Layout, ranges: Ranges, *,
        out_of_range: Callable[[str, Any], Exception],
        refused: Callable[[str, Type, Any], Exception],
    ) -> None:  # fmt: skip
        super().__init__(layout, ranges)
        self.names |= {"_out_of_range": out_of_range, "_refused": refused}
        self.hidden: set[Expression] = set()

    # Functions --------------------------------------------------------------------------------

    def function(
        self, parameters: Mapping[str, Type], when: Expression, rules: Sequence[Rule],
        *, checked: bool = False, apply: bool = True,
    ) -> Callable[..., Any]:  # fmt: skip
        """The function of a table. `apply`: it changes the state; otherwise it only finds the row.
        `checked`: it checks every stored value, and no parameters."""
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
        """A function that returns an expression's value."""
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
                self.hidden.add(node.args[0])  # inside, it isn't a parameter
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
        """Whether a variable of a quantifier is free in the expression."""
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
            self._line(f"{name}.shared = True")  # the map may also be another field's value
        return name

    def _path(self, target: Expression) -> tuple[str, list[str], list[int]]:
        """The field that contains a target, and the keys and record fields that lead to the
        target."""
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
            # before the state changes: messages have the old values
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
                # the whole condition distinguishes this variable's values
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

    def _nested(self, write: Callable[[], None]) -> None:
        known = dict(self.known)
        self.indent += 1
        write()
        self.indent -= 1
        self.known = known


def _is_true(condition: Expression) -> bool:
    return condition.op == "const" and condition.data is True
