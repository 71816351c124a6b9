"""Checks a cluster's executors before a run: their Python and packages must equal the driver's."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from .options import SparkError

PACKAGES = ("epochfence", "numba", "llvmlite", "numpy", "pyarrow", "pyspark")
REMEDY = "ship the driver's environment with --archives and name its Python in PYSPARK_PYTHON"
LOST = re.compile(r"\(([^\s()]+) executor (\w+)\)")  # the pattern in Spark's message about a task


def check_executors(session: Any, reason: Callable[[Exception], str]) -> None:
    """Raises SparkError for an executor that lacks the package, or has another Python or other
    packages than the driver. `reason` shortens an error of Spark's to a line.
    """
    context = session.sparkContext
    count = max(1, int(context.defaultParallelism))
    look = looking(PACKAGES)
    try:
        found = context.parallelize(range(count), count).mapPartitions(look).collect()
    except Exception as error:  # various types, from Java and from Python
        lost = LOST.search(str(getattr(error, "java_exception", None) or error))
        who = f"executor {lost[2]} on {lost[1]}" if lost else "an executor"
        raise SparkError(f"{who} can't run Python: {reason(error)}; {REMEDY}") from None
    wanted = {"Python": python(), **{name: version(name) for name in PACKAGES}}
    for host, there in found:
        if said := difference(wanted, there):
            raise SparkError(f"the executor on {host} {said}; {REMEDY}")


def python() -> str:
    """The version of the driver's Python that executors must have."""
    return ".".join(platform.python_version_tuple()[:2])


def difference(wanted: Mapping[str, str], there: Mapping[str, str]) -> str:
    """The first difference between a driver and an executor; empty if there is none."""
    for name, here in wanted.items():
        if name not in there:
            return f"has no package {name}"
        if there[name] != here:
            return f"has {name} {there[name]}, and the driver has {here}"
    return ""


def looking(names: tuple[str, ...]) -> Callable[[Iterable[int]], Iterator[tuple[str, Any]]]:
    """A function for executors, which may lack Epochfence: its code is sent, and it imports only
    Python's standard modules. It returns the host, and the versions of Python and of the packages.
    """

    def look(_: Iterable[int]) -> Iterator[tuple[str, dict[str, str]]]:
        import socket
        import sys
        from importlib.metadata import PackageNotFoundError, version

        found = {"Python": ".".join(map(str, sys.version_info[:2]))}
        for name in names:
            try:
                __import__(name)
                found[name] = version(name)
            except (ImportError, PackageNotFoundError):
                continue
        yield socket.gethostname(), found

    return look
