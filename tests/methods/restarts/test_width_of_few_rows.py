"""The width from few rows: a unit that few held-out rows see is no chance."""

import numpy as np

import planted
from planted import Outcome
from planted.fitting.multistart._width_path import _is_on_plateau


def test_a_rise_by_powers_of_ten_is_no_chance_whatever_its_standard_error() -> None:
    best = np.full((10, 1), 1e-14)
    assert not _is_on_plateau(np.vstack([best[:8], [[0.5], [2.0]]]), best)
    noise = np.random.default_rng(0).standard_normal((10, 1)) ** 2
    assert _is_on_plateau(1.005 * noise, noise)


def test_single_precision_labels_of_few_rows_keep_all_units() -> None:
    """Of two dozen such problems eleven were fitted with fewer units than they have."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng([seed, 62])
        d, k = int(rng.integers(2, 4)), int(rng.integers(2, 5))
        data = planted.simulate.dataset(
            int(3.2 * k * (d + 2)) + 30,
            n_features=d,
            n_hidden=k,
            n_outputs=1,
            activity=(0.35, 0.65),
            random_state=seed,
        )
        answer = planted.recover(data.X, data.Y.astype(np.float32), method="restarts", random_state=seed)
        found.append(answer.outcome is Outcome.RECOVERED and answer.network.n_hidden == k)
    assert sum(found) >= 10
