"""Whiten the inputs; convert networks of white inputs back.

On standardised rows x with covariance Σ the map K of `planted.moments.whitening_map` gives x'K with covariance I, and a
unit w of white inputs is the unit K w of x: its preactivation is the same number. Directions in which x does not vary
drop out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from planted._typing import Array
from planted.fitting._run import Problem
from planted.methods.hermite._start import Sample
from planted.moments import Project, joint_moments, whitening_map
from planted.networks import TwoLayerNetwork
from planted.rows import RowBlocks

__all__ = ["White", "whiten_problem"]


@dataclass(frozen=True, slots=True)
class White:
    """Rows with white inputs, and the way back."""

    sample: Sample  # the rows
    K: Array  # (d, r): the map that made them: standardised rows x became x'K
    mean: Array  # (m,): mean of the outputs

    def restore(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        """Express a function of white inputs as one of standardised inputs."""
        return TwoLayerNetwork(network.W @ self.K.T, network.b, network.A, network.c)

    def hyperplanes(self, W: Array, b: Array) -> Array:
        """Express hyperplanes of white inputs as rows (w, b) of standardised inputs, w of unit norm.

        Shapes: W (k, r), b (k,), result (k, d + 1).
        """
        normals = W @ self.K.T
        return np.asarray(np.hstack([normals, b[:, None]]) / np.linalg.norm(normals, axis=1, keepdims=True))

    def part(self, *remainders: int) -> RowBlocks:
        """Return the rows whose number leaves one of some remainders modulo 4."""
        return self.sample.blocks.map_numbered(partial(_every_fourth, remainders))


def whiten_problem(problem: Problem) -> White:
    """Estimate the covariance of the standardised inputs and undo it; one pass."""
    d, joint = problem.n_features, joint_moments(problem.blocks)
    K = whitening_map(joint.covariance[:d, :d])
    shape = (K.shape[1], problem.n_outputs)
    sample = Sample(problem.blocks.map(Project(K)), problem.n_samples, shape, problem.progress)
    return White(sample, K, joint.mean[d:])


def _every_fourth(remainders: tuple[int, ...], first_row: int, X: Array, Y: Array) -> tuple[Array, Array]:
    """Return the rows whose number leaves one of some remainders modulo 4."""
    chosen = np.isin((first_row + np.arange(len(X))) % 4, remainders)
    return X[chosen], Y[chosen]
