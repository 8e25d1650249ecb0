"""Families of noisy problems that were once claimed falsely, and laws of noise under which intervals must cover.

Every family draws a problem from a generator: `FAMILIES[name](rng)` returns inputs, outputs, the truth (None where no
ReLU network of any width is the truth) and the kind by which `calibration.judge` judges an answer.

rare_unit           a strong unit that is on in 6 to 14 samples, under noise without a variance
rare_unit_gross     the same under normal noise and gross errors, for `half-spaces`
smooth_activation   tanh, softplus, GELU, SiLU or ELU in place of ReLU, with noise
noisy_inputs        noise of 20 to 35 per cent on the inputs
one_noisy_input     noise of 20 to 50 per cent on one input, the others exact
lost_direction      two inputs that are nearly the same, so that noise takes the place of weights along their difference
uneven_inputs       inputs whose spreads differ by up to ten thousand, some without a weight
copied_rows         every row two to five times, with its label and noise
cut_labels          labels with noise that end at a limit: 3 to 25 per cent of them equal it
lost_labels         2 to 15 per cent of the labels are zero, with noise or without
other_powers        units t^p in place of ReLU, p from 0.75 to 1.3: where noise hides the power, parameters must be right
bent_labels         labels that saturate, L tanh(f / L) with L of one to four times the largest output
lost_rows           rows missing where the label of one output is large, sharply or softly
drifting_rows       an offset, or the size of the outputs, that drifts from the first row to the last, or jumps at one
coarse_labels       labels of few values, rounded or cut off downwards, with noise
further_term        a sine, a product of two inputs or a square beside the network, of 5 to 50 per cent of the noise
power_term          a square, cube or fourth power of one direction beside the network, of 10 to 100 per cent of the noise
close_units         two units 6 to 35 degrees apart, their output weights less than 45, noise of 3 to 40 per cent
grouped_rows        groups of 2 to 12 rows that share some inputs, and 5 to 50 per cent of the noise's variance
loud_noise          noise of 20 to 60 per cent on few samples, which hides units near others or weaker than they
correlated_rows     inputs and noise that both follow those of the row before
one_sided_errors    1 to 5 per cent of the labels are too large, by 3 to 10 standard deviations of the noise
ordinary, laplace_noise, t4_noise, unequal_noise, proportional_noise, autocorrelated_noise, label_dropout
                    ReLU networks under a law of noise: claims must be right, and intervals must cover
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import signal, special

from planted import TwoLayerNetwork, simulate

__all__ = ["FAMILIES", "Problem"]

Problem = tuple[np.ndarray, np.ndarray, TwoLayerNetwork | None, str]
SMOOTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "softplus": lambda t: np.logaddexp(0.0, t),
    "gelu": lambda t: t * special.ndtr(t),
    "silu": lambda t: t * special.expit(t),
    "elu": lambda t: np.where(t > 0, t, np.expm1(np.minimum(t, 0.0))),
}


def draw_teacher(rng: np.random.Generator, *, scalar: bool = False) -> TwoLayerNetwork:
    """Draw a small network whose units are on in 30 to 70 per cent of normal inputs."""
    d, k = int(rng.integers(3, 7)), int(rng.integers(2, 5))
    m = 1 if scalar else k + int(rng.integers(0, 3))
    design = {"outputs": "magnitudes"} if scalar else {}
    return simulate.teacher(d, k, m, activity=(0.3, 0.7), random_state=rng, **design)


def rare_unit(rng: np.random.Generator) -> Problem:
    X, Y, net = _with_rare_unit(rng)
    scale = float(rng.uniform(0.02, 0.1))
    return X, Y + scale * rng.standard_t(1.5, Y.shape), net, "noisy"


def rare_unit_gross(rng: np.random.Generator) -> Problem:
    X, Y, net = _with_rare_unit(rng)
    Y = Y + float(rng.uniform(0.02, 0.1)) * rng.standard_normal(Y.shape)
    is_wrong = rng.random(Y.shape) < rng.uniform(0.0, 0.05)
    return X, Y + is_wrong * rng.normal(0.0, 5.0, Y.shape), net, "noisy"


def _with_rare_unit(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, TwoLayerNetwork]:
    """Add a unit that is on in 6 to 14 samples, ten times as strong as the others."""
    base = draw_teacher(rng)
    n, count = int(rng.integers(400, 601)), int(rng.integers(6, 15))
    X = rng.standard_normal((n, base.n_features))
    w = rng.standard_normal(base.n_features)
    w /= np.linalg.norm(w)
    t = np.sort(X @ w)[::-1]
    a = rng.standard_normal(base.n_outputs)
    a *= float(rng.uniform(5, 20)) / np.linalg.norm(a)
    net = TwoLayerNetwork(
        np.vstack([base.W, w]),
        np.append(base.b, -(t[count - 1] + t[count]) / 2),
        np.column_stack([base.A, a]),
        base.c,
    )
    return X, net(X), net


def smooth_activation(rng: np.random.Generator) -> Problem:
    function = SMOOTH[str(rng.choice(list(SMOOTH)))]
    d, k, m = int(rng.integers(2, 5)), int(rng.integers(1, 3)), int(rng.choice([1, 6, 6]))
    n = int(rng.choice([400, 1200]))
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((k, d))
    W *= rng.uniform(0.7, 2.0, (k, 1)) / np.linalg.norm(W, axis=1, keepdims=True)
    Y = function(X @ W.T + rng.normal(0.0, 0.5, k)) @ rng.standard_normal((k, m))
    level = float(rng.choice([0.03, 0.1, 0.3])) * float(Y.std())
    return X, Y + level * rng.standard_normal(Y.shape), None, "mis-specified"


def noisy_inputs(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([500, 1500, 4000])), net.n_features))
    Y = net(X) + float(rng.choice([0.01, 0.1])) * rng.standard_normal((len(X), net.n_outputs))
    return X + float(rng.uniform(0.2, 0.35)) * rng.standard_normal(X.shape), Y, net, "noisy"


def one_noisy_input(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([500, 1500, 4000])), net.n_features))
    Y = net(X) + float(rng.choice([0.01, 0.1])) * rng.standard_normal((len(X), net.n_outputs))
    X[:, int(rng.integers(net.n_features))] += float(rng.uniform(0.2, 0.5)) * rng.standard_normal(len(X))
    return X, Y, net, "noisy"


def lost_direction(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([300, 1000])), net.n_features))
    X[:, 1] = X[:, 0] + 10.0 ** -rng.uniform(1, 4) * rng.standard_normal(len(X))
    F = net(X)
    return X, F + 10.0 ** -rng.uniform(1, 3) * F.std() * rng.standard_normal(F.shape), net, "noisy"


def uneven_inputs(rng: np.random.Generator) -> Problem:
    base = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    Z = rng.standard_normal((int(rng.choice([500, 1500])), base.n_features))
    F, spread = base(Z), 10.0 ** rng.uniform(-2, 2, base.n_features)
    Y = F + float(rng.choice([0.03, 0.1])) * F.std() * rng.standard_normal(F.shape)
    W = base.W / spread
    norms = np.linalg.norm(W, axis=1)
    net = TwoLayerNetwork(W / norms[:, None], base.b / norms, base.A * norms, base.c)
    return Z * spread, Y, net, "noisy"


def copied_rows(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([300, 700])), net.n_features))
    F = net(X)
    Y = F + float(rng.choice([0.03, 0.1, 0.3])) * F.std() * rng.standard_normal(F.shape)
    rows = rng.permutation(np.repeat(np.arange(len(X)), int(rng.integers(2, 6))))
    return X[rows], Y[rows], net, "noisy"


def cut_labels(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([500, 1500])), net.n_features))
    F = net(X)
    Y = F + float(rng.choice([0.03, 0.1, 0.3])) * F.std(axis=0) * rng.standard_normal(F.shape)
    sign = rng.choice([-1.0, 1.0])
    limit = np.quantile(sign * Y, rng.uniform(0.75, 0.97), axis=0)
    return X, sign * np.minimum(sign * Y, limit), None, "mis-specified"


def lost_labels(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([500, 1500])), net.n_features))
    F, level = net(X), float(rng.choice([0.03, 0.1, 0.3]))
    noise = level * F.std(axis=0) * rng.standard_normal(F.shape)
    lost = rng.random(F.shape) < rng.uniform(0.02, 0.15)
    if rng.random() < 0.5:
        return X, np.where(lost, 0.0, F + noise), net, "noisy"
    return X, np.where(lost, 0.0, F) + noise, net, "noisy"


def _few_or_more(rng: np.random.Generator) -> tuple[np.ndarray, TwoLayerNetwork]:
    """Draw a network of one unit on few inputs, or of several, with inputs; a single kink has the least to tell by."""
    if rng.random() < 0.5:
        net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
        return rng.standard_normal((int(rng.choice([500, 1500])), net.n_features)), net
    d, m, n = int(rng.integers(1, 3)), int(rng.integers(1, 5)), int(rng.integers(200, 600))
    w = rng.standard_normal((1, d))
    weights = rng.choice([-1.0, 1.0], (m, 1)) * rng.uniform(0.6, 1.5, (m, 1))
    X = rng.standard_normal((n, d)) if rng.random() < 0.5 else rng.uniform(-2.0, 2.0, (n, d))
    return X, TwoLayerNetwork(w / np.linalg.norm(w), [rng.uniform(-0.6, 0.6)], weights)


def _with_noise(rng: np.random.Generator, F: np.ndarray) -> np.ndarray:
    return F + float(rng.uniform(0.05, 0.4)) * F.std(axis=0) * rng.standard_normal(F.shape)


def other_powers(rng: np.random.Generator) -> Problem:
    X, net = _few_or_more(rng)
    power = float(rng.uniform(1.03, 1.3) if rng.random() < 0.7 else rng.uniform(0.75, 0.97))
    F = np.maximum(net.preactivations(X), 0.0) ** power @ net.A.T
    return X, _with_noise(rng, F), net, "beside"


def bent_labels(rng: np.random.Generator) -> Problem:
    X, net = _few_or_more(rng)
    F = net(X)
    largest = float(rng.uniform(1.0, 4.0)) * np.abs(F).max(axis=0)
    return X, _with_noise(rng, largest * np.tanh(F / largest)), net, "beside"


def lost_rows(rng: np.random.Generator) -> Problem:
    X, net = _few_or_more(rng)
    Y = _with_noise(rng, net(X))
    judged = Y[:, 0] if rng.random() < 0.5 else -Y[:, 0]
    beyond = (judged - np.quantile(judged, rng.uniform(0.6, 0.95))) / judged.std()
    kept = rng.random(len(X)) > special.expit(float(rng.uniform(1.0, 8.0)) * beyond)
    return X[kept], Y[kept], net, "beside"


def drifting_rows(rng: np.random.Generator) -> Problem:
    X, net = _few_or_more(rng)
    F, place = net(X), np.linspace(0.0, 1.0, len(X))[:, None]
    if rng.random() < 0.3:
        place = (place > rng.uniform(0.1, 0.9)).astype(float)
    kinds = rng.permutation([True, bool(rng.random() < 0.5)])
    size = 1 + kinds[0] * float(rng.uniform(-0.5, 0.5)) * place
    offset = kinds[1] * float(rng.uniform(-0.5, 0.5)) * F.std(axis=0) * place
    return X, _with_noise(rng, size * F + offset), net, "beside"


def coarse_labels(rng: np.random.Generator) -> Problem:
    X, net = _few_or_more(rng)
    F = net(X)
    step = float(rng.uniform(0.05, 0.5)) * F.std(axis=0)
    cut = np.floor if rng.random() < 0.5 else np.round
    return X, cut(_with_noise(rng, F) / step) * step, net, "beside"


def further_term(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([500, 1500])), net.n_features))
    F = net(X)
    t = X @ rng.standard_normal(net.n_features) / np.sqrt(net.n_features)
    terms = (
        np.sin(float(rng.uniform(1.0, 3.0)) * X[:, 0]),
        np.sin(2 * t),
        X[:, 0] * X[:, 1],
        X[:, 0] ** 2 - 1.0,
    )
    term = terms[int(rng.integers(len(terms)))][:, None]
    if rng.random() < 0.3:  # in one of the outputs
        term = term * (np.arange(net.n_outputs) == rng.integers(net.n_outputs))
    level = float(rng.uniform(0.05, 0.4)) * F.std(axis=0)
    noise = level * rng.standard_normal(F.shape)
    return X, F + float(rng.uniform(0.05, 0.5)) * level * term + noise, net, "beside"


def power_term(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    n, d = int(rng.choice([500, 1000, 1500])), net.n_features
    X = rng.standard_normal((n, d)) if rng.random() < 0.5 else rng.uniform(-1.7, 1.7, (n, d))
    F, w = net(X), np.eye(d)[0] if rng.random() < 0.5 else rng.standard_normal(d)
    term = (X @ w / np.linalg.norm(w)) ** int(rng.integers(2, 5))
    weights = np.ones(net.n_outputs) if rng.random() < 0.6 else rng.standard_normal(net.n_outputs)
    level = float(rng.uniform(0.05, 0.4)) * F.std(axis=0)
    size = float(rng.uniform(0.1, 1.0))
    F += size * level * np.outer((term - term.mean()) / term.std(), weights)
    return X, F + level * rng.standard_normal(F.shape), net, "beside"


def close_units(rng: np.random.Generator) -> Problem:
    base = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    d, m = base.n_features, base.n_outputs
    v, u = np.append(base.W[0], base.b[0]), rng.standard_normal(d + 1)
    u -= v * (u @ v) / (v @ v)
    angle = np.deg2rad(rng.uniform(6.0, 35.0))
    v = np.cos(angle) * v + np.sin(angle) * np.linalg.norm(v) / np.linalg.norm(u) * u
    a, across = base.A[:, 0], rng.standard_normal(m)
    across -= a * (across @ a) / (a @ a)
    size = np.linalg.norm(a) / max(np.linalg.norm(across), 1e-9) * (m > 1)
    a = float(rng.uniform(0.4, 1.5)) * (a + np.tan(rng.uniform(0.0, np.pi / 4)) * size * across)
    net = TwoLayerNetwork(
        np.vstack([base.W, v[:d]]), np.append(base.b, v[d]), np.column_stack([base.A, a]), base.c
    )
    X = rng.standard_normal((int(rng.choice([500, 1500, 4000])), d))
    F = net(X)
    return X, F + float(rng.uniform(0.03, 0.4)) * F.std() * rng.standard_normal(F.shape), net, "noisy"


def grouped_rows(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    groups = np.repeat(np.arange(int(rng.integers(80, 200))), int(rng.integers(2, 13)))
    X = rng.standard_normal((len(groups), net.n_features))
    shared = int(rng.integers(1, net.n_features + 1))
    X[:, :shared] = X[groups, :shared]
    F, share = net(X), float(rng.uniform(0.05, 0.5))
    effects, own = (rng.standard_normal(F.shape) for _ in range(2))
    noise = np.sqrt(share) * effects[groups] + np.sqrt(1 - share) * own
    order = rng.permutation(len(X))
    Y = F + float(rng.choice([0.03, 0.1, 0.3])) * F.std() * noise
    return X[order], Y[order], net, "noisy"


def loud_noise(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.integers(300, 1500)), net.n_features))
    F = net(X)
    return X, F + float(rng.uniform(0.2, 0.6)) * F.std() * rng.standard_normal(F.shape), net, "noisy"


def _following(rng: np.random.Generator, shape: tuple[int, ...], correlation: float) -> np.ndarray:
    """Draw columns of variance one, in which every row follows the one before."""
    start = rng.standard_normal((1, *shape[1:]))
    steps = np.sqrt(1 - correlation**2) * rng.standard_normal((shape[0] - 1, *shape[1:]))
    return np.asarray(signal.lfilter([1.0], [1.0, -correlation], np.vstack([start, steps]), axis=0))


def correlated_rows(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = _following(rng, (int(rng.choice([500, 1500])), net.n_features), float(rng.uniform(0.3, 0.9)))
    F = net(X)
    noise = _following(rng, F.shape, float(rng.uniform(0.3, 0.9)))
    return X, F + float(rng.choice([0.03, 0.1, 0.3])) * F.std() * noise, net, "noisy"


def one_sided_errors(rng: np.random.Generator) -> Problem:
    net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
    X = rng.standard_normal((int(rng.choice([500, 1500])), net.n_features))
    F = net(X)
    noise = rng.standard_normal(F.shape)
    is_wrong = rng.random(F.shape) < rng.uniform(0.01, 0.05)
    noise += is_wrong * rng.uniform(3.0, 10.0, F.shape)
    return X, F + float(rng.choice([0.03, 0.1, 0.3])) * F.std() * noise, net, "noisy"


def _under(
    law: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray],
) -> Callable[..., Problem]:
    """Return the family of ordinary problems under a law of noise, given inputs and noiseless outputs."""

    def family(rng: np.random.Generator) -> Problem:
        net = draw_teacher(rng, scalar=bool(rng.random() < 0.3))
        X = rng.standard_normal((int(rng.choice([500, 1500])), net.n_features))
        F = net(X)
        level = float(rng.choice([0.03, 0.1, 0.3])) * float(F.std())
        return X, F + level * law(rng, X, F / F.std()), net, "noisy"

    return family


def _unequal(rng: np.random.Generator, X: np.ndarray, F: np.ndarray) -> np.ndarray:
    return np.exp(0.7 * X[:, :1]) * rng.standard_normal(F.shape)


def _autocorrelated(rng: np.random.Generator, X: np.ndarray, F: np.ndarray) -> np.ndarray:
    return np.asarray(signal.lfilter([1.0], [1.0, -0.6], rng.standard_normal(F.shape), axis=0))


def _dropout(rng: np.random.Generator, X: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Labels are lost with some probability and the others enlarged, so that their mean stays."""
    share = float(rng.uniform(0.05, 0.2))
    kept = (rng.random(F.shape) >= share) / (1 - share)
    return F * (kept - 1) + 0.1 * rng.standard_normal(F.shape)


