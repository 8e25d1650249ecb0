r"""Refine a rough network on answers in single precision, bound the error of every parameter, and check it.

The error of an answer that was computed in single precision is made by its sums: with u = 2⁻²⁴ it is at most a few u times

.. math:: g(x) = |A| (|W_2| (|W_1| |x| + |b_1|) + |b_2|) + |c|                                             \quad (1)

and usually a fraction of u g. Least squares over all answers, each in units of u g, therefore has errors of one size, s. It
is estimated from what the fit leaves. The covariance of the fit, with
the scales of the hidden units fixed by unit rows, bounds the error of each parameter:

.. math:: \Sigma = s^2 (J'J + C'C)^{-1}, \qquad C\delta = (w_i'\delta w_i)_i                                 \quad (2)

Fresh answers at random places, and one on every piece of fresh lines, must be within u g, and within `OUTLIER` times the
usual error. A missing unit changes more, unless its part is as small as the rounding errors themselves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from planted._typing import Array
from planted.identification.deep._space import Records
from planted.identification.deep.ending._finish import (
    DeepFinding,
    line_places,
    one_sided_units,
    rare_places,
    rescaled,
)
from planted.identification.deep.ending._polish import jacobian, polish
from planted.identification.deep.stages._state import Reading
from planted.identification.two_layer._search import N_CHECKS, BlackBox, Checks
from planted.networks import DeepNetwork

__all__ = ["finish_single"]

UNIT = 2.0**-24  # the rounding error of single precision
FRESH, AGAIN = 4.0, 3.0  # equations for each parameter, fresh ones and from earlier questions
ROUNDS = 3  # of polishing
LARGEST_ERROR = 1.0  # u g: a larger error is not made by the arithmetic of single precision
OUTLIER = 12.0  # times the largest of a row, in the mean: an answer that is off by more was not foretold
SIGMAS = 8.0  # standard errors that bound the error of a parameter
SINGULAR = 1e-13  # of the normal matrix with unit diagonal: some parameter is not determined
LINES = 3  # fresh ones
BLOCK = 2_000_000  # numbers of the Jacobian at a time


def finish_single(
    reading: Reading, records: Records, scale: Array, *, rng: np.random.Generator
) -> DeepFinding:
    """Refine the network of a complete reading on fresh answers, bound its errors and check it on others.

    `scale`: units of the search, in which the bound is not.
    """
    assert reading.top is not None and reading.rounding is not None
    net = DeepNetwork([*reading.layers, reading.top.output])
    box = replace(records.box, ask=records.ask)
    per_row = net.n_parameters / net.n_outputs
    old_X, old_Y = records.all()
    near = np.flatnonzero(np.linalg.norm(old_X, axis=1) <= 8 * np.sqrt(box.n_features))
    again = rng.permutation(near)[: int(AGAIN * per_row)]
    rows = box.draw(int(FRESH * per_row) + 40, rng)
    rows = box.snap(rows * 2.0 ** rng.uniform(-1, 2, (len(rows), 1)))
    rows = np.concatenate([rows, box.snap(rare_places(net, rows, old_X, box, rng))])
    X, Y = np.concatenate([old_X[again], rows]), np.concatenate([old_Y[again], records.ask(rows)])
    for _ in range(ROUNDS):
        net = polish(net, X, Y, 1.0 / _sizes(net, X))
    errors = _sizes(net, X)
    left = (Y - net(X)) / errors[:, None]
    free = max(left.size - net.n_parameters + sum(net.widths[1:-1]), 1)
    size = float(np.sqrt((left**2).sum() / free))
    highest = float(np.sqrt((left**2).max(axis=1).mean()))
    checks, (off, on), fresh = _check(net, box, min(OUTLIER * highest, LARGEST_ERROR), rng)
    s = max(size, fresh)
    outer = rescaled(net, 1 / scale)
    bound = SIGMAS * s * _largest_deviation(outer, X * scale, errors) + 2 * UNIT
    sides = one_sided_units(net, np.concatenate([old_X, X]))
    return DeepFinding(net, checks, off, on, -1, sides, reading.rounding, bound, "single precision")


def _sizes(net: DeepNetwork, X: Array) -> Array:
    """The errors u g by eq. (1), of the output with the largest one, shape (n,)."""
    size = np.abs(X)
    for W, b in net.layers:
        size = size @ np.abs(W).T + np.abs(b)
    return np.asarray(UNIT * size.max(axis=1))


def _check(
    net: DeepNetwork, box: BlackBox, most: float, rng: np.random.Generator
) -> tuple[Checks, tuple[int, int], float]:
    """Compare fresh answers at random places, and on the pieces of fresh lines, with the network's; and their size s.

    `most`: by how many u g an answer may be off.
    """
    rows = box.snap(box.draw(N_CHECKS, rng) * 2.0 ** rng.uniform(-2, 2, (N_CHECKS, 1)))
    on_lines = box.snap(np.concatenate([line_places(net, box, rng) for _ in range(LINES)]))
    truth, along = box.ask(rows), box.ask(on_lines)
    left = truth - net(rows)
    gap, spread = np.abs(left), truth.std(axis=0)
    sizes = _sizes(net, rows)
    over = gap.max(axis=1) / sizes
    off = np.abs(along - net(on_lines)).max(axis=1) / _sizes(net, on_lines) > most
    largest = float((gap / np.where(spread > 0, spread, 1.0)).max())
    worst, offset = rows[int(np.argmax(over))], np.median(left, axis=0)
    checks = Checks(int((over > most).sum()), largest, worst, None, offset)
    return checks, (int(off.sum()), len(on_lines)), float(np.sqrt(((gap / sizes[:, None]) ** 2).mean()))


def _largest_deviation(net: DeepNetwork, X: Array, errors: Array) -> float:
    """The largest standard error of a parameter of the network with unit rows for s = 1, by eq. (2)."""
    net = net.canonical()
    count = sum(W.size + b.size for W, b in net.layers)
    normal = np.zeros((count, count))
    block = max(1, BLOCK // (count * net.n_outputs))
    for start in range(0, len(X), block):
        part = slice(start, start + block)
        J = jacobian(net, X[part]) / np.repeat(errors[part], net.n_outputs)[:, None]
        normal += J.T @ J
    size = np.sqrt(np.diag(normal))
    if (size == 0).any():
        return float("inf")
    start = 0
    for W, b in net.layers[:-1]:
        for unit, row in enumerate(W):
            where = slice(start + unit * row.size, start + (unit + 1) * row.size)
            normal[where, where] += np.outer(row, row) * np.abs(normal[where, where]).max()
        start += W.size + b.size
    size = np.sqrt(np.diag(normal))
    values, vectors = linalg.eigh(normal / np.outer(size, size))
    if values[0] < SINGULAR * values[-1]:
        return float("inf")
    return float((np.sqrt(((vectors / np.sqrt(values)) ** 2).sum(axis=1)) / size).max())
