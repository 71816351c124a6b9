"""Options that several commands share, and functions that read their values."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar

import typer

from ..checker.named_systems import load_system
from ..files import Output
from ..language import DEFAULT, DeclarationError, Instance, System, instantiate
from ..language.protocols import MIXED
from . import completion
from .exits import fail, needing

if TYPE_CHECKING:
    from ..checker.many.workers import Workers

T = TypeVar("T")


class Features(TypedDict):
    """The features that are switched, as `instantiate` takes them."""

    switch_on: Iterable[str]
    switch_off: Iterable[str]


SMALL = "small"
LONGEST = 100  # characters of a value in an error message

SystemName = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        help="A shipped system, or FILE.py[:NAME], which runs as Python code.",
        autocompletion=completion.systems,
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        "--broker",
        metavar="R",
        help="Release (default: the newest). 3.9+client=2.7 gives one part another release.",
        autocompletion=completion.protocols,
    ),
]
Client = Annotated[
    str | None,
    typer.Option("--client", metavar="R", help="The client's release (default: --protocol)."),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator", metavar="R", help="The coordinator's release (default: --protocol)."
    ),
]
Leader = Annotated[
    str | None,
    typer.Option("--leader", metavar="R", help="The leaders' release (default: --protocol)."),
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
        help="A named set of bounds of the system, such as small.",
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
        help="Check only this property (repeatable; default: all).",
        autocompletion=completion.properties,
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="Address of a broker of the cluster."),
]
ClientProperties = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Client properties file, with TLS and SASL."),
]
Engine = Annotated[str, typer.Option("--engine", metavar="E", help="local or spark.")]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="URL of the Spark cluster (default: this machine)."
    ),
]
SparkUi = Annotated[
    bool | None, typer.Option("--spark-ui", help="Serve Spark's web UI on localhost.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="N", min=1, max=64, help="Number of processes (default: all cores)."
    ),
]
MemoryOfEach = Annotated[
    float | None,
    typer.Option(
        "--memory", metavar="GiB", help="Memory limit of each process (default: an equal share)."
    ),
]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=A..B", help="Values of a constant, as 1..3 or 1,2,5."),
]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="FILE",
        help="Save each result to FILE as a line of JSON, and reuse the results found there.",
    ),
]


LONGEST_WAIT = 10**9  # seconds; the system's clock has about ten times this range


def a_number(value: float | None) -> float | None:
    """The value. Raises BadParameter for NaN, which no range excludes."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan isn't a number")
    return value


def seconds_option(what: str, *, name: str = "--seconds") -> Any:
    """An option that takes seconds, with this help."""
    return typer.Option(name, min=0, max=LONGEST_WAIT, callback=a_number, metavar="S", help=what)


def output_of(text: str) -> Output:
    """The output file that an option names. Raises CantWriteError."""
    return Output(Path(text))


@contextmanager
def _silence() -> Generator[None]:
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def _alone(context: typer.Context, output: Output | None) -> Output | None:
    """Suppresses all other standard output if the option is `-`."""
    if output is not None and output.is_standard_output:
        context.with_resource(_silence())
    return output


def _json(content: str) -> Any:
    return typer.Option(
        "--json",
        metavar="FILE",
        parser=output_of,
        callback=_alone,
        help=f"Write {content} as JSON. - means standard output, without the usual text.",
    )


NoDeadlock = Annotated[
    bool, typer.Option("--no-deadlock", help="Don't report deadlocks: a run may end in any state.")
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit with 20 if something holds vacuously without a known reason."
    ),
]
KeepGoing = Annotated[
    bool,
    typer.Option(
        "--keep-going", help="Continue after a broken property, and report every property."
    ),
]
TransactionVersion = Annotated[
    int | None,
    typer.Option(
        "--transaction-version",
        min=0,
        max=2,
        metavar="LEVEL",
        help="The brokers' finalized transaction.version (default: the release's newest).",
    ),
]
Json = Annotated[Output | None, _json("the result")]
TraceFile = Annotated[
    Output | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        parser=output_of,
        help="Write the counterexample as a trace (ITF), for replay. Further ones go to "
        "NAME-2.itf.json, NAME-3.itf.json and so on.",
    ),
]
ReportFile = Annotated[
    Output | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        parser=output_of,
        callback=_alone,
        help="Write verdict, coverage and counterexample as an HTML page.",
    ),
]
JUnitFile = Annotated[
    Output | None,
    typer.Option(
        "--junit",
        metavar="FILE.xml",
        parser=output_of,
        callback=_alone,
        help="Write a JUnit report with a test case for each property.",
    ),
]
SarifFile = Annotated[
    Output | None,
    typer.Option(
        "--sarif",
        metavar="FILE",
        parser=output_of,
        callback=_alone,
        help="Write broken properties as SARIF, each at the line of the row that breaks it.",
    ),
]
JsonLines = Annotated[Output | None, _json("a line for each row,")]


