"""Two networks, equal by construction or different: is the answer of `compare` ever wrong, and how often is there none?

A pair is made of a random network and a copy that is scaled, sorted, split, given linear pairs that cancel, or given
units with weights up to 1e12 that cancel, in floating point, so that the copy is equal up to rounding. Half of the pairs are
then made different: one weight of the copy changes by one part in 1e6 to 1e12. A wrong "equal" or "different" must
not occur; "not decided" is counted, apart for pairs without large cancelling terms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _table import Line, Rows, gather, run_sections

import planted
from planted import TwoLayerNetwork

Move = Callable[[TwoLayerNetwork, np.random.Generator], TwoLayerNetwork]
ACTIVATIONS = ("relu", "relu", "relu", "leaky-relu:0.1", "absolute")
LARGEST = 12.0  # log10 of cancelling weights
MILD = 1e3  # ratio of terms to outputs up to which a pair is well scaled


def draw(rng: np.random.Generator) -> TwoLayerNetwork:
    """A network of one to twelve units, with rows and outputs of different sizes."""
    d, k, m = rng.integers(1, 9), rng.integers(1, 13), rng.integers(1, 4)
    return TwoLayerNetwork(
        rng.standard_normal((k, d)) * 10 ** rng.uniform(-1, 1, (k, 1)),
        rng.standard_normal(k),
        rng.standard_normal((m, k)) * 10 ** rng.uniform(-1, 1, (m, 1)),
        rng.standard_normal(m),
        str(rng.choice(ACTIVATIONS)),
    )


def changed(net: TwoLayerNetwork, **parts: Any) -> TwoLayerNetwork:
    values = {"W": net.W, "b": net.b, "A": net.A, "c": net.c, "activation": net.activation}
    return TwoLayerNetwork(**{**values, **parts})


def scale(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    by = np.exp(rng.uniform(-5, 5, net.n_hidden))
    return changed(net, W=net.W * by[:, None], b=net.b * by, A=net.A / by)


def normalise(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    norms = np.linalg.norm(net.W, axis=1)
    return changed(net, W=net.W / norms[:, None], b=net.b / norms, A=net.A * norms)


def sort(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    order = rng.permutation(net.n_hidden)
    return changed(net, W=net.W[order], b=net.b[order], A=net.A[:, order])


def split(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    share, by = rng.uniform(0.1, 0.9, net.n_hidden), np.exp(rng.uniform(-2, 2, net.n_hidden))
    return changed(
        net,
        W=np.concatenate([net.W, net.W * by[:, None]]),
        b=np.concatenate([net.b, net.b * by]),
        A=np.concatenate([net.A * share, net.A * (1 - share) / by], axis=1),
    )


def add_linear_pairs(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    """Add f(t) - f(-t) = 2 slope t, and take it away by a pair elsewhere."""
    w, o, v = (
        rng.standard_normal((1, net.n_features)),
        rng.standard_normal(1),
        rng.standard_normal((net.n_outputs, 1)),
    )
    by = np.exp(rng.uniform(-2, 2))
    return changed(
        net,
        W=np.concatenate([net.W, w, -w, by * w, -by * w]),
        b=np.concatenate([net.b, o, -o, by * o + by, -by * o - by]),
        A=np.concatenate([net.A, v, -v, -v / by, v / by], axis=1),
        c=net.c + 2 * net.activation.slope * v[:, 0],
    )


def add_cancelling_terms(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    """Add a unit and its opposite, scaled, with output weights of any size up to 1e12."""
    size, by = 10 ** rng.uniform(0, LARGEST), np.exp(rng.uniform(-2, 2))
    w, o, v = (
        rng.standard_normal((1, net.n_features)),
        rng.standard_normal(1),
        size * rng.standard_normal((net.n_outputs, 1)),
    )
    by = float(rng.choice([1.0, 2.0, by]))  # exact copies among them
    return changed(
        net,
        W=np.concatenate([net.W, w, by * w]),
        b=np.concatenate([net.b, o, by * o]),
        A=np.concatenate([net.A, v, -v / by], axis=1),
    )


def chain(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    for move in rng.permutation([scale, sort, split, add_linear_pairs, add_cancelling_terms, normalise])[:4]:
        net = move(net, rng)
    return net


MOVES: dict[str, Move] = {
    "scaling": scale,
    "unit rows": normalise,
    "permutation": sort,
    "splitting": split,
    "linear pairs": add_linear_pairs,
    "cancelling terms": add_cancelling_terms,
    "several": chain,
}


def damage(net: TwoLayerNetwork, rng: np.random.Generator) -> TwoLayerNetwork:
    """Change one weight that is not zero by one part in 1e6 to 1e12."""
    name = str(rng.choice(["W", "b", "A", "c"]))
    array = np.array(getattr(net, name))
    place = rng.choice(np.flatnonzero(array))
    array.flat[place] *= 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-12, -6)
    return changed(net, **{name: array})


def cancellation(net: TwoLayerNetwork) -> float:
    """How many times larger than the spread of the outputs their terms are, at worst."""
    rows = np.random.default_rng(0).standard_normal((500, net.n_features))
    terms = np.abs(net.A) @ (np.linalg.norm(net.W, axis=1) + np.abs(net.b)) + np.abs(net.c)
    return float((terms / np.maximum(net(rows).std(axis=0), 1e-300)).max())


def run_pair(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 71])
    move = list(MOVES)[seed % len(MOVES)]
    truth = seed // len(MOVES) % 2 == 0
    net = draw(rng)
    copy = MOVES[move](net, rng)
    if not truth:
        copy = damage(copy, rng)
    start = time.process_time()
    answer = planted.compare(net, copy, random_state=seed)
    seconds = time.process_time() - start
    rows = 3 * rng.uniform(-1, 1, (200, net.n_features))
    rounding = 1e-15 * np.abs(copy.A).max() * np.abs(copy.W).max() * 100
    return {
        "seed": seed,
        "move": move,
        "is_equal": truth,
        "answer": answer.is_equal,
        "is_mild": cancellation(copy) < MILD,
        "bound": answer.bound,
        "is_within_bound": bool(np.abs(net(rows) - copy(rows)).max() <= answer.bound + rounding),
        "within_tolerance": planted.compare(net, copy, tol=1e-5, random_state=seed).is_equal,
        "seconds": seconds,
    }


def pairs(seeds: Callable[[int], range]) -> tuple[list[Line], Rows]:
    rows = [run_pair(seed) for seed in seeds(700)]
    equal, different = ([row for row in rows if row["is_equal"] is truth] for truth in (True, False))
    mild = [row for row in rows if row["is_mild"]]
    wrong_equal = sum(row["answer"] is True for row in different)
    wrong_different = sum(row["answer"] is False for row in equal)
    undecided = sum(row["answer"] is None for row in mild)
    rough = sum(row["answer"] is None for row in rows) - undecided
    outside = sum(not row["is_within_bound"] for row in rows)
    coarse = sum(row["within_tolerance"] is False for row in equal)
    slowest = max(row["seconds"] for row in rows)
    lines = [
        Line("different pairs called equal: none", f"{wrong_equal}/{len(different)}", wrong_equal == 0),
        Line("equal pairs called different: none", f"{wrong_different}/{len(equal)}", wrong_different == 0),
        Line("equal pairs called different at 1e-5: none", f"{coarse}/{len(equal)}", coarse == 0),
        Line("differences above the proved bound: none", f"{outside}/{len(rows)}", outside == 0),
        Line(
            "well-scaled pairs not decided: at most 5 %",
            f"{undecided}/{len(mild)}",
            undecided <= 0.05 * len(mild),
        ),
        Line(
            "pairs with large cancelling terms not decided",
            f"{rough}/{len(rows) - len(mild)}",
            True,
        ),
        Line("slowest comparison below a second", f"{slowest:.2f} s", slowest < 1),
    ]
    return lines, rows


if __name__ == "__main__":
    run_sections("comparison", __doc__ or "", {"pairs": gather(pairs)})
