"""Kafka's own producer, in a JVM of its own, driven call by call."""

from __future__ import annotations

import atexit
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from ...serve.rules.program import NoProgramError, Program
from ..classes.host import UnavailableError, compile_java, program

LONGEST_S: Final = 600.0
"""The limit of a call's time in s. One call sends as many refused batches as a producer id has
epochs."""


@cache
def _compiled(class_path: str) -> str:
    """The class path with Driven.java compiled."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    source = Path(__file__).with_name("Driven.java")
    compile_java(source.name, class_path, Path(folder.name), source)
    return f"{class_path}{os.pathsep}{folder.name}"


class JavaClient(Program):
    """Kafka's producer of the version that `class_path` has. It is a context manager.

    `settings` are the producer's settings, with underscores for dots, and `topic`, its topic.
    Raises UnavailableError without a JDK, or if the producer doesn't start.
    """

    def __init__(self, bootstrap: str, class_path: str, **settings: Any) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        given = {"bootstrap.servers": bootstrap, "linger.ms": 0} | given
        command = [program("java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                   "-cp", _compiled(class_path), "Driven"]  # fmt: skip
        try:
            super().__init__(command, [f"{n}={v}" for n, v in given.items()], LONGEST_S)
        except NoProgramError:
            raise UnavailableError(f"Kafka's producer doesn't start with {given}") from None

    def do(self, call: str, partition: int = 0, value: str = "") -> str:
        """The outcome of a call: ok, or the name of its exception. `send` returns at once. `values`
        returns the committed records of the partition, separated by commas. `commitAside` commits
        in another thread, and `outcome` waits for it. Raises HungError after LONGEST_S."""
        return self.call(f"{call} {partition} {value}")
