"""Theorem 1 of BJW18 as tests: any inputs, exact or refused, all patterns examined, and exact finishes of rough answers.

Seeds of data and solver are separate streams by construction (`planted._streams`). Errors are of matched parameters.
"""

from functools import partial

import numpy as np
import pytest
from scipy import linalg

import planted
from planted.methods.sign_patterns._enumeration import count_patterns
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError, DataWarning, Guarantee, Outcome
from planted.rows import RowBlocks
from planted.simulate import dataset, inputs, teacher

recover = partial(planted.recover, method="sign-patterns")
EXACT = 1e-12  # rounding of some hundred operations on numbers of order one, times a condition number of about a hundred
KINDS = ["gaussian", "exponential", "rademacher", "grid", "clustered"]


def world(n=60, d=6, k=3, m=3, seed=0, **options):
    return dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, **options)


def inputs_of(kind, n, d, seed):
    """Arbitrary inputs: laws, a grid of whole numbers, and six tight clusters."""
    if kind == "grid":
        return np.round(inputs(n, d, random_state=seed))
    if kind == "clustered":
        centres = inputs(6, d, random_state=seed)
        return centres[np.arange(n) % 6] + 0.01 * inputs(n, d, random_state=seed + 1000)
    return inputs(n, d, law=kind, random_state=seed)


def visible(network, X):
    """The network without the units that are on for no sample: clusters may all lie on one side."""
    seen = network.patterns(X).any(axis=0)
    return TwoLayerNetwork(network.W[seen], None, network.A[:, seen])


# --- a. exact for any inputs, or refused --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["cone", "paper"])
def test_any_inputs_are_right_or_refused(kind, variant):
    outcomes = []
    for seed in range(4):
        k, d = (3 + seed, 6 + seed % 2) if variant == "cone" else (2 + seed % 2, 5)
        truth = teacher(d, k, k + seed % 2, random_state=seed)
        X = inputs_of(kind, 200 if variant == "cone" else 50, d, seed + 50)
        recovery = recover(X, truth(X), variant=variant, random_state=seed)
        outcomes.append(recovery.outcome)
        if recovery.outcome is Outcome.RECOVERED:
            assert recovery.guarantee is Guarantee.EXACT
            assert planted.parameter_error(recovery.network, visible(truth, X)) < EXACT
    if kind == "rademacher":  # where one input switches a unit, a bias may as well be part of its weight
        assert (
            set(outcomes) <= {Outcome.RECOVERED, Outcome.NOT_IDENTIFIABLE} and Outcome.RECOVERED in outcomes
        )
    elif kind != "clustered":
        assert outcomes == [Outcome.RECOVERED] * 4


