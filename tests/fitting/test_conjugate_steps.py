"""Steps without a normal matrix are those of the normal equations, and end at the same networks."""

from __future__ import annotations

import numpy as np
import pytest

from planted import simulate
from planted.fitting._refine import damped_step
from planted.fitting.multistart import _absolute_form, _conjugate_steps
from planted.fitting.multistart._absolute_form import _Rows, fit_kinks, random_hyperplanes
from planted.moments import augment


def states(seed, *, m=1, weighted=False):
    """The same linearisation with the normal matrix and without."""
    rng = np.random.default_rng(seed)
    d, k, n = rng.integers(3, 7), rng.integers(2, 9), 400
    rows, Y = augment(rng.standard_normal((n, d)) @ rng.standard_normal((d, d))), rng.standard_normal((n, m))
    weights = rng.uniform(0.2, 2.0, n)
    V = random_hyperplanes(k, d, rng)
    reweigh = (lambda residual: weights) if weighted else None
    return [_Rows(rows, Y, reweigh, single).start(V) for single in (None, rows.astype(np.float32))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_tight_conjugate_step_is_the_step_of_the_normal_equations(seed, m, weighted, monkeypatch):
    monkeypatch.setattr(_conjugate_steps, "CG_TOL", 1e-7)
    plain, free = states(seed, m=m, weighted=weighted)
    N, gradient, scales = plain.tangent._reduced_system()
    assert free.cost == pytest.approx(plain.cost, rel=1e-12)
    np.testing.assert_allclose(free.tangent.gradient, gradient, atol=1e-10 * np.abs(gradient).max())
    np.testing.assert_allclose(free.tangent.scales, scales, rtol=1e-12)
    step = damped_step(N, gradient, 0.01 * scales)
    assert step is not None
    found = free.tangent.solve(gradient, 0.01 * scales)
    np.testing.assert_allclose(found, step, atol=1e-4 * np.abs(step).max())
    moved = step.reshape(plain.V.shape)
    effect = plain.tangent.effect(moved)
    np.testing.assert_allclose(free.tangent.effect(moved), effect, atol=1e-5 * np.abs(effect).max())


def test_the_usual_conjugate_step_leaves_little_of_the_gradient():
    plain, free = states(5)
    N, gradient, scales = plain.tangent._reduced_system()
    left = (
        gradient
        - N @ free.tangent.solve(gradient, 1e-3 * scales)
        - 1e-3 * scales * free.tangent.solve(gradient, 1e-3 * scales)
    )
    assert (left**2 / scales).sum() < 0.1**2 * (gradient**2 / scales).sum()


@pytest.mark.parametrize("seed", range(3))
def test_exact_data_end_at_rounding_error_without_the_matrix_too(seed, monkeypatch):
    data = simulate.dataset(
        600, n_features=6, n_hidden=4, bias=(-1.0, 1.0), outputs="magnitudes", random_state=seed
    )
    V = random_hyperplanes(8, 6, np.random.default_rng(seed + 50))
    costs = []
    for limit in (10**9, 0):
        monkeypatch.setattr(_absolute_form, "MANY_UNKNOWNS", limit)
        fit = fit_kinks(augment(data.X), data.Y, V, max_iter=80, decrease_tol=1e-6)
        costs.append(fit.cost)
        assert all(after < before for before, after in zip(fit.costs, fit.costs[1:], strict=False))
    assert max(costs) < 1e-24 * (data.Y**2).sum()


def test_numbers_that_overflow_give_no_step():
    _, free = states(6)
    assert free.tangent.solve(free.tangent.gradient, np.full_like(free.tangent.gradient, np.nan)) is None
