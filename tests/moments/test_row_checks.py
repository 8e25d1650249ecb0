"""One pass answers what the certificates, the searches and the diagnosis used to ask in three."""

import numpy as np
import pytest

from planted.moments import RowChecks, check_rows_against
from planted.rows import RowBlocks, kind_of, pack_sums, unpack_sums
from planted.simulate import dataset

EPS = np.finfo(float).eps


@pytest.fixture
def world():
    data = dataset(700, n_features=4, n_hidden=3, n_outputs=2, noise=0.1, random_state=0)
    return data, RowBlocks.from_arrays(data.X, data.Y, block_rows=128)


@pytest.mark.parametrize("tol", [1e-9, 0.1, np.inf])
def test_the_pass_gives_what_three_passes_gave(world, tol):
    data, blocks = world
    net = data.network
    checks = check_rows_against(blocks, net, tol=tol)
    t = net.preactivations(data.X)
    residual = data.Y - net.activation(t) @ net.A.T - net.c
    # The certificates: largest residual, activity and count, to the bit.
    assert checks.largest_residual == np.abs(residual).max()
    np.testing.assert_array_equal(checks.active, (t > 0).sum(axis=0))
    assert checks.n_samples == 700
    # The searches: rows beyond a tolerance.
    assert checks.missed == (np.abs(residual).max(axis=1) > tol).sum()
    # The diagnosis: the sum of squares; 1,400 positive terms in another order, each residual to a few roundings of y.
    squares = float(((data.Y - net(data.X)) ** 2).sum())
    size = 4 * EPS * np.abs(data.Y).max() * np.abs(residual).sum()
    assert checks.squares == pytest.approx(squares, rel=1400 * EPS, abs=size)
    np.testing.assert_array_equal(checks.active, net.patterns(data.X).sum(axis=0))
    assert blocks.passes.count == 1


def test_the_largest_of_parts_is_the_largest_and_the_rest_adds_up(world):
    data, blocks = world
    halves = [
        check_rows_against(RowBlocks.from_arrays(data.X[part], data.Y[part]), data.network, tol=0.1)
        for part in (slice(0, 300), slice(300, None))
    ]
    whole, merged = check_rows_against(blocks, data.network, tol=0.1), halves[0].merge(halves[1])
    assert merged.largest_residual == whole.largest_residual
    assert (merged.n_samples, merged.missed) == (whole.n_samples, whole.missed)
    assert merged.squares == pytest.approx(whole.squares, rel=1400 * EPS)
    np.testing.assert_array_equal(merged.active, whole.active)


def test_they_travel_through_files(world):
    data, blocks = world
    checks = check_rows_against(blocks, data.network, tol=0.1)
    back = unpack_sums(kind_of(RowChecks), pack_sums(checks))
    assert isinstance(back, RowChecks)
    assert (back.missed, back.squares, back.largest_residual) == (
        checks.missed,
        checks.squares,
        checks.largest_residual,
    )
