"""The type of an expression, or the reason why it has none.

`None` is the type of the value none, and of the elements of an empty set. It fits every optional
and every set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from ..expressions import EnumValue, Expression, children_first, divisor, is_settled, lift, resolve
from ..types import (
    HIGHEST,
    LOWEST,
    SCALARS,
    Bag,
    Bool,
    Int,
    Key,
    Map,
    Optional,
    Record,
    Sequence,
    Set,
    Type,
)
from .errors import DeclarationError

NUMBER = Int(LOWEST, HIGHEST, "number")
TRUTH = Bool()


@lru_cache(maxsize=1 << 16)
def type_of(expression: Expression) -> Type | None:  # noqa: C901 (a case for each operator)
    """The type of the expression's value.

    Raises DeclarationError, with the part at fault, if there is none.
    """
    op, args, data = expression.op, expression.args, expression.data
    match op:
        case "const":
            return _constant(data)
        case "constant":
            return NUMBER
        case "feature":
            return TRUTH
        case "field":
            if args:
                if data.key is None:
                    raise DeclarationError(f"{data.machine} has one instance: leave .at() out")
                _need(args[0], data.key, "the instance in .at()")
            return data.type
        case "parameter" | "variable" | "this":
            return data.type
        case "element":
            return _elements(args[0])
        case "after":
            return type_of(args[0])
        case "in_flight":
            if len(args) != len(data.address):
                names = ", ".join(name for name, _ in data.address)
                raise DeclarationError(f"the address of {data.name} is ({names})")
            for argument, (name, key) in zip(args, data.address, strict=True):
                _need(argument, key, f"the {name} of {data.name}")
            return Bag(data.content, 1)
        case "and" | "or" | "sub" if isinstance(type_of(args[0]), Set):
            return common(*args)
        case "and" | "or" | "not":
            for argument in args:
                _need(argument, TRUTH, f"an operand of {_SIGN[op]}")
            return TRUTH
        case "eq":
            common(*args)
            for value, other in (args, args[::-1]):
                kind = type_of(other)
                if kind is not None:
                    check_constant(value, kind, expression)
                    if type_of(value) is None and not isinstance(kind, Optional):
                        raise DeclarationError(f"`{expression}`: {kind} is never none")
            return TRUTH
        case "add" if isinstance(type_of(args[0]), Sequence):
            return _joined_sequence(expression)
        case "lt" | "le" | "add" | "sub" | "mul" | "div" | "mod":
            for argument in args:
                _need(argument, NUMBER, f"an operand of {_SIGN[op]}")
            _check_factors(expression)
            return TRUTH if op in ("lt", "le") else NUMBER
        case "if":
            _need(args[0], TRUTH, "the condition of if_")
            return common(*args[1:])
        case "wrap":
            _need(args[0], NUMBER, "the number to wrap")
            return data
        case _ if op in _STRUCTURED:
            return _STRUCTURED[op](expression)
        case _:
            raise DeclarationError(f"no operator is called {op}")


_SIGN = {
    "and": "&", "or": "|", "not": "~", "lt": "< or >", "le": "<= or >=", "add": "+", "sub": "-",
    "mul": "*", "div": "//", "mod": "%",
}  # fmt: skip


def fits(source: Type | None, target: Type) -> bool:
    """Whether a value of type `source` fits where `target` is expected."""
    match target:
        case Optional():
            if source is None:
                return True
            return fits(source.of if isinstance(source, Optional) else source, target.of)
        case Int():
            return isinstance(source, Int)
        case Key():
            return isinstance(source, (Key, Int)) and (isinstance(source, Int) or source == target)
        case Set():
            return isinstance(source, Set) and (
                _is_nothing(source.of) or fits(source.of, target.of)
            )
        case Sequence() | Bag():
            return type(source) is type(target) and (
                _is_nothing(source.of) or fits(source.of, target.of)  # type: ignore[union-attr]
            )
        case Map():
            return (
                isinstance(source, Map) and source.key == target.key and fits(source.of, target.of)
            )
        case _:
            return source == target


def check_constant(value: Expression, target: Type, where: Expression | str) -> None:
    """Raises DeclarationError for a literal number outside a range of literal bounds.

    A branch of an `if` that its condition compares, as in `minimum`, is exempt: the condition may
    keep it out of the range.
    """
    if value.op not in _MAY_HOLD_NUMBERS:
        return
    if value.op == "some":
        check_constant(value.args[0], target, where)
    if value.op == "if":
        condition = value.args[0]
        while condition.op == "not":
            (condition,) = condition.args
        for branch in value.args[1:]:
            if not any(branch.same_as(part) for part in condition.args):
                check_constant(branch, target, where)
    if value.op in ("set_of", "sequence_of") and isinstance(target, (Set, Sequence)):
        for part in value.args:
            check_constant(part, target.of, where)
    inner = target.of if isinstance(target, Optional) else target
    if isinstance(inner, Key) and value.op == "const" and isinstance(value.data, int):
        _check_instance(value.data, inner, where)
    if (
        isinstance(inner, Int)
        and value.op == "const"
        and isinstance(value.data, int)
        and isinstance(inner.low, int)
        and isinstance(inner.high, int)
        and not inner.low <= value.data <= inner.high
    ):
        raise DeclarationError(
            f"{_shown(where)}: {value.data} is outside of its type {inner.low}..{inner.high}"
        )


_MAY_HOLD_NUMBERS = {"const", "some", "if", "set_of", "sequence_of"}


def _shown(where: Expression | str) -> str:
    return where if isinstance(where, str) else f"`{where}`"


def _check_instance(number: int, key: Key, where: Expression | str) -> None:
    """Raises DeclarationError for an instance that a key doesn't have even at its largest
    constants.
    """
    size = lift(key.size)
    if any(node.op not in ("const", "constant", "add", "mul") for node in children_first(size)):
        return
    named = {n.data.name: n.data.high for n in children_first(size) if n.op == "constant"}
    most = resolve(size, named)
    if not 0 <= number < most:
        largest = f", with the largest `{size}`" if named else ""
        raise DeclarationError(
            f"{_shown(where)}: there is no {key} {number}: they are 0..{most - 1}{largest}"
        )


def _is_nothing(kind: object) -> bool:
    return kind is None


def _constant(value: object) -> Type | None:
    if value is None:
        return None
    if isinstance(value, EnumValue):
        if value.member not in value.enum.names:
            raise DeclarationError(f"{value.enum.name} has no member {value.member}")
        return value.enum
    return TRUTH if isinstance(value, bool) else NUMBER


@lru_cache(maxsize=1 << 16)
def suits(value: Expression, target: Type) -> bool:
    """Whether a value fits the type `target`, and each literal number in it fits its range. Raises
    DeclarationError for a value without a type.
    """
    if not fits(type_of(value), target):
        return False
    try:
        check_constant(value, target, value)
    except DeclarationError:
        return False
    return True


@lru_cache(maxsize=1 << 12)
def check_during(condition: Expression) -> None:
    """Raises DeclarationError if a condition reads anything but features."""
    if any(n.op not in ("feature", "const", "not", "and", "or") for n in children_first(condition)):
        raise DeclarationError(f"`{condition}` is not made of features alone")
    _need(condition, TRUTH, "the condition")


def _need(expression: Expression, target: Type, what: str) -> None:
    found = type_of(expression)
    if not fits(found, target):
        raise DeclarationError(f"{what} is `{expression}`, {_name(found)} and not {target}")
    check_constant(expression, target, what)


def _name(kind: Type | None) -> str:
    return "none" if kind is None else str(kind)


def common(left: Expression, right: Expression) -> Type | None:
    """The common type of both, to compare them or to choose between them."""
    a, b = type_of(left), type_of(right)
    try:
        return _joined(a, b)
    except DeclarationError:
        against = f"`{left}`, {_name(a)}, and `{right}`, {_name(b)}, have no common type"
        raise DeclarationError(against) from None


def _joined(a: Type | None, b: Type | None) -> Type | None:
    match a, b:
        case (None, kind) | (kind, None):
            return kind if kind is None or isinstance(kind, Optional) else Optional(kind)
        case (Optional(), _) | (_, Optional()):
            inside = (kind.of if isinstance(kind, Optional) else kind for kind in (a, b))
            return _joined(None, _joined(*inside))
        case (Set(), Set()) | (Sequence(), Sequence()) | (Bag(), Bag()):
            nothing = next((kind for kind in (a, b) if _is_nothing(kind.of)), None)
            if nothing is not None:
                return b if nothing is a else a
            return replace(b, of=_joined(a.of, b.of))
        case Map(), Map() if a.key == b.key:
            return replace(b, of=_joined(a.of, b.of))
        case _ if fits(a, b):
            return b
        case _ if fits(b, a):
            return a
        case _:
            raise DeclarationError("two types that have no value in common")


def _elements(collection: Expression) -> Type:
    kind = type_of(collection)
    if isinstance(kind, (Set, Sequence, Bag)):
        return kind.of
    raise DeclarationError(f"`{collection}` is {_name(kind)}: it has no elements")


def _sequence(expression: Expression) -> Sequence:
    kind = type_of(expression.args[0])
    if not isinstance(kind, Sequence):
        raise DeclarationError(f"`{expression.args[0]}` is {_name(kind)} and not a sequence")
    return kind


def _check_factors(expression: Expression) -> None:
    """Raises DeclarationError for a product of two numbers that both may change, and for a divisor
    that may change or is below 1.
    """
    op, args = expression.op, expression.args
    if op == "mul" and not any(map(is_settled, args)):
        raise DeclarationError(
            f"`{expression}`: one of the two factors must consist of literal numbers and constants"
        )
    if op in ("div", "mod"):
        if not is_settled(args[1]):
            raise DeclarationError(
                f"`{expression}`: the divisor must consist of literal numbers and constants"
            )
        if args[1].op == "const":
            divisor(expression, args[1].data)


def _joined_sequence(expression: Expression) -> Type:
    kind = common(*expression.args)
    parts = [type_of(argument) for argument in expression.args]
    assert isinstance(kind, Sequence)
    room = lift(0)
    for part in parts:
        assert isinstance(part, Sequence)
        room = room + part.capacity
    return replace(kind, capacity=room)


def _index(expression: Expression) -> Type:
    collection, key = expression.args
    kind = type_of(collection)
    if isinstance(kind, Sequence):
        _position_in(expression, key, "last(...)" if _is_below_0(key) else "")
        return Optional(kind.of)
    if not isinstance(kind, Map):
        raise DeclarationError(f"`{collection}` is {_name(kind)}: only maps and sequences have [ ]")
    _need(key, kind.key, "the index")
    return kind.of


def _slice(expression: Expression) -> Type:
    kind = _sequence(expression)
    for end in expression.args[1:]:
        if type_of(end) is not None:
            _position_in(expression, end, "size(...) - 1" if _is_below_0(end) else "")
    return kind


def _is_below_0(number: Expression) -> bool:
    return number.op == "const" and isinstance(number.data, int) and number.data < 0


def _position_in(expression: Expression, number: Expression, remedy: str) -> None:
    """Raises DeclarationError if it is not a place in a sequence."""
    _need(number, NUMBER, "the position")
    if remedy:
        raise DeclarationError(
            f"`{expression}`: positions count from 0 at the start: write {remedy} for the end"
        )


def _is_prefix(expression: Expression) -> Type:
    for argument in expression.args:
        if not isinstance(type_of(argument), Sequence):
            raise DeclarationError(f"`{argument}` is {_name(type_of(argument))} and not a sequence")
    common(*expression.args)
    return TRUTH


def _updated(expression: Expression) -> Type:
    mapping, key, value = expression.args
    kind = type_of(mapping)
    if not isinstance(kind, Map):
        raise DeclarationError(f"`{mapping}` is {_name(kind)} and not a map")
    _need(key, kind.key, "the index")
    _need(value, kind.of, "the value put into the map")
    return kind


def _get(expression: Expression) -> Type:
    kind = type_of(expression.args[0])
    found = kind.type_of(expression.data) if isinstance(kind, Record) else None
    if found is None:
        raise DeclarationError(f"`{expression.args[0]}` ({_name(kind)}) has no {expression.data}")
    return found


def _optional(expression: Expression) -> Optional:
    kind = type_of(expression.args[0])
    if not isinstance(kind, Optional):
        raise DeclarationError(f"`{expression.args[0]}` is {_name(kind)} and not an optional")
    return kind


def _quantified(expression: Expression) -> Type:
    bound, condition = expression.args
    if bound.op not in ("variable", "element"):
        raise DeclarationError(
            f"`{expression}` binds `{bound}`, which is neither a variable nor an element"
        )
    type_of(bound)
    _need(condition, TRUTH, "the condition")
    return NUMBER if expression.op == "count" else TRUTH


def _extreme(expression: Expression) -> Type:
    bound, number = expression.args
    if bound.op not in ("variable", "element"):
        raise DeclarationError(
            f"`{expression}` binds `{bound}`, which is neither a variable nor an element"
        )
    type_of(bound)
    _need(number, NUMBER, "the compared value" if expression.op != "sum" else "the added value")
    return NUMBER


def _each(expression: Expression) -> Type:
    bound, body = expression.args
    kind, of = type_of(bound), type_of(body)
    if not isinstance(kind, Key):
        raise DeclarationError(f"`{expression}`: each needs a key variable")
    return Map(kind, of)  # type: ignore[arg-type]


def _those(expression: Expression) -> Type:
    bound, condition = expression.args
    _need(condition, TRUTH, "the condition of those")
    kind = type_of(bound)
    if kind is None or bound.op not in ("variable", "element"):
        raise DeclarationError(f"`{expression}` must bind a variable or an element")
    return Set(kind)


def _keep(expression: Expression) -> Type:
    bound, condition = expression.args
    _need(condition, TRUTH, "the condition of keep")
    kind = type_of(bound.args[0]) if bound.op == "element" else None
    if not isinstance(kind, (Sequence, Bag)):
        raise DeclarationError(f"`{expression}` must bind an element of a sequence or a bag")
    return kind


def _first_of(expression: Expression) -> Type:
    bound, condition = expression.args
    if bound.op == "variable":
        _need(condition, TRUTH, "the condition of first_of")
        if not isinstance(bound.data.type, SCALARS):
            raise DeclarationError(
                f"`{expression}`: first_of needs a scalar variable, and {bound.data.type} isn't a "
                "scalar type"
            )
        return Optional(bound.data.type)
    kind = _keep(expression)
    assert isinstance(kind, (Sequence, Bag))
    return Optional(kind.of)


def _membership(expression: Expression) -> Type:
    value, collection = expression.args
    kind = type_of(collection)
    if not isinstance(kind, (Set, Sequence, Bag)):
        raise DeclarationError(
            f"`{collection}` is {_name(kind)}: only a set, a sequence or a bag has members"
        )
    if isinstance(kind.of, Int) and isinstance(type_of(value), Key):
        return TRUTH  # an instance is in a set of numbers by its own number
    if not _is_nothing(kind.of):
        _need(value, kind.of, "the member sought")
    return TRUTH


def _collected(expression: Expression) -> Type:
    of: Type | None = None
    for at, argument in enumerate(expression.args):
        kind = type_of(argument)
        try:
            of = _joined(of, kind) if at else kind
        except DeclarationError:
            raise DeclarationError(f"`{expression}` mixes types, at `{argument}`") from None
    if expression.op == "sequence_of":
        return Sequence(of, len(expression.args))  # type: ignore[arg-type]
    if expression.args and not isinstance(of, SCALARS):
        raise DeclarationError(f"`{expression}`: a set holds scalars, and {_name(of)} isn't one")
    return Set(of)  # type: ignore[arg-type]


def _size(expression: Expression) -> Type:
    _elements(expression.args[0])
    return NUMBER


def _position(expression: Expression) -> Type:
    item = expression.args[0]
    kind = type_of(item)
    in_order = item.op == "element" and isinstance(type_of(item.args[0]), Sequence)
    if not isinstance(kind, Key) and not in_order:
        raise DeclarationError(f"`{item}` is {_name(kind)}, not a key nor a sequence's element")
    return NUMBER


def _some(expression: Expression) -> Type:
    kind = type_of(expression.args[0])
    if kind is None or isinstance(kind, Optional):
        raise DeclarationError(f"`{expression}`: {_name(kind)} is not a plain value")
    return Optional(kind)


def _record(record: Record, names: tuple[str, ...], values: tuple[Expression, ...]) -> Type:
    for name, value in zip(names, values, strict=True):
        kind = record.type_of(name)
        if kind is None:
            raise DeclarationError(f"{record.name} has no field {name}")
        _need(value, kind, f"{record.name}.{name}")
        check_constant(value, kind, f"{record.name}.{name}")
    return record


def _make(expression: Expression) -> Type:
    record, names = expression.data
    return _record(record, names, expression.args)


def _replace(expression: Expression) -> Type:
    kind = type_of(expression.args[0])
    if not isinstance(kind, Record):
        raise DeclarationError(f"`{expression.args[0]}` is {_name(kind)} and not a record")
    return _record(kind, expression.data, expression.args[1:])


def _grow(expression: Expression) -> Type:
    kind = _sequence(expression)
    _need(expression.args[1], kind.of, "the new element")
    if expression.op == "insert_by":
        found = kind.of.type_of(expression.data) if isinstance(kind.of, Record) else None
        if not isinstance(found, Int):
            raise DeclarationError(
                f"`{expression}`: {kind.of} has no field {expression.data} that is a number"
            )
    return kind


def _bag(expression: Expression) -> Type:
    kind = type_of(expression.args[0])
    if not isinstance(kind, Bag):
        raise DeclarationError(f"`{expression.args[0]}` is {_name(kind)} and not a bag")
    _need(expression.args[1], kind.of, "the element")
    return kind


def _boolean_of_optional(expression: Expression) -> Type:
    _optional(expression)
    return TRUTH


_STRUCTURED: dict[str, Callable[[Expression], Type]] = {
    "index": _index,
    "slice": _slice,
    "is_prefix": _is_prefix,
    "max": _extreme,
    "sum": _extreme,
    "min": _extreme,
    "updated": _updated,
    "get": _get,
    "is_set": _boolean_of_optional,
    "value": lambda e: _optional(e).of,
    "some": _some,
    "all": _quantified,
    "any": _quantified,
    "count": _quantified,
    "each": _each,
    "those": _those,
    "keep": _keep,
    "first_of": _first_of,
    "in": _membership,
    "set_of": _collected,
    "sequence_of": _collected,
    "size": _size,
    "position": _position,
    "make": _make,
    "replace": _replace,
    "append": _grow,
    "push": _grow,
    "insert_by": _grow,
    "first": lambda e: Optional(_sequence(e).of),
    "last": lambda e: Optional(_sequence(e).of),
    "without_first": _sequence,
    "put": _bag,
    "take": _bag,
}
