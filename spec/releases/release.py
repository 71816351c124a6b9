"""Kafka's releases, and the parts of a system that may be of one of their own."""

from __future__ import annotations

# Two numbers name the last release of their line: 2.0 is 2.0.1, and 3.9 is 3.9.2. 0.11.0.0 is
# 0.11.0.1, too, and 0.11.0.2 the last one. 4.2 is 4.2.1, and 4.3 is 4.3.0: the patches that come
# after them differ. trunk is that of 22 August 2026, 4.5 as it may come.
RELEASES = (
    "0.11.0.0", "0.11.0.2", "1.0", "1.1", "2.0.0", "2.0", "2.1", "2.3", "2.4", "2.5", "2.6", "2.7",
    "2.8", "3.0", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0.0", "4.0.1", "4.1", "4.2",
    "4.2.2", "4.3", "4.3.1", "4.4", "trunk",
)  # fmt: skip
BEFORE, NEWEST, TRUNK = "2.5", "4.4", "trunk"
UNCHANGED = ("0.11.0", "2.2", "3.1", "3.2", "4.0")
"""Lines of releases that RELEASES doesn't name: each behaves as the release before it."""
RELEASED = tuple(release for release in RELEASES if release != TRUNK)

# What may be of a release of its own. A feature of several is there where all of them have it, as
# the versions of their requests say.
CLIENT, COORDINATOR, LEADER = PARTS = ("client", "coordinator", "leader")


def is_between(release: str, since: str, before: str | None = None) -> bool:
    """Whether a declared release is `since` or a later one, and before `before` (None: no end)."""
    at = RELEASES.index(release)
    return RELEASES.index(since) <= at and (before is None or at < RELEASES.index(before))
