"""Checks of the arguments of declarations: names, types and collections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any, cast

from .errors import DeclarationError

ALIKE = 0.75  # least similarity of a misspelt name to the right one, 0..1
FEW = 8  # most names that are listed after a suggestion
LEAST = 4  # least length of a shortened name
_KINDS: dict[type, str] = {
    int: "whole number",
    bool: "True or False",
    str: "text",
    type(None): "None",
}


def check_name(what: str, name: object) -> None:
    """Raises DeclarationError if it is not a name."""
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError(f"{what} is called {name!r}: write a name in quotes")


def items(where: str, given: Any, kind: type | tuple[type, ...], what: str) -> tuple[Any, ...]:
    """The tuple or list as a tuple. Raises DeclarationError, with the remedy, for anything else,
    and for elements of another kind.
    """
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
    """Raises DeclarationError if the thing has none of these kinds. A truth is not a number."""
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
    """`did you mean X? ` for a similar name; empty if there is none."""
    return "" if alike is None else f"did you mean {alike}? "


def one_of(name: str, known: Collection[str], listed: Collection[str] | None = None) -> str:
    """The remedy for an unknown name: `did you mean X?` for a similar known name, and `choose one
    of X, Y` with the known names (or `listed`). A long list is left out if a similar name was
    found.
    """
    probable = meant(name, known)
    there = known if listed is None else listed
    if probable and len(there) > FEW:
        return probable.rstrip()
    return probable + (f"choose one of {', '.join(there)}" if there else "there is none")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to `name`, or None. Digits distinguish names: one with
    other digits is similar only if it alone contains `name`.
    """
    from difflib import get_close_matches  # slow to import, and needed only for a wrong name

    by_case = {each.casefold(): each for each in known}
    written = name.casefold()
    near = [each for each in by_case if _digits(each) == _digits(written)]
    alike = get_close_matches(written, near, 1, ALIKE)
    if not alike and len(written) >= LEAST:  # `name` may be shortened
        longer = [each for each in by_case if written in each]
        longer = longer if len(longer) == 1 else [each for each in longer if each in near]
        alike = sorted(longer, key=lambda each: (not each.startswith(written), len(each)))[:1]
    return by_case[alike[0]] if alike else None


def _digits(name: str) -> list[str]:
    """The digits of a name, sorted: two swapped digits are a usual mistake."""
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
