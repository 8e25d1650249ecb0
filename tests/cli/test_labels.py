"""Class labels on the command line: recover, the file, predict."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from typer.testing import CliRunner

from planted.cli import app
from planted.io import Labels, load_with_columns, save_network
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError

RUNNER = CliRunner()


@pytest.mark.parametrize("kind", ["logistic", "multinomial", "poisson"])
def test_a_network_of_labels_gives_probabilities_or_means(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = (rng.random(200) < expit(2 * X[:, 0])).astype(int)
    y += (X[:, 1] > 0.5) * (kind != "logistic")
    rows, net = tmp_path / "rows.csv", tmp_path / "net.safetensors"
    np.savetxt(rows, np.column_stack([X, y]), delimiter=",", header="a,b,kind", comments="", fmt="%.17g")
    asked = [
        "recover",
        str(rows),
        "--targets",
        "kind",
        "--likelihood",
        kind,
        "--effort",
        "quick",
        "--seed",
        "1",
    ]
    answer = RUNNER.invoke(app, [*asked, "--out", str(net), "--accept", "fitted"])
    assert answer.exit_code == 0, answer.output
    saved = load_with_columns(net)
    classes = {"logistic": (0, 1), "multinomial": (0, 1, 2), "poisson": None}[kind]
    assert saved.labels == Labels(kind, classes) and saved.noise is None
    told = RUNNER.invoke(app, ["predict", str(net), str(rows), "--json"])
    assert told.exit_code == 0, told.output
    columns = json.loads(told.stdout)
    eta = saved.network(X)
    if kind == "poisson":
        np.testing.assert_allclose(columns["kind"], np.exp(eta[:, 0]))
    else:
        assert list(columns) == [f"P({name})" for name in classes]
        values = np.array(list(columns.values()))
        np.testing.assert_allclose(values.sum(axis=0), 1.0)
        np.testing.assert_allclose(np.log(values[1:] / values[0]), eta.T, atol=1e-9)
    refused = RUNNER.invoke(app, ["predict", str(net), str(rows), "--interval", "0.9"])
    assert refused.exit_code == 2 and "--interval is for numbers" in refused.output


@pytest.mark.parametrize(
    "labels",
    [
        Labels("probit"),
        Labels("logistic", ("a",)),
        Labels("poisson", ("a", "b")),
        Labels("logistic", ("a", "a")),
    ],
)
def test_what_the_outputs_cannot_mean_is_not_written(labels: Labels, tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        save_network(TwoLayerNetwork([[1.0]], A=[[1.0]]), tmp_path / "net.safetensors", labels=labels)
