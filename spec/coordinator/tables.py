"""The tables of the entry of one transactional id: of its requests, and of a driven one."""

from __future__ import annotations

from .markers import markers_answered
from .requests.add_partitions import add_partitions, add_partitions_by_leader
from .requests.end_txn import end_txn, fence_continues
from .requests.init_producer_id import init_producer_id
from .state_manager import expiration, failover, log
from .state_manager.timeout import transaction_timeout

TABLES = (
    init_producer_id,
    add_partitions,
    add_partitions_by_leader,
    end_txn,
    transaction_timeout,
    fence_continues,
)
LOG_TABLES = (*log.TABLES, *failover.TABLES, *expiration.TABLES)
LOG_FAULTS = (*log.FAULTY_EVENTS, *failover.FAULTY_EVENTS, *expiration.FAULTY_EVENTS)
DRIVEN = (*TABLES, *LOG_TABLES, markers_answered)
