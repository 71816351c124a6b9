"""`doctor`: which transaction hangs, why, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...language.given import one_of
from ...spec.releases.features import RELEASED
from ..exits import fail, needing, write_json
from ..options import Json
from .conform import security_of

if TYPE_CHECKING:
    from ...model.doctor.diagnosis import Diagnosis


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """A cluster, and which of its topics."""

    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="Address of a broker."),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Client properties file, with TLS and SASL."),
    ] = None
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="T", help="Look at this topic only (repeatable)."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FilesOptions:
    """How data directories are read."""

    complete: Annotated[
        bool,
        typer.Option("--complete", help="The directories hold every copy of all partitions."),
    ] = False
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", metavar="R", help="Release of the brokers of the directories."),
    ] = None


def doctor(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Data directories of brokers.")
    ] = None,
    *,
    cluster: ClusterOptions,
    files: FilesOptions,
    output: Json = None,
) -> None:
    """Find transactions that hang, with cause, remedy and risk. It only reads."""
    with needing("broker"):
        from ...model.doctor.report import as_json, lines
    if bool(directories) == (cluster.bootstrap is not None):
        fail("give --bootstrap HOST:PORT, or data directories")
    if directories:
        if cluster.config is not None or cluster.topics:
            fail("--config and --topic need --bootstrap")
        found = _of_files(directories, files)
    else:
        if files.complete or files.protocol is not None:
            fail("--complete and --protocol are for data directories")
        found = _of_cluster(cluster)
    for line in lines(found):
        print(line)
    write_json(output, as_json(found))
    raise typer.Exit(found.verdict)


def _of_files(directories: list[Path], files: FilesOptions) -> Diagnosis:
    from ...model.doctor.directories import look

    if files.protocol is not None and files.protocol not in RELEASED:
        fail(f"--protocol {files.protocol}: unknown release: {one_of(files.protocol, RELEASED)}")
    try:
        return look(directories, files.protocol, is_complete=files.complete)
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")


def _of_cluster(options: ClusterOptions) -> Diagnosis:
    from ...model.doctor.examination import examine
    from ...model.doctor.live import Cluster
    from ...model.wire.connection import BrokerError

    assert options.bootstrap is not None
    try:
        how = security_of(options.config)
        with Cluster(options.bootstrap, how, topics=options.topics or ()) as cluster:
            return examine(cluster)
    except BrokerError as error:
        fail(error)
