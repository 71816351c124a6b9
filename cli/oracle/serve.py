"""`serve` and `proxy`: a cluster in memory, a proxy to real brokers, both with injected faults."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from ...files import CantWriteError, Output
from ...garbage import collected
from ...language.declaration.arguments import one_of
from ...language.declaration.errors import DeclarationError
from ...spec.releases.features import NEWEST, RELEASED
from ..checking.traces import schedule_in, scheduled
from ..exits import BROKEN, INCONCLUSIVE, fail, internal, needing, write_json
from ..options import Json, TransactionVersion, a_number, output_of, seconds_option
from .conform import properties_of, restarts, security_of

if TYPE_CHECKING:
    from ...checker.trace.schedule.schedule import Schedule
    from ...model.serve.base import Served
    from ...model.serve.control import Control
    from ...model.serve.faults.faults import Faults
    from ...model.serve.rules.suite import Finding
    from ...model.serve.server import Server


@dataclass(frozen=True, kw_only=True)
class FaultOptions:
    """The faults to inject, and the files to write."""

    faults: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="DO:REQUEST[:NTH]",
            help="Inject a fault at a request, as lose_answer:EndTxn; or JSON, as in a script.",
        ),
    ] = None
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="FILE|BUG",
            help="Inject the faults in this file: JSON, a fault or a list of them. "
            "`nth` and `times` belong into a fault's `on`. Or those of a known bug (serve only).",
        ),
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Inject the faults of a counterexample: a trace (ITF) from check --trace.",
        ),
    ] = None
    rate: Annotated[
        float,
        typer.Option(
            "--random",
            min=0,
            max=1,
            callback=a_number,
            metavar="RATE",
            help="Inject faults at random into this fraction of the protocol's requests.",
        ),
    ] = 0
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Seed of --random (default: 0).")
    ] = None
    random_script: Annotated[
        Output | None,
        typer.Option(
            "--random-script",
            metavar="FILE",
            parser=output_of,
            help="Write the faults of --random as a script that repeats them.",
        ),
    ] = None
    control: Annotated[
        int | None,
        typer.Option(
            "--control",
            min=0,
            max=65_535,
            metavar="PORT",
            help="Accept faults over HTTP on this port of localhost; 0 picks a free one.",
        ),
    ] = None
    history: Annotated[
        Output | None,
        typer.Option(
            "--history",
            metavar="FILE",
            parser=output_of,
            help="Record every request and answer as a line of JSON, for judge.",
        ),
    ] = None
    seconds: Annotated[float | None, seconds_option("Stop after this time.")] = None


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """The options for a client's program and the rules that it is tested with."""

    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="COMMAND",
            help="Try this program of a client on each rule of docs/rules.md, and exit.",
        ),
    ] = None
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="RULE", help="Only this rule (repeatable)."),
    ] = None
    junit: Annotated[
        Output | None,
        typer.Option(
            "--junit",
            metavar="FILE.xml",
            parser=output_of,
            help="Write a JUnit report with a test case for each rule.",
        ),
    ] = None
    output: Json = None


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The cluster in memory."""

    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol", metavar="R", help="Release (default: the trace's, or the newest)."
        ),
    ] = None
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65_535,
            help="Port of the first broker; 0 picks free ones.",
        ),
    ] = 9092
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers", metavar="N", min=1, max=5, help="Number of brokers, each on its own port."
        ),
    ] = 1
    first_id: Annotated[
        int,
        typer.Option(
            "--first-broker-id", metavar="ID", min=0, max=999, help="Id of the first broker."
        ),
    ] = 0
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="NAME[:N]", help="Create a topic with N partitions (repeatable)."
        ),
    ] = None
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            min=1,
            max=1000,
            metavar="N",
            help="Number of partitions of a topic that is created automatically.",
        ),
    ] = 1
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST", help="Address to listen on.")
    ] = "127.0.0.1"
    advertised: Annotated[
        str | None,
        typer.Option(
            "--advertised-host",
            metavar="HOST",
            help="Host to which clients connect (default: that of --listen).",
        ),
    ] = None
    no_auto_create: Annotated[
        bool,
        typer.Option(
            "--no-auto-create", help="Don't create the topics that clients name (Metadata)."
        ),
    ] = False
    replicas: Annotated[
        int,
        typer.Option(
            "--replicas", min=1, max=5, metavar="N", help="Replicas of a topic by default."
        ),
    ] = 1
    in_sync: Annotated[
        int | None,
        typer.Option(
            "--in-sync",
            min=1,
            max=5,
            metavar="N",
            help="How many replicas of a partition are in sync, at most (default: all).",
        ),
    ] = None
    racks: Annotated[
        str, typer.Option("--racks", metavar="RACK[,...]", help="Racks of the brokers, in turn.")
    ] = ""
    transaction_version: TransactionVersion = None
    broker_config: Annotated[
        list[str] | None,
        typer.Option(
            "--broker-config",
            metavar="NAME=VALUE",
            help="A setting of the brokers, as message.max.bytes=1000 (repeatable).",
        ),
    ] = None
    acls: Annotated[
        Path | None,
        typer.Option(
            "--acls",
            metavar="FILE",
            help='ACLs as JSON: {"acls": [...]}. Without --users every client is User:ANONYMOUS.',
        ),
    ] = None
    users: Annotated[
        Path | None,
        typer.Option(
            "--users",
            metavar="FILE",
            help="Require SASL PLAIN or SCRAM. FILE has a line name=password for each user.",
        ),
    ] = None
    unsecured_tokens: Annotated[
        bool,
        typer.Option(
            "--unsecured-tokens",
            help="Accept SASL/OAUTHBEARER with unsigned tokens; the subject is the user.",
        ),
    ] = False
    list_scripts: Annotated[
        bool, typer.Option("--list-scripts", help="List the bugs that --script knows, and exit.")
    ] = False
    plant: Annotated[
        Literal["read-beyond-stable"] | None,
        typer.Option("--plant", hidden=True, help="Serve with this bug, to test tools."),
    ] = None


def _of_bug(name: str) -> tuple[str, Schedule]:
    """The last release that has a bug, and the schedule of its run."""
    from ...checker.trace.schedule.schedule import Call, Schedule
    from ...model.serve.faults.scripts import script_of

    try:
        found = script_of(name)
    except DeclarationError as error:
        fail(f"--script {name}: no such file, and {error}")
    calls = tuple(Call(*call) for call in found.calls)
    return found.release, Schedule(calls, found.faults, (), found.expiries)


def _list_scripts() -> None:
    from ...model.serve.faults.scripts import scripts
    from ...spec.bugs import bug_of

    for script in scripts():
        faults = ", ".join(f"{one['do']} {one['on']['request']}" for one in script.faults)
        print(f"{script.bug:18} {script.release:8} {bug_of(script.bug).title}")
        print(f"{'':27} {faults or 'no fault'}")


def _try_rules(command: str, wanted: RuleOptions) -> NoReturn:
    """Prints a verdict for each rule, and exits: 12 if a rule is broken."""
    from ...model.serve.rules.book import RULES, number_of
    from ...model.serve.rules.program import NoProgramError
    from ...model.serve.rules.suite import Verdict, to_junit, tried

    known = {rule.id: rule for rule in RULES}
    if unknown := [name for name in wanted.rule or [] if name not in known]:
        fail(f"--rule {unknown[0]}: {one_of(unknown[0], known)}")
    try:
        words = shlex.split(command)
    except ValueError as error:
        fail(f"--rules {command}: {error}")
    if not words:
        fail(f"--rules {command!r}: name a program")
    chosen = [known[name] for name in dict.fromkeys(wanted.rule or known)]
    findings: list[Finding] = []
    try:
        for finding in tried(words, chosen):
            findings.append(finding)
            print(f"{number_of(finding.rule):2} {finding.rule.id:28} {finding.verdict.value}")
            if finding.why:
                print(f"   {finding.why}")
    except NoProgramError as error:
        fail(f"--rules {command}: {error}")
    counts = {each: sum(one.verdict is each for one in findings) for each in Verdict}
    print(", ".join(f"{count} {each.value}" for each, count in counts.items()))
    if wanted.junit is not None:
        wanted.junit.write(to_junit(command, findings))
    write_json(wanted.output, {"command": command, "rules": [one.as_json() for one in findings]})
    raise typer.Exit(BROKEN if counts[Verdict.FAILED] else 0)


def serve(cluster: ClusterOptions, wanted: FaultOptions, suite: RuleOptions) -> None:
    """Run a cluster in memory for Kafka's clients, answered by the oracle, until Ctrl-C."""
    with needing("broker"):
        from ...model.serve.server import Server
    if suite.rules is not None:
        _try_rules(suite.rules, suite)
    if suite.rule or suite.junit is not None or suite.output is not None:
        fail("--rule, --junit and --json need --rules COMMAND")
    if cluster.list_scripts:
        return _list_scripts()
    schedule: Schedule | None = None
    protocol, trace = cluster.protocol, wanted.trace
    if wanted.script is not None and not wanted.script.exists() and wanted.script.suffix == "":
        if trace is not None:
            fail("--trace and --script of a bug: choose one")
        release, schedule = _of_bug(str(wanted.script))
        protocol, wanted = protocol or release, replace(wanted, script=None)
    if trace is not None:
        protocol, schedule = scheduled(trace, protocol, by_clock=False)
    protocol = protocol or NEWEST
    if protocol not in RELEASED:
        fail(f"{protocol}: unknown release: {one_of(protocol, RELEASED)}")
    named = _topics(cluster.topics or [], cluster.partitions)
    passwords = None if cluster.users is None else _passwords(cluster.users)
    try:
        server = Server(
            protocol,
            brokers=cluster.brokers,
            partitions=cluster.partitions,
            host=cluster.listen,
            port=cluster.port,
            topics=named,
            passwords=passwords,
            unsecured_tokens=cluster.unsecured_tokens,
            settings=_settings(cluster),
            racks=[rack for rack in cluster.racks.split(",") if rack],
            in_sync=cluster.in_sync,
            advertised=cluster.advertised,
            first_id=cluster.first_id,
            transaction_version=cluster.transaction_version,
        )
    except ValueError as error:
        fail(error)
    server.logs.reads_beyond_stable = cluster.plant == "read-beyond-stable"
    if cluster.acls is not None:
        _authorize(server, cluster.acls)
    replayed = partial(schedule_in, protocol=protocol, by_clock=False, only_shipped=True)
    _run(server, f"Kafka {protocol} in memory", wanted, schedule, replayed)


