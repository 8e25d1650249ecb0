r"""Recover a network without biases from normal inputs by descending an objective without bad minima.

Problem     y = Σ a_i σ(w_i'x) + ξ, x ~ N(0, Σ), one output, k ≤ d, no biases. Sought: W and a.
Idea        1. Whiten: x = L z with z ~ N(0, I); a row w becomes L'w.
            2. Fit y by a polynomial of degree two in z. Its quadratic part is T₂ = Σ a_i w_i w_i', whose rank is k and
               whose signature is that of a; the residual carries T₄ (`_targets`).
            3. Descend f′, G or F (`objectives`) from random rows.
            4. Read rows, signs and output weights off the minimum (`printed`, `_read`).
            5. Refine on the rows in memory. If they are not reproduced, start again, up to ``n_restarts`` times; the best
               candidate is refined on all rows. The evidence says how far refinement moved it.
            6. Certify.
Guarantee   Theorem 2.3 of [GLM18]_ (G, orthogonal rows, a > 0) and Theorem C.4 (F, full rank, a > 0): in the limit of many
            samples the landscape has no bad minimum. Nothing is proved for f′. What is claimed of an answer rests on its
            certificate alone. Kind: exact when noiseless, asymptotic with noise.
            Not promised: biases; inputs that are not normal; negative output weights with G and F, which are refused
            when T₂ shows them.
Notation    paper: B*, a*, m, d; ours ``W``, ``A``, k, d.
Departures  f′ is the default: it needs the fewest samples and allows negative a. Rows of G stay on the unit sphere, which
            bounds G from below on samples. For the same reason F's rows keep w'T₂w = 1 exactly, in the span of T₂'s k
            leading eigenvectors, which takes the place of F_δ for k < d. Random restarts are compared by what they leave
            after refinement.
Cost        A few hundred passes of O(n d k); refinement O(rows (k d)²) per step on about 4 rows per unknown.
References  [GLM18]_
"""

from __future__ import annotations

from planted._validation import check_choice
from planted.fitting._run import MethodRun
from planted.methods.landscape._descent import OPTIMISERS
from planted.methods.landscape._search import LandscapeSearch
from planted.results import Recovery

__all__ = ["recover"]

CHOICES = ("f'", "G", "F")


def recover(
    run: MethodRun,
    n_hidden: int | str = "auto",
    *,
    objective: str = "f'",
    weights: tuple[float, float] | None = None,
    degree: int = 2,
    optimiser: str = "lbfgs",
    n_restarts: int = 6,
    refined: bool = True,
    activation: str = "relu",
) -> Recovery:
    """Recover a network by landscape design.

    Parameters
    ----------
    run : MethodRun
        The run, with its problem.
    n_hidden : int or "auto"
        Number of units; the rank of T₂ if "auto".
    objective : {"f'", "G", "F"}
        What is descended. G is for orthogonal rows; G and F need positive output weights.
    weights : tuple of float, optional
        Weights of f₂ and f₄ in f′; the squared Hermite coefficients if omitted.
    degree : {0, 1, 2}
        Degree of the fit that is taken from y; 0 is the paper's choice, for comparison.
    optimiser : {"lbfgs", "newton", "sgd", "none"}
        How the objective is descended: quasi-Newton, Newton with curvature, stochastic gradient steps on batches of the
        samples, or not at all. The last is a control: refinement from random rows, without the objective.
    n_restarts : int
        Largest number of random starts.
    refined : bool
        Whether the answer is refined on all rows and certified; without, it is the network read off the first minimum.
    activation : str
        ``"relu"``, ``"leaky-relu:SLOPE"`` or ``"absolute"``.

    Returns
    -------
    Recovery
        The network with its evidence. Interrupted by Ctrl-C, the best network so far with outcome ``STOPPED_EARLY``.
    """
    check_choice("objective", objective, CHOICES)
    check_choice("optimiser", optimiser, OPTIMISERS)
    search = LandscapeSearch(run, objective, weights, degree, optimiser, activation)
    run.on_stop = search.interrupted
    search.whiten_inputs()  # step 1
    search.prepare_objective()  # step 2
    if not refined:
        return search.unrefined()  # steps 3 and 4
    search.descend_from_random_rows(n_restarts)  # steps 3 to 5
    return search.finish()  # steps 5 and 6
