"""The limit that ended a search early, and the data that it has on disk."""

from __future__ import annotations

from collections.abc import Iterator

from .native.search.explore import DEPTH, DISK, INTERRUPTED, MEMORY, Carrier, Explorer


def why_stopped(carrier: Carrier) -> str:
    """Which limit ended a search early, and where."""
    found = carrier.found
    if found.stopped == DEPTH:
        return f"runs of more than {found.depth - 2} steps weren't looked at (--depth)"
    interrupted = found.stopped == INTERRUPTED
    what = "it was interrupted" if interrupted else f"the {found.stopped} limit was reached"
    more = ""
    if isinstance(carrier, Explorer):
        if found.stopped == DISK and carrier.disk is not None:
            what = f"no disk space left in {carrier.disk.folder} ({carrier.disk.why})"
        if found.stopped == MEMORY and not carrier.room:
            base = carrier.base / 2**20
            more = f": it is below the {base:,.0f} MiB that the process takes without any state"
    return f"{what} after level {max(0, found.depth - 1)}{more}"


def spilled(carrier: Carrier) -> Iterator[str]:
    """The data that a search has on disk because memory is short."""
    if isinstance(carrier, Explorer) and carrier.disk is not None and carrier.spilled is not None:
        size = carrier.disk.taken / 2**20
        yield (
            f"memory was short at level {carrier.spilled}: from there on states were kept in "
            f"{carrier.disk.folder}, {size:,.0f} MiB"
        )
