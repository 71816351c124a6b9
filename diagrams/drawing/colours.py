"""The colours and the font of all drawings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INK: Final = "#1c2a3a"
LINE: Final = "#4a6078"
FILL: Final = "#e8eff8"
PARTIAL: Final = "#a85a00"
UNUSED: Final = "#8a8f98"
QUIET: Final = "#6b7280"
FONT: Final = "Helvetica,Arial,sans-serif"

ON_DARK: Final = {
    INK: "#e6e9ed",
    LINE: "#9fb3c8",
    FILL: "#232b34",
    PARTIAL: "#f0a64a",
    UNUSED: "#8d949e",
    QUIET: "#9aa3ae",
}
"""The replacement of each colour on a dark background."""
DARK_GROUND: Final = "#14181d"


def for_dark(colours: Mapping[str, str], ground: str) -> str:
    """A style that gives a drawing these colours on a dark background. `ground` is the tag of its
    white elements."""
    rules = [f'{ground}[fill="white"] {{ fill: {DARK_GROUND} }}']
    for light, dark in colours.items():
        rules += [f'[{what}="{light}"] {{ {what}: {dark} }}' for what in ("fill", "stroke")]
    return f"@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}"
