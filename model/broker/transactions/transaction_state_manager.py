"""The transactional ids that a broker coordinates, and their entries.

The rows are those of `spec.coordinator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, ClassVar

from ....spec.coordinator import entry as transaction
from ....spec.coordinator import tables
from ....spec.coordinator.requests.listing import is_listed
from ....spec.coordinator.state_manager import ownership
from ....spec.messages import Errors
from ....spec.releases.features import KAFKA
from ....spec.systems.reductions.coordinator import ENTRY_ALONE, OWNERSHIP_ALONE
from ...engine.errors import NotNowError, whole
from ...engine.machine import Machine, is_watched
from .transaction_log import TombstoneBatch, add_tombstone
from .transaction_metadata import (
    NEW_ENTRY,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    STATE_NAMES,
    TransactionMetadata,
    entry_of,
    metadata_of,
    record_of,
    state_member,
)

PENDING = "PENDING"
"""Stands for an append that is neither acknowledged nor refused yet."""
ERRORS = frozenset(Errors.names)

is_idle = transaction.is_settled & ~transaction.pending.is_set
_KIND = {None: "NONE", "": "EMPTY"}
_LOOKED_UP = (
    "request", "transactional_id", "state_partition", "is_known", "is_dead", "timeout_ms",
    "expects_id", "expects_epoch", "enable_2pc", "keep_prepared_txn",
)  # fmt: skip
_MOST_SAID = 1_000


class TransactionStateManager:
    """The entries of a broker's transactional ids, and the partitions of the log that it owns.

    `protocol` is the release, `transaction_version` the finalized feature level, `now_ms` the time.
    `state_partition_of` returns the log partition of an id. The other parameters are settings.
    """

    tables: ClassVar = tables.DRIVEN
    """The tables of an entry."""
    features: ClassVar[tuple[str, ...]] = ()
    """The features that the entry has in addition to those of its release."""

    def __init__(
        self, *, protocol: str | None, transaction_version: int | None, now_ms: int,
        state_partition_of: Callable[[str], int], transactional_id_expiration_ms: int,
        **settings: int,
    ) -> None:  # fmt: skip
        self._lookup = Machine(
            ownership.COORDINATOR_TABLES, KAFKA, protocol=protocol, switch_on=self.features,
            constants=settings, this=0, reductions=OWNERSHIP_ALONE,
        )  # fmt: skip
        expiration = {"transactional_id_expiration_ms": transactional_id_expiration_ms}
        self._blank = Machine(
            self.tables,
            KAFKA,
            protocol=protocol,
            switch_on=self.features,
            constants=expiration,
            reductions=ENTRY_ALONE,
        )
        self.protocol = self._lookup.protocol
        knows_2 = "transaction_version_2" in self._blank.features
        version = (2 if knows_2 else 0) if transaction_version is None else transaction_version
        self.update_features(transaction_version=version)
        self.now_ms = now_ms
        self.state_partition_of = state_partition_of
        self.entries: dict[str, Machine] = {}
        self.keeps_records = False
        self.records: list[TransactionMetadata] = []
        self._epochs: dict[int, int] = {}
        self._said: dict[tuple[Any, ...], Any] = {}  # the lookups since the last election
        self._tokens = count()

    def update_features(self, *, transaction_version: int) -> None:
        """Sets the finalized transaction.version, from 0 to 2. Aborts that the coordinator decides
        itself have this version. Raises ModelError for other values.

        TransactionStateManager.transactionVersionLevel
        """
        self.transaction_version = whole("transaction_version", transaction_version, 0, 2)

    def elect(
        self, state_partition: int, coordinator_epoch: int, *, is_loading: bool = False
    ) -> None:
        """Makes the broker the leader of this partition of the transaction log. If `is_loading`, it
        loads the partition until `end_load`."""
        self._hears(state_partition, coordinator_epoch, leads=True, is_loading=is_loading)

    def _hears(
        self, state_partition: int, coordinator_epoch: int | None, *, leads: bool,
        is_loading: bool = False,
    ) -> None:  # fmt: skip
        self._lookup.handle(
            "LeaderAndIsr", broker=0, state_partition=state_partition, leads=leads,
            coordinator_epoch=coordinator_epoch, is_loading=is_loading,
        )  # fmt: skip
        self._note_epoch(state_partition)

    def _note_epoch(self, state_partition: int) -> None:
        self._said = {}
        home = self._lookup.at("owned", state_partition)
        if home is None or home.is_loading:
            self._epochs.pop(state_partition, None)
        else:
            self._epochs[state_partition] = home.coordinator_epoch

    def owner_epoch(self, transactional_id: str) -> int | None:
        """The epoch with which the broker coordinates this id; None if it doesn't."""
        return self._epochs.get(self.state_partition_of(transactional_id))

    def is_loading(self) -> bool:
        """Whether the broker is loading a partition."""
        return any(home and home.is_loading for home in self._lookup["owned"].values())

    def lookup(
        self, request: str, transactional_id: str | None, timeout_ms: int = 1,
        expected: tuple[int, int] | None = None, *, enable_2pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> Any:  # fmt: skip
        """The decision about a request before it reads the id's entry: error, next step,
        timeout."""
        entry = self.entries.get(transactional_id or "")
        inputs = (
            request,
            "GIVEN" if transactional_id else _KIND[transactional_id],
            self.state_partition_of(transactional_id) if transactional_id else 0,
            entry is not None,
            entry is not None and entry["state"] == "DEAD",
            timeout_ms,
            expected is not None and expected[0] != NO_PRODUCER_ID,
            expected is not None and expected[1] != NO_PRODUCER_EPOCH,
            enable_2pc,
            keep_prepared_txn,
        )
        said = None if is_watched() else self._said.get(inputs)
        if said is None:
            if len(self._said) >= _MOST_SAID:
                self._said.clear()
            fields = dict(zip(_LOOKED_UP, inputs, strict=True))
            said = self._said[inputs] = self._lookup.handle("look up", **fields).reply
        return said

    @property
    def owner(self) -> Machine:
        """The machine of the broker's owned partitions."""
        return self._lookup

    def new_entry(self, txn_timeout_ms: int) -> Machine:
        """A new entry, before its first record, with the first producer id."""
        new = NEW_ENTRY._replace(
            txn_timeout_ms=txn_timeout_ms, txn_last_update_timestamp=self.now_ms
        )
        return self._at_now(entry_of(new, self._blank))

    def machines(self) -> tuple[Machine, Machine]:
        """The machines of the owned partitions and of an entry, in their initial states."""
        return self._lookup.copy(), self._blank.copy()

    # Entries ----------------------------------------------------------------------------------

    def put(self, metadata: TransactionMetadata) -> None:
        """Stores an entry; it replaces an existing one of the same id."""
        self.entries[metadata.transactional_id] = entry_of(metadata, self._blank)

    def can_skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> bool:
        """Whether the id is known, has a lower epoch, and has no transaction."""
        entry = self.entries.get(transactional_id)
        return (
            entry is not None and entry.value(is_idle) and entry["producer_epoch"] < producer_epoch
        )

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """Raises the entry's epoch to this one, as repeated InitProducerId requests would. Raises
        NotNowError if `can_skip_to_epoch` is false."""
        if not self.can_skip_to_epoch(transactional_id, producer_epoch):
            raise NotNowError(f"{transactional_id} can't skip to epoch {producer_epoch}")
        now = metadata_of(transactional_id, self.entries[transactional_id])
        self.put(
            now._replace(
                state="Empty",
                previous_producer_id=now.producer_id,
                producer_epoch=producer_epoch,
                last_producer_epoch=NO_PRODUCER_EPOCH,
            )
        )

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        """The entry of an id, if there is one."""
        entry = self.entries.get(transactional_id)
        return None if entry is None else metadata_of(transactional_id, entry)

    def pending_record(self, transactional_id: str) -> TransactionMetadata:
        """The log record of an id's pending transition."""
        return record_of(transactional_id, self.entries[transactional_id])

    def _at_now(self, entry: Machine) -> Machine:
        entry.outside(clock__now=self.now_ms)
        return entry

    def _refuse(self, entry: Machine, error: str) -> list[Any]:
        known = error if error in ERRORS else "UNKNOWN_SERVER_ERROR"
        sent = entry.handle("append failure", record_kept=False, error=known).sent
        return [m._replace(error=error) for m in sent]

    def timed_out(self) -> list[str]:
        """The ids whose transaction is older than its timeout."""
        entries = self.entries.items()
        return [n for n, entry in entries if self._at_now(entry).may("transaction timeout")]

    def list_transactions(
        self,
        producer_ids: Iterable[int] = (),
        states: Iterable[str] = (),
        min_duration_ms: int = -1,
    ) -> tuple[str, list[str], list[str]]:
        """ListTransactions: returns the error, the ids, and the filter's unknown states. An empty
        filter, or a duration below 0 ms, excludes nothing."""
        if self.is_loading():
            return "COORDINATOR_LOAD_IN_PROGRESS", [], []
        wanted = list(states)
        unknown = [name for name in wanted if name not in STATE_NAMES]
        ids = frozenset(producer_ids)
        known = frozenset(state_member(name) for name in wanted if name not in unknown)
        found = [
            name
            for name, entry in self.entries.items()
            if is_listed(
                entry["state"], entry["producer_id"], self.now_ms - entry["txn_start_timestamp"],
                producer_ids=ids, states=known if wanted else None, min_duration_ms=min_duration_ms,
            )
        ]  # fmt: skip
        return "NONE", found, unknown

    def expirable(self) -> list[str]:
        """The ids that were unused for longer than transactional.id.expiration.ms."""
        entries = self.entries.items()
        return [n for n, entry in entries if self._at_now(entry).may("transactional id expiry")]

    def expire(
        self, *, append: str = "NONE", offline: Iterable[int] = (), max_batch_bytes: int = 1_048_588
    ) -> list[TombstoneBatch]:
        """Forgets the ids of `expirable`. Returns the batches of tombstones whose append was tried.
        `offline` partitions of the log are skipped.

        Before 3.4.1 an id without an epoch stops the expiration: the other ids of its batch stay
        pending until a failover. Ids are ordered by partition and age; Kafka orders them by hash.
        """
        apart, batches = set(offline), list[TombstoneBatch]()
        for name in sorted(self.expirable(), key=self.state_partition_of):
            partition, entry = self.state_partition_of(name), self.entries[name]
            if partition not in apart:
                add_tombstone(batches, partition, name, max_batch_bytes)
                entry.handle("transactional id expiry")
                if entry["pending"] is None:
                    batches.pop()
                    break
        for batch in batches:
            for name in batch.transactional_ids:
                if append == "NONE":
                    del self.entries[name]
                else:
                    self._refuse(self.entries[name], append)
        return batches

    def append_error(self, error: str) -> str:
        """The error that a client gets for an error of the log."""
        return ownership.PASSED_ON.get(error, error)