def make_folder(option: str, folder: Path) -> None:
    """Creates the folder if it is missing; exits with one line if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{option} {folder}: can't create this folder: {error.strerror}")


def bounds_of(system: System, given: str | None) -> str:
    """The given bounds, else the small ones if the system has them."""
    if given is not None:
        return given
    return SMALL if SMALL in system.bound_names else DEFAULT


def mixed(protocol: str | None, **parts: str | None) -> str | None:
    """The protocol, with the releases that single parts have instead."""
    own = [f"{MIXED}{part}={release}" for part, release in parts.items() if release is not None]
    return (protocol or "") + "".join(own) if own else protocol


def memory_of(gib: float | None) -> int | None:
    """The bytes of --memory (GiB); exits with one line if it is no valid number."""
    if gib is not None and not 0 < gib < 1e6:  # which NaN isn't
        fail(f"--memory {gib:g}: must be above 0 and below 1,000,000 (GiB)")
    return None if gib is None else int(gib * 2**30)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The release, bounds, constants and features of a system's run."""

    protocol: Protocol = None
    bounds: Bounds = DEFAULT
    constants: Constants = None
    with_: On = None
    without: Off = None

    @property
    def are_given(self) -> bool:
        """Whether any of these options is given."""
        given = (self.protocol, self.constants, self.with_, self.without)
        return any(given) or self.bounds != DEFAULT

    @property
    def features(self) -> Features:
        """The features that are switched, as `instantiate` takes them."""
        return {"switch_on": self.with_ or (), "switch_off": self.without or ()}

    def instance(self, system: System, *, progress: bool = False) -> Instance:
        """The instance of the system with these options. Raises DeclarationError."""
        given = constants_of(self.constants)
        return instantiate(
            system, self.protocol, given, bounds=self.bounds, progress=progress, **self.features
        )


@dataclass(frozen=True, kw_only=True)
class CheckOptions(RunOptions):
    """As RunOptions, with the properties to check."""

    properties: Properties = None

    def of(self, system: System, *, progress: bool = False) -> Instance:
        """The instance of the system with these options. Raises DeclarationError."""
        return instantiate(
            system,
            self.protocol,
            constants_of(self.constants),
            bounds=self.bounds,
            properties=self.properties or None,
            progress=progress,
            **self.features,
        )

    def checked(
        self,
        system: str,
        memory: int | None = None,
        *,
        progress: bool = False,
        meanwhile: Callable[[], object] | None = None,
    ) -> Instance:
        """The instance of the system with this name and these options. Exits with one line if the
        system or an option is wrong, or if there is no property to check. With `progress` its
        progress properties are included. A FILE.py may use `memory` bytes while it runs (None: a
        default). `meanwhile` is called during that time."""
        try:
            found = self.of(load_system(system, memory, meanwhile), progress=progress)
        except DeclarationError as error:
            fail(error)
        return with_property(system, found)


def with_property(system: str, found: Instance) -> Instance:
    """The instance of that system; exits with one line if it has no property to check."""
    if not found.properties and not found.progress:
        fail(f"{system} declares no property: there is nothing to check")
    return found


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The engine: this machine, or Spark."""

    engine: Engine = "local"
    master: Master = None
    spark_ui: SparkUi = None

    @property
    def on_spark(self) -> bool:
        return self.engine == "spark"

    def heed(self, **others: object) -> None:
        """Exits with one line if the engine is unknown, or if the local engine gets an option that
        is for Spark: one of this class, or of `others`."""
        if self.engine not in ("local", "spark"):
            fail(f"--engine {self.engine}: must be local or spark")
        for option, value in {
            "--master": self.master,
            **others,
            "--spark-ui": self.spark_ui,
        }.items():
            if not self.on_spark and value is not None:
                fail(f"{option} needs --engine spark")

    def workers(self, jobs: int | None) -> Workers:
        """The worker processes: on this machine, or Spark's."""
        with needing("check"):
            from ..checker.many.workers import Workers
            from ..checker.prepare import available_threads
            from ..checker.spark.options import SparkOptions
        threads = jobs or available_threads()
        spark = SparkOptions(threads, self.master, ui=bool(self.spark_ui))
        return Workers(threads, spark if self.on_spark else None)


def constants_of(given: list[str] | None) -> dict[str, int]:
    """The values of --set; exits with one line if one is wrong."""
    return settings_of(given, int, "NAME=VALUE with a whole number")


def settings_of(given: list[str] | None, read: Callable[[str], T], form: str) -> dict[str, T]:
    """The value that --set gives each constant; exits with one line if it isn't in this form."""
    values: dict[str, T] = {}
    for pair in given or []:
        name, _, value = pair.partition("=")
        if not name:
            fail(f"--set {pair[:LONGEST]}: the name of the constant is missing")
        if name in values:
            fail(f"--set {name}: it is set twice: leave one of them out")
        try:
            values[name] = read(value)
        except ValueError:
            fail(f"--set {pair[:LONGEST]}: write {form}")
    return values