@pytest.mark.parametrize(("k", "n"), [(3, 100), (4, 60)])
def test_the_enumeration_examines_every_pattern_and_finds_the_network(k, n):
    data = world(n, d=5, k=k, m=k, seed=2)
    recovery = recover(data.X, data.Y, variant="paper", random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < EXACT
    (line,) = recovery.trace[:1]
    assert line["predicted"] == count_patterns(n, k)
    assert k < line["candidates"] < line["patterns"] < line["predicted"], (
        "zeros of H make hyperplanes coincide"
    )
    assert line["units"] == k
    complete = next(item for item in recovery.evidence if "by enumeration" in item.name)
    assert (complete.measured, complete.passed) == (k, True)


# --- b. rival, symmetry, parity -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_enumeration_cone_and_complementarity_agree(seed):
    data = world(seed=seed)
    answers = [
        recover(data.X, data.Y, variant="paper", random_state=1),
        recover(data.X, data.Y, variant="cone", random_state=1),
        planted.recover(data.X, data.Y, method="complementarity", random_state=1),
    ]
    for answer in answers:
        assert answer.outcome is Outcome.RECOVERED
        assert planted.parameter_error(answer.network, answers[0].network) < EXACT


@pytest.mark.parametrize("variant", ["cone", "paper"])
def test_equivariance(variant):
    data = world(50)
    rng = np.random.default_rng(4)
    rotation, rows = linalg.qr(rng.standard_normal((6, 6)))[0], rng.permutation(50)
    truth = data.network
    cases = [
        (data.X @ rotation.T, data.Y, TwoLayerNetwork(truth.W @ rotation.T, None, truth.A)),
        (data.X[rows], data.Y[rows], truth),
        (data.X, -3.0 * data.Y[:, ::-1], TwoLayerNetwork(truth.W, None, -3.0 * truth.A[::-1])),
    ]
    for X, Y, expected in cases:
        recovery = recover(X, Y, variant=variant, random_state=0)
        assert recovery.outcome is Outcome.RECOVERED
        assert planted.parameter_error(recovery.network, expected) < EXACT * 10


def test_extreme_units_change_only_the_units():
    data = world()
    recovery = recover(data.X * 1e120, data.Y * 1e-120, random_state=0)
    net = recovery.network
    assert planted.parameter_error(TwoLayerNetwork(net.W, None, net.A * 1e240), data.network) < EXACT


def test_blocks_give_the_same_bits_as_arrays():
    data = world()
    whole = recover(data.X, data.Y, random_state=3)
    parts = [(data.X[i : i + 7], data.Y[i : i + 7]) for i in range(0, 60, 7)]
    blocks = RowBlocks(lambda: iter(parts))
    again = recover(blocks, random_state=3)
    assert planted.parameter_error(again.network, whole.network) < EXACT
    assert again.outcome is whole.outcome


def test_the_same_seed_gives_the_same_bits():
    data = world()
    one, two = (recover(data.X, data.Y, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(one.network.W, two.network.W)
    np.testing.assert_array_equal(one.network.A, two.network.A)


# --- c. refusal, each by name -------------------------------------------------------------------------------------


def test_too_many_patterns_are_refused_with_the_predicted_number():
    data = world(300, k=4, m=4)
    recovery = recover(data.X, data.Y, variant="paper", random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert f"{count_patterns(300, 4):.3g} sign patterns are predicted" in recovery.detail
    wide = world(30, k=5, m=5)
    assert "limited to" in recover(wide.X, wide.Y, variant="paper", random_state=0).detail


@pytest.mark.parametrize("asked", [2, 4])
def test_a_rank_other_than_the_number_of_units_is_refused(asked):
    data = world(m=5)
    recovery = recover(data.X, data.Y, asked, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert f"rank of the outputs: 3; the method needs == {asked} (rank Y = k)" in recovery.detail


def test_more_units_than_outputs_are_refused():
    data = world()
    recovery = recover(data.X, data.Y, 4, random_state=0)
    assert "outputs: 3; the method needs >= 4 (m >= k)" in recovery.detail


@pytest.mark.parametrize("n", [3, 6, 8])
def test_too_few_samples_are_refused_with_the_number_needed(n):
    data = world(n)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.TOO_FEW_SAMPLES
    assert f"samples: {n}; the method needs >= 9" in recovery.detail


def test_inputs_that_do_not_span_are_refused():
    data = world()
    X = np.hstack([data.X, data.X[:, :1] - 2 * data.X[:, 1:2]])
    recovery = recover(X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.ASSUMPTION_FAILED
    assert "dimensions spanned by the inputs: 6; the method needs == 7" in recovery.detail


def test_outputs_that_are_all_zero_are_refused():
    data = world()
    with pytest.warns(DataWarning, match="constant column"):
        recovery = recover(data.X, np.zeros((60, 3)), random_state=0)
    assert "outputs that vary: 0; the method needs >= 1" in recovery.detail


def test_a_unit_that_is_never_off_is_not_identifiable():
    """Inputs in a half-space of unit 0: it is linear there, and the certificate names it."""
    data = world(200)
    w = data.network.W[0]
    X = data.X * np.sign(data.X @ w)[:, None]
    recovery = recover(X, data.network(X), random_state=0)
    assert recovery.outcome is not Outcome.RECOVERED


@pytest.mark.parametrize("variant", ["cone", "paper"])
@pytest.mark.parametrize("what", ["noise", "biases", "absolute"])
def test_data_of_another_kind_are_never_called_recovered(variant, what):
    data = world(32, m=4)
    if what == "noise":
        Y = data.Y + 1e-6 * np.random.default_rng(0).standard_normal(data.Y.shape)
    elif what == "biases":
        Y = TwoLayerNetwork(data.network.W, [0.5, -0.5, 0.3], data.network.A)(data.X)
    else:
        Y = TwoLayerNetwork(data.network.W, None, data.network.A, activation="absolute")(data.X)
    recovery = recover(data.X, Y, variant=variant, random_state=0)
    assert recovery.outcome is not Outcome.RECOVERED


def test_other_activations_and_options_are_refused():
    data = world()
    with pytest.raises(BadInputError, match="'sign-patterns' needs an activation among relu; got 'power:2'"):
        recover(data.X, data.Y, activation="power:2")
    with pytest.raises(BadInputError, match="variant='simplex'; expected one of 'cone', 'paper'"):
        recover(data.X, data.Y, variant="simplex")


# --- d. exact finishes of approximate answers (section 4.3) -----------------------------------------------------


def rough(matrix, relative, seed):
    noise = np.random.default_rng(seed).standard_normal(matrix.shape)
    return matrix + relative * np.linalg.norm(matrix) / np.linalg.norm(noise) * noise


@pytest.mark.parametrize("what", ["network", "recovery", "W", "A", "signs"])
def test_a_rough_answer_becomes_exact(what):
    data = world(150, k=4, m=5)
    W, A = rough(data.network.W, 0.05, 1), rough(data.network.A, 0.05, 2)
    network = TwoLayerNetwork(W, None, A)
    start = {
        "network": network,
        "recovery": planted.recover(data.X, data.Y + 0.01, 4, method="complementarity", random_state=5),
        "W": {"W": W},
        "A": {"A": A},
        "signs": {"W": W * [[1.0], [-1.0], [1.0], [-1.0]]},
    }[what]
    recovery = recover(data.X, data.Y, warm_start=start, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < EXACT
    assert recovery.trace[0]["search"] == "warm start"
    assert recovery.trace[0]["units"] == 4, "the start alone must lead to all units"


def test_a_start_in_the_users_units_is_rescaled():
    data = world(150)
    scales = np.array([1e-3, 1.0, 1e3, 1.0, 1e-6, 10.0])
    start = {"W": rough(data.network.W, 0.02, 1) / scales}
    recovery = recover(data.X * scales, data.Y, warm_start=start, random_state=0)
    assert recovery.trace[0]["units"] == 3


def test_a_misleading_start_does_no_harm():
    data = world(150)
    start = {"W": np.random.default_rng(9).standard_normal((3, 6))}
    recovery = recover(data.X, data.Y, warm_start=start, random_state=0)
    assert planted.parameter_error(recovery.network, data.network) < EXACT


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        ({"W": np.ones((3, 5))}, BadInputError, r"warm_start W has shape \(3, 5\); expected \(k, 6\)"),
        ({"A": np.ones((4, 3))}, BadInputError, r"warm_start A has shape \(4, 3\); expected \(3, k\)"),
        ({"A": np.full((3, 3), np.nan)}, BadInputError, "NaN"),
        ({"b": np.ones(3)}, BadInputTypeError, "single key 'W'"),
        (np.ones((3, 6)), BadInputTypeError, "got ndarray"),
    ],
)
def test_a_start_of_the_wrong_kind_is_refused(start, error, message):
    data = world()
    with pytest.raises(error, match=message):
        recover(data.X, data.Y, warm_start=start)
