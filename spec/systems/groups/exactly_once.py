"""Instances of a group that consume, process and produce, each input once."""

from __future__ import annotations

import dataclasses
from functools import reduce
from operator import add

from ....language import DEFAULT, Channel, System, all_of
from ...client import producer as requests
from ...client import state as client
from ...client.batches import sender
from ...client.calls import calls_at_once
from ...client.transactions import init_producer_id
from ...coordinator import entry as transaction
from ...coordinator import markers, tables
from ...coordinator.state_manager import log as transaction_log
from ...groups import failover
from ...groups.members import membership, poll_loop
from ...groups.offsets import txn_offset_commit
from ...groups.state import (
    GENERATIONS,
    INPUTS,
    LEAST_GENERATION,
    LEAST_OFFSET,
    OWN_ID,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
)
from ...leader import produce
from ...leader.recovery import change_leader, leader_changes
from ...messages import (
    CACHED_BATCHES,
    CRASHES,
    FAULTS,
    IN_FLIGHT,
    LARGEST_EPOCH,
    LARGEST_SEQUENCE,
    LEADER_CHANGES,
    LOSSES,
    PARTITIONS,
    PRODUCER,
    PRODUCER_IDS,
    PRODUCERS,
    RECORDS,
    TIMEOUTS,
    TRANSACTIONS,
)
from ...properties.groups.exactly_once import PROPERTIES
from ...properties.transactions import progress
from ...releases.features import KAFKA, transactional
from .. import logs
from ..coverage.recorded_runs import reached
from ..coverage.unreached_rows_exactly_once import EXACTLY_ONCE as UNREACHED
from ..reductions import client as client_reductions
from ..reductions import requests as request_reductions
from ..reductions.coordinator import ENTRY
from ..reductions.groups import GROUPS
from ..reductions.leader import LEADER, MARKERS, VERIFIED
from ..transactions import CHANNELS, FIXED, FURTHER_FAULTS

of_producer = PRODUCER.variable("i")
base = System(
    name="exactly-once",
    doc="Instances of a consumer group that process an input's records one by one, each in a "
    "transaction that writes a result and commits the group's offset; the group is rebalanced "
    "meanwhile, and instances crash. They share a transactional id, that of the input's partition.",
    tables=(
        *tables.TABLES,
        *transaction_log.TABLES[:2],
        markers.markers_sent,
        markers.markers_answered,
        produce.produce,
        *txn_offset_commit.TABLES,
        leader_changes,
        *membership.TABLES,
        *poll_loop.TABLES,
        init_producer_id.initialized,
        sender.completed,
    ),
    reductions=(
        *ENTRY,
        *LEADER,
        *VERIFIED,
        *MARKERS,
        *GROUPS,
        *client_reductions.FIELDS,
        client_reductions.FATAL_ERROR,
        *client_reductions.OF_DRAIN,
        *client_reductions.OF_PRODUCE_RESPONSE,
        *request_reductions.REQUESTS,
    ),
    properties=(),
    constants=(
        PRODUCERS,
        TRANSACTIONS,
        INPUTS,
        GENERATIONS,
        OWN_ID,
        FAULTS,
        CRASHES,
        TIMEOUTS,
        LEADER_CHANGES,
    ),
    fixed={
        PARTITIONS: 2,
        RECORDS: 1,
        IN_FLIGHT: 1,
        calls_at_once.EARLY_ENDS: 0,
        PRODUCER_IDS: 1,
        LARGEST_EPOCH: 7,
        LARGEST_SEQUENCE: 7,
        CACHED_BATCHES: 1,
        LOSSES: 0,
        LEAST_GENERATION: 0,
        LEAST_OFFSET: 0,
        **{kind: 0 for kind in FURTHER_FAULTS if kind is not LEADER_CHANGES},
        **FIXED,
    },
    bounds={
        DEFAULT: {FAULTS: 0},
        "small": {INPUTS: 1},
        "real": {PRODUCERS: 4, TRANSACTIONS: 4, INPUTS: 4, GENERATIONS: 4, FAULTS: 10},
    },
    protocols=KAFKA.settling({transactional: True}),
    channels=(*CHANNELS, Channel(TxnOffsetCommit, 1), Channel(TxnOffsetCommitResponse, 1)),
    budgets={(requests.crash, transaction.timeout, change_leader): FAULTS},
    interchangeable=(PRODUCER,),
    logs=(logs.LEADER, logs.TRANSACTION),
    # an instance without a call in progress, assigned or not, and a coordinator without a debt
    terminal=all_of(
        of_producer,
        client.state.at(of_producer).is_in(client.UNINITIALIZED, client.READY, client.FATAL_ERROR)
        | client.can_only_close.at(of_producer),
    )
    & progress.owes_nothing
    & progress.is_ended_by_timeout,
    reach="two instances that take an input's partition from each other at any step, also while a "
    "transaction is open or ends, a second input, and two transactions, committed or aborted. They "
    "don't reach a crash, a timeout or a change of a leader, the group's coordinator among them "
    "(faults=1, with inputs=1), a third transaction (transactions=3), messages that are lost or "
    "late, a transaction's coordinator that moves, or a second input partition. One transactional "
    "id goes with the input's partition; an instance that has one of its own is there alone "
    "(own_id=1, producers=1).",
)
"""The producers of the instances, without their poll loop and the group."""

CHANGES = (poll_loop.poll_loop, txn_offset_commit.group_coordinator, failover.failover)
system = dataclasses.replace(
    reduce(add, CHANGES, base),
    name=base.name,
    doc=base.doc,
    properties=PROPERTIES,
    unreached=UNREACHED,
    reached=reached(),
)
