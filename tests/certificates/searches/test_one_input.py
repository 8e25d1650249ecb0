"""One input: the kinks are where neighbouring lines meet, and a jump is none."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from planted.certificates.searches._one_input import read_kinks
from planted.outcomes import Outcome


@pytest.mark.parametrize("seed", range(8))
def test_lines_that_meet_give_their_kinks(seed):
    rng = np.random.default_rng(seed)
    kinks = np.sort(rng.uniform(-2, 2, 3)) + np.array([-1.0, 0.0, 1.0])
    x = np.sort(rng.uniform(-5, 5, 80))
    Y = np.maximum(x[:, None] - kinks, 0.0) @ rng.uniform(1, 2, (3, 2)) + rng.standard_normal(2)
    np.testing.assert_allclose(read_kinks(x, Y, tol=1e-10), kinks, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_jumps_are_no_kinks(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(40)
    y = np.where(x > rng.uniform(-0.5, 0.5), rng.uniform(1, 3), 0.0) + rng.choice([0.0, 1.0]) * x
    kinks = read_kinks(x, y[:, None], tol=1e-10)
    assert kinks is None or np.isfinite(kinks).all()
    answer = planted.recover(x[:, None], y, random_state=0)
    assert answer.outcome is not Outcome.RECOVERED
