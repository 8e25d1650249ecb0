"""The noise found without a model bounds the noise from above, and is never zero on noisy data."""

import numpy as np

from planted import simulate
from planted.diagnostics import estimate_noise


def test_the_bound_from_neighbours_holds_and_is_not_zero_on_noisy_data() -> None:
    too_small = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d, k, m = (int(rng.integers(1, high)) for high in (8, 5, 4))
        data = simulate.dataset(
            int(rng.choice([100, 400])), n_features=d, n_hidden=k, n_outputs=m, random_state=seed
        )
        noise = float(rng.choice([0.01, 0.1, 0.3])) * data.Y.std() * rng.standard_normal(data.Y.shape)
        Y = data.Y + noise
        found = estimate_noise((data.X - data.X.mean(axis=0)) / data.X.std(axis=0), Y, rng)
        assert found.is_bound
        assert found.relative_std > 0
        too_small += found.relative_std < np.sqrt((noise**2).mean() / ((Y - Y.mean(axis=0)) ** 2).mean())
    assert too_small <= 10  # 5 % of 60, and four standard deviations


def test_neighbours_in_exact_data_leave_little_room_for_noise() -> None:
    X = np.sort(np.random.default_rng(0).uniform(-1, 1, (1500, 1)), axis=0)
    found = estimate_noise(X, np.maximum(X, 0.0), np.random.default_rng(1))
    assert found.is_bound and found.relative_std < 1e-3
