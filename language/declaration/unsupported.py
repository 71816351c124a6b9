"""Python's operators that expressions don't have: each use raises an error with the remedy.

The methods are set from a list, so that a type checker still refuses their uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .errors import DeclarationError


class Refused:
    """A base class whose operators raise DeclarationError. A subclass may define some of them."""

    __slots__ = ()


_NO_TRUTH = (
    "is an expression; and, or, not, if, in and chains don't work on expressions: use & | ~, "
    "if_(...), .is_in(...), (a < b) & (b < c), and all_true, any_true, minimum and maximum instead "
    "of all, any, min and max"
)
_NO_NUMBER = "is an expression, and not yet a number: use all_of, any_of or each instead of a loop"
_UNARY = {
    "__bool__": _NO_TRUTH,
    "__iter__": "can't be iterated: use all_of, any_of, count_of, those or each",
    "__reversed__": "can't be iterated: use all_of, any_of, count_of, those or each",
    "__next__": "can't be iterated: use all_of, any_of, count_of, those or each",
    "__len__": "is an expression, and has no length yet: write size(...)",
    **dict.fromkeys(
        ("__index__", "__int__", "__float__", "__complex__", "__round__", "__trunc__", "__floor__",
         "__ceil__"),
        _NO_NUMBER,
    ),
    "__neg__": "has no - before it: write 0 - x",
    "__pos__": "has no + before it: leave it out",
    "__abs__": "has no abs: write if_(x < 0, 0 - x, x)",
    "__call__": "can't be called: leave out the brackets",
    "__setitem__": "can't be changed: write set={m[key]: value} in a row",
    "__delitem__": "can't be changed: write set={...} in a row",
    "__enter__": "can't be used in a with statement: leave out the with",
}  # fmt: skip
_NO_DIVISION = "write // with a number or a constant behind it"
_BINARY = {
    "truediv": ("/", _NO_DIVISION),
    "divmod": ("divmod", _NO_DIVISION),
    "pow": ("**", "write the product"),
    "lshift": ("<<", "write 2 * x"),
    "rshift": (">>", _NO_DIVISION),
    "xor": ("^", "write a != b"),
    "matmul": ("@", "expressions have no matrix product"),
}


def _refusal(reason: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: Any) -> NoReturn:
        raise DeclarationError(f"`{self}` {reason}")

    return refuse


def _without_operator(sign: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: object, other: object, *_: Any) -> NoReturn:
        raise DeclarationError(f"`{self}` and `{other}` have no {sign} between them: {instead}")

    return refuse


def _format(self: object, form: str) -> str:
    if form:
        raise DeclarationError(f"`{self}` {_NO_NUMBER}")
    return str(self)


Refused.__format__ = _format
for _name, _reason in _UNARY.items():
    setattr(Refused, _name, _refusal(_reason))
for _name, (_sign, _instead) in _BINARY.items():
    for _side in ("", "r"):
        setattr(Refused, f"__{_side}{_name}__", _without_operator(_sign, _instead))
