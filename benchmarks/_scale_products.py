"""Speed of the sums over rows against bare matrix products of the same operations (T9)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _table import Line

import planted
from planted.moments import (
    PairMaps,
    Residual,
    accumulate_grams,
    accumulate_kinks,
    accumulate_normal,
    accumulate_pairs,
    augment,
    design_size,
    fit_polynomial,
)
from planted.rows import RowBlocks

GEMM_SHARE = 0.6
D, M, K = 32, 16, 16


def cpu_seconds(work: Callable[[], Any], rounds: int = 3) -> float:
    """Return the least processor time of several runs, after a warm-up."""
    work()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def teacher(seed: int, d: int = D, k: int = K, m: int = M) -> planted.TwoLayerNetwork:
    return planted.simulate.dataset(
        10, n_features=d, n_hidden=k, n_outputs=m, activity=(0.3, 0.7), law="exponential", random_state=seed
    ).network


def against_product(n: int, seed: int) -> list[dict[str, Any]]:
    """Sums of the normal equations and of paired features against the bare products of the same shapes."""
    rng = np.random.default_rng(seed)
    rows = []
    for precision in ("float64", "float32"):
        X = rng.standard_normal((n, D)).astype(precision)
        network = teacher(seed)
        Y = network(X.astype(np.float64)).astype(precision)
        blocks = RowBlocks.from_arrays(X, Y)
        Z, G = rng.standard_normal((1024, K * (D + 1))), rng.standard_normal((1024, K + 1 + M))

        def normal_products(Z: Any = Z, G: Any = G) -> None:
            total = np.zeros((Z.shape[1], Z.shape[1]))
            for _ in range(n // 1024):
                total += Z.T @ Z
                Z.T @ G

        rows.append(
            _ratio(
                "normal equations",
                precision,
                n,
                normal_products,
                lambda b=blocks, w=network: accumulate_normal(b, w),
            )
        )
        p, q = D * (D + 1) // 2, K * (K + 1) // 2
        features = rng.standard_normal((p + q, 512)).astype(
            "float32" if precision == "float32" else "float64"
        )

        def pair_products(features: Any = features, p: int = p) -> None:
            total = np.zeros((p, len(features)))
            for _ in range(n // 512):
                total += features[:p] @ features.T

        maps = PairMaps(np.eye(D), np.eye(K, M), network.A[:K] @ network.W / 2)
        kind = "single" if precision == "float32" else "double"
        rows.append(
            _ratio(
                "paired features",
                precision,
                n,
                pair_products,
                lambda b=blocks, s=maps, k=kind: accumulate_pairs(b, s, precision=k),
            )
        )
    return rows


def _ratio(
    name: str, precision: str, n: int, product: Callable[[], Any], sums: Callable[[], Any]
) -> dict[str, Any]:
    bare, ours = [], []
    for _ in range(3):  # interleaved
        bare.append(cpu_seconds(product, 1))
        ours.append(cpu_seconds(sums, 1))
    return {
        "sums": name,
        "precision": precision,
        "n": n,
        "bare_seconds": min(bare),
        "sums_seconds": min(ours),
        "share": min(bare) / min(ours),
        "rows_per_cpu_second": n / min(ours),
    }


def measure_products(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """T9: speed of the sums, and the rate of operations for the cost model."""
    rows = against_product(16_384 if quick else 32_768, seed)
    lines = _lines(rows)
    unknowns, normal = K * (D + 1), rows[0]
    rate = (unknowns**2 + 2 * unknowns * (K + 1 + M)) * normal["n"] / normal["bare_seconds"]
    feature = (normal["sums_seconds"] - normal["bare_seconds"]) / normal["n"] / unknowns
    text = f"{rate:.2g} operations in a CPU second, {feature:.2g} s to build a masked input"
    lines.append(Line("cost model: constants of the sums", text, True))
    return lines, [*rows, {"flop_rate": rate, "feature_seconds": feature}]


def measure_hermite(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """T9: weighted products of quadratic features, and products of the columns of a cubic polynomial."""
    rng = np.random.default_rng(seed)
    n, d, m = 16_384 if quick else 32_768, 20, 4
    X = rng.standard_normal((n, d))
    blocks = RowBlocks.from_arrays(X, rng.standard_normal((n, m)))
    p = 1 + d + d * (d + 1) // 2
    left, right = rng.standard_normal((p, 512)), rng.standard_normal((p, 512))

    def weighted_products() -> None:
        total = np.zeros((p, p))
        for _ in range(m * n // 512):
            total += left @ right.T

    grams = _ratio(
        f"Hermite tensors of order 4, d = {d}, {m} outputs",
        "float64",
        n,
        weighted_products,
        lambda: accumulate_grams(blocks, Residual(None), quadratic=True),
    )
    q = 10
    width = design_size(q, 3)
    design, outputs = rng.standard_normal((1024, width)), rng.standard_normal((1024, m))
    narrow = RowBlocks.from_arrays(X[:, :q], rng.standard_normal((n, m)))

    def design_products() -> None:
        total = np.zeros((width, width))
        for _ in range(n // 1024):
            total += design.T @ design
            design.T @ outputs

    cubic = _ratio(
        f"polynomials of degree 3, d = {q}, {m} outputs",
        "float64",
        n,
        design_products,
        lambda: fit_polynomial(narrow, 3),
    )
    return _lines([grams, cubic]), [grams, cubic]


def measure_restarts(quick: bool, seed: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """T9: the normal equations of `restarts`, in memory, against the product of pairs that they are made of."""
    rng = np.random.default_rng(seed)
    n = 16_384 if quick else 32_768
    found = []
    for d, k, m in ((D, K, 1), (20, 30, 1)):
        rows, Y = augment(rng.standard_normal((n, d))), rng.standard_normal((n, m))
        V, coefficients = rng.standard_normal((k, d + 1)), rng.standard_normal((m, k + d + 1))
        signs = rng.standard_normal(((k + 1) * (k + 2) // 2, 512))
        inputs = rng.standard_normal(((d + 1) * (d + 2) // 2, 512))

        def pair_products(signs: Any = signs, inputs: Any = inputs) -> None:
            total = np.zeros((len(signs), len(inputs)))
            for _ in range(n // 512):
                total += signs @ inputs.T

        def sums(rows: Any = rows, Y: Any = Y, V: Any = V, coefficients: Any = coefficients) -> Any:
            return accumulate_kinks(rows, Y, V, coefficients=coefficients)

        name = f"normal equations of restarts, d = {d}, k = {k}"
        found.append(_ratio(name, "float64", n, pair_products, sums))
    return _lines(found), found


def _lines(rows: list[dict[str, Any]]) -> list[Line]:
    lines = []
    for row in rows:
        target = f"T9 {row['sums']}, {row['precision']}: speed of a bare product >= {GEMM_SHARE:.0%}"
        text = f"{row['share']:.0%} ({row['rows_per_cpu_second']:,.0f} rows per CPU second)"
        lines.append(Line(target, text, row["share"] >= GEMM_SHARE))
    return lines
