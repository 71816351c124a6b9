"""Expressions, updates and messages over several lines, for people to read."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import Event, Expression, Message, Sending, set_of
from ..language.expressions import (
    BINARY,
    FALSE,
    QUANTIFIERS,
    TRUE,
    Parameter,
    all_true,
    any_true,
    rewrite,
    show,
)
from ..language.instances.reductions import part_of
from .facts import settled

WIDTH = 48

_SIGN = {"and": "&", "or": "|"}
_COMPARED = {"eq": "!=", "in": "not in"}
"""The operator of a negated comparison."""
_NOTHING = Expression("element", (), "")
_ENCLOSED = {"and", "or", "eq", "lt", "le", "add", "sub", "mul", "div", "mod", "in"}


def readable(expression: Expression, width: int = WIDTH) -> list[str]:
    """The expression in the language's notation. A wide expression has a line for each part."""
    return _broken(_gathered(expression), width)


def in_brief(expression: Expression, on: Event) -> Expression:
    """The expression with parameters as `request.epoch`, not as `AddPartitionsToTxn.epoch`, and
    without parts that constants decide."""
    kind = (
        "event" if not isinstance(on, Message) else "request" if on.answers is None else "response"
    )

    def change(node: Expression) -> Expression | None:
        if node.op != "parameter" or node.data.event != on.name:
            return None
        return Expression("parameter", (), Parameter(kind, node.data.name, node.data.type))

    return simplified(settled(rewrite(expression, change), {}))


def simplified(expression: Expression) -> Expression:
    """The expression without unnecessary negations, choices of one value and repeated conditions. A
    field of a new record is replaced by its value."""
    args = tuple(map(simplified, expression.args))
    node = expression
    if any(new is not old for new, old in zip(args, node.args, strict=True)):
        node = Expression(node.op, args, node.data)
    match node.op:
        case "not":
            return _negated(args[0])
        case "get" if args[0].op == "make":
            return part_of(args[0], node.data)
        case "if" if args[1] is args[2]:
            return args[1]
        case "if" if args[1] is TRUE and args[2] is FALSE:
            return args[0]
        case "if" if args[1] is FALSE and args[2] is TRUE:
            return _negated(args[0])
        case "if" if args[0].op == "not":
            return Expression("if", (args[0].args[0], args[2], args[1]))
        case "and" | "or" if args[0] is args[1]:
            return args[0]
        case _:
            return node


def _negated(node: Expression) -> Expression:
    """The negation of a simplified expression. It negates the parts if at most one of them then has
    a `~`."""
    match node.op:
        case "not":
            return node.args[0]
        case "const":
            return FALSE if node.data else TRUE
        case "lt" | "le":
            return Expression("le" if node.op == "lt" else "lt", (node.args[1], node.args[0]))
        case "and" | "or" if not _is_choice(node):
            parts = [_negated(part) for part in _parts(node, node.op)]
            if sum(part.op == "not" and part.args[0].op not in _COMPARED for part in parts) <= 1:
                return (any_true if node.op == "and" else all_true)(*parts)
        case _:
            pass
    return Expression("not", (node,))


def _is_choice(node: Expression) -> bool:
    """Whether it is `x == a | x == b`."""
    parts = list(_parts(node, "or"))
    return len(parts) > 1 and len({p.args[0] if p.op == "eq" else p for p in parts}) == 1


def readable_update(target: Expression, value: Expression, width: int = WIDTH) -> list[str]:
    """The new value of a field, as in Python."""
    name, lines = show(target), readable(value, width - 4)
    if len(lines) == 1 and len(name) + 3 + len(lines[0]) <= width:
        return [f"{name} = {lines[0]}"]
    return [f"{name} =", *_indented(lines)]


def readable_sending(sending: Sending, request: Event, width: int = WIDTH) -> list[str]:
    """A message with its fields, its receiver, and its condition.

    Fields of an answer that repeat those of its request are left out, and so is the sender.
    """
    name = sending.message.name
    fields = [
        (field, value)
        for field, value in sending.fields
        if not _repeats(sending, field, value, request)
    ]
    lines = _called(
        name,
        _named(tuple(f for f, _ in fields), tuple(_gathered(v) for _, v in fields), width - 4),
        width,
    )
    if sending.to_each:
        lines.append(f"to each {', '.join(map(show, sending.to_each))}")
    if sending.when.op != "const":
        head = "where " if sending.to_each else "if "
        lines += _hung(head, readable(sending.when, width - len(head)))
    return lines


def _repeats(sending: Sending, field: str, value: Expression, request: Event) -> bool:
    source = sending.message.comes_from
    if source is not None and field == source.field:
        return True
    return (
        sending.message.answers == request
        and value.op == "parameter"
        and (value.data.name == field or source is not None)
    )


def _gathered(expression: Expression) -> Expression:
    """Simplified, with `x == a | x == b` as `x in set_of(a, b)`, as is_in takes it apart, and with
    `x != a & x != b` as its negation."""

    def change(node: Expression) -> Expression | None:
        if node.op == "and":
            parts = [_negated(part) for part in _parts(node, "and")]
            choice = any_true(*parts)
            return ~gathered if (gathered := change(choice)) is not None else None
        if node.op != "or" or not _is_choice(node):
            return None
        parts = list(_parts(node, "or"))
        subject, *choices = (_gathered(e) for e in (parts[0].args[0], *(p.args[1] for p in parts)))
        return subject.is_in(set_of(*choices))

    return rewrite(simplified(expression), change)


