r"""Read a deep ReLU network layer by layer, from the input to the output, by choosing what to ask.

Problem     f(x) = A σ(W_L … σ(W_1 x + b_1) … + b_L) + c can be asked anywhere, or within a box. Depth and widths are not
            known. Find all parameters with few questions.
Idea        1. The units of the first layer break f along whole hyperplanes (`_planes`).
            2. The gradient is a combination of the rows of units that are on. If the rows are independent, every gradient
               shows which units are on, hence on which side each is (`_layers`).
            3. Then h -> f(x(h)) for pre-activations h > 0 is a network with one layer less, and step 1 finds its first
               layer. From the third layer on the regions in which all lower units are on are polytopes.
            4. After each layer: do the features |t_j|, h and 1, with t the pre-activations of this layer, explain every
               answer so far? Then it is the last one. Their coefficients give its orientation and the output layer.
            5. Gauss–Newton steps on all answers restore the digits that were lost from layer to layer (`_polish`).
Guarantee   None of the steps is trusted: the network is judged by fresh answers (`_verdict`). Kind: statistical.
References  [Carlini2020]_
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from planted._typing import Array, Progress
from planted.identification.deep._expansive import read_expansive
from planted.identification.deep._kinds import leak_of, name_other_kind
from planted.identification.deep._layers import Base
from planted.identification.deep._planes import Planes, Survey, unexplained
from planted.identification.deep._space import Records, Space
from planted.identification.deep._top import fit_top
from planted.identification.deep.missing import LastUnits, MissingUnits
from planted.identification.deep.stages._first import input_space, survey_first
from planted.identification.deep.stages._found import CERTAIN, all_on, shows_higher
from planted.identification.deep.stages._second import (
    hidden_base,
    orient_second,
    survey_chords,
    survey_second,
)
from planted.identification.deep.stages._state import Reading
from planted.identification.deep.stages._third import read_last, read_later
from planted.identification.two_layer._breakpoints import LineScan
from planted.identification.two_layer._jumps import Line
from planted.networks._deep import Layer
from planted.outcomes import Outcome

__all__ = ["read_layers"]

FURTHER = 5  # times as many chords where the units found leave something unexplained
MOST_LAYERS = 12


def read_layers(
    records: Records,
    scans: Sequence[tuple[Line, LineScan]] = (),
    *,
    rng: np.random.Generator,
    progress: Progress,
    is_dense: bool = False,
    may_stop: bool = False,
) -> Iterator[Reading]:
    """Read layer after layer, and yield what is known after each; the last is the answer.

    `scans`: lines that have been scanned already. `is_dense`: read a convolution as the dense layer that it is. `may_stop`:
    confirm each layer at once, since there may be no questions left for it later.
    """
    reading = Reading()
    box = records.box
    space = input_space(records, rng)
    base = Base(np.eye(space.dim), np.zeros(space.dim), space.sides, space.limits)
    inputs, asked = base, replace(box, ask=records.ask)
    reading.rounding = space.rounding
    progress("layer 1", 0.0)
    survey = Survey(Planes.none(space.dim), watches_copies=not is_dense)
    reading.surveys.append(survey)
    yield reading  # what the survey finds is kept if it is stopped
    layer = survey_first(space, survey, all_on(base, []), scans, rng, has_box=box.has_box)
    if survey.copies:
        reading.reason = (
            f"{survey.copies} breaks on one line have the same few weights at shifted places, as the windows of a "
            "convolution have; such layers are read as dense ones if the depth is given"
        )
        reading.outcome = Outcome.ASSUMPTION_FAILED
        yield reading
        return
    while True:
        number = len(reading.layers) + 1
        top = fit_top(records.all(), reading.layers, layer.planes, layer.known) if len(layer.signs) else None
        if top is not None:
            reading.layers.append(top.layer)
            reading.top = top
            yield reading
            return
        if number == 1 and not layer.is_independent and layer.has_higher:
            progress("layer 1, wider than the inputs", 0.0)
            _read_widening(records, space, reading, rng)
            yield reading
            return
        reading.reason = layer.problem(number)
        is_settled = layer.shares.min(initial=1.0) >= CERTAIN
        other = ""
        if not reading.reason and (number == 1 or (number == 2 and not is_settled)):
            unsettled = f"which side of the units of layer {number} is on was not settled"
            other = name_other_kind(survey, number)
            reading.reason = other or ("" if is_settled else unsettled)
            if reading.reason and number == 1 and not (box.has_box or len(unexplained(survey)[0])):
                reading.slope = leak_of(survey)
        if reading.reason or number >= MOST_LAYERS:
            reading.outcome = Outcome.ASSUMPTION_FAILED if number == 1 else None
            reading.is_open = not other and layer.is_independent
            yield reading
            return
        rows, biases = layer.planes
        reading.layers.append((rows * layer.signs[:, None], biases * layer.signs))
        if may_stop:
            reading.confirm(asked, rng)
        yield reading
        progress(f"layer {number + 1}", 0.0)
        if number == 1:
            base = hidden_base(base, reading.layers[0], box, rng)
            survey = Survey(Planes.none(base.matrix.shape[1]))
            reading.surveys.append(survey)
            space = survey_second(records, base, survey, rng)
            layer = orient_second(survey, all_on(base, reading.layers))
            for _ in range(FURTHER):
                if (
                    shows_higher(survey)
                    or not len(layer.signs)
                    or fit_top(records.all(), reading.layers, layer.planes) is not None
                ):
                    break
                survey_chords(space, base, survey, rng)
                layer = orient_second(survey, all_on(base, reading.layers))
        else:
            layer = read_last(records, space, (inputs, base), reading, rng) or read_later(
                records, base, reading, space.rounding, rng
            )


def _read_widening(records: Records, space: Space, reading: Reading, rng: np.random.Generator) -> None:
    """Read the first two layers where the first is wider than the inputs; the second must be the last."""
    survey = reading.surveys[0]
    count, d = survey.planes.normals.shape

    def explains(first: Layer, units: LastUnits) -> bool:
        return fit_top(records.all(), [first], (units.rows, units.biases), units.known) is not None

    missing = MissingUnits(records, rng, reading.rounding)

    def unexplained(first: Layer, units: LastUnits) -> Array:
        return missing.places([first], units)

    found = read_expansive(space, survey, rng, explains=explains, unexplained=unexplained)
    if found is None:
        reading.reason = (
            f"hidden layer 1 has up to {count} units on {d} inputs, flat parts of units above may be among them, and which "
            "side of them is on was not settled by tracing the units above"
        )
        reading.outcome = Outcome.ASSUMPTION_FAILED
        return
    first, units = found
    reading.layers.append(first)
    top = fit_top(records.all(), reading.layers, (units.rows, units.biases), units.known)
    if top is None:
        completed = missing.complete(reading.layers, units)
        top = None if completed is None else fit_top(records.all(), reading.layers, *completed)
    if top is None:
        reading.reason = f"the {len(units.biases)} units found in layer 2 do not explain all answers"
        return
    reading.layers.append(top.layer)
    reading.top = top
