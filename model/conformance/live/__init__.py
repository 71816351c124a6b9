"""A real broker beside the oracle: asked over its own protocol, and checked against the allowed
answers.

Needs the extra `broker`, as `model.records` does.
"""

from __future__ import annotations

from ... import kio_loader  # noqa: F401  # pyright: ignore[reportUnusedImport]
