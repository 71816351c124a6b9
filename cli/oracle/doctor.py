"""`doctor`: which transaction hangs, why, and what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exits import fail, needing, write_json
from ..options import Json
from .conform import security_of


def doctor(
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="Address of a broker."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Client properties file, with TLS and SASL."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="T", help="Look at this topic only (repeatable)."),
    ] = None,
    output: Json = None,
) -> None:
    """Find transactions that hang, with cause, remedy and risk. It only reads."""
    with needing("broker"):
        from ...model.doctor.examination import examine
        from ...model.doctor.live import Cluster
        from ...model.doctor.report import as_json, lines
        from ...model.wire.connection import BrokerError
    if bootstrap is None:
        fail("give --bootstrap HOST:PORT")
    try:
        with Cluster(bootstrap, security_of(config), topics=topics or ()) as cluster:
            found = examine(cluster)
    except BrokerError as error:
        fail(error)
    for line in lines(found):
        print(line)
    write_json(output, as_json(found))
    raise typer.Exit(found.verdict)
