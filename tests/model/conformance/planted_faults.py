"""Faults that are planted in the broker of docs/examples, and how soon each is found.

`python tests/model/conformance/planted_faults.py [FAULT [FILE]]` prints the
table of docs/conformance.md, or the smallest run of a fault, which it saves as a trace.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from epochfence.model.conformance.session import DisagreementError, System
from epochfence.model.conformance.testing import Conformance, search

BROKER = Path(__file__).parents[3] / "docs" / "examples" / "memory_broker.py"
SEEDS = 3
MOST = 1_000
"""Examples before a fault counts as missed."""


@dataclass(frozen=True)
class Fault:
    """A piece of the broker's text with another in its place."""

    what: str
    release: str
    old: str
    new: str

    def broker(self) -> ModuleType:
        """The broker with the fault in it."""
        text = BROKER.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, self.what
        return _module(text.replace(self.old, self.new))

    def system(self) -> type[System]:
        """The adapter to it."""
        return adapter(self.broker(), self.release)


FAULTS = (
    Fault(
        "a repeated batch is appended again",
        "4.1",
        "                    return old.base_offset\n",
        "                    break\n",
    ),
    Fault(
        "a repetition is told the end of the log",
        "4.1",
        "return old.base_offset",
        "return batch.base_offset",
    ),
    Fault("only four batches are remembered", "3.6", "maxlen=5", "maxlen=4"),
    Fault("six batches are remembered", "3.6", "maxlen=5", "maxlen=6"),
    Fault(
        "a stale epoch is appended",
        "2.7",
        "if known is not None and batch.epoch < known.epoch:",
        "if False:",
    ),
    Fault(
        "a new epoch may start anywhere",
        "2.7",
        "            following = 0\n",
        "            following = batch.base_sequence\n",
    ),
    Fault(
        "sequences don't wrap",
        "2.7",
        "(self.base_sequence + self.count) % SEQUENCES",
        "self.base_sequence + self.count",
    ),
    Fault(
        "a plain batch gets into a transaction",
        "2.7",
        "if known.first_offset is not None and not batch.transactional:",
        "if False:",
    ),
    Fault(
        "a first batch isn't verified",
        "3.6",
        "if partition not in txn.partitions:",
        "if False:",
    ),
    Fault(
        "a timeout or a new instance doesn't fence the old one",
        "3.6",
        "        txn.epoch += 1\n",
        "",
    ),
    Fault(
        "a new instance keeps the epoch",
        "2.7",
        "            txn.epoch, txn.last_epoch = txn.epoch + 1, -1\n",
        "            txn.epoch, txn.last_epoch = max(txn.epoch, 0), -1\n",
    ),
    Fault(
        "a bump can't be asked for again",
        "2.7",
        "elif producer_epoch != txn.last_epoch:",
        "else:",
    ),
    Fault(
        "epochs go on behind the last one of clients",
        "2.7",
        "if txn.epoch >= MAX_EPOCH - 1:",
        "if txn.epoch >= MAX_EPOCH:",
    ),
    Fault(
        "an end takes no new epoch",
        "4.1",
        "self.end(txn, result, txn.epoch + 1)",
        "self.end(txn, result, txn.epoch)",
    ),
    Fault(
        "an end can't be asked for again",
        "4.1",
        "is_retry = (producer_id, producer_epoch) == before",
        "is_retry = False",
    ),
    Fault(
        "one partition of a transaction gets no marker",
        "3.6",
        "for name in sorted(txn.partitions)\n",
        "for name in sorted(txn.partitions)[:1]\n",
    ),
    Fault(
        "what was aborted is read",
        "3.6",
        "is_kept = not committed or (batch.producer_id, batch.base_offset) not in aborted",
        "is_kept = True",
    ),
    Fault(
        "an open transaction is read",
        "2.7",
        "end = self.stable if committed else self.end",
        "end = self.end",
    ),
    Fault(
        "a timeout is never noticed",
        "2.7",
        "self.now_ms - txn.started_ms > txn.timeout_ms",
        "False",
    ),
    Fault(
        "a restart forgets open transactions",
        "2.7",
        "            self.replay(batch)\n",
        "            self.replay(batch)\n"
        "            self.producers[batch.producer_id].first_offset = None\n",
    ),
    Fault(
        "a restart forgets the producers",
        "2.7",
        "        for batch in log:\n            self.replay(batch)\n",
        "        self.log = log\n",
    ),
)


@cache
def _module(text: str) -> ModuleType:
    module = ModuleType(BROKER.stem)
    sys.modules[module.__name__] = module  # dataclasses look there for what a string means
    exec(compile(text, str(BROKER), "exec"), module.__dict__)
    return module


def faultless() -> ModuleType:
    """The broker as it is."""
    return _module(BROKER.read_text(encoding="utf-8"))


def adapter(broker: ModuleType, release: str) -> type[System]:
    """The adapter to the broker of a release."""
    return type("Memory", (broker.MemorySystem,), {"release": release})


def machine(of: type[System], at: str) -> type[Conformance]:
    """What tests a system at a release."""

    class Tested(Conformance):
        system = of
        protocol = at

    return Tested


def searched(tested: type[Conformance], examples: int, number: int, *, shrinks: bool) -> None:
    """Looks for a disagreement, with this seed. Raises the one that is found."""
    same = settings(
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    if shrinks:
        search(seed(number)(tested), same)
    else:
        run_state_machine_as_test(seed(number)(tested), settings=same)


def examples_needed(fault: Fault, number: int) -> int:
    """How many examples there were, with this seed, when the fault was found.

    Raises AssertionError where it isn't.
    """
    made, found = 0, list[int]()

    class Counted(machine(fault.system(), fault.release)):
        def __init__(self) -> None:
            nonlocal made
            made += 1
            super().__init__()

        def ask(self, *asked: Any, **fields: Any) -> dict[str, object] | None:
            try:
                return super().ask(*asked, **fields)
            except DisagreementError:
                found.append(made)
                raise

    try:
        searched(Counted, MOST, number, shrinks=False)
    except DisagreementError:
        return found[0]
    raise AssertionError(f"not found in {MOST} examples: {fault.what}")


def smallest(fault: Fault) -> DisagreementError:
    """The disagreement that a fault comes down to. Raises AssertionError where none is found."""
    try:
        searched(machine(fault.system(), fault.release), MOST, 0, shrinks=True)
    except DisagreementError as found:
        return found
    raise AssertionError(f"not found in {MOST} examples: {fault.what}")


def row(fault: Fault) -> str:
    """A fault with the median number of examples that it took."""
    needed = median(examples_needed(fault, number) for number in range(SEEDS))
    return f"{fault.release:7} {needed:9.0f}  {fault.what}"


def table() -> str:
    """Every fault's row."""
    return "\n".join(["release  examples  fault", *map(row, FAULTS)])


def main(what: str = "", saved: str = "") -> None:
    """Prints the table, or what one of the faults comes down to, which is saved."""
    if not what:
        print(table())
        return
    found = smallest(next(fault for fault in FAULTS if fault.what == what))
    print(found)
    if saved:
        Path(saved).write_text(found.lines(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
