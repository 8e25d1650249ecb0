"""Harder deep networks: wide first layers, boxes, narrow ones, rare units, and those that look shallow nearby."""

from itertools import pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork, Outcome
from planted.identification._grid import DOUBLES
from planted.identification.deep._expansive import _common_solution, _gather_by_outputs, _share_solution
from planted.identification.deep._layers import pass_layers
from planted.identification.deep._patterns import Sought, barely_on, corner_places
from planted.identification.deep._planes import Planes
from planted.identification.deep._space import Breaks, Space
from planted.identification.deep.missing._rows import common_row, solve_gaps
from planted.identification.deep.stages._tracing import Surface, Tracer
from planted.identification.two_layer._search import BlackBox


def draw(rng, widths, *, size=1.0, bias=0.5):
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into) * size, bias * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    return DeepNetwork(layers)


def switches(net):
    """Whether every unit of the second layer switches somewhere: inputs of that layer are not negative."""
    W, b = net.layers[1]
    return bool((np.sign(W) != np.sign(b)[:, None]).any(axis=1).all())


def draw_switching(seed, widths, **options):
    rng = np.random.default_rng(seed)
    return next(net for net in (draw(rng, widths, **options) for _ in range(99)) if switches(net))


@pytest.mark.parametrize(("seed", "widths"), [(0, (4, 6, 4, 1)), (1, (5, 7, 4, 2)), (2, (6, 8, 5, 1))])
def test_a_first_layer_wider_than_the_inputs_is_read_back(seed, widths):
    net = draw_switching(seed, widths)
    found = planted.identify(net, random_state=seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, net) < 1e-9
    assert found.stats["queries"] < 60 * net.n_parameters


@pytest.mark.parametrize("seed", range(3))
def test_within_a_box_no_question_leaves_it(seed):
    net, farthest = draw_switching(seed, (10, 6, 5, 1)), 0.0

    def oracle(X):
        nonlocal farthest
        farthest = max(farthest, float(np.abs(X).max()))
        return net(X)

    found = planted.identify(oracle, 10, box=(-3, 3), random_state=seed)
    assert farthest <= 3.0
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, net) < 1e-9


def test_small_odd_networks_are_read_or_refused_and_never_claimed_wrongly():
    right = 0
    for seed in range(8):
        rng = np.random.default_rng([seed, 5])
        d = int(rng.integers(4, 9))
        widths = (d, int(rng.integers(3, d + 1)), int(rng.integers(2, 4)), int(rng.integers(1, 4)))
        net = draw(rng, widths, size=float(rng.choice([0.1, 1, 10])), bias=float(rng.choice([0.1, 0.5, 2])))
        found = planted.identify(net, random_state=seed)
        if found.outcome is not Outcome.RECOVERED:
            continue
        X = rng.normal(size=(4000, d)) * 10.0 ** rng.uniform(-2, 2, (4000, 1))
        sizes = np.abs(net(X)).max(axis=1, keepdims=True) + 1e-3 * net(X).std()
        assert (np.abs(found.network(X) - net(X)) <= 1e-6 * sizes).all(), (seed, widths)
        right += 1
    assert right >= 5  # of 8, some of which have units that never switch


@pytest.mark.parametrize("seed", range(2))
def test_a_unit_that_is_rarely_on_is_exact_too(seed):
    net = draw_switching(seed + 20, (12, 8, 5, 1))
    W, b = (part.copy() for part in net.layers[1])
    X = np.random.default_rng(seed).normal(size=(20_000, 12))
    b[0] = -np.quantile(np.maximum(X @ net.layers[0][0].T + net.layers[0][1], 0) @ W[0], 0.998)
    rare = DeepNetwork([net.layers[0], (W, b), net.layers[2]])
    found = planted.identify(rare, random_state=seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, rare) < 1e-10


