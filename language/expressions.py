"""Expressions: small immutable trees built by Python's own operators.

An `Expression` holds an operator, its arguments and, for leaves, their meaning. It can be
hashed, compared, pickled and printed. Building one checks nothing: `typecheck` does, when the
expression is declared as part of a row or a property, so that the error can name the row.

Comparison builds an expression, and no expression has a truth: `and`, `if` and `in` raise an error
at their line. Equal trees are one object, and dictionaries and sets find it by identity. `same_as`
compares two trees.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias
from weakref import WeakValueDictionary

from .declaration.arguments import check_kind, check_name, shown
from .declaration.errors import DeclarationError, UnsettledError
from .declaration.unsupported import Refused
from .terms.interned import Interned

if TYPE_CHECKING:
    from .types import Enum, Key, Type

Operand: TypeAlias = "Expression | int | bool | None"


class Expression(Refused):
    """A node: operator `op`, arguments `args`, and `data` where the operator needs more.

    Equal trees are one object: comparison and caching cost nothing.
    """

    __slots__ = ("__weakref__", "_naming", "args", "data", "op")
    _known: ClassVar[WeakValueDictionary[tuple[object, ...], Expression]] = WeakValueDictionary()

    op: str
    args: tuple[Expression, ...]
    data: Any

    def __new__(cls, op: str, args: tuple[Expression, ...] = (), data: Any = None) -> Expression:
        key: tuple[object, ...] = (op, tuple(map(id, args)), type(data).__name__, data)
        known = cls._known.get(key)
        if known is None:
            _check_arguments(op, args)
            known = super().__new__(cls)
            object.__setattr__(known, "op", op)
            object.__setattr__(known, "args", args)
            object.__setattr__(known, "data", data)
            known = cls._known.setdefault(key, known)
        return known

    def __setattr__(self, name: str, value: object) -> None:
        raise DeclarationError(f"`{self}` can't be changed: set {name} in a row, as set={{...}}")

    def __reduce__(self) -> tuple[object, ...]:
        return Expression, (self.op, self.args, self.data)

    __hash__ = object.__hash__  # equal trees are one object, so dictionaries never call ==

    def same_as(self, other: object) -> bool:
        """Whether both are the same tree."""
        return self is other

    if TYPE_CHECKING:

        def __bool__(self) -> NoReturn: ...

    def __contains__(self, member: object) -> NoReturn:
        raise DeclarationError(f"`{member} in {self}`: write .is_in({self})")

    # Operators. `==` and `!=` return an expression, and Python's type stubs expect a bool.
    def __eq__(self, other: Operand) -> Expression:  # type: ignore[override]
        return Expression("eq", (self, lift(other)))

    def __ne__(self, other: Operand) -> Expression:  # type: ignore[override]
        return Expression("not", (Expression("eq", (self, lift(other))),))

    def __lt__(self, other: Operand) -> Expression:
        return Expression("lt", (self, lift(other)))

    def __le__(self, other: Operand) -> Expression:
        return Expression("le", (self, lift(other)))

    def __gt__(self, other: Operand) -> Expression:
        return Expression("lt", (lift(other), self))

    def __ge__(self, other: Operand) -> Expression:
        return Expression("le", (lift(other), self))

    def __add__(self, other: Operand) -> Expression:
        return Expression("add", (self, lift(other)))

    def __radd__(self, other: Operand) -> Expression:
        return Expression("add", (lift(other), self))

    def __mul__(self, other: Operand) -> Expression:
        return Expression("mul", (self, lift(other)))

    def __rmul__(self, other: Operand) -> Expression:
        return Expression("mul", (lift(other), self))

    def __floordiv__(self, other: Operand) -> Expression:
        return Expression("div", (self, lift(other)))

    def __rfloordiv__(self, other: Operand) -> Expression:
        return Expression("div", (lift(other), self))

    def __mod__(self, other: Operand) -> Expression:
        return Expression("mod", (self, lift(other)))

    def __rmod__(self, other: Operand) -> Expression:
        return Expression("mod", (lift(other), self))

    def __sub__(self, other: Operand) -> Expression:
        return Expression("sub", (self, lift(other)))

    def __rsub__(self, other: Operand) -> Expression:
        return Expression("sub", (lift(other), self))

    def __and__(self, other: Operand) -> Expression:
        return Expression("and", (self, lift(other)))

    def __rand__(self, other: Operand) -> Expression:
        return Expression("and", (lift(other), self))

    def __or__(self, other: Operand) -> Expression:
        return Expression("or", (self, lift(other)))

    def __ror__(self, other: Operand) -> Expression:
        return Expression("or", (lift(other), self))

    def __invert__(self) -> Expression:
        return Expression("not", (self,))

    def __getitem__(self, key: Operand | slice) -> Expression:
        if not isinstance(key, slice):
            return Expression("index", (self, lift(key)))
        if key.step is not None:
            raise DeclarationError(f"`{self}`: a slice takes every element: it has no step")
        start = 0 if key.start is None else key.start
        return Expression("slice", (self, lift(start), lift(key.stop)))

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        return Expression("get", (self,), name)

    def implies(self, other: Operand) -> Expression:
        """The implication: false only where this expression holds and `other` doesn't."""
        return Expression("or", (Expression("not", (self,)), lift(other)), "implies")

    def is_in(self, *choices: Operand) -> Expression:
        """Whether the value is one of `choices`, or an element of the single given set."""
        if len(choices) == 1:
            return Expression("in", (self, lift(choices[0])))
        return any_true(*(Expression("eq", (self, lift(choice))) for choice in choices))

    @property
    def is_set(self) -> Expression:
        """Whether an optional holds a value."""
        return Expression("is_set", (self,))

    @property
    def value(self) -> Expression:
        """The value of an optional; read only where `is_set`."""
        return Expression("value", (self,))

    def at(self, key: Operand) -> Expression:
        """This expression for the instance `key` of a machine, read from outside of the machine.

        Raises DeclarationError if a quantifier in it would bind a variable of `key`, or if none of
        its fields needs an instance.
        """
        instance = lift(key)
        named = {node for node in children_first(instance) if node.op in ("variable", "element")}

        def place(node: Expression) -> Expression | None:
            if node.op in QUANTIFIERS and node.args[0] in named:
                raise DeclarationError(f"`{node}` binds the variable of .at({key}): rename one")
            if node.op == "this":
                return instance
            if node.op == "field" and not node.args and node.data.key is not None:
                return Expression("field", (instance,), node.data)
            return None

        placed = rewrite(self, place)
        if placed is self and any(node.op == "field" for node in children_first(self)):
            raise DeclarationError(
                f"`{self}`.at({key}): none of its fields needs an instance: leave .at() out"
            )
        return placed

    def __str__(self) -> str:
        return show(self)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Field(Interned):
    """A field of a machine; `key` is the machine's own (none: there is one instance)."""

    machine: str
    name: str
    type: Type
    key: Key | None


