"""A layer is certain only where fresh answers confirm it; rare units are looked for where lower ones are off."""

from itertools import pairwise

import numpy as np
import pytest

from planted import DeepNetwork
from planted.checks import Check
from planted.identification._rounding import Rounding
from planted.identification.deep._coarse import _name_dependence
from planted.identification.deep._patterns import least_places
from planted.identification.deep._planes import Planes, Survey
from planted.identification.deep._space import DOUBLES
from planted.identification.deep.ending._confirm import confirming_places
from planted.identification.deep.ending._finish import _count_off
from planted.identification.deep.ending._verdict import judge_deep_stop
from planted.identification.deep.stages._state import Reading
from planted.identification.two_layer._search import BlackBox

ROUNDING = Rounding(np.array([1e-15]), 3.0, False, 1e-15)


def draw(seed, widths):
    rng = np.random.default_rng([271, seed])
    return DeepNetwork(
        [
            (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
            for into, out in pairwise(widths)
        ]
    )


def boxed(net, *, has_box=False):
    return BlackBox(net, net.widths[0], has_box, lambda X: X, DOUBLES)


def reading_of(layers):
    reading = Reading(layers=list(layers), rounding=ROUNDING)
    reading.surveys.append(Survey(Planes(layers[0][0], layers[0][1], layers[0][1], layers[0][0])))
    return reading


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("has_box", [False, True])
def test_complete_layers_are_confirmed_and_others_are_not(seed, has_box):
    net, rng = draw(seed, (10, 8, 7, 5, 2)), np.random.default_rng(seed)
    box, (first, second, *_) = boxed(net, has_box=has_box), net.layers
    assert confirming_places(box, [first], ROUNDING, rng) > 40
    assert confirming_places(box, [first, second], ROUNDING, rng) > 40
    shares = [on.mean(axis=0) for on in net.patterns(box.draw(2_000, rng))]
    for layers, (W, b), share in (([], first, shares[0]), ([first], second, shares[1])):
        missing = int(share.argmax())
        rest = np.arange(len(b)) != missing
        assert confirming_places(box, [*layers, (W[rest], b[rest])], ROUNDING, rng) == 0
        turned = np.where(rest, 1.0, -1.0)
        assert confirming_places(box, [*layers, (W * turned[:, None], b * turned)], ROUNDING, rng) == 0


def test_questions_stay_in_the_box():
    net, asked = draw(5, (9, 7, 5, 1)), []

    def answer(X):
        asked.append(X)
        return net(X)

    box = BlackBox(answer, 9, True, lambda X: X, DOUBLES)
    assert confirming_places(box, [net.layers[0]], ROUNDING, np.random.default_rng(0))
    assert len(np.concatenate(asked)) <= 128 and np.abs(np.concatenate(asked)).max() <= 1


def test_where_every_direction_changes_a_unit_nothing_is_confirmed():
    net = draw(1, (3, 9, 4, 1))
    W, b = net.layers[0]
    assert confirming_places(boxed(net), [(W, b + 50.0)], ROUNDING, np.random.default_rng(0)) == 0


def test_a_layer_that_is_not_confirmed_is_found_and_no_more():
    net, rng = draw(2, (10, 8, 7, 5, 2)), np.random.default_rng(0)
    (W, b), second, *_ = net.layers
    whole = reading_of([(W, b)])
    whole.confirm(boxed(net), rng)
    assert [len(bias) for _, bias in whole.certain] == [8] and whole.places[0] > 40
    share = net.patterns(rng.normal(size=(2_000, 10)))[0].mean(axis=0)
    rest = np.arange(8) != share.argmax()
    part = reading_of([(W[rest], b[rest])])
    part.confirm(boxed(net), rng)
    assert not part.certain
    part.layers.append((second[0][:, rest], second[1]))
    part.confirm(boxed(net), rng)  # the layer below is not certain
    assert not part.certain
    verdict = judge_deep_stop("the budget", part, queries=10, budget=10)
    assert "there may be more: 7" in verdict.detail and "certain" not in verdict.detail
    verdict = judge_deep_stop("the budget", whole, queries=10, budget=10)
    assert "Units that are certain: 8" in verdict.detail
    found = {each.key: each.measured for each in verdict.evidence}
    assert found[Check.UNITS] == 8
    assert found[Check.COVERED_INPUTS] == pytest.approx(1 - 0.01 ** (1 / whole.places[0]))


def test_units_that_are_on_where_all_below_are_off_are_looked_for():
    rng, widths = np.random.default_rng([8018, 27, 20, 10, 8, 6, 1]), (20, 10, 8, 6, 1)
    net = DeepNetwork(
        [
            (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
            for into, out in pairwise(widths)
        ]
    )
    *layers, (W, b), (A, c) = net.layers
    assert not net.patterns(rng.normal(size=(5_000, 20)))[2][:, 0].any()  # a unit that hardly ever is on
    without = DeepNetwork([*layers, (W[1:], b[1:]), (A[:, 1:], c)])
    places = least_places(layers, boxed(net), rng)
    assert places.shape == (9, 20) and np.abs(places).max() <= 4 + 1e-9
    assert _count_off(without, places, net(places), ROUNDING) >= 1
    assert _count_off(net, places, net(places), ROUNDING) == 0


def test_rows_that_are_nearly_dependent_are_not_said_to_widen():
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.normal(size=(6, 6)))[0][:4]
    assert _name_dependence(rows) == ""
    rows[3] = rows[2] + 1e-4 * rows[3]
    assert "nearly dependent" in _name_dependence(rows) and "widens" not in _name_dependence(rows)
    assert "7 units on 6 inputs" in _name_dependence(rng.normal(size=(7, 6)))
