"""What the exact methods share: refusals before the search, whole records, numbers that stay finite."""

import numpy as np
import pytest

import planted
from planted.outcomes import Outcome
from planted.simulate import dataset

METHODS = ["sign-patterns", "joint-diagonalisation", "ica"]


def test_a_unit_seen_on_one_sample_is_refused_without_a_nan():
    """The only active sample is parallel to w: a column of the Jacobian vanishes, its square is rounding of either sign."""
    data = dataset(5, n_features=2, n_hidden=1, n_outputs=1, random_state=170)
    assert data.network.patterns(data.X).sum() == 1
    recovery = planted.recover(data.X, data.Y, method="sign-patterns", random_state=170)
    assert recovery.outcome is Outcome.NOT_IDENTIFIABLE
    assert "was active in 1 of 5 samples" in recovery.detail


@pytest.mark.parametrize("method", METHODS)
def test_every_method_names_what_the_data_lack(method):
    data = dataset(100, n_features=6, n_hidden=3, n_outputs=4, random_state=0)
    thin = np.hstack([data.X, data.X[:, :1]])
    cases = [
        ((data.X, data.Y, 2), Outcome.ASSUMPTION_FAILED, "rank of the outputs: 3; the method needs == 2"),
        ((data.X, data.Y, 5), Outcome.ASSUMPTION_FAILED, "outputs: 4; the method needs >= 5 (m >= k)"),
        ((data.X[:6], data.Y[:6], 3), Outcome.TOO_FEW_SAMPLES, "samples: 6; the method needs >= 7"),
        (
            (thin, data.Y, 3),
            Outcome.ASSUMPTION_FAILED,
            "dimensions spanned by the inputs: 6; the method needs == 7",
        ),
    ]
    for (X, Y, k), outcome, text in cases:
        recovery = planted.recover(X, Y, k, method=method, random_state=0)
        assert recovery.network is None
        assert recovery.outcome is outcome
        assert text in recovery.detail
        assert any(not item.passed for item in recovery.evidence)


@pytest.mark.parametrize("method", [*METHODS, "lone-units"])
def test_records_are_whole_and_survive_json(method):
    data = dataset(400, n_features=6, n_hidden=3, n_outputs=3, hidden="orthonormal", random_state=1)
    recovery = planted.recover(data.X, data.Y, method=method, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    again = planted.Recovery.from_dict(recovery.to_dict())
    assert again.provenance.algorithm == method
    np.testing.assert_array_equal(again.network.W, recovery.network.W)


def test_standard_errors_of_powers_follow_the_units():
    """Doubling the inputs of t₊² divides A by four, and its standard errors with it."""
    data = dataset(
        300, n_features=4, n_hidden=2, n_outputs=2, activation="power:2", noise=1e-14, random_state=3
    )
    one, two = (
        planted.recover(
            data.X * factor, data.Y, method="joint-diagonalisation", activation="power:2", random_state=0
        )
        for factor in (1.0, 2.0)
    )
    assert one.outcome is two.outcome is Outcome.RECOVERED
    errors = [np.linalg.norm(item.uncertainty.standard_errors["A"]) for item in (one, two)]
    # The noise level is estimated from the same residuals; both runs end within rounding of one another.
    assert errors[1] / errors[0] == pytest.approx(0.25, rel=1e-2)