@pytest.mark.parametrize("seed", [0, 7])
def test_a_unit_that_switches_hundreds_of_typical_inputs_out_is_exact_too(seed):
    net, rng = draw_switching(seed + 40, (8, 6, 5, 1)), np.random.default_rng([seed, 8])
    (W, b), (A, c) = ([part.copy() for part in layer] for layer in net.layers[1:])
    W[0], b[0] = -np.abs(W[0]), -rng.uniform(0.3, 0.8)
    W[0, rng.integers(6)] = rng.uniform(2e-3, 5e-3)
    A[0, 0] *= 0.01 / abs(A[0, 0])
    far = DeepNetwork([net.layers[0], (W, b), (A, c)])
    assert not far.patterns(rng.normal(size=(20_000, 8)))[1][:, 0].any()
    found = planted.identify(far, random_state=seed)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, far) < 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_a_network_that_is_shallow_only_nearby_is_not_claimed_as_shallow(seed):
    net = draw_switching(seed + 3, (5, 4, 3, 1), bias=0.1)
    W, b = net.layers[1]
    net = DeepNetwork([net.layers[0], (W, b + 12.0), net.layers[2]])  # the upper units switch far out only
    X = np.random.default_rng(seed).normal(size=(2000, 5))
    assert net.patterns(X)[1].all()
    found = planted.identify(net, random_state=seed)
    assert found.network is None or isinstance(found.network, DeepNetwork), found.detail
    assert found.outcome is not Outcome.RECOVERED or planted.parameter_error(found.network, net) < 1e-8


def test_a_common_row_is_found_beside_answers_of_another_unit():
    rng = np.random.default_rng(0)
    H = np.maximum(rng.normal(size=(60, 4)), 0.0)
    row, other = rng.normal(size=(2, 5))
    values, further = H @ row[:-1] + row[-1], H @ other[:-1] + other[-1]
    left = np.maximum(values, 0.0)[:, None]
    left[:3] += np.maximum(further, 0.0)[:3, None]  # a few places at which a second unit is on
    found = common_row(H, left, (left != 0).any(axis=1))
    assert found is not None
    (weights, seen), expected = found, row / np.linalg.norm(row[:-1])
    assert seen.all()
    np.testing.assert_allclose(weights * np.sign(weights @ expected), expected, atol=1e-10)
    assert common_row(H, rng.normal(size=(60, 1)), np.ones(60, dtype=bool)) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_weight_that_one_answer_alone_shows_is_not_said_to_be_known(seed):
    rng = np.random.default_rng([seed, 6])
    H = np.maximum(rng.normal(size=(60, 4)), 0.0)
    row = rng.normal(size=5)
    row[-1] = abs(row[-1]) + 1.0
    H[:, 3] = 0.0
    H[:, 3][int((H @ row[:-1]).argmax())] = 1.0  # one place at which the fourth unit below is on
    left = np.maximum(H @ row[:-1] + row[-1], 0.0)[:, None]
    left[H[:, 3] > 0] += rng.uniform(1, 2)  # and another unit as well
    found = common_row(H, left, (left != 0).any(axis=1))
    assert found is not None
    assert found[1].tolist() == [True, True, True, False]
    shown = [0, 1, 2, 4]
    expected = row[shown] / np.linalg.norm(row[:3])
    np.testing.assert_allclose(found[0][shown] * np.sign(found[0][4]), expected, atol=1e-10)


def test_rare_units_above_a_wide_first_layer_are_read_back():
    rng = np.random.default_rng([3, 27, 8, 14, 10, 1])
    net = draw(rng, (8, 14, 10, 1))
    on = net.patterns(np.random.default_rng(0).normal(size=(20_000, 8)))[1].mean(axis=0)
    assert on.min() < 0.004 and on.max() > 0.99  # units that hardly ever switch, one of either kind
    found = planted.identify(net, random_state=10_003)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert planted.parameter_error(found.network, net) < 1e-10
    assert found.stats["queries"] < 40 * net.n_parameters
    assert "For the region asked about" in found.detail