def proxy(
    upstream: Annotated[
        str,
        typer.Option(
            "--upstream",
            metavar="HOST:PORT[,...]",
            help="Addresses of brokers of the cluster: one finds the others. If they have a "
            "separate listener for the proxy, name that of each, in the order of their ids.",
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The address of the first broker; others get the next ports. 0: free ports.",
        ),
    ] = "127.0.0.1:9192",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Client properties file for the brokers, with TLS and SASL. Clients need none.",
        ),
    ] = None,
    restart_command: Annotated[
        str | None,
        typer.Option(
            "--restart-command",
            metavar="COMMAND",
            help="Kills and restarts the broker; fail_over_coordinator needs it.",
        ),
    ] = None,
    *,
    wanted: FaultOptions,
) -> None:
    """Run a proxy between Kafka's clients and real brokers that injects faults, until Ctrl-C."""
    with needing("broker"):
        from ...model.serve.proxy import Proxy
        from ...model.wire.connection import BrokerError
    host, _, number = listen.rpartition(":")
    if not host or not (number.isascii() and number.isdigit() and int(number) < 2**16):
        fail(f"--listen {listen}: write HOST:PORT")
    schedule = None if wanted.trace is None else scheduled(wanted.trace, by_clock=True)[-1]
    how = security_of(config)
    restart = restarts(restart_command) if restart_command else None
    try:
        between = Proxy(upstream, host=host, port=int(number), how=how, restart=restart)
    except BrokerError as error:
        fail(error)
    replayed = partial(schedule_in, protocol=None, by_clock=True, only_shipped=True)
    _run(between, f"proxy to {upstream}", wanted, schedule, replayed)


