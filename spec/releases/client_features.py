"""Differences between Kafka's releases where a producer holds up its application, and in what it
measures."""

from __future__ import annotations

from functools import partial
from typing import Final

from ...language import Expression, feature
from .release import CLIENT

of_clients = partial(feature, parts=(CLIENT,))

init_waits_so_long = of_clients(
    "init_waits_so_long",
    "2.0.0",
    sentence="initTransactions waits for max.block.ms at most. Before, for ever.",
    source="KAFKA-6446",
)
end_waits_so_long = of_clients(
    "end_waits_so_long",
    "2.3",
    sentence="commitTransaction and abortTransaction wait for max.block.ms at most. Before, for "
    "ever.",
    source="KAFKA-7763",
)
offsets_wait_so_long = of_clients(
    "offsets_wait_so_long",
    "2.7",
    sentence="sendOffsetsToTransaction waits for max.block.ms at most. Before, for ever.",
    source="KAFKA-10309",
)
request_limit_named = of_clients(
    "request_limit_named",
    "2.5",
    sentence="The error for a record that is too large for a request names the limit.",
    source="KafkaProducer.ensureValidRecordSize",
)
close_wakes = of_clients(
    "close_wakes",
    "2.5",
    sentence="A client that closes fails the sends that wait for memory. Before, they went on "
    "waiting.",
    source="KAFKA-9449",
)
exhausted_by_name = of_clients(
    "exhausted_by_name",
    "2.6",
    sentence="A send that gets no memory fails with BufferExhaustedException. Before, with a "
    "TimeoutException.",
    source="KAFKA-3720",
)
memory_kept_in_flight = of_clients(
    "memory_kept_in_flight",
    "4.2",
    sentence="The memory of a batch that failed while a request has it is free once the request "
    "is answered. Before, it was free at once, and the next batch could overwrite it.",
    source="KAFKA-19012",
)
totals_measured = of_clients(
    "totals_measured",
    "1.0",
    sentence="A client also counts in total what it measured only as a rate before.",
    source="KIP-187",
)
none_is_no_number = of_clients(
    "none_is_no_number",
    "2.3",
    sentence="The average and the maximum of nothing are not a number. Before, they were 0 and "
    "minus infinity (until 2.1).",
    source="KAFKA-7528, Avg, Max",
)
blocked_time_measured = of_clients(
    "blocked_time_measured",
    "3.3",
    sentence="A client measures how long its calls block the application (from 3.1 on).",
    source="KIP-761",
)
metadata_wait_measured = of_clients(
    "metadata_wait_measured",
    "3.3",
    sentence="A client also measures the time that it waits for metadata.",
    source="KAFKA-13692",
)
overlapping_samples = of_clients(
    "overlapping_samples",
    "3.8",
    sentence="A sample of a metric is kept while its last value is young enough. Before, while it "
    "began late enough.",
    source="SampledStat.purgeObsoleteSamples",
)
prepare_measured = of_clients(
    "prepare_measured",
    "4.1",
    sentence="A client has a metric for prepareTransaction. The method itself was removed before "
    "each release (KAFKA-19414).",
    source="KIP-939, KafkaProducerMetrics",
)
no_deprecated_totals = of_clients(
    "no_deprecated_totals",
    "4.0.0",
    sentence="Metrics without a unit in their names are gone.",
    source="KIP-761, BufferPool, Selector",
)

OF_CLIENTS: Final[tuple[Expression, ...]] = (
    init_waits_so_long, end_waits_so_long, offsets_wait_so_long, request_limit_named, close_wakes,
    exhausted_by_name, memory_kept_in_flight, totals_measured, none_is_no_number,
    blocked_time_measured, metadata_wait_measured, overlapping_samples, prepare_measured,
    no_deprecated_totals,
)  # fmt: skip
