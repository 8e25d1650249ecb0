"""Units that switch far beyond typical inputs only: never claimed without them, and what is said of the network nearby."""

from itertools import count, pairwise

import numpy as np
import pytest

import planted
from planted import DeepNetwork, Outcome
from planted.checks import Check
from planted.identification._grid import DOUBLES
from planted.identification._rounding import Rounding
from planted.identification.deep import DeepFinding, Records, with_far_answers
from planted.identification.deep.ending._far import FARTHEST
from planted.identification.deep.stages import _second
from planted.identification.two_layer._search import BlackBox, Checks


def draw_far(seed, widths):
    """A network, and the same without one unit above the first layer, which switches 3e4 to 1e10 typical inputs out."""
    rng = np.random.default_rng([seed, 27, *widths])
    layers = [
        (rng.normal(size=(out, into)) * np.sqrt(2 / into), 0.5 * rng.normal(size=out))
        for into, out in pairwise(widths)
    ]
    number = int(rng.integers(1, len(layers) - 1))
    (W, b), (A, c) = layers[number : number + 2]
    W[0], b[0] = np.abs(W[0]), -(10 ** rng.uniform(4.5, 10))
    if len(widths) == 4 and widths[1] <= widths[0]:  # in a narrow cone only
        W[0, 1:] *= -20
    without = [*layers[:number], (W[1:], b[1:]), (A[:, 1:], c), *layers[number + 2 :]]
    return DeepNetwork(layers), DeepNetwork(without)


@pytest.mark.parametrize("widths", [(8, 6, 5, 1), (6, 6, 5, 4, 2), (3, 8, 6, 1), (9, 7, 5, 4, 3, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_rays_show_a_missing_unit_however_far_out_it_switches(seed, widths):
    net, without = draw_far(seed, widths)
    d = widths[0]
    records = Records(BlackBox(net, d, False, lambda Z: Z, DOUBLES))
    rounding = Rounding(np.full(widths[-1], 1e-14), np.sqrt(d), False, 1e-16)
    answers = [
        with_far_answers(
            DeepFinding(each, Checks(0, 0.0, np.zeros(d), None, np.zeros(1)), 0, 1, 0, (), rounding),
            records,
            np.random.default_rng(seed),
        )
        for each in (net, without)
    ]
    right, wrong = answers
    assert right.agrees_within == FARTHEST
    assert 0 < wrong.agrees_within < FARTHEST


@pytest.mark.parametrize("seed", range(4))
def test_a_network_without_its_far_unit_is_not_claimed(seed):
    net, _ = draw_far(seed, (7, 5, 4, 1))
    found = planted.identify(net, random_state=seed)
    if found.outcome is Outcome.RECOVERED:  # the answers far out have shown the unit
        assert planted.parameter_error(found.network, net) < 1e-9
    elif found.network is not None:
        assert found.outcome is Outcome.FITTED and "farther out" in found.detail
        X = np.random.default_rng(seed).normal(size=(500, 7))
        np.testing.assert_allclose(found.network(X), net(X), atol=1e-9 * np.abs(net(X)).max())


def test_the_claim_says_how_far_out_it_goes():
    _, net = draw_far(1, (7, 5, 4, 1))
    found = planted.identify(net, random_state=0)
    assert found.outcome is Outcome.RECOVERED, found.detail
    assert "nothing is claimed beyond" in found.detail
    (line,) = [each for each in found.evidence if each.key is Check.FAR_ANSWERS]
    assert line.passed and line.measured == FARTHEST


@pytest.mark.parametrize("d", [4, 6, 8])
def test_a_term_that_is_rare_at_typical_inputs_and_fills_a_cone_far_out_is_no_part_of_a_two_layer_claim(
    d: int,
) -> None:
    """On where three units are large together: for 2e-4 of typical inputs, and for a tenth of those far out."""
    claims = 0
    for seed in range(6):
        rng = np.random.default_rng([seed, d, 71])
        W, b, a = rng.normal(size=(d, d)) * np.sqrt(2 / d), 0.5 * rng.normal(size=d), rng.normal(size=(1, d))
        net = planted.TwoLayerNetwork(W, b, a)
        least = net.preactivations(rng.normal(size=(50_000, d)))[:, :3].min(axis=1)
        above = np.quantile(least, 1 - 2e-4)

        def term(X, net=net, above=above):
            return 3 * np.maximum(net.preactivations(X)[:, :3].min(axis=1) - above, 0.0)

        far = 1e4 * rng.normal(size=(20_000, d))
        if np.mean(term(far) > 0) < 0.05:
            continue  # a narrow cone may be missed
        found = planted.identify(
            lambda X, net=net, term=term: net(X) + term(X)[:, None], d, random_state=seed
        )
        claims += found.outcome is Outcome.RECOVERED and found.network.n_hidden == d
    assert claims == 0


def test_chords_that_a_box_pulls_into_one_corner_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question of NaN was asked, and the oracle blamed for its answer."""

    class Flat:
        matrix = np.eye(3)

    def pulled_in(base, ends):
        return ends if next(calls) % 2 else np.repeat(ends[:1], 2, axis=0)

    calls = count()
    monkeypatch.setattr(_second, "_pulled_in", pulled_in)
    lines = [line for line, _ in _second.chords(Flat(), 6, np.random.default_rng(0))]
    assert len(lines) == 3 and all(np.isclose(np.linalg.norm(line.direction), 1.0) for line in lines)
