"""Changes: the differences between one system and another, as data."""

from .change import Change as Change
from .change import changed as changed
from .features import FeatureInState as FeatureInState
from .fields import Moved as Moved
