"""Steps of the method restarts: fitting, pruning, orienting, splitting rows, weights, losses, interruption."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import planted
from planted import Outcome, TwoLayerNetwork, simulate
from planted.fitting.multistart import _orient_units, _width_path
from planted.fitting.multistart._absolute_form import KinkFit, fit_kinks, prune_units, random_hyperplanes
from planted.fitting.multistart._orient_units import orient_exactly, orient_noisily
from planted.moments import augment

TEACHER = {"bias": (-1.0, 1.0), "outputs": "magnitudes"}


def two_kinks():
    """|x - 1| + 2|x + 1| + 3x on a grid."""
    x = np.linspace(-3, 3, 61)[:, None]
    return augment(x), np.abs(x - 1) + 2 * np.abs(x + 1) + 3 * x


def test_a_fit_finds_kinks_and_linear_part_of_a_hand_worked_function():
    rows, Y = two_kinks()
    fit = fit_kinks(rows, Y, np.array([[1.0, -0.7], [1.0, 1.2]]), max_iter=50, decrease_tol=1e-9)
    np.testing.assert_allclose(fit.V, [[1.0, -1.0], [1.0, 1.0]], atol=1e-12)
    np.testing.assert_allclose(fit.coefficients, [[1.0, 2.0, 3.0, 0.0]], atol=1e-11)
    assert fit.cost < 1e-24
    assert all(after < before for before, after in zip(fit.costs, fit.costs[1:], strict=False))


def test_dead_and_coincident_units_are_pruned_first_and_cost_nothing():
    rows, Y = two_kinks()
    V = np.array(
        [[1.0, -1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 2.0]]
    )  # the third repeats the second, the last is idle
    fit = fit_kinks(rows, Y, V, max_iter=0, decrease_tol=0.0)
    kept, losses = prune_units(fit, 1, tol=1e-12)
    assert sorted(np.abs(fit.V[kept][:, 1] - [-1.0, 1.0])) == [0.0, 0.0]
    assert (losses < 1e-20).all()
    assert len(losses) == 2


def test_the_price_of_a_unit_is_the_rise_of_the_cost():
    rng = np.random.default_rng(0)
    rows, Y = augment(rng.standard_normal((80, 2))), rng.standard_normal((80, 2))
    V = random_hyperplanes(3, 2, rng)
    fit = fit_kinks(rows, Y, V, max_iter=0, decrease_tol=0.0)
    kept, losses = prune_units(fit, 2)
    without = fit_kinks(rows, Y, fit.V[kept], max_iter=0, decrease_tol=0.0)
    assert losses[0] == pytest.approx(without.cost - fit.cost, rel=1e-8)
    others = [fit_kinks(rows, Y, np.delete(fit.V, i, 0), max_iter=0, decrease_tol=0.0).cost for i in range(3)]
    assert without.cost == pytest.approx(min(others), rel=1e-10)


def fit_of_network(net, n, *, seed, noise=0.0):
    """Fit the absolute-value form from the true hyperplanes."""
    data = simulate.dataset(n, net, noise=noise, random_state=seed)
    V = np.column_stack([net.W, net.b])
    V *= np.where(np.arange(len(V)) % 2, -1.0, 1.0)[:, None]  # orientations are lost
    return fit_kinks(augment(data.X), data.Y, V, max_iter=20, decrease_tol=1e-8), data


@pytest.mark.parametrize(("d", "k", "m"), [(5, 4, 1), (3, 9, 1), (3, 8, 2), (4, 32, 1)])
def test_orientations_are_found_exactly(d, k, m):
    net = simulate.teacher(d, k, m, random_state=3, **TEACHER)
    fit, _ = fit_of_network(net, 60 * k, seed=4)
    oriented = orient_exactly(fit)
    assert oriented.n_patterns == 1
    # 32 units of 4 inputs: more than `canonical` searches, so the units are compared as they are.
    order = [int(np.argmin(np.abs(oriented.network.W - row).sum(axis=1))) for row in net.W]
    np.testing.assert_allclose(oriented.network.W[order], net.W, atol=1e-9)
    np.testing.assert_allclose(oriented.network.A[:, order], net.A, atol=1e-9)
    np.testing.assert_allclose(oriented.network.c, 0.0, atol=1e-9)


@pytest.mark.parametrize(("d", "k"), [(6, 5), (4, 9)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_orientations_are_found_in_noise(d, k, seed):
    net = simulate.teacher(d, k, random_state=seed, **TEACHER)
    fit, data = fit_of_network(net, 300 * k, seed=seed + 20, noise=0.1)
    oriented = orient_noisily(fit)
    order = [int(np.argmin(np.abs(oriented.network.W - row).sum(axis=1))) for row in net.W]
    assert (np.einsum("ij,ij->i", oriented.network.W[order], net.W) > 0.9).all()
    assert oriented.gap > 0
    assert (
        (data.Y - oriented.network(data.X)) ** 2
    ).mean() < 0.013  # 0.01 and the errors of one flip are far apart


def test_a_linear_part_of_its_own_gets_units():
    rows, Y = two_kinks()  # slope 3 is not a signed sum of 1 and 2: 3 = 1 + 2 is one, so use 2.5
    fit = fit_kinks(
        rows, Y - 0.5 * rows[:, :1], np.array([[1.0, -1.0], [1.0, 1.0]]), max_iter=5, decrease_tol=0.0
    )
    oriented = orient_exactly(fit)
    x = np.linspace(-3, 3, 13)[:, None]
    assert oriented.n_patterns == 0
    np.testing.assert_allclose(
        oriented.network(x), np.abs(x - 1) + 2 * np.abs(x + 1) + 2.5 * x, rtol=0, atol=1e-10
    )


def small_problem(seed=0, **options):
    """Draw a (5, 3) problem."""
    return simulate.dataset(300, n_features=5, n_hidden=3, random_state=seed, **(TEACHER | options))


def test_an_interrupted_search_returns_the_best_so_far():
    data = small_problem(noise=0.3)
    seen = []

    def interrupt(what, fraction):
        seen.append(what)
        if len(seen) == 2:
            raise KeyboardInterrupt

    recovery = planted.recover(
        data.X, data.Y, 3, method="restarts", random_state=1, progress=interrupt, n_restarts=5
    )
    assert recovery.outcome is Outcome.STOPPED_EARLY
    assert "nterrupted" in recovery.detail
    assert recovery.network.n_hidden == 3
    assert ((data.Y - recovery.network(data.X)) ** 2).mean() < data.Y.var()
    assert "best residual" in seen[0]


def test_an_interruption_on_the_way_to_a_width_keeps_the_expanded_fit():
    def interrupt(what, fraction):
        raise KeyboardInterrupt

    data = small_problem()
    recovery = planted.recover(data.X, data.Y, method="restarts", random_state=1, progress=interrupt)
    assert recovery.outcome is Outcome.STOPPED_EARLY
    assert ((data.Y - recovery.network(data.X)) ** 2).mean() < 0.1 * data.Y.var()


def test_when_time_is_up_units_are_not_turned_one_by_one(monkeypatch):
    """Each turn is a solve: with many units they take longer than the time that was given."""
    calls = []

    def interrupt(what, fraction):
        calls.append(what)
        if len(calls) == 2:
            raise KeyboardInterrupt

    turn = _orient_units._turn

    def counted(flips, unit):
        assert len(calls) < 2
        return turn(flips, unit)

    monkeypatch.setattr(_orient_units, "_turn", counted)
    data = small_problem(noise=0.3)
    recovery = planted.recover(
        data.X, data.Y, 3, method="restarts", random_state=1, progress=interrupt, n_restarts=5
    )
    assert recovery.outcome is Outcome.STOPPED_EARLY and recovery.network.n_hidden == 3


def test_without_time_there_is_no_network():
    data = small_problem()
    recovery = planted.recover(data.X, data.Y, method="restarts", random_state=1, budget_seconds=0.0)
    assert recovery.outcome is Outcome.STOPPED_EARLY
    assert recovery.network is None


@pytest.mark.parametrize("loss", ["huber", "cauchy"])
def test_robust_losses_survive_gross_errors_that_ruin_least_squares(loss):
    data = small_problem(seed=2, noise=0.05)
    Y = data.Y.copy()
    Y[::10] += 30.0
    errors = {}
    for name in (loss, "squared"):
        recovery = planted.recover(data.X, Y, 3, method="restarts", random_state=5, loss=name, n_restarts=4)
        assert recovery.outcome is not Outcome.RECOVERED
        errors[name] = np.sqrt(((recovery.network(data.X) - data.Y_clean) ** 2).mean())
    assert errors[loss] < 0.1  # noise 0.05 on 300 rows for 21 unknowns: 0.013, and Huber's bias of some 0.05
    assert errors[loss] < errors["squared"] / 5


def test_rows_of_weight_zero_are_left_out():
    data = small_problem(seed=3)
    Y, weight = data.Y.copy(), np.ones(300)
    Y[50:80], weight[50:80] = 1e3, 0.0
    recovery = planted.recover(data.X, Y, 3, method="restarts", random_state=5, sample_weight=weight)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < 1e-11


def test_weights_inverse_to_the_variance_help():
    """Half of the rows have twenty times the noise: with weights the error is that of the clean half."""
    errors = {False: [], True: []}
    for seed in range(3):
        data = small_problem(seed=seed)
        rng = np.random.default_rng(100 + seed)
        std = np.where(np.arange(300) % 2, 1.0, 0.05)
        Y = data.Y + std[:, None] * rng.standard_normal((300, 1))
        for is_weighted in errors:
            weight = std**-2 if is_weighted else None
            recovery = planted.recover(
                data.X, Y, 3, method="restarts", random_state=7, sample_weight=weight, n_restarts=2
            )
            errors[is_weighted].append(((recovery.network(data.X) - data.Y_clean) ** 2).mean())
    assert np.median(errors[True]) < np.median(errors[False]) / 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "absolute"}, "unknown loss 'absolute'"),
        ({"sample_weight": np.ones(7)}, r"sample_weight has shape \(7,\), expected \(300,\)"),
        ({"sample_weight": -np.ones(300)}, "300 negative entries, the first in row 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    data = small_problem()
    with pytest.raises(planted.outcomes.BadInputError, match=message):
        planted.recover(data.X, data.Y, 3, method="restarts", **options)


def test_the_trace_tells_what_was_tried_and_survives_json():
    import json

    data = small_problem(seed=4)
    recovery = planted.recover(data.X, data.Y, 3, method="restarts", random_state=3)
    line = recovery.trace[0]
    assert {"start", "k", "residual", "rows", "units_dropped", "costs"} <= set(line)
    assert line["units_dropped"] == 4
    assert line["costs"][0] > line["costs"][-1]
    json.dumps(recovery.to_dict())


def test_a_large_data_set_is_searched_on_a_part_and_judged_on_all():
    net = simulate.teacher(4, 3, random_state=1, **TEACHER)
    data = simulate.dataset(25_000, net, random_state=2)
    Y = data.Y.copy()
    recovery = planted.recover(data.X, Y, 3, method="restarts", random_state=3)
    assert recovery.outcome is Outcome.RECOVERED
    Y[[5, 7000, 21_000]] += 1.0
    spoilt = planted.recover(data.X, Y, 3, method="restarts", random_state=3)
    assert spoilt.outcome is not Outcome.RECOVERED
    weighted = planted.recover(
        data.X, data.Y, 3, method="restarts", random_state=3, sample_weight=np.linspace(1, 2, 25_000)
    )
    assert planted.parameter_error(weighted.network, net) < 1e-11


def test_constant_inputs_get_no_weight():
    data = small_problem(seed=5)
    X = np.hstack([data.X, np.full((300, 1), 7.0)])
    with pytest.warns(planted.outcomes.DataWarning, match="constant column"):
        recovery = planted.recover(X, data.Y, 3, method="restarts", random_state=3)
    assert np.abs(recovery.network.W[:, -1]).max() < 1e-12
    wide = TwoLayerNetwork(np.hstack([data.network.W, np.zeros((3, 1))]), data.network.b, data.network.A)
    assert planted.parameter_error(recovery.network, wide) < 1e-11


class _ScriptedRows:
    """Rows whose fits keep the hyperplanes they are given, with a held-out error that only depends on how many."""

    Y = np.zeros((1, 1))

    def __init__(self, needed: int, level: float) -> None:
        self.needed, self.level, self.visited = needed, level, []

    def fit(self, chosen, V, **options):
        self.visited.append(len(V))
        return KinkFit(V, np.ones((1, len(V))), 1.0, np.diag(np.arange(1.0, len(V) + 1)), (1.0,), True)

    def unseen(self, chosen):
        return chosen

    def squares(self, fit, rows):
        return np.full((4, 1), self.level if fit.n_units >= self.needed else 1.0)


@pytest.mark.parametrize("needed", [19, 22, 9])
def test_many_units_go_several_at_once_and_the_width_is_still_found(needed):
    search, problem = _ScriptedRows(needed, 0.1), SimpleNamespace(progress=lambda *args: None)
    wide = search.fit(None, random_hyperplanes(32, 2, np.random.default_rng(0)))
    squares, _ = _width_path._narrow(problem, search, wide, np.arange(4), [])
    best = min(width for width, values in squares.items() if values.mean() == 0.1)
    assert best == needed and needed - 1 in squares
    assert len(search.visited) < 32 - needed + 1


def test_exact_fits_lose_one_unit_at_a_time():
    search, problem = _ScriptedRows(18, 0.0), SimpleNamespace(progress=lambda *args: None)
    wide = search.fit(None, random_hyperplanes(21, 2, np.random.default_rng(0)))
    _width_path._narrow(problem, search, wide, np.arange(4), [])
    assert search.visited == [21, 21, 20, 19, 18, 17]


@pytest.mark.parametrize("seed", [1, 5])
def test_few_samples_between_two_kinks_are_enough_without_a_linear_part(seed: int) -> None:
    """Two samples lie between two kinks: kinks and linear part are free together, units without one are not.

    With one of the two held out, the fit of the search misses it.
    """
    data = planted.simulate.dataset(
        60, n_features=2, n_hidden=3, n_outputs=1, activity=(0.3, 0.7), random_state=901
    )
    found = planted.recover(data.X, data.Y, 3, method="restarts", random_state=seed)
    assert found.outcome is Outcome.RECOVERED and found.network is not None
    assert planted.parameter_error(found.network, data.network) < 1e-10
