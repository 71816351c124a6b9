"""`advise`: the known bugs and findings of a client and brokers, with the remedies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from ...language.declaration.arguments import one_of
from ...language.declaration.errors import DeclarationError
from ...spec.releases.features import KAFKA, transaction_version_2
from ..exits import fail, write_json
from ..options import Json
from ..oracle.conform import properties_of, security_of
from ..screen import indented, screen

if TYPE_CHECKING:
    from ...spec.bugs.advice import Client, Item, Setting

FEATURE: Final = "transaction.version"
LEVELS: Final = ("0", "1", "2")
SINCE: Final[str] = transaction_version_2.data.since
"""The first release whose brokers have the feature."""
IN_FLIGHT: Final = "max.in.flight.requests.per.connection"


@dataclass(frozen=True, kw_only=True)
class AdviseOptions:
    """The combination, and the planned change."""

    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="NAME-VERSION",
            help="The client library, as java-3.4 or librdkafka-2.3 (default: Java's newest).",
        ),
    ] = None
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="R", help="The brokers' release (default: the newest)."),
    ] = None
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", metavar="HOST:PORT", help="Ask this broker for release and features."
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The producer's properties."),
    ] = None
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features", metavar="NAME=LEVEL", help="A finalized feature: transaction.version=1."
        ),
    ] = None
    uses: Annotated[
        str | None,
        typer.Option(
            "--uses",
            metavar="LIST",
            help="transactions, idempotence, offsets, reading, streams, flink, connect "
            "(default: all).",
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="R", help="The release that the brokers will have."),
    ] = None
    to_client: Annotated[
        str | None,
        typer.Option("--to-client", metavar="NAME-VERSION", help="The client after the change."),
    ] = None
    to_features: Annotated[
        list[str] | None,
        typer.Option(
            "--to-features", metavar="NAME=LEVEL", help="A finalized feature after the change."
        ),
    ] = None

    @property
    def changes(self) -> bool:
        """Whether an option plans a change."""
        return any(each is not None for each in (self.to, self.to_client, self.to_features))


def advise(options: AdviseOptions, output: Json = None) -> None:
    """List the known bugs and findings of a client library and brokers, the worst first, with the
    remedies; with --to, the difference that an upgrade or downgrade makes."""
    from ...spec.bugs import advice

    try:
        broker, setting = options.broker, _setting(options)
        if options.bootstrap is not None:
            if broker is not None:
                fail("--bootstrap and --broker: choose one")
            broker, setting = _of_live_cluster(options.bootstrap, options.config, setting)
        client = advice.client_of(options.client or f"{advice.JAVA}-{KAFKA.newest}")
        broker = broker or KAFKA.newest
        release = KAFKA.one_release(broker)
        found = advice.advice(client, broker, setting)
        result: dict[str, Any] = {"client": str(client), "broker": broker, "found": _json(found)}
        console = screen()
        if not options.changes:
            _print(f"{client} with brokers {broker}", found, console)
        else:
            later = client if options.to_client is None else advice.client_of(options.to_client)
            then_broker = broker if options.to is None else options.to
            target = KAFKA.one_release(then_broker)
            later_setting = _with_features(setting, options.to_features, "--to-features")
            then = advice.advice(later, then_broker, later_setting)
            result["then"] = {"client": str(later), "broker": then_broker, "found": _json(then)}
            _print_change(found, then, console, f"{later} with brokers {then_broker}")
            can_go_down = _index(release) >= _index(SINCE) and setting.version_2
            if can_go_down and not (_index(target) >= _index(SINCE) and later_setting.version_2):
                console.print(_WITH_DOWNGRADE)
                result["downgrade"] = {"safe": False, "findings": [9, 11]}
        result["notes"] = [*_notes(options, release), *_of_earlier(client, broker, setting, found)]
        for note in result["notes"]:
            console.print(f"\nnote: {note}")
    except DeclarationError as error:
        fail(error)
    write_json(output, result)


_WITH_DOWNGRADE: Final = (
    "\nHere transaction.version goes down. Kafka's documentation calls that safe. Findings 9 and 11"
    "\nsay otherwise: transactions that run meanwhile may hang. End all of them before; afterwards"
    "\nepochfence doctor shows whether one hangs."
)


def _notes(options: AdviseOptions, release: str) -> list[str]:
    """Notes about the given options."""
    if _index(release) >= _index(SINCE):
        return []
    return [
        f"--features {feature}: brokers {release} have no such feature. It came with {SINCE}."
        for feature in options.features or ()
        if not feature.endswith("=0")
    ]


def _of_earlier(
    client: Client, broker: str, setting: Setting, found: Iterable[Item]
) -> Iterator[str]:
    """A note about the items that only earlier patch releases of the release line have."""
    from ...spec.bugs.advice import advice

    if not re.fullmatch(r"\d+\.\d+", broker):
        return
    known = {item.id for item in found}
    more = [item for item in advice(client, f"{broker}.0", setting) if item.id not in known]
    if more:
        names = ", ".join(item.id for item in more)
        yield f"{broker} is the last patch release; from {broker}.0 on, some have {names}, too."


def _index(release: str) -> int:
    return KAFKA.releases.index(release)


def _with_features(setting: Setting, features: list[str] | None, option: str) -> Setting:
    """The setting with these levels of features."""
    for feature in features or ():
        name, _, level = feature.partition("=")
        if name != FEATURE or level not in LEVELS:
            fail(f"{option} {feature}: write {FEATURE}=LEVEL, with a level of 0, 1 or 2")
        setting = replace(setting, version_2=int(level) >= 2)
    return setting


def _setting(options: AdviseOptions) -> Setting:
    from ...spec.bugs.advice import APPLICATIONS, IDEMPOTENCE, TRANSACTIONS, USES, Setting

    setting = _with_features(Setting(), options.features, "--features")
    given = {} if options.config is None else properties_of(options.config)
    if given.get("enable.idempotence") == "false" and "transactional.id" not in given:
        fail(f"{options.config}: enable.idempotence=false: this producer has no exactly-once")
    if given.get(IN_FLIGHT) == "1":
        setting = replace(setting, pipelined=False)
    if options.uses is not None:
        uses: list[str] = []
        for name in filter(None, options.uses.split(",")):
            if name not in (*USES, *APPLICATIONS):
                fail(f"--uses {name}: {one_of(name, (*USES, *APPLICATIONS))}")
            uses += APPLICATIONS.get(name, (name,))
        return replace(setting, uses=tuple(dict.fromkeys(uses)))
    if options.config is not None:
        kind = TRANSACTIONS if "transactional.id" in given else IDEMPOTENCE
        other = {TRANSACTIONS, IDEMPOTENCE} - {kind}
        setting = replace(setting, uses=tuple(use for use in USES if use not in other))
    return setting


def _of_live_cluster(bootstrap: str, config: Path | None, setting: Setting) -> tuple[str, Setting]:
    """The release of a broker, and the setting with the cluster's values."""
    from ...model.doctor.live import Cluster
    from ...model.wire.connection import BrokerError

    try:
        with Cluster(bootstrap, security_of(config)) as cluster:
            if cluster.release is None:
                fail(f"{bootstrap} is of no known release: give --broker R")
            version_2 = setting.version_2 and cluster.transaction_version >= 2
            verification = cluster.look(()).verifies
            setting = replace(setting, version_2=version_2, verification=verification)
            return cluster.release, setting
    except BrokerError as error:
        fail(error)


