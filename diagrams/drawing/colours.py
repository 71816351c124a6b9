"""The colours and the font of all drawings."""

from __future__ import annotations

from typing import Final

INK: Final = "#1c2a3a"
LINE: Final = "#4a6078"
FILL: Final = "#e8eff8"
PARTIAL: Final = "#a85a00"
UNUSED: Final = "#8a8f98"
QUIET: Final = "#6b7280"
FONT: Final = "Helvetica,Arial,sans-serif"
