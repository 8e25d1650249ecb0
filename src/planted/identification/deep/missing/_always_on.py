"""A unit of the last hidden layer that is nearly always on, from the linear part that the others leave.

A unit that is nearly always on is off at too few places to fit its row to answers there. But all of its row is in the linear
part. With several outputs, what is left where it is off shows in which proportion a its outputs change. Across a, the linear
part is that of the other units and orients them; along a, what they leave is its row. With one output the other units might
as well be turned round.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array, BoolArray
from planted.identification.deep._top import NO_REST, orientations
from planted.identification.deep.missing._rows import GAP_ALIKE, ROUGHLY, SURE
from planted.identification.deep.missing._units import LastUnits

__all__ = ["unit_always_on"]

ALONG = 3  # places at which outputs are off in the same proportion, at least


def unit_always_on(
    units: LastUnits, coefficients: Array, H: Array, left: Array, off: BoolArray
) -> LastUnits | None:
    """Return the unit; None if there is none. Its bias is the same at all places where it is off.

    `H`: the layer below at all answers. `left`: what eq. (1) of `_search` leaves of them. `off`: where that does not vanish.
    """
    (k, p), m = units.rows.shape, coefficients.shape[1]
    seen = (H[~off] > 0).any(axis=0)
    whole = np.asarray(units.known.all(axis=0) & seen)
    columns = np.einsum("km,kp->mpk", units.alphas, units.rows)
    linear = coefficients[k : k + p].T
    for along in _directions(left[off]) if m > 1 else []:
        across = np.linalg.svd(along[None])[2][1:]
        system = np.einsum("om,mpk->opk", across, columns[:, whole]).reshape(-1, k)
        ups, is_unique, over = orientations(system, (across @ linear[:, whole]).ravel(), NO_REST)
        if not is_unique or over > NO_REST:
            continue
        rest = linear - columns @ ups
        row, known = along @ rest, whole.copy()
        for i in np.flatnonzero(~whole & seen):  # gaps of units that are on beyond them have a part in it
            gaps = np.flatnonzero(~units.known[:, i] & (units.mostly == ups))
            parts = np.column_stack([along, units.alphas[gaps].T])
            known[i] = np.linalg.matrix_rank(parts) == parts.shape[1]
            row[i] = np.linalg.lstsq(parts, rest[:, i], rcond=None)[0][0] if known[i] else 0.0
        own = off & (np.abs(left @ across.T).max(axis=1) <= ROUGHLY * np.linalg.norm(left, axis=1))
        own &= ~(H[:, ~known] > 0).any(axis=1)
        biases = -left[own] @ along - H[own] @ row
        size = float(np.linalg.norm(row * known))
        if own.sum() < ALONG or not size:
            continue
        bias = float(np.median(biases))
        if np.mean(np.abs(biases - bias) > GAP_ALIKE * size) > 1 - SURE:
            continue
        side = float(np.sign(np.median(left[own] @ along)))  # the unit is off there
        row, bias, strengths = side * row * known / size, side * bias, side * along * size / 2
        return LastUnits(row[None], np.array([bias / size]), known[None], strengths[None], np.zeros(1))
    return None


def _directions(left: Array) -> list[Array]:
    """Unit vectors along which several of some rows lie, those with most rows first."""
    sizes = np.linalg.norm(left, axis=1)
    units = left[sizes > 0] / sizes[sizes > 0, None]
    found = []
    while len(units) >= ALONG:
        near = np.abs(units @ units.T) > 1 - ROUGHLY
        best = int(near.sum(axis=1).argmax())
        if near[best].sum() < ALONG:
            break
        found.append(np.asarray(np.linalg.svd(units[near[best]], full_matrices=False)[2][0]))
        units = units[~near[best]]
    return found
