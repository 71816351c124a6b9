"""The options that commands share, and what is read from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..files import Output
from ..language import DEFAULT, DeclarationError, Instance, System, instantiate
from ..language.protocols import MIXED
from ..spec.load import load_system
from . import completion
from .endings import fail, needing

if TYPE_CHECKING:
    from ..checker.workers import Spread

T = TypeVar("T")

SMALL = "small"
LONGEST = 100  # characters of a value that a message shows

SystemName = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        help="A name, or FILE.py[:NAME], which is run as Python.",
        autocompletion=completion.systems,
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        "--broker",
        metavar="R",
        help="The release (default: the newest), or R+PART=R with parts of other releases.",
        autocompletion=completion.protocols,
    ),
]
Client = Annotated[
    str | None, typer.Option("--client", metavar="R", help="The client's release, if it differs.")
]
Coordinator = Annotated[
    str | None,
    typer.Option("--coordinator", metavar="R", help="The coordinator's release, if it differs."),
]
Leader = Annotated[
    str | None, typer.Option("--leader", metavar="R", help="The leaders' release, if it differs.")
]
Constants = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Set a constant.", autocompletion=completion.constants
    ),
]
Bounds = Annotated[
    str,
    typer.Option(
        "--bounds",
        metavar="NAME",
        help="Bounds that the system names.",
        autocompletion=completion.bounds,
    ),
]
On = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="FEATURE",
        help="Switch this feature on.",
        autocompletion=completion.features,
    ),
]
Off = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="FEATURE",
        help="Switch this feature off.",
        autocompletion=completion.features,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="P",
        help="Check this property (default: all).",
        autocompletion=completion.properties,
    ),
]
Engine = Annotated[str, typer.Option("--engine", metavar="E", help="local (default), or spark.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's cluster (default: this machine)."),
]
SparkUi = Annotated[
    bool | None, typer.Option("--spark-ui", help="Serve Spark's web pages, to this machine only.")
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, max=64, help="Processes. Default: all cores.")
]
MemoryOfEach = Annotated[
    float | None,
    typer.Option("--memory", metavar="GiB", help="The most for each (default: a fair share)."),
]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=A..B", help="A constant's values, as 1..3 or 1,2,5."),
]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="FILE",
        help="Keep each result as a line of JSON; results that are there aren't computed again.",
    ),
]


def output_of(text: str) -> Output:
    """The place for a result that an option names. Raises CantWrite."""
    return Output(Path(text))


@contextmanager
def _silence() -> Generator[None]:
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def _alone(context: typer.Context, output: Output | None) -> Output | None:
    """With `--json -`, nothing else goes to standard output."""
    if output is not None and output.is_standard_output:
        context.with_resource(_silence())
    return output


def _json(told: str) -> Any:
    return typer.Option(
        "--json", metavar="FILE", parser=output_of, callback=_alone,
        help=f"Write {told} as JSON; - is standard output, which then has nothing else.",
    )  # fmt: skip


NoDeadlock = Annotated[
    bool, typer.Option("--no-deadlock", help="Don't look for deadlocks: a run may end anywhere.")
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Inconclusive (20) where something holds vacuously for no known reason."
    ),
]
KeepGoing = Annotated[
    bool,
    typer.Option("--keep-going", help="Continue after a property breaks, and report on each one."),
]
Json = Annotated[Output | None, _json("the result")]
TraceFile = Annotated[
    Output | None,
    typer.Option(
        "--trace", metavar="FILE", parser=output_of,
        help="Write the counterexample as a trace in ITF, for replay; a second one goes to "
        "NAME-2.itf.json beside it, and so on.",
    ),
]  # fmt: skip
ReportFile = Annotated[
    Output | None,
    typer.Option(
        "--report", metavar="FILE.html", parser=output_of, callback=_alone,
        help="Write verdict, coverage and counterexample as a page that needs no network.",
    ),
]  # fmt: skip
JUnitFile = Annotated[
    Output | None,
    typer.Option(
        "--junit", metavar="FILE.xml", parser=output_of, callback=_alone,
        help="Write a test case for each property, as test runners do.",
    ),
]  # fmt: skip
SarifFile = Annotated[
    Output | None,
    typer.Option(
        "--sarif", metavar="FILE", parser=output_of, callback=_alone,
        help="Write what is broken as SARIF, at the line of the row whose step breaks it.",
    ),
]  # fmt: skip
JsonLines = Annotated[Output | None, _json("a line for each row,")]


def make_folder(option: str, folder: Path) -> None:
    """Ends with one line where there is no such folder and it can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{option} {folder}: no folder can be made here: {error.strerror}")


