"""Algorithms 1 and 2 of BJW18 against their linear programs as printed, and by hand numbers."""

import numpy as np
import pytest
from scipy import optimize

from planted.linalg import column_space
from planted.methods.sign_patterns._enumeration import enumerate_patterns
from planted.methods.sign_patterns.printed import algorithm_1, algorithm_2
from planted.simulate import dataset

# Five samples of two inputs; the unit w = (1, 0) is on for the first three.
X = np.array([[1.0, 2.0], [2.0, -1.0], [3.0, 0.5], [-1.0, 1.0], [-2.0, -3.0]])
H = np.array([[1.0], [2.0], [3.0], [0.0], [0.0]])
ON = np.array([True, True, True, False, False])


def world(n=14, d=3, k=2, seed=0):
    data = dataset(n, n_features=d, n_hidden=k, n_outputs=k, random_state=seed)
    return data.X, column_space(data.Y)[0], data.network.W


def iterative_lp(X, Q, pattern, earlier):
    """The box of Algorithm 1 with Remark 1, in the unknowns (w, z): a feasible w, or None.

    The proof of Lemma 3 drops the last constraint for i = 1; y = 0 would then be feasible for the empty pattern. With
    P = 0 the constraint reads f_S(y) ≠ 0.
    """
    d, k = X.shape[1], Q.shape[1]
    on = pattern.astype(float)[:, None]
    at_least_one = np.hstack([-X, np.zeros_like(Q)])[pattern], -np.ones(pattern.sum())
    not_positive = np.hstack([X, np.zeros_like(Q)])[~pattern], np.zeros((~pattern).sum())
    in_span = np.hstack([X * on, -Q]), np.zeros(len(X))
    F = np.array(earlier).reshape(-1, len(X))  # rows f(y^j)
    P = F.T @ np.linalg.inv(F @ F.T) @ F
    free = np.hstack([(np.eye(len(X)) - P) @ (X * on), np.zeros_like(Q)])
    for row in [sign * row for row in free for sign in (1.0, -1.0)]:
        G = np.vstack([at_least_one[0], not_positive[0], -row])
        g = np.concatenate([at_least_one[1], not_positive[1], [-1.0]])
        answer = optimize.linprog(
            np.zeros(d + k), G, g, *in_span, bounds=(None, None), method="highs", options={"presolve": False}
        )
        if answer.status == 0:
            return answer.x[:d]
    return None


