"""Families of noiseless problems, each aimed at one inequality of the certificate, with all parameters drawn.

A family is a function from a random generator to a problem of `calibration.py`: inputs, outputs, the truth (None where no
network made the data) and how an answer is judged. Where the samples allow several networks, the truth is the one that
made them, and any other claim is false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from planted import TwoLayerNetwork, simulate

if TYPE_CHECKING:
    from calibration import Problem

Family = Callable[[np.random.Generator], "Problem"]


def draw_network(
    rng: np.random.Generator, *, d: int = 0, m: int = 0, law: str = "gaussian"
) -> TwoLayerNetwork:
    """Draw a small network whose units are on in 30 to 70 per cent of the inputs of a law."""
    d, k = d or int(rng.integers(2, 6)), int(rng.integers(2, 5))
    m = m or int(rng.choice([1, k, k + 1]))
    design = {"outputs": "magnitudes"} if m < k else {}
    return simulate.teacher(
        d, k, m, activity=(0.3, 0.7), law=law, random_state=int(rng.integers(2**31)), **design
    )


def draw_inputs(
    rng: np.random.Generator, net: TwoLayerNetwork, multiple: float = 8, *, law: str = "gaussian"
) -> np.ndarray:
    """Draw some multiple of the fewest samples that can determine a network."""
    limit = simulate.information_limit(net.n_features, net.n_hidden, net.n_outputs)
    n = int(np.ceil(max(multiple * limit, multiple * (net.n_features + 1) / 0.3)))
    return simulate.inputs(n, net.n_features, law=law, random_state=int(rng.integers(2**31)))


def small_output(rng: np.random.Generator) -> Problem:
    """One output is of another kind, on a scale that the pooled spread does not see."""
    net = draw_network(rng, m=int(rng.integers(2, 5)))
    X = draw_inputs(rng, net, 10)
    Y = net(X)
    other = (np.sin(3 * X[:, 0]) * X[:, 1], X[:, 0] * X[:, 1], np.tanh(2 * X[:, 0] + X[:, 1]))
    Y[:, int(rng.integers(Y.shape[1]))] = 10.0 ** -rng.uniform(8.5, 13) * other[int(rng.integers(3))]
    return X, Y, None, "mis-specified"


def uneven_outputs(rng: np.random.Generator) -> Problem:
    """All outputs are of one network, on scales that differ by many decades."""
    net = draw_network(rng, m=int(rng.integers(4, 7)))
    scales = 10.0 ** -rng.uniform(0, 9, net.n_outputs)
    scales[0] = 1.0
    net = TwoLayerNetwork(net.W, net.b, net.A * scales[:, None])
    X = draw_inputs(rng, net)
    return X, net(X), net, "exact"


def small_region(rng: np.random.Generator) -> Problem:
    """A ripple in the samples nearest to a point, far below the spread of the outputs."""
    net = draw_network(rng)
    net = TwoLayerNetwork(net.W, None, net.A)
    X = draw_inputs(rng, net, 10)
    X = X * 10.0 ** rng.uniform(-9, 0, (len(X), 1))
    near = np.linalg.norm(X, axis=1)
    reach = np.quantile(near, rng.uniform(0.2, 0.5))
    Y = net(X)
    ripple = np.where(near < reach, np.sin(20 * X[:, 0] / reach), 0.0)
    Y[:, 0] += 10.0 ** -rng.uniform(9.5, 11) * Y.std() * ripple
    return X, Y, None, "mis-specified"


def gap(rng: np.random.Generator) -> Problem:
    """Two or three kinks between two groups of samples that look like one, with kinks elsewhere."""
    d = int(rng.choice([1, 1, 2, 3]))
    half = rng.uniform(0.5, 1.5)
    n = int(rng.integers(60, 300))
    X = rng.uniform(-3, 3, (n, d))
    w = np.zeros(d)
    w[0] = 1.0
    if d > 1 and rng.random() < 0.5:
        w = rng.standard_normal(d)
        w /= np.linalg.norm(w)
    t = X @ w
    X = X + (np.sign(t) * half)[:, None] * w
    places = rng.uniform(-0.9 * half, 0.9 * half, int(rng.integers(2, 4)))
    m = int(rng.integers(1, 4))
    sizes = rng.uniform(0.5, 2, (len(places), 1)) * rng.standard_normal((1, m))
    elsewhere = np.array([half + 1.0, -half - 1.0])[: int(rng.integers(0, 3))]
    W = np.vstack([np.tile(w, (len(places), 1)), np.tile(w, (len(elsewhere), 1))])
    A = np.vstack([sizes, rng.standard_normal((len(elsewhere), m))]).T
    net = TwoLayerNetwork(W, -np.concatenate([places, elsewhere]), A)
    return X, net(X), net, "unidentifiable"


def singular(rng: np.random.Generator) -> Problem:
    """A direction of one unit leaves no trace, exactly: on its side of the kink the inputs lie in a plane."""
    net = draw_network(rng, d=int(rng.integers(3, 6)))
    X = draw_inputs(rng, net, 10)
    kind = int(rng.integers(3))
    if kind == 0:  # on the side of unit 0 one direction is a multiple of the unit itself, plus a constant
        on = net.patterns(X)[:, 0]
        v = rng.standard_normal(net.n_features)
        v -= net.W[0] * (v @ net.W[0]) / (net.W[0] @ net.W[0])
        v /= np.linalg.norm(v)
        level = rng.uniform(-1, 1)
        X[on] += np.outer(level - X[on] @ v, v)
    elif kind == 1:  # an input that is a linear function of others wherever the unit is on
        weights = rng.standard_normal(net.n_features - 1)
        W = net.W.copy()
        W[0, -1] = 0.0
        net = TwoLayerNetwork(W, net.b, net.A)
        on = net.patterns(X)[:, 0]
        X[on, -1] = X[on, :-1] @ weights
    else:  # inputs that depend on one another everywhere
        weights = rng.standard_normal(net.n_features - 1)
        X[:, -1] = X[:, :-1] @ weights
    return X, net(X), net, "unidentifiable"


def ill_conditioned(rng: np.random.Generator) -> Problem:
    """Unique, but one unit is seen off by a narrow strip only, or two units are close to each other."""
    net = draw_network(rng)
    X = draw_inputs(rng, net, 12)
    W, b = net.W.copy(), net.b.copy()
    W[1] = W[0] + 10.0 ** -rng.uniform(1, 6) * rng.standard_normal(net.n_features)
    b[1] = b[0] + (1 if rng.random() < 0.5 else 10.0 ** -rng.uniform(1, 6)) * 0.1 * rng.standard_normal()
    net = TwoLayerNetwork(W, b, net.A)
    return X, net(X), _merged(net, X), "unidentifiable"


def _merged(net: TwoLayerNetwork, X: np.ndarray) -> TwoLayerNetwork:
    """Write the first two units as one where no sample of a single output tells them apart."""
    on = net.patterns(X)
    if net.n_outputs > 1 or (on[:, 0] != on[:, 1]).any():
        return net
    w, b = net.A[0, :2] @ net.W[:2], net.A[0, :2] @ net.b[:2]
    sign = np.sign(net.A[0, 0] + net.A[0, 1])
    W, biases = np.vstack([sign * w, net.W[2:]]), np.append(sign * b, net.b[2:])
    one = TwoLayerNetwork(W, biases, np.append(sign, net.A[0, 2:])[None])
    return one if np.allclose(one(X), net(X), rtol=0, atol=1e-12) else net


def collinear(rng: np.random.Generator) -> Problem:
    """Two inputs that are nearly the same."""
    net = draw_network(rng)
    X = draw_inputs(rng, net, 10)
    X[:, 1] = X[:, 0] + 10.0 ** -rng.uniform(2, 9) * rng.standard_normal(len(X))
    middle = np.median(X @ net.W.T, axis=0)
    net = TwoLayerNetwork(net.W, -middle + 0.3 * rng.standard_normal(net.n_hidden), net.A)
    return X, net(X), net, "unidentifiable"


def many_kinks(rng: np.random.Generator) -> Problem:
    """One input and many units; every linear piece holds at least four samples."""
    k, m = int(rng.integers(3, 21)), int(rng.integers(1, 4))
    pieces = rng.integers(4, 12, k + 1)
    edges = np.concatenate([[0.0], np.cumsum(rng.uniform(0.5, 1.5, k + 1))])
    parts = [rng.uniform(edges[i], edges[i + 1], count) for i, count in enumerate(pieces)]
    X = rng.permutation(np.concatenate(parts))[:, None] - edges[-1] / 2
    signs = rng.choice([-1.0, 1.0], k)
    kinks = edges[1:-1] - edges[-1] / 2
    A = rng.uniform(0.5, 2, (m, k)) * rng.choice([-1.0, 1.0], (m, k))
    net = TwoLayerNetwork(signs[:, None], -signs * kinks, A)
    return X, net(X), net, "exact"


def heavy_tails(rng: np.random.Generator) -> Problem:
    """Inputs with the tails of Cauchy's law, or products of powers of ten."""
    net = draw_network(rng)
    X = draw_inputs(rng, net, 10)
    if rng.random() < 0.5:
        X = rng.standard_t(rng.uniform(1.0, 2.5), X.shape)
    else:
        X = np.sign(X) * np.exp(rng.uniform(1.0, 2.5) * np.abs(X))
    b = -np.array([np.quantile(X @ w, rng.uniform(0.35, 0.65)) for w in net.W])
    net = TwoLayerNetwork(net.W, b, net.A)
    return X, net(X), net, "exact"