FAMILIES: dict[str, Callable[[np.random.Generator], Problem]] = {
    "rare_unit": rare_unit,
    "rare_unit_gross": rare_unit_gross,
    "smooth_activation": smooth_activation,
    "noisy_inputs": noisy_inputs,
    "one_noisy_input": one_noisy_input,
    "lost_direction": lost_direction,
    "uneven_inputs": uneven_inputs,
    "copied_rows": copied_rows,
    "cut_labels": cut_labels,
    "lost_labels": lost_labels,
    "other_powers": other_powers,
    "bent_labels": bent_labels,
    "lost_rows": lost_rows,
    "drifting_rows": drifting_rows,
    "coarse_labels": coarse_labels,
    "further_term": further_term,
    "power_term": power_term,
    "close_units": close_units,
    "grouped_rows": grouped_rows,
    "loud_noise": loud_noise,
    "correlated_rows": correlated_rows,
    "one_sided_errors": one_sided_errors,
    "ordinary": _under(lambda rng, X, F: rng.standard_normal(F.shape)),
    "laplace_noise": _under(lambda rng, X, F: rng.laplace(size=F.shape)),
    "t4_noise": _under(lambda rng, X, F: rng.standard_t(4, F.shape)),
    "unequal_noise": _under(_unequal),
    "proportional_noise": _under(lambda rng, X, F: F * rng.standard_normal(F.shape)),
    "autocorrelated_noise": _under(_autocorrelated),
    "label_dropout": _under(_dropout),
}
