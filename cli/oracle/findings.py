"""`findings`: the findings in Kafka, and their reproduction on brokers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from ...spec.bugs.findings import FINDINGS, Finding
from ...spec.releases.release import RELEASED
from ..exits import BROKEN, INCONCLUSIVE, fail, needing, write_json
from ..options import ClientProperties, Json
from ..screen import indented, screen
from .conform import restarts, security_of

if TYPE_CHECKING:
    from rich.console import Console

    from ...model.conformance.findings.brokers import Observation

CLIENT: Final = "4.4.0"
"""The default version of the client, for brokers that the command doesn't start."""


@dataclass(frozen=True, kw_only=True)
class FindingsOptions:
    """The cluster, and the means of a reproduction."""

    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="Reproduce N on these brokers."),
    ] = None
    broker: Annotated[
        str | None,
        typer.Option(
            "--broker",
            metavar="RELEASE",
            help="Reproduce N on brokers of this release, started from Maven.",
        ),
    ] = None
    config: ClientProperties = None
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="VERSION",
            help=f"Version of Kafka's Java client (default: {CLIENT}, or that of --broker).",
        ),
    ] = None
    jars: Annotated[
        Path | None,
        typer.Option("--jars", metavar="DIR", help="Take the client from this folder of jars."),
    ] = None
    restart_command: Annotated[
        str | None,
        typer.Option("--restart-command", metavar="COMMAND", help="Kills and restarts the broker."),
    ] = None
    alter_features: Annotated[
        bool,
        typer.Option(
            "--alter-features", help="Allow changes of the cluster's transaction.version."
        ),
    ] = False
    debugger: Annotated[
        str | None,
        typer.Option("--debugger", metavar="HOST:PORT", help="Debug port of the broker's JVM."),
    ] = None
    user_config: Annotated[
        Path | None,
        typer.Option(
            "--user-config", metavar="FILE", help="Client properties of a user without permissions."
        ),
    ] = None

    @property
    def has_brokers(self) -> bool:
        """Whether there are brokers to reproduce a finding on."""
        return self.bootstrap is not None or self.broker is not None


def findings(
    number: Annotated[
        str | None, typer.Argument(metavar="[N]", help="The number of a finding.")
    ] = None,
    *,
    options: FindingsOptions,
    output: Json = None,
) -> None:
    """List the findings in Kafka, or reproduce finding N on brokers, by requests and Kafka's own
    client behind a proxy.

    Exit code 12 if the bug is there, 0 if it isn't, 20 if the run didn't decide.
    """
    console = screen()
    if number is None:
        if options.has_brokers:
            fail("--bootstrap and --broker need the number of a finding")
        _list(console)
        write_json(output, [_json(one) for one in FINDINGS])
        return
    found = [one for one in FINDINGS if str(one.number) == number]
    if not found:
        fail(f"no finding {number}: they go from 1 to {len(FINDINGS)}")
    (finding,) = found
    if options.has_brokers:
        _needs(finding, options)
    else:
        _describe(finding, console)
    result = _json(finding)
    code = 0
    if options.has_brokers:
        from ...model.conformance.findings.brokers import InconclusiveError
        from ...model.serve.rules.program import HungError

        try:
            observation = _reproduce(finding, options, console)
        except (InconclusiveError, HungError) as error:
            code, result["inconclusive"] = INCONCLUSIVE, str(error)
            console.print(f"Inconclusive: {error} (exit {code}).")
        else:
            code = BROKEN if observation.is_there else 0
            result |= observation._asdict()
            _print(console, f"expected: {observation.expected}")
            _print(console, f"observed: {observation.observed}")
            verdict = "The bug is there" if observation.is_there else "The bug isn't there"
            console.print(f"{verdict} (exit {code}).")
    write_json(output, result)
    raise typer.Exit(code)


