"""Real tables, where nothing is planted: is the small network as good as what people use, and the same at every seed?

Eleven tables of scikit-learn and statsmodels, repeated splits. MLPRegressor is tuned once on other splits (hidden
units, penalty), gradient boosting likewise (leaves, rate); both are standardised and judged by the median over their
own seeds. planted is run with `method="auto"` and must say that it is not a recovery.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from typing import Any

import numpy as np
from _table import Line, Rows, run_sections
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels import datasets as tables

import planted

MAX_ROWS = 1500


def real_tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    chosen: dict[str, tuple[np.ndarray, np.ndarray]] = {"diabetes": datasets.load_diabetes(return_X_y=True)}
    for name, column in {"iris": 3, "wine": 0, "breast_cancer": 0}.items():
        X = getattr(datasets, f"load_{name}")().data
        chosen[f"{name}, column {column}"] = (np.delete(X, column, axis=1), X[:, column])
    columns = {
        "fair": "rate_marriage", "star98": "NABOVE", "anes96": "income", "statecrime": "violent", "grunfeld": "invest",
        "randhie": "mdvis", "engel": "foodexp",
    }  # fmt: skip
    for name, target in columns.items():
        frame = getattr(tables, name).load_pandas().data.select_dtypes("number")
        chosen[name] = (frame.drop(columns=target).to_numpy(float), frame[target].to_numpy(float))
    return {name: (X[:MAX_ROWS], y[:MAX_ROWS]) for name, (X, y) in chosen.items()}


def tuned_rivals(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Choose the rivals' settings on the first half of the rows, once; they are then frozen."""
    half = np.random.default_rng(99).permutation(len(X))[: max(len(X) // 2, 20)]
    network = make_pipeline(StandardScaler(), MLPRegressor(max_iter=1000, random_state=0))
    grid = {"mlpregressor__hidden_layer_sizes": [(10,), (100,)], "mlpregressor__alpha": [1e-4, 1.0]}
    boosting = HistGradientBoostingRegressor(random_state=0)
    leaves = {"max_leaf_nodes": [4, 31], "learning_rate": [0.03, 0.1]}
    return {
        "MLPRegressor": GridSearchCV(network, grid, cv=3).fit(X[half], y[half]).best_estimator_,
        "gradient boosting": GridSearchCV(boosting, leaves, cv=3).fit(X[half], y[half]).best_estimator_,
    }


def error_of(prediction: np.ndarray, y: np.ndarray) -> float:
    return float(((prediction - y) ** 2).mean() / y.var())


def run_table(name: str, X: np.ndarray, y: np.ndarray, splits: int, seeds: int) -> dict[str, Any]:
    rivals = tuned_rivals(X, y)
    errors: dict[str, list[float]] = {"planted": [], **{rival: [] for rival in rivals}}
    outcomes, same = set(), True
    for split in range(splits):
        parts = train_test_split(X, y, test_size=0.3, random_state=1000 + split)
        X_train, X_test, y_train, y_test = parts
        mean, scale = y_train.mean(), y_train.std()
        answers = [
            planted.recover(X_train, y_train, random_state=seed, budget_seconds=120) for seed in range(2)
        ]
        outcomes |= {answer.outcome.name for answer in answers}
        predictions = [answer.network(X_test)[:, 0] for answer in answers]
        same &= abs(error_of(predictions[0], y_test) - error_of(predictions[1], y_test)) < 0.02
        errors["planted"].append(error_of(predictions[0], y_test))
        for rival, model in rivals.items():
            scores = []
            for seed in range(seeds):
                key = "mlpregressor__random_state" if rival == "MLPRegressor" else "random_state"
                fitted = model.set_params(**{key: seed}).fit(X_train, (y_train - mean) / scale)
                scores.append(error_of(fitted.predict(X_test) * scale + mean, y_test))
            errors[rival].append(float(np.median(scores)))
    row = {rival: round(float(np.mean(values)), 4) for rival, values in errors.items()}
    # Paired over splits: no worse than the rival by more than two standard errors of the difference.
    gap = np.array(errors["planted"]) - np.array(errors["MLPRegressor"])
    slack = 2 * gap.std(ddof=1) / np.sqrt(splits)
    return {
        "table": name,
        **row,
        "no_worse": bool(gap.mean() <= slack),
        "outcomes": sorted(outcomes),
        "same": bool(same),
    }


def measure(name: str, options: argparse.Namespace) -> tuple[list[Line], Rows]:
    splits, seeds = (2, 2) if options.quick else (5, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = run_table(name, *real_tables()[name], splits, seeds)
    errors = f"{row['planted']:.4g} against {row['MLPRegressor']:.4g}; gradient boosting {row['gradient boosting']:.4g}"
    outcomes = ", ".join(row["outcomes"])
    return [
        Line(f"{name}: held-out error no worse than MLPRegressor's median", errors, row["no_worse"]),
        Line(f"{name}: not called recovered", outcomes, "RECOVERED" not in row["outcomes"]),
        Line(f"{name}: the same error at every seed (within 0.02)", str(row["same"]), row["same"]),
    ], [row]


SECTIONS = {name: partial(measure, name) for name in real_tables()}


if __name__ == "__main__":
    run_sections("tables", __doc__ or "", SECTIONS)
