"""Steps behind noise of every kind: losses, splits, tables of outliers, missing labels, covariance of outputs."""

import numpy as np
import pytest

import planted
from planted import Outcome, simulate
from planted.certificates._error_places import errors_ignore_each_other, errors_ignore_inputs
from planted.certificates.noise._covariance import sphericity_p_value
from planted.fitting._clipping import clip_outputs
from planted.fitting._losses import LOSSES, choose_loss, entry_weights, refine_with_loss
from planted.fitting._masked_labels import masked_conditioning
from planted.fitting._run import prepare_problem
from planted.linalg.low_rank_sparse import alternating_projections, regress_despite_errors
from planted.outcomes import BadInputError
from planted.rows import RowBlocks


def data_of(seed, *, n=600, noise=0.2, m=4):
    return simulate.dataset(
        n, n_features=5, n_hidden=3, n_outputs=m, noise=noise, random_state=seed, activity=(0.3, 0.7)
    )


def test_weights_by_hand():
    u = np.array([0.0, 1.345, 2.69])
    np.testing.assert_allclose(entry_weights("huber", u), [1.0, 1.0, 0.5])
    np.testing.assert_allclose(entry_weights("cauchy", np.array([0.0, 2.385])), [1.0, 0.5])
    np.testing.assert_allclose(entry_weights("sharp-cauchy", np.array([0.0, -1.0, 3.0])), [1.0, 0.5, 0.1])
    np.testing.assert_allclose(entry_weights("l1", np.array([0.0, 100.0])), [1.0, 1e-3], rtol=1e-4)
    np.testing.assert_array_equal(entry_weights("squared", u), np.ones(3))


@pytest.mark.parametrize("loss", LOSSES[1:])
def test_the_end_is_a_stationary_point_of_the_loss(loss):
    """At the end the sum of the loss rises in every direction tried, scales held."""
    data = data_of(1, n=1500, noise=simulate.StudentTNoise(2, 0.2))
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=0)
    robust = refine_with_loss(problem, problem.scaling.standardise(data.network), False, loss=loss)
    assert robust.converged
    net = robust.fit.network
    rng = np.random.default_rng(0)

    def gradient(direction, step=1e-4):
        totals = []
        for sign in (1.0, -1.0):
            moved = planted.TwoLayerNetwork(
                net.W, net.b + sign * step * direction[0], net.A + sign * step * direction[1]
            )
            u = (problem.Y - moved(problem.X)) / robust.scales
            grid = np.linspace(0, 1, 201)[:, None, None]
            # the loss is the integral of u weight(u)
            totals.append(
                float((u**2 * np.trapezoid(grid * entry_weights(loss, grid * u), dx=0.005, axis=0)).sum())
            )
        return (totals[0] - totals[1]) / (2 * step)

    away = planted.TwoLayerNetwork(net.W, net.b + 0.05, net.A)
    slopes = [abs(gradient((rng.standard_normal(3), rng.standard_normal((4, 3))))) for _ in range(4)]
    u = (problem.Y - away(problem.X)) / robust.scales
    scale = float(np.abs(u * entry_weights(loss, u)).sum())
    assert max(slopes) < 0.02 * scale  # the decrease still possible is far below one noise variance


def test_the_loss_is_chosen_by_the_tails():
    rng = np.random.default_rng(0)
    laws = {
        "squared": rng.standard_normal((4000, 2)),
        "sharp-cauchy": rng.standard_cauchy((4000, 2)),
    }
    for expected, residual in laws.items():
        name, relative = choose_loss(residual)
        assert name == expected
        assert min(relative.values()) == pytest.approx(1.0)
        assert set(relative) == set(LOSSES)


def test_an_unknown_loss_is_refused():
    data = data_of(0)
    for method in ("half-spaces", "restarts"):
        with pytest.raises(BadInputError, match="unknown loss 'none'"):
            planted.recover(data.X, data.Y, 3, method=method, loss="none")


def test_restarts_choose_a_loss_too():
    data = data_of(3, m=1, noise=simulate.CauchyNoise(0.05))
    recovery = planted.recover(
        data.X, data.Y, 3, method="restarts", loss="auto", random_state=1, n_restarts=4
    )
    assert "chosen by the tails" in recovery.detail
    assert np.sqrt(((recovery.network(data.X) - data.Y_clean) ** 2).mean()) < 0.05


