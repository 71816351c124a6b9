"""Kafka's own producer, in a JVM of its own, driven call by call."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..classes.host import UnavailableError, compile_java, program


@cache
def _compiled(class_path: str) -> str:
    """The class path with Driven.java compiled."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    source = Path(__file__).with_name("Driven.java")
    compile_java(source.name, class_path, Path(folder.name), source)
    return f"{class_path}{os.pathsep}{folder.name}"


class JavaClient:
    """Kafka's producer of the version that `class_path` has. It is a context manager.

    `settings` are the producer's, with underscores for dots; `topic` is where it writes. Raises
    UnavailableError without a JDK.
    """

    def __init__(self, bootstrap: str, class_path: str, **settings: Any) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        given = {"bootstrap.servers": bootstrap, "linger.ms": 0} | given
        self._process = subprocess.Popen(
            [program("java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
             "-cp", _compiled(class_path), "Driven", *(f"{n}={v}" for n, v in given.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            self.close()
            raise UnavailableError(f"Kafka's producer doesn't start with {given}")

    def do(self, call: str, partition: int = 0, value: str = "") -> str:
        """The outcome of a call: ok, or the name of its exception. `send` returns at once. `values`
        returns the committed records of the partition, separated by commas. `commitAside` commits
        in another thread, and `outcome` waits for that."""
        requests, outcomes = self._process.stdin, self._process.stdout
        assert requests is not None
        assert outcomes is not None
        requests.write(f"{call} {partition} {value}\n")
        requests.flush()
        return outcomes.readline().strip()

    def close(self) -> None:
        """Ends it as if its machine had failed."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
