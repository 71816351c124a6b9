"""A system grounded: its state as scalar leaves, its rows as guards and updates over them."""

from .actions import ground
from .grounded import (
    Aim,
    GroundAction,
    Grounded,
    GroundHelp,
    GroundRanking,
    GroundRow,
    Leaf,
    PathPart,
    choice_leaf,
)
from .shapes import UNBOUNDED
from .steps import Steps

__all__ = [
    "UNBOUNDED",
    "Aim",
    "GroundAction",
    "GroundHelp",
    "GroundRanking",
    "GroundRow",
    "Grounded",
    "Leaf",
    "PathPart",
    "Steps",
    "choice_leaf",
    "ground",
]
