"""The house as its imports show it: a picture, the list of modules, and no circles."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from epochfence.diagrams.drawing.graph import Edge, Graph, Node
from epochfence.diagrams.drawing.render import to_same_svg

ROOT = Path(__file__).parents[1]
PACKAGE = "epochfence"
ROOMS = ("cli", "diagrams", "checker", "model", "spec", "language")
PICTURE, PAGE = "house.svg", "modules.md"
_HEAD = """\
<!-- Generated from the modules' docstrings by `make docs`. -->

# Modules

The modules of each folder, each with the first sentence of its docstring.
[Architecture](architecture.md) says how they work together.
"""


@cache
def modules() -> dict[str, Path]:
    """The files of the package by their dotted names, `epochfence` left out."""
    found: dict[str, Path] = {}
    for path in (
        *ROOT.glob("*.py"),
        *(file for room in ROOMS for file in (ROOT / room).rglob("*")),
    ):
        if path.suffix == ".py" and path != ROOT / "setup.py":
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(name: str) -> frozenset[str]:
    """The modules of this package that a module imports: in functions and for types as well."""
    path = modules()[name]
    package = [PACKAGE, *name.split(".")] if name else [PACKAGE]
    if path.name != "__init__.py":
        package.pop()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        source = [*package[: len(package) - node.level + 1]] if node.level else []
        source += node.module.split(".") if node.module else []
        if source[0] != PACKAGE:
            continue
        for alias in node.names:
            inner = ".".join([*source[1:], alias.name])
            found.add(inner if inner in modules() else ".".join(source[1:]))
    return frozenset(found & modules().keys()) - {name}


def in_order() -> tuple[str, ...]:
    """The modules, each after those that it imports.

    Raises graphlib.CycleError with the first circle. An expression has a type, and a type's bounds
    are expressions: these two modules may name each other.
    """
    graph = {name: set(imports(name)) for name in modules()}
    graph["language.expressions"].discard("language.types")
    return tuple(TopologicalSorter(graph).static_order())


def upward() -> set[tuple[str, str]]:
    """The imports that point from a room to one above it."""
    return {
        (name, other)
        for name in modules()
        for other in imports(name)
        if (room := room_of(name))
        and (above := room_of(other))
        and ROOMS.index(above) < ROOMS.index(room)
    }


def crowded(most: int = 9) -> dict[str, int]:
    """The folders of more than `most` modules, with their number."""
    files = [path for path in modules().values() if not path.name.startswith("__")]
    folders = Counter(path.parent.relative_to(ROOT).as_posix() for path in files)
    return {folder: count for folder, count in folders.items() if count > most}


def room_of(name: str) -> str | None:
    """The room that a module is in; None for what lies beside the rooms."""
    first = name.partition(".")[0]
    return first if first in ROOMS else None


def picture() -> bytes:
    """The rooms, the rooms within them, and who imports whom."""
    between = {
        (room, other)
        for name in modules()
        for imported in imports(name)
        if (room := room_of(name)) and (other := room_of(imported)) and room != other
    }
    # An arrow that a longer way stands for is left out.
    shown = [
        (room, other)
        for room, other in sorted(between)
        if not any((room, way) in between and (way, other) in between for way in ROOMS)
    ]
    nodes = tuple(
        Node(f"{room}/", inside=tuple(f"{path.parent.name}/" for path in inner))
        for room in ROOMS
        if (inner := sorted((ROOT / room).glob("*/__init__.py"))) is not None
    )
    edges = tuple(Edge(f"{room}/", f"{other}/", ()) for room, other in shown)
    return to_same_svg(Graph("house", "machines", nodes, edges))


def page() -> str:
    """The list of modules."""
    parts = [_HEAD]
    for folder in sorted({path.parent for path in modules().values()}):
        inside = sorted(path for path in modules().values() if path.parent == folder)
        title = "At the root" if folder == ROOT else f"`{folder.relative_to(ROOT)}/`"
        rows = [
            f"| `{path.name}` | {said} |"
            for path in inside
            if path.name not in ("__init__.py", "__main__.py") and (said := first_sentence(path))
        ]
        if rows:
            parts.append("\n".join((f"## {title}\n", "| module | subject |", "|---|---|", *rows)))
    return "\n\n".join((parts[0].rstrip(), *parts[1:])) + "\n"


def first_sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
