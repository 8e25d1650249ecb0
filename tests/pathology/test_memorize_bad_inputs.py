"""Data that cannot be memorised, or hardly: each solver ends with the right word and a network that does no harm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planted
from planted._streams import data_streams
from planted.outcomes import BadInputError, BadInputTypeError

pytestmark = pytest.mark.filterwarnings(
    "ignore::planted.outcomes.DataWarning"
)  # constant columns, said elsewhere

SOLVERS: dict[str, dict[str, Any]] = {
    "auto": {},
    "cg": {},
    "low-rank": {},
    "ridge": {},
    "pgd": {"max_iter": 300},
    "lbfgs": {"max_iter": 300},
    "adam": {"max_epochs": 200},
}
FITTERS = ("low-rank", "ridge")  # fit what they can, and say that they did


@pytest.fixture(params=list(SOLVERS))
def solver(request: pytest.FixtureRequest) -> str:
    if request.param == "adam":
        pytest.importorskip("torch")
    return str(request.param)


def rows_and_labels(n: int = 30, d: int = 12) -> tuple[Any, Any]:
    rows, labels = data_streams(31, 2)
    return rows.standard_normal((n, d)), labels.standard_normal(n)


def ended(X: Any, y: Any, solver: str, **options: Any) -> planted.Memory:
    """Memorise, and see that the network is no worse than one that says zero (up to a wide start of descent)."""
    memory = planted.memorize(X, y, solver=solver, random_state=5, **(SOLVERS[solver] | options))
    assert np.isfinite(memory.loss) and memory.loss <= np.mean(np.square(y)) / 4 * (1 + 1e-9)
    assert memory.loss == pytest.approx(np.mean((memory.network(X)[:, 0] - y) ** 2) / 4, rel=1e-6, abs=1e-15)
    return memory


@pytest.mark.parametrize("layers", [2, 3])
def test_equal_inputs_with_different_labels(solver: str, layers: int) -> None:
    X, y = rows_and_labels()
    X[7] = X[3]
    memory = ended(X, y, solver, layers=layers)
    assert memory.outcome.name == ("FITTED" if solver in FITTERS else "CONTRADICTION")
    assert "Rows 3 and 7" in memory.detail


def test_a_zero_row_with_a_label(solver: str) -> None:
    X, y = rows_and_labels()
    X[5] = 0
    memory = ended(X, y, solver)
    assert memory.outcome.name == ("FITTED" if solver in FITTERS else "CONTRADICTION")
    assert "Row 5 is zero" in memory.detail


def test_more_samples_than_dimensions(solver: str) -> None:
    memory = ended(*rows_and_labels(60, 6), solver)
    assert memory.outcome.name == ("FITTED" if solver in FITTERS else "TOO_MANY_SAMPLES")


def test_rows_on_a_line(solver: str) -> None:
    X, y = rows_and_labels()
    X = np.outer(y, X[0])  # x⊗x spans one dimension
    memory = ended(X, y, solver)
    assert memory.outcome.name == ("FITTED" if solver in FITTERS else "DEPENDENT_INPUTS")


def test_inputs_that_are_all_zero(solver: str) -> None:
    X, y = rows_and_labels()
    memory = ended(0 * X, y, solver)
    assert memory.outcome.name == ("FITTED" if solver in FITTERS else "CONTRADICTION")
    assert memory.loss == pytest.approx(np.mean(y**2) / 4, rel=1e-12)


@pytest.mark.parametrize("solver", ["auto", "cg", "low-rank", "lbfgs"])
@pytest.mark.parametrize("labels", ["constant", "zero", "integer", "boolean"])
def test_labels_of_any_kind_are_memorised(solver: str, labels: str) -> None:
    X, _ = rows_and_labels()
    steps = np.arange(30)
    y = {
        "constant": np.full(30, 4.0),
        "zero": np.zeros(30),
        "integer": steps % 10,
        "boolean": steps % 2 == 0,
    }[labels]
    memory = planted.memorize(X, y, solver=solver, random_state=5)
    assert memory.outcome.name == "MEMORISED"
    np.testing.assert_allclose(
        memory.network(X)[:, 0], y, atol=1e-4
    )  # the largest of 30 errors at a loss of 1e-11


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_rows(n: int) -> None:
    X, y = rows_and_labels(n, 4)
    for solver in ("auto", "cg", "low-rank", "lbfgs"):
        assert ended(X, y, solver).outcome.name == "MEMORISED"
    if n == 1:
        with pytest.raises(BadInputError, match="cannot be split"):
            planted.memorize(X, y, solver="ridge")


def test_what_is_no_data_is_refused_with_its_place(solver: str) -> None:
    X, y = rows_and_labels()
    damaged = {"X": X.copy(), "y": y.copy()}
    damaged["X"][4, 2], damaged["y"][6] = np.nan, np.inf
    with pytest.raises(BadInputError, match="row 4, column 2"):
        planted.memorize(damaged["X"], y, solver=solver)
    with pytest.raises(BadInputError, match="row 6"):
        planted.memorize(X, damaged["y"], solver=solver)
    with pytest.raises(BadInputError, match="29"):
        planted.memorize(X, y[:-1], solver=solver)
    with pytest.raises(BadInputError):
        planted.memorize(X[:0], y[:0], solver=solver)
    with pytest.raises(BadInputTypeError):
        planted.memorize(X, np.full(30, "seven"), solver=solver)
    with pytest.raises(BadInputTypeError):
        planted.memorize(X + 1j, y, solver=solver)


def test_scales_of_the_data() -> None:
    X, y = rows_and_labels()
    for scale in (1e-200, 1e200):
        assert planted.memorize(scale * X, y).outcome.name == "MEMORISED"
    assert planted.memorize(X, 1e-200 * y).outcome.name == "MEMORISED"
    with pytest.raises(BadInputError, match="at most 1e\\+150"):
        planted.memorize(X, 1e200 * y)


def test_conjugate_gradients_on_a_singular_kernel_return_their_best_iterate() -> None:
    X, y = rows_and_labels(60, 6)
    memory = planted.memorize(X, y, solver="cg", random_state=5, n_pairs=0)
    curve = memory.loss_curve[:, 1]
    assert memory.loss <= curve.min() * (1 + 1e-6)
    assert len(curve) < 500  # it noticed that the residual grew
