r"""Algorithm 8 of BJW18, literally: guess the left inverse, smooth, read half-spaces from signs.

Problem     Y = f(X W') A' + E, x normal, E any noise independent of x, k tiny. Sought: a network whose residual is not
            much larger than E.
Idea        1. Sketch: S is a random s × m matrix with normal entries of variance 1/k; S y = S A f(W x) + S e.
            2. Guess M ≈ (S A)⁺, k × s, on the printed grid, whose entries are

               .. math:: \frac{1}{\sigma_{\min}} \left(1 + \frac{\epsilon^4}{c\, k^4}\right)^{-i}, \qquad
                         0 \le i \le c' k^8 \kappa^8 / \epsilon^8 .                                    \quad (1)

            3. For every guess: (a) draw normal noise g of standard deviation η, so that E no longer decides the signs
               alone; ‖M S E‖, to which η is proportional, is guessed in powers of two. (b) Labels q = sign(M S y + g).
               (c) w_p maximises Σ q ⟨w, x⟩ over the unit ball: Σ q x, normalised. (d) These are the rows of W.
            4. Regress Y on f(X W'); keep the guess with the smallest residual.
Guarantee   Theorem 13 of [BJW18]_ for the printed constants; none for a coarser grid. Kind: heuristic.
Notation    paper: A (ours Y'), U (A), V (W), S (S), M^i (rows of the grid), G (g), y_q (labels).
Departures  The printed constants cannot be run even for k = 1: with c = c' = c₁ = 1, ε = 1/(k+1), κ = 1 and 100 k rows
            of the sketch there are 10^241 guesses at k = 1 and 10^2490 at k = 2 (`predict_guesses`). The grid used has
            `n_levels` sizes, a factor of two apart, and k sketch rows. (1) prints positive entries only; a left inverse
            has negative ones, so both signs are tried. Rows of M are guessed independently: each of the (2 levels)^s rows
            is labelled once, and step 4 goes through the sets of k rows, which are the same guesses in a cheaper order.
            Inputs are whitened first.
Cost        (2 levels)^s labellings of O(n d), and the sets of k of them, each a regression from k × k products.
References  [BJW18]_
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import log10

import numpy as np
from scipy import linalg

from planted._clock import check_time
from planted._typing import Array
from planted.linalg import unit_rows
from planted.networks import TwoLayerNetwork

__all__ = ["LARGEST_COUNT", "GuessGrid", "algorithm_8", "half_spaces_of_labels", "predict_guesses"]

LARGEST_COUNT = 1e7
SKETCH_ROWS_PER_UNIT = 100  # c₁ / δ² with δ = 1/10 and c₁ = 1
SMOOTHINGS = (0.5, 1.0, 2.0)  # guesses of η in units of the root mean square of M S y


@dataclass(frozen=True, slots=True)
class GuessGrid:
    """The grid on which left inverses are guessed."""

    sketch_rows: int  # rows of the sketch S
    n_levels: int  # sizes of an entry, each half of the one before

    def count(self, k: int) -> int:
        """Return the number of guesses.

        Examples
        --------
        >>> GuessGrid(sketch_rows=2, n_levels=3).count(2)
        1296
        """
        return int((2 * self.n_levels) ** (k * self.sketch_rows))


def predict_guesses(k: int, *, epsilon: float | None = None, kappa: float = 1.0) -> float:
    """Return log10 of the number of guesses on the printed grid (1), all constants taken as one.

    `epsilon` is the accuracy: just below 1/k, the largest that the paper allows, if omitted.
    """
    accuracy = 1.0 / (k + 1) if epsilon is None else epsilon
    values = (k * kappa / accuracy) ** 8 + 1
    return k * SKETCH_ROWS_PER_UNIT * k * log10(values)


def algorithm_8(
    X: Array, Y: Array, k: int, *, grid: GuessGrid, rng: np.random.Generator
) -> tuple[TwoLayerNetwork, float]:
    """Return the best network without biases among all guesses of a grid, and its root mean square residual.

    Shapes: X (n, d), Y (n, m).
    """
    centred = X - X.mean(axis=0)
    root = linalg.cholesky(centred.T @ centred / len(X), lower=True, check_finite=False)
    white = linalg.solve_triangular(root, X.T, lower=True, check_finite=False).T
    S = rng.standard_normal((grid.sketch_rows, Y.shape[1])) / np.sqrt(k)  # 1
    sketched = Y @ S.T
    guesses = _grid_rows(grid)  # 2; the scale 1/σ_min drops out of signs, as smoothing is relative
    directions = np.vstack([_directions(white, sketched, guesses, eta, rng) for eta in SMOOTHINGS])  # 3
    best = _best_set(white, Y, directions, k)  # 4
    W = linalg.solve_triangular(root, directions[best].T, lower=True, trans=1, check_finite=False).T
    W = unit_rows(W)[0]
    H = np.maximum(X @ W.T, 0.0)
    A = linalg.lstsq(H, Y, check_finite=False)[0].T
    return TwoLayerNetwork(W, None, A), float(np.sqrt(((Y - H @ A.T) ** 2).mean()))


def half_spaces_of_labels(X: Array, labels: Array) -> Array:
    """Return the unit vectors that maximise the sum of labels times projections (step 3c).

    Shapes: X (n, d), labels (n, r), result (r, d).
    """
    return unit_rows(labels.T @ X)[0]


def _grid_rows(grid: GuessGrid) -> Array:
    """Return all rows of M: every entry with each sign and size."""
    sizes = 0.5 ** np.arange(grid.n_levels)
    values = np.concatenate([sizes, -sizes])
    return np.array(list(product(values, repeat=grid.sketch_rows)))


def _directions(
    X: Array, sketched: Array, guesses: Array, smoothing: float, rng: np.random.Generator
) -> Array:
    """Return the half-space of every row of M (step 3)."""
    labels = []
    for row in guesses:
        check_time()
        z = sketched @ row
        eta = smoothing * np.sqrt(np.mean(z**2))
        g = eta * rng.standard_normal(len(z))  # (a)
        labels.append(np.where(z + g > 0, 1.0, -1.0))  # (b)
    return half_spaces_of_labels(X, np.array(labels).T)  # (c) and (d)


def _best_set(X: Array, Y: Array, directions: Array, k: int) -> list[int]:
    """Return the numbers of the k directions whose units explain most of Y (step 4)."""
    H = np.maximum(X @ directions.T, 0.0)
    products, cross = H.T @ H, H.T @ Y
    best, most = list(range(k)), -np.inf
    for index, chosen in enumerate(combinations(range(len(directions)), k)):
        if index % 4096 == 0:
            check_time()
        own = products[np.ix_(chosen, chosen)]
        right = cross[list(chosen)]
        explained = float((right * np.linalg.pinv(own, hermitian=True).dot(right)).sum())
        if explained > most:
            best, most = list(chosen), explained
    return best