def breaks_of(rng, rows, layer, count):
    """Equations of breaks of a unit above one layer: the gradient jumps by its row through what is on below."""
    W, b = layer
    systems, ends = [], []
    while len(systems) < count:
        X = rng.normal(size=(2, W.shape[1]))
        t = (np.maximum(X @ W.T + b, 0) @ rows[:-1]) + rows[-1]
        if t[0] * t[1] > 0:
            continue
        for _ in range(60):  # a place of its surface
            middle = X.mean(axis=0)
            X[int(np.sign(np.maximum(middle @ W.T + b, 0) @ rows[:-1] + rows[-1]) == np.sign(t[1]))] = middle
        on = X[0] @ W.T + b > 0
        slopes = np.column_stack([(W * on[:, None]).T, np.zeros(W.shape[1])])
        systems.append(np.vstack([slopes, np.append(np.maximum(X[0] @ W.T + b, 0), 1.0)]))
        ends.append(rng.choice([-1.0, 1.0]) * np.append(slopes @ rows, 0.0))
    return np.array(systems), np.array(ends)


def test_breaks_of_one_unit_are_recognised_by_their_common_solution():
    rng = np.random.default_rng(1)
    layer = rng.normal(size=(14, 8)), rng.normal(size=14)
    row, other = rng.normal(size=(2, 15))
    A, g = breaks_of(rng, row, layer, 9)
    B, h = breaks_of(rng, other, layer, 9)
    assert _share_solution(A[0], g[0], A[1:], g[1:]).all()
    assert not _share_solution(A[0], g[0], B, h).any()
    found, settled = _common_solution(A, g)
    np.testing.assert_allclose((found * np.sign(found @ row))[:-1][settled], row[:-1][settled], atol=1e-8)
    assert settled.sum() >= 12
    assert _common_solution(np.concatenate([A, B]), np.concatenate([g, h])) is None


def places_of(rng, net, unit, count, accepts=lambda x: True):
    """Places at which a unit of the second layer switches, and the normals there."""
    (V, a), (W, b) = net.layers[:2]
    found = []
    while len(found) < count:
        X = rng.normal(size=(2, V.shape[1]))
        values = np.maximum(X @ V.T + a, 0) @ W[unit] + b[unit]
        if values[0] * values[1] > 0:
            continue
        for _ in range(60):
            middle = X.mean(axis=0)
            X[int(np.sign(np.maximum(middle @ V.T + a, 0) @ W[unit] + b[unit]) == np.sign(values[1]))] = (
                middle
            )
        if accepts(X[0]):
            normal = (W[unit] * (X[0] @ V.T + a > 0)) @ V
            found.append((X[0], rng.choice([-1.0, 1.0]) * normal))
    places, normals = (np.array(each) for each in zip(*found, strict=True))
    return places, normals


def tracer_of(net):
    V, a = net.layers[0]
    lengths = np.linalg.norm(V, axis=1) * np.resize([1.0, -1.0, -1.0], len(a))  # sides are not told
    d = V.shape[1]
    space = Space.calibrated(
        net,
        lambda count, rng: rng.normal(size=(count, d)),
        sides=np.zeros((0, d)),
        limits=np.zeros(0),
        reach=1024.0,
        rng=np.random.default_rng(0),
    )
    planes = Planes.none(d)
    for row, bias, length in zip(V, a, lengths, strict=True):
        planes.append(row / length, bias / length, 1e-12, row)
    return Tracer(space, planes, np.random.default_rng(1)), np.sign(lengths)


