"""Section 3 and Lemma 16 of BJW18 as tests: the reduction decides what it says, and few samples cannot tell a pair apart."""

import numpy as np

import planted
from planted.linalg import ProgramStatus, fit_units_exactly
from planted.networks import TwoLayerNetwork
from planted.outcomes import Outcome
from planted.simulate import Formula, hard_instance, inputs


def random_formula(rng):
    """Two to four variables, clauses of two or three literals, about as many as make half of them unsatisfiable."""
    variables = int(rng.integers(2, 5))
    size = 2 if variables == 2 else 3
    clauses = [
        tuple(
            int(v + 1) * int(s)
            for v, s in zip(rng.permutation(variables)[:size], rng.choice([-1, 1], size), strict=True)
        )
        for _ in range(int(rng.integers(1, 8)))
    ]
    return Formula(variables, tuple(clauses))


def test_two_units_fit_if_and_only_if_the_formula_is_not_all_equal_satisfiable():
    """Sixty formulas: an integer program that knows nothing of logic against all assignments."""
    rng = np.random.default_rng(0)
    solvable = 0
    for _ in range(60):
        formula = random_formula(rng)
        instance = hard_instance("sat", formula)
        answer = fit_units_exactly(instance.X, instance.Y[:, 0], bound=20.0)
        expected = formula.find_assignment() is not None
        assert answer.status is (ProgramStatus.OPTIMAL if expected else ProgramStatus.INFEASIBLE), formula
        if expected:
            d = instance.X.shape[1]
            W = answer.x[: 2 * d].reshape(2, d)
            assignment = instance.check(TwoLayerNetwork(W, None, [[1.0, 1.0]]), tol=1e-5)
            assert assignment is not None
            assert formula.is_satisfied(assignment)
        solvable += expected
    assert 10 <= solvable <= 50, "both kinds must occur"


def test_satisfiable_in_the_usual_sense_is_not_enough():
    """(u1 or u2) and (u1 or not u2) is true for u1 true, but no assignment gives both clauses both values."""
    instance = hard_instance("sat", Formula(2, ((1, 2), (1, -2))))
    assert fit_units_exactly(instance.X, instance.Y[:, 0]).status is ProgramStatus.INFEASIBLE


def test_the_samples_for_free_output_weights_change_nothing():
    for clauses in (((1, 2, 3),), ((1, 2), (1, -2))):
        formula = Formula(3, clauses)
        plain, free = (hard_instance("sat", formula, free_outputs=flag) for flag in (False, True))
        verdicts = [fit_units_exactly(item.X, item.Y[:, 0]).status for item in (plain, free)]
        assert verdicts[0] is verdicts[1]


def test_recovery_refuses_the_instances():
    """Rank one, two units: outside what any polynomial method here claims, and none claims it."""
    formula = Formula(4, ((1, -2, 3), (2, 3, 4), (-1, -3, 4)))
    instance = hard_instance("sat", formula)
    for method in ("sign-patterns", "complementarity"):
        recovery = planted.recover(instance.X, instance.Y, 2, method=method, random_state=0)
        assert recovery.outcome is Outcome.ASSUMPTION_FAILED
        assert "outputs: 1; the method needs >= 2" in recovery.detail


def test_the_share_of_samples_that_tell_the_pair_apart():
    """P(|x1| < 2a |x2|) = (2/π) arctan(2a): so 1/a samples see a difference with probability 1 - exp(-4/π) = 0.72."""
    a, repeats = 0.01, 400
    pair = hard_instance("ill-conditioned", a)
    shares = {}
    for n in (25, 100, 400):
        seen = [
            pair.distinguishing(inputs(n, 2, random_state=1000 * n + seed)).any() for seed in range(repeats)
        ]
        shares[n] = np.mean(seen)
        expected = 1 - (1 - 2 / np.pi * np.arctan(2 * a)) ** n
        assert abs(shares[n] - expected) < 4 * np.sqrt(expected * (1 - expected) / repeats) + 1e-12
    assert shares[25] < 0.4 < 0.6 < shares[100] < 0.95 < shares[400]
