"""Exports at the edges of the numbers: huge, tiny, infinite and NaN inputs give the same class of answer as the network.

Left out are sums with terms of both signs whose partial sums overflow: there the answer depends on the order of the terms,
as the docstring of `planted.io.networks._exports` says. The tests count what is left.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted import TwoLayerNetwork, export_network
from planted.identification import as_oracle
from planted.networks import parse_activation
from planted.outcomes import BadInputError

ACTIVATIONS = [
    "relu",
    "leaky-relu:0.1",
    "leaky-relu:-3.0",
    "leaky-relu:0.0",
    "absolute",
    "quadratic",
    "power:2",
    "power:7",
]
COMPILER = shutil.which("gcc") or shutil.which("cc")
N_ROWS = 3000
SMALLEST_SHARE = 0.4  # of rows that are compared; the draws below leave more
EDGES = {
    "float64": [1e308, 1.7e308, 1e200, 1e154, 1e-154, 1e-300, 2.3e-308, 1e-310, 5e-324],
    "float32": [1e38, 3.4e38, 1e25, 1e19, 1e-19, 1e-37, 1.2e-38, 1e-40, 1.5e-45],
}


def draw(seed: int, activation: str, precision: str) -> tuple[TwoLayerNetwork, np.ndarray]:
    """Draw a network and rows in which edge values and usual ones are mixed."""
    rng = np.random.default_rng([seed, ACTIVATIONS.index(activation)])
    d, k, m = (int(size) for size in rng.integers(1, 4, 3))
    arrays = [
        rng.standard_normal(shape) * rng.choice([1.0, 0.0, 30.0], shape, p=[0.5, 0.05, 0.45])
        for shape in ((k, d), k, (m, k), m)
    ]
    W, b, A, c = (array.astype(precision) for array in arrays)
    net = TwoLayerNetwork(W, b, A, c, activation)
    pool = np.array([*EDGES[precision], np.inf, np.nan, 0.0, 1.0, 3.7])
    chances = np.array([1.0] * len(EDGES[precision]) + [1.0, 0.3, 1.0, 2.0, 2.0])
    rows = rng.choice(pool, (N_ROWS, d), p=chances / chances.sum()) * rng.choice([-1.0, 1.0], (N_ROWS, d))
    return net, rows.astype(precision)


def evaluate(net: TwoLayerNetwork, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evaluate in the precision of the rows; return answers, what rounding may change, and which rows have one answer."""
    kind = rows.dtype.type
    W, b, A, c = (getattr(net, name).astype(kind) for name in "WbAc")
    t, t_scale, is_certain = add_up(rows, W, b)
    right, left = kind(net.activation.right), kind(net.activation.left)
    p = net.activation.degree
    h = np.maximum(t, kind(0)) ** p if left == 0 else np.where(t > 0, right, left) * np.abs(t) ** p
    y, _, is_certain_too = add_up(h, A, c)
    h_scale = p * max(1.0, abs(float(left))) * t_scale**p
    tiny = np.finfo(kind).smallest_subnormal
    scale = (h_scale + 100 * tiny) @ np.abs(A).astype(float).T + np.abs(c) + 100 * tiny
    return y, np.asarray(scale), np.asarray(is_certain.all(axis=1) & is_certain_too.all(axis=1))


