"""docs/proofs.md: the proved properties, their proofs, and the state of the others. It is written
by a run:

python -m epochfence.checker.solver.proofs.page docs/proofs.md

With names of systems or numbers of sections as further arguments, the run renews only those.
`--answers FILE` keeps Z3's answers in a file, so an interrupted run can continue.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....files import write_whole
from ....garbage import nothing_to_collect
from ....language import Key, Message, System, instantiate
from ....language.declaration.errors import UnsettledError
from ....language.instances.instance import ending_anywhere
from ....spec.client.batches.epochs import DelayedProduce
from ....spec.messages import PARTITION, PRODUCER
from ....spec.producer_ids.state import BROKER
from ...many.workers import Workers
from ...named_systems import load_system
from ...prepare import available_threads
from ..obligations import Answers
from ..prove import Options, Proof, Proofs, prove
from ..unbounded.instances import cutoff
from ..unbounded.messages import enough_in_flight, with_capacity
from ..unbounded.numbers import relevant
from .digest import digest
from .overview import Section, table

ROOT = Path(__file__).parents[3]
_NUMBER = re.compile(r"\A\d+\.")
_OPEN = re.compile(r"properties are proved, for any (?P<names>[^*]*)\*\*")
_DIGEST = re.compile(r"^Digest of [^`]*: `(?P<digest>\w+)`\.$", re.MULTILINE)
HEAD = """# Proofs

What `epochfence prove` proves, beyond the bounds of a check. Constants that only bound numbers
(epochs, sequence numbers, connections, faults in a run) are left open: a proof holds for every
value of them. How many there are of something (instances, partitions, slots of a log) is as
stated. Each property is split by the row that a step takes, and each of these obligations is
settled by itself; lemmas are invariants that are proved in the same run. If instances can take each
other's place, a row is settled for the first of them: renaming makes the other cases out of it.

**What is proved where.** A number is the section with the proof. Its heading says for how many
clients (`producers`), partitions and transactions, if not for two of each. **no** says that the
property doesn't hold at that release, and which [bug](bugs.md) or [finding](findings.md) breaks it:
within small bounds, a search finds the run (`checker/solver/proofs/overview.py`, run by tests).

{tables}

`NotFencedByItself` takes two faults to break. At 4.0 to 4.2 `late_fence_end_refused` isn't enough:
two faults at the last epoch break it where the transaction log doesn't have the previous and the
next producer id (`rotation_in_log`, of 4.3, mends that).

Before version 2 of the protocol (4.0) an epoch has many transactions, and a client asks for a new
epoch with the one that it holds. What the lemmas say of clients, batches and leaders is another
thing there: a pair of producer id and epoch is given out once it is in the log, an open transaction
has the log's epoch, nobody has a newer pair while a leader may append a batch, and sequences go on
from one transaction to the next (`spec/lemmas/transactions/numbers.py`). `ReservedEpoch` and
`AnswerStands` say something there, too, as clients get new epochs by InitProducerId. `Order`
doesn't hold at 2.5, where a leader doesn't ask the coordinator.

