"""`vectors`: writes test vectors for implementations in other languages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ...files import Output, is_folder
from ...language.declaration.arguments import one_of
from ...spec.releases.features import NEWEST, RELEASED
from ..exits import fail, needing
from ..options import make_folder


def vectors(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new folder, or that of an earlier run.")
    ],
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="R", help="Release (default: the newest).")
    ] = NEWEST,
    machine: Annotated[
        Literal["coordinator", "leader"] | None,
        typer.Option("--machine", help="Only this machine (default: both)."),
    ] = None,
) -> None:
    """Write test vectors for each row of coordinator and leader as JSON, for any language."""
    with needing("broker"):
        from ...model.conformance.vectors.json_files import SCHEMA, text, vectors
        from ...model.conformance.vectors.search import OF_MACHINES, Search
    if protocol not in RELEASED:
        fail(f"{protocol}: unknown release: {one_of(protocol, RELEASED)}")
    machines = tuple(OF_MACHINES) if machine is None else (machine,)
    names = {SCHEMA, *(f"{name}.json" for name in OF_MACHINES)}
    foreign = sorted(path.name for path in folder.iterdir()) if is_folder(folder) else []
    for name in foreign:
        if name not in names:
            fail(f"{folder} has other files ({name}) and is left as it is: choose a new folder")
    make_folder("DIR", folder)
    places = {name: Output(folder / name) for name in (SCHEMA, *(f"{m}.json" for m in machines))}
    search = Search(protocol)
    every = {name: vectors(search, name) for name in machines}
    places[SCHEMA].write(schema_text())
    for name, data in every.items():
        places[f"{name}.json"].write(text(data))
        count = f"{data['rows_covered']} of {data['rows']} rows, {len(data['vectors'])} vectors"
        print(f"{folder / name}.json: {protocol}, {count}")


def schema_text() -> str:
    """The JSON schema of the files."""
    from ...model.conformance.vectors import json_files

    return Path(json_files.__file__).with_name(json_files.SCHEMA).read_text(encoding="utf-8")
