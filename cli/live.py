"""The command that holds a real broker against the executable machines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..files import Output, write_whole
from ..language import DeclarationError
from ..spec.features import RELEASED
from .endings import fail, in_a_line, needing, write_json
from .options import Json, make_folder, output_of

if TYPE_CHECKING:
    from ..model.live.cluster import LiveCluster
    from ..model.live.connection import Security


def conform(
    bootstrap: Annotated[
        str, typer.Option("--bootstrap", metavar="HOST:PORT", help="A broker of the cluster.")
    ],
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", metavar="R", help="The release (default: by its versions)."),
    ] = None,
    as_client: Annotated[
        str | None,
        typer.Option("--as-client", metavar="R", help="Send what clients of this release send."),
    ] = None,
    suite: Annotated[
        Literal["directed", "random", "all"], typer.Option("--suite", help="What is sent.")
    ] = "all",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, metavar="S", help="How long requests are drawn.")
    ] = 30,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="What requests are drawn with.")
    ] = 0,
    raw: Annotated[
        bool, typer.Option("--raw", help="Don't wait for markers: allow answers before and after.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A client's properties: TLS and SASL."),
    ] = None,
    shared: Annotated[
        bool,
        typer.Option("--shared", help="Run beside topics of others, and on any count of brokers."),
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the topics of the run.")] = False,
    restart_command: Annotated[
        str | None,
        typer.Option(
            "--restart-command", metavar="COMMAND",
            help="Kills the broker and starts it again; with it, restarts are drawn.",
        ),
    ] = None,
    debugger: Annotated[
        str | None,
        typer.Option(
            "--debugger", metavar="HOST:PORT",
            help="Where the broker's JVM takes a debugger: requests are held on their way.",
        ),
    ] = None,
    alter_configs: Annotated[
        bool,
        typer.Option(
            "--alter-configs",
            help="Change settings of the brokers and of the transaction log for moments.",
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="A trace of each disagreement, for diff."),
    ] = None,
    junit: Annotated[
        Output | None,
        typer.Option(
            "--junit", metavar="FILE", parser=output_of, help="A test case for each row, as XML."
        ),
    ] = None,
    output: Json = None,
) -> None:  # fmt: skip
    """Compare a real broker with the oracle: each row by a short way, then random requests."""
    with needing("broker"):
        from ..model.live import report
        from ..model.live.cluster import LiveCluster
        from ..model.live.connection import BrokerError
        from ..model.live.run import Run
        from ..model.live.threads import Threads
    for release in filter(None, (protocol, as_client)):
        if release not in RELEASED:
            fail(f"{release}: no release is called so: take one of {', '.join(RELEASED)}")
    if save is not None:
        make_folder("--save", save)
    try:
        cluster = LiveCluster(bootstrap, security_of(config), may_be_shared=shared)
    except BrokerError as error:
        fail(error)
    try:
        run = Run(
            cluster, bootstrap, _release(cluster, protocol), settles=not raw, seed=seed,
            as_client=as_client, restarts=restarts(restart_command) if restart_command else None,
            threads=Threads(debugger) if debugger else None, alters=alter_configs,
        )  # fmt: skip
        if suite != "random":
            run.directed()
        if suite != "directed" and run.report.ended_early is None:
            run.random(seconds)
    except (BrokerError, DeclarationError) as error:
        fail(error)
    finally:
        for line in cluster.close(keeps=keep):
            print(f"epochfence: {in_a_line(line)}", file=sys.stderr)
    print(report.text(run.report))
    if save is not None:
        for name, lines in report.traces(run.report):
            write_whole(save / name, lines)
    if junit is not None:
        junit.write(report.junit(run.report))
    write_json(output, report.as_json(run.report))
    raise typer.Exit(report.exit_code(run.report))


def security_of(config: Path | None) -> Security:
    """What a file of properties says of how brokers are talked to."""
    from ..model.live.connection import Security, security

    return Security() if config is None else security(properties_of(config))


def properties_of(config: Path) -> dict[str, str]:
    """The properties in a file, none of which a message shows."""
    from ..model.client.config import read_properties

    try:
        return read_properties(config)
    except OSError as error:
        fail(f"can't read {config}: {error.strerror}")
    except ValueError:
        fail(f"{config}: a line is not name=value")  # which isn't shown: it may hold a secret


def _release(cluster: LiveCluster, protocol: str | None) -> str:
    """The release that the cluster is held to: the one that is named, or that of its versions."""
    proposed = cluster.release
    if protocol is None and proposed is None:
        fail(
            "the broker's versions are those of no release that is known here: name the one to "
            f"hold it to by --protocol ({', '.join(RELEASED)})"
        )
    return protocol or str(proposed)


def restarts(command: str) -> Callable[[], None]:
    """Runs the command that restarts the broker."""
    from ..model.live.connection import BrokerError

    def restart() -> None:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"--restart-command ended with {done.returncode}")

    return restart
