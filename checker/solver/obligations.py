"""Proof obligations: SMT-LIB texts, each of which must be unsatisfiable.

They are plain data: any process, or another solver, can settle them.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from ...checksums import checksum
from ...files import write_whole
from ..many.journal import Journal, JournalError
from ..many.workers import Workers
from .terms import VERSION, Term, z3

_NAMED = "assumed: "
_FORM = re.compile(r"^(?=\()", re.MULTILINE)
_ARITHMETIC = 2  # Z3's older simplex takes half the time for comparisons of nearly equal numbers
_FEW = 32  # parts of facts that are asserted first; the number doubles each time
_AT_ONCE = 4  # obligations of a Spark task: most take less time than the task itself


@dataclass(frozen=True)
class Script:
    """A piece of an SMT-LIB text: its declarations and its assertions."""

    declared: tuple[str, ...]
    asserted: str

    @cached_property
    def digest(self) -> str:
        """A digest of the text."""
        return _digest((*self.declared, self.asserted))


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def script(*terms: Term) -> Script:
    """The terms as a text. Obligations share the texts of their assumptions."""
    solver = z3.Solver()
    solver.add(*terms)
    forms = [sys.intern(form) for form in _FORM.split(solver.sexpr()) if form]
    declared = [form for form in forms if form.startswith("(declare-")]
    return Script(tuple(declared), "".join(forms[len(declared) :]))


def assumption(name: str, *terms: Term) -> Script:
    """The terms, implied by a Boolean variable with this name."""
    return script(*(z3.Implies(z3.Bool(_NAMED + name), term) for term in terms))


@dataclass(frozen=True)
class Obligation:
    """The obligation that `subject` holds in one case. `claim` asserts the case and the negation of
    the subject, `facts` the facts that may be used, by name. `case` is "start" or the row of the
    last step.
    """

    subject: str
    case: str
    k: int
    claim: Sequence[Script]
    facts: tuple[tuple[str, Sequence[Script]], ...] = ()

    @property
    def assumed(self) -> tuple[str, ...]:
        """The names of the facts that may be used."""
        return tuple(name for name, _ in self.facts)

    @property
    def text(self) -> str:
        """The whole text. A Boolean variable with its name implies each fact."""
        parts = [*self.claim, *(part for _, parts in self.facts for part in parts)]
        declared = dict.fromkeys(form for part in parts for form in part.declared)
        return "".join([*declared, *(part.asserted for part in parts)])

    @cached_property
    def key(self) -> str:
        """A digest of the obligation, equal in all runs."""
        return _digest((self.question, *sorted(self.needs(self.assumed)), *self.assumed))

    @cached_property
    def question(self) -> str:
        """A digest of the claim, without the facts."""
        return _digest((self.subject, self.case, str(self.k), self.claim[0].digest))

    def needs(self, used: Iterable[str]) -> frozenset[str]:
        """The digests of the assertions without the claim, and of the used facts."""
        wanted = {*used}
        pieces = (piece for name, pieces in self.facts if name in wanted for piece in pieces)
        return frozenset(piece.digest for piece in (*self.claim[1:], *pieces))

    @property
    def certificate(self) -> str:
        """The text with its assumptions asserted, for any solver: the answer must be unsat."""
        facts = "".join(f"(assert |{_NAMED}{name}|)\n" for name in self.assumed)
        head = f"; {self.subject}, {self.case}, k={self.k}\n(set-logic ALL)\n"
        return f"{head}{self.text}{facts}(check-sat)\n"


@dataclass(frozen=True)
class Settled:
    """The outcome of an obligation: `unsat` (it holds), `sat` (with the values of `model`), or
    `unknown` for a `reason`. `seconds` are processor time. `used` are the assumed facts that the
    proof needed.
    """

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
        """The answer for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, data: dict[str, Any]) -> Settled:
        """The answer from JSON data."""
        settled = cls(**data)
        model = tuple((name, value) for name, value in settled.model)
        return replace(settled, used=tuple(settled.used), model=model)


def settle(item: Obligation, timeout: float) -> Settled:
    """Settles an obligation by Z3, in at most `timeout` seconds.

    Most facts are irrelevant to an obligation, and hundreds of their parts cost Z3 more time than
    the claim. So parts are asserted when needed: as long as there is a counterexample, those that
    it contradicts. An obligation that is unsatisfiable with some facts is unsatisfiable with all.
    """
    begun, spent = time.perf_counter(), time.thread_time()
    solver = z3.Solver()
    solver.set("smt.arith.solver", _ARITHMETIC)
    solver.add(*(term for piece in item.claim for term in _terms(piece)))
    named = {name: z3.Bool(_NAMED + name) for name in item.assumed}
    left = [
        (named[name], part)
        for name, pieces in reversed(item.facts)  # first the subject in the state before
        for piece in pieces
        for part in _parts(piece)
    ]
    few = _FEW
    while True:
        rest = timeout - (time.perf_counter() - begun)
        solver.set("timeout", max(1, round(rest * 1000)))
        answer = solver.check(*named.values())
        if answer != z3.sat:
            break
        wrong, left = _contradicted(solver.model(), left, few)
        few *= 2
        if not wrong:
            break
        solver.add(*(z3.Implies(name, part) for name, part in wrong))
    used: tuple[str, ...] = ()
    model: tuple[tuple[str, int], ...] = ()
    reason = ""
    if answer == z3.unsat:
        core = {str(term) for term in solver.unsat_core()}
        used = tuple(name for name in item.assumed if f"{_NAMED}{name}" in core)
    elif answer == z3.sat:
        found = solver.model()
        for _, part in left:  # completes the model with values of the facts' variables
            found.eval(part, model_completion=True)
        model = tuple((d.name(), _number(found[d])) for d in found.decls() if d.arity() == 0)
    else:
        reason = solver.reason_unknown()
    seconds = round(time.thread_time() - spent, 3)
    return Settled(
        item.key, item.subject, item.case, item.k, str(answer), seconds, used, reason, model
    )


