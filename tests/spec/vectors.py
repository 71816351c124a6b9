"""Vectors: what one machine does on events in given states, by release, as data in `vectors/`.

A file has one machine's; `vectors.schema.json` is its form.

* `states` names fields and their values (`alone` says how they are written), or several states by
  their names. Fields that a state doesn't name are those of `base`, or as at first.
* A group has its source in Kafka, the releases `since` and `until`, the features `with` and
  `without` which it is, and the `version` of transactions: 1 in every release, 2 from 4.0.0 on.
  Without it, both or, as the file's `versions` says, the newest of each release.
* A case has a state, by names that follow each other, and events with values and outcome, one
  after another. Where a name stands for several states, or a list for a value, the outcome is one.
  `as` is a producer id and epoch, in a request or (`expected_...`) in InitProducerId.
* An outcome is all that changes and is sent. It holds in all releases, or from each of those named
  on; where some have `, version 2` in their names, these alone hold with that. In brackets before
  it may be the row that is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import fastjsonschema

from epochfence.spec.releases.api_versions import VERSION_1
from epochfence.spec.releases.features import RELEASED as RELEASES
from epochfence.tests.cases import Outcome, in_release, since
from epochfence.tests.spec.alone import Alone
from epochfence.tests.spec.brokers import Elected, OffsetsLeader, Processor, ProducerIdManager
from epochfence.tests.spec.clients import Client, GroupClient, QueuingClient, TransactionalClient
from epochfence.tests.spec.coordinators import Coordinator
from epochfence.tests.spec.leaders import Leader
from epochfence.tests.spec.oracles import GroupOracle, OffsetsOracle, Oracle

FOLDER = Path(__file__).with_name("vectors")
WITH_VERSION_2 = since("4.0.0")
OF_2 = ", version 2"
ROW = re.compile(r"\[(?P<row>[^]]*)\] (?P<told>.*)")

MACHINES: dict[str, type[Alone | Oracle]] = {
    "coordinator": Coordinator, "leader": Leader, "transactional_client": TransactionalClient,
    "idempotent_client": Client, "producer_client": Oracle,
    "queuing_client": QueuingClient, "group_client": GroupClient,
    "producer_id_manager": ProducerIdManager, "coordinators": Elected, "offsets": OffsetsLeader,
    "processor": Processor, "group_coordinator": GroupOracle, "group_offsets": OffsetsOracle,
}  # fmt: skip
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Vectors:
    """What a file has."""

    base: Values
    states: Mapping[str, Any]
    versions: str
    groups: list[dict[str, Any]]

    def releases(self, group: Values) -> Iterator[tuple[str, int, tuple[str, ...]]]:
        """The releases of a group, each with a version of transactions and the features that are
        off (+: on) there."""
        first = RELEASES.index(group.get("since", RELEASES[0]))
        last = RELEASES.index(group.get("until", RELEASES[-1]))
        others = (*(f"+{name}" for name in group.get("with", ())), *group.get("without", ()))
        for release in RELEASES[first : last + 1]:
            versions = (1, 2) if release in WITH_VERSION_2 else (1,)
            if "version" in group:
                versions = tuple({*versions} & {group["version"]})
            elif self.versions == "newest":
                versions = versions[-1:]
            for version in versions:
                older = version == 1 and release in WITH_VERSION_2
                yield release, version, (*(VERSION_1 if older else ()), *others)

    def given(self, names: str) -> Iterator[Values]:
        """The states that names stand for, as fields."""
        for chosen in product(*(self._states(name) for name in names.split(", "))):
            fields = dict(self.base)
            for each in chosen:
                fields |= each
            yield fields

    def _states(self, name: str) -> Iterator[Values]:
        for one in name.split(" | "):
            state = self.states[one]
            if isinstance(state, list):
                for each in state:
                    yield from self._states(each)
            else:
                yield state


@cache
def read(name: str) -> Vectors:
    """A file's vectors, once their form has been looked at."""
    schema = json.loads((FOLDER / "vectors.schema.json").read_text(encoding="utf-8"))
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    fastjsonschema.compile(schema)(data)
    return Vectors(data["base"], data["states"], data["versions"], data["groups"])


def events(values: Values) -> Iterator[Values]:
    """The values of an event, one for each choice from those that are lists."""
    choices = [each if isinstance(each, list) else [each] for each in values.values()]
    for chosen in product(*choices):
        given = dict(zip(values, chosen, strict=True))
        for name, prefix in (("as", "producer"), ("expected", "expected")):
            producer_id, _, epoch = given.pop(name, "").partition("/")
            if epoch:
                given |= {f"{prefix}_id": int(producer_id), f"{prefix}_epoch": int(epoch)}
        yield given


Found = list[tuple[str, str]]  # of each step the row, and the answer
EveryFound = dict[tuple[str, int], Found]  # by release and version of transactions


def found(machine: str, group: Values, case: list[Any]) -> EveryFound:
    """What a machine does in a case, by release and version of transactions; releases that are
    alike to it are run once. Raises ValueError where states or values that should come to the same
    don't: they have to be cases of their own."""
    vectors, alone = read(machine), MACHINES[machine]
    given, *steps = case
    choices = [list(events(step[1] if len(step) > 2 else {})) for step in steps]
    alike: dict[frozenset[str], Found] = {}
    by_release: dict[tuple[str, int], Found] = {}
    for release, version, off in vectors.releases(group):
        features = alone.features(release, off)
        for fields, *every in () if features in alike else product(vectors.given(given), *choices):
            one = alone(release, *off)
            one.set_written(fields)
            zipped = zip(steps, every, strict=True)
            told = [one.happens(step[0], values) for step, values in zipped]
            first = alike.setdefault(features, told)
            if [text for _, text in first] != [text for _, text in told]:
                raise ValueError(f"{machine}, {release}, {case}: {fields}, {every}: {told}")
        by_release[release, version] = alike[features]
    return by_release


def outcome(told: Outcome, release: str, version: int) -> tuple[str | None, str]:
    """The row and the answer in a release; none where the row isn't said."""
    if not isinstance(told, str):
        of_2 = {name.removesuffix(OF_2): text for name, text in told.items() if OF_2 in name}
        others = {name: text for name, text in told.items() if OF_2 not in name}
        told = of_2 if of_2 and version == 2 else others
    text = in_release(told, release)
    named = ROW.fullmatch(text)
    return (named["row"], named["told"]) if named else (None, text)
