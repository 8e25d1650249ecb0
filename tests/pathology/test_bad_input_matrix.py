"""Every public entry meets every kind of bad input and does what the table in the documentation says."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import planted
from pathology.matrix import (
    CASES,
    ENTRIES,
    FAULTS,
    FILES,
    LEFT_OUT,
    NETWORK,
    NO_ROWS,
    ROW_ONLY,
    SOUND,
    Case,
    cell,
    cells,
    sound_file,
)
from planted.cli import app
from planted.outcomes import DataWarning, Outcome, RecoveryWarning
from planted.reporting import summarise

TESTS = Path(__file__).resolve().parents[1]
READERS = ("recover", "diagnose", "memorize", "predict", "sums")


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """Return what each entry answers to the sound data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        return {name: call(SOUND.X, SOUND.Y) for name, call in ENTRIES.items()}


@pytest.mark.parametrize(("entry", "case"), cells(), ids=lambda value: getattr(value, "name", value))
def test_cell(entry: str, case: Case, answers: dict[str, Any]) -> None:
    expected = cell(entry, case)
    assert expected is not None
    behaviour, error, says = expected
    spoiled = case.spoil(SOUND.X.copy(), SOUND.Y.copy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        if error is not None:
            with pytest.raises(error, match=says):
                ENTRIES[entry](*spoiled)
            return
        if behaviour == ROW_ONLY:
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's own word about inf - inf
        before = np.array(spoiled[0], dtype=float).copy()
        answer = ENTRIES[entry](*spoiled)
    if behaviour == LEFT_OUT:
        # One label less of sixty moves a robust size by the step to its neighbour, not by much.
        np.testing.assert_allclose(answer, answers[entry], rtol=0.2)
        return
    if behaviour == NO_ROWS:
        assert answer.shape == (0, 2)
        return
    if behaviour == ROW_ONLY:
        assert not np.isfinite(answer[7]).any()
        answer[7] = answers[entry][7]
    # The same numbers in another layout: sums may be taken in another order, no more.
    np.testing.assert_allclose(answer, answers[entry], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(np.array(spoiled[0], dtype=float), before)


def test_the_table_covers_what_it_should() -> None:
    functions = {"recover", "diagnose", "memorize", "standard_errors", "outliers"}
    assert functions <= set(ENTRIES) and len(CASES) >= 25 and len(cells()) >= 300
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.fixture(scope="module")
def network_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "net.safetensors"
    NETWORK.save(path)
    return path


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_exit_code_2_in_every_command_that_reads_tables(
    name: str, tmp_path: Path, network_file: Path
) -> None:
    suffix, spoil = FILES[name]
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(spoil(sound_file(suffix)))
    for command in READERS:
        words = [str(network_file)] if command == "predict" else []
        result = CliRunner().invoke(app, [command, *words, str(path)])
        assert (result.exit_code, result.stdout) == (2, ""), (command, result.output)
        assert path.name in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet", ".feather", ".csv"])
def test_the_files_were_sound_before_they_were_damaged(suffix: str, tmp_path: Path) -> None:
    from planted.io import read_table

    path = tmp_path / f"good{suffix}"
    path.write_bytes(sound_file(suffix))
    assert read_table(path).X.shape[0] in (2, 60)


@pytest.mark.parametrize(("fault", "behaviour", "test"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_the_faults_of_the_table_have_their_tests(fault: str, behaviour: str, test: str) -> None:
    file, _, name = test.partition("::")
    assert fault and behaviour and re.search(rf"def {name}", (TESTS / file).read_text(encoding="utf-8"))


# --- kinds and scales: the same network, or none that is claimed


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.uint8, bool])
def test_other_kinds_of_numbers_are_those_numbers_in_double_precision(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2 if dtype is bool else 9, size=(80, 3)).astype(dtype)
    Y = NETWORK(X.astype(float))
    answers = [
        planted.recover(rows, Y, method="complementarity", random_state=0) for rows in (X, X.astype(float))
    ]
    assert answers[0].outcome is answers[1].outcome
    if answers[0].network is not None and answers[1].network is not None:
        np.testing.assert_array_equal(answers[0].network.W, answers[1].network.W)


@pytest.mark.parametrize(("scale", "offset"), [(1e150, 0.0), (1e-150, 0.0), (1.0, 1e8)], ids=str)
def test_scale_and_offset_of_the_inputs_change_nothing(scale: float, offset: float) -> None:
    rows = scale * SOUND.X + offset
    plain_rows = (rows - offset) / scale  # at 1e8 the addition rounds; the subtraction is exact
    targets = SOUND.network(plain_rows)
    plain = planted.recover(plain_rows, targets, method="complementarity", random_state=0)
    moved = planted.recover(rows, targets, method="complementarity", random_state=0)
    assert plain.outcome is moved.outcome is Outcome.RECOVERED
    # Directions of unit norm do not feel scale and offset; eps · 1e8 is the rounding of w·x + b at that offset.
    error = planted.parameter_error(plain.network, SOUND.network)
    assert error < 1e-12
    order = [int(np.argmax(np.abs(moved.network.W @ row))) for row in plain.network.W]
    np.testing.assert_allclose(moved.network.W[order], plain.network.W, atol=1e-7 if offset else 1e-12)


def test_outputs_of_any_scale_are_recovered() -> None:
    for scale in (1e150, 1e-150):
        answer = planted.recover(SOUND.X, scale * SOUND.Y, method="complementarity", random_state=0)
        assert answer.outcome is Outcome.RECOVERED
        np.testing.assert_allclose(answer.network.A / scale, scaled_outputs(), rtol=1e-9, atol=1e-9)


def scaled_outputs() -> Any:
    return planted.recover(SOUND.X, SOUND.Y, method="complementarity", random_state=0).network.A


def test_a_constant_column_is_warned_about_and_gets_no_weight() -> None:
    rows = np.column_stack([SOUND.X, np.full(60, 7.0)])
    with pytest.warns(DataWarning, match="constant"):
        answer = planted.recover(rows, SOUND.Y, method="complementarity", random_state=0)
    assert answer.network is not None and np.abs(answer.network.W[:, 3]).max() == 0.0
    assert "1 constant column(s) in X: 3" in summarise(answer).text().replace("\n", " ")
    with pytest.warns(DataWarning, match="constant"):
        diagnosis = planted.diagnose(rows, SOUND.Y, random_state=0)
    findings = {item.name: item for item in diagnosis.findings}
    assert findings["constant input columns"].measured == 1


def test_repeated_rows_are_accepted_and_no_proof() -> None:
    few = slice(0, 6)
    rows, targets = np.repeat(SOUND.X[few], 50, axis=0), np.repeat(SOUND.Y[few], 50, axis=0)
    answer = planted.recover(rows, targets, 2, method="complementarity", random_state=0)
    assert answer.outcome is not Outcome.RECOVERED
    assert "effective sample size is 6" in summarise(answer).text().replace("\n", " ")


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_samples_than_inputs_are_never_certified(n: int) -> None:
    answer = planted.recover(SOUND.X[:n], SOUND.Y[:n], 2, method="complementarity", random_state=0)
    assert answer.outcome is not Outcome.RECOVERED and answer.detail


# --- structures that cannot be recovered as asked: a named outcome, never a confident wrong network


def spoiled_networks() -> dict[str, planted.TwoLayerNetwork]:
    W, b, A = NETWORK.W, NETWORK.b, NETWORK.A
    opposite = planted.TwoLayerNetwork(
        np.vstack([W, -W[:1]]), np.append(b, -b[0]), np.column_stack([A, A[:, 1]])
    )
    equal = planted.TwoLayerNetwork(np.vstack([W, W[:1]]), np.append(b, b[0]), np.column_stack([A, A[:, 1]]))
    silent = planted.TwoLayerNetwork(
        np.vstack([W, [0.6, 0.8, 0.0]]), np.append(b, 0.1), np.column_stack([A, 0 * A[:, 0]])
    )
    return {"opposite units": opposite, "equal units": equal, "zero output weights": silent}


@pytest.mark.parametrize("name", spoiled_networks())
def test_degenerate_networks_are_never_a_confident_wrong_answer(name: str) -> None:
    truth = spoiled_networks()[name]
    X = planted.simulate.inputs(300, 3, law="exponential", random_state=8)
    answer = planted.recover(X, truth(X), method="complementarity", random_state=0)
    if answer.outcome is Outcome.RECOVERED:
        assert answer.network.is_equivalent(truth, tol=1e-8)
    else:
        assert answer.detail


@pytest.mark.parametrize("k", [1, 3])
def test_another_number_of_units_than_planted_is_not_recovered(k: int) -> None:
    answer = planted.recover(SOUND.X, SOUND.Y, k, method="complementarity", random_state=0)
    assert answer.outcome is not Outcome.RECOVERED and answer.detail


def test_collinear_inputs_are_not_identifiable() -> None:
    rows = np.column_stack([SOUND.X, SOUND.X[:, 0] - SOUND.X[:, 1]])
    answer = planted.recover(rows, SOUND.Y, method="complementarity", random_state=0)
    assert answer.outcome is Outcome.NOT_IDENTIFIABLE


def test_inputs_of_another_law_than_the_method_needs() -> None:
    data = planted.simulate.dataset(
        400, n_features=3, n_hidden=2, n_outputs=2, law="exponential", random_state=4
    )
    answer = planted.recover(data.X, data.Y, method="symmetric-inputs", random_state=0)
    assert answer.outcome is Outcome.ASSUMPTION_FAILED and "symmetry" in answer.detail
