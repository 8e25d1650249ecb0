r"""Instances that show what cannot be done: hardness of two-unit fits, indistinguishable pairs, a bad local minimum.

``"sat"``
    Section 3 of [BJW18]_: a formula in conjunctive normal form becomes samples that two ReLU units with output weights one
    fit exactly if and only if the formula has an assignment under which every clause has a true *and* a false
    literal (not-all-equal satisfiability, NP-complete [Megiddo1988]_). Deciding whether a network with more units than
    the outputs' rank fits is thus NP-hard.
``"ill-conditioned"``
    Lemma 16 of [BJW18]_: two networks of condition number 1/a and 1/(2a) whose outputs agree unless |x_1| < 2a |x_2|, so
    that fewer than about 1/a samples cannot tell them apart.
``"spurious-minimum"``
    Appendix F of [GLM18]_: a point where the objective P' of that paper has value one and no way down, while its global
    minimum is zero.

How the formula is coded. With N variables, d = N + 2 inputs and units x, y: the samples ±e_i with value 1 force
(x_i, y_i) = ±(1, -1), the truth of variable i. The samples e_j and -2 e_j for the two last coordinates and their sum, all
of value 1, force x_{N+1} + x_{N+2} = y_{N+1} + y_{N+2} = 1/2, which is a constant at hand. A clause with L
literals of signs s becomes the sample (-s, -2(L-1), -2(L-1)) of value 0: Σ s_i x_i ≥ -(L-1), not all literals false, and
the same for y = -x, not all true. [BJW18]_ state this for "reversible" formulas, a condition that as printed every
formula and its mirror image satisfy or not together; what the samples decide is the not-all-equal problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from planted._typing import Array
from planted.linalg.symmetric import unit_rows
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError
from planted.simulate._roles import check_number

__all__ = ["Formula", "IllConditionedPair", "SatInstance", "SpuriousMinimum", "hard_instance", "read_dimacs"]

MAX_BRUTE_FORCE = 24  # variables; 2^23 assignments up to mirror image


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in conjunctive normal form.

    Parameters
    ----------
    n_variables : int
        Number of variables.
    clauses : tuple of tuple of int
        Literals as in DIMACS: variable i, counted from one, or minus i for its negation.

    Examples
    --------
    >>> formula = Formula(2, ((1, 2), (1, -2)))
    >>> formula.is_satisfied([True, True], not_all_equal=False), formula.is_satisfied([True, True])
    (True, False)
    """

    n_variables: int
    clauses: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if self.n_variables < 1:
            raise BadInputError(f"a formula needs at least one variable; got {self.n_variables}")
        for number, clause in enumerate(self.clauses):
            if not clause:
                raise BadInputError(f"clause {number} is empty; a clause needs at least one literal")
            for literal in clause:
                if literal == 0 or abs(literal) > self.n_variables:
                    raise BadInputError(
                        f"clause {number} has the literal {literal}; expected 1 to {self.n_variables} or its negative"
                    )

    def is_satisfied(self, assignment: Any, *, not_all_equal: bool = True) -> bool:
        """Check an assignment.

        Parameters
        ----------
        assignment : sequence of bool
            Truth of the variables.
        not_all_equal : bool
            Whether every clause must have a false literal too.

        Returns
        -------
        bool
            Whether every clause has a true literal, and a false one if that is asked for.
        """
        for clause in self.clauses:
            values = {bool(assignment[abs(literal) - 1]) == (literal > 0) for literal in clause}
            if True not in values or (not_all_equal and False not in values):
                return False
        return True

    def find_assignment(self) -> tuple[bool, ...] | None:
        """Search all assignments for one under which no clause has literals of one truth value only.

        Returns
        -------
        tuple of bool or None
            The first such assignment, with the first variable true; None if there is none.
        """
        if self.n_variables > MAX_BRUTE_FORCE:
            raise BadInputError(
                f"{self.n_variables} variables are too many for a search of all assignments; at most {MAX_BRUTE_FORCE}"
            )
        for rest in product((True, False), repeat=self.n_variables - 1):
            if self.is_satisfied((True, *rest)):  # the mirror image of a solution is one
                return (True, *rest)
        return None


