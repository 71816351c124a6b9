"""A Hypothesis state machine that compares a system under test with the oracle.

    from epochfence.model.conformance.testing import Conformance

    class MyBrokerConforms(Conformance):
        system = MyBroker        # a `model.conformance.session.System`
        protocol = "4.1"

    TestMyBroker = MyBrokerConforms.TestCase

It simulates clients: old and new instances of a few transactional ids, and idempotent producers.
Most requests are right. The others are late, repeated, out of order, of another producer, or at the
end of a range. The smallest run that shows a disagreement is printed and saved.
`model.conformance.shrink` finds it with far fewer requests than Hypothesis, because it knows the
requests.
"""

from __future__ import annotations

import unittest
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from ...files import write_whole
from ...spec.releases.features import KAFKA, expected_epoch
from ..requests import LARGEST_EPOCH, Answer
from .honest_clients import Honest, Level
from .session import DisagreementError, Session, System
from .shrink import smallest
from .simulated_clients import Client, batch, identity

try:
    from hypothesis import HealthCheck, Phase, Verbosity
    from hypothesis import settings as Settings
    from hypothesis import strategies as st
    from hypothesis.stateful import (
        RuleBasedStateMachine,
        precondition,
        rule,
        run_state_machine_as_test,
    )
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "model.conformance.testing needs Hypothesis: pip install 'epochfence[testing]'",
        name=missing.name,
    ) from None

TRANSACTIONAL = ("AddPartitionsToTxn", "EndTxn")


# Strategies -------------------------------------------------------------------------------------
# The first value of each strategy is the right one: shrinking prefers it.


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """A strategy that draws the usual value twice as often as all others together."""
    return st.sampled_from([usual] * 2 * len(others) + list(others))


WHO = mostly("OWN", "STALE_EPOCH", "NEXT_EPOCH", "LARGEST_EPOCH", "OTHER_ID", "UNKNOWN_ID")
"""The producer id and epoch of a request: the client's own, or wrong ones."""

SEQUENCES = mostly("NEXT", "GAP", "OVERLAP", "ZERO", "LARGEST")
"""A batch's base sequence: the next one; one with a gap or an overlap; 0; one near the largest."""

REPEATED = st.sampled_from((1, 5, 6))
"""The batch that is repeated, counted from the last one. A leader remembers five batches."""

TIMEOUTS_MS = mostly(60_000, 1_000, 0, 900_001)
"""The timeout of a transaction in ms: the client's default, a short one, and two out of range."""

SLEEPS_MS = st.sampled_from((100, 1_001, 60_001))
"""Times in ms: shorter than each timeout, longer than the short one, longer than the default."""

EPOCHS = st.sampled_from((LARGEST_EPOCH - 3, LARGEST_EPOCH - 2, LARGEST_EPOCH - 1))
"""The last epochs of an id."""

LOST = mostly(False, True)
"""Whether a client loses an answer, and sends the same request again."""

NUMBERS = st.integers(0, 5)
"""The index of a transactional id, partition or client. Client 0 is the newest; the others are
zombies, or have another id."""


# The machine ------------------------------------------------------------------------------------


class _TestCase:
    """The test of a state machine for unittest and pytest, separate for each class."""

    def __get__(self, instance: object, owner: type[Conformance]) -> type[unittest.TestCase]:
        return _test_case(owner)


@cache
def _test_case(of: type[Conformance]) -> type[unittest.TestCase]:
    class Tested(unittest.TestCase):
        settings = Settings(deadline=None, suppress_health_check=list(HealthCheck))  # type: ignore[reportArgumentType]

        def runTest(self) -> None:
            __tracebackhide__ = True
            search(of, self.settings)

    Tested.__qualname__ = Tested.__name__ = f"{of.__name__}.TestCase"
    Tested.__module__ = of.__module__
    return Tested


