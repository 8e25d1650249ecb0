"""Ordinary tables with `effort="quick"`: is the estimator as good as ridge and MLPRegressor, and not much slower?

Tables of scikit-learn and statsmodels, `cross_val_score` over five shuffled folds, the same for everyone.
`TwoLayerRegressor(effort="quick")` stands beside `RidgeCV` and `MLPRegressor` as a user would put them: standardised
inputs and target, default settings. Errors are mean squared errors on held-out rows over the variance of the target. CPU
seconds are those of the process, with one BLAS thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from _table import Line, Rows, run_sections
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import real_tables
from threadpoolctl import threadpool_limits

from planted import TwoLayerRegressor

MOST_CPU = 3.0  # times that of MLPRegressor
FOLDS = 5


def models(seed: int) -> dict[str, Any]:
    network = MLPRegressor(random_state=seed)
    scaled = {"ridge": RidgeCV(np.logspace(-3, 3, 13)), "MLPRegressor": network}
    rivals = {
        name: TransformedTargetRegressor(make_pipeline(StandardScaler(), model), transformer=StandardScaler())
        for name, model in scaled.items()
    }
    return {"planted": TwoLayerRegressor(effort="quick", random_state=seed), **rivals}


def measure(name: str, options: argparse.Namespace) -> tuple[list[Line], Rows]:
    X, y = real_tables()[name]
    folds = KFold(FOLDS, shuffle=True, random_state=options.seed)
    errors: dict[str, np.ndarray] = {}
    cpu: dict[str, float] = {}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for who, model in models(options.seed).items():
            started = time.process_time()
            scores = cross_val_score(model, X, y, cv=folds, scoring="neg_mean_squared_error")
            cpu[who] = time.process_time() - started
            errors[who] = -scores / y.var()
    best = min(("ridge", "MLPRegressor"), key=lambda who: errors[who].mean())
    slack = errors[best].std(ddof=1) / np.sqrt(FOLDS)
    gap = errors["planted"].mean() - errors[best].mean()
    ratio = cpu["planted"] / cpu["MLPRegressor"]
    row = {
        "table": name,
        "rows": len(X),
        "inputs": X.shape[1],
        **{who: round(float(values.mean()), 4) for who, values in errors.items()},
        "standard_error": round(float(slack), 4),
        "cpu": {who: round(seconds, 2) for who, seconds in cpu.items()},
    }
    words = f"{row['planted']:.4g} against {row[best]:.4g} ({best}), standard error {slack:.2g}"
    seconds = f"{cpu['planted']:.2g} s against {cpu['MLPRegressor']:.2g} s, {ratio:.2g} times"
    return [
        Line(
            f"{name}: error no worse than the better rival's by a standard error", words, bool(gap <= slack)
        ),
        Line(f"{name}: CPU at most {MOST_CPU:g} times that of MLPRegressor", seconds, ratio <= MOST_CPU),
    ], [row]


SECTIONS = {name: partial(measure, name) for name in real_tables()}


if __name__ == "__main__":
    run_sections("quick_tables", __doc__ or "", SECTIONS)
