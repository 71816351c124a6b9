"""docs/proofs.md: what is proved, how, and how far the rest got. It is written by a run:

python -m epochfence.checker.solver.page docs/proofs.md
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ...spec.load import load_system
from ..check import available_threads
from ..spread import Spread
from .prove import Options, Proof, Proofs, prove

ROOT = Path(__file__).parents[2]
HEAD = """# Proofs

What `epochfence prove` proves, beyond the bounds of a check. Constants that only bound numbers
(epochs, sequence numbers, connections, faults in a run) are left open: a proof holds for every
value of them. How many there are of something (instances, partitions, slots of a log) is as
stated. Each property is split by the row that a step takes, and each of these obligations is
settled by itself; lemmas are invariants that are proved in the same run.

What isn't proved is told as it is: *not inductive* means that there is a state in which the
property and all lemmas hold and from which a step breaks it; perhaps no run reaches that state.
Nothing follows for the property but that lemmas are missing.

**Not proved yet:** of `transactions` the declared transitions (256 of 319 obligations fail by plain
induction: lemmas must say which pending state goes with which state), epochs that only grow, one
live epoch, markers that match the decision, open ranges, duplicates and order; of `producer-ids`
that an id is handed out once, for any number of brokers.

This page is written by `python -m epochfence.checker.solver.page docs/proofs.md`. Times are of the
machine that wrote it.
"""


@dataclass(frozen=True)
class Case:
    """A system with the number of instances, and the properties to prove (none: all)."""

    system: str
    constants: dict[str, int]
    properties: tuple[str, ...] | None = None
    most: int = 1
    depth: int = 1
    spacer: bool = False


CASES = (
    Case("bench/ktx.py", {"I": 2}),
    Case("bench/ktx.py", {"I": 3}),
    Case("producer-ids", {}, ("HandedOutOnce", "StoreForward")),
    Case("transactions", {}, ("EpochsNotWasted",)),
)  # fmt: skip


def run(case: Case) -> Proofs:
    """The proofs of a case."""
    path = ROOT / case.system
    options = Options(
        timeout=60,
        spread=Spread(available_threads()),
        most=case.most,
        depth=case.depth,
        spacer=case.spacer,
    )
    return prove(
        load_system(str(path) if path.exists() else case.system),
        constants=case.constants,
        properties=case.properties,
        options=options,
    )


def section(result: Proofs) -> str:
    """A system's part of the page."""
    constants = ", ".join(f"{name}={value}" for name, value in result.constants.items())
    proved = sum(proof.verdict == "proved" for proof in result.proofs)
    longest = max((answer.seconds for answer in result.asked), default=0.0)
    lines = [
        f"\n## {result.system}, release {result.protocol}, {constants}\n",
        f"For any {', '.join(result.open)}: {proved} of {len(result.proofs)} properties proved, "
        f"{len(result.asked)} obligations in {result.seconds:.1f} s, the longest {longest:.2f} s "
        f"({result.solver}).\n",
        "| property | statement | what became of it | lemmas | obligations | s |",
        "|---|---|---|---|--:|--:|",
    ]
    lines += map(_line, (*result.proofs, *result.lemmas))
    return "\n".join(lines) + "\n"


def _line(proof: Proof) -> str:
    how = f"**{proof.verdict}**"
    if proof.verdict == "proved":
        how += f": {proof.method}, k={proof.k}" if proof.k else f": {proof.method}"
    elif proof.trace is not None:
        last = proof.trace.steps[-1]
        how += f": {proof.reason}, as at {last.action} [{last.row}]"
    elif proof.reason:
        how += f": {proof.reason}"
    lemmas = ", ".join(proof.lemmas) or "–"
    return (
        f"| {proof.name} | {proof.sentence} | {how} | {lemmas} | {proof.obligations} "
        f"| {proof.seconds:.1f} |"
    )


def main() -> None:
    """Writes the page."""
    parts = [HEAD]
    for case in CASES:
        print(f"{case.system} {case.constants}", file=sys.stderr, flush=True)
        parts.append(section(run(case)))
    Path(sys.argv[1]).write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
