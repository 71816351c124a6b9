"""Checks of the arguments of declarations: names, types and collections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any, cast

from .errors import DeclarationError

ALIKE = 0.75  # how near a misspelt name is to the right one, of 1
FEW = 8  # names that are listed though one of them was meant
LEAST = 4  # letters of a part of a name that tell which one is meant
_KINDS: dict[type, str] = {
    int: "whole number", bool: "True or False", str: "text", type(None): "None",
}  # fmt: skip


def check_name(what: str, name: object) -> None:
    """Raises DeclarationError if it is not a name."""
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError(f"{what} is called {name!r}: write a name in quotes")


def items(where: str, given: Any, kind: type | tuple[type, ...], what: str) -> tuple[Any, ...]:
    """The collection as a tuple; it may be given as a list. Raises DeclarationError, with the
    remedy, for anything else, and for elements of another kind."""
    if isinstance(given, kind):
        raise DeclarationError(f"{where} is one {what} alone: put a comma behind it, as in (x,)")
    if isinstance(given, str):
        raise DeclarationError(f"{where} is the text {given!r}: write a tuple of each {what}")
    if isinstance(given, (Set, Mapping)):
        raise DeclarationError(f"{where} has no order in {{...}}: write a tuple (...)")
    if isinstance(given, Iterator):
        raise DeclarationError(f"{where} can be read only once: write tuple(...) around it")
    if not isinstance(given, (tuple, list)):
        raise DeclarationError(f"{where} is {shown(given)}: write a tuple of each {what}")
    for item in cast("tuple[Any, ...]", given):
        if isinstance(item, (tuple, list)):
            raise DeclarationError(f"{where} holds a tuple: put * before it, as in (*rows, row)")
        if not isinstance(item, kind):
            raise DeclarationError(f"{where} holds {shown(item)}, which is not {article(what)}")
    return tuple(cast("tuple[Any, ...]", given))


def check_kind(where: str, thing: object, *kinds: type) -> None:
    """Raises DeclarationError if the thing has none of these kinds; a truth is not a number."""
    if not isinstance(thing, kinds) or (isinstance(thing, bool) and int in kinds):
        named = " or ".join(_KINDS.get(kind, kind.__name__) for kind in kinds)
        raise DeclarationError(f"{where}: {shown(thing)} is not {article(named)}")


def pairs(where: str, given: Any, form: str) -> None:
    """Raises DeclarationError if it is not a mapping."""
    if not isinstance(given, Mapping):
        raise DeclarationError(f"{where} is {shown(given)}: write {form}")


def meant(name: str, known: Iterable[str]) -> str:
    """`did you mean X? ` for the known name most like this one; empty if none is similar."""
    return question(nearest(name, known))


def question(alike: str | None) -> str:
    """`did you mean X? ` for a name that was probably meant; empty if there is none."""
    return "" if alike is None else f"did you mean {alike}? "


def one_of(name: str, known: Collection[str], listed: Collection[str] | None = None) -> str:
    """The remedy for an unknown name: `did you mean X?` for the known name that was probably meant,
    and `choose one of X, Y` with the known names (or `listed`). The list is left out if it is long
    and a name was found."""
    probable = meant(name, known)
    there = known if listed is None else listed
    if probable and len(there) > FEW:
        return probable.rstrip()
    return probable + (f"choose one of {', '.join(there)}" if there else "there is none")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to `name`, or None. Numbers tell things apart: a name
    with other digits is similar only if it is the only one that `name` is a part of."""
    from difflib import get_close_matches  # which is loaded where a name is wrong

    by_case = {each.casefold(): each for each in known}
    written = name.casefold()
    near = [each for each in by_case if _digits(each) == _digits(written)]
    alike = get_close_matches(written, near, 1, ALIKE)
    if not alike and len(written) >= LEAST:  # it may be cut short
        longer = [each for each in by_case if written in each]
        longer = longer if len(longer) == 1 else [each for each in longer if each in near]
        alike = sorted(longer, key=lambda each: (not each.startswith(written), len(each)))[:1]
    return by_case[alike[0]] if alike else None


def _digits(name: str) -> list[str]:
    """The digits of a name, in no order: two that have changed places are a usual mistake."""
    return sorted(filter(str.isdecimal, name))


def article(name: str) -> str:
    """The name with "a" or "an" before it."""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def shown(thing: object) -> str:
    """A thing by its kind and name."""
    if isinstance(thing, type):
        return f"the class {thing.__name__} itself"
    name = getattr(thing, "name", None)
    if isinstance(name, str):
        return f"{type(thing).__name__} {name!r}"
    return f"`{thing!r}`"
