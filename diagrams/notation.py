"""Expressions, updates and messages over several lines, for people to read."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import Event, Expression, Sending, set_of
from ..language.expressions import QUANTIFIERS, rewrite, show

WIDTH = 48

_SIGN = {"and": "&", "or": "|"}
_ENCLOSED = {"and", "or", "eq", "lt", "le", "add", "sub", "mul", "div", "mod", "in"}


def readable(expression: Expression, width: int = WIDTH) -> list[str]:
    """The expression in the language's notation, a line for each part where it is wide."""
    return _broken(_gathered(expression), width)


def readable_update(target: Expression, value: Expression) -> list[str]:
    """What a field becomes, as in Python."""
    return _hung(f"{show(target)} = ", readable(value))


def readable_sending(sending: Sending, request: Event) -> list[str]:
    """A message with its fields, to whom, and under which condition.

    Fields of an answer that repeat those of its request are left out, and so is the sender.
    """
    name = sending.message.name
    fields = [
        (field, value)
        for field, value in sending.fields
        if not _repeats(sending, field, value, request)
    ]
    blocks = [_hung(f"{field}=", readable(value)) for field, value in fields]
    blocks = [_comma(block) for block in blocks[:-1]] + [_closed(block) for block in blocks[-1:]]
    lines = _hung(f"{name}(", _filled(blocks, WIDTH)) if blocks else [f"{name}()"]
    if len(lines[0]) > WIDTH:
        lines = [f"{name}(", *_indented(_filled(blocks, WIDTH))]
    if sending.to_each:
        lines.append(f"to each {', '.join(map(show, sending.to_each))}")
    if sending.when.op != "const":
        lines += _hung("where " if sending.to_each else "if ", readable(sending.when))
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
    """With `x == a | x == b` as `x in set_of(a, b)`, as is_in takes it apart."""

    def change(node: Expression) -> Expression | None:
        if node.op != "or":
            return None
        parts = list(_parts(node, "or"))
        subjects = {part.args[0] if part.op == "eq" else part for part in parts}
        if len(subjects) > 1 or parts[0].op != "eq":
            return None
        subject, *choices = (_gathered(e) for e in (*subjects, *(p.args[1] for p in parts)))
        return subject.is_in(set_of(*choices))

    return rewrite(expression, change)


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
    if e.op == "not" and e.args[0].op != "eq":
        return _hung("~", _enclosed(e.args[0], width - 1))
    if e.op == "if":
        blocks = [_broken(argument, width - 3) for argument in e.args]
        return _hung("if(", [*_comma(blocks[0]), *_comma(blocks[1]), *_closed(blocks[2])])
    if e.op in QUANTIFIERS:
        bound = e.args[0]
        over = show(bound.args[0]) if bound.op == "element" else str(bound.data.type)
        return [
            f"{e.op}({show(bound)} in {over}:",
            *_indented(_closed(_broken(e.args[1], width - 4))),
        ]
    return [text]


def _enclosed(e: Expression, width: int) -> list[str]:
    unequal = e.op == "not" and e.args[0].op == "eq"
    if e.op in _ENCLOSED or unequal:
        return _hung("(", _closed(_broken(e, width - 2)))
    return _broken(e, width)


def _hung(head: str, lines: list[str]) -> list[str]:
    return [head + lines[0], *(" " * len(head) + line for line in lines[1:])]


def _filled(blocks: list[list[str]], width: int) -> list[str]:
    """The blocks one after the other, short ones on a line as long as there is room."""
    lines: list[str] = []
    for block in blocks:
        if lines and len(block) == 1 and len(lines[-1]) + len(block[0]) < width:
            lines[-1] += f" {block[0]}"
        else:
            lines += block
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _comma(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1] + ","]


def _closed(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1] + ")"]
