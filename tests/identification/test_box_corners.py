"""Units that are on in a corner of the box alone: random questions do not meet them, its corners do."""

import numpy as np
import pytest

import planted
from planted import Outcome, TwoLayerNetwork


@pytest.mark.parametrize("seed", range(4))
def test_a_unit_in_a_corner_is_not_missed(seed):
    rng = np.random.default_rng(seed)
    d, depth = int(rng.integers(2, 5)), float(rng.uniform(0.01, 0.15))
    corner = rng.choice([-1.0, 1.0], d) / np.sqrt(d)
    W = np.vstack([rng.standard_normal((2, d)), corner])
    b = np.append(rng.uniform(-0.3, 0.3, 2), depth - np.sqrt(d))
    truth = TwoLayerNetwork(W, b, np.append(rng.choice([-1.0, 1.0], 2), 3.0)[None])
    found = planted.identify(truth, d, box=(-1.0, 1.0), random_state=seed)
    if found.outcome is Outcome.RECOVERED:
        assert planted.parameter_error(found.network, truth) < 1e-6
    else:
        assert found.outcome is Outcome.STOPPED_EARLY
