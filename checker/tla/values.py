"""Reads values that TLC prints, and states in the JSON of its `-dumpTrace json`.

TLC doesn't write ITF: sets and tuples are lists; a function is an object with its arguments as
keys, in text form, or a list if the arguments are 1 to n. Source: tlc2.module.Json in tla2tools.jar
1.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(r'\s*(-?\d+|"(?:[^"\\]|\\.)*"|<<|>>|\|->|:>|@@|[\[\](){},]|\w+)')
_CONSTANTS = {"TRUE": True, "FALSE": False}


def value_of(text: str) -> Any:
    """The value in a text of TLC's, as ITF data. Raises ValueError."""
    reading = _Reading(text)
    value = reading.value()
    if reading.tokens:
        raise ValueError(f"text follows the value in {text}")
    return value


class _Reading:
    """The remaining tokens of a text, the last one first."""

    def __init__(self, text: str) -> None:
        self.tokens = [*_tokens(text)][::-1]

    def take(self) -> str:
        if not self.tokens:
            raise ValueError("it ends too early")
        return self.tokens.pop()

    def expect(self, token: str) -> None:
        if (found := self.take()) != token:
            raise ValueError(f"found {found} instead of {token}")

    def value(self) -> Any:
        """Reads the next value."""
        match self.take():
            case "<<":
                return self.listed(">>")
            case "{":
                return {"#set": self.listed("}")}
            case "[":
                pairs = self.pairs("|->", ",", "]")
                return {name: held for name, held in pairs if isinstance(name, str)}
            case "(":
                return {"#map": self.pairs(":>", "@@", ")")}
            case token if token[0] == '"':
                return re.sub(r"\\(.)", r"\1", token[1:-1])
            case token if token.removeprefix("-").isdecimal():
                return int(token)
            case token if token[0].isalpha() or token[0] == "_":
                return _CONSTANTS.get(token, token)
            case token:
                raise ValueError(f"a value can't begin with {token}")

    def listed(self, end: str) -> list[Any]:
        """Reads values up to the token `end`."""
        found: list[Any] = []
        while not self.ends(end):
            if found:
                self.expect(",")
            found.append(self.value())
        return found

    def pairs(self, between: str, after: str, end: str) -> list[list[Any]]:
        """Reads pairs up to the token `end`."""
        found: list[list[Any]] = []
        while not self.ends(end):
            if found:
                self.expect(after)
            key = self.value()
            self.expect(between)
            found.append([key, self.value()])
        return found

    def ends(self, end: str) -> bool:
        if self.tokens and self.tokens[-1] == end:
            self.tokens.pop()
            return True
        return False


def _tokens(text: str) -> Iterator[str]:
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:]:.20} is not a value")
        yield found[1]
        at = found.end()


def dumped(whole: dict[str, Any]) -> tuple[list[Any], int | None] | None:
    """The states of a trace that TLC has dumped, and the index where its loop begins. None for
    another file.

    The file numbers states from 1, and the last action of a lasso leads back. TLC of 2026 has
    states and actions in `counterexample`, with the names of variables; in TLC 1.8 they are at the
    top level.
    """
    match whole.get("counterexample", whole):
        case {"state": [*numbered], "action": [*actions]} if all(map(_is_numbered, numbered)):
            states = [state for _, state in numbered]
        case _:
            return None
    match actions[-1:]:
        case [[[int(source), _], _, [int(target), _]]] if 0 < target <= source <= len(states):
            return states, target - 1
        case _:
            return states, None


def _is_numbered(item: Any) -> bool:
    match item:
        case [int(), dict()]:
            return True
        case _:
            return False
