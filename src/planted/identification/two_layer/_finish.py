"""The last steps of a two-layer network: the scale of the questions, refinement on all answers, the units of the inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planted._typing import Array
from planted.identification._grid import Grid, find_grid
from planted.identification._session import Domain, QuerySession
from planted.identification.two_layer._refine_answers import (
    Deviation,
    largest_standard_error,
    refine_on_answers,
)
from planted.identification.two_layer._search import (
    COARSE,
    STEPS_OFF,
    BlackBox,
    Identification,
    Refusal,
    check_network,
)
from planted.networks import TwoLayerNetwork

__all__ = ["choose_scale", "finish_network"]

REFINED_ROWS = 20_000
REFINED_RADII = 8.0  # questions farther out carry larger rounding errors and are left out of the refinement
PER_PARAMETER = 4  # questions at typical inputs after a search farther out
ON_HYPERPLANES = 4  # questions on each hyperplane after a search farther out
N_GRID = 40  # further questions if the first answers lie on a grid
WIDENINGS = 4  # of the scale, at most
LARGER = 2.0**12  # by which the scale is widened at once, at most
FINE_GRID = 1e-8  # the step of a grid, relative to the outputs' spread, at which steps do not matter


def choose_scale(
    box: BlackBox, answers: Array, rng: np.random.Generator, *, fine: float = FINE_GRID
) -> tuple[Grid, float]:
    """Find the grid of the answers, and how many times farther out to ask so that its steps are `fine` or smaller.

    Answers with decimals have the same rounding error everywhere, while the function grows with the distance. No further
    question is asked if the first answers are on no grid.
    """
    grid, larger = find_grid(answers), 1.0
    if not grid.words and np.unique(answers).size >= len(answers):
        return grid, larger
    for _ in range(WIDENINGS):
        answers = box.ask(box.snap(larger * box.draw(N_GRID, rng)))
        grid = find_grid(answers)
        spread = answers.std(axis=0)
        smallest = float(spread[spread > 0].min(initial=np.inf))
        if box.has_box or (not grid.words and np.isfinite(smallest)):
            break
        factor = grid.step / (max(fine, grid.relative) * smallest) if np.isfinite(smallest) else LARGER
        larger *= 2.0 ** np.ceil(np.log2(min(max(factor, 1.0), LARGER)))
        if factor < LARGER:
            break
    return grid, larger


def finish_network(
    session: QuerySession,
    domains: tuple[Domain, Domain],
    found: Identification,
    near: BlackBox,
    rng: np.random.Generator,
) -> Identification | Refusal:
    """Refine the network and write it in the units of the inputs; what was not checked at these inputs is checked."""
    domain, wide = domains
    larger = float((wide.scale / domain.scale).max())
    if larger > 1 and not found.misfits:  # biases show at typical inputs
        count = min(PER_PARAMETER * found.network.n_parameters, REFINED_ROWS)
        near.ask(near.snap(near.draw(count, rng)))
    refined, deviation = _refine(session, wide, found)
    network = wide.restore(refined)
    if found.misfits or (refined is found.network and larger == 1.0):
        return replace(found, network=network)
    rounding = replace(found.rounding, radius=found.rounding.radius * larger)
    is_refined = refined is not found.network
    checks = check_network(near, domain.adapt(network), rounding, rng, is_fine=is_refined and larger > 1)
    if larger > 1 and is_refined and not checks.misfits:
        refusal = _refuse_smooth(near, domain.adapt(network), rng)
        if refusal is not None:
            return refusal
    return replace(
        found,
        network=network,
        deviation=deviation,
        n_attempts=1,
        misfits=checks.misfits,
        largest_misfit=checks.largest,
    )


def _refuse_smooth(box: BlackBox, network: TwoLayerNetwork, rng: np.random.Generator) -> Refusal | None:
    """Refuse a function that bends smoothly where it seemed to break from far away: ask on its hyperplanes."""
    rows = box.draw(ON_HYPERPLANES * network.n_hidden, rng)
    W, b = (np.repeat(part, ON_HYPERPLANES, axis=0) for part in (network.W, network.b))
    rows -= ((np.einsum("nd,nd->n", rows, W) + b) / np.einsum("nd,nd->n", W, W))[:, None] * W
    rows = box.snap(rows[np.linalg.norm(rows, axis=1) <= REFINED_RADII * np.sqrt(box.n_features)])
    if not len(rows):
        return None
    truth = box.ask(rows)
    steps = np.abs(truth - network(rows)) / box.grid.steps(np.abs(truth))
    off = int((steps.max(axis=1) > STEPS_OFF).sum())
    if off == 0:
        return None
    return Refusal(
        f"it bends smoothly: {off} of {len(rows)} answers on its hyperplanes are up to {steps.max():.3g} steps of their "
        f"rounding ({box.grid.words}) away from a break"
    )


def _refine(
    session: QuerySession, domain: Domain, found: Identification
) -> tuple[TwoLayerNetwork, Deviation | None]:
    """Refine on the answers that are not too far out, where rounding is coarse enough to be averaged over.

    Returns the network in the units of the search, and its standard errors in those of the inputs.
    """
    net = found.network
    if found.misfits or net.n_hidden == 0 or found.orientation.shares is None:
        return net, None
    if found.orientation.residual > 0 or found.orientation.doubled.all():
        return net, None  # a linear part or leaky units: pairs of units are not refined one by one
    if (
        found.rounding.relative <= COARSE
    ):  # least squares over many answers would only add to the jumps' rounding
        return net, None
    X, Y = (np.concatenate(parts) for parts in zip(*session.kept, strict=True))
    Z = (X - domain.centre) / domain.scale
    near = np.flatnonzero(np.linalg.norm(Z, axis=1) <= REFINED_RADII * found.rounding.radius)
    near = near[:: 1 + len(near) // REFINED_ROWS]
    errors = found.rounding.at(Z[near])
    refined = refine_on_answers(Z[near], Y[near], net, errors=errors)
    final = domain.restore(refined)
    norms = np.linalg.norm(final.W, axis=1)
    final = TwoLayerNetwork(final.W / norms[:, None], final.b / norms, final.A * norms, final.c)
    return refined, largest_standard_error(X[near], Y[near], final, errors=errors)
