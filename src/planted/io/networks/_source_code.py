"""Networks as source code: a NumPy module and a C99 header.

Numbers are written so that reading them back gives the same bits: `repr` in Python, hexadecimal floating constants in C99.
Both treat infinities and NaN as `TwoLayerNetwork` does: a rectified unit is zero at minus infinity, and NaN stays NaN.
"""

from __future__ import annotations

import numpy as np

from planted._typing import Array
from planted.networks import DeepNetwork, TwoLayerNetwork

__all__ = ["format_c", "format_numpy"]

PER_LINE = 4


_PLAIN_BODY = """\
    T = np.asarray(X, dtype=float) @ W.T + b
    return (BODY) @ A.T + c
"""
_LINEAR_BODY = """\
    X = np.asarray(X, dtype=float)
    T = X @ W.T + b
    return (BODY) @ A.T + X @ B.T + c
"""


def format_numpy(net: TwoLayerNetwork | DeepNetwork) -> bytes:
    """Return a Python module with one function ``network(X)`` that needs NumPy alone."""
    if isinstance(net, DeepNetwork):
        return _format_deep_numpy(net)
    arrays = "".join(
        f"{name} = np.array({getattr(net, name).tolist()!r}).reshape({getattr(net, name).shape!r})\n"
        for name in net.parts
    )
    act = net.activation
    body = act.numpy_code()
    text = (
        f'"""A two-layer network: {net.n_features} inputs, {net.n_hidden} units ({act.name}), '
        f'{net.n_outputs} outputs."""\n\n'
        f"{_imports(body)}\n{arrays}\n\n"
        "def network(X):\n"
        f'    """Return the outputs (n, {net.n_outputs}) for inputs (n, {net.n_features})."""\n'
        f"{_PLAIN_BODY if net.B is None else _LINEAR_BODY}".replace("BODY", body)
    )
    return text.encode()


def _imports(body: str) -> str:
    """The imports of a module whose activation is ``body``; NumPy has no error function, the standard library has."""
    return "from math import erfc\n\nimport numpy as np\n" if "erfc" in body else "import numpy as np\n"


def _format_deep_numpy(net: DeepNetwork) -> bytes:
    lists = ",\n".join(
        f"    (np.array({W.tolist()!r}).reshape({W.shape!r}), np.array({b.tolist()!r}))"
        for W, b in net.layers
    )
    widths = " -> ".join(map(str, net.widths))
    text = (
        f'"""A network of {len(net.layers)} layers ({net.activation.name}): {widths}."""\n\n'
        f"{_imports(net.activation.numpy_code())}\nLAYERS = [\n{lists},\n]\n\n\n"
        "def network(X):\n"
        f'    """Return the outputs (n, {net.n_outputs}) for inputs (n, {net.n_features})."""\n'
        "    H = np.asarray(X, dtype=float)\n"
        "    for W, b in LAYERS[:-1]:\n"
        "        T = H @ W.T + b\n"
        f"        H = {net.activation.numpy_code()}\n"
        "    W, b = LAYERS[-1]\n"
        "    return H @ W.T + b\n"
    )
    return text.encode()


def _c_include(value: str) -> str:
    """The header of the functions that an activation calls, if it calls any."""
    calls = ("tanh", "exp", "log1p", "erfc", "expm1")
    return "\n#include <math.h>\n" if any(call in value for call in calls) else ""


def _format_deep_c(net: DeepNetwork, precision: str, name: str) -> bytes:
    real, suffix = ("double", "") if precision == "float64" else ("float", "f")
    upper = name.upper()
    side, value = net.activation.c_code(real, suffix)
    arrays, steps = [], []
    before = "x"
    for place, (W, b) in enumerate(net.layers):
        arrays += [
            _c_array(f"{name}_{kind}{place}", part.astype(precision), real, suffix)
            for kind, part in (("W", W), ("b", b))
        ]
        count, width = W.shape
        is_last = place == net.n_hidden_layers
        after = "y" if is_last else f"h{place}"
        declared = "" if is_last else f"    {real} {after}[{max(count, 1)}];\n"
        result = "t" if is_last else value
        rectify = "" if is_last else f"        const {real} s = {side};\n"
        steps.append(
            f"{declared}    for (int i = 0; i < {count}; ++i) {{\n        {real} t = 0;\n"
            f"        for (int j = 0; j < {width}; ++j) {{\n"
            f"            t += {name}_W{place}[i * {width} + j] * {before}[j];\n        }}\n"
            f"        t += {name}_b{place}[i];\n{rectify}        {after}[i] = {result};\n    }}\n"
        )
        before = after
    widths = " -> ".join(map(str, net.widths))
    text = (
        f"/* A network of {len(net.layers)} layers ({net.activation.name}): {widths}. C99, no dependencies. */\n"
        f"#ifndef {upper}_H\n#define {upper}_H\n{_c_include(value)}\n#define {upper}_INPUTS {net.n_features}\n"
        f"#define {upper}_OUTPUTS {net.n_outputs}\n\n{''.join(arrays)}\n"
        f"/* y[{net.n_outputs}] for x[{net.n_features}] */\n"
        f"static inline void {name}_eval(const {real} *x, {real} *y)\n{{\n{''.join(steps)}}}\n\n#endif\n"
    )
    return text.encode()


def format_c(net: TwoLayerNetwork | DeepNetwork, precision: str, *, name: str) -> bytes:
    """Return a C99 header with one function that evaluates the network and needs nothing else."""
    if isinstance(net, DeepNetwork):
        return _format_deep_c(net, precision, name)
    real, suffix = ("double", "") if precision == "float64" else ("float", "f")
    upper = name.upper()
    arrays = "".join(
        _c_array(f"{name}_{own}", getattr(net, own).astype(precision), real, suffix) for own in net.parts
    )
    d, k, m = net.n_features, net.n_hidden, net.n_outputs
    act = net.activation
    side, value = act.c_code(real, suffix)
    formula = "A f(W x + b) + c" if net.B is None else "A f(W x + b) + B x + c"
    linear = (
        ""
        if net.B is None
        else f"""
        for (int j = 0; j < {d}; ++j) {{
            y[l] += {name}_B[l * {d} + j] * x[j];
        }}"""
    )
    text = f"""/* A two-layer network: {d} inputs, {k} units ({act.name}), {m} outputs. C99, no dependencies. */
#ifndef {upper}_H
#define {upper}_H
{_c_include(value)}
#define {upper}_INPUTS {d}
#define {upper}_UNITS {k}
#define {upper}_OUTPUTS {m}

{arrays}
/* y[{m}] = {formula} for x[{d}] */
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
    for (int l = 0; l < {m}; ++l) {{{linear}
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