def bounds_of(system: System, given: str | None) -> str:
    """The bounds that are asked for, or small ones where a system has them."""
    if given is not None:
        return given
    return SMALL if SMALL in system.bound_names else DEFAULT


def mixed(protocol: str | None, **parts: str | None) -> str | None:
    """The protocol with the releases that parts of the system have for themselves."""
    own = [f"{MIXED}{part}={release}" for part, release in parts.items() if release is not None]
    return (protocol or "") + "".join(own) if own else protocol


def spread_of(jobs: int | None, engine: str, master: str | None, spark_ui: bool | None) -> Spread:
    """The processes that pieces of work go to: of this machine, or Spark's."""
    with needing("check"):
        from ..checker.check import available_threads
        from ..checker.spark.options import SparkOptions
        from ..checker.workers import Spread
    threads = jobs or available_threads()
    return Spread(
        threads, SparkOptions(threads, master, ui=bool(spark_ui)) if engine == "spark" else None
    )


def memory_of(gib: float | None) -> int | None:
    """The bytes of --memory, or the end with one line."""
    if gib is not None and not 0 < gib < 1e6:  # which NaN isn't
        fail(f"--memory {gib:g}: give a number of GiB above 0 and below a million")
    return None if gib is None else int(gib * 2**30)


def check_engine(engine: str, **for_spark: object) -> None:
    """Ends with one line where there is no such engine, or an option is for the other one."""
    if engine not in ("local", "spark"):
        fail(f"--engine {engine}: local or spark")
    for option, value in for_spark.items():
        if engine == "local" and value is not None:
            fail(f"{option} is for --engine spark")


def checked_instance(
    system: str,
    protocol: str | None,
    bounds: str,
    constants: list[str] | None,
    with_: list[str] | None,
    without: list[str] | None,
    properties: list[str] | None,
    memory: int | None = None,
    progress: bool = False,
) -> Instance:
    """The system that the command line names, with a property to check at least; with `progress`,
    those of progress are among them."""
    instance = instance_of(
        system, protocol, bounds, constants, with_, without, properties, memory, progress
    )
    if not instance.properties and not instance.progress:
        fail(f"{system} names no property: without one there is nothing to check")
    return instance


def instance_of(
    system: str,
    protocol: str | None,
    bounds: str,
    constants: list[str] | None,
    with_: list[str] | None = None,
    without: list[str] | None = None,
    properties: list[str] | None = None,
    memory: int | None = None,
    progress: bool = False,
) -> Instance:
    """The system that the command line names, or the end with one line that says what is wrong.

    Running a FILE.py may take `memory` bytes (none: a default).
    """
    try:
        return instantiate(
            load_system(system, memory),
            protocol,
            constants_of(constants),
            bounds=bounds,
            switch_on=with_ or (),
            switch_off=without or (),
            properties=properties or None,
            progress=progress,
        )
    except DeclarationError as error:
        fail(error)


def constants_of(given: list[str] | None) -> dict[str, int]:
    """The values of --set, or the end with one line."""
    return settings_of(given, int, "NAME=VALUE with a whole number")


def settings_of(given: list[str] | None, read: Callable[[str], T], form: str) -> dict[str, T]:
    """What --set says of each constant, or the end with one line where it isn't in this form."""
    values: dict[str, T] = {}
    for pair in given or []:
        name, _, value = pair.partition("=")
        try:
            values[name] = read(value)
        except ValueError:
            fail(f"--set {pair[:LONGEST]}: write {form}")
    return values
