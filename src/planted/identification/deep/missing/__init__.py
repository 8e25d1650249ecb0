"""Units of the last hidden layer that no line has met: looked for in what the others leave unexplained."""

from planted.identification.deep.missing._search import MissingUnits
from planted.identification.deep.missing._units import LastUnits

__all__ = ["LastUnits", "MissingUnits"]
