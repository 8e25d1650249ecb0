"""BJW18 §8: exact recovery despite gross errors, every wrong label listed, and refusals where nothing can tell them."""

import numpy as np
import pytest

import planted
from planted import Outcome, RowBlocks, TwoLayerNetwork, simulate
from planted.checks import Check
from planted.outcomes import BadInputError
from planted.simulate import SparseNoise


def corrupted(seed, *, share=0.2, amplitude=1.0, n=800, d=6, k=3, m=15):
    return simulate.dataset(
        n,
        n_features=d,
        n_hidden=k,
        n_outputs=m,
        noise=SparseNoise(share, amplitude),
        random_state=seed,
        activity=(0.3, 0.7),
    )


def recover(data, k="auto", **options):
    return planted.recover(data.X, data.Y, k, method="gross-errors", random_state=1, **options)


@pytest.mark.parametrize(("share", "amplitude"), [(0.2, 1.0), (0.25, 100.0), (0.0, 1.0)])
def test_exact_and_every_flag_right(share, amplitude):
    data = corrupted(0, share=share, amplitude=amplitude)
    recovery = recover(data)
    assert recovery.outcome is Outcome.RECOVERED
    assert planted.parameter_error(recovery.network, data.network) < 1e-11
    mask = planted.outliers(recovery.network, data.X, data.Y).mask()
    np.testing.assert_array_equal(mask, data.Y_clean != data.Y)
    assert recovery.stats["outliers"]["entries"] == int(mask.sum())
    assert {item.name: item.measured for item in recovery.evidence}["wrong labels"] == int(mask.sum())


@pytest.mark.parametrize("decomposition", ["pursuit", "pursuit-printed"])
def test_principal_component_pursuit_gives_the_same_network(decomposition):
    """Twelve outputs are far from the theorem's condition on the rank; the polish at each rank makes up for it."""
    for seed, k in ((1, 3), (2, "auto")):
        data = corrupted(seed, share=0.05, amplitude=5.0, m=12, n=1200)
        recovery = recover(data, k, decomposition=decomposition)
        assert recovery.outcome is Outcome.RECOVERED
        assert planted.parameter_error(recovery.network, data.network) < 1e-11


def test_blocks_that_are_never_in_memory_give_the_same_network():
    data = corrupted(2)
    plain = recover(data, 3)
    streamed = planted.recover(
        RowBlocks.from_arrays(data.X, data.Y, block_rows=37), None, 3, method="gross-errors", random_state=1
    )
    assert planted.parameter_error(plain.network, streamed.network) < 1e-12
    assert plain.stats["outliers"]["entries"] == streamed.stats["outliers"]["entries"]


def test_an_offset_is_found():
    data = corrupted(3)
    recovery = planted.recover(data.X, data.Y + np.arange(15.0), method="gross-errors", random_state=1)
    assert recovery.outcome is Outcome.RECOVERED
    np.testing.assert_allclose(recovery.network.c, np.arange(15.0), atol=1e-9)


def test_half_of_the_labels_wrong_is_refused():
    recovery = recover(corrupted(4, share=0.55, amplitude=10.0), 3)
    assert (recovery.outcome, recovery.network) == (Outcome.ASSUMPTION_FAILED, None)
    assert "too many" in recovery.detail


@pytest.mark.parametrize("k", [3, "auto"])
def test_as_many_units_as_outputs_are_refused(k):
    recovery = recover(corrupted(5, m=3, share=0.05, amplitude=10.0), k)
    assert (recovery.outcome, recovery.network) == (Outcome.ASSUMPTION_FAILED, None)


@pytest.mark.parametrize(("k", "seed"), [(3, 0), (3, 1), (2, 0), (2, 1), ("auto", 1)])
def test_a_unit_that_one_output_alone_sees_is_refused(seed, k):
    """Its own errors cannot be told from it, and without it its output would be wrong where it is on."""
    net = simulate.teacher(6, 3, 15, activity=(0.3, 0.7), random_state=seed)
    A = net.A.copy()
    A[:, 0], A[4, 0] = 0.0, 2.0
    net = TwoLayerNetwork(net.W, net.b, A)
    data = simulate.dataset(1500, net, noise=SparseNoise(0.1, 5.0), random_state=seed)
    recovery = recover(data, k, max_rank=6)
    assert recovery.outcome in (Outcome.ASSUMPTION_FAILED, Outcome.NOT_IDENTIFIABLE)


def test_errors_that_depend_on_x_are_refused():
    data = corrupted(6, share=0.0)
    Y = data.Y.copy()
    Y[data.X[:, 0] > 0.5, 3] += 4.0
    recovery = planted.recover(data.X, Y, 3, method="gross-errors", random_state=1)
    assert recovery.outcome is Outcome.NOT_IDENTIFIABLE
    assert "ignore x" in recovery.detail


def test_noise_on_all_labels_is_refused():
    data = corrupted(7)
    Y = data.Y + 0.01 * np.random.default_rng(0).standard_normal(data.Y.shape)
    recovery = planted.recover(data.X, Y, 3, method="gross-errors", random_state=1)
    assert (recovery.outcome, recovery.network) == (Outcome.ASSUMPTION_FAILED, None)