@dataclass(frozen=True, eq=False)
class Parameter(Interned):
    """A parameter of an event, or a field of a message."""

    event: str
    name: str
    type: Type


@dataclass(frozen=True, eq=False)
class Bound(Interned):
    """The variable of a quantifier, `each` or an action: a name and its range.

    An action's `owner` keeps its variables apart from those of one name in a row's quantifiers.
    """

    name: str
    type: Type
    owner: str = ""


@dataclass(frozen=True, eq=False)
class EnumValue(Interned):
    """One member of an enum."""

    enum: Enum
    member: str


@dataclass(frozen=True, eq=False)
class ConstantInfo(Interned):
    """A number that a system under check sets, within `low`..`high`; `real` is Kafka's value."""

    name: str
    default: int
    low: int
    high: int
    real: int | None = None
    meaning: str = ""

    def check(self, value: int) -> None:
        """Raises DeclarationError for a value outside of its range."""
        if not self.low <= value <= self.high:
            where = f"{self.low}..{self.high}"
            raise DeclarationError(f"constant {self.name}={value} is outside {where}")


def constant(
    name: str, default: int, low: int = 0, high: int = 2**31 - 1, *,
    real: int | None = None, meaning: str = "",
) -> Expression:  # fmt: skip
    """A named constant: `default` in a system under check, settable within `low`..`high`.

    `real` is its value outside of a bounded system (none: it exists only in a system).
    """
    check_name("a constant", name)
    for number in (default, low, high):
        check_kind(f"constant {name}", number, int)
    check_kind(f"constant {name}, real", real, int, type(None))
    if not low <= default <= high:
        raise DeclarationError(f"constant {name}: its default {default} is not in {low}..{high}")
    return Expression("constant", (), ConstantInfo(name, default, low, high, real, meaning))


def _check_arguments(op: str, arguments: tuple[object, ...]) -> None:
    for argument in arguments:
        if not isinstance(argument, Expression):
            raise DeclarationError(f"{op}: {shown(argument)} is not an expression")


