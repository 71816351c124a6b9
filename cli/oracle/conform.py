"""`conform`: compares a real broker with the oracle."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from ...files import Output, write_whole
from ...language import DeclarationError
from ...language.declaration.arguments import one_of
from ...spec.releases.features import NEWEST, RELEASED
from ..exits import fail, in_a_line, needing, write_json
from ..options import (
    Bootstrap,
    ClientProperties,
    EngineOptions,
    Json,
    Results,
    a_number,
    make_folder,
    output_of,
    seconds_option,
)
from .classes import ClassOptions, on_classes

if TYPE_CHECKING:
    from ...model.conformance.live.cluster.cluster import LiveCluster
    from ...model.conformance.live.run import Report, Run
    from ...model.wire.connection import Security


SECONDS = 30.0  # of random requests
MOST_BYTES = 16 << 20  # of stored searches


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    """The broker, and the permitted changes to it."""

    bootstrap: Bootstrap = None
    config: ClientProperties = None
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

    alter_features: Annotated[
        bool,
        typer.Option(
            "--alter-features",
            help="Change transaction.version among random requests, and set it back.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """The requests, and the accepted answers."""

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
        typer.Option("--level", help="The senders of requests: honest clients alone, or any."),
    ] = "any"
    suite: Annotated[
        Literal["directed", "random", "all"],
        typer.Option("--suite", help="The suites of requests to send."),
    ] = "all"
    seconds: Annotated[
        float | None, seconds_option("Duration of the random requests (default: 30).")
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Seed of the random requests (default: 0)."),
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="REQUEST", help="Don't send this request (repeatable)."),
    ] = None
    cap: Annotated[
        list[str] | None,
        typer.Option(
            "--cap",
            metavar="REQUEST=VERSION",
            help="Send no newer version of this request (repeatable).",
        ),
    ] = None
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=0.1,
            max=600,
            callback=a_number,
            metavar="S",
            help="Time to wait for an answer; none within it is a disagreement.",
        ),
    ] = 30
    known: Annotated[
        Path | None,
        typer.Option(
            "--known",
            metavar="FILE",
            help="Count and skip the differences that this file names, one cause or row a line.",
        ),
    ] = None
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Don't wait for markers; accept answers from before and after."),
    ] = False


def conform(
    broker: BrokerOptions,
    sent: RequestOptions,
    hosted: ClassOptions,
    where: EngineOptions,
    *,
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
    results: Results = None,
    output: Json = None,
) -> None:
    """Compare a real broker with the oracle: a short test for each row, then random requests.

    Or compare Kafka's own classes with the tables, for each local step.
    """
    if hosted != ClassOptions() or where != EngineOptions() or results is not None:
        others = broker == BrokerOptions() and sent == RequestOptions()
        is_alone = others and save is None and junit is None
        on_classes(hosted, where, results, output, is_alone=is_alone)
    _check(broker, sent)
    with needing("broker"):
        from ...model.conformance.live.cluster.apis import table
        from ...model.wire.connection import BrokerError
    if save is not None:
        make_folder("--save", save)
    with _stopping():
        try:
            cluster = _cluster(broker, sent)
        except BrokerError as error:
            fail(error)
        with _progress() as shows:
            try:
                run = _made(cluster, broker, sent, shows)
                if lacking := table(run.report.lacking):
                    print(lacking, flush=True)
                if sent.suite != "random" and run.report.ended_early is None:
                    run.directed()
                if sent.suite != "directed" and run.report.ended_early is None:
                    run.random(SECONDS if sent.seconds is None else sent.seconds)
            except (BrokerError, DeclarationError) as error:
                fail(error)
            finally:
                _close(cluster, keeps=broker.keep)
        _finish(run.report, save, junit, output)


def _check(broker: BrokerOptions, sent: RequestOptions) -> None:
    """Exits with one line if an option is missing or wrong, or if options exclude each other."""
    if broker.bootstrap is None:
        fail("conform needs --bootstrap HOST:PORT, or --classes RELEASE")
    for release in filter(None, (sent.protocol, sent.as_client)):
        if release not in RELEASED:
            fail(f"{release}: unknown release: {one_of(release, RELEASED)}")
    if sent.suite == "directed" and broker.alter_features:
        fail("--alter-features is for random requests, which --suite directed leaves out")
    if sent.suite == "directed" and (sent.seconds is not None or sent.seed is not None):
        fail("--seconds and --seed are for random requests, which --suite directed leaves out")
    given = {
        "--debugger": broker.debugger,
        "--alter-configs": broker.alter_configs,
        "--alter-features": broker.alter_features,
    }
    if sent.level == "well-behaved" and (name := next(filter(given.get, given), None)):
        fail(f"{name} is for requests of any level: omit it, or --level well-behaved")


def _cluster(broker: BrokerOptions, sent: RequestOptions) -> LiveCluster:
    from ...model.conformance.live.cluster.apis import limits
    from ...model.conformance.live.cluster.cluster import LiveCluster

    assert broker.bootstrap is not None
    return LiveCluster(
        broker.bootstrap,
        security_of(broker.config),
        may_be_shared=broker.shared,
        timeout_s=sent.timeout,
        limited=limits(sent.without or (), sent.cap or ()),
    )


def _made(
    cluster: LiveCluster, broker: BrokerOptions, sent: RequestOptions, shows: Callable[[str], None]
) -> Run:
    from ...checker.native.cache.object_cache import cache_of
    from ...model.conformance.live.holds.hold_places import Threads
    from ...model.conformance.live.run import Run
    from ...model.conformance.live.suites.search_cache import Searches

    assert broker.bootstrap is not None
    return Run(
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
        known=_known(sent.known),
        alters_features=broker.alter_features,
        searches=Searches(cache_of("searches", MOST_BYTES)),
        shows=shows,
    )


def _known(path: Path | None) -> list[str]:
    """The lines of a file of known differences."""
    from ...model.conformance.live.causes import known_in

    if path is None:
        return []
    try:
        return known_in(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        fail(f"can't read {path}: {reason}")


def _close(cluster: LiveCluster, *, keeps: bool) -> None:
    """Removes the run's topics and groups, and disconnects. A second Ctrl-C ends the removal."""
    try:
        for line in cluster.close(keeps=keeps):
            print(f"epochfence: {in_a_line(line)}", file=sys.stderr)
    except KeyboardInterrupt:
        print("epochfence: interrupted: topics of the run may be left", file=sys.stderr)


