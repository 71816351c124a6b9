"""The coordinator forgets a transactional id that hasn't been in use for long."""

from __future__ import annotations

from ....language import Row, Table, constant, event
from ...messages import ID_EXPIRIES, clock, is_past, producer_id_manager, transaction
from ...releases.features import unused_id_expires
from ..entry import DEAD, is_known, is_settled, pending, txn_last_update_timestamp

expiry = event("transactional id expiry", event_doc="The id hasn't been in use for long.")

ID_EXPIRATION = constant(
    "transactional_id_expiration_ms",
    0,
    0,
    0,
    real=604_800_000,
    meaning="transactional.id.expiration.ms",
)

should_expire = is_past(txn_last_update_timestamp + ID_EXPIRATION - 1)
"""TransactionStateManager.shouldExpire"""

expires = Table(
    transaction,
    on=expiry,
    others=(clock, producer_id_manager),
    when=(ID_EXPIRIES > 0) & is_settled & ~pending.is_set & should_expire,
    rows=(
        Row(
            "no-epoch",
            "An id without an epoch can't expire, and ends the pass over the expired ids",
            when=~is_known,
            during=~unused_id_expires,
            source="TransactionMetadata.prepareTransitionTo in 3.4.0, IllegalArgumentException",
        ),
        Row(
            "tombstone",
            "A tombstone is appended to the log",
            set={pending: DEAD},
            source="TransactionStateManager.removeExpiredTransactionalIds",
        ),
    ),
)

FAULTY_EVENTS = (expiry,)
TABLES = (expires,)