@lru_cache(maxsize=4096)
def _terms(piece: Script) -> tuple[Term, ...]:
    """The assertions in a text. Obligations share most of their pieces."""
    return tuple(z3.parse_smt2_string("".join((*piece.declared, piece.asserted))))


@lru_cache(maxsize=4096)
def _parts(piece: Script) -> tuple[Term, ...]:
    """The conjuncts of an assumption."""
    found: list[Term] = []
    todo = [term.arg(1) for term in reversed(_terms(piece))]
    while todo:
        term = todo.pop()
        if z3.is_and(term):
            todo += reversed(term.children())
        else:
            found.append(term)
    return tuple(found)


Part: TypeAlias = tuple[Term, Term]
"""The name of a fact, and a part of it."""


def _contradicted(model: Term, left: Sequence[Part], few: int) -> tuple[list[Part], list[Part]]:
    """The parts that the model contradicts, at most `few`, and the others."""
    wrong: list[Part] = []
    others: list[Part] = []
    for at, (name, part) in enumerate(left):
        if len(wrong) == few:
            return wrong, [*others, *left[at:]]
        holds = z3.is_true(model.eval(part, model_completion=True))
        (others if holds else wrong).append((name, part))
    return wrong, others


def _number(value: Term) -> int:
    return int(z3.is_true(value)) if z3.is_bool(value) else value.as_long()


def settle_all(items: Iterable[Obligation], timeout: float, workers: Workers) -> Iterator[Settled]:
    """Yields the answers to all obligations from the workers, as they come."""
    ask = partial(settle, timeout=timeout)
    return (answer for _, answer in workers.each(ask, items, "prove", at_once=_AT_ONCE))


class Answers:
    """Answers to obligations, reported as they come. A file keeps the answers of earlier runs by
    this version of Z3; unknown ones are settled again.

    An obligation that is unsatisfiable with some facts is also unsatisfiable with more. So after a
    new lemma, only obligations that use a changed fact are settled again. Raises JournalError for
    an unusable file.
    """

    def __init__(
        self, path: Path | None = None, on_settled: Callable[[Settled], None] | None = None
    ) -> None:
        self.on_settled = on_settled
        self.kept = None if path is None else Journal(path, VERSION)
        self.exact: dict[str, Settled] = {}
        self.proved: dict[str, list[tuple[frozenset[str], Settled]]] = {}  # by digest of the claim
        for entry in () if self.kept is None else self.kept.found.values():
            try:
                answer = Settled.read(entry["answer"])
                self._know(answer, entry["question"], frozenset(entry["needs"]))
            except (KeyError, TypeError):
                raise JournalError(f"{path} holds answers of another version") from None

    def get(self, item: Obligation) -> Settled | None:
        """The answer to an obligation, or None."""
        if item.key in self.exact:
            return self.exact[item.key]
        if item.question in self.proved:
            there = item.needs(item.assumed)
            for needs, answer in self.proved[item.question]:
                if needs <= there:
                    return replace(answer, key=item.key)
        return None

    def add(self, item: Obligation, answer: Settled) -> None:
        """Adds an answer."""
        needs = item.needs(answer.used) if answer.verdict == "unsat" else frozenset[str]()
        self._know(answer, item.question, needs)
        if self.kept is not None and answer.verdict != "unknown":
            entry = {"answer": answer.as_json(), "question": item.question, "needs": sorted(needs)}
            self.kept.add(answer.key, entry)
        if self.on_settled is not None:
            self.on_settled(answer)

    def _know(self, answer: Settled, question: str, needs: frozenset[str]) -> None:
        self.exact[answer.key] = answer
        if answer.verdict == "unsat":
            self.proved.setdefault(question, []).append((needs, answer))

    def close(self) -> None:
        """Closes the file for other processes."""
        if self.kept is not None:
            self.kept.close()


def write_certificates(items: Iterable[Obligation], folder: Path) -> None:
    """Writes each obligation to a separate file, and the checksums of all to SHA256SUMS, for
    `sha256sum --check`. Raises CantWriteError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sums = folder / "SHA256SUMS"
    lines = sums.read_text().splitlines() if sums.exists() else []
    checksums = {file: found for found, _, file in (line.partition("  ") for line in lines)}
    for item in items:
        name = "".join(c if c.isalnum() else "-" for c in f"{item.subject}-{item.case}")
        file = f"{name}-{item.k}-{item.key[:6]}.smt2"
        write_whole(folder / file, item.certificate)
        checksums[file] = checksum(item.certificate.encode())
    write_whole(sums, "".join(f"{checksums[file]}  {file}\n" for file in sorted(checksums)))
