"""`conform`: compares a real broker with the oracle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from ..files import Output, write_whole
from ..language import DeclarationError
from ..spec.features import RELEASED
from .endings import fail, in_a_line, needing, write_json
from .options import Json, make_folder, output_of, seconds_option

if TYPE_CHECKING:
    from ..model.live.cluster import LiveCluster
    from ..model.live.connection import Security
    from ..model.live.run import Report


SECONDS = 30.0  # of random requests


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    """Which broker is asked, and what may be done to it."""

    bootstrap: Annotated[
        str,
        typer.Option(
            "--bootstrap", metavar="HOST:PORT", help="Address of a broker of the cluster."
        ),
    ]
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Client properties file, with TLS and SASL."),
    ] = None
    shared: Annotated[
        bool,
        typer.Option(
            "--shared", help="Allow a cluster with other topics and any number of brokers."
        ),
    ] = False
    keep: Annotated[bool, typer.Option("--keep", help="Don't delete the topics of the run.")] = (
        False
    )
    restart_command: Annotated[
        str | None,
        typer.Option(
            "--restart-command",
            metavar="COMMAND",
            help="Kills and restarts the broker. With it, random requests include restarts.",
        ),
    ] = None
    debugger: Annotated[
        str | None,
        typer.Option(
            "--debugger",
            metavar="HOST:PORT",
            help="Debug port of the broker's JVM. With it, requests are stopped half-way.",
        ),
    ] = None
    alter_configs: Annotated[
        bool,
        typer.Option(
            "--alter-configs",
            help="Change settings of the brokers and the transaction log for a short time.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Which requests are sent, and what counts as an answer."""

    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol", metavar="R", help="Release (default: from the broker's API versions)."
        ),
    ] = None
    as_client: Annotated[
        str | None,
        typer.Option("--as-client", metavar="R", help="Send requests as clients of this release."),
    ] = None
    level: Annotated[
        Literal["any", "well-behaved"],
        typer.Option("--level", help="Whose requests to send: of honest clients alone, or any."),
    ] = "any"
    suite: Annotated[
        Literal["directed", "random", "all"],
        typer.Option("--suite", help="Which requests to send."),
    ] = "all"
    seconds: Annotated[
        float | None, seconds_option("Duration of the random requests (default: 30).")
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Seed of the random requests (default: 0)."),
    ] = None
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Don't wait for markers; accept answers from before and after."),
    ] = False


def conform(
    broker: BrokerOptions,
    sent: RequestOptions,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Write a trace of each disagreement, for diff."),
    ] = None,
    junit: Annotated[
        Output | None,
        typer.Option(
            "--junit",
            metavar="FILE",
            parser=output_of,
            help="Write a JUnit report with a test case for each row.",
        ),
    ] = None,
    output: Json = None,
) -> None:
    """Compare a real broker with the oracle: a short test for each row, then random requests."""
    with needing("broker"):
        from ..model.live.cluster import LiveCluster
        from ..model.live.connection import BrokerError
        from ..model.live.run import Run
        from ..model.live.threads import Threads
    for release in filter(None, (sent.protocol, sent.as_client)):
        if release not in RELEASED:
            fail(f"{release}: unknown release: choose one of {', '.join(RELEASED)}")
    if sent.suite == "directed" and (sent.seconds is not None or sent.seed is not None):
        fail("--seconds and --seed are for random requests, which --suite directed leaves out")
    if sent.level == "well-behaved" and (broker.debugger or broker.alter_configs):
        fail("--level well-behaved sends what --debugger and --alter-configs can't help: omit them")
    if save is not None:
        make_folder("--save", save)
    try:
        cluster = LiveCluster(
            broker.bootstrap, security_of(broker.config), may_be_shared=broker.shared
        )
    except BrokerError as error:
        fail(error)
    try:
        run = Run(
            cluster,
            broker.bootstrap,
            _release(cluster, sent.protocol),
            settles=not sent.raw,
            seed=sent.seed or 0,
            as_client=sent.as_client,
            restarts=restarts(broker.restart_command) if broker.restart_command else None,
            threads=Threads(broker.debugger) if broker.debugger else None,
            alters=broker.alter_configs,
            level=sent.level,
        )
        if sent.suite != "random":
            run.directed()
        if sent.suite != "directed" and run.report.ended_early is None:
            run.random(SECONDS if sent.seconds is None else sent.seconds)
    except (BrokerError, DeclarationError) as error:
        fail(error)
    finally:
        for line in cluster.close(keeps=broker.keep):
            print(f"epochfence: {in_a_line(line)}", file=sys.stderr)
    _told(run.report, save, junit, output)


def _told(
    found: Report, save: Path | None, junit: Output | None, output: Output | None
) -> NoReturn:
    """Prints and writes what was found, and ends with its exit code."""
    from ..model.live import report

    print(report.text(found))
    if save is not None:
        for name, lines in report.traces(found):
            write_whole(save / name, lines)
    if junit is not None:
        junit.write(report.junit(found))
    write_json(output, report.as_json(found))
    raise typer.Exit(report.exit_code(found))


def security_of(config: Path | None) -> Security:
    """The TLS and SASL settings of a properties file."""
    from ..model.live.connection import Security, security

    return Security() if config is None else security(properties_of(config))


def properties_of(config: Path) -> dict[str, str]:
    """The properties in a file. No message shows their values."""
    from ..model.client.config import read_properties

    try:
        return read_properties(config)
    except OSError as error:
        fail(f"can't read {config}: {error.strerror}")
    except ValueError:
        fail(f"{config}: a line is not name=value")  # not shown: it may hold a secret


def _release(cluster: LiveCluster, protocol: str | None) -> str:
    """The release to compare with: the given one, or the one that the API versions imply."""
    proposed = cluster.release
    if protocol is None and proposed is None:
        fail(
            "the broker's API versions match no known release: give the release to compare with by "
            f"--protocol ({', '.join(RELEASED)})"
        )
    return protocol or str(proposed)


def restarts(command: str) -> Callable[[], None]:
    """A function that runs the command that restarts the broker."""
    from ..model.live.connection import BrokerError

    def restart() -> None:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"--restart-command failed with exit code {done.returncode}")

    return restart
