"""The versions of Kafka whose classes are compared."""

from __future__ import annotations

from typing import Final

VERSIONS: Final = {
    "2.4": "2.4.1", "2.5": "2.5.1", "2.6": "2.6.3", "2.7": "2.7.2", "2.8": "2.8.2", "3.0": "3.0.2",
    "3.3": "3.3.2", "3.4": "3.4.1", "3.5": "3.5.2", "3.6": "3.6.2", "3.7": "3.7.2", "3.8": "3.8.1",
    "3.9": "3.9.2", "4.0.0": "4.0.0", "4.0.1": "4.0.1", "4.1": "4.1.1", "4.2": "4.2.1",
    "4.2.2": "4.2.2", "4.3": "4.3.0", "4.3.1": "4.3.1", "4.4": "4.4.0",
}  # fmt: skip
"""For each release: the version of Kafka whose classes are compared."""
