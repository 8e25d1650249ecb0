"""A unit left out shows as a fall of the sum of squares; a right network leaves no room for one."""

import pytest

from planted import RowBlocks, TwoLayerNetwork, simulate
from planted.certificates._unit_count import missing_unit_evidence
from planted.fitting._problem import prepare_problem
from planted.fitting._refine import refine


@pytest.mark.parametrize("missing", [0, 1])
def test_room_for_a_unit_is_seen_where_there_is_some(missing: int) -> None:
    data = simulate.dataset(
        800, n_features=4, n_hidden=3, noise=0.1, activity=(0.4, 0.6), outputs="magnitudes", random_state=21
    )
    keep = slice(missing, None)
    net = TwoLayerNetwork(data.network.W[keep], data.network.b[keep], data.network.A[:, keep])
    problem = prepare_problem(RowBlocks.from_arrays(data.X, data.Y), random_state=1)
    fit = refine(problem.blocks, problem.scaling.standardise(net), offset=False)
    noise = (fit.cost / 800) ** 0.5
    line = missing_unit_evidence(problem, fit.network, offset=False, noise=noise)
    assert line.passed == (missing == 0)
