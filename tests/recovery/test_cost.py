"""The cost model: what it says follows its formula, the page quotes it, and what does not fit is refused with the number."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import planted
from planted.outcomes import BadInputError
from planted.recovery import predict_cost
from planted.recovery._registry import FEATURE_SECONDS, FLOP_RATE, READ_RATE, START_SECONDS, core_pace

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
STORED = json.loads((ROOT / "benchmarks" / "results" / "scale.json").read_text(encoding="utf-8"))
LIBRARY_BYTES = 190e6  # Python with planted, SciPy and Arrow


def test_seconds_follow_the_formula_and_scale_with_rows_and_workers():
    cost = predict_cost(1e6, 3, 2, n_outputs=4, is_noisy=False)
    step = (8**2 + 2 * 8 * (2 + 1 + 4)) / FLOP_RATE + 8 * FEATURE_SECONDS
    expected = 1e6 * (5 * 8 * 7 / READ_RATE + 2 * step) + 10 * 20_000 * step + START_SECONDS
    assert cost.seconds == pytest.approx(expected)
    more = predict_cost(4e6, 3, 2, n_outputs=4, is_noisy=False, workers=4)
    assert more.seconds == pytest.approx(cost.seconds)


def test_the_prediction_is_within_a_factor_two_of_what_was_measured():
    """Stored by `benchmarks/scale.py`: whole recoveries of 300,000 and of ten million rows, and the rates."""
    parts = {part["section"]: part["rows"] for part in STORED["rows"]}
    assert len(parts["cost"]) == 4
    for row in parts["cost"]:
        predicted = predict_cost(row["rows"], 32, row["k"], n_outputs=16, is_noisy=row["noise"] > 0)
        assert 0.5 < predicted.seconds / row["cpu_seconds"] < 2
    (row,) = parts["file"]
    predicted = predict_cost(row["rows"], 32, 4, n_outputs=16, is_noisy=False)
    assert predicted.passes == row["passes"]
    assert 0.5 < predicted.seconds / row["cpu_seconds"] < 2
    assert 0.5 < (predicted.n_bytes + LIBRARY_BYTES) / row["peak_bytes"] < 2
    constants = parts["products"][-1], parts["processes"][-1]
    assert pytest.approx(constants[0]["flop_rate"], rel=0.25) == FLOP_RATE
    assert pytest.approx(constants[0]["feature_seconds"], rel=0.5) == FEATURE_SECONDS
    assert pytest.approx(constants[1]["read_rate"], rel=0.25) == READ_RATE


def test_predictions_for_rows_in_memory_are_within_a_factor_two_of_what_was_measured():
    """Stored by `benchmarks/speed.py`, section cost, whose predictions are those of today's model."""
    stored = json.loads((ROOT / "benchmarks" / "results" / "speed.json").read_text(encoding="utf-8"))
    (part,) = (part for part in stored["rows"] if part["section"] == "cost")
    predicted_rows = [row for row in part["rows"] if row["predicted"] is not None]
    assert len(predicted_rows) >= 10
    for row in predicted_rows:
        d, k, m, n = row["shape"]
        predicted = predict_cost(n, d, k, n_outputs=m, is_noisy=row["noise"] > 0, in_process=True).seconds
        assert predicted / core_pace() * row["pace"] == pytest.approx(row["predicted"])
        assert 0.5 < row["predicted"] / row["seconds"] < 2


def test_bytes_grow_with_the_height_of_the_tree_only():
    small, large = (predict_cost(n, 32, 16, n_outputs=16).n_bytes for n in (1e6, 1e12))
    assert small < large < 1.3 * small