@pytest.mark.parametrize("seed", range(2))
def test_several_outputs_tell_breaks_of_units_apart_before_sides_are_known(seed):
    rng = np.random.default_rng([seed, 2])
    net = draw(rng, (4, 9, 6, 2))
    tracer, sides = tracer_of(net)
    parts = []
    for unit in range(6):
        places, normals = places_of(rng, net, unit, 60)
        sizes = np.linalg.norm(normals, axis=1)
        strengths = net.layers[2][0][:, [unit]] * sizes
        none = np.zeros((60, 2, 2, 4))
        parts.append(
            Breaks(normals / sizes[:, None], strengths, places, np.full(60, 1e-12), none, places[:, None])
        )
    _gather_by_outputs(tracer, Breaks.join(parts))
    np.testing.assert_array_equal(tracer.sides, sides)


@pytest.mark.parametrize("seed", range(2))
def test_a_surface_is_found_beyond_a_unit_that_was_off_at_all_its_places(seed):
    rng = np.random.default_rng([seed, 3])
    net = draw(rng, (4, 9, 6, 1))
    tracer, tracer.sides = tracer_of(net)
    (V, a), (W, b) = net.layers[:2]
    places, normals = places_of(rng, net, 0, 40, accepts=lambda x: V[2] @ x + a[2] < 0)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    surface = Surface(list(places), list(normals))
    assert tracer.solve(surface) == "open"
    solution, settled = tracer.partial_solution(surface)
    assert not settled[2] and settled.sum() == 8  # other draws have more such units
    tracer.complete(surface, solution, settled)
    row = np.append(W[0] * np.linalg.norm(V, axis=1), b[0])
    found = surface.solution / np.linalg.norm(surface.solution)
    np.testing.assert_allclose(found * np.sign(found @ row), row / np.linalg.norm(row), atol=1e-6)


def test_a_place_shows_the_weight_to_a_unit_that_is_barely_on():
    rng = np.random.default_rng(2)
    layers = [(rng.normal(size=(6, 4)), rng.normal(size=6)), (rng.normal(size=(5, 6)), rng.normal(size=5))]
    weights = np.where(np.arange(5) == 2, 0.0, rng.normal(size=5))
    sought = Sought(weights, -0.1, np.array([2]))
    place = barely_on(layers, sought, 2, size=0.5, height=0.05, rooms=[20.0])
    h = pass_layers(layers, place[None])[0]
    assert 0 < h[2] < 0.2 and h @ weights - 0.1 > 0.1
    layers[1][0][2], layers[1][1][2] = -1.0, -1.0  # that unit is never on
    assert barely_on(layers, sought, 2, size=0.5, height=0.05, rooms=[20.0]) is None


def test_gaps_are_written_only_where_the_answers_settle_them_and_agree():
    whole, known = np.array([1.0, 0.0, 0.0, 0.5]), np.array([True, False, False])
    gaps = np.array([1, 2])
    A = np.array([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0]])
    assert solve_gaps(A, A[:, 0] * 0.7, whole, known, gaps).tolist() == [True, True, False]
    assert whole[1] == pytest.approx(0.7, rel=1e-12) and whole[2] == 0.0
    assert solve_gaps(A, np.array([0.1, 0.2, -0.3]), whole, known, gaps).tolist() == known.tolist()
    A = np.vstack([A, np.zeros(2)])  # a place where no gap has an effect says nothing
    assert solve_gaps(A, A[:, 0] * 0.7, whole, known, gaps).tolist() == [True, True, False]


def test_corners_show_units_that_are_hardly_ever_on():
    net = draw(np.random.default_rng([4, 27, 8, 14, 10, 1]), (8, 14, 10, 1))
    box = BlackBox(net, 8, False, lambda Z: Z, DOUBLES)
    rng = np.random.default_rng(0)
    rare = ~net.patterns(box.draw(20_000, rng))[1]
    unit = int(rare.mean(axis=0).argmin())
    assert rare[:, unit].mean() < 1e-3  # almost never off
    at_corners = ~net.patterns(corner_places(list(net.layers[:1]), box, 240, rng))[1][:, unit]
    assert at_corners.mean() > 0.01
