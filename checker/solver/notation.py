"""Prints nodes in the language's notation, with leaves by their paths, and lemmas as
declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ...language import Enum, Expression, Optional, Property
from ...language.expressions import BINARY, EnumValue, children_first
from ..ground import Leaf
from ..ground.graph import Node


def shown(node: Node, leaves: Sequence[Leaf]) -> str:
    """The node as a readable expression."""

    def inside(part: Node) -> str:
        text = shown(part, leaves)
        return f"({text})" if part.op in ("and", "or", "lt", "eq") or _is_at_most(part) else text

    match node.op:
        case "const":
            return str(bool(node.value)) if node.is_truth else str(node.value)
        case "leaf":
            return leaves[node.value].name
        case "not" if _is_at_most(node):
            high, low = node.args[0].args
            return f"{shown(low, leaves)} <= {shown(high, leaves)}"
        case "not" if node.args[0].op == "eq":
            return _compared(node.args[0], "!=", leaves)
        case "not":
            return f"~{inside(node.args[0])}"
        case "and" | "or":
            return (" & " if node.op == "and" else " | ").join(map(inside, node.args))
        case "eq":
            return _compared(node, "==", leaves)
        case "lt":
            return f"{shown(node.args[0], leaves)} < {shown(node.args[1], leaves)}"
        case "add" | "sub":
            sign = "+" if node.op == "add" else "-"
            return f"{shown(node.args[0], leaves)} {sign} {inside(node.args[1])}"
        case "mul":
            return f"{inside(node.args[0])} * {inside(node.args[1])}"
        case "div":
            return f"{inside(node.args[0])} // {node.value}"
        case "mod":
            return f"{inside(node.args[0])} mod {node.value}"
        case _:
            return f"if_({', '.join(shown(part, leaves) for part in node.args)})"


def _is_at_most(node: Node) -> bool:
    return node.op == "not" and node.args[0].op == "lt"


def _compared(equation: Node, sign: str, leaves: Sequence[Leaf]) -> str:
    """An equation. A number that is compared with an enum's leaf is a member."""
    a, b = equation.args
    if a.is_constant:
        a, b = b, a
    kind = leaves[a.value].type if a.op == "leaf" and a.value >= 0 else None
    of = kind.of if isinstance(kind, Optional) else kind
    if isinstance(kind, Optional) and b.is_constant and b.value < leaves[a.value].low + 1:
        return f"{shown(a, leaves)} {sign} None"
    if isinstance(of, Enum) and b.is_constant and b.value < len(of.names):
        return f"{shown(a, leaves)} {sign} {of.name}.{of.names[b.value]}"
    return f"{shown(a, leaves)} {sign} {shown(b, leaves)}"


# Declarations -----------------------------------------------------------------------------------


def declaration(lemmas: Sequence[Property]) -> str:
    """Invariants as Python code, with the declarations of their variables. Fields and messages have
    their names, keys are in capitals.
    """
    nodes = [node for item in lemmas for node in children_first(item.expression)]
    names = dict.fromkeys(node for node in nodes if node.op in ("variable", "element"))
    ordered = sorted(names, key=lambda name: name.op == "element")  # addresses contain variables
    lines = [f"{written(name)} = {_bound(name)}" for name in ordered]
    return "\n".join([*lines, *chain.from_iterable(map(_invariant, lemmas))])


def _invariant(item: Property) -> list[str]:
    """An invariant, with its condition on a separate line after the quantifiers."""
    opened, body = "", item.expression
    while body.op == "all":
        opened += f"all_of({written(body.args[0])}, "
        body = body.args[1]
    said = [f"    {written(body)},"]
    if opened:
        closed = ")" * opened.count("all_of(")
        said = [f"    {opened.rstrip()}", f"        {written(body)}", f"    {closed},"]
    return [
        f"{item.name} = invariant(",
        f'    "{item.name}",',
        *said,
        f'    "{item.sentence}",',
        ")",
    ]


def _bound(name: Expression) -> str:
    """The declaration of a variable, or of a message in flight."""
    if name.op == "variable":
        return f'{_identifier(str(name.data.type)).upper()}.variable("{name.data.name}")'
    sent = name.args[0]
    parts = [f'"{name.data}"', sent.data.name, *map(written, sent.args)]
    return f"in_flight({', '.join(parts)})"


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def written(e: Expression) -> str:  # noqa: C901 (a case for each operator)
    """An expression of a lemma in Python's notation."""
    args, data = e.args, e.data
    choices = _choices(e)
    match e.op:
        case "const":
            is_member = isinstance(data, EnumValue)
            return f"{_identifier(data.enum.name)}.{data.member}" if is_member else str(data)
        case "constant":
            return _identifier(data.name).upper()
        case "all" | "any":
            return f"{e.op}_of({written(args[0])}, {written(args[1])})"
        case "field":
            return f"{data.name}.at({written(args[0])})" if args else data.name
        case "index":
            return f"{_operand(args[0], '.')}[{written(args[1])}]"
        case "get":
            return f"{_operand(args[0], '.')}.{data}"
        case "is_set" | "value":
            return f"{_operand(args[0], '.')}.{e.op}"
        case "size":
            return f"size({written(args[0])})"
        case "in":
            return f"{_operand(args[0], '.')}.is_in({written(args[1])})"
        case "not" if args[0].op == "eq":
            return f"{_operand(args[0].args[0])} != {_operand(args[0].args[1])}"
        case "not" if args[0].op == "not":
            return written(args[0].args[0])
        case "not":
            return f"~{_operand(args[0])}"
        case "or" if data == "implies":
            return f"{_operand(args[0].args[0], '.')}.implies({written(args[1])})"
        case "or" if choices:
            members = ", ".join(written(each.args[1]) for each in choices)
            return f"{_operand(choices[0].args[0], '.')}.is_in({members})"
        case "and" if args[0].op == "and":  # a chain of `and`
            return f"{written(args[0])} & {_operand(args[1])}"
        case _ if e.op in BINARY:
            return f"{_operand(args[0])} {BINARY[e.op]} {_operand(args[1])}"
        case _:
            return str(e)


def _operand(e: Expression, before: str = "") -> str:
    """The expression as an operand, in parentheses if needed. `before` may be a dot."""
    loose = e.op in BINARY and e.op != "in" and e.data != "implies" and not _choices(e)
    loose |= e.op == "not" and (before == "." or e.args[0].op in ("eq", "not"))
    return f"({written(e)})" if loose else written(e)


def _choices(e: Expression) -> list[Expression]:
    """The equations of a disjunction that compares one value with constants; empty for other
    expressions.
    """
    left, found = [e], list[Expression]()
    while left:
        part = left.pop()
        if part.op == "or" and part.data is None:
            left += reversed(part.args)
        else:
            found.append(part)
    same = all(
        x.op == "eq" and x.args[0] is found[0].args[0] and x.args[1].op == "const" for x in found
    )
    return found if same and len(found) > 1 else []
