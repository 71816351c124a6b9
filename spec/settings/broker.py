"""Settings of a broker that transactions, groups and replicas depend on: types, defaults, ranges.

Source: KafkaConfig, LogConfig, ReplicationConfigs, TransactionStateManagerConfig,
TransactionLogConfig, GroupCoordinatorConfig of the releases.
"""

from __future__ import annotations

from typing import Final

from ...language import Protocols, feature
from ..releases.release import TRUNK, UNCHANGED
from .producer import RELEASES, Setting, two_phase_commit

longer_retention = feature(
    "longer_retention",
    "2.0.0",
    sentence="A group's offsets are kept for 7 days. Before, for one.",
    source="KIP-186",
)
longer_group_sessions = feature(
    "longer_group_sessions",
    "2.3",
    sentence="A group's session may last 30 min. Before, 5.",
    source="KIP-389, KAFKA-7862",
)
scans_often = feature(
    "scans_often",
    "2.5",
    sentence="The coordinator looks for transactions that have timed out every 10 s. Before, "
    "every minute.",
    source="TransactionStateManager.DefaultAbortTimedOutTransactionsIntervalMs",
)
longer_lag = feature(
    "longer_lag",
    "2.5",
    sentence="A replica may lag for 30 s before it leaves the in-sync set. Before, 10.",
    source="KIP-537",
)
id_expiry_apart = feature(
    "id_expiry_apart",
    "3.4",
    sentence="Producer ids have an expiry of their own, not that of transactional ids.",
    source="KIP-854",
)
verification_switch = feature(
    "verification_switch",
    "3.6",
    sentence="Leaders verify a transaction's partitions, unless a setting switches that off.",
    source="KIP-890 part 1",
)
retries_for_leaders = feature(
    "retries_for_leaders",
    "4.0.0",
    sentence="A leader that adds a partition to a transaction for its client asks again while the "
    "previous transaction is being completed.",
    source="KIP-890 part 2, AddPartitionsToTxnConfig",
)
BROKERS = Protocols(
    RELEASES,
    (
        longer_retention,
        longer_group_sessions,
        scans_often,
        longer_lag,
        id_expiry_apart,
        verification_switch,
        retries_for_leaders,
        two_phase_commit,
    ),
    unreleased=(TRUNK,),
    unchanged=UNCHANGED,
)

_MINUTES, _DAYS = 60_000, 24 * 3_600_000
BROKER_SETTINGS: Final = (
    # Replicas
    Setting("min.insync.replicas", "INT", 1, 1),
    Setting("default.replication.factor", "INT", 1),
    Setting("unclean.leader.election.enable", "BOOLEAN", False),
    Setting("replica.lag.time.max.ms", "LONG", 10_000, during=~longer_lag),
    Setting("replica.lag.time.max.ms", "LONG", 30_000, during=longer_lag),
    Setting("log.cleaner.delete.retention.ms", "LONG", _DAYS),
    # Groups
    Setting("group.min.session.timeout.ms", "INT", 6_000),
    Setting("group.max.session.timeout.ms", "INT", 5 * _MINUTES, during=~longer_group_sessions),
    Setting("group.max.session.timeout.ms", "INT", 30 * _MINUTES, during=longer_group_sessions),
    Setting("offsets.topic.replication.factor", "SHORT", 3, 1),
    Setting("offsets.retention.minutes", "INT", 24 * 60, 1, during=~longer_retention),
    Setting("offsets.retention.minutes", "INT", 7 * 24 * 60, 1, during=longer_retention),
    # Transactions
    Setting("transactional.id.expiration.ms", "INT", 7 * _DAYS, 1),
    Setting("transaction.max.timeout.ms", "INT", 15 * _MINUTES, 1),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "INT",
        _MINUTES,
        1,
        during=~scans_often,
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "INT",
        10_000,
        1,
        during=scans_often,
    ),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", "INT", 60 * _MINUTES, 1),
    Setting("transaction.state.log.num.partitions", "INT", 50, 1),
    Setting("transaction.state.log.replication.factor", "SHORT", 3, 1),
    Setting("transaction.state.log.min.isr", "INT", 2, 1),
    Setting("transaction.state.log.segment.bytes", "INT", 100 * 2**20, 1),
    Setting("transaction.state.log.load.buffer.size", "INT", 5 * 2**20, 1),
    Setting("producer.id.expiration.ms", "INT", _DAYS, 1, during=id_expiry_apart),
    Setting(
        "producer.id.expiration.check.interval.ms", "INT", 10 * _MINUTES, 1, during=id_expiry_apart
    ),
    Setting(
        "transaction.partition.verification.enable", "BOOLEAN", True, during=verification_switch
    ),
    Setting("add.partitions.to.txn.retry.backoff.ms", "INT", 20, 1, during=retries_for_leaders),
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms", "INT", 100, 0, during=retries_for_leaders
    ),
    Setting("transaction.two.phase.commit.enable", "BOOLEAN", False, during=two_phase_commit),
)
