"""Inputs for the command line itself: any command, with options and values at random."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from epochfence.cli.commands import NAMES, loaded
from epochfence.tests.cli.test_cli import DECLARED
from epochfence.tests.fuzz import declarations, histories
from epochfence.tests.fuzz.harness import Case, Surface

ROOT = Path(__file__).parents[2]
LOG = "00000000000000000012.log"
SYSTEMS = [f"declared.py:{name}" for name in ("holds", "breaks", "stuck", "faulty", "empty")]
NUMERIC = {
    "--threads",
    "--memory",
    "--jobs",
    "--limit",
    "--depth",
    "--timeout",
    "--shards",
    "--deadline",
    "--steps",
    "--seconds",
    "--idle",
    "--shorter",
}
NUMBERS = ("0", "1", "2", "3", "-1", "x", "", "nan", "inf", "1e300", "1.5", "9" * 5_000)
SETTINGS = ("N=1", "N=2", "N=3", "N=99", "N=x", "N", "Z=1", "N=1..3", "N=1,2", "N=3..1", "=", "é=1")
WORDS = ("", "x", "--", "-", "é", "\udcff", "a\nb", "x" * 5_000, "[red]", "none.py", ".", "nothing")
# What each option is given; whatever has other names takes words. Nothing here starts Spark, which
# takes seconds, or draws, which takes memory that isn't Python's.
VALUES: dict[str, tuple[str, ...]] = {
    "--set": SETTINGS, "--protocol": ("1", "2", "4.1", "2.5", "9"), "--protocols": ("1", "4.1"),
    "--bounds": ("large", "default", "huge"), "--property": ("Small", "Low", "UpOnly", "X"),
    "--engine": ("local", "spork"), "--as": ("log", "snapshot", "transaction-log", "nope"),
    "--json": ("-", "a.json", ".", "no/file", "declared.py/a"), "--runs": ("one", "each", "none"),
    "--resume": ("a", "declared.py"), "--checkpoint": ("a", "declared.py"),
    "--results": ("a.jsonl", ".", "declared.py"), "--output": ("a.dot", "a.mmd", "a.jpg", "no/a"),
    "--machine": ("machine", "transaction", "nope"), "--certificate": ("a", "declared.py"),
}  # fmt: skip
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "decode": (LOG, "-", "history.jsonl"),
    "judge": ("history.jsonl", "application.jsonl", LOG),
    "config": ("acks=1", "acks=all", "retries=0", "linger.ms=-1", "enable.idempotence=true", "a=b",
               "transactional.id=t", "acks=9", "=", "linger.ms=" + "9" * 5_000, "retrys=3"),
    "diagram": ("lease", "none.py", *SYSTEMS),
    "diff": ("requests.jsonl", *SYSTEMS),
    "new": ("mine", "json", "Upper", "a-b", "é"),
    "list": (),
}  # fmt: skip
DEAR = {
    "matrix": 0.01, "vectors": 0.02, "bugs": 0.1, "check": 0.05, "sweep": 0.01,
    "simulate": 0.05, "bound": 0.03, "prove": 0.01,
    "lint": 0.03, "list": 0.02, "semantics": 0.005, "window": 0.02,
    "diagram": 0.3, "diff": 0.3, "serve": 0, "explore": 0,  # which would run until they are ended
}  # fmt: skip
NOT_DRAWN = {"--help", "--master", "--spark-ui", "--watch"}
"""Options that print help, need a cluster or a browser, or never end."""


@cache
def _files() -> dict[str, bytes]:
    return {
        "declared.py": DECLARED.encode(),
        LOG: (ROOT / "docs/examples/broker/orders-0" / LOG).read_bytes(),
        "history.jsonl": (histories.HISTORIES / "sound.jsonl").read_bytes(),
        "application.jsonl": (histories.HISTORIES / "loss.jsonl").read_bytes(),
        "requests.jsonl": (ROOT / "docs/examples/late-batch.jsonl").read_bytes(),
    }


@cache
def _commands() -> dict[str, Any]:
    return {name: loaded(name) for name in NAMES}


def _option(random: Random, parameter: Any) -> list[str]:
    name = random.choice([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return [name]
    pool = VALUES.get(max(parameter.opts, key=len))
    if pool is None:
        pool = NUMBERS if NUMERIC & {*parameter.opts} else ("a", "b")
    if random.random() < 0.05:
        pool = WORDS
    return [name, *(random.choice(pool) for _ in range(max(1, parameter.nargs)))]


def generate(random: Random) -> Case:
    """A command line, most often one that a person could have meant."""
    name = random.choice(list(_commands()))
    dear = DEAR.get(name)
    wrong = dear is not None and random.random() > dear
    takes_all = name in ("matrix", "lint")  # alone, all shipped systems: half a minute
    words = [name, "declared.py:holds"] if takes_all else [name]
    system = random.choice(SYSTEMS)
    pool = ARGUMENTS.get(name, (system,))
    for _ in range(random.choice((0, 1, 1, 1, 1, 2)) if name != "list" else 0):
        words.append(random.choice(pool) if random.random() < 0.95 else random.choice(WORDS))
    parameters = [p for p in _commands()[name].params if p.param_type_name == "option"]
    parameters = [p for p in parameters if not NOT_DRAWN & {*p.opts}]
    for parameter in random.sample(parameters, min(len(parameters), random.randrange(4))):
        words += _option(random, parameter)
    if name == "bound" and "--depth" not in words:
        words += ["--depth", random.choice(("1", "4"))]
    if name == "simulate" and "--steps" not in words:  # else it walks for a minute
        words += ["--steps", random.choice(("1", "1000"))]
    if wrong:  # what would run for seconds is refused for one of its words
        words.insert(random.randrange(1, len(words) + 1), random.choice(("--nope", "--threads=x")))
    plain = not {"--property", "--set", "--bounds", "--depth", "--protocol"} & {*words}
    explored = name in ("check", "sweep") and "declared.py:breaks" in words
    bound = 20 if explored and plain else None  # broken, or nobody knows where a limit is met
    wanted = {word.partition(":")[0] for word in words}
    files = {name: data for name, data in _files().items() if name in wanted}
    return Case(tuple(words), files, stdin=_files()[LOG], bound=bound, many_lines=name == "decode")


SURFACE = Surface("commands", generate, declarations.run, weight=1, seconds=30, reserves=True)
