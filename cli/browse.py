"""The command that explores a system by hand, in a browser."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..language import DEFAULT, DeclarationError, Instance, instantiate
from ..spec.load import load_system
from .endings import fail, needing, tell_wait
from .options import Bounds, Constants, Off, On, Protocol, SystemName, constants_of

HOST, PORT = "127.0.0.1", 8021


def explore(
    system: SystemName,
    protocol: Protocol = None,
    bounds: Bounds = DEFAULT,
    constants: Constants = None,
    with_: On = None,
    without: Off = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Of this machine; 0: any that is free.")
    ] = PORT,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Begin at the end of this trace, in ITF."),
    ] = None,
) -> None:
    """Serve SYSTEM to a browser of this machine: take steps, and see why others aren't possible."""
    given = constants_of(constants)

    def at(release: str | None) -> Instance:
        return instantiate(
            declared, release, given, bounds=bounds, switch_on=with_ or (),
            switch_off=without or (),
        )  # fmt: skip

    try:
        declared = load_system(system)
        instance = at(protocol)
    except DeclarationError as error:
        fail(error)
    with needing("check", "explore"):
        import uvicorn

        from ..checker.itf import TraceError, read_trace
        from ..diagrams.explorer.app import Explorer, application
        from ..diagrams.explorer.session import PathError, as_text
    releases = [r for r in instance.system.protocols.checked if r != instance.protocol]
    path = ""
    try:
        explorer = Explorer(instance, releases, at)
        if trace is not None:
            tell_wait(trace)
            found = explorer.path_of(read_trace(trace.read_bytes()))
            path = f"#path={as_text(found)}"
    except OSError as error:
        fail(f"can't read {trace}: {error.strerror}")
    except (TraceError, PathError) as error:
        fail(f"{trace}: {error}")
    except DeclarationError as error:
        fail(error)
    listening = _listening(port)
    at_port = listening.getsockname()[1]
    print(f"http://{HOST}:{at_port}/{path} shows {instance.system.name}; Ctrl-C ends it.")
    sys.stdout.flush()
    config = uvicorn.Config(
        application(explorer), log_level="error", access_log=False, server_header=False,
        lifespan="off", timeout_graceful_shutdown=1, h11_max_incomplete_event_size=64 << 10,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # which is how it ends
        raise typer.Exit from None


def _listening(port: int) -> socket.socket:
    """A socket on this port, or the end with one line."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            fail(f"--port {port}: another program has it: take another, or 0 for any that is free")
        fail(f"--port {port}: {os.strerror(error.errno or 0)}")
    return listening