@contextmanager
def _stopping() -> Generator[None]:
    """Makes SIGTERM end a run as Ctrl-C does: with the results so far."""

    def stop(_: int, __: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop) if _is_main_thread() else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _progress() -> Generator[Callable[[str], None]]:
    """Shows a run's progress on standard error: on a terminal one line that it updates, else a line
    every ten seconds."""
    live, shown_at, wide = sys.stderr.isatty(), time.monotonic(), 0

    def show(text: str) -> None:
        nonlocal shown_at, wide
        now = time.monotonic()
        if now - shown_at < (0.2 if live else 10):
            return
        shown_at = now
        if live:
            room = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:room]:{wide}}", end="", file=sys.stderr, flush=True)
            wide = min(len(text), room)
        else:
            print(text, file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if wide:
            print(f"\r{'':{wide}}\r", end="", file=sys.stderr, flush=True)


def _finish(
    found: Report, save: Path | None, junit: Output | None, output: Output | None
) -> NoReturn:
    """Prints and writes the findings, and ends with their exit code."""
    from ...model.conformance.live import report

    if found.internal is not None:
        print(found.internal, end="", file=sys.stderr)
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
    from ...model.wire.connection import Security, security

    return Security() if config is None else security(properties_of(config))


def properties_of(config: Path) -> dict[str, str]:
    """The properties in a file. No message shows their values."""
    from ...model.client.config import read_properties

    try:
        return read_properties(config)
    except OSError as error:
        fail(f"can't read {config}: {error.strerror}")
    except ValueError:
        fail(f"{config}: a line is not name=value")  # not shown: it may hold a secret


def _release(cluster: LiveCluster, protocol: str | None) -> str:
    """The release to compare with: the given one, or the release that the API versions imply. If
    the broker is newer than all known releases, it is the newest of them, with a warning."""
    from ...spec.releases import broker_versions

    proposed = cluster.release
    if protocol is None and broker_versions.is_newer(cluster.levels):
        unknown = broker_versions.unknown_versions(cluster.supported)
        names = ", ".join(f"{name} {version}" for name, version in sorted(unknown.items()))
        warnings.warn(
            f"the broker is newer than {NEWEST}: it is compared with {NEWEST}; "
            f"API versions that aren't compared: {names or 'none'}",
            stacklevel=2,
        )
        return NEWEST
    if protocol is None and proposed is None:
        fail(
            "the broker's API versions match no known release: give the release to compare with by "
            f"--protocol ({', '.join(RELEASED)})"
        )
    return protocol or str(proposed)


def restarts(command: str) -> Callable[[], None]:
    """A function that runs the command that restarts the broker."""
    from ...model.wire.connection import BrokerError

    def restart() -> None:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"--restart-command failed with exit code {done.returncode}")

    return restart
