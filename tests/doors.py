"""Go through the public doors with problems drawn from a seed, and print a digest of every answer.

Run by `test_threads` in processes with different numbers of threads. There are enough rows for BLAS to use its threads.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from typing import Any

import numpy as np

import planted
from planted import simulate


def digest(*items: Any) -> str:
    found = hashlib.sha256()
    for item in items:
        found.update(np.ascontiguousarray(item).tobytes())
    return found.hexdigest()


def of_network(net: Any) -> str:
    return digest(net.W, net.b, net.A, net.c)


def answers(seed: int) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    d, k, m = (int(rng.integers(low, high)) for low, high in ((6, 9), (3, 5), (5, 7)))
    options: dict[str, Any] = {"n_features": d, "n_hidden": k, "activity": (0.3, 0.7), "random_state": rng}
    noisy = simulate.dataset(3000, n_outputs=m, noise=0.1, **options)
    scalar = simulate.dataset(3000, **options)
    net, model = noisy.network, planted.TwoLayerRegressor(k, random_state=seed)
    recovery = planted.recover(noisy.X, noisy.Y, k, random_state=seed)
    wide = simulate.teacher(200, 150, 4, random_state=rng)
    many = rng.standard_normal((5000, 200))
    labels = many[:, 0] * many[:, 1] + many[:, 2]
    rows = many[:800, :50]
    cg = planted.memorize(many, labels, solver="cg", max_iter=2, n_pairs=20, random_state=seed)
    return {
        "simulate": digest(noisy.X, noisy.Y, scalar.X, scalar.Y),
        "recover, noisy": of_network(recovery.network),
        "recover, scalar": of_network(planted.recover(scalar.X, scalar.Y, k, random_state=seed).network),
        "recover, few": of_network(planted.recover(*few(noisy), random_state=seed).network),
        "recover, not planted": of_network(
            planted.recover(rows[:, :4], rows[:, :1] ** 2, effort="quick", random_state=seed).network
        ),
        "evaluate": digest(net(noisy.X), net.preactivations(noisy.X), wide(many), wide.canonical().W),
        "standard_errors": digest(planted.standard_errors(net, noisy.X, noisy.Y).standard_errors["A"]),
        "parameter_error": digest(planted.parameter_error(recovery.network, net)),
        "match_units": digest(planted.match_units(wide.canonical(), wide).permutation),
        "memorize, cg": of_network(cg.network),
        "memorize, direct": of_network(planted.memorize(rows, labels[:800], random_state=seed).network),
        "identify": of_network(planted.identify(net, n_features=d, random_state=seed).network),
        "estimator": digest(model.fit(noisy.X, noisy.Y).predict(many[:, :d])),
    }


def few(data: simulate.Dataset) -> tuple[Any, Any]:
    """Return the first rows, without noise."""
    X = data.X[:120]
    return X, data.network(X)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(answers(int(sys.argv[1]))))
