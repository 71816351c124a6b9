"""The layout of TLA+ formulas: a junction that doesn't fit into a line becomes a list, with a part
in each line.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TypeAlias

WIDTH = 100
AND, OR, IMPLIES = "/\\", "\\/", "=>"
ALONE = ("(", AND, OR, "IF", "THEN", "ELSE")
"""Behind these a formula needs no parentheses."""


@dataclass(frozen=True)
class Junction:
    """Parts with one operator between them."""

    sign: str
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Headed:
    """A body after a `head`, such as a quantifier."""

    head: str
    body: Formula


@dataclass(frozen=True)
class Choice:
    """One of two formulas, depending on a condition."""

    condition: Formula
    then: Formula
    other: Formula


@dataclass(frozen=True)
class Changed:
    """An expression that changes places of a record or function to these values."""

    head: str
    changes: tuple[tuple[str, Formula], ...]


@dataclass(frozen=True)
class Listed:
    """Names with commas between them."""

    head: str
    names: tuple[str, ...]
    end: str


Formula: TypeAlias = str | Junction | Headed | Choice | Changed | Listed


def joined(sign: str, *parts: Formula) -> Formula:
    """A junction of the parts. The parts of an inner junction with the same sign are merged into
    it.
    """
    flat: list[Formula] = []
    for part in parts:
        flat += part.parts if isinstance(part, Junction) and part.sign == sign else (part,)
    return flat[0] if len(flat) == 1 else Junction(sign, tuple(flat))


def line(formula: Formula) -> str:
    """The formula on one line, in parentheses if needed."""
    match formula:
        case Junction():
            return f"({f' {formula.sign} '.join(map(line, formula.parts))})"
        case Headed():
            return f"({formula.head} {line(formula.body)})"
        case Choice():
            then, other = line(formula.then), line(formula.other)
            return f"(IF {line(formula.condition)} THEN {then} ELSE {other})"
        case Changed():
            changes = ", ".join(f"!{path} = {line(value)}" for path, value in formula.changes)
            return f"{formula.head} {changes}]"
        case Listed():
            return f"{formula.head}{', '.join(formula.names)}{formula.end}"
        case _:
            return formula


def lines(formula: Formula, width: int = WIDTH) -> list[str]:
    """The formula in lines of at most `width` characters, if it can be broken."""
    whole = line(formula)
    if len(whole) <= width or isinstance(formula, str):
        return [whole]
    match formula:
        case Junction(sign="=>"):
            premise, conclusion = formula.parts
            above = hung("(", premise, width - 1)  # ends the scope of a quantifier
            above[-1] += ")"
            return above + hung("=> ", conclusion, width)
        case Junction():
            return [
                text for part in formula.parts for text in hung(f"{formula.sign} ", part, width)
            ]
        case Headed():
            return [formula.head, *hung("  ", formula.body, width)]
        case Choice():
            parts = (("IF ", formula.condition), ("THEN ", formula.then), ("ELSE ", formula.other))
            return [text for word, part in parts for text in hung(word, part, width)]
        case Changed():
            found = [formula.head]
            for path, value in formula.changes:
                found += hung(f"  !{path} = ", value, width)
                found[-1] += ","
            return [*found[:-1], f"{found[-1][:-1]}]"]
        case Listed():
            return textwrap.wrap(whole, width, subsequent_indent="  ")


def bare(text: str) -> str:
    """The line without its outer parentheses."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if letter == ")" and at == len(text) - 1 else text
    return text


def hung(word: str, formula: Formula, width: int) -> list[str]:
    """The lines of a formula after a word, all with the same indentation."""
    first, *rest = lines(formula, width - len(word))
    if not rest and word.strip() in ALONE:
        first = bare(first)
    return [word + first, *(" " * len(word) + text for text in rest)]
