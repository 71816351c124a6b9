"""Values as TLC prints them, and the states of the JSON that its `-dumpTrace json` writes.

TLC writes no ITF: a set and a tuple are a list there, a function is an object whose keys are its
arguments as text, or a list where these are 1 to n. Source: tlc2.module.Json in tla2tools.jar 1.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(r'\s*(-?\d+|"(?:[^"\\]|\\.)*"|<<|>>|\|->|:>|@@|[\[\](){},]|\w+)')
_CONSTANTS = {"TRUE": True, "FALSE": False}


def value_of(text: str) -> Any:
    """The value in a text of TLC's, as data of ITF. Raises ValueError."""
    reading = _Reading(text)
    value = reading.value()
    if reading.tokens:
        raise ValueError(f"more than a value: {text}")
    return value


class _Reading:
    """The tokens of a text that are left, last one first."""

    def __init__(self, text: str) -> None:
        self.tokens = [*_tokens(text)][::-1]

    def take(self) -> str:
        if not self.tokens:
            raise ValueError("it breaks off")
        return self.tokens.pop()

    def expect(self, token: str) -> None:
        if (found := self.take()) != token:
            raise ValueError(f"{found} stands where {token} is to")

    def value(self) -> Any:
        """The value that comes next."""
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
                raise ValueError(f"{token} begins no value")

    def listed(self, end: str) -> list[Any]:
        """Values up to an end."""
        found: list[Any] = []
        while not self.ends(end):
            if found:
                self.expect(",")
            found.append(self.value())
        return found

    def pairs(self, between: str, after: str, end: str) -> list[list[Any]]:
        """Pairs up to an end."""
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
    """The states of a trace that TLC has dumped, and where it goes on again; none of another file.

    Its states and those of its actions are numbered from 1, and the last action of a lasso leads
    back. TLC of 2026 has them in `counterexample`, beside the names of variables; TLC 1.8 has
    nothing around them.
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
