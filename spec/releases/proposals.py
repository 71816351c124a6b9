"""Proposed fixes of findings: features that no release has."""

from __future__ import annotations

from ...language import feature
from .release import CLIENT, COORDINATOR, LEADER

fence_by_entry = feature(
    "fence_by_entry",
    None,
    parts=(COORDINATOR,),
    sentence="A fence ends a transaction in the version in which it began, not in that of the "
    "coordinator's broker.",
    source="TransactionCoordinator.endTransaction, a way to fix it (docs/findings.md, 10)",
)
retry_by_entry = feature(
    "retry_by_entry",
    None,
    parts=(COORDINATOR,),
    sentence="An EndTxn of version 2 is a retry only of an end that was of version 2, too.",
    source="TransactionCoordinator.endTransaction, a way to fix it (docs/findings.md, 12)",
)
version_in_log_if_known = feature(
    "version_in_log_if_known",
    None,
    parts=(COORDINATOR,),
    sentence="A record of the transaction log has its client's version only if the level has a "
    "place for it, as with the producer ids before and after.",
    source="TransactionLog.valueToBytes, a way to fix it (docs/findings.md, 18)",
)
newest_question_counts = feature(
    "newest_question_counts",
    None,
    parts=(LEADER,),
    sentence="A leader's question about a newer epoch counts in the version of that batch, not in "
    "that of the first one.",
    source="VerificationStateEntry.supportsEpochBump, a way to fix it (docs/findings.md, 11)",
)
downgrade_waits = feature(
    "downgrade_waits",
    None,
    parts=(CLIENT,),
    sentence="A client returns to an older version once its transaction is complete, not at a "
    "commit that may still fail.",
    source="TransactionManager.beginCompletingTransaction, a way to fix it (docs/findings.md, 9)",
)

failed_send_leaves_end = feature(
    "failed_send_leaves_end",
    None,
    parts=(CLIENT,),
    sentence="A record that fails before it is in a batch doesn't affect a client that ends a "
    "transaction or gets its epoch: the record is in no transaction then.",
    source="TransactionManager.maybeTransitionToErrorState, a way to fix it (docs/findings.md, 14)",
)

PROPOSED = (
    fence_by_entry,
    retry_by_entry,
    version_in_log_if_known,
    newest_question_counts,
    downgrade_waits,
    failed_send_leaves_end,
)