def float32_labels(rng: np.random.Generator) -> Problem:
    """Labels that were stored in single precision."""
    net = draw_network(rng)
    X = draw_inputs(rng, net)
    return X, net(X).astype(np.float32).astype(float), net, "rounded"


def computed_labels(rng: np.random.Generator) -> Problem:
    """Labels that were computed in single precision from weights of single precision, units scaled at random."""
    base = draw_network(rng)
    X = draw_inputs(rng, base)
    scale = rng.uniform(0.3, 3.0, base.n_hidden)
    W, b, A = ((base.W.T * scale).T, base.b * scale, base.A / scale)
    W, b, A = (part.astype(np.float32) for part in (W, b, A))
    X = X.astype(np.float32)
    Y = np.maximum(X @ W.T + b, np.float32(0)) @ A.T
    net = TwoLayerNetwork(*(part.astype(float) for part in (W, b, A)))
    return X.astype(float), Y.astype(float), net, "rounded"


def rounded_labels(rng: np.random.Generator) -> Problem:
    """Labels with four to eleven decimals, or of half precision."""
    net = draw_network(rng)
    X = draw_inputs(rng, net, 12)
    if rng.random() < 0.2:
        return X, net(X).astype(np.float16).astype(float), net, "rounded"
    return X, np.round(net(X), int(rng.integers(4, 12))), net, "rounded"


