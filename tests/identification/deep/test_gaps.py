"""Weights that no break has shown, digits that were lost, and units that no answer needs."""

from itertools import pairwise

import numpy as np
import pytest

from planted import DeepNetwork
from planted.identification._grid import DOUBLES
from planted.identification.deep._gaps import ask_beside_gaps, filled_from_answers
from planted.identification.deep._regions import PartialRows
from planted.identification.deep._space import Records
from planted.identification.deep._top import fit_top
from planted.identification.deep.ending._finish import _rows_of_all_units, rare_places
from planted.identification.two_layer._search import BlackBox


def draw(seed, widths):
    rng = np.random.default_rng([seed, 73])
    return DeepNetwork(
        [
            (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
            for into, out in pairwise(widths)
        ]
    )


def draw_lively(seed, widths, off):
    """A network whose last hidden units are on for 10 to 90 % of the inputs at which some units below are off."""
    X = np.random.default_rng(0).normal(size=(4000, widths[0]))
    for number in range(500):
        net = draw(seed + 10 * number, widths)
        below, last = net.patterns(X)[-2:]
        used = ~below[:, off].any(axis=1)
        if used.sum() > 200 and (np.abs(last[used].mean(axis=0) - 0.5) < 0.4).all():
            return net
    raise AssertionError("no such network")


def with_gaps(net, gaps):
    """The units of the last hidden layer with some weights unknown, up to sign and scale."""
    W, b = (part.copy() for part in net.layers[-2])
    known = np.ones(W.shape, dtype=np.bool_)
    for unit, below in gaps:
        W[unit, below], known[unit, below] = 0.0, False
    signs = np.where(np.arange(len(b)) % 2, 1.0, -1.0)
    return PartialRows(list(W * signs[:, None]), list(b * signs), list(known), [0.0] * len(b), [0.0] * len(b))


def black_box(net):
    return BlackBox(net, net.widths[0], False, lambda Z: Z, DOUBLES)


@pytest.mark.parametrize("gaps", [[(0, 2)], [(0, 2), (3, 2), (1, 2)], [(0, 2), (1, 4)]])
@pytest.mark.parametrize("seed", range(3))
def test_gaps_are_filled_from_answers(seed, gaps):
    net, rng = draw_lively(seed, (6, 6, 5, 4, 1), [2, 4]), np.random.default_rng(seed)
    X = rng.normal(size=(1500, 6)) * 2.0 ** rng.uniform(-1, 3, (1500, 1))
    layers, rows = list(net.layers[:2]), with_gaps(net, gaps)
    assert not np.array(rows.known).all()
    filled = filled_from_answers((X, net(X)), layers, rows, rng)
    truth, found = np.column_stack(net.layers[-2]), np.column_stack([filled.weights, filled.biases])
    known = np.column_stack([np.array(filled.known), np.ones(4, dtype=np.bool_)])
    scales = (found * truth * known).sum(axis=1) / (found**2 * known).sum(axis=1)
    assert np.abs((found * scales[:, None] - truth)[known]).max() < 1e-6  # what is filled is right
    below, last = net.patterns(X)[1:]
    for unit, column in gaps[: 1 if gaps[0][1] != gaps[-1][1] else 3]:
        # A weight is filled if it has an effect on twenty answers for each gap; else the columns after it wait as well.
        assert filled.known[unit][column] or (last[:, unit] & below[:, column]).sum() < 20 * len(gaps)


def test_few_questions_are_asked_for_a_gap_where_it_has_an_effect():
    net, rng = draw(1, (6, 6, 5, 4, 1)), np.random.default_rng(0)
    layers, rows = list(net.layers[:2]), with_gaps(net, [(0, 2)])
    X = rng.normal(size=(800, 6))
    X = X[~net.patterns(X)[1][:, 2]]  # the unit below is off in every answer so far
    records = Records(black_box(net))
    records.ask(X)
    assert not np.array(filled_from_answers(records.all(), layers, rows, rng).known).all()
    ask_beside_gaps(records, layers, rows, rng)
    assert len(records.all()[0]) - len(X) <= 12
    assert np.array(filled_from_answers(records.all(), layers, rows, rng).known).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_unit_without_a_part_in_any_answer_is_dropped(seed):
    net, rng = draw(seed, (6, 5, 4, 1)), np.random.default_rng(seed)
    X = rng.normal(size=(600, 6)) * 2
    W, b = net.layers[1]
    planes = np.concatenate([W, rng.normal(size=(1, 5))]), np.append(b, 0.1)
    top = fit_top((X, net(X)), list(net.layers[:1]), planes)
    assert top is not None and len(top.layer[1]) - top.passing == 4


def test_a_unit_that_switches_far_out_only_gets_rows_of_its_own():
    net, rng = draw(2, (6, 5, 4, 1)), np.random.default_rng(2)
    W, b = (part.copy() for part in net.layers[1])
    b[0] = -60.0
    net = DeepNetwork([net.layers[0], (W, b), net.layers[2]])
    rows = rng.normal(size=(300, 6))
    far = rng.normal(size=(200, 6)) * 64
    assert not net.patterns(rows)[1][:, 0].any() and net.patterns(far)[1][:, 0].any()
    found = rare_places(net, rows, np.concatenate([rows, far]), black_box(net), rng)
    assert net.patterns(found)[1][:, 0].sum() >= 15


def test_the_rank_rests_on_rows_in_which_each_pair_of_units_is_on():
    net, rng = draw(3, (6, 5, 4, 1)), np.random.default_rng(3)
    X = rng.normal(size=(3000, 6)) * 2
    first, second = net.patterns(X)[:2]
    X = X[
        ~(first[:, 1] & second[:, 2]) | (np.arange(len(X)) % 500 == 1)
    ]  # one pair is hardly ever on together
    first, second = net.patterns(X)[:2]
    together = np.flatnonzero(first[:, 1] & second[:, 2])
    chosen = _rows_of_all_units(net, X, 50)
    assert together.size and np.isin(together[:3], chosen).all()
