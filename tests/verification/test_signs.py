"""Branch and bound on signs with linear programs: exact on boxes that are cut, and sound whatever HiGHS answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize

from planted.verification import Plain, as_input_set, bracket
from planted.verification._search import Found, InputSet
from planted.verification._signs import SignSearch
from planted.verification._stages import matched_stages, single_stages
from verification.test_bracket import near, random_plain, scrambled


def solved(f: Plain, g: Plain | None, inputs: InputSet) -> tuple[float, float]:
    """What the search finds and proves for the largest value, run to its end."""
    m = f.widths[-1]
    stages = single_stages(f) if g is None else matched_stages(f, g)
    found = Found(
        np.full(2 * m, -np.inf),
        np.tile(inputs.low, (2 * m, 1)),
        lambda X: f(X) if g is None else f(X) - g(X),
    )
    search = SignSearch(stages, inputs, found)
    search.start(-np.inf)
    for _ in range(200):
        top = float(found.values.max())
        if not search.step(top + 1e-9 * abs(top)):
            break
    return float(found.values.max()), float(search.bounds().max())


def corner_maximum(f: Plain, g: Plain, inputs: InputSet) -> float:
    """The largest difference of two-layer networks of two inputs: attained where two lines of the arrangement cross."""
    rows = [np.column_stack(net.layers[0]) for net in (f, g)]
    ends = [[1, 0, -end] for end in (inputs.low[0], inputs.high[0])]
    ends += [[0, 1, -end] for end in (inputs.low[1], inputs.high[1])]
    lines = np.vstack([*rows, ends, np.column_stack([inputs.G, -inputs.g])])
    points = []
    for one, other in itertools.combinations(lines, 2):
        pair = np.array([one, other])
        if abs(np.linalg.det(pair[:, :2])) > 1e-12:
            points.append(np.linalg.solve(pair[:, :2], -pair[:, 2]))
    X = np.array(points)
    inside = ((inputs.low - 1e-9 <= X) & (inputs.high + 1e-9 >= X)).all(axis=1)
    X = X[inside & (inputs.g + 1e-9 >= X @ inputs.G.T).all(axis=1)]
    return float(np.abs(f(X) - g(X)).max())


@pytest.mark.parametrize(("seed", "slope"), [(0, 0.0), (1, 0.1), (2, -1.0), (3, 0.0)])
def test_the_maximum_on_a_box_that_is_cut(seed: int, slope: float) -> None:
    rng = np.random.default_rng([31, seed])
    f = random_plain(rng, (2, 4, 1), slope)
    g = near(f, rng, 10.0 ** -(2 * seed))
    G = rng.standard_normal((2, 2))
    inputs = as_input_set((-1, 1, G, G @ rng.uniform(-0.5, 0.5, 2) + 0.1), 2)
    largest = corner_maximum(f, g, inputs)
    assert solved(f, g, inputs) == pytest.approx((largest, largest), rel=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_deep_networks_on_a_box_that_is_cut(seed: int) -> None:
    rng = np.random.default_rng([32, seed])
    f = random_plain(rng, (3, 4, 4, 1), 0.0)
    G = rng.standard_normal((2, 3))
    inputs = as_input_set((-1, 1, G, G @ rng.uniform(-0.5, 0.5, 3) + 0.1), 3)
    found, proved = solved(f, None, inputs)
    X = rng.uniform(-1, 1, (20_000, 3))
    assert np.abs(f(X[inputs.contains(X)])).max() <= proved
    assert found == pytest.approx(proved, rel=1e-6)


def test_multipliers_of_a_careless_solver_still_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the solver answers, the number is a bound: here its multipliers are all wrong."""
    honest = optimize.linprog

    def careless(*parts: object, **options: object) -> object:
        answer = honest(*parts, **options)
        if answer.status == 0:
            answer.ineqlin.marginals = answer.ineqlin.marginals * 0.3 - 0.01
            answer.eqlin.marginals = answer.eqlin.marginals + 0.1
        return answer

    rng = np.random.default_rng(33)
    f = random_plain(rng, (3, 4, 3, 1), 0.0)
    inputs = as_input_set((-1, 1, np.ones((1, 3)), np.ones(1)), 3)
    X = rng.uniform(-1, 1, (20_000, 3))
    largest = np.abs(f(X[inputs.contains(X)])).max()
    monkeypatch.setattr(optimize, "linprog", careless)
    assert solved(f, None, inputs)[1] >= largest


def test_a_changed_weight_that_no_input_feels() -> None:
    """A unit is off on the whole box: a copy with another weight behind it is proved equal."""
    rng = np.random.default_rng(34)
    f = random_plain(rng, (3, 6, 6, 1), 0.0)
    f.layers[0][1][2] = -20.0
    g = scrambled(f, rng, is_exact=False)
    changed = int(np.argmin(g.layers[0][1]))
    g.layers[1][0][:, changed] += 1e-3
    known = bracket(f, g, as_input_set((0, 1), 3), tol=1e-9, rng=rng)
    assert known.largest_proved <= 1e-9
    W, b = g.layers[2]
    shifted = Plain((*g.layers[:2], (W, b + 1e-3)), g.slopes)
    assert bracket(f, shifted, as_input_set((0, 1), 3), tol=1e-9, rng=rng).largest_found > 1e-9