def search(of: type[Conformance], settings: Settings) -> None:
    """Searches for a disagreement with these settings of Hypothesis, without its shrinking. Raises
    the smallest DisagreementError, after saving it if the class has `saves_to`. Raises
    AssertionError if no answer could be compared."""
    __tracebackhide__ = True
    of.compared = 0
    phases = [one for one in settings.phases if one not in (Phase.shrink, Phase.explain)]
    is_loud = settings.verbosity > Verbosity.normal
    quiet = Settings(
        settings,
        phases=phases,
        print_blob=False,
        verbosity=settings.verbosity if is_loud else Verbosity.quiet,
    )
    try:
        run_state_machine_as_test(of, settings=quiet)
    except DisagreementError as found:
        shrunk = smallest(found, of.system)
    else:
        if not of.compared:
            raise AssertionError(
                f"{of.system.__name__} gave no answer that could be compared: each one was lost, "
                "or an error that it may give at any time"
            )
        return
    if of.saves_to is not None:
        write_whole(Path(of.saves_to), shrunk.lines())
    # a new exception, as Hypothesis has added its own notes to the old one
    raise DisagreementError(
        shrunk.trace, shrunk.allowed, shrunk.protocol, shrunk.reasons, is_beside=shrunk.is_beside
    )


class Conformance(RuleBasedStateMachine):
    """Sends generated requests to a system, and compares its answers with the allowed ones.

    A subclass sets `system`. It may set the release (`protocol`; None: the newest), the
    transactional ids and partitions, the file for the smallest disagreement (`saves_to`), and
    `idempotent_only` for a system without transactions: then no client has a transactional id. At
    the `level` "well-behaved" clients follow the protocol, and no request is wrong. The attribute
    `settings` of its `TestCase` has the number of examples. `compared` counts the compared answers;
    the test fails if it is 0.
    """

    system: ClassVar[type[System]]
    protocol: ClassVar[str | None] = None
    transactional_ids: ClassVar[tuple[str, ...]] = ("a", "b")
    partitions: ClassVar[tuple[str, ...]] = ("t-0", "t-1")
    saves_to: ClassVar[Path | str | None] = None
    idempotent_only: ClassVar[bool] = False
    level: ClassVar[Level] = "any"
    compared: ClassVar[int] = 0
    TestCase: ClassVar[Any] = _TestCase()

    def __init__(self) -> None:
        super().__init__()
        self.session = Session(type(self).system(), self.protocol)
        self.clients: list[Client] = []
        self.honest: list[Honest] = []
        features = KAFKA.features_at(self.session.protocol)
        self.knows_expected = KAFKA.holds(expected_epoch, features)

    def teardown(self) -> None:
        """Closes the system."""
        self.session.system.close()

    def takes(self, request: str) -> bool:
        """Whether the system knows this request, and clients may send wrong requests."""
        return self.level == "any" and self.knows(request)

    def knows(self, request: str) -> bool:
        """Whether the system knows this request."""
        return request in self.system.requests and not (
            self.idempotent_only and request in TRANSACTIONAL
        )

    def has_transactions(self) -> bool:
        """Whether clients have transactional ids."""
        return not self.idempotent_only

    def has_clients(self) -> bool:
        """Whether there are clients."""
        return bool(self.clients or self.honest)

    def is_well_behaved(self) -> bool:
        """Whether all clients follow the protocol."""
        return self.level == "well-behaved"

    def ask(self, request: str, lost: bool = False, /, **fields: Any) -> Answer | None:
        """Sends a request; sends it again if the first answer is `lost`. Raises
        DisagreementError."""
        before = self.session.compared
        if lost:
            self.session.ask(request, **fields)
        answer = self.session.ask(request, **fields)
        type(self).compared += self.session.compared - before
        return answer

    def client(self, number: int) -> Client:
        """One of the clients, the newest first."""
        return self.clients[-1 - number % len(self.clients)]

    # Rules ------------------------------------------------------------------------------------

    @precondition(lambda self: self.takes("InitProducerId"))
    @rule(transactional_id=NUMBERS, transaction_timeout_ms=TIMEOUTS_MS)
    def new_client(self, transactional_id: int, transaction_timeout_ms: int) -> None:
        """A client starts. An earlier client of the same transactional id becomes a zombie."""
        ids = (None,) if self.idempotent_only else (*self.transactional_ids, None)
        name = ids[transactional_id % len(ids)]
        timeout = {"transaction_timeout_ms": transaction_timeout_ms}
        answer = self.ask("InitProducerId", transactional_id=name, **timeout)
        client = Client(name, -1, -1)
        client.learn(answer)
        if client.producer_id >= 0:
            self.clients.append(client)

    @precondition(lambda self: self.knows_expected and self.takes("InitProducerId"))
    @precondition(has_transactions)
    @precondition(has_clients)
    @rule(client=NUMBERS, who=WHO, lost=LOST)
    def bump(self, client: int, who: str, lost: bool) -> None:
        """A client with a transactional id asks for its next epoch."""
        asker = self.client(client)
        if asker.transactional_id is not None:
            answer = self.ask(
                "InitProducerId",
                lost,
                transactional_id=asker.transactional_id,
                transaction_timeout_ms=60_000,
                **identity(who, asker, self.clients),
            )
            asker.learn(answer)

    @precondition(lambda self: self.takes("AddPartitionsToTxn"))
    @precondition(has_clients)
    @rule(client=NUMBERS, who=WHO, several=st.booleans())
    def add_partitions(self, client: int, who: str, several: bool) -> None:
        """A client adds one partition or all partitions to its transaction."""
        asker = self.client(client)
        if asker.transactional_id is not None:
            wanted = self.partitions if several else self.partitions[:1]
            self._add(asker, wanted, who)

    def _add(self, asker: Client, partitions: Iterable[str], who: str = "OWN") -> None:
        self.ask(
            "AddPartitionsToTxn",
            transactional_id=asker.transactional_id,
            **identity(who, asker, self.clients),
            partitions=list(partitions),
        )

    @precondition(lambda self: self.takes("Produce"))
    @precondition(has_clients)
    @rule(
        client=NUMBERS, partition=NUMBERS, who=WHO, sequence=SEQUENCES, count=st.integers(1, 3),
        adds=st.booleans(), plain=mostly(False, True), lost=LOST,
    )  # fmt: skip
    def produce(
        self, client: int, partition: int, who: str, sequence: str, count: int, adds: bool,
        plain: bool, lost: bool,
    ) -> None:  # fmt: skip
        """A client sends a batch. `adds`: it adds the partition before. `plain`: the batch has no
        transactional id. After the largest sequence it sends another batch."""
        sender = self.client(client)
        to = self.partitions[partition % len(self.partitions)]
        if adds:
            self._begin(sender, to)
        sent = batch(sequence, count, sender, to)
        self._send(sender, to, who, sent, plain=plain, lost=lost)
        if sequence == "LARGEST":
            self._send(sender, to, who, batch("NEXT", 1, sender, to), plain=plain)

    @precondition(lambda self: self.takes("Produce"))
    @precondition(has_clients)
    @rule(client=NUMBERS, partition=NUMBERS, back=REPEATED)
    def repeat(self, client: int, partition: int, back: int) -> None:
        """A client repeats one of its last batches. If it has too few batches, it first sends
        more."""
        sender = self.client(client)
        to = self.partitions[partition % len(self.partitions)]
        self._begin(sender, to)
        for _ in range(len(sender.sent.get(to, ())), back):
            self._send(sender, to, "OWN", batch("NEXT", 1, sender, to))
        if known := sender.sent.get(to):
            base, count = known[-back:][0]
            self._send(sender, to, "OWN", {"base_sequence": base, "count": count})

    def _begin(self, sender: Client, to: str) -> None:
        """Adds a partition to the client's transaction, if the client is transactional."""
        if sender.transactional_id is not None and self.takes("AddPartitionsToTxn"):
            self._add(sender, [to])

    def _send(
        self, sender: Client, to: str, who: str, sent: dict[str, int], *, plain: bool = False,
        lost: bool = False,
    ) -> None:  # fmt: skip
        fields: dict[str, Any] = {**identity(who, sender, self.clients), **sent}
        if sender.transactional_id is not None and not plain:
            fields["transactional_id"] = sender.transactional_id
        answer = self.ask("Produce", lost, partition=to, **fields)
        if answer is not None and answer["error"] == "NONE" and who == "OWN":
            known = sender.sent.setdefault(to, [])
            if (sent["base_sequence"], sent["count"]) not in known:
                known.append((sent["base_sequence"], sent["count"]))

    @precondition(lambda self: self.takes("EndTxn"))
    @precondition(has_clients)
    @rule(client=NUMBERS, who=WHO, result=st.sampled_from(("COMMIT", "ABORT")), lost=LOST)
    def end(self, client: int, who: str, result: str, lost: bool) -> None:
        """A client commits or aborts its transaction."""
        asker = self.client(client)
        if asker.transactional_id is not None:
            answer = self.ask(
                "EndTxn",
                lost,
                transactional_id=asker.transactional_id,
                **identity(who, asker, self.clients),
                result=result,
            )
            if who == "OWN":
                asker.learn(answer)

    @precondition(is_well_behaved)
    @rule(transactional_id=NUMBERS, transaction_timeout_ms=st.sampled_from((60_000, 1_000)))
    def new_honest_client(self, transactional_id: int, transaction_timeout_ms: int) -> None:
        """A client that follows the protocol starts. An earlier client of the same id becomes a
        zombie."""
        ids = (None,) if self.idempotent_only else (*self.transactional_ids, None)
        made = Honest.new(
            ids[transactional_id % len(ids)],
            can_bump=self.knows_expected,
            is_version_2=self.session.guide.cluster.transaction_version >= 2,
            timeout_ms=transaction_timeout_ms,
        )
        self._keep_on(made, made.last)
        self.honest.append(made)

    @precondition(is_well_behaved)
    @precondition(lambda self: any(not client.is_over for client in self.honest))
    @rule(client=NUMBERS, which=NUMBERS, count=st.integers(1, 3), lost=LOST)
    def keep_on(self, client: int, which: int, count: int, lost: bool) -> None:
        """A client that follows the protocol sends a possible next request, or repeats its last
        one. If the answer is lost, it sends the same request again."""
        able = [one for one in self.honest if not one.is_over]
        sender = able[-1 - client % len(able)]
        every = sender.next(self.partitions, None, count)
        every = [line for line in every if self.knows(line["request"])]
        if every:
            self._keep_on(sender, every[which % len(every)], lost)

    def _keep_on(self, sender: Honest, line: Answer, lost: bool = False) -> None:
        fields = {name: value for name, value in line.items() if name != "request"}
        sender.learn(line, self.ask(line["request"], lost, **fields))

    @precondition(lambda self: self.knows("Fetch"))
    @precondition(has_clients)
    @rule(partition=NUMBERS, committed=mostly(True, False))
    def fetch(self, partition: int, committed: bool) -> None:
        """A consumer reads a partition from its start."""
        name = self.partitions[partition % len(self.partitions)]
        self.ask("Fetch", partition=name, **({} if committed else {"committed": False}))

    @precondition(lambda self: self.system.can("sleep"))
    @precondition(has_clients)
    @rule(ms=SLEEPS_MS)
    def sleep(self, ms: int) -> None:
        """Time goes by."""
        self.session.sleep(ms)

    @precondition(lambda self: self.system.can("restart"))
    @precondition(has_clients)
    @rule()
    def restart(self) -> None:
        """Restarts the system."""
        self.session.restart()

    @precondition(lambda self: self.level == "any" and self.system.can("skip_to_epoch"))
    @precondition(has_transactions)
    @precondition(has_clients)
    @rule(transactional_id=NUMBERS, producer_epoch=EPOCHS)
    def skip_to_epoch(self, transactional_id: int, producer_epoch: int) -> None:
        """Raises an id's epoch to one of its last epochs."""
        name = self.transactional_ids[transactional_id % len(self.transactional_ids)]
        self.session.skip_to_epoch(name, producer_epoch)
