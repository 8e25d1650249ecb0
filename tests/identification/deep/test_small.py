"""Small networks of several layers: right or a reason that is true, whatever few breaks and narrow regions they have."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from planted import DeepNetwork, Outcome, identify, parameter_error
from planted.identification import _exact
from planted.identification._session import QuerySession
from planted.identification.deep import _regions, _space
from planted.identification.deep._kinds import name_other_kind
from planted.identification.deep._planes import Planes, Survey
from planted.identification.deep.ending._verdict import count_parallel


def drawn(seed: int) -> DeepNetwork:
    """A ReLU network with layers of two to four units."""
    rng = np.random.default_rng([seed, 77])
    sizes = [int(rng.integers(2, 7)), *rng.integers(2, 5, int(rng.integers(1, 4))).tolist(), 1 + seed % 2]
    layers = [
        (rng.standard_normal((out, into)) * np.sqrt(2 / into), rng.uniform(-0.5, 0.5, out))
        for into, out in pairwise(sizes)
    ]
    return DeepNetwork(layers)


@pytest.mark.parametrize("seed", range(16))
def test_a_small_network_is_right_or_refused_with_a_true_reason(seed: int) -> None:
    net = drawn(seed)
    found = identify(net, net.n_features, budget=12_000, random_state=seed)
    if found.outcome is Outcome.RECOVERED:
        assert found.network is not None
        X = 3 * np.random.default_rng(seed).standard_normal((2000, net.n_features))
        np.testing.assert_allclose(found.network(X), net(X), atol=1e-9)
    else:  # its units are ReLU units, and nothing skips a layer
        other = "were not found" in found.detail or "it widens" in found.detail
        assert other or not ("not ReLU" in found.detail or "skip" in found.detail)
        assert "leaky" not in found.detail and "bends" not in found.detail


def test_a_corner_at_the_centre_of_a_region_gives_no_line() -> None:
    # Far from all its sides: the place well within it is a corner of the cube in which it is looked at.
    region = _regions.Region(np.eye(2), np.full(2, 100.0), np.eye(2), np.zeros(2), np.ones(2, dtype=np.bool_))
    for seed in range(4):
        found = _regions._corners(region, np.random.default_rng(seed))
        assert found is not None and (np.linalg.norm(found[1] - found[0], axis=1) > 1e-6).all()


def test_a_question_that_is_not_finite_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = QuerySession.ask

    def spoiled(self: QuerySession, X: np.ndarray, *, fresh: bool = False) -> np.ndarray:
        return ask(
            self,
            np.where(np.arange(len(X))[:, None] == 0, np.nan, X) if self.queries > 300 else X,
            fresh=fresh,
        )

    monkeypatch.setattr(QuerySession, "ask", spoiled)
    net, seen = drawn(1), []

    def oracle(X: np.ndarray) -> np.ndarray:
        seen.append(np.isfinite(X).all())
        return net(X)

    found = identify(oracle, net.n_features, random_state=0)
    assert found.outcome is Outcome.STOPPED_EARLY and "not finite" in found.detail and all(seen)


@pytest.mark.parametrize("seed", range(4))
def test_a_missing_unit_is_no_other_kind_while_lines_show_new_ones(seed: int) -> None:
    """Rows that span all inputs explain every gradient: with wrong parts where one unit has not been found yet."""
    rng = np.random.default_rng([seed, 78])
    W, b, A = rng.standard_normal((4, 3)), 0.3 * rng.standard_normal(4), rng.standard_normal((2, 4))
    b[3], A[:, 3] = 5.0, 2 * A[:, 3]  # mostly on: its part is taken for one of the others
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    pairs = []
    for unit in np.repeat(np.arange(3), 10):
        place = 2 * rng.standard_normal(3)
        place -= (W[unit] @ place + b[unit]) * W[unit]
        pairs += [place - 1e-6 * W[unit], place + 1e-6 * W[unit]]
    places = np.array(pairs)
    gradients = np.einsum("mk,nk,kp->nmp", A, places @ W.T + b > 0, W)
    planes = Planes(W[:3], b[:3], np.zeros(3), places[:3])
    survey = Survey(planes, gradients=[(places, gradients)])
    assert name_other_kind(survey, is_certain=True, is_quiet=False) == ""
    assert "were not found" in name_other_kind(survey, is_certain=True, is_quiet=True)


# Two units on two inputs below one: a flat part of the unit above looks like a unit of the first layer on many lines.
TWO_TWO_ONE = DeepNetwork(
    [([[1.0, 0.3], [-0.4, 1.0]], [0.2, -0.1]), ([[0.7, -0.5]], [0.1]), ([[1.0]], None)],
)


SHAPES = ((8, 12), (6, 8), (1, 6))


@pytest.mark.parametrize("seed", range(56, 72))
def test_what_one_reading_missed_another_one_finds(seed: int) -> None:
    found = identify(TWO_TWO_ONE, 2, random_state=seed)
    assert found.outcome is Outcome.RECOVERED and parameter_error(found.network, TWO_TWO_ONE) < 1e-10


def test_a_second_reading_is_made_only_where_nothing_names_another_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = []
    read = _exact._DeepReader._read
    monkeypatch.setattr(
        _exact._DeepReader, "_read", lambda self, scans: (readings.append(len(scans)), read(self, scans))[1]
    )
    rng = np.random.default_rng(27)
    net = DeepNetwork(
        [(rng.standard_normal(shape) / 2, 0.5 * rng.standard_normal(shape[0])) for shape in SHAPES]
    )
    found = identify(lambda X: net(X) + X[:, :1], 12, random_state=0)
    assert "skips the hidden layers" in found.detail and len(readings) == 1, found.detail


@pytest.mark.parametrize("seed", range(5))
def test_a_line_that_begins_far_away_has_as_many_breaks_as_the_function(seed: int) -> None:
    # Its places are differences of far larger numbers: their rounding errors are none of the function's.
    rng = np.random.default_rng([seed, 186])
    weights, bias = rng.uniform(0.4, 1.0, 2) * [1, -1], rng.uniform(0, 0.2)

    def ask(U: np.ndarray) -> np.ndarray:
        return np.maximum(U @ weights + bias, 0.0)[:, None]

    def draw(count: int, stream: np.random.Generator) -> np.ndarray:
        return np.abs(stream.standard_normal((count, 2)))

    space = _space.Space.calibrated(ask, draw, sides=-np.eye(2), limits=np.zeros(2), reach=400.0, rng=rng)
    origin, end = np.array([rng.uniform(150, 300), 0.003]), np.array([0.002, rng.uniform(0.5, 2)])
    length = np.linalg.norm(end - origin)
    line = _space.Line(origin, (end - origin) / length)
    scan = _space.scan_between(space, line, np.linspace(0, length, 9), 8192)
    assert len(scan.breakpoints) == 1


def drawn_layers(entropy: list[int], widths: tuple[int, ...]) -> DeepNetwork:
    rng = np.random.default_rng(entropy)
    return DeepNetwork(
        [
            (rng.standard_normal((out, into)) * np.sqrt(2 / into), 0.5 * rng.standard_normal(out))
            for into, out in pairwise(widths)
        ]
    )


@pytest.mark.parametrize(
    "entropy, widths", [([4, 4, 4, 3, 2, 1], (4, 4, 3, 2, 1)), ([102, 88], (6, 4, 2, 2, 1))]
)
def test_parallel_units_of_the_last_layer_may_be_a_further_layer(
    entropy: list[int], widths: tuple[int, ...]
) -> None:
    # A third layer whose inputs switch far out only, for one direction in thousands, was claimed as two parallel units.
    found = identify(drawn_layers(entropy, widths), widths[0], random_state=entropy[0])
    assert found.outcome is Outcome.FITTED and "one more layer" in found.detail


def test_parallel_units_are_counted() -> None:
    rng = np.random.default_rng(5)
    W = rng.standard_normal((4, 3))
    W[2], W[3] = -2 * W[0], W[1] * (1 + 1e-12)
    layers = [(rng.standard_normal((3, 5)), None), (W, rng.standard_normal(4)), (np.ones((1, 4)), None)]
    assert count_parallel(DeepNetwork(layers)) == 2
    W[3] += 1e-5
    assert count_parallel(DeepNetwork(layers)) == 1


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_three_small_layers_in_a_box_end_with_an_answer(seed: int) -> None:
    # A unit that the answers without gaps do not show was missing from the top layer: an IndexError.
    net = drawn_layers([3, 4, 3, 61], (4, 4, 3, 2, 1))
    found = identify(net, 4, box=(-3.0, 3.0), random_state=seed, budget=20_000)
    assert found.outcome is not Outcome.RECOVERED or parameter_error(found.network, net) < 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_fractions_never_fall_from_two_layers_to_several(seed: int) -> None:
    said: list[float] = []
    net = drawn_layers([3, 2, 2, 1, 1 + seed], (2, 2, 1, 1))
    identify(net, 2, random_state=3, progress=lambda what, fraction: said.append(fraction))
    assert said == sorted(said) and said[-1] <= 1
