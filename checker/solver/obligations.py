"""Proof obligations: SMT-LIB texts that must be unsatisfiable, each by itself.

They are plain data, so that any process, or another solver, can settle them.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..spread import Spread
from .terms import SolverError, Term, z3

_NAMED = "assumed: "
_ARITHMETIC = 2  # Z3's older simplex takes half the time: what is compared here differs by 1 or so
_AT_ONCE = 4  # obligations to a task of Spark's: most take less time than it does


@dataclass(frozen=True)
class Obligation:
    """Why `subject` holds in one case: `text` asserts the case and the denial of the subject.

    `assumed` names the facts that it may use, each of which the text asserts under a Boolean of
    that name. `case` is "start" or the row that the last step takes.
    """

    subject: str
    case: str
    k: int
    text: str
    assumed: tuple[str, ...]

    @property
    def key(self) -> str:
        """The same for the same obligation in any run."""
        return hashlib.sha256(f"{self.text}{self.assumed}".encode()).hexdigest()[:16]

    @property
    def certificate(self) -> str:
        """The text with its assumptions asserted, for any solver: the answer must be unsat."""
        facts = "".join(f"(assert |{_NAMED}{name}|)\n" for name in self.assumed)
        return f"; {self.subject}, {self.case}, k={self.k}\n{self.text}{facts}(check-sat)\n"


@dataclass(frozen=True)
class Settled:
    """What became of an obligation: `unsat` (it holds), `sat` (with the values of `model`), or
    `unknown` for a `reason`. `used` are the assumed facts that were needed."""

    key: str
    subject: str
    case: str
    k: int
    verdict: str
    seconds: float
    used: tuple[str, ...] = ()
    reason: str = ""
    model: tuple[tuple[str, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The answer as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Written:
    """Terms in SMT-LIB: the variables that they declare, and what they assert."""

    declared: frozenset[str]
    asserted: str


def written(*terms: Term, if_assumed: str | None = None) -> Written:
    """The terms, each to hold; or to hold where a fact of the name `if_assumed` is assumed."""
    solver = z3.Solver()
    if if_assumed is None:
        solver.add(*terms)
    else:
        solver.add(*(z3.Implies(z3.Bool(_NAMED + if_assumed), term) for term in terms))
    forms = re.findall(r"^\(.*?(?=^\(|\Z)", solver.sexpr(), re.DOTALL | re.MULTILINE)
    declared = frozenset(form for form in forms if form.startswith("(declare-fun"))
    return Written(declared, "".join(form for form in forms if form not in declared))


def obligation(
    subject: str, case: str, k: int, parts: Iterable[Term], assumed: Mapping[str, Written]
) -> Obligation:
    """The obligation that `parts` and the facts of `assumed` can't all be."""
    texts = [written(*parts), *assumed.values()]
    declared = sorted(set[str]().union(*(text.declared for text in texts)))
    asserted = [text.asserted for text in texts]
    return Obligation(subject, case, k, "".join(declared + asserted), tuple(assumed))


def settle(item: Obligation, timeout: float) -> Settled:
    """Asks Z3, for `timeout` seconds at most."""
    begun = time.perf_counter()
    solver = z3.Solver()
    solver.set("timeout", max(1, round(timeout * 1000)))
    solver.set("smt.arith.solver", _ARITHMETIC)
    solver.from_string(item.text)
    named = [z3.Bool(_NAMED + name) for name in item.assumed]
    answer = solver.check(*named)
    used: tuple[str, ...] = ()
    model: tuple[tuple[str, int], ...] = ()
    reason = ""
    if answer == z3.unsat:
        core = {str(term) for term in solver.unsat_core()}
        used = tuple(name for name in item.assumed if f"{_NAMED}{name}" in core)
    elif answer == z3.sat:
        found = solver.model()
        model = tuple((d.name(), _number(found[d])) for d in found.decls() if d.arity() == 0)
    else:
        reason = solver.reason_unknown()
    seconds = round(time.perf_counter() - begun, 3)
    return Settled(
        item.key, item.subject, item.case, item.k, str(answer), seconds, used, reason, model
    )


def _number(value: Term) -> int:
    return int(z3.is_true(value)) if z3.is_bool(value) else value.as_long()


def settle_all(
    items: Iterable[Obligation],
    timeout: float,
    spread: Spread,
    known: Mapping[str, Settled],
    on_settled: Callable[[Settled], None],
) -> list[Settled]:
    """All of them, spread; those that `known` has an answer to aren't asked again."""
    done: list[Settled] = []

    def finish(settled: Settled) -> None:
        done.append(settled)
        on_settled(settled)

    open_items: list[Obligation] = []
    for item in items:
        if item.key in known:
            finish(known[item.key])
        else:
            open_items.append(item)
    ask = partial(settle, timeout=timeout)
    for _, settled in spread.each(ask, open_items, "prove", at_once=_AT_ONCE):
        finish(settled)
    return done


def read_answers(path: Path) -> dict[str, Settled]:
    """The answers that an earlier run's report holds; what Z3 couldn't tell is asked again.

    Raises SolverError for what is no report.
    """
    try:
        asked: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["obligations"]
        answers = [
            replace(
                Settled(**item),
                used=tuple(item["used"]),
                model=tuple((name, value) for name, value in item["model"]),
            )
            for item in asked
        ]
    except OSError as error:
        raise SolverError(f"can't read {path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError):
        raise SolverError(f"{path} is no report of epochfence prove --json") from None
    return {answer.key: answer for answer in answers if answer.verdict != "unknown"}


def write_certificates(items: Iterable[Obligation], folder: Path) -> None:
    """Each obligation in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in items:
        name = "".join(c if c.isalnum() else "-" for c in f"{item.subject}-{item.case}")
        (folder / f"{name}-{item.k}-{item.key[:6]}.smt2").write_text(item.certificate)
