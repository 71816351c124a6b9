"""The commands that stand between Kafka's clients and a cluster: one in memory, or real brokers."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..files import CantWrite, Output
from ..spec.features import NEWEST, RELEASED
from .endings import fail, internal, needing
from .live import properties_of, restarts, security_of
from .options import output_of
from .traces import scheduled

if TYPE_CHECKING:
    from ..model.serve.control import Control
    from ..model.serve.faults import Faults
    from ..model.serve.schedule import Schedule
    from ..model.serve.served import Served
    from ..model.serve.server import Server

INCONCLUSIVE = 20
"""The exit code where a fault didn't come about: the run wasn't the one that was asked for."""

FaultTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--fault", metavar="DO:REQUEST[:NTH]",
        help="What goes wrong at a request, as lose_answer:EndTxn; or JSON, as in a script.",
    ),
]  # fmt: skip
Script = Annotated[Path | None, typer.Option("--script", metavar="FILE", help="Faults, as JSON.")]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE",
        help="What goes wrong in a run of the checker: a trace in ITF, as check --trace writes it.",
    ),
]  # fmt: skip
Rate = Annotated[
    float,
    typer.Option(
        "--random", min=0, max=1, metavar="RATE",
        help="Faults at random, for so large a part of the protocol's requests.",
    ),
]  # fmt: skip
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="What --random draws them with.")]
RandomScript = Annotated[
    Output | None,
    typer.Option(
        "--random-script", metavar="FILE", parser=output_of,
        help="Write those that came about at random as a script, which brings them about again.",
    ),
]  # fmt: skip
ControlPort = Annotated[
    int | None,
    typer.Option(
        "--control", min=0, max=65_535, metavar="PORT",
        help="Take faults over HTTP, at this port on loopback; 0 takes any.",
    ),
]  # fmt: skip
HistoryFile = Annotated[
    Output | None,
    typer.Option(
        "--history", metavar="FILE", parser=output_of,
        help="Record what is asked and told, for judge: a line of JSON for each.",
    ),
]  # fmt: skip
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", min=0, metavar="S", help="End by itself after so long."),
]


class Wanted(NamedTuple):
    """What goes wrong on demand, and what is written of it."""

    faults: list[str]
    script: Path | None
    schedule: Schedule | None
    rate: float
    seed: int
    random_script: Output | None
    control: int | None
    history: Output | None
    seconds: float | None


def serve(
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol", metavar="R", help="The release (default: the trace's, or the newest)."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The first broker's; 0 takes any.")
    ] = 9092,
    brokers: Annotated[
        int, typer.Option("--brokers", min=1, max=5, help="How many brokers, each on a port.")
    ] = 1,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME[:N]", help="A topic, of N partitions."),
    ] = None,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", min=1, max=1000, metavar="N",
            help="The partitions of a topic that is made because a client names it.",
        ),
    ] = 1,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    acls: Annotated[
        Path | None,
        typer.Option(
            "--acls", metavar="FILE",
            help='Who may do what, as JSON: {"acls": [...]}; whoever asks is User:ANONYMOUS, or by '
            "--users.",
        ),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            "--users", metavar="FILE",
            help="Want SASL, PLAIN or SCRAM: users and their passwords, name=password on a line.",
        ),
    ] = None,
    unsecured_tokens: Annotated[
        bool,
        typer.Option(
            "--unsecured-tokens",
            help="Take SASL/OAUTHBEARER: whoever has an unsigned token is its subject.",
        ),
    ] = False,
    faults: FaultTexts = None,
    script: Script = None,
    trace: TraceFile = None,
    rate: Rate = 0,
    seed: Seed = 0,
    random_script: RandomScript = None,
    control: ControlPort = None,
    history: HistoryFile = None,
    seconds: Seconds = None,
) -> None:  # fmt: skip
    """Serve a cluster in memory, with the oracle in it, to Kafka's clients until Ctrl-C."""
    with needing("broker"):
        from ..model.serve.server import Server
    schedule: Schedule | None = None
    if trace is not None:
        instance, _, schedule = scheduled(trace, by_clock=False)
        if protocol not in (None, instance.protocol):
            fail(f"{trace} is of release {instance.protocol}, not of {protocol}")
        protocol = instance.protocol
    protocol = protocol or NEWEST
    if protocol not in RELEASED:
        fail(f"{protocol}: no release is called so: take one of {', '.join(RELEASED)}")
    named = _topics(topics or [], partitions)
    passwords = None if users is None else _passwords(users)
    try:
        server = Server(
            protocol, brokers=brokers, partitions=partitions, host=listen, port=port, topics=named,
            passwords=passwords, unsecured_tokens=unsecured_tokens,
        )  # fmt: skip
    except ValueError as error:
        fail(f"--topic, --users or --unsecured-tokens: {error}")
    if acls is not None:
        _authorize(server, acls)
    wanted = Wanted(
        faults or [], script, schedule, rate, seed, random_script, control, history,
        seconds,
    )  # fmt: skip
    _run(server, f"Kafka {protocol} in memory", wanted)


