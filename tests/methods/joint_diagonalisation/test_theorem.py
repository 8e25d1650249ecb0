"""Section 4.2 of BJW18 as tests: moments in closed form, the order that vanishes, exact units for every rectified power."""

from functools import partial

import numpy as np
import pytest
from scipy import linalg

import planted
from planted.fitting.units._hermite_directions import (
    _contracted,
    directions_of_matrices,
    hermite_directions,
)
from planted.methods.joint_diagonalisation import vanishing_coefficient
from planted.networks import TwoLayerNetwork, parse_activation
from planted.outcomes import BadInputError, DataWarning, Guarantee, Outcome
from planted.simulate import dataset

recover = partial(planted.recover, method="joint-diagonalisation")
EXACT = 1e-12


def world(n=600, d=8, k=4, m=5, seed=0, **options):
    return dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, **options)


def largest_sine(found, W):
    """Largest angle between a planted direction and the nearest one found, whatever its sign."""
    unit = W / np.linalg.norm(W, axis=1, keepdims=True)
    cosines = np.abs(found @ unit.T).max(axis=0)
    return float(np.sqrt(np.maximum(1 - cosines**2, 0.0)).max())


# --- a. population ------------------------------------------------------------------------------------------------


def test_closed_form_matrices_give_the_directions_exactly():
    """E[y_l (xx' - I)] = (2 pi)^(-1/2) W' diag(A_l) W, the display of exact second moments."""
    net = world().network
    matrices = np.einsum("lj,ja,jb->lab", net.A, net.W, net.W) / np.sqrt(2 * np.pi)
    found = directions_of_matrices(matrices, 4, np.random.default_rng(0))
    # The sine is the root of a difference of cosines: 1e-16 becomes 1e-8.
    assert largest_sine(found, net.W) < 1e-7
    signs = np.sign((found @ net.W.T)[np.arange(4), np.abs(found @ net.W.T).argmax(axis=1)])
    matched = net.W[np.abs(found @ net.W.T).argmax(axis=1)]
    np.testing.assert_allclose(found * signs[:, None], matched, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["relu", "power:2", "power:3"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_coefficient_vanishes_exactly_when_said(name, order):
    """E[f(t) He_q(t)] = E[f^(q)(t)] for normal t, by Gauss-Legendre quadrature on the half line where f is smooth."""
    t, weights = np.polynomial.legendre.leggauss(200)
    t, weights = 6 * (t + 1), 6 * weights
    hermite = np.polynomial.hermite_e.hermeval(t, np.eye(5)[order])
    density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    activation = parse_activation(name)
    coefficient = float((weights * density * hermite * activation(t)).sum())
    assert (abs(coefficient) < 1e-12) == vanishing_coefficient(activation, order)


@pytest.mark.parametrize("order", [3, 4])
def test_contractions_are_those_of_the_hermite_tensor(order):
    """The tensor written out entry by entry, for outputs without their linear part, contracted afterwards."""
    data = world(200, d=3, k=2, m=2)
    X = data.X - data.X.mean(axis=0)
    rows = np.hstack([X, np.ones((200, 1))])
    residual = data.Y - rows @ linalg.lstsq(rows, data.Y)[0]
    stream = np.random.default_rng(3)
    r = residual @ stream.standard_normal(2)
    one = np.eye(3)
    tensor = np.zeros((3,) * order)
    for x, weight in zip(X, r, strict=True):
        if order == 3:
            pairs = (
                np.einsum("a,bc->abc", x, one)
                + np.einsum("b,ac->abc", x, one)
                + np.einsum("c,ab->abc", x, one)
            )
            tensor += weight / 200 * (np.einsum("a,b,c->abc", x, x, x) - pairs)
            continue
        xx = np.outer(x, x)
        pairs = sum(
            np.einsum(f"{p},{q}->abce", xx, one)
            for p, q in (("ab", "ce"), ("ac", "be"), ("ae", "bc"), ("bc", "ae"), ("be", "ac"), ("ce", "ab"))
        )
        constants = sum(
            np.einsum(f"{p},{q}->abce", one, one) for p, q in (("ab", "ce"), ("ac", "be"), ("ae", "bc"))
        )
        tensor += weight / 200 * (np.einsum("ab,ce->abce", xx, xx) - pairs + constants)
    found = _contracted(X, data.Y, 2, order=order, rng=np.random.default_rng(3))
    directions = stream.standard_normal((8, 3))
    for matrix, u in zip(found, directions / np.linalg.norm(directions, axis=1, keepdims=True), strict=True):
        expected = tensor @ u if order == 3 else tensor @ u @ u
        np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-12)  # rounding of 200 terms of order ten


def test_the_error_of_the_directions_falls_like_the_root_of_the_samples():
    sizes, slopes = np.array([2_000, 8_000, 32_000]), []
    for seed in range(5):
        errors = []
        for n in sizes:
            data = world(int(n), d=5, k=3, m=3, seed=seed)
            found = hermite_directions(data.X, data.Y, 3, rng=np.random.default_rng(seed + 70))
            errors.append(largest_sine(found, data.network.W))
        slopes.append(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    spread = np.std(slopes, ddof=1) / np.sqrt(5)
    assert abs(np.mean(slopes) + 0.5) < 4 * spread
    assert -0.8 < np.mean(slopes) < -0.2


# --- b. exact recovery --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "power:2", "power:3"])
@pytest.mark.parametrize("seed", range(3))
def test_every_rectified_power_is_recovered_exactly(name, seed):
    data = world(activation=name, seed=seed)
    recovery = recover(data.X, data.Y, activation=name, random_state=seed)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.guarantee is Guarantee.EXACT
    assert recovery.network.activation.name == name
    assert planted.parameter_error(recovery.network, data.network) < EXACT


def test_the_front_door_finds_a_method_for_the_square_of_the_relu():
    data = world(activation="power:2", seed=5)
    recovery = planted.recover(data.X, data.Y, activation="power:2", random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.provenance.algorithm == "restarts"
    assert recovery.provenance.parameters["activation"] == "power:2"
    assert planted.parameter_error(recovery.network, data.network) < EXACT


@pytest.mark.parametrize(
    ("variant", "name"),
    [("paper-third-order", "power:2"), ("paper-third-order", "power:3"), ("fourth-order", "relu")],
)
def test_other_orders_work_where_they_carry_signal(variant, name):
    data = world(3000, d=6, k=3, m=4, activation=name, seed=1)
    recovery = recover(data.X, data.Y, activation=name, variant=variant, random_state=1)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.trace[0]["units"] == 3, "the moments alone must lead to all units"
    assert planted.parameter_error(recovery.network, data.network) < EXACT


def test_any_mean_and_covariance_of_the_inputs():
    data = world(law="correlated", seed=2)
    recovery = recover(data.X, data.Y, random_state=0)
    assert planted.parameter_error(recovery.network, data.network) < EXACT


def test_at_few_samples_random_starts_complete_the_units():
    data = world(60, d=10, k=5, m=5)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < EXACT


def test_rotation_and_order_of_outputs_do_not_matter():
    data = world(seed=4)
    rotation = linalg.qr(np.random.default_rng(3).standard_normal((8, 8)))[0]
    expected = TwoLayerNetwork(data.network.W @ rotation.T, None, data.network.A[::-1])
    recovery = recover(data.X @ rotation.T, data.Y[:, ::-1], random_state=0)
    assert planted.parameter_error(recovery.network, expected) < EXACT


def test_a_rough_answer_in_place_of_the_moments():
    data = world(200, activation="power:2")
    noise = np.random.default_rng(5).standard_normal(data.network.A.shape)
    recovery = recover(
        data.X, data.Y, activation="power:2", warm_start={"A": data.network.A + 0.02 * noise}, random_state=0
    )
    assert recovery.trace[0]["units"] == 4
    assert planted.parameter_error(recovery.network, data.network) < EXACT


# --- c. refusal ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "name", "order"), [("paper-third-order", "relu", 3), ("fourth-order", "power:2", 4)]
)
def test_an_order_without_signal_is_refused_with_the_reason(variant, name, order):
    data = world(activation=name)
    recovery = recover(data.X, data.Y, activation=name, variant=variant, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert f"The moments of order {order} of '{name}' vanish" in recovery.detail


def test_more_units_than_inputs_are_refused():
    data = world(d=3, k=4)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "4 units, but 3 inputs; joint diagonalisation needs k <= d" in recovery.detail


def test_a_constant_input_is_refused():
    data = world()
    X = np.hstack([data.X, np.ones((600, 1))])
    with pytest.warns(DataWarning, match="constant"):
        recovery = recover(X, data.Y, random_state=0)
    assert "The inputs vary in 8 of 9 dimensions" in recovery.detail


@pytest.mark.parametrize("truth", ["power:2", "leaky-relu:0.1"])
def test_another_activation_is_never_called_recovered(truth):
    data = world(activation=truth)
    recovery = recover(data.X, data.Y, random_state=0, max_starts=128)
    assert recovery.outcome is not Outcome.RECOVERED


def test_noise_is_never_called_recovered():
    data = world(noise=1e-5)
    recovery = recover(data.X, data.Y, random_state=0, max_starts=128)
    assert recovery.outcome is not Outcome.RECOVERED


def test_unknown_options_are_refused():
    data = world(50)
    with pytest.raises(BadInputError, match="variant='fifth-order'; expected one of"):
        recover(data.X, data.Y, variant="fifth-order")
    with pytest.raises(
        BadInputError, match="needs an activation among relu, power, rectified; got 'absolute'"
    ):
        recover(data.X, data.Y, activation="absolute")


def test_the_printed_threshold_on_all_rows_refuses_rather_than_errs():
    data = world(3000)
    recovery = recover(data.X, data.Y, rule="threshold", ell=3000, random_state=0)
    assert recovery.outcome is Outcome.STOPPED_EARLY
    assert "units were found; the others were not" in recovery.detail


def test_algorithm_5_needs_few_rows_and_blocks_of_them_find_every_unit():
    """The first ℓ rows lead to most units, all rows to none; one block after another leads to all."""
    found = {"first": 0, "all": 0, "blocks": 0}
    options = {
        "first": {"rule": "threshold"},
        "all": {"rule": "threshold", "ell": 10**6},
        "blocks": {"rule": "blocks"},
    }
    for seed in range(4):
        data = world(1000, d=6, m=4, seed=30 + seed)
        for name, given in options.items():
            answer = recover(data.X, data.Y, random_state=seed, **given)
            found[name] += answer.trace[0]["units"]
            if answer.outcome is Outcome.RECOVERED:
                assert planted.parameter_error(answer.network, data.network) < EXACT
    assert found["blocks"] == 16 and found["first"] >= 8 and found["all"] <= 4


def test_tau_reaches_the_box():
    """A threshold of ten spreads calls every row off, and nothing is left that could be a unit."""
    data = world(1000, d=6, m=4, seed=30)
    found = [
        recover(data.X, data.Y, rule="blocks", tau=tau, random_state=0).trace[0]["units"]
        for tau in (1e-3, 10.0)
    ]
    assert found == [4, 0]


def test_ell_is_checked():
    data = world(100)
    for wrong in (0, 2.5, "many"):
        with pytest.raises(BadInputError, match="ell="):
            recover(data.X, data.Y, rule="threshold", ell=wrong)


RECTIFIED = {
    "rising-9-1": (np.expm1, np.exp, np.log1p),
    "bent-9-1": (lambda t: t + t**2, lambda t: 1 + 2 * t, lambda y: 2 * y / (np.sqrt(1 + 4 * y) + 1)),
}


@pytest.mark.parametrize("name", ["power:1.5", "power:2.7", *RECTIFIED])
def test_appendix_9_1_through_recover(name):
    """Powers that are no whole numbers, and functions given with their inverse, whose rows keep their scale."""
    scales = np.ones(3)
    if name in RECTIFIED:
        planted.register_activation(name, *RECTIFIED[name])
        scales = np.array([0.6, 0.9, 1.2])
    teacher = planted.simulate.teacher(4, 3, 4, random_state=7)
    truth = TwoLayerNetwork(scales[:, None] * teacher.W, None, teacher.A, activation=name)
    X = planted.simulate.inputs(300, 4, random_state=8)
    answer = recover(X, truth(X), activation=name, random_state=9)
    assert (answer.outcome, answer.network.n_hidden) == (Outcome.RECOVERED, 3)
    assert planted.parameter_error(answer.network, truth) < EXACT
    wrong = recover(X, teacher(X), activation=name, max_starts=1, random_state=9)  # ReLU units
    assert wrong.outcome is not Outcome.RECOVERED


def test_the_scale_of_a_unit_is_the_one_at_which_the_inverse_is_linear():
    """By hand: one unit of length 0.7 seen through e^t - 1, values known up to a factor of three."""
    from planted.fitting.units._quantile_null_space import exact_unit

    activation = planted.register_activation("rising-9-1", *RECTIFIED["rising-9-1"])
    X = np.random.default_rng(3).standard_normal((200, 2))
    h = activation(X @ [0.42, 0.56])
    w, sine = exact_unit(X, 3 * h[:, None], X @ [0.42, 0.56] < 0, activation=activation)
    assert np.abs(w - [0.42, 0.56]).max() < 1e-13 and sine < 1e-13
