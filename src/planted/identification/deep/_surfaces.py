r"""Weights of a unit from breaks on its surface, at places that mixed-integer programs find.

The surface of a unit, w h + b = 0 with h the layer below, shows the weight w_j where unit j below is on. If the unit is
rarely on, or nearly always, few of the sampled regions meet its surface, or none. A program over the patterns of the known
layers (`_patterns`) finds a place on the part of the surface that is known, at which unit j is barely on and every other
unit below whose weight is a gap is off. No question is needed for that. In the region of that place short lines across the
surface measure the weight (`_regions`), and two regions must agree. Where there is no such place, no break shows the weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array
from planted.identification._rounding import Rounding
from planted.identification.deep._layers import Base, pass_layers, region_at
from planted.identification.deep._patterns import Sought, on_surface
from planted.identification.deep._regions import PartialRows, read_gap
from planted.identification.deep._space import Records
from planted.networks._deep import Layer

__all__ = ["fill_on_surfaces"]

TYPICAL = 500  # inputs that say how large the units below are
BARELY = 0.02  # of its typical size: the height of a unit below that is barely on
ROOMS = (4.0, 30.0)  # typical inputs: how far out places are looked for
PLACES = 4  # that are looked for in each room, in directions of their own


def fill_on_surfaces(
    records: Records, layers: list[Layer], rows: PartialRows, rounding: Rounding, rng: np.random.Generator
) -> None:
    """Fill gaps of rows, as long as there are places that show one of them."""
    box, (W, b) = records.box, layers[-1]
    d = box.n_features
    sides = np.concatenate([np.eye(d), -np.eye(d)]) if box.has_box else np.zeros((0, d))
    base = Base(np.eye(d), np.zeros(d), sides, np.ones(len(sides)))
    sizes = (pass_layers(layers[:-1], box.draw(TYPICAL, rng)) @ W.T + b).std(axis=0)
    search = _Search(records, base, layers, sizes, rounding, rng)
    for number in range(len(rows.biases)):
        while any([search.fill(rows, number, int(gap)) for gap in np.flatnonzero(~rows.known[number])]):
            pass  # a gap that is filled may make way for others


@dataclass(frozen=True, slots=True)
class _Search:
    """The known layers, in the coordinates of the inputs, and what is asked about the next one."""

    records: Records
    base: Base
    layers: list[Layer]
    sizes: Array  # of the pre-activations of the last known layer
    rounding: Rounding
    rng: np.random.Generator

    def fill(self, rows: PartialRows, number: int, gap: int) -> bool:
        """Fill one gap of a row; whether two regions show the weight and agree."""
        box, weights, bias = self.records.box, rows.weights[number], rows.biases[number]
        sought = Sought(weights, bias, np.flatnonzero(~rows.known[number]))
        height, seen, found = BARELY * float(self.sizes[gap]), set[bytes](), list[float]()
        for room in [1.0] if box.has_box else ROOMS:
            for _ in range(PLACES):
                cost = self.rng.standard_normal(len(weights)) / self.sizes
                place = on_surface(self.layers, sought, gap, height=height, room=room, cost=cost)
                if place is None:
                    break
                region = region_at(self.base, self.layers, place)
                if region.sides.tobytes() in seen:
                    continue
                seen.add(region.sides.tobytes())
                value = read_gap(self.records.ask, region, weights, bias, gap, self.rounding, cap=room)
                if value is not None and rows.fill(number, gap, value, found):
                    return True
                found += [] if value is None else [value]
        return False
