"""`doctor`: finds transactions that hang, with their causes and remedies."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...files import Output
from ...language.declaration.arguments import one_of
from ...spec.releases.features import RELEASED
from ..exits import fail, needing, write_json
from ..options import Bootstrap, ClientProperties, Json, output_of, seconds_option
from .conform import security_of

if TYPE_CHECKING:
    from ...model.doctor.diagnosis import Diagnosis
    from ...model.doctor.output.exporter import Exporter


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The cluster and its topics to examine."""

    bootstrap: Bootstrap = None
    config: ClientProperties = None
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="T", help="Look at this topic only (repeatable)."),
    ] = None
    every: Annotated[
        bool,
        typer.Option("--all", help="Look at all partitions, not at a sample of 20,000."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class FilesOptions:
    """The data directories' options."""

    complete: Annotated[
        bool,
        typer.Option("--complete", help="The directories hold every copy of all partitions."),
    ] = False
    protocol: Annotated[
        str | None,
        typer.Option("--protocol", metavar="R", help="Release of the brokers of the directories."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Repeated examinations, and their metrics."""

    watch: Annotated[
        float | None,
        seconds_option("Look again every S seconds, until Ctrl-C.", name="--watch"),
    ] = None
    metrics: Annotated[
        Output | None,
        typer.Option(
            "--metrics",
            metavar="FILE",
            parser=output_of,
            help="Write Prometheus text, again at each look.",
        ),
    ] = None
    port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="With --watch: answer GET /metrics on this port of 127.0.0.1 (0: a free one).",
        ),
    ] = None


def doctor(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Data directories of brokers.")
    ] = None,
    *,
    cluster: ClusterOptions,
    files: FilesOptions,
    watching: WatchOptions,
    output: Json = None,
) -> None:
    """Find transactions that hang, with cause, remedy and risk. It only reads."""
    with needing("broker"):
        from ...model.doctor.output.report import as_json, lines, prometheus
    if bool(directories) == (cluster.bootstrap is not None):
        fail("give --bootstrap HOST:PORT, or data directories")
    if directories and (cluster.config is not None or cluster.topics or cluster.every):
        fail("--config, --topic and --all need --bootstrap")
    if not directories and (files.complete or files.protocol is not None):
        fail("--complete and --protocol are for data directories")
    watch, metrics = watching.watch, watching.metrics
    if watching.port is not None and watch is None:
        fail("--metrics-port needs --watch")
    if watch == 0:
        fail("--watch 0: give the seconds between two looks, more than 0")
    before: list[str] = []
    with _exporter(watching.port) as exporter:
        while True:
            found = (
                _of_files(directories, files)
                if directories
                else _of_cluster(cluster, watches=watch is not None)
            )
            shown = list(lines(found))
            if shown[:-1] != before or not before:
                print(*shown, sep="\n", flush=True)
            before = shown[:-1]
            if metrics is not None:
                metrics.write(prometheus(found))
            if exporter is not None:
                exporter.text = prometheus(found)
            write_json(output, as_json(found))
            if watch is None:
                raise typer.Exit(found.verdict)
            time.sleep(watch)


@contextmanager
def _exporter(port: int | None) -> Generator[Exporter | None]:
    """The server of metrics, or None without a port."""
    if port is None:
        yield None
        return
    with needing("explore"):
        from ...model.doctor.output.exporter import Exporter
    from ...model.wire.listener import CantListenError

    try:
        exporter = Exporter(port)
    except CantListenError as error:
        fail(error)
    print(f"metrics: {exporter.url}", flush=True)
    with exporter:
        yield exporter


def _of_files(directories: list[Path], files: FilesOptions) -> Diagnosis:
    from ...model.doctor.directories import look

    if files.protocol is not None and files.protocol not in RELEASED:
        fail(f"--protocol {files.protocol}: unknown release: {one_of(files.protocol, RELEASED)}")
    try:
        return look(directories, files.protocol, is_complete=files.complete)
    except OSError as error:
        fail(f"can't read {error.filename}: {error.strerror}")


def _of_cluster(options: ClusterOptions, *, watches: bool) -> Diagnosis:
    """The diagnosis of a cluster. If it doesn't answer, exits with one line; with `watches`,
    returns a diagnosis that says so."""
    from ...model.doctor.examination import examine, unseen
    from ...model.doctor.live import MOST, Cluster
    from ...model.wire.connection import BrokerError

    assert options.bootstrap is not None
    try:
        how = security_of(options.config)
        topics, most = options.topics or (), sys.maxsize if options.every else MOST
        with Cluster(options.bootstrap, how, topics=topics, most=most) as cluster:
            return examine(cluster)
    except BrokerError as error:
        if not watches:
            fail(error)
        return unseen(options.bootstrap, str(error))