def add_up(
    rows: np.ndarray, weights: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``rows @ weights.T + bias``, the sums of magnitudes, and where no order of the terms changes the class.

    The sums of the positive and of the negative terms are formed at a smaller scale, where none of them overflows.
    """
    kind = rows.dtype.type
    shrink = 2.0**-300 if kind is np.float64 else 2.0**-30
    bias_terms = np.broadcast_to(bias[None, :, None], (len(rows), len(bias), 1))
    exact = np.concatenate(
        [(rows.astype(float) * shrink)[:, None, :] * weights[None], bias_terms * shrink], axis=2
    )
    above, below = (np.where(side, np.abs(exact), 0).sum(axis=2) for side in (exact > 0, exact < 0))
    limit = float(np.finfo(kind).max) * shrink
    is_certain = np.isnan(exact).any(axis=2) | (np.isinf(above) & np.isinf(below))
    is_certain |= np.maximum(above, below) < 0.99 * limit
    is_certain |= (np.minimum(above, below) < 0.99 * limit) & (np.abs(above - below) > 1.01 * limit)
    terms = np.concatenate([rows[:, None, :] * weights[None], bias_terms], axis=2)
    return rows @ weights.T + bias, np.abs(terms.astype(float)).sum(axis=2), is_certain


def assert_same_class(answers: np.ndarray, net: TwoLayerNetwork, rows: np.ndarray) -> None:
    """Compare answers with the network, where there is one answer."""
    with np.errstate(all="ignore"):
        expected, scale, is_certain = evaluate(net, rows)
        if rows.dtype == np.float64:
            np.testing.assert_array_equal(expected, net(rows))
        assert is_certain.mean() > SMALLEST_SHARE
        expected, answers, scale = expected[is_certain], answers[is_certain], scale[is_certain]
        is_close = np.abs(answers - expected) <= 200 * np.finfo(rows.dtype).eps * scale
    is_equal = (
        (answers == expected) | (np.isnan(answers) & np.isnan(expected)) | (np.isfinite(expected) & is_close)
    )
    wrong = np.argwhere(~is_equal)
    first = wrong[0, 0] if len(wrong) else 0
    text = f"first for {rows[is_certain][first]}: {answers[first]}, expected {expected[first]}, scale {scale[first]}"
    assert len(wrong) == 0, f"{len(wrong)} differ, {text}"


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_draws_meet_every_class(activation: str, precision: str) -> None:
    with np.errstate(all="ignore"):
        found = [evaluate(*draw(seed, activation, precision)) for seed in range(3)]
    answers = [y[is_certain].ravel() for y, _, is_certain in found]
    for has in (np.isnan, np.isinf, np.isfinite):
        assert has(np.concatenate(answers)).sum() > 100


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_numpy_code_gives_the_same_bits(activation: str, seed: int, tmp_path: Path) -> None:
    net, rows = draw(seed, activation, "float64")
    export_network(net, tmp_path / "net.py")
    room: dict[str, Any] = {}
    exec(compile((tmp_path / "net.py").read_text(), "net.py", "exec"), room)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(room["network"](rows), net(rows))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_onnx_gives_the_same_class_of_answer(
    activation: str, precision: str, seed: int, tmp_path: Path
) -> None:
    net, rows = draw(seed, activation, precision)
    export_network(net, tmp_path / "net.onnx", precision=precision)
    with np.errstate(all="ignore"):
        answers = as_oracle(str(tmp_path / "net.onnx")).call(rows.astype(float))
    assert_same_class(answers, net, rows)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_c_gives_the_same_class_of_answer(activation: str, precision: str, seed: int, tmp_path: Path) -> None:
    net, rows = draw(seed, activation, precision)
    export_network(net, tmp_path / "net.h", precision=precision)
    real = "double" if precision == "float64" else "float"
    (tmp_path / "main.c").write_text(
        f'#include <stdio.h>\n#include "net.h"\nint main(void) {{\n  {real} x[NET_INPUTS], y[NET_OUTPUTS];\n'
        "  while (fread(x, sizeof x, 1, stdin) == 1) {\n    net_eval(x, y);\n    fwrite(y, sizeof y, 1, stdout);\n  }\n"
        "  return 0;\n}\n"
    )
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]
    subprocess.run(
        [str(COMPILER), *flags, str(tmp_path / "main.c"), "-o", str(tmp_path / "main")], check=True
    )
    done = subprocess.run([str(tmp_path / "main")], input=rows.tobytes(), capture_output=True, check=True)
    answers = np.frombuffer(done.stdout, dtype=precision).reshape(N_ROWS, net.n_outputs)
    assert_same_class(answers, net, rows)


@pytest.mark.parametrize("name", ["relu", "power:2", "power:100"])
def test_a_rectified_unit_is_zero_far_below(name: str) -> None:
    with np.errstate(over="ignore"):
        values = parse_activation(name)(np.array([-np.inf, -1e308, -1e200, 0.0, np.nan, np.inf]))
    np.testing.assert_array_equal(values, [0.0, 0.0, 0.0, 0.0, np.nan, np.inf])


@pytest.mark.parametrize("suffix", [".onnx", ".safetensors", ".h"])
@pytest.mark.parametrize("place", ["W", "b", "A", "c", "slope"])
@pytest.mark.parametrize("size", [3.5e38, -1e100, 1.7e308])
def test_what_single_precision_cannot_hold_is_refused_before_the_file_is_touched(
    suffix: str, place: str, size: float, tmp_path: Path
) -> None:
    arrays: dict[str, Any] = {"W": np.ones((2, 2)), "b": np.ones(2), "A": np.ones((1, 2)), "c": np.ones(1)}
    if place != "slope":
        arrays[place].flat[-1] = size
    activation = f"leaky-relu:{size}" if place == "slope" else "relu"
    path = tmp_path / f"net{suffix}"
    path.write_bytes(b"the file that was there")
    with pytest.raises(BadInputError, match=rf"{place} holds .*, but float32 ends at 3\.4e\+38"):
        export_network(TwoLayerNetwork(**arrays, activation=activation), path, precision="float32")
    assert path.read_bytes() == b"the file that was there"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    export_network(TwoLayerNetwork(**arrays), tmp_path / "net.onnx", precision="float64")


def test_a_difference_that_cannot_be_measured_is_infinite(tmp_path: Path) -> None:
    net = TwoLayerNetwork([[1e38]], A=[[1e38]], activation="power:8")
    assert export_network(net, tmp_path / "net.onnx", precision="float32").largest_difference == np.inf


@pytest.mark.parametrize(
    "name", ["relu", "leaky-relu:0.1", "absolute", "quadratic", "power:2", "power:3", "power:100"]
)
def test_derivatives_are_numbers_wherever_the_activation_is_one(name):
    """A slope that overflows is infinite on the side that rises and zero on the side that is cut off, never NaN."""
    from planted.networks import parse_activation

    sizes = 10.0 ** np.random.default_rng(1).uniform(-320, 308, 200)
    t = np.concatenate([sizes, -sizes, [0.0, np.inf, -np.inf]])
    with np.errstate(over="ignore", under="ignore"):
        slopes = parse_activation(name).derivative(t)
    assert not np.isnan(slopes).any()
    if name.startswith(("power", "relu")):
        assert (slopes[t <= 0] == 0).all() and (slopes[t > 1] > 0).all()
