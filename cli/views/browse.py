"""`explore`: steps through a system by hand, in a browser."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated

import typer

from ...checker.named_systems import load_system
from ...garbage import collected
from ...language import DeclarationError, Instance, instantiate
from ..checking.traces import instance_of, is_called, reading
from ..exits import fail, needing
from ..options import RunOptions, SystemName

if TYPE_CHECKING:
    from starlette.applications import Starlette

PORT = 8021


def explore(
    system: SystemName,
    chosen: RunOptions,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=0, max=65_535, help="Port on localhost; 0 picks a free one."
        ),
    ] = PORT,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Start at the end of this trace (ITF), with its release and constants.",
        ),
    ] = None,
) -> None:
    """Explore SYSTEM by hand in a browser: take steps, and see why other steps are impossible."""
    with needing("check", "explore"):
        from ...checker.trace.itf import TraceFile, read_trace
        from ...diagrams.explorer.app import application
        from ...diagrams.explorer.explorer import Explorer
        from ...diagrams.explorer.session import PathError
    begin: TraceFile | None = None
    if trace is not None:
        with reading(trace):
            begin = read_trace(trace.read_bytes())
    of = None if begin is None or chosen.are_given else begin.settings

    def at(release: str | None) -> Instance:
        if of is None:
            return replace(chosen, protocol=release).instance(declared)
        if release is None:
            return instance_of(declared, of)
        return instantiate(declared, release, of.constants)

    try:
        declared = load_system(system)
        if of is not None and not is_called(of.system, system, declared.name):
            fail(f"{trace} is a trace of {of.system}, not of {declared.name}")
        instance = at(chosen.protocol)
        releases = [r for r in declared.protocols.releases if r != instance.protocol]
        explorer = Explorer(instance, releases, at)
    except DeclarationError as error:
        fail(error)
    path = ""
    if trace is not None and begin is not None:
        try:
            with reading(trace):
                path = f"#{explorer.link(explorer.path_of(begin))}"
        except PathError as error:
            fail(f"{trace}: {error}")
    _serve(application(explorer), declared.name, port, path)


def _serve(application: Starlette, name: str, port: int, path: str) -> None:
    """Serves the page until Ctrl-C. Prints the address with this path."""
    from ...loopback import http_server
    from ...sockets import HOST

    listening = _listening(port)
    at_port = listening.getsockname()[1]
    print(f"http://{HOST}:{at_port}/{path} shows {name}. Press Ctrl-C to stop.")
    sys.stdout.flush()
    try:
        with collected():  # main() makes garbage collection rare; closed connections are garbage
            http_server(application).run(sockets=[listening])
    except KeyboardInterrupt:  # the normal end
        raise typer.Exit from None


def _listening(port: int) -> socket:
    """A socket on this port; exits with one line if the port can't be used."""
    from ...sockets import listening

    try:
        return listening(port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fail(f"--port {port}: in use by another program: choose another, or 0 for a free one")
        fail(f"--port {port}: {os.strerror(error.errno or 0)}")