def cut_decimals(rng: np.random.Generator) -> Problem:
    """Labels with three to eight decimals that were cut off, downwards or towards zero, and not rounded."""
    net = draw_network(rng)
    X = draw_inputs(rng, net, 12)
    steps = 10.0 ** int(rng.integers(3, 9))
    cut = np.floor if rng.random() < 0.5 else np.trunc
    return X, cut(net(X) * steps) / steps, net, "cut off"


def term_in_rounding(rng: np.random.Generator) -> Problem:
    """Rounded labels with a smooth term of one to ten steps of the grid."""
    net = draw_network(rng)
    X = draw_inputs(rng, net, 12)
    t = X @ rng.standard_normal((net.n_features, 1)) / np.sqrt(net.n_features)
    others = (np.sin(3 * X[:, :1]), X[:, :1] * X[:, 1:2], X[:, :1] ** 2, np.sin(2 * t), np.tanh(2 * t))
    other = others[int(rng.integers(len(others)))]
    if rng.random() < 0.3:  # in one of the outputs
        other = other * (np.arange(net.n_outputs) == rng.integers(net.n_outputs))
    size = float(10.0 ** rng.uniform(0, 1))
    if rng.random() < 0.5:
        return X, (net(X) + 1.2e-7 * size * other).astype(np.float32).astype(float), None, "mis-specified"
    decimals = int(rng.integers(4, 11))
    return X, np.round(net(X) + 10.0**-decimals * size * other, decimals), None, "mis-specified"


def constant_outputs(rng: np.random.Generator) -> Problem:
    """Some outputs, or all of them, are constant."""
    net = draw_network(rng, m=int(rng.integers(3, 6)))
    X = draw_inputs(rng, net)
    constants = int(rng.integers(1, net.n_outputs + 1))
    A, c = net.A.copy(), np.zeros(net.n_outputs)
    A[:constants] = 0.0
    c[:constants] = rng.choice([0.0, 1.0]) * rng.standard_normal(constants)
    net = TwoLayerNetwork(net.W, net.b, A, c)
    return X, net(X), net, "unidentifiable"


def offset_inputs(rng: np.random.Generator) -> Problem:
    """Inputs far from zero: their own rounding is the largest error there is."""
    net = draw_network(rng)
    X = draw_inputs(rng, net, 10)
    shift = 10.0 ** rng.uniform(2, 8, net.n_features)
    X = X + shift
    b = net.b - net.W @ shift
    net = TwoLayerNetwork(net.W, b, net.A)
    return X, net(X), net, "unidentifiable"


FAMILIES: dict[str, Family] = {
    "small_output": small_output,
    "uneven_outputs": uneven_outputs,
    "small_region": small_region,
    "gap": gap,
    "singular": singular,
    "ill_conditioned": ill_conditioned,
    "collinear": collinear,
    "many_kinks": many_kinks,
    "heavy_tails": heavy_tails,
    "float32_labels": float32_labels,
    "computed_labels": computed_labels,
    "rounded_labels": rounded_labels,
    "cut_decimals": cut_decimals,
    "term_in_rounding": term_in_rounding,
    "constant_outputs": constant_outputs,
    "offset_inputs": offset_inputs,
}