A *ranking* proves that a fair run comes to what it must: numbers that no step raises, and fair
events that lower them. [Progress](progress.md#proved-without-bounds) has the rule. It is of runs
with any number of faults, as long as there is a last one.

*Not inductive* means that there is a state in which the property and all lemmas hold and from which
a step breaks it. Perhaps no run reaches that state. This says nothing about the property: only
lemmas are missing; [`--suggest`](language.md#lemmas-suggested) looks for them.

Of `producer-ids`, `HandedOutOnce` is proved at each release from 3.5 to the newest (with two
brokers and `--set largest_producer_id=2`). At 2.0, 2.5 and 2.7, where blocks come from ZooKeeper,
it doesn't hold (KAFKA-12620, found by `epochfence check`); with what mended that it is proved.

The number of clients can be left open: a step acts for one, and each part of a property or lemma
mentions two at most. So a proof with three clients is one of any number; its section says so. The
number of partitions can't be left open in this way: whether a transaction is complete, and whether
a client has heard of all its batches, depends on all of them at once. Nor can that of transactions,
which are told apart by their order. A transaction has one record to a partition: for more, lemmas
would have to say how sequences go on within it, as those of `idempotence` do.

All properties of `idempotence` are proved with the features that mend findings 1 to 3: for any
epoch, any number of faults, of late requests and of partitions, and the numbers of records and of
batches in flight that the section says. It is of one producer id, as `Order` doesn't hold across
two ([finding
4](findings.md#4-a-late-batch-of-the-producer-id-before-is-appended-behind-newer-ones)), and a
leader doesn't forget a producer ([finding
5](findings.md#5-a-request-that-outlives-the-producers-state-is-appended-again)). At 2.7 and 3.6 the
proof is for one partition. At 2.5 a partition with nothing in flight takes a new epoch in
mid-sequence (KAFKA-12152), and the lemmas don't hold.

A section has a digest of the rows, properties and lemmas that it is of, however they are named. A
test computes all of them and names each section that isn't of today's rows.

This page is written by `make proofs`; `make proofs SECTIONS="5 6"` writes the fifth and the sixth
of its sections, `SECTIONS=transactions` those of a system. Times are of Z3's processor, on the
machine that wrote a section; before 30 November 2026 they were times of the clock.
"""


@dataclass(frozen=True)
class Case:
    """A section: a system at a release (None: the newest), with further features, constants, and
    the properties to prove (None: all). `any_number` is a key with any number of instances.
    `in_flight` is a kind of message with any number in flight, and the number in the proof. `also`
    are releases, perhaps with features, with the same obligations.
    """

    system: str
    constants: dict[str, int]
    properties: tuple[str, ...] | None = None
    protocol: str | None = None
    switch_on: tuple[str, ...] = ()
    most: int = 1
    depth: int = 1
    spacer: bool = False
    any_number: Key | None = None
    in_flight: tuple[Message, int] | None = None
    also: tuple[str, ...] = ()


_ANY_BROKERS = Case(
    "producer-ids",
    {"brokers": 3, "largest_producer_id": 3},
    ("HandedOutOnce", "StoreForward"),
    any_number=BROKER,
)
_COMPLETES = Case(
    "transactions", {"producers": 1, "partitions": 1, "transactions": 1}, ("PrepareCompletes",)
)
_SINCE_3_6 = (
    "EpochForward", "DeclaredTransitions", "NoHangingTransaction", "ZombieFenced", "BumpedOnce",
    "EpochsNotWasted", "NoDuplicate", "Order", "StableOffsetForward", "ReadCommittedStays",
    "EpochsInTurn", "OneEpochForADecision", "OneLiveEpoch",
)  # fmt: skip
_OF_4_0 = (*_SINCE_3_6, "FencedForGood")
_OF_4_2 = (*_OF_4_0, "MarkersMatchDecision", "NoLostAcknowledgement", "OutcomeAsReported")
_OF_4_3 = (*_OF_4_2, "ReservedEpoch", "AnswerStands")
_ANY_CLIENTS = Case(
    "transactions", {"producers": 3, "partitions": 1, "transactions": 2}, any_number=PRODUCER
)
_IDEMPOTENCE = Case(
    "idempotence",
    {},
    switch_on=("bump_when_settled", "idempotent_starts_at_0", "renumbered_under_new_id"),
)
CASES = (
    Case("bench/ktx.py", {"I": 2}),
    Case("bench/ktx.py", {"I": 3}),
    _ANY_BROKERS,
    replace(_ANY_BROKERS, protocol="2.7", switch_on=("block_current_once_written",)),
    Case("transactions", {}, (*_OF_4_3, "Atomic", "PrepareCompletes"), also=("4.3",)),
    replace(_ANY_CLIENTS, properties=_OF_4_3, also=("4.3",)),
    Case(
        "transactions", {}, ("NotFencedByItself",),
        switch_on=("late_fence_end_refused",), also=("4.3",),
    ),
    replace(_COMPLETES, protocol="4.2"),
    Case(
        "transactions", {"producers": 1, "transactions": 1}, ("Atomic",),
        protocol="4.2", also=("4.1 with strict_marker_epoch",),
    ),
    replace(
        _ANY_CLIENTS, properties=_OF_4_2, protocol="4.2",
        also=("4.1 with strict_marker_epoch",),
    ),
    replace(_COMPLETES, protocol="4.1"),
    replace(_ANY_CLIENTS, properties=_OF_4_0, protocol="4.1"),
    replace(_COMPLETES, protocol="4.0.1"),
    replace(_ANY_CLIENTS, properties=_OF_4_0, protocol="4.0.1"),
    replace(
        _ANY_CLIENTS, properties=(*_SINCE_3_6, "ReservedEpoch", "AnswerStands"), protocol="3.6"
    ),
    replace(
        _ANY_CLIENTS, protocol="2.5",
        properties=(
            "EpochForward", "DeclaredTransitions", "StableOffsetForward", "ReadCommittedStays",
            "NoDuplicate", "OneLiveEpoch", "BumpedOnce", "ReservedEpoch", "AnswerStands",
        ),
    ),
    Case(
        "replication", {"power_losses": 0, "unclean_elections": 0},
        (
            "AcknowledgedKept", "ConsumedKept", "ReplicasAgree", "FollowerInLine", "EpochsInOrder",
            "OneLeader",
        ),
        also=("4.3",),
    ),
    replace(
        _IDEMPOTENCE, any_number=PARTITION, in_flight=(DelayedProduce, 3),
        also=("4.0.1", "4.1", "4.2", "4.3"),
    ),
    replace(_IDEMPOTENCE, protocol="3.6", constants={"partitions": 1}),
    replace(_IDEMPOTENCE, protocol="2.7", constants={"partitions": 1}),
)  # fmt: skip


def run(case: Case, known: Answers | None = None) -> Proofs:
    """The proofs of a case. Obligations with known answers aren't settled again."""
    options = Options(
        timeout=60,
        workers=Workers(available_threads()),
        most=case.most,
        depth=case.depth,
        spacer=case.spacer,
    )
    return prove(
        _system(case),
        case.protocol,
        case.constants,
        switch_on=case.switch_on,
        properties=case.properties,
        options=options,
        known=known,
    )


def _system(case: Case) -> System:
    path = ROOT / case.system
    system = load_system(str(path) if path.exists() else case.system)
    return with_capacity(system, *case.in_flight) if case.in_flight else system


def _proved(case: Case, result: Proofs) -> list[str]:
    """The names of the properties and lemmas that are proved."""
    system = _system(case)
    declared = {item.name for item in (*system.properties, *system.lemmas)}
    proved = [p.name for p in (*result.proofs, *result.lemmas) if p.verdict == "proved"]
    return [name for name in proved if name in declared]


def any_in_flight(case: Case, result: Proofs) -> str:
    """The text on whether a proof holds with any number of messages of a kind in flight."""
    if case.in_flight is None:
        return ""
    message, room = case.in_flight
    enough = enough_in_flight(_system(case), message, _proved(case, result))
    if enough is None or enough > room:
        return f"\nNothing follows for more than {room} {message.name} in flight at once.\n"
    return (
        f"\n**For any number of {message.name} in flight.** A step takes one at most. Each part of "
        f"a property or lemma says something of every one, and mentions {enough - 1} at most. Room "
        f"for {enough} is enough, and this proof has it. A check confirms all this for the "
        "declaration (`checker/solver/unbounded/messages.py`).\n"
    )


def any_number(case: Case, result: Proofs) -> str:
    """The text on whether a proof holds for any number of instances of a key."""
    key = case.any_number
    if key is None:
        return ""
    names = _proved(case, result)
    found = cutoff(
        _system(case), key, names, case.protocol, case.constants, switch_on=case.switch_on
    )
    number = result.constants[str(key.size)]
    if number != found.instances:
        return f"\nA proof for other numbers needs {found.instances} {key}s.\n"
    if found.objections:
        return f"\nNothing follows for other numbers of {key}s: {'; '.join(found.objections)}.\n"
    return (
        f"\n**For any number of {key}s.** A step acts for {found.acting} {key}, and each part of a "
        f"property or lemma mentions {found.mentioned} at most. Were there a step that breaks one "
        f"of them among many {key}s, one would act and {found.mentioned} be mentioned. Of the "
        f"{key}s that it doesn't act for, each part of a step's guard and updates looks at one "
        "at most; the others can be left out, and the step is one "
        f"of a system with {found.instances}, in which the same is assumed and the same broken. "
        f"So {found.instances} are enough, and this proof has them. A check confirms all this for "
        "the declaration part by part, on the system with one more "
        "(`checker/solver/unbounded/instances.py`).\n"
    )


def same_elsewhere(case: Case, text: str) -> str:
    """The text on other releases at which a section's proofs hold, because their obligations are
    the same.
    """
    if not case.also:
        return ""
    own = obligations_digest(case, text)
    same = [each for each in case.also if obligations_digest(_at(case, each), text) == own]
    if not same:
        return ""
    *first, last = same
    releases = " and ".join(filter(None, (", ".join(first), last)))
    return f"\n**At {releases} as well.** The obligations for Z3 are the same there.\n"


def _at(case: Case, other: str) -> Case:
    """The case at another release, perhaps with features: `4.1 with x with y`."""
    release, *features = other.split(" with ")
    return replace(case, protocol=release, switch_on=(*case.switch_on, *features))


def obligations_digest(case: Case, text: str) -> str | None:
    """The digest of the obligations of a section, if its proved properties may assume each other.
    None if a constant that the section left open can't be left open.
    """
    section = _placed(case, text)
    declared = {item.name for item in section.system.every_property}
    left_open = [name for found in _OPEN.finditer(text) for name in found["names"].split(", ")]
    try:
        with nothing_to_collect():
            instance = instantiate(
                section.system,
                case.protocol,
                case.constants,
                switch_on=case.switch_on,
                properties=[name for name in section.proved if name in declared],
                leave_open=left_open,
                rankings=True,
            )
            return digest(relevant(ending_anywhere(instance)))
    except UnsettledError:
        return None


def is_current(case: Case, text: str) -> bool:
    """Whether a section has today's rows, properties and lemmas, at each of its releases."""
    return {found["digest"] for found in _DIGEST.finditer(text)} == todays(case, text)


def todays(case: Case, text: str) -> set[str | None]:
    """The digests of today's obligations at a section's releases: one, if all obligations are the
    same.
    """
    return {
        obligations_digest(replace(case, protocol=release, switch_on=on), text)
        for release, on in _placed(case, text).releases
    }


def digest_line(case: Case, text: str) -> str:
    """The last line of a section, which `is_current` compares with today's obligations."""
    return f"\nDigest of its rows, properties and lemmas: `{obligations_digest(case, text)}`.\n"


def section(number: int, case: Case, result: Proofs) -> str:
    """A case's part of the page."""
    release = " with ".join(filter(None, (result.protocol, ", ".join(case.switch_on))))
    heading = ", ".join((f"{result.system}, release {release}", *_values(case.constants)))
    proved = sum(proof.verdict == "proved" for proof in result.proofs)
    seconds = [answer.seconds for answer in result.asked]
    lines = [
        f"\n## {number}. {heading}\n",
        f"**{proved} of {len(result.proofs)} properties are proved, for any "
        f"{', '.join(result.open)}**: {len(result.asked)} obligations in {sum(seconds):.1f} s, "
        f"the longest {max(seconds, default=0.0):.2f} s ({result.solver}).\n",
        f"All constants: {', '.join(_values(result.constants))}.\n",
        "| property | statement | result | lemmas | obligations | s |",
        "|---|---|---|---|--:|--:|",
    ]
    lemmas = [proof for proof in result.lemmas if proof.verdict == "proved"]
    lines += map(_line, (*result.proofs, *lemmas))
    return "\n".join(lines) + "\n"


def _values(constants: Mapping[str, int]) -> Iterator[str]:
    return (f"{name}={value}" for name, value in constants.items())


def _line(proof: Proof) -> str:
    how = f"**{proof.verdict}**"
    if proof.verdict == "proved":
        how += f": {proof.method}, k={proof.k}" if proof.k else f": {proof.method}"
    elif proof.trace is not None and proof.trace.steps:
        last = proof.trace.steps[-1]
        how += f": {proof.reason}, as at {last.action} [{last.row}]"
    elif proof.reason:
        how += f": {proof.reason}"
    lemmas = ", ".join(proof.lemmas) or "–"
    return (
        f"| {proof.name} | {proof.sentence} | {how} | {lemmas} | {proof.obligations} "
        f"| {proof.seconds:.1f} |"
    )


def _is_wanted(at: int, case: Case, sections: list[str]) -> bool:
    return not sections or case.system in sections or str(at + 1) in sections


def _kept(page: Path, wanted: Sequence[int]) -> dict[int, str]:
    """The sections of the page with their present numbers. The page may lack sections that the run
    renews.
    """
    unwanted = [at for at in range(len(CASES)) if at not in wanted]
    text = page.read_text(encoding="utf-8") if unwanted or page.exists() else ""
    _, *before = text.split("\n## ")
    places = list(range(len(CASES))) if len(before) == len(CASES) else unwanted
    if len(before) != len(places):
        if not unwanted:
            return {}
        sys.exit(f"{page} has {len(before)} sections of {len(CASES)}: name those that are new")
    return {
        at: "\n## " + _NUMBER.sub(f"{at + 1}.", text, count=1).removesuffix("\n") + "\n"
        for at, text in zip(places, before, strict=True)
    }


def main() -> None:
    """Writes the page, or renews the given sections. If no section is missing, it writes the page
    after each section, and Ctrl-C keeps the finished ones.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--answers", type=Path)
    said = parser.parse_args()
    for name in said.sections:
        if not any(_is_wanted(at, case, [name]) for at, case in enumerate(CASES)):
            parser.error(f"no section is of {name}: give numbers up to {len(CASES)}, or systems")
    wanted = [at for at, case in enumerate(CASES) if _is_wanted(at, case, said.sections)]
    parts = _kept(said.page, wanted)
    known = Answers(said.answers)
    for at in wanted:
        case = CASES[at]
        print(f"{at + 1}. {case.system} {case.constants}", file=sys.stderr, flush=True)
        result = run(case, known)
        if result.interrupted:
            known.close()
            sys.exit(f"interrupted: {said.page} has no new section {at + 1}, nor later ones")
        text = section(at + 1, case, result)
        text += any_number(case, result) + any_in_flight(case, result) + same_elsewhere(case, text)
        parts[at] = text + digest_line(case, text)
        if len(parts) == len(CASES):
            write_whole(said.page, whole([parts[place] for place in range(len(CASES))]))
    known.close()


def whole(parts: Sequence[str]) -> str:
    """The page with these sections."""
    sections = [_placed(case, text) for case, text in zip(CASES, parts, strict=True)]
    tables = "\n\n".join(table(name, sections) for name in ("transactions", "idempotence"))
    targets = "\n".join(section.target for section in sections)
    return "".join((HEAD.replace("{tables}", tables), "\n", targets, "\n", *parts))


def _placed(case: Case, text: str) -> Section:
    """A case's section for the first tables."""
    system = _system(case)
    heading = text.partition("## ")[2].partition("\n")[0]
    release = case.protocol or system.protocols.newest
    return Section(heading, text, system, release, case.switch_on)


if __name__ == "__main__":
    main()
