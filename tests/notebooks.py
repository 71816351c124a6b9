"""The notebook of docs/: its outputs, without pictures. `python tests/notebooks.py` renews them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

QUESTIONS = Path(__file__).parents[1] / "docs" / "questions.ipynb"


def executed(path: Path) -> Any:
    """The notebook after a run of all its cells. Of an output, the text is kept; of a plot, that
    there is one. Raises CellExecutionError if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:  # for sockets, which no other user reaches
        kernel = AsyncKernelManager(
            kernel_name="python3", transport="ipc", ip=str(Path(folder, "kernel"))
        )
        NotebookClient(notebook, km=kernel, timeout=600).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        for output in cell.get("outputs", []):
            if "data" in output:
                output.data = {"text/plain": output.data["text/plain"]}
    notebook.metadata.pop("language_info", None)  # Python's version
    return notebook


def outputs(notebook: Any) -> list[list[str]]:
    """The text of each output, by cell."""
    return [
        [
            output.get("data", output).get("text/plain", output.output_type)
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


if __name__ == "__main__":
    nbformat.write(executed(QUESTIONS), QUESTIONS)
