"""A known bug as data: where it shows, and its fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...language import Instance, System, instantiate
from ...language.instances.instance import ending_anywhere
from ..changes import VARIED
from ..releases.features import RELEASED
from ..systems import shipped

Version = tuple[int, ...]


def version_of(text: str) -> Version:
    """The numbers of a version."""
    return tuple(int(each) for each in re.findall(r"\d+", text))


@dataclass(frozen=True)
class Bug:
    """A bug that was published, with the smallest run known to show it.

    At release `shown_at`, without `fix`, a run of `system` with these `constants` breaks
    `property`, and takes the rows `takes`, as event and row, in this order on its way. At release
    `fixed_at`, with `fix`, the property holds; there without `fix` it breaks again. `fix` are
    features, of Kafka or of a variant. `on` and `off` are features switched in every run: the
    cluster's settings, or another bug's fix.

    `affected` are the releases as published, `also` other names that it goes by. Releases that are
    declared have it from `since` on (none: from the first). `fixed_in` are the versions that fixed
    it, of Kafka or of another product, one for each line of its releases.
    """

    id: str
    title: str
    affected: str
    property: str
    shown_at: str
    fixed_at: str
    fix: tuple[str, ...]
    constants: Mapping[str, int]
    takes: tuple[str, ...]
    source: str
    system: str = "transactions"
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    since: str | None = None
    fixed_in: tuple[str, ...] = ()
    note: str = ""

    @cached_property
    def declared(self) -> System:
        """The system that shows it."""
        make = VARIED.get(self.system)
        return shipped(self.system) if make is None else make()

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """The declared releases that have it: none of Kafka's, where it is another product's, as
        all have what Kafka does in its place."""
        protocols, fix = self.declared.protocols, set(self.fix)
        later = RELEASED[RELEASED.index(self.since) :] if self.since else RELEASED
        return tuple(name for name in later if not fix <= protocols.features_at(name))

    def is_fixed_in(self, version: Version) -> bool:
        """Whether a version has the fix: one of `fixed_in`, a later one of its line, or one behind
        all lines that got it."""
        fixes = [version_of(each) for each in self.fixed_in]
        return version >= max(fixes) or any(
            version[:2] == each[:2] and version >= each for each in fixes
        )

    def fixes_behind(self, version: Version) -> list[str]:
        """The versions with the fix that come after this one."""
        return [each for each in self.fixed_in if version_of(each) > version]

    def broken(self) -> Instance:
        """The run that shows it."""
        return self._instance(self.shown_at, mended=False)

    def fixed(self) -> Instance:
        """The same run with the fix, in which the property holds."""
        return self._instance(self.fixed_at, mended=True)

    def control(self) -> Instance:
        """The run of the mended release without the fix, in which the property breaks."""
        return self._instance(self.fixed_at, mended=False)

    def is_in(self, steps: Iterable[str]) -> bool:
        """Whether a run of these steps, each as event and row, is this bug's."""
        rest = iter(steps)
        return all(step in rest for step in self.takes)

    def _instance(self, release: str, *, mended: bool) -> Instance:
        on, off = (self.fix, ()) if mended else ((), self.fix)
        return ending_anywhere(
            instantiate(
                self.declared, release, self.constants, switch_on=(*self.on, *on),
                switch_off=(*self.off, *off), properties=[self.property],
            )
        )  # fmt: skip


_KINDS = (
    "losses", "crashes", "timeouts", "expiries", "failovers", "append_failures", "id_expiries",
    "delays", "leader_changes", "deletions", "producer_expiries",
)  # fmt: skip


def transactions(
    producers: int = 1, partitions: int = 1, transactions: int = 1, faults: int = 0, **more: int
) -> dict[str, int]:
    """Constants of the system `transactions`, with those kinds of faults alone that are named."""
    named = {"producers": producers, "partitions": partitions, "transactions": transactions}
    return {**named, "faults": faults, **dict.fromkeys(_KINDS, 0), **more}


_IDEMPOTENT_KINDS = (
    "losses", "delays", "expiries", "refusals", "shortages", "leader_changes", "deletions",
    "producer_expiries",
)  # fmt: skip


def idempotence(faults: int = 2, **more: int) -> dict[str, int]:
    """Constants of the system `idempotence`, with those kinds of faults alone that are named."""
    named = {"partitions": 1, "records": 2, "faults": faults}
    return {**named, **dict.fromkeys(_IDEMPOTENT_KINDS, 0), **more}


def exactly_once(
    producers: int = 1, transactions: int = 2, inputs: int = 1, generations: int = 2,
    faults: int = 0,
) -> dict[str, int]:  # fmt: skip
    """Constants of the system `exactly-once`."""
    return {
        "producers": producers, "transactions": transactions, "inputs": inputs,
        "generations": generations, "faults": faults,
    }  # fmt: skip
