"""VNN-LIB properties: what is read, and verdicts against enumeration of all patterns of signs."""

from __future__ import annotations

import gzip
import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from typer.testing import CliRunner

import planted
from planted import DeepNetwork, TwoLayerNetwork
from planted.cli._main import app
from planted.outcomes import BadInputError
from planted.verification import as_plain, exact_outputs
from planted.verification.properties import read_vnnlib
from planted.verification.properties._joint import objective
from planted.verification.properties._vnnlib import Constraint


def declared(d: int, m: int) -> str:
    names = [f"X_{i}" for i in range(d)] + [f"Y_{j}" for j in range(m)]
    return "".join(f"(declare-const {name} Real)\n" for name in names)


def box(low: np.ndarray, high: np.ndarray, name: str = "X_{}") -> str:
    rows = zip(low, high, strict=True)
    return "".join(
        f"(assert (>= {name.format(i)} {a!r}))(assert (<= {name.format(i)} {b!r}))\n"
        for i, (a, b) in enumerate((float(a), float(b)) for a, b in rows)
    )


def linear(row: np.ndarray, constant: float, name: str = "Y_{}") -> str:
    terms = " ".join(f"(* {float(value)!r} {name.format(j)})" for j, value in enumerate(row))
    return f"(>= (+ {terms} {constant!r}) 0)"


def largest_margin(
    net: TwoLayerNetwork, low: np.ndarray, high: np.ndarray, C: np.ndarray, e: np.ndarray
) -> float:
    """max over the box of min_i (C y + e)_i: a linear program for every pattern of signs."""
    best, d = -np.inf, len(low)
    for pattern in itertools.product((1.0, -1.0), repeat=len(net.b)):
        signs = np.array(pattern)
        rate = np.where(signs > 0, 1.0, 0.0)
        J, c = (net.A * rate) @ net.W, (net.A * rate) @ net.b + net.c
        G = np.vstack(
            [
                np.column_stack([-signs[:, None] * net.W, 0 * signs]),
                np.column_stack([-C @ J, np.ones(len(e))]),
            ]
        )
        g = np.concatenate([signs * net.b, C @ c + e])
        limits = [*zip(low, high, strict=True), (None, None)]
        answer = linprog(np.append(np.zeros(d), -1.0), A_ub=G, b_ub=g, bounds=limits)
        if answer.status == 0:
            best = max(best, answer.x[-1])
    return float(best)


@pytest.mark.parametrize("seed", range(12))
def test_verdicts_agree_with_enumeration(seed: int) -> None:
    rng = np.random.default_rng([21, seed])
    d, k, m, n = (int(rng.integers(1, most)) for most in (4, 5, 4, 4))
    net = TwoLayerNetwork(
        rng.standard_normal((k, d)),
        rng.standard_normal(k),
        rng.standard_normal((m, k)),
        rng.standard_normal(m),
    )
    low = rng.uniform(-2, 0, d)
    high = low + rng.uniform(0.2, 3, d)
    C = rng.standard_normal((n, m)).round(2)
    e = np.zeros(n)
    e = e - largest_margin(net, low, high, C, e) + rng.choice([-0.05, 1e-4, 0.3, -0.3])
    margin = largest_margin(net, low, high, C, e)
    parts = " ".join(linear(row, float(value)) for row, value in zip(C, e, strict=True))
    text = declared(d, m) + box(low, high) + f"(assert (and {parts}))"
    answer = planted.verify(text, net, random_state=seed)
    assert answer.holds is bool(margin < 0)
    if not answer.holds:
        y = exact_outputs(as_plain(net), answer.witness[0])
        slack = [
            sum(Fraction(str(float(a))) * b for a, b in zip(row, y, strict=True))
            + Fraction(str(float(value)))
            for row, value in zip(C, e, strict=True)
        ]
        assert min(slack) >= 0
        assert (low <= answer.witness[0]).all() and (answer.witness[0] <= high).all()


