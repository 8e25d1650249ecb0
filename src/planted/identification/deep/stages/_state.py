"""What has been read of a deep network so far, and which of its layers fresh answers confirm."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from planted.identification._rounding import Rounding
from planted.identification.deep._planes import Survey
from planted.identification.deep._top import Top
from planted.identification.deep.ending._confirm import confirming_places
from planted.identification.two_layer._search import BlackBox
from planted.networks._deep import Layer
from planted.outcomes import Outcome

__all__ = ["Reading"]

HIGHER = 2  # breaks that bend, to say that there are higher layers


@dataclass(slots=True)
class Reading:
    """What has been read so far."""

    layers: list[Layer] = field(default_factory=list)  # hidden layers that are known with orientation
    top: Top | None = None  # the output layer, once the last hidden layer is known
    surveys: list[Survey] = field(default_factory=list)  # one for each layer looked at
    rounding: Rounding | None = None  # the error of the answers at typical inputs
    reason: str = ""  # why reading ended before the last layer
    outcome: Outcome | None = None  # what follows from the reason, where it is known
    is_open: bool = (
        False  # nothing says that the black box is of another kind: another reading may come further
    )
    slope: float | None = None  # below zero, of leaky units: other steps go on from the first layer
    certain: list[Layer] = field(
        default_factory=list
    )  # the first layers, as far as fresh answers confirm them
    places: list[int] = field(default_factory=list)  # of these answers, for each such layer
    gathered: int = 0  # units of the third or a later layer that is being read
    bent: int = 0  # breaks that do not go on along their hyperplanes, where no survey counts them

    def confirm(self, box: BlackBox, rng: np.random.Generator) -> None:
        """Ask of each layer read so far, as long as those below it are confirmed, whether the answers show no more.

        A last layer that all answers seemed to explain is left out.
        """
        for number in range(len(self.certain), len(self.layers) - (self.top is not None)):
            if self.rounding is None:
                return
            places = confirming_places(box, self.layers[: number + 1], self.rounding, rng.spawn(1)[0])
            if not places:
                return
            self.certain.append(self.layers[number])
            self.places.append(places)

    @property
    def found(self) -> int:
        """Units found so far of the layer that is being read."""
        number = len(self.layers)
        return (
            self.surveys[number].planes.offsets.size if number < min(len(self.surveys), 2) else self.gathered
        )

    @property
    def passing(self) -> int:
        """Units of the last hidden layer that stand for those that never switch."""
        return 0 if self.top is None else self.top.passing

    @property
    def is_deep(self) -> bool:
        """Whether breaks were seen that do not go on along their hyperplanes, as those of higher layers."""
        if self.layers or self.surveys[0].copies:
            return True
        return self.bent + sum(part.errors.size for part in self.surveys[0].others) >= HIGHER
