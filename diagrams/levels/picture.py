"""The first level of a state diagram as interactive SVG: a click opens a state or an edge, and each
part has its releases."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from ..drawing.dot import laid_out
from ..drawing.graph import Edge, Graph, Node
from ..drawing.render import node_ids, to_dot
from ..drawing.state import StateDiagram
from .rows import Pair, when

PX = 4 / 3  # of a point
SVG = "http://www.w3.org/2000/svg"


def picture(graph: Graph, diagram: StateDiagram, pairs: Iterable[Pair]) -> str:
    """The picture as markup. Its edges open `pairs`, by their number."""
    return _Picture(graph, diagram, list(pairs)).drawn()


class _Picture:
    def __init__(self, graph: Graph, diagram: StateDiagram, pairs: list[Pair]) -> None:
        self.graph, self.diagram, self.pairs = graph, diagram, pairs
        ids = node_ids(graph)
        self.nodes = {ids[node.name]: node for node in graph.nodes}
        self.edges = {f"{ids[e.tail]}->{ids[e.head]}": e for e in graph.edges}
        self.numbers = {(pair.source, pair.target): at for at, pair in enumerate(pairs)}

    def drawn(self) -> str:
        drawn = laid_out(to_dot(self.graph), "svg")  # without a style: the page has its own
        root = ElementTree.fromstring(drawn)
        wide = float(root.attrib.pop("width").removesuffix("pt"))
        del root.attrib["height"]
        root.set("style", f"--wide: {wide * PX:.0f}px")
        root.set("role", "group")
        root.set("aria-label", f"The states of {self.diagram.machine}")
        whole = root[0]
        whole.attrib.pop("id")
        for part in list(whole):
            part.attrib.pop("id", None)  # a page has several pictures
            if part.tag == f"{{{SVG}}}polygon":  # the white background
                whole.remove(part)
            title = part.find(f"{{{SVG}}}title")
            if part.tag == f"{{{SVG}}}title":
                whole.remove(part)
            if title is None or title.text is None:
                continue
            part.remove(title)
            if title.text in self.nodes:
                self.node(part, self.nodes[title.text])
            elif title.text in self.edges:
                self.edge(part, self.edges[title.text])
            else:
                part.set("class", "start")
        for part in root.iter():  # HTML knows SVG by itself
            part.tag = part.tag.removeprefix(f"{{{SVG}}}")
        return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)

    def node(self, part: ElementTree.Element, node: Node) -> None:
        """A state. It opens the pairs that lead to it and from it."""
        state = next(each for each in self.diagram.states if each.name == node.name)
        around = [pair for pair in self.pairs if node.name in (pair.source, pair.target)]
        self.open(part, f"State {node.name}: {len(around)} edges", state.releases)
        part.set("data-state", node.name)
        lines = [text for text in (node.name, *node.lines) if text]
        inside = [pair for pair in zip(node.inside, node.when, strict=True) if pair[0]]
        self.texts(part, [*((text, frozenset[str]()) for text in lines), *inside])

    def edge(self, part: ElementTree.Element, edge: Edge) -> None:
        """An edge. It opens its rows."""
        some = frozenset[str]().union(*edge.when)
        words = " ".join(edge.lines)
        self.open(part, f"From {edge.tail} to {edge.head}: {words}", some)
        part.set("data-pair", str(self.numbers[edge.tail, edge.head]))
        self.texts(part, zip(edge.lines, edge.when, strict=True))

    def open(self, part: ElementTree.Element, label: str, releases: Iterable[str]) -> None:
        part.set("role", "button")
        part.set("tabindex", "0")
        part.set("aria-label", label)
        self.mark(part, frozenset(releases))

    def mark(self, part: ElementTree.Element, releases: frozenset[str]) -> None:
        if releases and (bits := when(releases, self.diagram.releases)[0]):
            part.set("data-when", bits)

    def texts(self, part: ElementTree.Element, lines: Iterable[tuple[str, frozenset[str]]]) -> None:
        """Marks each line of text with its releases."""
        shown = part.iter(f"{{{SVG}}}text")
        for text, (line, releases) in zip(shown, lines, strict=True):
            assert (text.text or "").strip() == line
            self.mark(text, releases)
