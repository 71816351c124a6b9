"""Rules that a product has come to: each holds unless it is switched off."""

from __future__ import annotations

from ...language import Expression, feature
from ..releases.features import RELEASES


def rule(name: str, sentence: str, source: str) -> Expression:
    """A rule of a product, as a feature of every release."""
    return feature(name, RELEASES[0], sentence=sentence, source=source)