@pytest.mark.parametrize("n_rows", [1, 3, 20])
@pytest.mark.parametrize("seed", range(2))
def test_samples_wrong_in_all_outputs_are_errors_where_no_unit_can_be_on_there_alone(seed, n_rows):
    """Rows near the middle of x with all labels wrong: a half-space that held one of them would hold right ones too."""
    data = planted.simulate.dataset(1500, n_features=5, n_hidden=3, n_outputs=12, random_state=70 + seed)
    rng = np.random.default_rng([seed, 71])
    middle = np.argsort(np.linalg.norm(data.X, axis=1))[rng.choice(500, n_rows, replace=False)]
    Y = data.Y.copy()
    Y[middle] = 10 * rng.standard_normal((n_rows, 12))
    answer = planted.recover(data.X, Y, 3, method="gross-errors", random_state=seed)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < 1e-9
    assert [line.measured for line in answer.find(Check.WRONG_SAMPLES)] == [n_rows]


def test_a_rare_unit_is_not_taken_for_samples_with_wrong_labels():
    """A unit that is on in three samples at the rim of x makes them wrong in all outputs: no error is claimed."""
    for seed in range(3):
        data = planted.simulate.dataset(1500, n_features=5, n_hidden=3, n_outputs=12, random_state=80 + seed)
        rng = np.random.default_rng([seed, 81])
        w = rng.standard_normal(5)
        t = data.X @ w
        bias = -np.sort(t)[-4]  # on in three samples
        Y = data.Y + np.maximum(t + bias, 0)[:, None] * rng.standard_normal(12)
        answer = planted.recover(data.X, Y, 3, method="gross-errors", random_state=seed)
        assert answer.outcome is not Outcome.RECOVERED


@pytest.mark.parametrize("n_rows", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_samples_at_the_rim_wrong_in_all_outputs_are_errors_if_there_are_no_more_units(seed, n_rows):
    """A unit on there alone would explain each of them: the number of units decides, and without it nothing is claimed."""
    data = planted.simulate.dataset(900, n_features=5, n_hidden=3, n_outputs=12, random_state=90 + seed)
    rng = np.random.default_rng([seed, 91])
    rim = np.argsort(np.linalg.norm(data.X, axis=1))[-n_rows:]
    Y = data.Y.copy()
    Y[rim] = 10 * rng.standard_normal((n_rows, 12))
    known, assumed, unknown = (
        planted.recover(data.X, Y, k, method="gross-errors", max_rank=4, rare_units=rare, random_state=seed)
        for k, rare in ((3, True), ("auto", False), ("auto", True))
    )
    for answer in (known, assumed):
        assert answer.outcome is Outcome.RECOVERED
        assert planted.parameter_error(answer.network, data.network) < 1e-9
        assert [line.measured for line in answer.find(Check.WRONG_SAMPLES)] == [n_rows]
    assert "because there are 3 units" in known.detail
    assert "unless a unit is on there alone" in assumed.detail
    assert unknown.outcome is Outcome.NOT_IDENTIFIABLE and "n_hidden=3" in unknown.detail


def test_auto_claims_no_errors_where_a_unit_may_be_on_in_one_sample():
    """A sample at the rim is wrong in all outputs: the method that was named calls it an error, "auto" leaves it open."""
    data = planted.simulate.dataset(400, n_features=4, n_hidden=2, n_outputs=8, random_state=95)
    Y = data.Y.copy()
    Y[np.argmax(np.linalg.norm(data.X, axis=1))] = 10 * np.random.default_rng(96).standard_normal(8)
    named, auto = (
        planted.recover(data.X, Y, method=name, random_state=0) for name in ("gross-errors", "auto")
    )
    assert named.outcome is Outcome.RECOVERED
    assert auto.outcome is not Outcome.RECOVERED


def test_the_report_lists_the_wrong_labels():
    from planted.reporting import summarise

    data = corrupted(8, share=0.05, amplitude=10.0)
    recovery = recover(data, 3)
    report = summarise(recovery)
    worst = recovery.stats["outliers"]["largest"][0]
    for text in (report.text(), report.html()):
        assert "Outliers" in text
        assert f"{worst['row']:,}" in text
    section = next(item for item in report.sections if item.name == "outliers")
    assert len(section.blocks[1].rows) == 20


def test_the_weight_of_pursuit_is_an_option():
    """λ = 1 leaves the errors where they are (no claim); the printed weight given by hand is the printed one."""
    data = corrupted(9, share=0.05, amplitude=5.0, n=400)
    heavy = recover(data, 3, decomposition="pursuit", weight=1.0)
    assert heavy.outcome is not Outcome.RECOVERED
    by_hand = recover(data, 3, decomposition="pursuit", weight=1 / np.sqrt(400))
    printed = recover(data, 3, decomposition="pursuit-printed")
    assert by_hand.outcome is printed.outcome is Outcome.RECOVERED
    assert (by_hand.network.W == printed.network.W).all()
    for bad in ({"weight": 0.0, "decomposition": "pursuit"}, {"weight": 0.1}):
        with pytest.raises(BadInputError, match="weight"):
            recover(data, 3, **bad)
