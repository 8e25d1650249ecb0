"""The cost model: what it says follows its formula, the page quotes it, and what does not fit is refused with the number."""

import re
from pathlib import Path

import numpy as np
import pytest

import planted
from planted.front import predict_cost
from planted.front._cost import FLOP_RATE, READ_RATE
from planted.outcomes import BadInputError

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")


def test_seconds_follow_the_formula_and_scale_with_rows_and_workers():
    cost = predict_cost(1e6, 3, 2, n_outputs=4, passes=5)
    operations = 8**2 + 2 * 8 * (2 + 1 + 4)
    assert cost.seconds == pytest.approx(5 * 1e6 * (operations / FLOP_RATE + 8 * 7 / READ_RATE))
    assert predict_cost(4e6, 3, 2, n_outputs=4, passes=5, workers=4).seconds == pytest.approx(cost.seconds)


def test_bytes_grow_with_the_height_of_the_tree_only():
    small, large = (predict_cost(n, 32, 16, n_outputs=16).n_bytes for n in (1e6, 1e12))
    assert small < large < 1.3 * small


def test_the_page_quotes_the_model():
    rows = re.findall(r"^\| (1e\d+) \| (\d+) \| (about .*) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 5
    for n, workers, text in rows:
        assert str(predict_cost(float(n), 32, 16, n_outputs=16, workers=int(workers))) == text


def test_diagnose_predicts():
    data = planted.simulate.dataset(
        200, n_features=3, n_hidden=2, n_outputs=3, law="exponential", activity=(0.3, 0.7), random_state=0
    )
    diagnosis = planted.diagnose(data.X, data.Y, n_hidden=2, random_state=0)
    assert diagnosis.cost == predict_cost(200, 3, 2, n_outputs=3)
    assert f"predicted: {diagnosis.cost}" in str(diagnosis)
    assert diagnosis.to_dict()["cost"]["bytes"] == diagnosis.cost.n_bytes


def test_sums_that_do_not_fit_are_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr("planted.front._cost.available_memory", lambda: 10**9)
    reads = []

    def rows():
        reads.append(1)
        yield np.zeros((1, 300)), np.zeros((1, 2))

    with pytest.raises(
        BadInputError, match=r"100 units of 300 inputs need \d+\.\d GB, but 1\.0 GB.*fewer inputs"
    ):
        planted.recover(planted.RowBlocks(rows), n_hidden=100)
    assert len(reads) == 1  # the first block tells the widths
