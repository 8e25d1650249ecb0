"""Hard instances: reading formulas, the reduction, the pair and the spurious minimum."""

import itertools

import numpy as np
import pytest

from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError
from planted.simulate import Formula, hard_instance, inputs, read_dimacs

TEXT = "c comment\np cnf 3 2\n1 -2\n3 0\n-1 2 0\n"


def test_dimacs_clauses_may_run_over_lines():
    assert read_dimacs(TEXT) == Formula(3, ((1, -2, 3), (-1, 2)))
    assert read_dimacs(TEXT + "%\n0\n") == read_dimacs(TEXT), "the ending of some collections"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no header"),
        ("1 2 0\np cnf 2 1\n", "line 1: literals before the header"),
        ("p cnf 2\n1 2 0\n", "line 1: expected a single header"),
        ("p cnf 2 1\np cnf 2 1\n1 2 0\n", "line 2: expected a single header"),
        ("p sat 2 1\n1 2 0\n", "expected a single header"),
        ("p cnf 2 1\n1 x 0\n", "line 2: '1 x 0' is not a list of whole numbers"),
        ("p cnf 2 1\n1 2\n", "is not ended by 0: the file is cut off"),
        ("p cnf 2 3\n1 2 0\n", "1 clauses were read, but the header announces 3"),
        ("p cnf 2 1\n1 5 0\n", "literal 5; expected 1 to 2"),
        ("p cnf 2 1\n0\n", "clause 0 is empty"),
    ],
)
def test_broken_dimacs_is_refused_with_the_line(text, message):
    with pytest.raises(FileFormatError, match=message):
        read_dimacs(text)


def test_satisfied_and_not_all_equal_are_different_questions():
    formula = Formula(2, ((1, 2), (1, -2)))
    assert formula.is_satisfied((True, False), not_all_equal=False)
    assert formula.find_assignment() is None, "u1 differs from u2 and from its negation"
    assert Formula(2, ((1, 2),)).find_assignment() == (True, False)
    assert Formula(1, ((1,),)).find_assignment() is None, "a single literal cannot have both values"


def test_too_many_variables_for_brute_force_are_refused():
    with pytest.raises(BadInputError, match="40 variables are too many"):
        Formula(40, ((1, 2),)).find_assignment()


@pytest.mark.parametrize("free_outputs", [False, True])
def test_an_assignment_fits_exactly_if_it_is_a_solution(free_outputs):
    formula = Formula(4, ((1, -2, 3), (2, 3, 4), (-1, -3, 4), (1, 2, -4)))
    instance = hard_instance("sat", formula, free_outputs=free_outputs)
    rows, d = instance.X.shape
    assert (rows, d) == ((19, 7) if free_outputs else (17, 6))
    verdicts = []
    for assignment in itertools.product((True, False), repeat=4):
        network = instance.network_of(assignment)
        is_solution = formula.is_satisfied(assignment)
        assert (instance.check(network) == assignment) == is_solution
        residual = np.abs(network(instance.X) - instance.Y).max()
        assert residual == 0.0 if is_solution else residual >= 0.5
        verdicts.append(is_solution)
    assert 0 < sum(verdicts) < 16


def test_scaled_units_are_read_too_and_other_networks_are_refused():
    instance = hard_instance("sat", "p cnf 2 1\n1 2 0\n")
    network = instance.network_of((True, False))
    scaled = TwoLayerNetwork(network.W * [[2.0], [4.0]], None, [[0.5, 0.25]])
    assert instance.check(scaled) == (True, False)
    with pytest.raises(BadInputError, match="expected two units without biases"):
        instance.check(TwoLayerNetwork(network.W, [1.0, 0.0], [[1.0, 1.0]]))
    with pytest.raises(BadInputError, match="the assignment has shape"):
        instance.network_of((True, False, True))


def test_unknown_kinds_and_arguments_are_refused():
    with pytest.raises(BadInputError, match="unknown kind 'tsp'"):
        hard_instance("tsp")
    with pytest.raises(BadInputTypeError, match="expected a Formula or DIMACS text; got list"):
        hard_instance("sat", [[1, 2]])
    with pytest.raises(BadInputError, match="free_outputs belongs to 'sat'"):
        hard_instance("ill-conditioned", 0.1, free_outputs=True)
    with pytest.raises(BadInputError, match=r"a=0\.7; expected"):
        hard_instance("ill-conditioned", 0.7)


@pytest.mark.parametrize("a", [0.5, 0.1, 1e-3])
def test_the_pair_agrees_outside_a_narrow_wedge(a):
    pair = hard_instance("ill-conditioned", a)
    assert np.linalg.cond(pair.first.W) == pytest.approx(1 / a)
    assert np.linalg.cond(pair.second.W) == pytest.approx(1 / (2 * a))
    X = inputs(4000, 2, random_state=1)
    wedge = np.abs(X[:, 0]) < 2 * a * np.abs(X[:, 1])
    differs = pair.distinguishing(X)
    np.testing.assert_array_equal(differs, wedge)
    np.testing.assert_allclose(pair.first(X[~wedge]), pair.second(X[~wedge]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("delta", [0.1, 1.0])
def test_the_spurious_minimum_has_value_one_and_no_way_down(delta):
    point = hard_instance("spurious-minimum", delta)
    np.testing.assert_array_equal(point.weights, [1.0, 2 + delta, 2 + delta, 2 + delta])
    assert point.objective(point.rows) == pytest.approx(1.0)
    assert point.objective(np.eye(4)[[2, 0, 3, 1]]) == 0.0, "the global minimum"
    rng = np.random.default_rng(0)
    for size in (1e-2, 1e-3):
        values = [point.objective(point.rows + size * rng.standard_normal((4, 4))) for _ in range(500)]
        assert min(values) > 1.0 - 1e-12


def test_without_the_large_weights_the_point_is_no_minimum():
    point = hard_instance("spurious-minimum", 1.0)
    equal = type(point)(np.ones(4), point.rows)
    rng = np.random.default_rng(0)
    assert min(equal.objective(point.rows + 1e-2 * rng.standard_normal((4, 4))) for _ in range(500)) < 1.0