def test_the_unit_of_its_own_pattern():
    w, is_unique = algorithm_1(X, H, ON)
    assert is_unique
    np.testing.assert_allclose(w, [1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_sign_of_the_basis_does_not_matter(sign):
    """The null space has either sign; only one of them has the signs of the pattern."""
    np.testing.assert_allclose(algorithm_1(X, sign * H, ON)[0], [1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    "pattern",
    [
        [True, True, False, False, False],  # Q z = 0 on the third sample leaves no z
        [True, True, True, True, False],  # X w = Q z on four samples, but w'x < 0 on the fourth
        [False, False, False, False, False],
        [True, True, True, True, True],
    ],
)
def test_other_patterns_hold_no_unit(pattern):
    assert algorithm_1(X, H, np.array(pattern)) == (None, True)


def test_a_solution_that_is_negative_on_the_pattern_is_refused():
    assert algorithm_1(X, X[:, :1] * [[1.0], [1], [1], [1], [0]], np.arange(5) < 4)[0] is None


def test_no_unit_is_off_everywhere():
    assert algorithm_1(X, np.hstack([H, np.zeros_like(H)]), np.zeros(5, dtype=bool))[0] is None


def test_a_solution_that_is_positive_off_the_pattern_is_refused():
    """X w = Q z on the pattern has the solution w = (1, 0), but it is on for the last sample as well."""
    rows = np.vstack([X, [4.0, 1.0]])
    assert algorithm_1(rows, np.vstack([H, [[0.0]]]), np.append(ON, False))[0] is None
    assert algorithm_1(rows, np.vstack([H, [[4.0]]]), np.append(ON, True))[0] is not None


def test_weights_that_the_samples_leave_open():
    """One active sample cannot determine two weights; a program finds some w with the signs of the pattern."""
    rows = np.array([[1.0, 1.0], [-1.0, -2.0], [-3.0, -1.0]])
    w, is_unique = algorithm_1(rows, np.array([[1.0], [0.0], [0.0]]), np.array([True, False, False]))
    assert not is_unique
    assert (rows[0] @ w > 0) and (rows[1:] @ w <= 1e-9).all()
    opposite = np.vstack([rows, [1.0, 1.0]])  # the same input, off: no w has both signs
    nothing = algorithm_1(opposite, np.array([[1.0], [0], [0], [0]]), np.array([True, False, False, False]))
    assert nothing[0] is None


@pytest.mark.parametrize("seed", [1, 2])
def test_algorithm_1_agrees_with_the_printed_program_on_every_pattern(seed):
    X, Q, _ = world(seed=seed)
    feasible = 0
    for pattern in enumerate_patterns(Q):
        ours, theirs = algorithm_1(X, Q, pattern)[0], iterative_lp(X, Q, pattern, [])
        assert (ours is None) == (theirs is None)
        if ours is not None:
            feasible += 1
            cosine = ours @ theirs / np.linalg.norm(theirs)
            assert cosine > 1 - 1e-12  # the solver's tolerance of 1e-7, squared, and some
    assert feasible == 2


def test_algorithm_2_finds_the_units_of_the_printed_double_loop():
    """For i = 1..k the first pattern whose program, with independence of the earlier units, is feasible."""
    X, Q, W = world(n=12, seed=1)
    patterns = enumerate_patterns(Q)
    earlier, found = [], []
    for _ in range(2):
        w = next(w for w in (iterative_lp(X, Q, S, earlier) for S in patterns) if w is not None)
        found.append(w / np.linalg.norm(w))
        earlier.append(np.maximum(X @ w, 0.0))
    units = algorithm_2(X, Q, patterns)
    assert (len(units.W), units.undetermined) == (2, 0)
    np.testing.assert_allclose(units.W, found, atol=1e-6)  # in the same order; the solver's tolerance
    assert (units.W @ W.T).max(axis=0) == pytest.approx(np.linalg.norm(W, axis=1), rel=1e-12)


def test_patterns_that_repeat_add_no_unit_and_are_counted():
    units = algorithm_2(X, H, np.array([ON, ON, ~ON]))
    np.testing.assert_allclose(units.W, [[1.0, 0.0]], atol=1e-15)
    assert (units.candidates, units.undetermined) == (2, 0)


def test_the_caller_is_told_how_many_patterns_were_examined():
    told = []
    algorithm_2(X, H, np.array([ON, ~ON, ON]), progress=lambda text, share: told.append((text, share)))
    assert told == [("3 of 3 patterns, 1 units", 1.0)]


@pytest.mark.parametrize("error", [3e-10, 3e-9])
def test_equations_that_hold_to_eight_digits_hold(error):
    """Labels of single-precision accuracy after averaging: the span is off by a little more than rounding."""
    rng = np.random.default_rng(1)
    span = H + error * rng.standard_normal(H.shape) * (H > 0)
    w, is_unique = algorithm_1(X, span, ON)
    assert is_unique
    np.testing.assert_allclose(w, [1.0, 0.0], atol=1e-7)


def test_labels_that_are_off_by_little_where_a_unit_is_off_are_zero():
    """A second column of the span that is 1e-7 on the samples off the pattern; the first, which is one there, is none."""
    span = np.column_stack([[0.3, -0.2, 0.5, 1.0, 1.0], H[:, 0] + 1e-7 * (H[:, 0] == 0)])
    w, is_unique = algorithm_1(X, span, ON)
    assert is_unique
    np.testing.assert_allclose(w, [1.0, 0.0], atol=1e-5)


def test_every_pattern_that_leaves_weights_open_is_counted():
    rows = np.array([[1.0, 1.0], [-1.0, -2.0], [-3.0, -1.0]])
    on = np.array([True, False, False])
    units = algorithm_2(rows, np.array([[1.0], [0.0], [0.0]]), np.array([on, on]))
    assert (units.candidates, units.undetermined) == (2, 2)
