"""The command that serves a cluster in memory to Kafka's clients."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import CantWrite, Output
from ..spec.features import NEWEST, RELEASED
from .endings import fail, internal, needing
from .options import output_of

if TYPE_CHECKING:
    from ..model.serve.control import Control
    from ..model.serve.server import Server

INCONCLUSIVE = 20
"""The exit code where a fault didn't come about: the run wasn't the one that was asked for."""


def serve(
    protocol: Annotated[str, typer.Option("--protocol", metavar="R", help="The release.")] = NEWEST,
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
    faults: Annotated[
        list[str] | None,
        typer.Option(
            "--fault", metavar="DO:REQUEST[:NTH]",
            help="What goes wrong at a request, as lose_answer:EndTxn; or JSON, as in a script.",
        ),
    ] = None,
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="Faults, as JSON.")
    ] = None,
    control: Annotated[
        int | None,
        typer.Option(
            "--control", min=0, max=65_535, metavar="PORT",
            help="Take faults over HTTP, at this port on loopback; 0 takes any.",
        ),
    ] = None,
    history: Annotated[
        Output | None,
        typer.Option(
            "--history", metavar="FILE", parser=output_of,
            help="Record what is asked and told, for judge: a line of JSON for each.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, metavar="S", help="End by itself after so long."),
    ] = None,
) -> None:  # fmt: skip
    """Serve a cluster in memory, with the oracle in it, to Kafka's clients until Ctrl-C."""
    with needing("broker"):
        from ..model.serve.history import History
        from ..model.serve.server import Server
        from ..model.serve.wire import CantListen
    if protocol not in RELEASED:
        fail(f"{protocol}: no release is called so: take one of {', '.join(RELEASED)}")
    named = _topics(topics or [], partitions)
    try:
        server = Server(
            protocol, brokers=brokers, partitions=partitions, host=listen, port=port, topics=named
        )
    except ValueError as error:
        fail(f"--topic: {error}")
    _put(server, faults or [], script)
    controls = None if control is None else _controls()
    stopped = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        stopped.set()

    before = {which: signal.signal(which, stop) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ExitStack() as stack:
            if history is not None:
                server.history = History(stack.enter_context(history.writing()))
            stack.enter_context(server)
            http = controls and stack.enter_context(controls(server, control or 0))
            print(f"Kafka {protocol} in memory: bootstrap.servers={server.bootstrap}", flush=True)
            if http is not None:
                print(f"faults at {http.address}/faults", flush=True)
            stopped.wait(seconds)
    except (CantListen, CantWrite) as error:
        fail(error)
    except Exception as error:
        internal(error)
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
    print(server.report())
    if server.faults.unfired:
        raise typer.Exit(INCONCLUSIVE)


def _controls() -> type[Control]:
    with needing("broker", "explore"):
        from ..model.serve.control import Control
    return Control


def _put(server: Server, faults: list[str], script: Path | None) -> None:
    """Puts faults in place."""
    from ..model.serve.faults import BadFault, read_script, read_short

    place = "--script"
    try:
        if script is not None:
            place = str(script)
            for given in read_script(script.read_bytes()):
                server.faults.add(given)
        for text in faults:
            place = f"--fault {text}"
            server.faults.add(read_short(text))
    except BadFault as error:
        fail(f"{place}: {error}")
    except OSError as error:
        fail(f"can't read {place}: {error.strerror}")


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