def read_dimacs(text: str) -> Formula:
    r"""Read a formula in the DIMACS format.

    Parameters
    ----------
    text : str
        The content of a ``.cnf`` file: comment lines ``c ...``, a header ``p cnf VARIABLES CLAUSES``, then literals,
        each clause ended by 0.

    Returns
    -------
    Formula
        The formula.

    Examples
    --------
    >>> read_dimacs("c an example\np cnf 3 2\n1 -2 3 0\n-1 2 0\n").clauses
    ((1, -2, 3), (-1, 2))
    """
    header: list[str] | None = None
    numbers: list[int] = []
    for line_number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("c"):
            continue
        if words[0] == "%":  # some collections end their files this way
            break
        if words[0] == "p":
            numbers_follow = len(words) == 4 and words[1] == "cnf" and all(map(str.isdecimal, words[2:]))
            if not numbers_follow or header is not None:
                expected = "a single header 'p cnf VARIABLES CLAUSES'"
                raise FileFormatError(
                    f"line {line_number}: expected {expected}; got {' '.join(words)[:40]!r}"
                )
            header = words
            continue
        if header is None:
            raise FileFormatError(f"line {line_number}: literals before the header 'p cnf VARIABLES CLAUSES'")
        try:
            numbers += [int(word) for word in words]
        except ValueError:
            raise FileFormatError(
                f"line {line_number}: {line.strip()[:40]!r} is not a list of whole numbers"
            ) from None
    if header is None:
        raise FileFormatError("no header 'p cnf VARIABLES CLAUSES' was found; this is not a DIMACS formula")
    return _formula_of(int(header[2]), int(header[3]), numbers)


def _formula_of(n_variables: int, n_clauses: int, numbers: list[int]) -> Formula:
    clauses: list[tuple[int, ...]] = []
    clause: list[int] = []
    for number in numbers:
        if number:
            clause.append(number)
        else:
            clauses.append(tuple(clause))
            clause = []
    if clause:
        raise FileFormatError(f"the last clause {tuple(clause)} is not ended by 0: the file is cut off")
    if len(clauses) != n_clauses:
        raise FileFormatError(f"{len(clauses)} clauses were read, but the header announces {n_clauses}")
    try:
        return Formula(n_variables, tuple(clauses))
    except BadInputError as error:
        raise FileFormatError(str(error)) from None


@dataclass(frozen=True, slots=True, eq=False)
class SatInstance:
    """Samples that two ReLU units fit if and only if a formula is not-all-equal satisfiable.

    Parameters
    ----------
    formula : Formula
        The formula.
    X : ndarray of shape (n, d)
        Inputs.
    Y : ndarray of shape (n, 1)
        Outputs, zeros and ones.
    """

    formula: Formula
    X: Array
    Y: Array

    def network_of(self, assignment: Any) -> TwoLayerNetwork:
        """Return the network that codes an assignment; it fits if the assignment is a solution.

        Parameters
        ----------
        assignment : sequence of bool
            Truth of the variables.

        Returns
        -------
        TwoLayerNetwork
            Two units with output weights one.
        """
        truth = np.where(np.asarray(assignment, dtype=bool), 1.0, -1.0)
        if truth.shape != (self.formula.n_variables,):
            raise BadInputError(
                f"the assignment has shape {truth.shape}; expected ({self.formula.n_variables},)"
            )
        first, second = np.append(truth, [1.0, -0.5]), np.append(-truth, [-0.5, 1.0])
        extra = self.X.shape[1] - len(first)
        W = np.vstack([np.append(first, np.ones(extra)), np.append(second, -np.ones(extra))])
        return TwoLayerNetwork(W, None, [[1.0, 1.0]])

    def check(self, network: TwoLayerNetwork, *, tol: float = 1e-6) -> tuple[bool, ...] | None:
        """Check a network and read the assignment it codes.

        Parameters
        ----------
        network : TwoLayerNetwork
            A network of two units with positive output weights, no biases.
        tol : float
            Largest residual that counts as a fit.

        Returns
        -------
        tuple of bool or None
            A solution of the formula if the network fits all samples; None otherwise.
        """
        if network.n_hidden != 2 or network.b.any() or network.c.any() or not (network.A > 0).all():
            raise BadInputError("expected two units without biases, offset 0 and positive output weights")
        if float(np.abs(network(self.X) - self.Y).max()) > tol:
            return None
        assignment = tuple(bool(value > 0) for value in network.W[0, : self.formula.n_variables])
        return assignment if self.formula.is_satisfied(assignment) else None