def test_clipped_outputs_are_bounded_and_missing_ones_are_medians():
    Y = np.random.default_rng(0).standard_cauchy((3000, 2))
    Y[5, 1] = np.nan
    X = np.zeros((3000, 1))
    encoded = RowBlocks.from_arrays(X, np.nan_to_num(Y)).map(lambda X, _: (X, Y[: len(X)]), may_miss=True)
    # one block of all rows, so that the function sees them in order
    blocks = RowBlocks(lambda: [(X, np.zeros((3000, 2)))]).map(lambda X, _: (X, Y), may_miss=True)
    clipped = np.vstack([outputs for _, outputs in clip_outputs(blocks, np.random.default_rng(1))])
    assert np.abs(clipped).max() < 6.0  # three times 1.4826, about a median near zero
    assert clipped[5, 1] == pytest.approx(np.nanmedian(Y[:, 1]))
    assert encoded.widths() == (1, 2)


def test_a_split_with_known_holes_is_exact_and_says_which_rows_have_no_redundancy():
    rng = np.random.default_rng(0)
    L = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 12))
    known = rng.random(L.shape) > 0.2
    known[7] = False
    known[7, :2] = True
    split = alternating_projections(np.where(known, L, 1e6), 2, known=known)
    assert np.abs(split.L - L)[split.is_decided].max() < 1e-10
    assert not split.is_decided[7]
    assert split.is_decided.sum() == 299


def test_regression_despite_errors_is_exact():
    rng = np.random.default_rng(0)
    H, B = rng.standard_normal((400, 3)), rng.standard_normal((3, 5))
    Y = H @ B
    Y[rng.random(Y.shape) < 0.3] += 10.0
    np.testing.assert_allclose(regress_despite_errors(H, Y), B, atol=1e-12)


def test_places_of_errors_that_follow_a_half_space_are_noticed():
    data = data_of(0, n=2000)
    rng = np.random.default_rng(1)
    anywhere = rng.random((2000, 4)) < 0.2
    somewhere = anywhere.copy()
    somewhere[:, 2] |= data.X @ rng.standard_normal(5) > 1.5
    assert errors_ignore_inputs(data.X, anywhere, data.network).passed
    assert not errors_ignore_inputs(data.X, somewhere, data.network).passed


def test_conditioning_counts_only_the_entries_that_count():
    data = data_of(0)
    everything = np.ones((600, 4), dtype=bool)
    assert masked_conditioning(data.X, everything, data.network, offset=False) > 0.05
    off = data.network.preactivations(data.X)[:, 0] <= 0
    blind = np.repeat(off[:, None], 4, axis=1)
    assert masked_conditioning(data.X, blind, data.network, offset=False) == 0.0


def test_sphericity_has_its_level_and_its_power():
    rng = np.random.default_rng(0)
    p_values = [sphericity_p_value(np.cov(rng.standard_normal((300, 4)).T), 300) for _ in range(300)]
    assert 0.01 < np.mean(np.array(p_values) < 0.05) < 0.10  # 5 %, four binomial standard errors are 0.05
    assert sphericity_p_value(np.diag([1.0, 1.0, 1.0, 3.0]), 300) < 1e-3


def test_outliers_keep_the_numbers_of_rows_and_ignore_missing_labels():
    data = data_of(0, noise=0.0)
    Y = data.Y.copy()
    Y[3] = np.nan
    Y[10, 1] += 2.0
    Y[20, 3] -= 3.0
    table = planted.outliers(data.network, data.X, Y)
    assert list(zip(table.rows.tolist(), table.outputs.tolist(), strict=True)) == [(20, 3), (10, 1)]
    np.testing.assert_allclose(table.residuals, [-3.0, 2.0])
    assert (table.n_entries, table.n_rows, table.loss) == (2, 2, "exact")
    assert table.mask().sum() == 2
    assert "2 of 2,400 entries" in str(table)
    part = planted.outliers(data.network, data.X, Y, limit=1)
    assert (len(part.rows), part.n_entries, part.is_complete) == (1, 2, False)


def missing(Y, share, seed=0):
    return np.where(np.random.default_rng(seed).random(Y.shape) < share, np.nan, Y)


@pytest.mark.parametrize(("m", "share"), [(4, 0.05), (20, 0.2), (1, 0.3)])
def test_missing_labels_of_exact_data(m, share):
    data = data_of(2, noise=0.0, m=m)
    recovery = planted.recover(data.X, missing(data.Y, share), 3, missing_labels="mask", random_state=1)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < 1e-11


def test_missing_labels_of_noisy_data_cost_what_they_carry():
    data = data_of(4, n=2500)
    full = planted.recover(data.X, data.Y, 3, method="complementarity", random_state=1)
    part = planted.recover(data.X, missing(data.Y, 0.3), 3, missing_labels="mask", random_state=1)
    assert part.outcome is Outcome.RECOVERED
    ratio = part.uncertainty.standard_errors["W"].mean() / full.uncertainty.standard_errors["W"].mean()
    assert ratio == pytest.approx(0.7**-0.5, rel=0.05)
    assert (
        planted.parameter_error(part.network, data.network) < 6 * part.uncertainty.standard_errors["A"].max()
    )