def proxy(
    upstream: Annotated[
        str, typer.Option("--upstream", metavar="HOST:PORT", help="A broker of the cluster.")
    ],
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT",
            help="Where it listens, for the first broker; the others follow. Port 0 takes any.",
        ),
    ] = "127.0.0.1:9192",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE",
            help="A client's properties for the brokers: TLS and SASL. Clients need none.",
        ),
    ] = None,
    restart_command: Annotated[
        str | None,
        typer.Option(
            "--restart-command", metavar="COMMAND",
            help="Kills the broker and starts it again, for fail_over_coordinator.",
        ),
    ] = None,
    faults: FaultTexts = None,
    script: Script = None,
    trace: TraceFile = None,
    rate: Rate = 0,
    seed: Seed = 0,
    random_script: RandomScript = None,
    control: ControlPort = None,
    history: HistoryFile = None,
    seconds: Seconds = None,
) -> None:  # fmt: skip
    """Stand between Kafka's clients and real brokers, until Ctrl-C, with faults in between."""
    with needing("broker"):
        from ..model.live.connection import BrokerError
        from ..model.serve.proxy import Proxy
    host, _, number = listen.rpartition(":")
    if not host or not (number.isascii() and number.isdigit() and int(number) < 2**16):
        fail(f"--listen {listen}: write HOST:PORT")
    schedule = None if trace is None else scheduled(trace, by_clock=True)[-1]
    how = security_of(config)
    restart = restarts(restart_command) if restart_command else None
    try:
        between = Proxy(upstream, host=host, port=int(number), how=how, restart=restart)
    except BrokerError as error:
        fail(error)
    wanted = Wanted(
        faults or [], script, schedule, rate, seed, random_script, control, history,
        seconds,
    )  # fmt: skip
    _run(between, f"proxy to {upstream}", wanted)


def _run(served: Served, what: str, wanted: Wanted) -> None:
    """Serves until a signal comes or the time is over, and tells what became of the faults."""
    from ..model.serve.faults import script_text
    from ..model.serve.history import History
    from ..model.serve.wire import CantListen

    _put(served.faults, wanted)
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
            http = controls and stack.enter_context(controls(served, wanted.control or 0))
            print(f"{what}: bootstrap.servers={served.bootstrap}", flush=True)
            if wanted.schedule is not None:
                print(f"clients of the trace: {wanted.schedule.text()}", flush=True)
            if http is not None:
                print(f"faults at {http.address}/faults", flush=True)
            stopped.wait(wanted.seconds)
        drawn = served.faults.drawn
        if wanted.random_script is not None:
            wanted.random_script.write(script_text([] if drawn is None else drawn.script()))
    except (CantListen, CantWrite) as error:
        fail(error)
    except Exception as error:
        internal(error)
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
    print(served.report())
    if not served.faults.all_fired:
        raise typer.Exit(INCONCLUSIVE)


def _controls() -> type[Control]:
    with needing("broker", "explore"):
        from ..model.serve.control import Control
    return Control


def _put(faults: Faults, wanted: Wanted) -> None:
    """Puts faults in place."""
    from ..model.serve.faults import BadFault, Drawn, read_script, read_short

    place = "--script"
    try:
        if wanted.script is not None:
            place = str(wanted.script)
            for given in read_script(wanted.script.read_bytes()):
                faults.add(given)
        if wanted.schedule is not None:
            place = "--trace"
            for given in wanted.schedule.faults:
                faults.add(dict(given))
        for text in wanted.faults:
            place = f"--fault {text}"
            faults.add(read_short(text))
    except BadFault as error:
        fail(f"{place}: {error}")
    except OSError as error:
        fail(f"can't read {place}: {error.strerror}")
    if wanted.rate:
        faults.drawn = Drawn(wanted.rate, wanted.seed)
    elif wanted.random_script is not None:
        fail("--random-script: nothing is drawn without --random RATE")


def _authorize(server: Server, file: Path) -> None:
    """Puts the table of ACLs in a file in force."""
    from ..model.engine.errors import ModelError
    from ..model.requests import acls_of
    from ..strict_json import NotJson, read_json

    try:
        server.cluster.acls = acls_of(read_json(file.read_bytes()))
    except OSError as error:
        fail(f"can't read {file}: {error.strerror}")
    except NotJson as error:
        fail(f"{file}: no JSON ({error})")
    except ModelError as error:
        fail(f"{file}: {error}")


def _passwords(file: Path) -> dict[str, str]:
    """The users that a file names, with their passwords, which no message shows."""
    found = properties_of(file)
    if not found:
        fail(f"{file} names no user: write name=password on a line")
    return found


def _topics(texts: list[str], partitions: int) -> dict[str, int]:
    """The topics that --topic names, with their counts of partitions."""
    found: dict[str, int] = {}
    for text in texts:
        name, colon, count = text.partition(":")
        if colon and not (count.isascii() and count.isdigit() and 0 < int(count) <= 1000):
            fail(f"--topic {text}: write NAME, or NAME:N with N partitions, 1 to 1000")
        if name in found:
            fail(f"--topic {text}: {name} is given twice")
        found[name] = int(count) if colon else partitions
    return found