def lift(value: object) -> Expression:
    """`value` as an expression: an expression itself, an int, a bool, or None for "no value"."""
    if isinstance(value, Expression):
        return value
    if value is None or isinstance(value, (bool, int)):
        return Expression("const", (), value)
    said = value if isinstance(value, Interned) else reprlib.repr(value)
    raise DeclarationError(
        f"{said} is neither an expression, a number, a truth value nor None{_hint(value)}"
    )


def _hint(value: object) -> str:
    match value:
        case str():
            return ": write a member of its enum, as State.IDLE"
        case tuple() | list() | set() | frozenset() | dict():
            return ": write the values one by one"
        case Iterator():
            return ": put * before it, as in all_true(*(... for ...))"
        case Interned():
            return f": {type(value).__name__} has no value: write a part or a member of it"
        case _:
            return ""


def children_first(expression: Expression) -> Iterator[Expression]:
    """Every node of the tree, arguments before the node itself."""
    parents_first: list[Expression] = []
    left = [expression]
    while left:
        node = left.pop()
        parents_first.append(node)
        left += node.args
    return reversed(parents_first)


NAMING = ("field", "this", "parameter", "constant", "feature", "variable", "element", "after",
          "in_flight")  # fmt: skip


def naming(expression: Expression) -> tuple[Expression, ...]:
    """The nodes of the tree that name a declared or bound thing, each once, arguments first. They
    are cached: each system with the tree reads them.
    """
    found: tuple[Expression, ...] | None = getattr(expression, "_naming", None)
    if found is None:
        nodes = (node for node in children_first(expression) if node.op in NAMING)
        found = tuple(dict.fromkeys(nodes))
        object.__setattr__(expression, "_naming", found)
    return found


def rewrite(
    expression: Expression,
    change: Callable[[Expression], Expression | None],
    known: dict[Expression, Expression] | None = None,
) -> Expression:
    """The tree, with each node replaced for which `change` returns an expression. `known` caches
    the results, for other trees with the same change.
    """
    if known is not None and expression in known:
        return known[expression]
    new = change(expression)
    if new is None:
        new = expression
        if expression.args:
            arguments = tuple([rewrite(argument, change, known) for argument in expression.args])
            if any(a is not b for a, b in zip(arguments, expression.args, strict=True)):
                new = Expression(expression.op, arguments, expression.data)
    if known is not None:
        known[expression] = new
    return new


def field_set(target: Expression) -> Field:
    """The field that an update changes as a whole or in part."""
    while target.op != "field":
        target = target.args[0]
    field: Field = target.data
    return field


def folded(e: Expression) -> Expression:
    """The expression without the parts that constants decide."""
    if not e.args:
        return e
    args = tuple(folded(part) for part in e.args)
    truths = [
        part.data if part.op == "const" and isinstance(part.data, bool) else None for part in args
    ]
    match e.op:
        case "not" if truths[0] is not None:
            return lift(not truths[0])
        case "and" | "or" if any(truth is not None for truth in truths):
            decides = e.op == "or"
            for truth, other in zip(truths, args[::-1], strict=True):
                if truth is not None:
                    return lift(decides) if truth == decides else other
        case "if" if truths[0] is not None:
            return args[1] if truths[0] else args[2]
        case "eq" if all(part.op == "const" for part in args):
            return lift(args[0].data == args[1].data and type(args[0].data) is type(args[1].data))
        case "eq" if args[0] is args[1]:
            return lift(True)
        case "is_set" if args[0].op == "const":
            return lift(args[0].data is not None)
        case "add" if args[1].op == "const" and args[1].data == 0:
            return args[0]
        case _:
            pass
    return Expression(e.op, args, e.data)


TRUE, FALSE = lift(True), lift(False)


def all_true(*conditions: Operand) -> Expression:
    """Their conjunction; true when there are none."""
    result = lift(conditions[0]) if conditions else lift(True)
    for condition in conditions[1:]:
        result = result & condition
    return result


def any_true(*conditions: Operand) -> Expression:
    """Their disjunction; false when there are none."""
    result = lift(conditions[0]) if conditions else lift(False)
    for condition in conditions[1:]:
        result = result | condition
    return result


def enum_value(enum: Enum, member: str) -> Expression:
    """A member of an enum as an expression."""
    return Expression("const", (), EnumValue(enum, member))


QUANTIFIERS = {"all", "any", "count", "sum", "each", "those", "keep", "first_of", "max", "min"}

