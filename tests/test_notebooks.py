"""docs/questions.ipynb runs, and has the outputs of a run."""

import nbformat
import pytest

from epochfence.tests.notebooks import QUESTIONS, executed, outputs


@pytest.mark.long
def test_the_notebook_has_the_outputs_of_a_run() -> None:
    shown = outputs(nbformat.read(QUESTIONS, as_version=4))
    assert outputs(executed(QUESTIONS)) == shown, "python tests/notebooks.py renews them"


def test_the_notebook_asks_ten_questions_and_answers_each() -> None:
    notebook = nbformat.read(QUESTIONS, as_version=4)
    titles = [
        cell.source.splitlines()[0]
        for cell in notebook.cells
        if cell.cell_type == "markdown" and cell.source.startswith("## ")
    ]
    assert [title.split(".")[0] for title in titles] == [f"## {n}" for n in range(1, 11)]
    assert all(outputs(notebook))
    assert not any(
        "image/png" in o.get("data", {}) for c in notebook.cells for o in c.get("outputs", [])
    )
