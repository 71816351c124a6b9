"""A cluster in memory behind Kafka's wire protocol: unmodified clients run transactions on it.

Needs the extra `broker`. The oracle decides about transactions; topics, bytes and consumer groups
are kept here.
"""

from __future__ import annotations

from .. import kio_loader  # noqa: F401  # pyright: ignore[reportUnusedImport]
