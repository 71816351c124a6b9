"""What Python offers and an expression doesn't have: each use says what to write instead.

The methods are set from a list, so that a type checker goes on refusing them too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .errors import DeclarationError


class Refused:
    """A base whose operators raise DeclarationError; a class below may define one after all."""

    __slots__ = ()


_NO_TRUTH = (
    "has no truth of its own while it is being declared: use & | ~ in place of and, or, not, "
    "if_ in place of if, (a < b) & (b < c) in place of a chain, .is_in(...) in place of in, "
    "all_true, any_true, minimum and maximum in place of all, any, min and max"
)
_NO_NUMBER = (
    "has no number of its own while it is being declared: "
    "use all_of, any_of or each in place of a loop"
)
_UNARY = {
    "__bool__": _NO_TRUTH,
    "__iter__": "can't be iterated: use all_of, any_of, count_of, those or each",
    "__reversed__": "can't be iterated: use all_of, any_of, count_of, those or each",
    "__next__": "can't be iterated: use all_of, any_of, count_of, those or each",
    "__len__": "has no length of its own while it is being declared: write size(...)",
    **dict.fromkeys(
        ("__index__", "__int__", "__float__", "__complex__", "__round__", "__trunc__", "__floor__",
         "__ceil__"),
        _NO_NUMBER,
    ),
    "__neg__": "has no - before it: write 0 - x",
    "__pos__": "has no + before it: leave it out",
    "__abs__": "has no abs: write if_(x < 0, 0 - x, x)",
    "__call__": "can't be called: leave out the brackets behind it",
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
