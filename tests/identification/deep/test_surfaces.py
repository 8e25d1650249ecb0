"""Weights of the last hidden layer that are read on the surface of a unit, and units that are on at almost no input."""

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork
from planted.identification._grid import DOUBLES
from planted.identification._rounding import Rounding
from planted.identification.deep._gathered import gather_units
from planted.identification.deep._layers import Base, pass_layers, region_at
from planted.identification.deep._regions import PartialRows, read_gap
from planted.identification.deep._space import Breaks, Records
from planted.identification.deep._surfaces import fill_on_surfaces
from planted.identification.deep.ending._unseen import unseen_places
from planted.identification.deep.missing import LastUnits, MissingUnits
from planted.identification.two_layer._search import BlackBox
from planted.outcomes import Outcome

ROUNDING = Rounding(np.array([1e-14]), 3.0, False, 1e-14)


def draw(seed, widths, rarely=None):
    """A network whose first unit of the last hidden layer is on for a given share of typical inputs, if one is given."""
    rng = np.random.default_rng([seed, 74])
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    if rarely is not None:
        W, b = layers[-2]
        values = pass_layers(layers[:-2], rng.normal(size=(200_000, widths[0]))) @ W[0]
        b[0] = -np.quantile(values, 1 - rarely)
    return DeepNetwork(layers)


def records_of(net, rows):
    records = Records(BlackBox(net, net.widths[0], False, lambda Z: Z, DOUBLES))
    records.ask(rows)
    return records


@pytest.mark.parametrize("seed", range(4))
def test_weights_of_a_unit_that_is_rarely_on_are_read_on_its_surface(seed):
    net, rng = draw(seed, (6, 6, 5, 4, 1), rarely=0.002), np.random.default_rng(seed)
    layers, (W, b) = list(net.layers[:2]), net.layers[2]
    X = rng.normal(size=(100_000, 6))
    below, last = net.patterns(X)[1:]
    shares = below[last[:, 0]].mean(axis=0)  # where the unit is on, some below are on and off
    known = np.arange(5)[None] != np.abs(shares - 0.5).argmin()
    rows = PartialRows.of((np.where(known, W[:1], 0.0), b[:1]), known)
    records = records_of(net, X[:100])
    fill_on_surfaces(records, layers, rows, ROUNDING, rng)
    filled = np.array(rows.known)
    np.testing.assert_allclose(np.array(rows.weights)[filled], W[:1][filled], atol=1e-8)
    assert filled.all()
    assert len(records.all()[0]) < 400


def test_a_weight_is_exact_where_the_other_weights_have_errors():
    net, rng = draw(1, (6, 6, 5, 4, 1)), np.random.default_rng(1)
    layers, (W, b) = list(net.layers[:2]), net.layers[2]
    base = Base(np.eye(6), np.zeros(6), np.zeros((0, 6)), np.zeros(0))
    found = []
    for x in 3 * rng.normal(size=(300, 6)):
        region = region_at(base, layers, x)
        for unit, gap in np.argwhere(np.outer(np.ones(4), region.on)):
            known = np.arange(5) != gap
            wrong = np.where(known, W[unit] * (1 + 1e-7 * rng.normal(size=5)), 0.0)
            value = read_gap(net, region, wrong, float(b[unit]), int(gap), ROUNDING)
            if value is not None:
                found.append(abs(value - W[unit, gap]))
        if len(found) > 20:
            break
    assert len(found) > 20 and np.median(found) < 1e-6 and np.mean(np.array(found) < 1e-5) > 0.9


