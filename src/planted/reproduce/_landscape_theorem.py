"""Theorem 2.3 of [GLM18]_ in numbers: minima, saddles and approximate minima of G in small dimensions.

1. From random starts every descent ends at a signed permutation of the truth, with the row norms of the theorem.
2. Stationary points that are not minima are found by Newton's method on the gradient from random places; their smallest
   eigenvalue is compared with the bound -τ₀.
3. Points around the minima with a small gradient ε and no curvature below -τ₀ lie within 3ε/(μβ_min) of a minimum, row
   norms aside. The printed bound lacks μ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from planted._typing import Array
from planted.methods.landscape._descent import descend, random_rows, smallest_curvature
from planted.methods.landscape.objectives import (
    THEOREM_C,
    hermite_coefficients,
    population_objective,
    theorem_weights,
)
from planted.reproduce._study import Agreement, Axes, Claim, Study, StudyOptions

__all__ = ["theorem_study"]

START_SEED = 5_000_000
STARTS, QUICK_STARTS = 20, 6
SIGNED_PERMUTATION = 1e-6
STATIONARY = 1e-9
Row = dict[str, Any]


def theorem_study(options: StudyOptions) -> Study:
    """Check the three claims.

    Returns one row per point examined.
    """
    rows: list[Row] = []
    sizes = (4, 6) if options.quick else (4, 6, 8, 10)
    for number, d in enumerate(sizes):
        for kappa in (1.0, 4.0):
            world = _World(d, kappa, options.seed)
            n_starts = QUICK_STARTS if options.quick else STARTS
            rows += [world.minimum(start) for start in range(n_starts)]
            rows += [row for start in range(2 * n_starts) if (row := world.saddle(start)) is not None]
            rows += [world.approximate(start) for start in range(n_starts)]
        options.progress(f"d = {d}", (number + 1) / len(sizes))
    drawn = (
        ("distance from a signed permutation at minima", "distance", "minimum"),
        ("curvature over the bound at saddles", "ratio", "saddle"),
        ("distance over the bound", "ratio", "approximate"),
    )
    panels = [Axes(title, "d", y, "series", where={"part": part}) for title, y, part in drawn]
    return Study("landscape-theorem", "Theorem 2.3 in numbers", rows, panels, _claims(rows))


def _claims(rows: list[Row]) -> list[Claim]:
    minima, saddles, near = (
        [row for row in rows if row["part"] == name] for name in ("minimum", "saddle", "approximate")
    )
    right = [row["distance"] <= SIGNED_PERMUTATION for row in minima]
    distance = f"largest distance {max(row['distance'] for row in minima):.1e}"
    steep = [row["ratio"] >= 1.0 for row in saddles]
    curvature = f"least curvature over bound {min(row['ratio'] for row in saddles):.3g}"
    printed, proved = ([row[bound] <= 1.0 for row in near] for bound in ("printed", "ratio"))
    worst = [
        f"largest distance over bound {max(row[bound] for row in near):.2g}" for bound in ("printed", "ratio")
    ]
    statements = (
        ("local minima are signed permutations of the truth", right, f"descents, {distance}"),
        ("every saddle has curvature of at least τ₀ downwards", steep, f"saddles, {curvature}"),
        (
            "approximate minima are near a minimum: within 3 ε/β_min as printed",
            printed,
            f"points, {worst[0]}",
        ),
        (
            "the same within 3 ε/(μ β_min), all that the proof gives (bullet 3 of Theorem B.1 prints no μ)",
            proved,
            f"points, {worst[1]}",
        ),
    )
    return [
        Claim(paper, f"{sum(holds)} of {len(holds)} {what}", Agreement.of(all(holds)))
        for paper, holds, what in statements
    ]


class _World:
    """G for an orthonormal truth in d dimensions, with the theorem's weights."""

    def __init__(self, d: int, kappa: float, seed: int) -> None:
        self.d, self.kappa, self.seed = d, kappa, seed
        rng = np.random.default_rng([START_SEED, seed, d])
        self.truth = np.linalg.qr(rng.standard_normal((d, d)))[0]
        self.a = np.linspace(1.0, kappa, d)
        fourth = float(hermite_coefficients("relu", 4)[4])
        self.mu, self.lam = theorem_weights("G", fourth, largest=kappa, smallest=1.0)
        self.objective = population_objective("G", self.truth, self.a, mu=self.mu, lam=self.lam)
        self.alpha = np.sqrt(6.0) * abs(fourth) * self.a
        self.beta = self.alpha / 12.0
        condition = self.alpha.max() / self.alpha.min()
        self.tau = THEOREM_C * min(  # bullet 2 of Theorem B.1
            self.mu * self.beta.min() / (condition * d),
            self.mu * self.beta.min() ** 2 / self.beta.max(),
            self.lam,
        )

    def minimum(self, start: int) -> Row:
        """Descend from a random start."""
        end = descend(self.objective, self._random(start, 0), self.a, max_iter=5000)
        return self._row("minimum", distance=self._from_permutation(end.W), ratio=float("nan"))

    def saddle(self, start: int) -> Row | None:
        """Solve for a zero of the gradient from a random place; None when it is a minimum or not found."""
        shape = (self.d, self.d)
        found = optimize.root(
            lambda theta: self.objective(theta.reshape(shape), self.a)[1].ravel(),
            self._random(start, 1).ravel(),
            tol=1e-13,
        )
        W = found.x.reshape(shape)
        if (
            np.linalg.norm(self.objective(W, self.a)[1]) > STATIONARY
            or self._from_permutation(W) < SIGNED_PERMUTATION
        ):
            return None
        lowest = smallest_curvature(self.objective, W, self.a).smallest
        return self._row("saddle", distance=self._from_permutation(W), ratio=-lowest / self.tau)

    def approximate(self, start: int) -> Row:
        """Move a minimum by a random amount; where the Hessian allows it, compare the distance with the bound."""
        rng = np.random.default_rng([START_SEED, self.seed, start, 2])
        end = descend(self.objective, self._random(start, 0), self.a, max_iter=5000)
        size = 10.0 ** rng.uniform(-6, -2)
        W = end.W + size * rng.standard_normal(end.W.shape)
        epsilon = float(np.linalg.norm(self.objective(W, self.a)[1]))
        lowest = smallest_curvature(self.objective, W, self.a).smallest
        distance = self._off_permutation(W)
        ratio = distance / (3 * epsilon / (self.mu * float(self.beta.min()))) if lowest >= -self.tau else 0.0
        return self._row("approximate", distance=distance, ratio=ratio)

    def _random(self, start: int, role: int) -> Array:
        rng = np.random.default_rng([START_SEED, self.seed, start, role])
        return random_rows(self.d, self.d, rng)

    def _off_permutation(self, W: Array) -> float:
        """Return the largest entry of W in the truth's basis beside the one large entry of each row."""
        R = np.abs(W @ self.truth.T)
        rows, columns = optimize.linear_sum_assignment(-R)
        R[rows, columns] = 0.0
        return float(R.max())

    def _from_permutation(self, W: Array) -> float:
        """Return the distance from D P of bullet 1, row norms 1/√(1 - μβ_i/λ) included."""
        R = np.abs(W @ self.truth.T)
        rows, columns = optimize.linear_sum_assignment(-R)
        wanted = 1.0 / np.sqrt(1.0 - self.mu * self.beta[columns] / self.lam)
        norms = float(np.abs(R[rows, columns] - wanted).max())
        return max(norms, self._off_permutation(W))

    def _row(self, part: str, *, distance: float, ratio: float) -> Row:
        return {
            "part": part,
            "d": self.d,
            "kappa": self.kappa,
            "series": f"κ = {self.kappa:g}",
            "distance": distance,
            "ratio": ratio,
            "printed": ratio / self.mu,
            "tau": self.tau,
        }
