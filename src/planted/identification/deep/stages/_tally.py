"""How far a reading is: the layer it is at, the units found there, the questions asked, and about how many are left.

What is left is an estimate from teachers with 4 to 64 inputs, two or three hidden layers and 1 to 10 outputs (2026-11-18),
right within a factor of two for most of them: 400 + 2.3 d k questions for a first layer of k units on d inputs, then 200 +
5.5 k k' for a second of k' units, 300 for a third, and 250 + 1.2 P, or 2.5 P / m from 2,000 parameters on, for the end. As
long as a width is not known, a layer is taken to be half as wide as the one below it, if no more units were found, and the
second hidden layer to be the last. A first layer wider than the inputs takes about 30 questions for each parameter in all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from planted._typing import Progress
from planted.identification.deep.stages._state import Reading

__all__ = ["Tally"]

BETWEEN = 25  # questions between two reports, at least
LEAST_LEFT = 50  # as long as the reading goes on
SMALL = 2_000  # parameters


class Tally:
    """Reports of progress while layers are read."""

    def __init__(
        self, progress: Progress, n_features: int, asked: Callable[[], int], reading: Callable[[], Reading]
    ) -> None:
        self.progress, self.n_features, self.asked, self.reading = progress, n_features, asked, reading
        self.stage, self.begun, self.told = "", 0, -BETWEEN

    def enter(self, stage: str, _: float = 0.0) -> None:
        """Begin with another step, such as a layer; it takes the place of `progress`."""
        self.stage, self.begun, self.told = stage, self.asked(), -BETWEEN
        self.tell()

    def tell(self) -> None:
        """Report, if enough was asked since the last report."""
        asked = self.asked()
        if not self.stage or asked - self.told < BETWEEN:
            return
        reading = self.reading()
        self.told = asked
        found = reading.found
        units = f"{found} unit{'' if found == 1 else 's'} found, " if reading.top is None else ""
        left = max(LEAST_LEFT, questions_left(reading, self.n_features, asked, asked - self.begun))
        text = f"{self.stage}: {units}{asked:,} questions asked, about {left:,} left"
        self.progress(text, asked / (asked + left))


def questions_left(reading: Reading, d: int, asked: int, in_step: int) -> int:
    """About how many questions on d inputs are left after so many, of which `in_step` were asked in the present step."""
    seen = reading.surveys[0].gradients if reading.surveys else []
    m = seen[0][1].shape[1] if seen else 1
    widths = [len(b) for _, b in reading.layers]
    number = len(widths)  # hidden layers that are known
    if reading.top is None:
        widths.append(max(reading.found, (widths[-1] if widths else d) // 2, 1))
    if len(widths) == 1:
        widths.append(max(widths[0] // 2, 1))
    sizes = [d, *widths, m]
    parameters = sum((below + 1) * above for below, above in pairwise(sizes))
    ending = 250 + round(1.2 * parameters if parameters <= SMALL else 2.5 * parameters / m)
    if reading.top is not None:
        return ending - in_step
    if widths[0] > d:
        return 30 * parameters - asked
    costs = [400 + 2.3 * d * widths[0], 200 + 5.5 * widths[0] * widths[1]] + [300.0] * (len(widths) - 2)
    return round(max(0.0, costs[number] - in_step) + sum(costs[number + 1 :])) + ending
