"""Inputs for `judge`: recorded histories and applications' logs, changed and damaged."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random

from epochfence.spec.releases.features import KAFKA
from epochfence.tests.fuzz.harness import REFUSED, Case, Surface
from epochfence.tests.fuzz.mutations import (
    changed_lines,
    changed_object,
    mutated,
    rearranged,
    same_meaning,
    unreadable,
)
from epochfence.tests.model.judge.application.test_inputs import application
from epochfence.tests.model.judge.honest import Line, eventful, without_markers
from epochfence.tests.model.judge.machines.test_group import eventful as eventful_offsets
from epochfence.tests.model.judge.machines.test_group import steady

HISTORIES = Path(__file__).parents[2] / "docs" / "examples" / "histories"
FILE = "history.jsonl"


@cache
def examples() -> tuple[tuple[str, list[bytes], int], ...]:
    """Each example: its name, its lines, and the exit code that is documented for it; and runs that
    process inputs, in which all is right."""
    documented = (
        (path.name, path.read_bytes().splitlines(), 0 if path.stem == "sound" else 12)
        for path in sorted(HISTORIES.glob("*.jsonl"))
    )
    runs = {
        "offsets": without_markers(steady(KAFKA.newest)),
        "inputs": application(Random(0)),
        "other inputs": application(Random(5)),
    }
    right = (
        (name, [json.dumps(line).encode() for line in lines], 0) for name, lines in runs.items()
    )
    return *documented, *right


def is_application(lines: list[bytes]) -> bool:
    """Whether the lines are of an application's view."""
    return b'"event"' in lines[0]


def later(random: Random, lines: list[bytes]) -> list[bytes]:
    """The same history, recorded some time later: whole ms, so that no time is rounded."""
    by = random.choice((1, 1_000, 2**40))
    made: list[bytes] = []
    for line in lines:
        found = json.loads(line)
        moved = {name: found[name] + by for name in ("start", "end") if name in found}
        made.append(json.dumps(found | moved).encode())
    return made


def less_known(random: Random, lines: list[bytes]) -> list[bytes]:
    """An application's history without the line of a transaction's end, or of who caught up."""
    told = [at for at, line in enumerate(lines) if b'"end"' in line or b'"caught_up"' in line]
    dropped = random.choice(told) if told else -1
    return [line for at, line in enumerate(lines) if at != dropped]


def never_committed(random: Random, lines: list[bytes]) -> list[bytes]:
    """A history in which an offset was fetched that nobody has committed."""
    told = [at for at, line in enumerate(lines) if b'"OffsetFetch"' in line and b"NONE" in line]
    made, at = list(lines), random.choice(told)
    found = json.loads(lines[at])
    found["response"]["offset"] = random.choice((-2, 2**40, 2**63 - 1))
    made[at] = json.dumps(found).encode()
    return made


RELEASES = ("0.11.0.0", "2.5", "3.6", "4.0.0", "4.0.1", KAFKA.newest)
STEPS = 12  # of a run: few enough that each search comes to an end
PAUSES_MS = (1, 1_000, 60_000, 86_400_000, 8 * 86_400_000)
IMPOSSIBLE = ("VOTER_NOT_FOUND", "INVALID_REPLICATION_FACTOR", "FENCED_LEADER_EPOCH")
"""Errors that no broker answers a request of the protocol with."""


def recorded(random: Random) -> Case:
    """A run as it was recorded, from its beginning or from the middle on, in one go or with a
    pause, with an answer that no broker gives, or without; some fields may be missing."""
    release = random.choice(RELEASES)
    run = random.choice((eventful, eventful_offsets))
    lines: list[Line] = run(release, Random(random.random()), STEPS)
    words = ["judge", FILE, "--protocol", release, "--limit", "20000"]
    exactly: int | None = None
    worst: int | None = 20
    if random.random() < 0.5:
        lines = without_markers(lines)
    often = random.choice((0, 0, 0.3, 1))
    for line in lines:
        if random.random() < often:
            line.pop("transaction_timeout_ms", None)
            (line.get("response") or {}).pop("base_offset", None)
    match random.randrange(4):
        case 0:
            lines = lines[random.randrange(len(lines)) :]
            words.append("--excerpt")
        case 1:
            at, by = random.randrange(len(lines)), random.choice(PAUSES_MS)
            lines = [*lines[:at], *(_moved(line, by) for line in lines[at:])]
        case 2:
            exactly, worst = 12, None
            at = random.randrange(len(lines))
            lines[at] |= {"response": {"error": random.choice(IMPOSSIBLE)}}
        case _:
            pass
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return Case(tuple(words), {FILE: text.encode()}, exactly=exactly, worst=worst, place=FILE)


def _moved(line: Line, by: int) -> Line:
    return line | {name: line[name] + by for name in ("start", "end") if name in line}


def generate(random: Random) -> Case:
    """A history, and what its verdict may be."""
    if random.random() < 0.3:
        return recorded(random)
    _, lines, code = random.choice(examples())
    application = is_application(lines)
    words = ["judge", FILE, *(["--application"] if application else [])]
    if not application and random.random() < 0.1:
        words += ["--limit", random.choice(("1", "10", "1000"))]
    limited = "--limit" in words
    bound = exactly = None
    match random.randrange(9):
        case 8 if application:
            made, bound = less_known(random, lines), 20 if code else None
        case 8 if not limited and any(b'"OffsetFetch"' in line for line in lines):
            made, exactly = never_committed(random, lines), 12
        case 0:
            made = changed_lines(random, lines, same_meaning, most=len(lines))
            exactly = None if limited else code
        case 1:
            made = [] if random.random() < 0.1 else later(random, lines)
            bound = 20 if not made or (limited and code) else code  # nobody knows in a limit
            exactly = code if made and not limited else None
        case 2 | 3:
            made, bound = changed_lines(random, lines, unreadable), REFUSED
        case 4:
            made = rearranged(random, lines)
        case 5:
            made = mutated(random, b"\n".join(lines)).split(b"\n")
        case _:
            made = changed_lines(random, lines, changed_object)
    if bound is None and exactly is None and not application and random.random() < 0.3:
        words.append("--excerpt")
    return Case(
        tuple(words), {FILE: b"\n".join(made) + b"\n"}, bound=bound, exactly=exactly, place=FILE
    )


# A million steps, which --limit is unless it is given, take 15 seconds.
SURFACE = Surface("judge", generate, weight=2, seconds=60)