def _run(
    served: Served,
    what: str,
    wanted: FaultOptions,
    schedule: Schedule | None,
    replayed: Callable[[bytes], tuple[str, Schedule]],
) -> None:
    """Serves until a signal or the time limit, then prints the faults' outcomes. The control port
    reads traces by `replayed`."""
    from ...model.serve.faults.faults import script_text
    from ...model.serve.history import History
    from ...model.wire.listener import CantListenError
    from ...sockets import raise_file_limit

    raise_file_limit()
    served.brokers.log = lambda line: print(line, file=sys.stderr, flush=True)
    _put(served.faults, wanted, schedule)
    controls = None if wanted.control is None else _controls()
    stopped = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        stopped.set()

    before = {which: signal.signal(which, stop) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ExitStack() as stack:
            if wanted.history is not None:
                served.record_in(History(stack.enter_context(wanted.history.writing())))
            stack.enter_context(served)
            http = controls and stack.enter_context(controls(served, wanted.control or 0, replayed))
            print(f"{what}: bootstrap.servers={served.bootstrap}", flush=True)
            if schedule is not None:
                print(f"clients of the trace: {schedule.text()}", flush=True)
            if http is not None:
                print(f"faults at {http.address}/faults", flush=True)
            # main() makes garbage collection rare; closed connections are garbage in cycles
            stack.enter_context(collected())
            stopped.wait(wanted.seconds)
        drawn = served.faults.drawn
        if wanted.random_script is not None:
            wanted.random_script.write(script_text([] if drawn is None else drawn.script()))
    except (CantListenError, CantWriteError) as error:
        fail(error)
    except Exception as error:
        internal(error)
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
    print(served.report())
    if not served.faults.all_fired:  # this wasn't the requested run
        raise typer.Exit(INCONCLUSIVE)


def _controls() -> type[Control]:
    with needing("broker", "explore"):
        from ...model.serve.control import Control
    return Control


def _put(faults: Faults, wanted: FaultOptions, schedule: Schedule | None) -> None:
    """Adds the faults that the options name."""
    from ...model.serve.faults.faults import BadFaultError, Drawn, read_script, read_short

    place = "--script"
    try:
        if wanted.script is not None:
            place = str(wanted.script)
            for given in read_script(wanted.script.read_bytes()):
                faults.add(given)
        if schedule is not None:
            place = "--trace"
            for given in schedule.faults:
                faults.add(dict(given))
        for text in wanted.faults or []:
            place = f"--fault {text}"
            faults.add(read_short(text))
    except BadFaultError as error:
        fail(f"{place}: {error}")
    except OSError as error:
        fail(f"can't read {place}: {error.strerror}")
    if wanted.rate:
        faults.drawn = Drawn(wanted.rate, wanted.seed or 0)
    elif wanted.random_script is not None or wanted.seed is not None:
        which = "--seed" if wanted.random_script is None else "--random-script"
        fail(f"{which} needs --random RATE")


def _authorize(server: Server, file: Path) -> None:
    """Applies the ACLs in a file."""
    from ...model.engine.errors import ModelError
    from ...model.requests import acls_of
    from ...strict_json import NotJsonError, read_json

    try:
        server.cluster.acls = acls_of(read_json(file.read_bytes()))
    except OSError as error:
        fail(f"can't read {file}: {error.strerror}")
    except (NotJsonError, ModelError) as error:
        fail(f"{file}: {error}")


def _passwords(file: Path) -> dict[str, str]:
    """The users in a file, with their passwords. No message shows a password."""
    found = properties_of(file)
    if not found:
        fail(f"{file} names no user: write a line name=password for each")
    return found


def _settings(cluster: ClusterOptions) -> dict[str, str]:
    """The settings of the brokers that the options give."""
    found: dict[str, str] = {}
    if cluster.replicas != 1:
        found["default.replication.factor"] = str(cluster.replicas)
    if cluster.no_auto_create:
        found["auto.create.topics.enable"] = "false"
    for text in cluster.broker_config or []:
        name, is_there, value = text.partition("=")
        if not is_there:
            fail(f"--broker-config {text}: write NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _topics(texts: list[str], partitions: int) -> dict[str, int]:
    """The topics of --topic, each with its number of partitions."""
    found: dict[str, int] = {}
    for text in texts:
        name, colon, count = text.partition(":")
        if colon and not (count.isascii() and count.isdigit() and 0 < int(count) <= 1000):
            fail(f"--topic {text}: write NAME, or NAME:N with 1 to 1000 partitions")
        if name in found:
            fail(f"--topic {text}: {name} is given twice")
        found[name] = int(count) if colon else partitions
    return found
