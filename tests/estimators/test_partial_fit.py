"""`partial_fit` over any order of blocks is one `fit` to all rows, also when the rows are in a file."""

import copy
import errno
import gc
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import planted
from planted.estimators import _row_store
from planted.estimators._row_store import RowStore
from planted.outcomes import BadInputError, RecoveryError

OPTIONS = {"noise": "present", "n_restarts": 1}


def world(n, noise):
    return planted.simulate.dataset(
        n, n_features=3, n_hidden=2, n_outputs=3, law="exponential", activity=(0.3, 0.7), noise=noise,
        random_state=2,
    )  # fmt: skip


def model(noise):
    options = OPTIONS if noise else {}
    return planted.TwoLayerRegressor(2, "complementarity", options=options, random_state=0)


def open_files():
    return {path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}


@pytest.mark.filterwarnings(
    "ignore:FITTED"
)  # whether 300 noisy rows are enough for a claim is not asked here
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_any_order_of_blocks_is_one_fit(noise):
    data = world(300, noise)
    whole = model(noise).fit(data.X, data.Y)
    parts = model(noise)
    for rows in (slice(200, 300), slice(0, 50), slice(50, 200)):
        parts.partial_fit(data.X[rows], data.Y[rows])
    assert planted.parameter_error(parts.network_, whole.network_) < 1e-12
    assert planted.parameter_error(whole.network_, data.network) < (0.2 if noise else 1e-12)
    parts.fit(data.X[:200], data.Y[:200])  # fit forgets what partial_fit has seen
    assert parts.recovery_.provenance.shape[0] == 200


def test_many_noisy_rows_in_any_order_are_one_fit(monkeypatch):
    """60,000 noisy rows, three times as many as a search looks at, kept in a file and read from there."""
    data = world(60_000, 0.1)
    whole = model(0.1).fit(data.X, data.Y)
    monkeypatch.setattr(_row_store, "HELD_BYTES", 500_000)
    # Every parameter is within six standard errors of all 60,000 rows, so these have been used.
    errors = whole.recovery_.uncertainty.standard_errors
    assert max(error.max() for error in errors.values()) < 0.01
    assert planted.parameter_error(whole.network_, data.network) < 6 * max(e.max() for e in errors.values())
    parts = model(0.1)
    for rows in (slice(25_000, 60_000), slice(0, 25_000)):
        parts.partial_fit(data.X[rows], data.Y[rows])
    for name in "WbAc":  # rows are sorted by their keys: bit by bit, not only to rounding
        np.testing.assert_array_equal(getattr(parts.network_, name), getattr(whole.network_, name))
    assert parts.recovery_.provenance.shape[0] == 60_000
    for name, error in parts.recovery_.uncertainty.standard_errors.items():
        np.testing.assert_allclose(error, errors[name], rtol=1e-12)


def test_rows_of_a_call_that_failed_count_in_the_next():
    data = world(300, 0.0)
    parts = model(0.0)
    with pytest.raises(RecoveryError):
        parts.partial_fit(data.X[:4], data.Y[:4])
    parts.partial_fit(data.X[4:], data.Y[4:])
    assert parts.recovery_.provenance.shape[0] == 300


def through_a_pickle(item):
    return pickle.loads(pickle.dumps(item))  # noqa: S301 - made a line above


@pytest.mark.parametrize("duplicate", [copy.deepcopy, through_a_pickle])
@pytest.mark.parametrize("held_bytes", [0, 10_000_000])
def test_a_copy_has_rows_of_its_own(monkeypatch, duplicate, held_bytes):
    monkeypatch.setattr(_row_store, "HELD_BYTES", held_bytes)
    data = world(300, 0.0)
    first = model(0.0).partial_fit(data.X[:100], data.Y[:100])
    second = duplicate(first)
    second.partial_fit(data.X[100:], data.Y[100:])
    assert len(second._rows) == 300 and len(first._rows) == 100
    first.partial_fit(data.X[100:], data.Y[100:])
    for (X, Y), (X_copy, Y_copy) in zip(first._rows.blocks(), second._rows.blocks(), strict=True):
        np.testing.assert_array_equal(X, X_copy)
        np.testing.assert_array_equal(Y, Y_copy)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks Linux which files are open")
def test_the_file_is_gone_with_the_store(monkeypatch, tmp_path):
    monkeypatch.setattr(_row_store, "HELD_BYTES", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = open_files()
    store = RowStore()
    store.add(np.ones((10, 2)), np.ones((10, 1)))
    assert any(str(tmp_path) in str(name) for name in open_files() - before)
    assert not list(tmp_path.iterdir())  # it has no name: also a killed process leaves nothing
    del store
    gc.collect()
    assert not any(str(tmp_path) in str(name) for name in open_files())


def test_memory_does_not_hold_the_rows(monkeypatch):
    """1.6 MB of rows in a file: in memory are their keys, 8 bytes each."""
    monkeypatch.setattr(_row_store, "HELD_BYTES", 100_000)
    store = RowStore()
    for seed in range(10):
        rows = np.random.default_rng(seed).standard_normal((1000, 20))
        store.add(rows[:, :15], rows[:, 15:])
    assert sum(part.nbytes for part in store._held) == 0
    assert os.fstat(store._file.fileno()).st_size == 8 * 20 * len(store)
    assert isinstance(store.blocks().source.X, np.memmap)
    assert sum(len(X) for X, _ in store.blocks()) == 10_000


def test_a_full_disk_keeps_the_rows_that_were_there(monkeypatch):
    monkeypatch.setattr(_row_store, "HELD_BYTES", 0)
    store = RowStore()
    store.add(np.arange(6.0).reshape(3, 2), np.ones((3, 1)))

    class Full:
        """A file that takes some bytes and then no more."""

        def __init__(self, file):
            self.file = file

        def write(self, data):
            self.file.write(bytes(data)[:5])
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name):
            return getattr(self.file, name)

    real = store._file
    store._file = Full(real)
    with pytest.raises(BadInputError, match=r"No space left on device.*TMPDIR"):
        store.add(np.ones((3, 2)), np.ones((3, 1)))
    store._file = real
    store.add(np.arange(6.0, 8.0)[None], np.ones((1, 1)))
    rows = np.concatenate([X for X, _ in store.blocks()])
    np.testing.assert_array_equal(np.sort(rows[:, 0]), [0.0, 2.0, 4.0, 6.0])


def test_other_widths_are_refused():
    data = world(300, 0.0)
    parts = model(0.0).partial_fit(data.X[:100], data.Y[:100])
    with pytest.raises(BadInputError, match="y has 2 outputs, earlier rows had 3"):
        parts.partial_fit(data.X, data.Y[:, :2])
