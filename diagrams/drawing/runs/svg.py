"""SVG by hand: lines, boxes and text in colours for a light and a dark background."""

from __future__ import annotations

from xml.etree import ElementTree

from ..colours import FILL, FONT, INK, LINE, ON_DARK, PARTIAL, for_dark

SIZE, SPACING, GAP = 12, 15, 10
"""The font size, the line height and the distance of two parts, in points."""
WRONG = "#b3261e"
GOOD = "#1d6b3a"
HIGH_WATERMARK = "#2a5db0"
OPEN = "#fdeccb"
"""The range of offsets for which a read_committed consumer waits."""
DARK = for_dark(
    {color: ON_DARK[color] for color in (INK, LINE, PARTIAL, FILL)}
    | {WRONG: "#ff8a80", GOOD: "#7fd69b", HIGH_WATERMARK: "#8ab4f8", OPEN: "#6b5220"},
    "rect",
)
"""The colours for a dark background."""


class Canvas:
    """A picture that grows downwards. `root` has its parts; those of `below` are painted under
    them."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg")
        self.below = ElementTree.SubElement(self.root, "g")
        self.at = self.root
        """The element that gets the next parts."""

    def finished(self, height: int, style: str = "") -> bytes:
        """The whole file, `height` points high."""
        self.root.set("width", str(self.width))
        self.root.set("height", str(height))
        self.root.set("viewBox", f"0 0 {self.width} {height}")
        self.root.set("font-family", FONT)
        back = ElementTree.Element("rect", width="100%", height="100%", fill="white")
        self.root.insert(0, back)
        styles = ElementTree.Element("style")
        styles.text = DARK + style
        self.root.insert(0, styles)
        ElementTree.indent(self.root)
        return ElementTree.tostring(self.root) + b"\n"

    def group(self, **attributes: str) -> ElementTree.Element:
        """A new group of the picture, which gets the next parts."""
        self.at = ElementTree.SubElement(self.root, "g", attributes)
        return self.at

    def line(
        self,
        begin: tuple[int, int],
        end: tuple[int, int],
        colour: str,
        *,
        dashes: str = "",
        width: str = "1.4",
        parent: ElementTree.Element | None = None,
    ) -> None:
        """A line between two points."""
        (x1, y1), (x2, y2) = begin, end
        line = ElementTree.SubElement(
            self.at if parent is None else parent,
            "line",
            x1=str(x1),
            y1=str(y1),
            x2=str(x2),
            y2=str(y2),
            stroke=colour,
        )
        line.set("stroke-width", width)
        if dashes:
            line.set("stroke-dasharray", dashes)

    def box(
        self,
        place: tuple[int, int],
        size: tuple[int, int],
        *,
        fill: str = FILL,
        stroke: str = LINE,
        round: int = 0,
        dashes: str = "",
    ) -> None:
        """A box with its upper left corner at `place`."""
        box = ElementTree.SubElement(
            self.at,
            "rect",
            x=str(place[0]),
            y=str(place[1]),
            width=str(size[0]),
            height=str(size[1]),
            fill=fill,
        )
        if stroke:
            box.set("stroke", stroke)
        if round:
            box.set("rx", str(round))
        if dashes:
            box.set("stroke-dasharray", dashes)

    def text(
        self,
        place: tuple[int, int],
        text: str,
        *,
        fill: str = INK,
        anchor: str = "start",
        size: int = SIZE,
        weight: str = "normal",
        style: str = "normal",
    ) -> None:
        """A line of text on the baseline at `place`."""
        shown = ElementTree.SubElement(self.at, "text", x=str(place[0]), y=str(place[1]), fill=fill)
        shown.text = text
        for name, value, usual in (
            ("text-anchor", anchor, "start"),
            ("font-weight", weight, "normal"),
            ("font-style", style, "normal"),
            ("font-size", str(size), ""),
        ):
            if value != usual:
                shown.set(name, value)


def points(text: str) -> int:
    """The approximate width of a text, in points."""
    return sum(9 if letter.isupper() else 6 for letter in text)
