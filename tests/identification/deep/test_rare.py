"""Units that are hardly ever on, or hardly ever off, above a wide first layer: read from what there is, or not claimed."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from planted import DeepNetwork, parameter_error
from planted.identification._grid import DOUBLES
from planted.identification._rounding import Rounding
from planted.identification.deep import DeepFinding, Reading, Records, finish_single, with_far_answers
from planted.identification.deep._expansive import _coefficients, _farthest_pattern
from planted.identification.deep._gaps import ask_beside_gaps, filled_from_answers
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._planes import Planes
from planted.identification.deep._regions import PartialRows
from planted.identification.deep._space import Breaks
from planted.identification.deep._top import fit_top
from planted.identification.deep.ending import _far
from planted.identification.deep.ending._finish import (
    _count_unexplained,
    _gap_places,
    _without_needless,
    missing_rank,
    weigh,
)
from planted.identification.deep.ending._polish import polish
from planted.identification.deep.missing import LastUnits, MissingUnits, _search
from planted.identification.deep.stages._tracing import Tracer
from planted.identification.two_layer._search import BlackBox, Checks

WIDTHS = (4, 8, 7, 2)


def draw(seed, widths=WIDTHS):
    """A network whose last hidden units are on for a tenth to nine tenths of typical inputs, the first for 99.5 %."""
    rng = np.random.default_rng([seed, 91])
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    H = pass_layers(layers[:1], rng.normal(size=(20_000, widths[0])))
    W, b = layers[1]
    shares = np.append(0.005, rng.uniform(0.1, 0.9, len(b) - 1))
    b[:] = [-np.quantile(values, share) for values, share in zip((H @ W.T).T, shares, strict=True)]
    return DeepNetwork(layers)


def records_of(net, count=4000, seed=0):
    rng = np.random.default_rng([seed, 92])
    d = net.widths[0]
    records = Records(BlackBox(net, d, False, lambda Z: Z, DOUBLES))
    records.ask(rng.normal(size=(count, d)) * 2.0 ** rng.uniform(-1, 2, (count, 1)))
    return records


def off_by(net, planes):
    """How far each unit of the last hidden layer is from the nearest of those that were found, up to sign and scale."""
    truth, found = (np.column_stack(each) for each in (net.layers[-2], planes))
    truth, found = (each / np.linalg.norm(each, axis=1)[:, None] for each in (truth, found))
    return np.minimum(*(np.abs(truth[:, None] - side * found).max(axis=2).min(axis=1) for side in (1, -1)))


@pytest.mark.parametrize("seed", range(4))
def test_a_unit_that_is_nearly_always_on_is_read_from_the_linear_part(seed):
    net = draw(seed)
    layers, (W, b) = list(net.layers[:1]), net.layers[1]
    missing = MissingUnits(records_of(net, seed=seed), np.random.default_rng(seed))
    explained = missing._explain_most(layers, LastUnits.whole((W[1:], b[1:]), 2))
    assert explained is not None
    found = missing._from_rest(layers, *explained)
    assert found is not None and found.known.all()
    size = np.linalg.norm(W[0])
    # Seven digits; all answers restore the others later.
    np.testing.assert_allclose(found.rows[0], W[0] / size, atol=1e-7)
    np.testing.assert_allclose(found.biases[0], b[0] / size, atol=1e-7)
    np.testing.assert_allclose(found.alphas[0], net.layers[2][0][:, 0] * size / 2, atol=1e-7)
    # With one output, the linear part may be that of other units turned round.
    single = DeepNetwork([*net.layers[:2], (net.layers[2][0][:1], net.layers[2][1][:1])])
    missing = MissingUnits(records_of(single, seed=seed), np.random.default_rng(seed))
    explained = missing._explain_most(layers, LastUnits.whole((W[1:], b[1:]), 1))
    assert explained is not None and missing._from_rest(layers, *explained) is None


@pytest.mark.parametrize("seed", range(4))
def test_units_with_gaps_are_completed(seed):
    """Gaps of a unit beyond which it is nearly always on, and of one beyond which it is nearly always off."""
    net = draw(seed)
    layers, (W, b) = list(net.layers[:1]), net.layers[1]
    records = records_of(net, seed=seed)
    H = pass_layers(layers, records.all()[0])
    on = H @ W.T + b > 0
    shares = (on.T.astype(float) @ (H > 0)) / (H > 0).sum(axis=0)  # of unit j, where unit i below is on
    unit, below = np.unravel_index(np.abs(shares - 0.5).argmax(), shares.shape)
    units = LastUnits.whole((W.copy(), b), 2)
    units.rows[unit, below], units.known[unit, below] = 0.0, False
    completed = MissingUnits(records, np.random.default_rng(seed)).complete(layers, units)
    assert completed is not None
    planes, known = completed
    assert known.all() and off_by(net, planes).max() < 1e-7


@pytest.mark.parametrize("weight", [3.0, 8.0])
def test_few_answers_show_the_weight_of_a_unit_that_its_known_weights_call_off(weight):
    rng = np.random.default_rng(3)
    net = draw(3, (5, 6, 5, 1))
    W, b = (part.copy() for part in net.layers[1])
    W[1, 2] = weight
    net = DeepNetwork([net.layers[0], (W, b), net.layers[2]])
    X = rng.normal(size=(12_000, 5)) * 2.0 ** rng.uniform(-1, 2, (12_000, 1))
    known = np.ones(W.shape, dtype=np.bool_)
    known[1, 2] = False
    H = pass_layers(list(net.layers[:1]), X)
    beyond, says_off = H[:, 2] > 0, H @ np.where(known, W, 0.0)[1] + b[1] < 0
    on = net.patterns(X)[1][:, 1]
    X = np.concatenate([X[~(on & beyond)], X[on & beyond & says_off][:6]])  # six answers of some thousands
    rows = PartialRows.of((np.where(known, W, 0.0), b), known)
    filled = filled_from_answers((X, net(X)), list(net.layers[:1]), rows, rng)
    assert filled.is_complete
    row = filled.weights[1] / filled.biases[1]
    np.testing.assert_allclose(row, W[1] / b[1], atol=1e-6)


def test_questions_for_a_gap_go_where_the_unit_below_is_on_far_out():
    net, rng = draw(1), np.random.default_rng(1)
    (V, a), (W, b), output = net.layers
    a = a.copy()
    a[3] = -np.linalg.norm(V[3]) * 60  # the unit below is on 30 typical inputs out
    net = DeepNetwork([(V, a), (W, b), output])
    records = records_of(net)
    direction = V[3] / np.linalg.norm(V[3])
    records.ask(70 * direction + rng.normal(size=(5, 4)))
    known = np.ones(W.shape, dtype=np.bool_)
    known[:, 3] = False
    before = len(records.all()[0])
    assert ask_beside_gaps(records, [(V, a)], PartialRows.of((np.where(known, W, 0), b), known), rng)
    assert (pass_layers([(V, a)], records.all()[0][before:])[:, 3] > 0).sum() >= 20


@pytest.mark.parametrize("seed", range(3))
def test_changes_of_the_gradient_give_the_coefficients_of_units(seed):
    net, rng = draw(seed), np.random.default_rng(seed)
    first, (W, b), (A, _) = net.layers
    parts = []
    for unit in range(1, 7):
        ends = rng.normal(size=(400, 2, 4))
        T = pass_layers([first], ends.reshape(-1, 4)).reshape(400, 2, -1) @ W[unit] + b[unit]
        low, high = (ends[T[:, 0] * T[:, 1] < 0][:5, side] for side in (0, 1))
        line = high - low
        for _ in range(60):
            middle = (low + high) / 2
            same = np.sign(pass_layers([first], middle) @ W[unit] + b[unit])
            same = same == np.sign(pass_layers([first], low) @ W[unit] + b[unit])
            low, high = np.where(same[:, None], middle, low), np.where(same[:, None], high, middle)
        normals = ((low @ first[0].T + first[1] > 0) * W[unit]) @ first[0]
        jumps = normals * np.sign((normals * line).sum(axis=1))[:, None]  # of the unit, along the line
        sizes, turns = np.linalg.norm(jumps, axis=1), rng.choice([-1.0, 1.0], 5)
        beside = np.stack([low - 1e-4 * line, low + 1e-4 * line], axis=1)
        none = np.zeros((5, 2, 2, 4))
        strengths = A[:, [unit]] * sizes * turns
        parts.append(
            Breaks(jumps / (sizes * turns)[:, None], strengths, low, np.full(5, 1e-12), none, beside)
        )
    found = _coefficients(first, LastUnits.whole((W, b), 2), Breaks.join(parts))
    assert np.isnan(found[0]).all()  # no break of that unit
    np.testing.assert_allclose(found[1:], A[:, 1:].T / 2, rtol=1e-9)


def test_a_line_goes_through_a_place_with_another_pattern():
    planes = Planes(np.eye(3), np.zeros(3), np.full(3, 1e-12), np.zeros((3, 3)))
    met = Breaks(
        np.eye(3)[:1],
        np.ones((1, 1)),
        np.array([[1.0, 1.0, 1.0]]),
        np.full(1, 1e-12),
        np.zeros(1),
        np.zeros(1),
    )
    tracer = Tracer(None, planes, np.random.default_rng(0), np.ones(3), met=[met])
    places = np.array([[2.0, 1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, 1.0, -1.0]])
    np.testing.assert_array_equal(_farthest_pattern(tracer, places), places[1])


def reading_of(net, answers):
    top = fit_top(answers, list(net.layers[:-2]), net.layers[-2])
    rounding = Rounding(np.full(net.n_outputs, 1e-15), np.sqrt(net.widths[0]), False, 1e-16)
    return Reading([*net.layers[:-2], top.layer], top, rounding=rounding)


def finding_of(net, **options):
    d = net.widths[0]
    rounding = Rounding(np.full(net.n_outputs, 1e-14), np.sqrt(d), False, 1e-16)
    return DeepFinding(net, Checks(0, 0.0, np.zeros(d), None, np.zeros(1)), 0, 1, 0, (), rounding, **options)


def test_every_answer_must_be_explained():
    net, rng = draw(2), np.random.default_rng(2)
    X = rng.normal(size=(2000, 4))
    W, b = net.layers[1]
    assert _count_unexplained(net, X, net(X)) == 0
    without = DeepNetwork([net.layers[0], (W, b + 0.1 * np.eye(7)[0]), net.layers[2]])
    without = DeepNetwork(
        [*without.layers[:2], (net.layers[2][0], net.layers[2][1] - 0.1 * net.layers[2][0][:, 0])]
    )
    off = ~net.patterns(X)[1][:, 0]  # the only places at which they differ, but for those between
    assert 0 < off.sum() < 40 and 0 < _count_unexplained(without, X, net(X)) < 80
    assert finding_of(net).is_right and not finding_of(net, unexplained=1).is_right


def test_parameters_that_the_answers_leave_uncertain_are_counted():
    net, rng = draw(2), np.random.default_rng(2)
    X = rng.normal(size=(3000, 4)) * 2.0 ** rng.uniform(-1, 2, (3000, 1))
    assert missing_rank(net, X, net(X)) == 0
    assert missing_rank(net, X, net(X) + 1e-6 * rng.normal(size=(3000, 2))) > 20
    on = net.patterns(X)[1][:, 0]
    assert missing_rank(net, X[on], net(X)[on]) > 0  # one unit is never off


def test_places_are_found_at_which_a_weight_has_an_effect():
    net = draw(4)
    layers, (W, b) = list(net.layers[:1]), net.layers[1]
    records = records_of(net)
    reading = reading_of(net, records.all())
    below = 5
    gaps = np.zeros(W.shape, dtype=np.bool_)
    gaps[2, below] = True
    reading.top = replace(reading.top, gaps=gaps)
    row = np.where(np.arange(8) == below, 0.0, W[2])
    reading.layers[-1] = np.where(gaps, 0.0, W), b
    places = _gap_places(reading, records.box, records.all()[0])
    H = pass_layers(layers, places)
    assert len(places) == 5 and (H[:, below] > 0).all() and (H @ row + b[2] > 0).all()
    reading.top = replace(reading.top, gaps=np.zeros(W.shape, dtype=np.bool_))
    assert not len(_gap_places(reading, records.box, records.all()[0]))


def narrow(seed):
    """A unit above a wide first layer that is on in few directions, and the network without it."""
    net = draw(seed, (5, 12, 6, 1))
    W, b = (part.copy() for part in net.layers[1])
    W[0] = np.where(np.arange(12) < 3, 1.0, -2.5)
    b[0] = -0.3
    output = net.layers[2]
    whole = DeepNetwork([net.layers[0], (W, b), output])
    return whole, DeepNetwork([net.layers[0], (W[1:], b[1:]), (output[0][:, 1:], output[1])])


def test_many_rays_to_corners_show_a_unit_that_is_on_in_few_directions(monkeypatch):
    seen = {True: 0, False: 0}
    for has_more in (True, False):
        monkeypatch.setattr(_far, "MORE_CORNERS", 1_000 if has_more else 0)
        for seed in range(6):
            net, without = narrow(seed)
            found = with_far_answers(finding_of(without), records_of(net, 100), np.random.default_rng(seed))
            seen[has_more] += found.agrees_within < _far.FARTHEST
            # How far out the network holds is asked nearer by, not taken from the one distance of most rays.
            if has_more and found.agrees_within < _far.FARTHEST:
                assert found.agrees_within < _far.ONCE / 4
            right = with_far_answers(finding_of(net), records_of(net, 100), np.random.default_rng(seed))
            assert right.agrees_within == _far.FARTHEST
    assert seen[True] > seen[False]


def test_large_problems_are_refined_to_the_last_digit():
    net, rng = draw(5, (4, 16, 16, 2)), np.random.default_rng(5)
    V, a = (part.copy() for part in net.layers[0])
    V[8:], a[8:] = V[:8] + 1e-3 * rng.normal(size=(8, 4)), a[:8] + 1e-3  # units that are nearly the same
    net = DeepNetwork([(V, a), *net.layers[1:]])
    X = rng.normal(size=(6000, 4)) * 2.0 ** rng.uniform(
        -1, 3, (6000, 1)
    )  # four million numbers in the Jacobian
    rough = DeepNetwork([(W * (1 + 1e-7 * rng.normal(size=W.shape)), b) for W, b in net.layers])
    found = polish(rough, X, net(X), 1 / (1 + np.linalg.norm(X, axis=1)))
    assert np.abs(found(X) - net(X)).max() < 1e-12  # a few hundred rounding errors; LSMR ends at 1e-9


def test_single_precision_determines_a_unit_that_switches_farther_out():
    """Places on its rare side are taken from all answers, not from typical ones only."""
    rng = np.random.default_rng(7)
    layers = list(draw(7, (8, 5, 4, 1)).layers)
    W, b = layers[1]
    W, b = np.concatenate([np.abs(W[:1]), W[1:]]), np.append(-60.0, b[1:])  # on far out
    layers[1] = W, b
    net = DeepNetwork([(W.astype(np.float32), b.astype(np.float32)) for W, b in layers])
    records = Records(
        BlackBox(lambda X: net(X).astype(np.float32).astype(float), 8, False, lambda Z: Z, DOUBLES)
    )
    typical = rng.normal(size=(600, 8)) * 2.0 ** rng.uniform(-1, 1, (600, 1))
    far = rng.normal(size=(300, 8)) * 150
    assert not net.patterns(typical)[1][:, 0].any() and net.patterns(far)[1][:, 0].mean() > 0.2
    records.ask(np.concatenate([typical, far]))
    reading = reading_of(net, (far, net(far)))
    finding = finish_single(reading, records, np.ones(8), rng=np.random.default_rng(0))
    assert finding.bound is not None and finding.bound < 1e-3 and not finding.one_sided


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_missing_unit_is_added_though_the_layers_below_have_few_digits(seed):
    net, rng = draw(seed, (6, 6, 5, 2)), np.random.default_rng([seed, 93])
    (W, b), (V, c), _ = net.layers
    layers = [(W + 1e-8 * rng.normal(size=W.shape), b)]
    records = records_of(net, seed=seed)
    completed = MissingUnits(records, rng).complete(layers, (V[1:], c[1:]))
    assert completed is not None
    top = fit_top(records.all(), layers, *completed)
    assert top is not None and top.residual < 1e-10 and not (top.passing or top.unseen)
    assert off_by(net, completed[0]).max() < 1e-6  # the scales of the units below have moved by 1e-8


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_last_unit_that_may_be_added_is_looked_at_too(seed, monkeypatch):
    monkeypatch.setattr(_search, "MOST_UNITS", 1)
    net, rng = draw(seed, (6, 6, 5, 2)), np.random.default_rng([seed, 93])
    V, c = net.layers[1]
    completed = MissingUnits(records_of(net, seed=seed), rng).complete([net.layers[0]], (V[1:], c[1:]))
    assert completed is not None and off_by(net, completed[0]).max() < 1e-6


def with_gap(net, seed):
    """Units of the last hidden layer, one of them with a gap beyond which it is on both sides, if there is such a one."""
    rng = np.random.default_rng([seed, 94])
    (W, b), (V, c), (A, _) = net.layers
    H = np.maximum(rng.normal(size=(4000, W.shape[1])) @ W.T + b, 0.0)
    on = H @ V.T + c > 0
    shares = (on.T.astype(float) @ (H > 0)) / np.maximum((H > 0).sum(axis=0), 1)
    mixed = np.minimum(shares, 1 - shares) * (np.abs(on.mean(axis=0) - 0.5) > 0.2)[:, None]
    known = np.arange(V.size).reshape(V.shape) != mixed.argmax()
    norms = np.linalg.norm(V, axis=1)
    units = LastUnits.whole((np.where(known, V / norms[:, None], 0.0), c / norms), len(A))
    return replace(units, known=known), rng


@pytest.mark.parametrize("seed", [5])
def test_a_unit_that_is_on_both_sides_beyond_its_gap_is_read_afresh(seed):
    net = draw(seed, (6, 6, 5, 2))
    units, rng = with_gap(net, seed)
    records = records_of(net, seed=seed)
    completed = MissingUnits(records, rng).complete([net.layers[0]], units)
    assert completed is not None and completed[1].all()
    assert len(completed[0][1]) == 5 and off_by(net, completed[0]).max() < 1e-9


@pytest.mark.parametrize("seed", [0, 9])
def test_coefficients_of_units_whose_gaps_are_filled_are_not_measured_again(seed):
    net = draw(seed, (6, 6, 5, 2))
    units, rng = with_gap(net, seed)
    search, layers = MissingUnits(records_of(net, seed=seed), rng), [net.layers[0]]
    filled = search._without_gaps(layers, *search._explain_most(layers, units))
    assert filled is not None and filled.known.all() and np.isfinite(filled.alphas).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_weak_unit_that_makes_up_for_errors_of_another_is_dropped(seed):
    """Both are on for the same few answers, and explain them together: the other one does without it, once it is right."""
    rng = np.random.default_rng([seed, 81])
    layers = [(rng.normal(size=(out, into)), rng.normal(size=out)) for into, out in pairwise((5, 5, 4, 1))]
    X = 2 * rng.normal(size=(500, 5))
    (W, b), (A, c) = layers[1], layers[2]
    H = pass_layers(layers[:1], X)
    b -= np.quantile(H @ W.T + b, [0.92, 0.5, 0.5, 0.5], axis=0).diagonal()
    truth = DeepNetwork(layers)
    on = H @ W[0] + b[0] > 0
    w, bias = W[0] * (1 + 0.02 * rng.normal(size=5)), b[0]
    bias -= (H[~on] @ w + bias).max() if (H[~on] @ w + bias).max() > 0 else 0.0
    assert on.sum() > 20 and ((H @ w + bias)[on] > 0).mean() > 0.8
    share = 3e-4 / A[0, 0]
    rows = np.vstack([W[0] - share * w, W[1:], w]), np.append(b, bias)
    rows[1][0] -= share * bias
    wide = DeepNetwork([layers[0], rows, (np.append(A, [[3e-4]], axis=1), c)])
    kept = ~on | (H @ w + bias > 0)  # where both are on, or both are off
    X, Y = X[kept], truth(X[kept])
    np.testing.assert_allclose(wide(X), Y, atol=1e-12)
    reading = SimpleNamespace(passing=0, layers=list(wide.layers[:2]), top=None)
    found = _without_needless(wide, X, Y, reading)
    assert found.widths == truth.widths and parameter_error(found, truth) < 1e-9
    assert len(reading.layers[-1][1]) == 4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", [1e-3, 5e-7])
def test_a_weak_unit_that_is_there_is_kept(seed, part):
    rng = np.random.default_rng([seed, 82])
    layers = [(rng.normal(size=(out, into)), rng.normal(size=out)) for into, out in pairwise((5, 5, 4, 1))]
    X = 2 * rng.normal(size=(500, 5))
    layers[1][1][:] -= np.median(pass_layers(layers[:1], X) @ layers[1][0].T + layers[1][1], axis=0)
    values = np.maximum(pass_layers(layers[:1], X) @ layers[1][0][0] + layers[1][1][0], 0.0)
    layers[2][0][0, 0] = part * DeepNetwork(layers)(X).std() / (values * weigh(X)).max()
    truth = DeepNetwork(layers)
    reading = SimpleNamespace(passing=0, layers=list(truth.layers[:2]), top=None)
    noise = (
        0.01 * part * rng.uniform(-1, 1, (500, 1))
    )  # as rounding leaves: the unit is a hundred times as large
    assert _without_needless(truth, X, truth(X) + noise, reading).widths == truth.widths