def _parts(node: Expression, op: str) -> Iterator[Expression]:
    if node.op == op:
        for argument in node.args:
            yield from _parts(argument, op)
    else:
        yield node


def _broken(e: Expression, width: int) -> list[str]:
    text = show(e)
    if len(text) <= width:
        return [text]
    if e.op in _SIGN:
        blocks = [_enclosed(part, width - 2) for part in _parts(e, e.op)]
        lines = [
            f"{_SIGN[e.op]} {line}" if at == 0 else f"  {line}"
            for block in blocks
            for at, line in enumerate(block)
        ]
        return [f"  {lines[0][2:]}", *lines[1:]]
    if e.op == "not" and e.args[0].op not in _COMPARED:
        return _hung("~", _enclosed(e.args[0], width - 1))
    if e.op == "if":
        blocks = [_broken(argument, width - 3) for argument in e.args]
        return _hung("if(", [*_comma(blocks[0]), *_comma(blocks[1]), *_closed(blocks[2])])
    if e.op in QUANTIFIERS:
        return _quantified(e, width)
    if e.op in BINARY:
        return _compared(e, BINARY[e.op], width)
    if e.op == "not":
        return _compared(e.args[0], _COMPARED[e.args[0].op], width)
    if e.op == "make":
        record, names = e.data
        return _called(record.name, _named(names, e.args, width - 4), width)
    if e.op == "replace":
        parts = [_broken(e.args[0], width - 4), *_named(e.data, e.args[1:], width - 4)]
        return _called("replace", parts, width)
    if e.op in ("get", "is_set", "value"):
        end = f".{e.data if e.op == 'get' else e.op}"
        return _ended(_enclosed(e.args[0], width - len(end)), end)
    if e.op in ("index", "slice"):
        return _picked(e, width)
    if not e.args or e.op == "in_flight":
        return [text]
    if e.op == "field":
        return _called(f"{e.data.name}.at", [_broken(e.args[0], width - 4)], width)
    last = [] if e.data is None else [[str(e.data)]]
    return _called(e.op, [*(_broken(each, width - 4) for each in e.args), *last], width)


def _quantified(e: Expression, width: int) -> list[str]:
    """The range of a quantifier, and below it the condition or value."""
    bound, body = e.args
    head = f"{e.op}({show(bound)} in "
    if bound.op == "element":
        over = _broken(bound.args[0], width - len(head) - 1)
    else:
        over = [str(bound.data.type)]
    return [*_ended(_hung(head, over), ":"), *_indented(_closed(_broken(body, width - 4)))]


def _picked(e: Expression, width: int) -> list[str]:
    """An element or a part of a sequence or map. A wide index is on the lines below."""
    of, *places = e.args
    which = show(Expression(e.op, (_NOTHING, *places)))
    if len(which) <= width:
        lines = _ended(_enclosed(of, width - len(which)), which)
        if len(lines[-1]) <= width:
            return lines
        return [*_enclosed(of, width), f"    {which}"]
    ends = [_broken(place, width - 4) for place in places if place.data is not None or place.args]
    inside = [
        *_ended(ends[0], ":" if e.op == "slice" else ""),
        *(n for end in ends[1:] for n in end),
    ]
    return [*_ended(_enclosed(of, width), "["), *_ended(_indented(inside), "]")]


def _compared(e: Expression, sign: str, width: int) -> list[str]:
    """A comparison in lines, with the operator before the second side."""
    left, right = (_enclosed(argument, width - len(sign) - 1) for argument in e.args)
    return [*left, *_hung(f"{sign} ", right)]


def _named(names: tuple[str, ...], values: tuple[Expression, ...], width: int) -> list[list[str]]:
    blocks: list[list[str]] = []
    for name, value in zip(names, values, strict=True):
        lines = _hung(f"{name}=", _broken(value, width - len(name) - 1))
        if max(map(len, lines)) > width:
            lines = [f"{name}=", *_indented(_broken(value, width - 4))]
        blocks.append(lines)
    return blocks


def _called(name: str, parts: list[list[str]], width: int) -> list[str]:
    """A call. Wide arguments are on the lines below."""
    if not parts:
        return [f"{name}()"]
    blocks = [*map(_comma, parts[:-1]), _closed(parts[-1])]
    lines = _hung(f"{name}(", _filled(blocks, width - len(name)))
    if max(map(len, lines)) <= width:
        return lines
    return [f"{name}(", *_indented(_filled(blocks, width - 4))]


def _enclosed(e: Expression, width: int) -> list[str]:
    unequal = e.op == "not" and e.args[0].op in _COMPARED
    if e.op in _ENCLOSED or unequal:
        return _hung("(", _closed(_broken(e, width - 2)))
    return _broken(e, width)


def _hung(head: str, lines: list[str]) -> list[str]:
    return [head + lines[0], *(" " * len(head) + line for line in lines[1:])]


def _filled(blocks: list[list[str]], width: int) -> list[str]:
    """The blocks one after another. Blocks of one line share a line while there is room."""
    lines: list[str] = []
    for block in blocks:
        if lines and len(block) == 1 and len(lines[-1]) + len(block[0]) < width:
            lines[-1] += f" {block[0]}"
        else:
            lines += block
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _ended(lines: list[str], end: str) -> list[str]:
    return [*lines[:-1], lines[-1] + end]


def _comma(lines: list[str]) -> list[str]:
    return _ended(lines, ",")


def _closed(lines: list[str]) -> list[str]:
    return _ended(lines, ")")
