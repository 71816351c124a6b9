"""A cluster in memory that speaks Kafka's wire protocol. Unmodified clients run transactions on it.

Needs the extra `broker`. The oracle decides about transactions. This package has topics, bytes and
consumer groups.
"""

from __future__ import annotations

from .. import kio_loader  # noqa: F401  # pyright: ignore[reportUnusedImport]
