"""Interned declarations: equal ones are one object.

A type, a field or an event may hold expressions, and `==` on an expression builds a tree. So
declarations are never compared part by part: an equal declaration is the same object, and
comparison is by identity.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

from ..declaration.errors import DeclarationError

T = TypeVar("T")


class _Interning(type):
    known: ClassVar[WeakValueDictionary[tuple[object, ...], Any]] = WeakValueDictionary()

    def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T:
        made = type.__call__(cls, *args, **kwargs)
        key = (cls, *_parts(made))
        try:
            return _Interning.known.setdefault(key, made)
        except TypeError:
            raise DeclarationError(
                f"{cls.__name__}: one of its parts can be changed later: write a tuple (...)"
            ) from None


class Interned(metaclass=_Interning):
    """A base for frozen dataclasses with `eq=False`: equal ones are one object."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), _parts(self)


def _parts(of: object) -> tuple[object, ...]:
    return tuple([getattr(of, name) for name in _names(type(of))])


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind))
