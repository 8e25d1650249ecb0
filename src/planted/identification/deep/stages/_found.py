"""The units that a survey has found of one layer: which of them may be of one layer, and on which side each is on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.deep._layers import Base, Region, orientation_votes, region_at
from planted.identification.deep._planes import Planes, Survey
from planted.networks._deep import Layer

__all__ = [
    "CERTAIN",
    "LayerFound",
    "all_on",
    "consistent_planes",
    "is_independent",
    "orient_survey",
    "shows_higher",
    "signs",
]

MOST_SUBSETS = 300  # of hyperplanes that are tried as the first layer
CERTAIN = 0.9  # of the votes for an orientation
INDEPENDENT = 1e-7  # smallest singular value of unit rows


@dataclass(frozen=True, slots=True)
class LayerFound:
    """The units of one layer, up to scale, and the votes for their orientation."""

    planes: tuple[Array, Array]  # weights (k, k below) and biases (k,)
    signs: Array  # (k,)
    shares: Array  # (k,): of the votes, for these signs
    has_higher: bool  # whether breaks of higher layers were seen beside
    known: BoolArray | None = None  # which weights were seen, if not all

    @property
    def is_independent(self) -> bool:
        """Whether the rows are independent."""
        return is_independent(self.planes[0])

    def problem(self, number: int) -> str:
        """Why the next layer cannot be read; empty if it can."""
        rows = self.planes[0]
        if not rows.size:
            return f"no unit of layer {number} was found"
        if not self.has_higher and number > 1:
            return f"the {len(rows)} units found in layer {number} do not explain all answers, and no layer above was seen"
        if self.known is not None and not self.known.all():
            return f"{(~self.known).sum()} weights of layer {number} were not seen"
        if not self.is_independent:
            return (
                f"hidden layer {number} has up to {len(rows)} units on {rows.shape[1]} inputs, and their rows are "
                "dependent: it widens, connections skip it, or flat parts of units above are among them, and none is read"
            )
        if self.shares.min() < CERTAIN and number > 2:
            return f"which side of the units of layer {number} is on was not settled"
        return ""


def is_independent(rows: Array) -> bool:
    """Whether rows are independent."""
    return _rank(rows) == len(rows)


def _rank(rows: Array) -> int:
    """The rank of unit rows that were measured."""
    return int((np.linalg.svd(rows, compute_uv=False) >= INDEPENDENT).sum()) if len(rows) else 0


def all_on(base: Base, layers: list[Layer]) -> Region:
    """The region in which all units of the known layers are on."""
    patterns = [np.ones(len(b), dtype=np.bool_) for _, b in layers]
    return region_at(base, layers, np.zeros(base.matrix.shape[1]), patterns)


def _rows_of(planes: Planes, region: Region) -> tuple[Array, Array]:
    """Weights and biases of the units of a layer from their hyperplanes, up to orientation and scale; eq. (1)."""
    rows = planes.normals @ np.linalg.pinv(region.M)
    biases = planes.offsets - rows @ region.m
    norms = np.linalg.norm(rows, axis=1)
    return rows / norms[:, None], biases / norms


def orient_survey(survey: Survey, region: Region) -> LayerFound:
    """The units whose hyperplanes a survey of one region has found."""
    return LayerFound(_rows_of(survey.planes, region), *signs(survey), shows_higher(survey))


def signs(survey: Survey) -> tuple[Array, Array]:
    """The orientations of hyperplanes that gradients vote for, and the shares of the votes for them; 0 if there are none."""
    planes, k = survey.planes, survey.planes.offsets.size
    if not k or not survey.gradients or _rank(planes.normals) < k:
        return np.ones(k), np.zeros(k)
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    values = places @ planes.normals.T + planes.offsets
    noise = 1e-9 * float(np.abs(gradients).max())
    votes, cast = orientation_votes(planes.normals, values, gradients, noise=noise)
    return np.where(votes >= 0, 1.0, -1.0), np.abs(votes) / np.maximum(cast, 1)


def consistent_planes(survey: Survey) -> BoolArray | None:
    """The hyperplanes that may all be of one layer, if others are flat parts of higher ones; None if there are no such.

    As many are chosen as there are dimensions. Every unit must take part in the gradients on one side only, and where it is
    on it should take part wherever the others do.
    """
    normals, offsets = survey.planes.normals, survey.planes.offsets
    count, rank = len(offsets), _rank(normals)
    if not survey.gradients or not rank < count or comb(count, rank) > MOST_SUBSETS:
        return None
    places, gradients = (np.concatenate(parts) for parts in zip(*survey.gradients, strict=True))
    noise = 1e-9 * float(np.abs(gradients).max())
    best, found = 0.0, None
    for subset in combinations(range(count), rank):
        rows, ends = normals[list(subset)], offsets[list(subset)]
        if np.linalg.svd(rows, compute_uv=False).min() < INDEPENDENT:
            continue
        values = places @ rows.T + ends
        votes, cast = orientation_votes(rows, values, gradients, noise=noise)
        if cast.min() == 0 or (np.abs(votes) < CERTAIN * cast).any():
            continue
        is_bent = np.abs(gradients).max(axis=(1, 2)) > noise
        idle = ((values * np.sign(votes) > 0) & is_bent[:, None]).sum() - cast.sum()
        score = float(cast.sum() / (1 + cast.sum() + idle))
        if score > best:
            best, found = score, np.isin(np.arange(count), subset)
    return found


def shows_higher(survey: Survey) -> bool:
    return any(part.errors.size for part in survey.others)
