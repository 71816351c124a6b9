"""The house as its imports show it: a picture, the list of modules, and no circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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


def _statements(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """The imports that a run makes, those in functions as well; what only types need isn't one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            yield node
        yield from _statements(node)


@cache
def imports(name: str) -> frozenset[str]:
    """The modules of this package that a module imports."""
    path = modules()[name]
    package = [PACKAGE, *name.split(".")] if name else [PACKAGE]
    if path.name != "__init__.py":
        package.pop()
    found: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        source = [*package[: len(package) - node.level + 1]] if node.level else []
        source += node.module.split(".") if node.module else []
        if source[0] != PACKAGE:
            continue
        for alias in node.names:
            inner = ".".join([*source[1:], alias.name])
            found.add(inner if inner in modules() else ".".join(source[1:]))
    return frozenset(found & modules().keys()) - {name}


def circle() -> tuple[str, ...]:
    """Modules that import each other in a circle; raises graphlib.CycleError with the first one."""
    return tuple(TopologicalSorter({name: imports(name) for name in modules()}).static_order())


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
            parts.append(
                "\n".join((f"## {title}\n", "| module | what it is |", "|---|---|", *rows))
            )
    return "\n\n".join((parts[0].rstrip(), *parts[1:])) + "\n"


def first_sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
