"""Bytes and lines of JSON, changed at random."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

INTERESTING = (0, 1, -1, 2**15 - 1, 2**15, -(2**15), 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1,
               2**63, -(2**63), 10**30)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0.5, 1.0, -0.0, 1e300, "", " ", "a", "\u0000", "é", "😀", "NONE",
    "x" * 5_000, [], {}, [[]], [None], {"": None}, [1, "a"], *INTERESTING,
)  # fmt: skip


def mutated(random: Random, data: bytes, other: bytes = b"") -> bytes:
    """Bytes after one to four changes; `other` is what parts are taken from."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(made) + 1)
        length = random.choice((1, 2, 4, 8, random.randrange(1, 64)))
        match random.randrange(8):
            case 0 if made:
                made[at % len(made)] ^= 1 << random.randrange(8)
            case 1:
                del made[at : at + length]
            case 2:
                made[at:at] = random.randbytes(length)
            case 3:
                made[at : at + length] = random.randbytes(length)
            case 4:
                made[at : at + length] = bytes([random.choice((0, 255, 127, 128))]) * length
            case 5:
                made[at:at] = made[at : at + length]
            case 6 if other:
                start = random.randrange(len(other))
                made[at : at + length] = other[start : start + length]
            case _:
                size = random.choice((1, 2, 4, 8))
                number = random.choice(INTERESTING) % 256**size
                made[at : at + size] = number.to_bytes(size, random.choice(("big", "little")))
    return bytes(made)


def unreadable(random: Random, line: bytes) -> bytes:
    """A line with an object that no strict reader of JSON may take, or take for one thing."""
    line = line.strip()
    at = random.randrange(1, len(line))
    match random.randrange(6):
        case 0:
            return line[:at]
        case 1:
            return line[:at] + random.choice((b"\xff", b"\x00", b"\xc3\x28")) + line[at:]
        case 2:
            found = json.loads(line)
            name = random.choice(list(found))
            return line[:-1] + f", {json.dumps(name)}: {json.dumps(random.choice(ODD))}}}".encode()
        case 3:
            wrong = random.choice((b"NaN", b"Infinity", b"-Infinity", b"1e400", b"9" * 5_000))
            return line[:-1] + b', "more": ' + wrong + b"}"
        case 4:
            deep = random.choice((2_000, 100_000))
            return b"[" * deep + b"]" * deep
        case _:
            return line[:-1] + b', "more": "\\ud800"}'


def other_value(random: Random, value: Any) -> Any:
    """A value near this one, or an odd one."""
    if isinstance(value, bool) or random.random() < 0.3:
        return random.choice(ODD)
    if isinstance(value, int):
        return random.choice((value + 1, value - 1, -value, value * 2, random.choice(INTERESTING)))
    if isinstance(value, float):
        return random.choice((value + 0.5, -value, value * 1e6))
    if isinstance(value, str):
        return random.choice((value + "x", value[:-1], value.lower(), value.upper(), ""))
    if isinstance(value, list):
        return random.choice((value * 2, value[:-1], [value], [*value, None]))
    return random.choice(ODD)


def changed(random: Random, value: Any) -> Any:
    """JSON with one thing in it changed."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        made: dict[str, Any] = dict(value)  # type: ignore[reportUnknownArgumentType]
        name = random.choice(list(made))
        match random.randrange(6):
            case 0:
                del made[name]
            case 1:
                made[random.choice(("more", "", name + "s"))] = random.choice(ODD)
            case 2:
                made[random.choice(list(made))] = made[name]
            case _:
                made[name] = changed(random, made[name])
        return made
    if isinstance(value, list) and value and random.random() < 0.7:
        items: list[Any] = list(value)  # type: ignore[reportUnknownArgumentType]
        at = random.randrange(len(items))
        items[at] = changed(random, items[at])
        return items
    return other_value(random, value)


def same_meaning(random: Random, line: bytes) -> bytes:
    """The same object, written otherwise."""
    found = json.loads(line)
    match random.randrange(4):
        case 0:
            items = list(found.items())
            random.shuffle(items)
            return json.dumps(dict(items)).encode()
        case 1:
            return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
        case 2:
            return b" \t" + line.strip() + b" \r"
        case _:
            return (
                "".join(
                    f"\\u{ord(sign):04x}" if sign.isalpha() and quoted % 2 else sign
                    for quoted, part in enumerate(line.decode().split('"'))
                    for sign in (*part, '"')
                )[:-1].encode()
                if b"\\" not in line
                else line
            )


def changed_lines(
    random: Random, lines: list[bytes], change: Callable[[Random, bytes], bytes], most: int = 3
) -> list[bytes]:
    """Lines of which one to `most` are changed."""
    made = list(lines)
    for at in random.sample(range(len(made)), min(len(made), random.randint(1, most))):
        made[at] = change(random, made[at])
    return made


def rearranged(random: Random, lines: list[bytes]) -> list[bytes]:
    """Lines of which some are left out, doubled or swapped."""
    made = list(lines)
    for _ in range(random.randint(1, 3)):
        if not made:
            break
        at, to = random.randrange(len(made)), random.randrange(len(made))
        match random.randrange(4):
            case 0:
                del made[at]
            case 1:
                made.insert(to, made[at])
            case 2:
                made[at], made[to] = made[to], made[at]
            case _:
                made.insert(at, b"")
    return made


def changed_object(random: Random, line: bytes) -> bytes:
    """A line whose object has something changed, still JSON."""
    return json.dumps(changed(random, json.loads(line)) if line.strip() else {}).encode()