def test_the_page_quotes_the_model():
    rows = re.findall(r"^\| (1e\d+) \| (\d+) \| (about .*) \| (about .*) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 6
    for n, workers, noiseless, noisy in rows:
        for text, is_noisy in ((noiseless, False), (noisy, True)):
            cost = predict_cost(float(n), 32, 16, n_outputs=16, workers=int(workers), is_noisy=is_noisy)
            assert text == str(cost).partition(" on ")[0]


def test_the_page_quotes_the_measurements():
    """Each line of the table of measurements: rows, units, noise, predicted and measured seconds, as they are stored."""
    parts = {part["section"]: part["rows"] for part in STORED["rows"]}
    stored = [{**parts["file"][0], "k": 4, "noise": 0.0}, *parts["cost"]]
    lines = re.findall(
        r"^\| ([\d,]+) \| (\d+) \| ([\d.]+) \| (\d+) s \| (\d+) s \|$", PAGE, flags=re.MULTILINE
    )
    assert len(lines) == len(stored)
    for line, row in zip(lines, stored, strict=True):
        predicted = predict_cost(row["rows"], 32, row["k"], n_outputs=16, is_noisy=row["noise"] > 0).seconds
        expected = (
            f"{row['rows']:,}",
            str(row["k"]),
            f"{row['noise']:g}",
            f"{predicted:.0f}",
            f"{row['cpu_seconds']:.0f}",
        )
        assert line == expected


def test_diagnose_predicts():
    data = planted.simulate.dataset(
        200, n_features=3, n_hidden=2, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=0
    )
    diagnosis = planted.diagnose(data.X, data.Y, n_hidden=2, random_state=0)
    assert diagnosis.cost == predict_cost(200, 3, 2, n_outputs=3, is_noisy=False, in_process=True)
    noise = np.random.default_rng(1).standard_normal(data.Y.shape)
    noisy = planted.diagnose(data.X, data.Y + 0.1 * noise, n_hidden=2, random_state=0)
    assert noisy.cost == predict_cost(200, 3, 2, n_outputs=3, in_process=True)
    assert f"predicted: {diagnosis.cost}" in str(diagnosis)
    assert diagnosis.to_dict()["cost"]["bytes"] == diagnosis.cost.n_bytes


def test_nothing_is_predicted_where_only_searches_apply():
    """With one output and no bound on the units the time depends on what the search meets."""
    rng = np.random.default_rng(2)
    diagnosis = planted.diagnose(rng.standard_normal((300, 4)), rng.standard_normal(300), random_state=0)
    assert not next(check for check in diagnosis.methods if check.method == "complementarity").applies
    assert diagnosis.cost is None and diagnosis.to_dict()["cost"] is None
    assert "predicted: none" in str(diagnosis)


@pytest.mark.parametrize(
    ("k", "m", "noise"), [(4, 2, 0.1), (3, 3, 0.1), (3, 3, 0.0), (2, 3, 0.1), (2, 3, 0.0)]
)
def test_nothing_is_predicted_where_complementarity_may_not_be_the_last(k: int, m: int, noise: float) -> None:
    """As many directions of the outputs as outputs: there may be more units, and noise cannot be told from its absence."""
    data = planted.simulate.dataset(
        600, n_features=4, n_hidden=k, n_outputs=m, activity=(0.4, 0.6), noise=noise, random_state=k + m
    )
    diagnosis = planted.diagnose(data.X, data.Y, random_state=0)
    assert (diagnosis.cost is None) == (k >= m)
    if k < m:
        expected = predict_cost(600, 4, k, n_outputs=m, is_noisy=noise > 0, in_process=True)
        assert diagnosis.cost == expected


def test_sums_that_do_not_fit_are_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr("planted.recovery._registry.available_memory", lambda: 10**9)
    reads = []

    def rows():
        reads.append(1)
        yield np.zeros((1, 300)), np.zeros((1, 2))

    with pytest.raises(
        BadInputError, match=r"100 units of 300 inputs need \d+\.\d GB, but 1\.0 GB.*fewer inputs"
    ):
        planted.recover(planted.RowBlocks(rows), n_hidden=100)
    assert len(reads) == 1  # the first block tells the widths
