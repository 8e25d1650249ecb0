"""How long to look: what `effort` leaves out, what it keeps, and that small networks stop growing when it does not pay."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from planted.checks import Check
from planted.fitting._run import prepare_problem
from planted.methods import small_network
from planted.outcomes import BadInputError, Outcome
from planted.recovery import _recover
from planted.recovery._diagnose import Facts, blocks_of


@pytest.fixture(scope="module")
def smooth():
    """A smooth function of two inputs with noise: nothing planted."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((150, 2))
    return X, np.sin(X[:, :1]) * X[:, 1:] + 0.2 * rng.standard_normal((150, 1))


@pytest.fixture(scope="module")
def bent():
    """A smooth function of three inputs and two outputs with little noise."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((120, 3))
    Y = np.tanh(X @ rng.standard_normal((3, 2))) * X[:, :1]
    return X, Y + 0.05 * rng.standard_normal(Y.shape)


def test_a_quick_look_passes_over_every_search(smooth):
    answer = planted.recover(*smooth, effort="quick", random_state=0)
    ran = [line["method"] for line in answer.trace if line.get("outcome") not in (None, "passed over")]
    assert answer.outcome is Outcome.FITTED and answer.provenance.algorithm == "small-network"
    quick = {name for name, card in planted.methods().items() if card.is_quick}
    assert "small-network" in ran and set(ran) <= quick


@pytest.mark.parametrize("seed", range(3))
def test_a_quick_look_still_recovers_what_a_theorem_finds(seed):
    data = planted.simulate.dataset(
        90, n_features=5, n_hidden=3, n_outputs=4, activity=(0.3, 0.7), random_state=seed
    )
    answer = planted.recover(data.X, data.Y, effort="quick", random_state=0)
    assert answer.outcome is Outcome.RECOVERED
    assert planted.parameter_error(answer.network, data.network) < 1e-10


def test_more_effort_tries_more_networks(smooth):
    answers = [
        planted.recover(*smooth, method="small-network", effort=effort, random_state=0)
        for effort in ("quick", "normal", "thorough")
    ]
    tried = [len([line for line in answer.trace if "ridge" in line]) for answer in answers]
    assert tried[0] < tried[1] <= tried[2]
    assert [answer.provenance.parameters["effort"] for answer in answers] == ["quick", "normal", "thorough"]


def test_widths_grow_only_while_the_error_falls(smooth):
    X, Y = smooth
    noise = np.random.default_rng(0).standard_normal(Y.shape)
    answer = planted.recover(X, noise, method="small-network", random_state=0)
    path: dict[int, float] = {}
    for line in answer.trace[:-2]:  # then a line and the mean
        path[line["k"]] = min(line["score"], path.get(line["k"], np.inf))
    scores = [path[width] for width in sorted(path)]
    assert len(scores) < len(small_network.EFFORTS["normal"].widths)
    assert len(scores) - 1 - int(np.argmin(scores)) <= small_network.PATIENCE


@pytest.mark.parametrize(
    ("n", "noise", "is_excluded"), [(240, 0.0, True), (15, 0.0, False), (240, 0.1, False)]
)
def test_units_that_noiseless_outputs_exclude_are_not_looked_for_again(n, noise, is_excluded):
    """Two smooth curves in three outputs: with samples enough, complementarity has shown that no two units made them."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, 3))
    Y = np.tanh(X @ rng.standard_normal((3, 2)) + 0.5) @ rng.standard_normal((2, 3))
    Y += noise * rng.standard_normal(Y.shape)
    trace: list[dict[str, str]] = []
    facts = Facts(prepare_problem(blocks_of(X, Y), random_state=0), "auto")
    tried = planted.recover(X, Y, method="complementarity", random_state=0)
    names = [method.requires.method for method in _recover._plan(facts, "relu", "normal", trace, [tried])]
    assert not tried.find(Check.RESIDUAL) or not tried.find(Check.RESIDUAL)[0].passed
    assert any(_recover.EXCLUDED in line["detail"] for line in trace) is is_excluded
    assert "restarts" in names and "small-network" in names


def test_a_quick_search_takes_the_first_attempt_that_is_down_to_the_noise(bent):
    quick, normal = (
        planted.recover(*bent, 1, method="restarts", effort=effort, random_state=0)
        for effort in ("quick", "normal")
    )
    assert quick.outcome is normal.outcome is Outcome.FITTED
    assert quick.stats["restarts"] == 1 < normal.stats["restarts"]


def test_a_comparison_ends_with_the_fold_that_decides_it(bent, monkeypatch):
    answer = planted.recover(*bent, 1, method="restarts", effort="quick", random_state=0)
    searched, run = [], _recover.Method.run

    def counted(*args, **options):
        searched.append(args)
        return run(*args, **options)

    monkeypatch.setattr(_recover.Method, "run", counted)
    score = _recover._score(bent, answer, "relu")
    assert len(searched) == _recover.FOLDS
    assert _recover._score(bent, answer, "relu", limit=score) == score, "where rows cannot tell, all folds do"
    for limit in (score / 10, score * 10):
        del searched[:]
        partial = _recover._score(bent, answer, "relu", limit=limit)
        assert len(searched) == 1 and (partial < limit) == (score < limit)


def test_efforts_nobody_knows_are_refused(smooth):
    with pytest.raises(BadInputError, match="effort='heroic'; expected one of 'quick'"):
        planted.recover(*smooth, effort="heroic")
    with pytest.raises(BadInputError, match="has no option effort"):
        planted.recover(*smooth, method="hermite", effort="quick")