def test_weights_that_were_read_earlier_are_kept_if_breaks_agree():
    weights, known = np.array([[1.0, -2.0, 0.0], [0.5, 0.0, 1.5]]), np.array([[1, 1, 0], [1, 0, 1]]) > 0
    base, layers = Base(np.eye(3), np.zeros(3), np.zeros((0, 3)), np.zeros(0)), [(np.eye(3), np.zeros(3))]
    fresh = PartialRows.of((weights, np.array([0.3, -0.2])), known)

    def gathered(earlier):
        rows, _ = gather_units([(breaks_of(fresh), base)], layers, earlier)
        return rows

    whole = PartialRows.of(
        (np.array([[1.0, -2.0, 3.0], [0.5, 4.0, 1.4]]), np.array([0.3, -0.2])), np.ones((2, 3)) > 0
    )
    rows = gathered(whole)
    # The second differs in a weight that a break shows.
    assert sorted(int(each.sum()) for each in rows.known) == [2, 3]
    (whole_row,) = (row for row, each in zip(rows.weights, rows.known, strict=True) if each.all())
    np.testing.assert_allclose(np.abs(whole_row), [1, 2, 3], rtol=1e-9)
    assert sorted(int(each.sum()) for each in gathered(None).known) == [2, 2]


def breaks_of(rows):
    """Breaks of units at which the units below that have gaps are off."""
    places = []
    for weights, bias, known in zip(rows.weights, rows.biases, rows.known, strict=True):
        first, second = np.flatnonzero(known)
        place = np.where(known, 0.1, -1.0)
        place[second] = -(bias + 0.1 * weights[first]) / weights[second]
        places.append(place)
    W = np.array(rows.weights)
    norms, count = np.linalg.norm(W, axis=1), len(W)
    return Breaks(
        W / norms[:, None],
        norms[None],
        np.array(places),
        np.full(count, 1e-12),
        np.zeros((count, 2, 1, 3)),
        np.zeros((count, 2, 3)),
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_unit_that_is_on_around_one_place_only_is_fitted_there(seed):
    rng = np.random.default_rng([seed, 75])
    R, start = rng.normal(size=(3, 3)), rng.normal(size=3)
    layers = [
        (np.vstack([R, -R]), np.append(-R @ start, R @ start))
    ]  # all six units are off at one place only
    W, b = rng.normal(size=(4, 6)), rng.normal(size=4)
    W[0], b[0] = -rng.uniform(0.5, 1.5, 6), 0.04
    net = DeepNetwork([*layers, (W, b), (rng.normal(size=(1, 4)), np.zeros(1))])
    search = MissingUnits(records_of(net, 2 * rng.normal(size=(1000, 3))), rng)
    search.records.ask(start[None])
    units, coefficients = search._explain_most(layers, LastUnits.whole((W[1:], b[1:]), 1))
    found = search._fit_around(layers, units, coefficients, start)
    assert found is not None
    row, known = found[0], np.append(found[1], True)
    truth = np.append(W[0], b[0])
    scale = (row @ truth) / (row @ row)
    np.testing.assert_allclose((row * scale)[known], truth[known], atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_places_show_a_unit_that_is_on_for_one_input_of_ten_thousand(seed):
    net, rng = draw(seed, (8, 8, 8, 6, 1), rarely=1e-4), np.random.default_rng(seed)
    W, b = net.layers[2]
    X = rng.normal(size=(4000, 8)) * 2.0 ** rng.uniform(-1, 2, (4000, 1))
    asked = X[~net.patterns(X)[2][:, 0]]
    box = BlackBox(net, 8, False, lambda Z: Z, DOUBLES)
    places = unseen_places(list(net.layers[:2]), (W[1:], b[1:]), asked, box, most=200, rng=rng)
    assert len(places) <= 200 and np.abs(places).max() <= 4
    assert net.patterns(places)[2][:, 0].any()


@pytest.mark.parametrize("seed", range(3))
def test_a_network_without_a_unit_that_is_hardly_ever_on_is_not_claimed(seed):
    net = draw(seed, (6, 6, 6, 5, 1), rarely=1e-4)
    found = planted.identify(net, random_state=1_000 + seed)
    X = np.random.default_rng(seed).normal(size=(200_000, 6))
    if found.outcome is Outcome.RECOVERED:
        assert np.abs(found.network(X) - net(X)).max() < 1e-8
