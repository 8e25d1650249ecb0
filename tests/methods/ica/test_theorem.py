"""Section 4.1 of BJW18 as tests: independent activations, exact after the null space, refusals."""

from functools import partial

import numpy as np
import pytest

import planted
from planted.checks import Check
from planted.methods.ica import printed
from planted.methods.ica._components import separate
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, Guarantee, Outcome
from planted.simulate import dataset

recover = partial(planted.recover, method="ica")
EXACT = 1e-12


def world(n=3000, d=8, k=4, m=6, seed=0, hidden="orthonormal", **options):
    return dataset(n, n_features=d, n_hidden=k, n_outputs=m, random_state=seed, hidden=hidden, **options)


@pytest.mark.parametrize("name", ["relu", "power:2", "power:3"])
@pytest.mark.parametrize("seed", range(2))
def test_orthonormal_units_are_recovered_exactly(name, seed):
    data = world(activation=name, seed=seed)
    recovery = recover(data.X, data.Y, activation=name, random_state=seed)
    assert recovery.outcome is Outcome.RECOVERED
    assert recovery.guarantee is Guarantee.EXACT
    assert planted.parameter_error(recovery.network, data.network) < EXACT
    condition = next(item for item in recovery.evidence if "condition number" in item.name)
    # The rows recovered are orthonormal up to the rounding of the scales of the inputs.
    assert condition.measured == pytest.approx(1.0, abs=1e-9)


def test_the_components_alone_lead_to_most_units():
    """Without random starts; what is found must come from the components."""
    found = []
    for seed in range(6):
        data = world(10_000, seed=seed)
        recovery = recover(data.X, data.Y, max_starts=0, random_state=seed)
        found.append(recovery.trace[0]["units"])
        if recovery.outcome is Outcome.RECOVERED:
            assert planted.parameter_error(recovery.network, data.network) < EXACT
    assert sum(found) >= 18, f"of 24 units: {found}"


def test_components_that_did_not_converge_are_told(monkeypatch):
    monkeypatch.setattr(printed, "separate", partial(separate, max_iter=2))
    data = world(1000)
    (line,) = recover(data.X, data.Y, random_state=0).find(Check.ITERATIONS)
    assert (line.name, line.measured) == ("steps of the component analysis, which did not converge", 2)


def test_units_that_are_not_orthonormal_are_found_with_the_help_of_pursuit():
    data = world(hidden="conditioned", condition=10.0)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < EXACT
    condition = next(item for item in recovery.evidence if "condition number" in item.name)
    rows = data.network.W / np.linalg.norm(data.network.W, axis=1, keepdims=True)
    assert condition.measured == pytest.approx(np.linalg.cond(rows), rel=1e-6)


def test_the_printed_threshold_on_all_rows_refuses_rather_than_errs():
    data = world()
    recovery = recover(data.X, data.Y, variant="paper", ell=10**6, random_state=0)
    assert recovery.outcome is Outcome.STOPPED_EARLY
    assert recovery.network is None
    assert recovery.trace == ({"search": "components", "starts": 4, "units": recovery.trace[0]["units"]},)


def test_blocks_of_rows_show_more_units_than_the_first_block_or_all_rows():
    found = {"first": 0, "all": 0, "blocks": 0}
    options = {"first": {}, "all": {"ell": 10**6}, "blocks": {"variant": "blocks"}}
    for seed in range(4):
        data = world(3000, seed=50 + seed)
        for name, given in options.items():
            answer = recover(data.X, data.Y, random_state=seed, **({"variant": "paper"} | given))
            found[name] += answer.trace[0]["units"]
            if answer.outcome is Outcome.RECOVERED:
                assert planted.parameter_error(answer.network, data.network) < EXACT
    assert found["blocks"] > max(found["first"], found["all"])


def test_the_order_of_rows_and_the_scale_of_outputs_do_not_matter():
    data = world(1500)
    rows = np.random.default_rng(0).permutation(1500)
    recovery = recover(data.X[rows], -5.0 * data.Y[rows], random_state=0)
    expected = TwoLayerNetwork(data.network.W, None, -5.0 * data.network.A)
    assert planted.parameter_error(recovery.network, expected) < EXACT * 5


def test_a_rough_output_matrix_in_place_of_the_components():
    data = world(300)
    noise = np.random.default_rng(5).standard_normal(data.network.A.shape)
    recovery = recover(data.X, data.Y, warm_start={"A": data.network.A + 0.02 * noise}, random_state=0)
    assert recovery.trace[0]["units"] >= 3, "the start must lead to most units"
    assert planted.parameter_error(recovery.network, data.network) < EXACT


@pytest.mark.parametrize(
    ("n", "asked", "outcome", "text"),
    [
        (300, 7, Outcome.ASSUMPTION_FAILED, "outputs: 6; the method needs >= 7"),
        (300, 3, Outcome.ASSUMPTION_FAILED, "rank of the outputs: 4; the method needs == 3"),
        (8, "auto", Outcome.TOO_FEW_SAMPLES, "samples: 8; the method needs >= 9"),
    ],
)
def test_refusals_by_name(n, asked, outcome, text):
    data = world(n)
    recovery = recover(data.X, data.Y, asked, random_state=0)
    assert recovery.outcome is outcome
    assert text in recovery.detail


def test_noise_is_never_called_recovered():
    data = world(1000, m=4, noise=1e-4)
    recovery = recover(data.X, data.Y, random_state=0)
    assert recovery.outcome is not Outcome.RECOVERED


def test_unknown_options_are_refused():
    data = world(50)
    with pytest.raises(BadInputError, match="variant='robust'; expected one of 'trimmed', 'paper', 'blocks'"):
        recover(data.X, data.Y, variant="robust")