# Printing -------------------------------------------------------------------------------------

BINARY = {
    "eq": "==", "lt": "<", "le": "<=", "add": "+", "sub": "-", "mul": "*", "div": "//",
    "mod": "%", "and": "&", "or": "|", "in": "in",
}  # fmt: skip


def show(expression: Expression) -> str:  # noqa: C901 (a case for each operator)
    """The expression in the language's own notation."""
    op, args, data = expression.op, expression.args, expression.data

    def tight(node: Expression) -> str:
        text = show(node)
        is_compared = node.op == "not" and node.args[0].op in ("eq", "in")
        return f"({text})" if node.op in BINARY or is_compared else text

    match op:
        case "const":
            return data.member if isinstance(data, EnumValue) else str(data)
        case "constant" | "feature":
            return data.name
        case "field":
            return f"{data.name}.at({show(args[0])})" if args else data.name
        case "parameter":
            return f"{data.event}.{data.name}"  # a field of the machine may have the same name
        case "variable" | "this":
            return data.name
        case "element":
            return data
        case "in_flight":
            return f"in_flight({', '.join([data.name, *map(show, args)])})"
        case "get":
            return f"{tight(args[0])}.{data}"
        case "index":
            return f"{tight(args[0])}[{show(args[1])}]"
        case "slice":
            start, stop = (
                "" if node.op == "const" and node.data is unsaid else show(node)
                for node, unsaid in zip(args[1:], (0, None), strict=True)
            )
            return f"{tight(args[0])}[{start}:{stop}]"
        case "is_set" | "value":
            return f"{tight(args[0])}.{op}"
        case "not":
            if args[0].op == "eq":
                return f"{tight(args[0].args[0])} != {tight(args[0].args[1])}"
            if args[0].op == "in":
                return f"{tight(args[0].args[0])} not in {tight(args[0].args[1])}"
            return f"~{tight(args[0])}"
        case _ if op in QUANTIFIERS:
            bound = args[0]
            over = show(bound.args[0]) if bound.op == "element" else str(bound.data.type)
            return f"{op}({show(bound)} in {over}: {show(args[1])})"
        case "make":
            record, names = data
            return f"{record.name}({_named(names, args)})"
        case "replace":
            return f"replace({show(args[0])}, {_named(data, args[1:])})"
        case _ if op in BINARY:
            is_chain = op in ("and", "or", "add") and args[0].op == op
            left = show(args[0]) if is_chain else tight(args[0])
            return f"{left} {BINARY[op]} {tight(args[1])}"
        case _:
            inner = ", ".join(show(a) for a in args)
            return f"{op}({inner}{'' if data is None else f', {data}'})"


def _named(names: tuple[str, ...], args: tuple[Expression, ...]) -> str:
    return ", ".join(f"{name}={show(a)}" for name, a in zip(names, args, strict=True))


# Numbers that constants and features decide -----------------------------------------------------


def is_settled(expression: Expression) -> bool:
    """Whether only numbers and constants are in it."""
    return all(
        node.op in ("const", "constant", "add", "sub", "mul", "div", "mod")
        for node in children_first(expression)
    )


def divisor(division: Expression, by: int) -> int:
    """The number that a division is by. Raises DeclarationError for one below 1."""
    if by < 1:
        raise DeclarationError(f"`{division}` divides by {by}: only 1 and more divide")
    return by


def resolve(bound: Expression | int, constants: Mapping[str, int]) -> int:
    """The value of `bound`, which contains only constants and numbers.

    Raises DeclarationError for any other expression, and UnsettledError for a constant without a
    value.
    """
    if isinstance(bound, int):
        return bound
    match bound.op:
        case "const" if isinstance(bound.data, int):
            return int(bound.data)
        case "constant":
            if bound.data.name not in constants:
                raise UnsettledError(bound.data.name)
            return constants[bound.data.name]
        case "add":
            return resolve(bound.args[0], constants) + resolve(bound.args[1], constants)
        case "sub":
            return resolve(bound.args[0], constants) - resolve(bound.args[1], constants)
        case "mul":
            return resolve(bound.args[0], constants) * resolve(bound.args[1], constants)
        case "div" | "mod":
            number, by = (resolve(part, constants) for part in bound.args)
            whole, rest = divmod(number, divisor(bound, by))
            return whole if bound.op == "div" else rest
        case _:
            raise DeclarationError(f"a bound consists of numbers and constants, not of `{bound}`")