def _needs(finding: Finding, options: FindingsOptions) -> None:
    """Ends the command if the finding can't be reproduced with these options."""
    with needing("broker"):
        from ...model.conformance.findings.reproductions import REPRODUCTIONS
    reproduction = REPRODUCTIONS.get(finding.number)
    assert reproduction is not None
    name = f"finding {finding.number}"
    if options.broker is not None:
        _needs_nothing_else(options)
        return
    if reproduction.alters_features and not options.alter_features:
        fail(f"{name} changes transaction.version: give --alter-features")
    if reproduction.restarts and options.restart_command is None:
        fail(f"{name} restarts the broker: give --restart-command")
    if reproduction.holds and options.debugger is None:
        fail(f"{name} holds a thread of the broker: give --debugger")
    if reproduction.denies and options.user_config is None:
        fail(f"{name} needs a user without permissions: give --user-config")


def _needs_nothing_else(options: FindingsOptions) -> None:
    """Exits with one line if --broker has an unknown release, or excludes another given option."""
    from ...model.conformance.findings.started import RELEASES

    others = {
        "--bootstrap": options.bootstrap,
        "--config": options.config,
        "--restart-command": options.restart_command,
        "--alter-features": options.alter_features or None,
        "--debugger": options.debugger,
        "--user-config": options.user_config,
    }
    for option, value in others.items():
        if value is not None:
            fail(f"--broker starts its own brokers: leave {option} out")
    if options.broker not in RELEASES:
        fail(f"--broker {options.broker}: choose one of {', '.join(RELEASES)}")


def _reproduce(finding: Finding, options: FindingsOptions, console: Console) -> Observation:
    from ...model.conformance.classes.host import UnavailableError, jars_in, jars_of
    from ...model.conformance.findings.brokers import Brokers
    from ...model.conformance.findings.reproductions import REPRODUCTIONS
    from ...model.conformance.findings.started import started
    from ...model.wire.connection import BrokerError
    from ...model.wire.listener import CantListenError

    reproduction = REPRODUCTIONS[finding.number]
    count = 0

    def say(step: str) -> None:
        nonlocal count
        if not count:  # the cluster answers
            _describe(finding, console)
        count += 1
        _print(console, f"{count}. {step}")

    def class_path() -> str:
        return jars_of(options.client or CLIENT) if options.jars is None else jars_in(options.jars)

    try:
        if options.broker is not None:
            own = options.client is None and options.jars is None
            given = None if own else class_path
            with started(reproduction, options.broker, say, given) as brokers:
                return reproduction.run(brokers)
        assert options.bootstrap is not None
        command, user = options.restart_command, options.user_config
        return reproduction.run(
            Brokers(
                options.bootstrap,
                security_of(options.config),
                class_path,
                None if command is None else restarts(command),
                say,
                options.debugger,
                None if user is None else security_of(user),
            )
        )
    except (BrokerError, CantListenError, UnavailableError) as error:
        fail(error)


def _list(console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "finding", "releases", "severity"):
        table.add_column(heading)
    for one in FINDINGS:
        table.add_row(*map(Text, (str(one.number), one.title, one.affected, one.damage.value)))
    console.print(table)
    console.print(
        "\nepochfence findings N --bootstrap HOST:PORT reproduces one on brokers, and"
        "\n--broker RELEASE on brokers that it starts."
    )


def _print(console: Console, text: str) -> None:
    console.print(indented(text, 2, console.width, hanging=2))


def _describe(finding: Finding, console: Console) -> None:
    console.print(Text(f"finding {finding.number}: {finding.title}", "bold"))
    _print(console, f"severity: {finding.damage.value}")
    _print(console, f"needs: {finding.needs}")
    _print(console, f"remedy: {finding.remedy}")
    _print(console, f"see docs/findings.md, {finding.number}")


def _json(finding: Finding) -> dict[str, Any]:
    return asdict(finding) | {
        "damage": finding.damage.name.lower(),
        "affected": finding.affected,
        "releases": [release for release in RELEASED if finding.is_in(release, release)],
    }
