"""Nodes in the language's notation, with leaves by their places in the state."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import Enum, Optional
from ..graph import Node
from ..ground import Leaf


def shown(node: Node, leaves: Sequence[Leaf]) -> str:
    """The node as an expression that a person can read."""

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
    """An equation; a number beside an enum's leaf is its member."""
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
