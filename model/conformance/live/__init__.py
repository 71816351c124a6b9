"""Compares real brokers with the oracle: sends them requests, and checks their answers against the
allowed ones.

Needs the extra `broker`, as `model.records` does.
"""

from __future__ import annotations

from ... import kio_loader  # noqa: F401  # pyright: ignore[reportUnusedImport]
