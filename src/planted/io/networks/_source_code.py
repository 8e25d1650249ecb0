"""Networks as source code: a NumPy module and a C99 header.

Numbers are written so that reading them back gives the same bits: `repr` in Python, hexadecimal floating constants in C99.
Both treat infinities and NaN as `TwoLayerNetwork` does: a rectified unit is zero at minus infinity, and NaN stays NaN.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.networks import TwoLayerNetwork

__all__ = ["format_c", "format_numpy"]

PER_LINE = 4


def format_numpy(net: TwoLayerNetwork) -> bytes:
    """Return a Python module with one function ``network(X)`` that needs NumPy alone."""
    arrays = "".join(
        f"{name} = np.array({getattr(net, name).tolist()!r}).reshape({getattr(net, name).shape!r})\n"
        for name in "WbAc"
    )
    act = net.activation
    if act.left == 0.0:
        body = "np.maximum(T, 0.0)" + (f" ** {act.degree}" if act.degree > 1 else "")
    else:
        body = f"np.where(T > 0, {act.right!r}, {act.left!r}) * np.abs(T) ** {act.degree}"
    text = (
        f'"""A two-layer network: {net.n_features} inputs, {net.n_hidden} units ({act.name}), '
        f'{net.n_outputs} outputs."""\n\n'
        f"import numpy as np\n\n{arrays}\n\n"
        "def network(X):\n"
        f'    """Return the outputs (n, {net.n_outputs}) for inputs (n, {net.n_features})."""\n'
        f"    T = np.asarray(X, dtype=float) @ W.T + b\n"
        f"    return ({body}) @ A.T + c\n"
    )
    return text.encode()


def format_c(net: TwoLayerNetwork, precision: str, *, name: str) -> bytes:
    """Return a C99 header with one function that evaluates the network and needs nothing else."""
    real, suffix = ("double", "") if precision == "float64" else ("float", "f")
    upper = name.upper()
    arrays = "".join(
        _c_array(f"{name}_{own}", getattr(net, own).astype(precision), real, suffix) for own in "WbAc"
    )
    d, k, m = net.n_features, net.n_hidden, net.n_outputs
    act = net.activation
    product = " * ".join(["s"] * act.degree)
    if act.left == 0.0:  # zero times infinity would be NaN
        side, value = f"t < 0 ? ({real})0 : t", product
    else:
        right, left = (f"({real}){float(value).hex()}{suffix}" for value in (act.right, act.left))
        side, value = "t > 0 ? t : -t", f"(t > 0 ? {right} : {left}) * {product}"
    text = f"""/* A two-layer network: {d} inputs, {k} units ({act.name}), {m} outputs. C99, no dependencies. */
#ifndef {upper}_H
#define {upper}_H

#define {upper}_INPUTS {d}
#define {upper}_UNITS {k}
#define {upper}_OUTPUTS {m}

{arrays}
/* y[{m}] = A f(W x + b) + c for x[{d}] */
static inline void {name}_eval(const {real} *x, {real} *y)
{{
    for (int l = 0; l < {m}; ++l) {{
        y[l] = 0;
    }}
    for (int i = 0; i < {k}; ++i) {{
        {real} t = 0;
        for (int j = 0; j < {d}; ++j) {{
            t += {name}_W[i * {d} + j] * x[j];
        }}
        t += {name}_b[i];
        const {real} s = {side};
        const {real} h = {value};
        for (int l = 0; l < {m}; ++l) {{
            y[l] += {name}_A[l * {k} + i] * h;
        }}
    }}
    for (int l = 0; l < {m}; ++l) {{
        y[l] += {name}_c[l];
    }}
}}

#endif
"""
    return text.encode()


def _c_array(name: str, values: Array, real: str, suffix: str) -> str:
    """A constant array, row by row, in hexadecimal; an empty one holds a single zero, which C99 requires."""
    flat = np.asarray(values, dtype=np.float64).ravel().tolist() or [0.0]
    cells = [value.hex() + suffix for value in flat]
    lines = [", ".join(cells[i : i + PER_LINE]) for i in range(0, len(cells), PER_LINE)]
    return f"static const {real} {name}[{len(cells)}] = {{\n    " + ",\n    ".join(lines) + "\n};\n"
