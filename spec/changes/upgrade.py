"""The upgrade of transaction.version in the middle of a run, and its downgrade.

A cluster's finalized features change; the coordinator's broker hears of it by the metadata log, and
a client by whatever broker it connects to, each at its own time, before or after the other. A
request's own version decides its effect: its client knew that version.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Change,
    FeatureInState,
    Int,
    Machine,
    Row,
    Sending,
    Table,
    constant,
    event,
    failure,
    if_,
    invariant,
)
from ..client.state import is_completing
from ..client.state import state as client_state
from ..client.transactions.transaction_manager import (
    OLDEST_TRANSACTION_VERSION,
    TRANSACTION_VERSION,
    end_version,
    finalized_version,
    is_version_2,
    transaction_version,
)
from ..coordinator import entry
from ..coordinator.entry import client_transaction_version, pending_version
from ..messages import (
    NO_EPOCH,
    AddPartitionsByLeader,
    AddPartitionsByLeaderResponse,
    EndTxn,
    EndTxnResponse,
    Errors,
    Produce,
    WriteTxnMarkers,
    connection,
    producer,
)
from ..properties.transactions.versions import PROPERTIES
from ..releases.features import transaction_version_2
from ..releases.proposals import fence_by_entry, version_in_log_if_known

FIRST_TRANSACTION_VERSION = constant(
    "first_transaction_version", 1, 0, 2, meaning="transaction.version at the start"
)
VERSION_CHANGES = constant(
    "version_changes", 1, 0, 3, meaning="how often transaction.version is changed"
)

cluster = Machine("cluster", doc="The version that the controller has finalized.")
cluster_version = cluster.field(
    "transaction_version", TRANSACTION_VERSION, FIRST_TRANSACTION_VERSION,
    doc="transaction.version, as the metadata log has it.",
)  # fmt: skip
metadata_cache = Machine(
    "metadata_cache", doc="The version that the coordinator's broker has heard of."
)
known_version = metadata_cache.field(
    "transaction_version", TRANSACTION_VERSION, FIRST_TRANSACTION_VERSION,
    doc="transaction.version, as this broker has read it in the metadata log.",
)  # fmt: skip

log_value = Machine("log_value", doc="The value of the record that the coordinator prepares.")
is_unwritten = log_value.field(
    "is_unwritten", Bool(), False,
    doc="It has no bytes: nothing is appended, and the entry's transition stays pending.",
)  # fmt: skip
has_no_bytes = (known_version == 0) & ~version_in_log_if_known
"""At level 0 a record has no place for a client's version that isn't 0."""

change = event(
    "transaction version changes", to=Int(OLDEST_TRANSACTION_VERSION, 2),
    event_doc="An upgrade or a downgrade by UpdateFeatures.",
)  # fmt: skip
metadata = event("metadata update", event_doc="The broker hears of the finalized features.")
api_versions = event(
    "ApiVersions answered", event_doc="By a broker that has heard of the finalized features."
)

_FEATURES = "TransactionStateManager.transactionVersionLevel"
_TABLES = (
    Table(
        cluster,
        on=change,
        when=change.to != cluster_version,
        rows=(Row("finalized", set={cluster_version: change.to}, source="KIP-584, KIP-1022"),),
    ),
    Table(
        metadata_cache,
        on=metadata,
        others=(cluster,),
        when=known_version != cluster_version,
        rows=(Row("known", set={known_version: cluster_version}, source=_FEATURES),),
    ),
    Table(
        producer,
        on=api_versions,
        others=(cluster,),
        when=finalized_version != cluster_version,
        rows=(Row("known", set={finalized_version: cluster_version}, source="ApiVersions.update"),),
    ),
)

unsupported = Sending(
    EndTxnResponse,
    EndTxnResponse(
        producer=EndTxn.producer,
        connection=EndTxn.connection,
        error=Errors.UNSUPPORTED_VERSION,
        producer_id=entry.producer_id,
        producer_epoch=NO_EPOCH,
    ).fields,
    when=has_no_bytes & (connection.at(EndTxn.producer) == EndTxn.connection),
)
pending_is_written = invariant(
    "PendingIsWritten",
    ~is_unwritten,
    "A transition of the coordinator that is pending is on its way into the log, and ends.",
    "TransactionStateManager.appendTransactionToLog",
    failure=failure(
        "the transition to {} stays pending, as its record has no bytes", entry.pending.value
    ),
)

by_entry, by_record = client_transaction_version == 2, pending_version == 2
versions = Change(
    "upgrade",
    "The cluster's transaction.version changes within a run, and each party learns of it at a time "
    "of its own.",
    tables=_TABLES,
    machines=(log_value,),
    in_state=(
        FeatureInState(
            transaction_version_2,
            holds={
                # a client's requests have the version of its transaction
                "producer": is_version_2,
                "producer.drain": if_(is_completing(client_state), end_version == 2, is_version_2),
                "producer.EndTxnResponse": True,
                "transaction.continue the fence": if_(fence_by_entry, by_entry, known_version == 2),
                "transaction.log append": by_record,
                "transaction.append failure": by_record,
                "transaction.coordinator failover": by_record,
                "transaction.coordinator failover after a failed append": by_record,
                "transaction.begin completion": by_entry,
            },
            carried={
                Produce: is_version_2,
                EndTxn: end_version == 2,
                AddPartitionsByLeader: True,
                AddPartitionsByLeaderResponse: True,
                WriteTxnMarkers: by_entry,
            },
            without="version-1",
        ),
    ),
    properties=(*PROPERTIES, pending_is_written),
    budgets={change: VERSION_CHANGES},
    constants=(OLDEST_TRANSACTION_VERSION, FIRST_TRANSACTION_VERSION, VERSION_CHANGES),
    bounds={OLDEST_TRANSACTION_VERSION: 1},
    initials={
        finalized_version: FIRST_TRANSACTION_VERSION,
        transaction_version: FIRST_TRANSACTION_VERSION,
        end_version: FIRST_TRANSACTION_VERSION,
    },
)

has_old_record = has_no_bytes & (client_transaction_version == 2)
# TransactionLog.valueToBytes throws, after the entry's transition has become pending.
upgrade = (
    versions.table("transaction.EndTxn")
    .also(
        "abort-overtakes-fence",
        "prepare",
        "empty-abort",
        set={is_unwritten: has_no_bytes},
        send=(unsupported,),
    )
    .table("transaction.AddPartitionsByLeader")
    .also("add", set={is_unwritten: has_no_bytes})
    .table("transaction.InitProducerId")
    .also(
        "rotate-producer-id",
        "increment-epoch",
        "bump",
        "retry-of-bump",
        set={is_unwritten: has_old_record},
    )
    .table("transaction.begin completion")
    .also("send-markers", set={is_unwritten: has_old_record})
    .table("transaction.log append")
    .only_when(~is_unwritten)
    .table("transaction.append failure")
    .only_when(~is_unwritten)
    .table("transaction.coordinator failover")
    .also(set={is_unwritten: False})
    .table("transaction.coordinator failover after a failed append")
    .also(set={is_unwritten: False})
)
