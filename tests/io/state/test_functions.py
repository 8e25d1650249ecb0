"""A resumed run sums the same functions of the rows: the same ones are known again, in another process too."""

import json
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from pathology.tries import tried
from planted import RowBlocks, checkpointed
from planted.io.state._functions import digest_of
from planted.moments import joint_moments
from planted.outcomes import BadInputError

ROWS = np.random.default_rng(1).standard_normal((200, 3))
FACTOR = 2.0


class Scale:
    """A function with something to remember."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, X, Y):
        return self.factor * X, Y

    def apply(self, X, Y):
        return X / self.factor, Y


def scaled(X, Y, *, by):
    return by * X, Y


def by_global(X, Y):
    return FACTOR * X, Y


def by_another(X, Y):
    return by_global(X, Y)


def of_kind(kind, value):
    """A function of some kind that computes with a number."""
    array, frame = np.full(2, value), pd.DataFrame({"a": [value] * 100})
    by_code = eval(f"lambda X, Y: ({value!r} * X, Y)")

    def outer(X, Y):
        def inner(part):
            return value * part if "a" in {"a", "b", "c"} else part

        return inner(X), Y

    def default(X, Y, by=value):
        return by * X, Y

    return {
        "code": by_code,
        "closure": lambda X, Y: (array * X, Y),
        "frame": lambda X, Y: (X * frame["a"].iloc[50], Y),
        "nested": outer,
        "default": default,
        "partial": partial(scaled, by=value),
        "object": Scale(value),
        "method": Scale(value).apply,
    }[kind]


KINDS = ["code", "closure", "frame", "nested", "default", "partial", "object", "method"]


def summed(folder, function, *, resume):
    rows = RowBlocks.from_arrays(ROWS[:, :2], ROWS[:, 2:], block_rows=10)
    return joint_moments(checkpointed(rows, folder, resume=resume).map(function))


@pytest.mark.parametrize("kind", KINDS)
def test_another_function_is_refused_and_the_same_one_is_not(tmp_path, kind):
    draw = np.random.default_rng(len(kind))
    value = float(draw.uniform(0.5, 2.0))
    first = summed(tmp_path, of_kind(kind, value), resume=False)
    again = summed(tmp_path, of_kind(kind, value), resume=True)
    np.testing.assert_array_equal(again.scatter, first.scatter)
    for other in (np.nextafter(value, 9.0), float(draw.uniform(2.0, 3.0))):
        tried()
        with pytest.raises(BadInputError, match="its pass 1 summed something else"):
            summed(tmp_path, of_kind(kind, float(other)), resume=True)
    rows = RowBlocks.from_arrays(ROWS[:, :2], ROWS[:, 2:], block_rows=10)
    with pytest.raises(BadInputError, match="its pass 1 summed something else"):
        joint_moments(checkpointed(rows, tmp_path, resume=True))


def test_all_kinds_differ():
    assert len({digest_of(of_kind(kind, value)) for kind in KINDS for value in (1.0, 2.0)}) == 2 * len(KINDS)


@pytest.mark.parametrize("function", [by_global, by_another])
def test_globals_of_its_module_count(monkeypatch, function):
    before = digest_of(function)
    assert digest_of(function) == before
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert digest_of(function) != before


def test_weights_that_are_put_beside_the_rows_later_count(tmp_path):
    rows = RowBlocks(lambda: iter([(ROWS[:, :2], ROWS[:, 2:])]))
    draw = np.random.default_rng(4)
    weights = draw.uniform(0.5, 1.5, len(ROWS))
    joint_moments(checkpointed(rows, tmp_path).weighted(weights))
    joint_moments(checkpointed(rows, tmp_path, resume=True).weighted(weights))
    weights[int(draw.integers(len(ROWS)))] *= 1 + 1e-15
    with pytest.raises(BadInputError, match="its pass 1 summed something else"):
        joint_moments(checkpointed(rows, tmp_path, resume=True).weighted(weights))


def test_another_process_finds_the_same_hashes():
    code = (
        "import json; from io_state_functions import *; "
        "print(json.dumps([digest_of(of_kind(kind, 1.25)) for kind in KINDS]))"
    )
    loader = f"import sys, importlib.util as u; s = u.spec_from_file_location('io_state_functions', {__file__!r}); " \
        "m = u.module_from_spec(s); sys.modules['io_state_functions'] = m; s.loader.exec_module(m); "  # fmt: skip
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", loader + code],
                env={
                    **os.environ,
                    "PYTHONHASHSEED": seed,
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
                capture_output=True,
                check=True,
            ).stdout
        )
        for seed in ("1", "2")
    ]
    assert found[0] == found[1] and len(set(found[0])) == len(KINDS)
