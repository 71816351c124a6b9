"""How long a producer's calls hold up the application, and the memory of its records.

As with the partitioner these are functions, and expressions over releases: they decide nothing for
the protocol beyond what `failures` makes of a record that gets into no batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ....language import Expression, if_, lift
from ...errors import Errors
from ...releases.client_features import (
    end_waits_so_long,
    exhausted_by_name,
    init_waits_so_long,
    offsets_wait_so_long,
)

BATCH_OVERHEAD: Final = 61
"""Bytes of a batch without its records: DefaultRecordBatch.RECORD_BATCH_OVERHEAD."""

WAITS_SO_LONG: Final[Mapping[str, Expression]] = {
    "initTransactions": init_waits_so_long,
    "commitTransaction": end_waits_so_long,
    "abortTransaction": end_waits_so_long,
    "sendOffsetsToTransaction": offsets_wait_so_long,
    "flush": lift(False),
}
"""By call, whether it waits for max.block.ms at most: KafkaProducer, at TransactionalRequestResult
.await and RecordAccumulator.awaitFlushCompletion."""

NO_METADATA: Final = Errors.TIMEOUT
"""The error of a record whose topic isn't known in time: KafkaProducer.waitOnMetadata."""
NO_MEMORY: Final = if_(exhausted_by_name, Errors.BUFFER_EXHAUSTED, Errors.TIMEOUT)
"""The error of a record that got no memory in time: BufferPool.allocate."""
TOO_LARGE: Final = Errors.MESSAGE_TOO_LARGE
"""The error of a record that no request or no buffer can hold: RecordTooLargeException."""
NEVER_ENOUGH: Final = Errors.ILLEGAL_ARGUMENT
"""The error of a send if even an empty buffer is smaller than a batch's room:
BufferPool.allocate."""


def too_large(
    size: int, max_request_size: int, buffer_memory: int, *, names_limit: bool
) -> str | None:
    """The error's text if a record of so many bytes, alone in a batch, is refused; otherwise None.
    `names_limit` (request_limit_named) selects the release's wording.

    KafkaProducer.ensureValidRecordSize
    """
    size_error = f"The message is {size} bytes when serialized which is larger than "
    configured = "you have configured with the {} configuration."
    if size > max_request_size:
        if names_limit:
            return (
                f"{size_error}{max_request_size}, which is the value of the max.request.size "
                "configuration."
            )
        return f"{size_error}the maximum request size {configured.format('max.request.size')}"
    if size > buffer_memory:
        return f"{size_error}the total memory buffer {configured.format('buffer.memory')}"
    return None


def room(size: int, batch_size: int) -> int:
    """The bytes of memory that a new batch takes for its first record, of so many bytes with the
    batch around it.

    RecordAccumulator.append
    """
    return max(size, batch_size)
