"""Networks with a linear part on a cluster: the workers' sums give the answer of one process."""

import numpy as np
import pytest

import planted
from planted import Outcome, RowBlocks, on_cluster


@pytest.mark.parametrize(("m", "method"), [(1, "restarts"), (4, "complementarity")])
def test_a_linear_part_is_that_of_one_process(client, m, method):
    data = planted.simulate.dataset(
        900, n_features=3, n_hidden=2, n_outputs=m, activity=(0.3, 0.7), affine=True, random_state=6
    )
    rows = RowBlocks.from_arrays(data.X, data.Y, block_rows=128)
    alone = planted.recover(rows, method=method, random_state=1)
    together = planted.recover(on_cluster(rows, client), method=method, random_state=1)
    assert together.outcome is alone.outcome is Outcome.RECOVERED
    for name in "WbABc":
        np.testing.assert_array_equal(getattr(together.network, name), getattr(alone.network, name))