@pytest.mark.parametrize("method", ["auto", "half-spaces"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_labels_that_are_missing_because_of_what_they_are_are_no_claim(seed, method):
    """With a chance that rises with the label: weights were up to ten standard errors off, and claimed."""
    data = data_of(10 + seed, n=1200)
    high = (data.Y - data.Y.mean(axis=0)) / data.Y.std(axis=0)
    is_lost = np.random.default_rng(seed).random(high.shape) < 1 / (1 + np.exp(2.0 - 0.7 * high))
    how = {"method": method, "missing_labels": "mask", "random_state": seed, "budget_seconds": 20}
    recovery = planted.recover(data.X, np.where(is_lost, np.nan, data.Y), 3, **how)
    assert recovery.outcome is not Outcome.RECOVERED
    quiet = data_of(10 + seed, n=1200, noise=0.05)
    by_chance = planted.recover(quiet.X, missing(quiet.Y, 0.1, seed), 3, **how)
    assert by_chance.outcome is Outcome.RECOVERED


def test_incomplete_rows_that_contradict_are_noticed():
    data = data_of(5, noise=0.0)
    Y = missing(data.Y, 0.05)
    row = int(np.flatnonzero(np.isnan(Y).any(axis=1))[0])
    Y[row, np.flatnonzero(~np.isnan(Y[row]))[0]] += 1.0
    recovery = planted.recover(data.X, Y, 3, method="complementarity", missing_labels="mask", random_state=1)
    assert (recovery.outcome, recovery.network) == (Outcome.ASSUMPTION_FAILED, None)
    assert "contradict" in recovery.detail


def test_missing_labels_are_refused_unless_asked_for():
    data = data_of(6)
    Y = missing(data.Y, 0.1)
    with pytest.raises(BadInputError, match="missing or NaN"):
        planted.recover(data.X, Y)
    with pytest.raises(BadInputError, match="expected 'refuse' or 'mask'"):
        planted.recover(data.X, Y, missing_labels="fill")
    Y[:, 2] = np.nan
    with pytest.raises(BadInputError, match="output 2"):
        planted.recover(data.X, Y, missing_labels="mask")
    Y[0, 0] = np.inf
    with pytest.raises(BadInputError, match="1 inf"):
        planted.recover(data.X, Y, missing_labels="mask")


def test_standard_errors_under_a_loss_keep_the_order_of_the_units():
    data = data_of(9, n=1500, noise=simulate.StudentTNoise(3, 0.2))
    net = data.network
    turned = planted.TwoLayerNetwork(net.W[::-1], net.b[::-1], net.A[:, ::-1])
    one, other = (
        planted.standard_errors(item, data.X, data.Y, loss="huber").standard_errors for item in (net, turned)
    )
    np.testing.assert_allclose(one["W"], other["W"][::-1], rtol=1e-3)
    np.testing.assert_allclose(one["A"], other["A"][:, ::-1], rtol=1e-3)
    assert np.ptp(one["W"].mean(axis=1)) > 0.05 * one["W"].mean()  # the order shows in them


def test_outputs_that_repeat_each_other_have_no_covariance_to_weigh():
    """A residual of lower rank than the outputs: no network of any kind may come of dividing by nothing."""
    data = data_of(3, n=200)
    y = np.tanh(data.network.preactivations(data.X)) @ data.network.A.T
    answer = planted.recover(data.X, np.hstack([y, y[:, :1]]), 3, method="complementarity", random_state=0)
    assert answer.outcome in (Outcome.FITTED, Outcome.NOT_IDENTIFIABLE)
    assert answer.network is None or np.isfinite(answer.network.A).all()


def test_errors_that_crowd_in_a_few_samples_are_a_unit_not_errors():
    rng = np.random.default_rng(3)
    scattered = rng.random((500, 8)) < 0.3
    assert errors_ignore_each_other(scattered).passed
    assert errors_ignore_each_other(np.zeros((50, 4), dtype=bool)).measured == 1.0
    for n_rows in (1, 3):
        crowded = np.zeros((80, 4), dtype=bool)
        crowded[:n_rows] = True
        assert not errors_ignore_each_other(crowded).passed
        assert not errors_ignore_each_other(crowded[:, :3]).passed


def test_a_unit_seen_in_two_samples_is_not_called_an_error():
    data = data_of(4, n=120, noise=0.0, m=5)
    b = data.network.b.copy()
    t = np.sort(data.X @ data.network.W[0])
    b[0] = -(t[-3] + t[-2]) / 2
    network = planted.TwoLayerNetwork(data.network.W, b, data.network.A)
    answer = planted.recover(data.X, network(data.X), method="gross-errors", random_state=0)
    assert answer.outcome is not Outcome.RECOVERED