@dataclass(frozen=True, slots=True, eq=False)
class IllConditionedPair:
    """Two networks that few normal samples cannot tell apart (Lemma 16).

    Parameters
    ----------
    first, second : TwoLayerNetwork
        Networks with hidden condition number 1/a and 1/(2a), two inputs, one output.
    """

    first: TwoLayerNetwork
    second: TwoLayerNetwork

    def distinguishing(self, X: Array) -> Any:
        """Tell which samples the two networks differ on.

        Parameters
        ----------
        X : ndarray of shape (n, 2)
            Inputs.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the outputs differ beyond rounding.
        """
        difference = np.abs(self.first(X) - self.second(X))[:, 0]
        return difference > 16 * np.finfo(float).eps * np.abs(X).sum(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class SpuriousMinimum:
    """A bad local minimum of P'(B) = Σ_i a_i Σ_{j<k} <e_i, b_j>² <e_i, b_k>² over unit rows (Appendix F).

    Parameters
    ----------
    weights : ndarray of shape (4,)
        The a_i: 1 and three times 2 + δ.
    rows : ndarray of shape (4, 4)
        The point: e_1, e_1, e_2, (e_3 + e_4)/√2.
    """

    weights: Array
    rows: Array

    def objective(self, rows: Array) -> float:
        """Evaluate P'.

        Parameters
        ----------
        rows : ndarray of shape (4, 4)
            B; its rows are normalised first.

        Returns
        -------
        float
            One at the spurious minimum, zero at permutations of the identity.
        """
        unit = unit_rows(rows)[0]
        squares = unit**2
        pairs = (squares.sum(axis=0) ** 2 - (squares**2).sum(axis=0)) / 2
        return float(self.weights @ pairs)


def hard_instance(
    kind: str, argument: Any = None, *, free_outputs: bool = False
) -> SatInstance | IllConditionedPair | SpuriousMinimum:
    """Make an instance on which recovery is hard, impossible or misled.

    Parameters
    ----------
    kind : {"sat", "ill-conditioned", "spurious-minimum"}
        Which one; see the module's text.
    argument : Formula, str or float
        The formula (or its DIMACS text) of ``"sat"``; a in (0, 1/2] of ``"ill-conditioned"``; δ > 0 of
        ``"spurious-minimum"``, one if omitted.
    free_outputs : bool
        For ``"sat"``: add the two samples that force positive output weights, for problems in which these are unknown too.

    Returns
    -------
    SatInstance, IllConditionedPair or SpuriousMinimum
        The instance.

    Examples
    --------
    >>> instance = hard_instance("sat", Formula(2, ((1, 2), (1, -2))))
    >>> instance.X.shape, instance.check(instance.network_of([True, False]))
    ((11, 4), None)
    """
    if kind == "sat":
        formula = read_dimacs(argument) if isinstance(argument, str) else argument
        if not isinstance(formula, Formula):
            raise BadInputTypeError(f"expected a Formula or DIMACS text; got {type(argument).__name__}")
        return _sat_instance(formula, free_outputs)
    if free_outputs:
        raise BadInputError("free_outputs belongs to 'sat'")
    if kind == "ill-conditioned":
        a = check_number("a", argument, least=0.0, most=0.5, is_open=True)
        return IllConditionedPair(_narrow_pair(a), _narrow_pair(2 * a))
    if kind == "spurious-minimum":
        delta = check_number("delta", 1.0 if argument is None else argument, is_open=True)
        weights = np.array([1.0, 2 + delta, 2 + delta, 2 + delta])
        rows = np.eye(4)[[0, 0, 1, 2]]
        rows[3] = np.array([0.0, 0.0, 1.0, 1.0]) / np.sqrt(2)
        return SpuriousMinimum(weights, rows)
    raise BadInputError(f"unknown kind {kind!r}; known are 'sat', 'ill-conditioned', 'spurious-minimum'")


def _sat_instance(formula: Formula, free_outputs: bool) -> SatInstance:
    """Write down P (value 0) and Q (value 1) of the reduction."""
    variables = formula.n_variables
    unit = np.eye(variables + 2)
    last = unit[variables:]
    ones = [unit[:variables], -unit[:variables], last, -2 * last, last.sum(axis=0, keepdims=True)]
    zeros = np.zeros((len(formula.clauses), variables + 2))
    for row, clause in zip(zeros, formula.clauses, strict=True):
        for literal in clause:
            row[abs(literal) - 1] -= np.sign(literal)
        row[variables:] = -2.0 * (len(clause) - 1)
    X = np.vstack([zeros, *ones])
    y = np.concatenate([np.zeros(len(zeros)), np.ones(len(X) - len(zeros))])
    if free_outputs:
        X = np.vstack([np.hstack([X, np.zeros((len(X), 1))]), np.eye(X.shape[1] + 1)[-1:] * [[1.0], [-1.0]]])
        y = np.append(y, [1.0, 1.0])
    return SatInstance(formula, X, y[:, None])


def _narrow_pair(a: float) -> TwoLayerNetwork:
    """Return x -> (σ(x_1 + a x_2) + σ(x_1 - a x_2)) / 2 with unit rows."""
    length = np.hypot(1.0, a)
    return TwoLayerNetwork(np.array([[1.0, a], [1.0, -a]]) / length, None, [[length / 2, length / 2]])