def test_either_of_two_cases_refutes() -> None:
    net = TwoLayerNetwork([[1.0], [-1.0]], None, [[1.0, 1.0]])  # |x|
    text = declared(1, 1) + box(np.array([-1.0]), np.array([2.0]))
    assert planted.verify(text + "(assert (or (> Y_0 2.5) (< Y_0 -0.5)))", net, random_state=0).holds is True
    answer = planted.verify(text + "(assert (or (> Y_0 2.5) (> Y_0 1.9)))", net, random_state=0)
    assert answer.holds is False and answer.witness[0][0] > 1.9


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_minimum_is_a_network(count: int) -> None:
    rng = np.random.default_rng([22, count])
    net = as_plain(DeepNetwork([(rng.standard_normal((4, 2)), None), (rng.standard_normal((3, 4)), None)]))
    C = rng.integers(-3, 4, (count, 3))
    constraints = [
        Constraint(
            {**{(0, "Y", j): Fraction(int(-c)) for j, c in enumerate(row) if c}, "1": Fraction(-1, 2)}, False
        )
        for row in C
        if row.any()
    ]
    made = objective(constraints, net, {(0, "Y", j): j for j in range(3)})
    X = rng.standard_normal((50, 2))
    expected = (net(X) @ C[C.any(axis=1)].T + 0.5).min(axis=1)
    assert np.allclose(made(X)[:, 0], expected, atol=1e-12)


PAIR = """(vnnlib-version <2.0>)
(declare-network f (declare-input A real [1, 2]) (declare-output P real [1]))
(declare-network g ({relation} f) (declare-input B real [1, 2]) (declare-output Q real [1]))
(assert (and (>= A[0,0] 0.1) (<= A[0,0] 1) (>= A[0,1] -1) (<= A[0,1] 1) (== A[0,1] B[0,1])))
{rest}"""
ORDERED = "(assert (and (>= B[0,0] 0.1) (<= B[0,0] A[0,0])))(assert (P[0] < Q[0]))"
EQUAL = "(assert (== A[0,0] B[0,0]))(assert (or (> (- P[0] Q[0]) 0.25) (< P[0] (- Q[0] 0.25))))"


@pytest.mark.parametrize(("sign", "holds"), [(1.0, True), (-1.0, False)])
def test_an_output_that_never_falls(sign: float, holds: bool) -> None:
    rng = np.random.default_rng(23)
    W = np.column_stack([sign * np.abs(rng.standard_normal(6)), rng.standard_normal(6)])
    net = DeepNetwork([(W, rng.standard_normal(6)), (np.ones((3, 6)), None), (np.ones((1, 3)), None)])
    answer = planted.verify(
        PAIR.format(relation="equal-to", rest=ORDERED), net, random_state=0, budget_seconds=30
    )
    assert answer.holds is holds
    if not holds:
        (x, y), (p, q) = answer.witness, answer.outputs
        assert x[0] >= y[0] and x[1] == y[1] and p[0] < q[0]


@pytest.mark.parametrize(("shift", "holds"), [(0.2, True), (0.3, False)])
def test_two_networks_that_may_differ_by_a_quarter(shift: float, holds: bool) -> None:
    rng = np.random.default_rng(24)
    layers = [(rng.standard_normal((8, 2)), rng.standard_normal(8)), (rng.standard_normal((6, 8)), None)]
    layers.append((rng.standard_normal((1, 6)), np.zeros(1)))
    other = [*layers[:-1], (layers[-1][0], np.array([shift]))]
    text = PAIR.format(relation="isomorphic-to", rest=EQUAL)
    answer = planted.verify(text, DeepNetwork(layers), DeepNetwork(other), random_state=0)
    assert answer.holds is holds


def test_constraints_that_contradict_each_other_need_no_network() -> None:
    net = TwoLayerNetwork([[1.0, 0.0]], None, [[1.0]])
    text = PAIR.format(
        relation="isomorphic-to",
        rest="(assert (== A[0,0] B[0,0]))(assert (and (> P[0] (+ Q[0] 0.05)) (< P[0] (- Q[0] 0.05))))",
    )
    assert "contradict" in planted.verify(text, net, net).detail