def _json(found: Iterable[Item]) -> list[dict[str, Any]]:
    return [asdict(item) | {"damage": item.damage.name.lower()} for item in found]


def _print(title: str, found: tuple[Item, ...], console: Console) -> None:
    console.print(f"[bold]{escape(title)}[/]: {len(found)} known bugs and findings")
    _print_items(found, console)
    console.print(
        "\nOther bugs may exist. docs/matrix.md has the properties that were checked at each "
        "release and between releases, docs/proofs.md those that are proved."
    )


def _print_change(
    found: tuple[Item, ...], then: tuple[Item, ...], console: Console, title: str
) -> None:
    before, after = ({item.id for item in items} for items in (found, then))
    console.print(f"[bold]After the change: {escape(title)}[/]")
    for heading, items in (
        ("Gone", [item for item in found if item.id not in after]),
        ("New", [item for item in then if item.id not in before]),
        ("Still there", [item for item in then if item.id in before]),
    ):
        console.print(f"\n[bold]{heading}: {len(items)}[/]")
        _print_items(items, console)


def _print_items(items: Iterable[Item], console: Console) -> None:
    damage = None
    for item in items:
        if item.damage is not damage:
            damage = item.damage
            console.print(f"\n[bold]{escape(damage.value.capitalize())}[/]")
        maybe = "" if item.is_certain else ", depending on the version"
        console.print(
            indented(
                f"{item.id}: {item.title} ({item.affected}{maybe})", 2, console.width, hanging=2
            )
        )
        console.print(indented(f"needs: {item.needs}", 4, console.width, hanging=2))
        console.print(indented(f"remedy: {item.remedy}", 4, console.width, hanging=2))
