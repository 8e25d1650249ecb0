"""Estimators take Dask collections: the same networks, predictions that are computed when asked for, budgets that hold."""

import os
import signal
from contextlib import contextmanager
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import wait

import planted
from planted import MemorizingClassifier, MemorizingRegressor, TwoLayerRegressor
from planted.outcomes import BadInputError, RecoveryError

NAMES = list("abcd")


def samples(seed, n=3000):
    """Rows of a drawn network with two to four outputs, or one as a vector."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 5))
    return planted.simulate.dataset(
        n,
        n_features=4,
        n_hidden=2,
        n_outputs=m,
        law="exponential",
        activity=(0.3, 0.7),
        random_state=rng,
    )


def as_arrays(*parts, rng):
    cuts = np.sort(rng.choice(np.arange(1, len(parts[0])), 4, replace=False))
    chunks = tuple(int(step) for step in np.diff([0, *cuts, len(parts[0])]))
    return [da.from_array(part, chunks=(chunks, *part.shape[1:])) for part in parts]


def as_frames(X, Y):
    """One frame with partitions that Dask knows no lengths of, one of them empty."""
    columns = NAMES + [f"y{j}" for j in range(Y.shape[1])]
    table = pd.DataFrame(np.hstack([X, Y]), columns=columns).assign(row=np.arange(len(X)))
    frame = dd.from_pandas(table, npartitions=5)
    frame = frame[(frame["row"] < 600) | (frame["row"] >= 1200)]
    kept = np.r_[0:600, 1200 : len(X)]
    return frame[NAMES], frame[columns[4:]], kept


@pytest.mark.parametrize("seed", [1])
def test_the_regressor_sums_arrays_where_they_are(client, seed):
    data, rng = samples(seed), np.random.default_rng(seed)
    X, Y = as_arrays(data.X, data.Y, rng=rng)
    model = TwoLayerRegressor(2, "complementarity", random_state=seed).fit(X, Y)
    assert model.recovery_.outcome is planted.Outcome.RECOVERED
    assert planted.parameter_error(model.network_, data.network) < 1e-10
    assert model.n_features_in_ == 4 and not hasattr(model, "feature_names_in_")
    predicted = model.predict(X)
    assert isinstance(predicted, da.Array) and predicted.chunks == Y.chunks and predicted.dtype == np.float64
    # The same function of the same rows; matrix products of other lengths round differently.
    np.testing.assert_allclose(predicted.compute(), model.predict(data.X), rtol=1e-13, atol=1e-13)
    assert model.score(X, Y) > 1 - 1e-12
    with pytest.raises(BadInputError, match="X has 3 features, but TwoLayerRegressor is expecting 4"):
        model.predict(X[:, :3])


def test_the_regressor_takes_frames_with_names_and_unknown_lengths(client):
    data = samples(3)
    X, Y, kept = as_frames(data.X, data.Y)
    model = TwoLayerRegressor(2, "complementarity", random_state=3).fit(X, Y)
    assert planted.parameter_error(model.network_, data.network) < 1e-10
    assert list(model.feature_names_in_) == NAMES
    predicted = model.predict(X)
    assert isinstance(predicted, da.Array)
    np.testing.assert_allclose(predicted.compute(), data.Y[kept], atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[NAMES[::-1]])
    one = TwoLayerRegressor(2, "restarts", random_state=3, budget_seconds=0, on_insufficient_data="raise")
    with pytest.raises(RecoveryError, match="STOPPED_EARLY"):
        one.fit(X, Y[Y.columns[0]])


def test_weights_of_a_collection_weigh_residuals(client):
    data, rng = samples(4, 2000), np.random.default_rng(4)
    noisy = data.Y + 0.05 * rng.standard_normal(data.Y.shape)
    weights = rng.integers(1, 4, len(noisy)) / 2
    X, Y, w = as_arrays(data.X, noisy, weights, rng=rng)
    model = TwoLayerRegressor(2, random_state=4, on_insufficient_data="warn")
    model.fit(X, Y, sample_weight=w)
    assert model.recovery_.provenance.algorithm == "restarts"
    with pytest.raises(BadInputError, match="cannot weigh rows"):
        TwoLayerRegressor(2, "complementarity").fit(X, Y, sample_weight=w)


@pytest.mark.parametrize("seed", [5])
def test_memorising_estimators_compute_their_rows(client, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 8)), rng.standard_normal(30)
    classes = rng.choice(["left", "middle", "right"], 30)
    lazy_X, lazy_y, lazy_classes = as_arrays(X, y, classes, rng=rng)
    here = MemorizingRegressor(random_state=seed).fit(X, y)
    there = MemorizingRegressor(random_state=seed).fit(lazy_X, lazy_y)
    np.testing.assert_array_equal(here.network_.W, there.network_.W)
    assert there.predict(lazy_X).shape == (30,)
    np.testing.assert_allclose(there.predict(lazy_X).compute(), y, atol=1e-5)
    chooser = MemorizingClassifier(random_state=seed).fit(lazy_X, lazy_classes)
    chosen = chooser.predict(lazy_X)
    assert isinstance(chosen, da.Array) and list(chosen.compute()) == list(classes)
    assert chooser.decision_function(lazy_X).shape == (30, 3)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")).assign(label=classes), npartitions=3)
    model = MemorizingClassifier(random_state=seed).fit(frame[list("abcdefgh")], frame["label"])
    assert list(model.predict(frame[list("abcdefgh")]).compute()) == list(classes)


def test_partial_fit_computes_its_rows(client):
    data, rng = samples(8, 300), np.random.default_rng(8)
    here, there = (TwoLayerRegressor(2, "complementarity", random_state=0) for _ in range(2))
    here.partial_fit(data.X, data.Y)
    there.partial_fit(*as_arrays(data.X, data.Y, rng=rng))
    np.testing.assert_array_equal(here.network_.W, there.network_.W)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_read(client):
    huge = da.zeros((10**11, 40), chunks=(10**9, 40))
    with pytest.raises(BadInputError, match=r"X needs 32,000.00 GB .* needs all rows at once"):
        MemorizingRegressor().fit(huge, huge[:, 0])


def lying_at(client, worker, collections):
    """The same collections with every piece in the memory of one worker, and nowhere else."""
    kept = client.persist(collections, workers=[worker], allow_other_workers=False)
    wait(kept, timeout=60)
    places = client.who_has(kept)
    assert places and all(tuple(place) == (worker,) for place in places.values())
    return kept


@contextmanager
def stopped(client, *workers):
    """While this lasts, the workers neither die nor answer."""
    pids = client.run(os.getpid, workers=list(workers)).values()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("place", [0, 1])
def test_a_stopped_worker_ends_every_fit_at_its_budget(client, place):
    """The rows are in its memory alone: a fit that waits for them does not end before it has returned."""
    # Rows of their own for each place: Dask names pieces by what is in them, and those of another place may still lie there.
    data, rng = samples(70 + place), np.random.default_rng(7)
    worker = sorted(client.nthreads())[place]
    arrays = lying_at(client, worker, as_arrays(data.X, data.Y, rng=rng))
    frames = lying_at(client, worker, as_frames(data.X, data.Y)[:2])
    waiting = dict(random_state=0, budget_seconds=0.5)
    with stopped(client, worker):
        for rows in (arrays, frames):
            answer = planted.recover(*rows, 2, **waiting)
            assert answer.outcome is planted.Outcome.STOPPED_EARLY and answer.network is None
            for model in (TwoLayerRegressor(2, **waiting), MemorizingRegressor(**waiting)):
                with pytest.raises(RecoveryError, match=r"STOPPED_EARLY.*budget is used up"):
                    model.fit(*rows)
    for rows in (arrays, frames):
        answer = planted.recover(*rows, 2, **RETURNED)
        assert planted.parameter_error(answer.network, data.network) < 1e-10


RETURNED = {"method": "complementarity", "random_state": 0, "budget_seconds": 120.0}


def test_the_budget_holds_while_the_workers_hash_rows_for_a_checkpoint(client, tmp_path):
    data = samples(9)
    np.savez(tmp_path / "rows.npz", X=data.X, Y=data.Y)
    for name, rows in {
        "read here": planted.open_blocks(tmp_path / "rows.npz", block_rows=50),
        "in memory": planted.RowBlocks.from_arrays(data.X, data.Y, block_rows=50),
    }.items():
        kept = partial(planted.checkpointed, planted.on_cluster(rows, client), tmp_path / name)
        with stopped(client, *client.nthreads()):
            answer = planted.recover(kept(), n_hidden=2, **RETURNED | {"budget_seconds": 0.5})
            assert answer.outcome is planted.Outcome.STOPPED_EARLY and answer.network is None
        answer = planted.recover(kept(resume=True), n_hidden=2, **RETURNED)
        assert planted.parameter_error(answer.network, data.network) < 1e-10


@pytest.mark.parametrize("method", ["complementarity", "restarts", "small-network"])
def test_methods_by_name_fit_the_linear_part_of_arrays(method):
    data = planted.simulate.dataset(
        400, n_features=4, n_hidden=3, n_outputs=4, affine=True, activity=(0.3, 0.7), random_state=5
    )
    X, Y = as_arrays(data.X, data.Y, rng=np.random.default_rng(5))
    options = {"method": method, "affine": True, "effort": "quick", "random_state": 1}
    here, there = (planted.recover(*rows, **options) for rows in ((data.X, data.Y), (X, Y)))
    assert there.outcome is here.outcome and there.network.B is not None
    if method == "small-network":  # a search by steps: rounding of sums in another order grows on the way
        costs = [np.mean((found.network(data.X) - data.Y) ** 2) for found in (here, there)]
        np.testing.assert_allclose(costs[1], costs[0], rtol=1e-2)
    else:
        assert there.outcome is planted.Outcome.RECOVERED
        assert planted.parameter_error(there.network, data.network) < 1e-10
