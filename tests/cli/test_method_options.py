"""Every option of every method from the command line: typed as its signature says, or refused in the user's words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import planted
from planted.cli import app
from planted.outcomes import BadInputError
from planted.recovery import find_method


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Samples of a network without biases, which most printed methods take, and the network."""
    folder = tmp_path_factory.mktemp("options")
    truth = planted.TwoLayerNetwork(
        np.eye(3), None, np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 2.0], [1, 1, 1]])
    )
    data = planted.simulate.dataset(400, truth, random_state=1)
    np.save(folder / "rows.npy", np.hstack([data.X, data.Y]))
    planted.export_network(truth, folder / "rough.json")
    return folder


def run(table, *words):
    base = [
        "recover",
        str(table / "rows.npy"),
        "--targets",
        "3",
        "4",
        "5",
        "--hidden",
        "3",
        "--seed",
        "0",
        "--json",
    ]
    return CliRunner().invoke(app, [*base, *words])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--method", "symmetric-inputs", "--variant", "paper", "--noise", "none"], {"variant": "paper", "noise": "none"}),
        (["--method", "joint-diagonalisation", "--option", "max-starts=50", "--option", "ell=24"],
         {"max_starts": 50, "ell": 24}),
        (["--method", "complementarity", "--option", "offset=false"], {"offset": False}),
        (["--method", "small-network", "--effort", "quick"], {"effort": "quick"}),
        (["--method", "ica", "--option", "tau=0.01", "--variant", "trimmed"], {"tau": 0.01, "variant": "trimmed"}),
    ],
)  # fmt: skip
def test_options_reach_the_method(table, words, expected):
    result = run(table, *words)
    assert result.exit_code in (0, 1), result.output
    recorded = json.loads(result.stdout)["provenance"]["parameters"]
    assert {name: recorded[name] for name in expected} == expected


def test_a_saved_network_is_a_warm_start(table):
    result = run(table, "--method", "sign-patterns", "--warm-start", str(table / "rough.json"))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["provenance"]["parameters"]["warm_start"] == "given"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--variant", "paper"], "name it with --method"),
        (["--method", "ica", "--option", "colour=red"], "has no option colour"),
        (["--method", "ica", "--option", "variant"], "expected NAME=VALUE"),
        (["--method", "ica", "--option", "max_starts=many"], "expected int"),
        (["--method", "ica", "--variant", "trimmed", "--option", "variant=paper"], "given twice"),
        (["--method", "restarts", "--option", "sample_weight=1"], "cannot be given as text"),
        (["--effort", "heroic"], "expected one of 'quick'"),
    ],
)
def test_what_nobody_knows_is_refused(table, words, complaint):
    result = run(table, *words)
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())


def test_one_method_is_shown_with_all_its_options():
    shown = CliRunner().invoke(app, ["methods", "symmetric-inputs"])
    assert shown.exit_code == 0
    assert all(f"{name}=" in shown.stdout for name in find_method("symmetric-inputs").options)
    card = json.loads(CliRunner().invoke(app, ["methods", "hermite", "--json"]).stdout)["hermite"]
    assert set(card["options"]) == set(find_method("hermite").options)


@pytest.mark.parametrize("name", list(planted.methods()))
def test_every_default_can_be_typed(name):
    method = find_method(name)
    for option, value in method.defaults.items():
        if isinstance(value, str | int | float | bool):
            assert method.read_options({option: str(value)}) == {option: value}
        elif value is None and option not in ("warm_start", "sample_weight"):
            assert method.read_options({option: "none"}) == {option: None}


def test_texts_that_are_no_value_name_the_kinds():
    with pytest.raises(BadInputError, match="refined='maybe'; expected bool or None"):
        find_method("hermite").read_options({"refined": "maybe"})