def test_inputs_between_two_floating_point_numbers() -> None:
    """0.1 is not a floating-point number: the counterexample is one all the same."""
    net = TwoLayerNetwork([[1.0]], None, [[1.0]])
    text = declared(1, 1) + "(assert (= X_0 0.1))"
    assert planted.verify(text + "(assert (>= Y_0 0.05))", net, random_state=0).holds is False
    assert planted.verify(text + "(assert (>= Y_0 0.15))", net, random_state=0).holds is True


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("(declare-const X_0 Real)", "no outputs"),
        (declared(1, 1) + "(assert (<= X_0 1)", "not closed"),
        (declared(1, 1) + "(assert (<= X_0 (* Y_0 Y_0)))", "not linear"),
        (declared(1, 1) + "(assert (<= X_9 1))", "X_9"),
        (declared(1, 1) + "(assert (<= Y_0 1))", "no bounds"),
        (declared(1, 1) + "(assert (<= X_0 Y_0))", "mixes"),
        (declared(1, 1) + box(np.zeros(1), np.ones(1)), "no constraint on outputs"),
        (declared(2, 1) + box(np.zeros(2), np.ones(2)) + "(assert (<= Y_0 1))", "inputs"),
        (declared(1, 1) + "(minimise Y_0)", "not understood"),
        (declared(1, 1) + "(assert (and (>= X_0 0) (<= X_0 1) (<= Y_0 -1e400)))", "beyond"),
        (declared(1, 1) + "(assert (and (>= X_0 0) (<= X_0 1e400) (<= Y_0 -1)))", "beyond"),
        (declared(1, 1) + "(assert (<= Y_0 1e-1000000000))", "exponent"),
        (declared(1, 1) + "(assert " + 5000 * "(and " + "(<= Y_0 1)" + 5001 * ")", "in one another"),
        ("(declare-network f ())", "not understood"),
        ("(declare-network f (declare-input (a) real [2]))", "not understood"),
        ("", "no brackets"),
        ("; a comment\n; and another", "no brackets"),
    ],
)
def test_what_is_refused(text: str, word: str) -> None:
    with pytest.raises(BadInputError, match=word):
        planted.verify(text, TwoLayerNetwork([[1.0]], None, [[1.0]]))


@pytest.mark.parametrize("seed", range(8))
def test_constraints_that_are_met_with_equality(seed: int) -> None:
    """Outputs that do not depend on the input: strict and other constraints, in any order, decided by hand."""
    rng = np.random.default_rng([31, seed])
    values = rng.integers(-2, 3, 2).astype(float)
    net = TwoLayerNetwork(np.zeros((2, 1)), None, rng.standard_normal((2, 2)), values * (seed % 2))
    level = net([[0.5]])[0]
    names = {">=": np.greater_equal, ">": np.greater, "<=": np.less_equal, "<": np.less}
    for _ in range(6):
        chosen = [
            (str(rng.choice(list(names))), int(j), float(level[j] + rng.integers(-1, 2)))
            for j in rng.permutation(2)
        ]
        text = "".join(f"(assert ({name} Y_{j} {limit!r}))" for name, j, limit in chosen)
        found = planted.verify(
            declared(1, 2) + box(np.zeros(1), np.ones(1)) + text, net, budget_seconds=0.1, random_state=seed
        )
        is_refuted = all(names[name](level[j], limit) for name, j, limit in chosen)
        assert found.holds is False if is_refuted else found.holds is not False, text


def test_two_networks_that_are_said_to_be_equal_are() -> None:
    rising, falling = (TwoLayerNetwork([[1.0, 0.0]], None, [[sign]]) for sign in (1.0, -1.0))
    text = PAIR.format(relation="equal-to", rest=ORDERED)
    with pytest.raises(BadInputError, match="equals the first"):
        planted.verify(text, rising, falling)
    same = TwoLayerNetwork([[1.0, 0.0]], None, [[1.0]])
    assert planted.verify(text, rising, same, budget_seconds=0.5, random_state=0).holds is True


def test_arrays_are_numbered_row_by_row() -> None:
    found = read_vnnlib(PAIR.format(relation="equal-to", rest=ORDERED))
    assert found.is_same and found.sizes == [{"X": 2, "Y": 1}] * 2
    assert {key for c in found.cases[0] for key in c.terms} >= {(0, "X", 1), (1, "X", 0), (1, "Y", 0)}


def test_the_command_ends_with_the_code_of_the_answer(tmp_path: Path) -> None:
    net, text = tmp_path / "net.safetensors", declared(1, 1) + box(np.array([-1.0]), np.array([1.0]))
    TwoLayerNetwork([[1.0]], None, [[1.0]]).save(net)
    for limit, code in ((1.5, 0), (0.5, 1)):
        path = tmp_path / f"{code}.vnnlib.gz"
        path.write_bytes(gzip.compress((text + f"(assert (> Y_0 {limit}))").encode()))
        result = CliRunner().invoke(app, ["verify", str(path), str(net), "--json"])
        assert result.exit_code == code
        assert json.loads(result.stdout)["holds"] is (code == 0)
    assert "REFUTED" in CliRunner().invoke(app, ["verify", str(path), str(net)]).stdout
