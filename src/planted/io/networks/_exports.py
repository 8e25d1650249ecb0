"""Networks for other programs: ONNX, PyTorch, scikit-learn, JSON, NumPy and C, and back.

In double precision every file holds the exact parameters, and reading it back gives them bit by bit. In single precision
each parameter is rounded, and the largest difference this makes on standard normal inputs is measured and returned.
No format here is a pickle: PyTorch's state is written as safetensors, under the names that ``nn.Sequential(Linear, ReLU,
Linear)`` expects.

What the exported programs answer at the edges of the numbers, compared with the network itself:

===========================================  ==========  ==========================  ==========================
input                                        NumPy code  C, double                   ONNX, double
===========================================  ==========  ==========================  ==========================
finite, every partial sum within 1.8e308     same bits   equal to rounding           equal to rounding
smallest numbers (below 2.2e-308)            same bits   equal to rounding           equal to rounding
infinite, or sums beyond 1.8e308, one sign   same bits   same infinity, same zero    same infinity, same zero
sums beyond 1.8e308 with both signs          same bits   finite, inf or NaN [1]_     finite, inf or NaN [1]_
NaN                                          same bits   NaN                         NaN
===========================================  ==========  ==========================  ==========================

.. [1] The terms are added in another order, and some processors do not round a product before they add it, so one program
   may meet infinity minus infinity where another does not.

In single precision the same holds with the limits of float32 (3.4e38 and 1.2e-38), for inputs and weights rounded to it. C
must be compiled without ``-ffast-math``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from planted._typing import Array
from planted.io._outputs import refuse_other_suffix
from planted.io.networks._columns import SavedNetwork, check_columns
from planted.io.networks._files import open_regular, read_regular
from planted.io.networks._json import format_json, parse_json
from planted.io.networks._onnx import format_onnx, parameters_by_name, parse_onnx
from planted.io.networks._onnx_wires import network_of_layers
from planted.io.networks._safetensors import load_layers, load_saved, save_network
from planted.io.networks._source_code import format_c, format_numpy
from planted.io.state._atomic import atomic_write
from planted.io.tables._recipe import Recipe
from planted.networks import (
    DeepNetwork,
    TwoLayerNetwork,
    activation_of_module,
    activation_of_sklearn,
    is_rectifier,
    linear_part_as_units,
)
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError

__all__ = ["Export", "export_network", "import_network", "load_with_columns", "to_sklearn", "to_torch"]

SUFFIXES = {".onnx": "onnx", ".safetensors": "torch", ".json": "json", ".py": "numpy", ".h": "c"}
FORMATS = (*SUFFIXES.values(), "planted")
FORMATS_WITH_COLUMNS = ("json", "planted")
N_PROBES = 1000
LARGEST_STATE = 8 * 1024**3
MEMORY_PER_BYTE = 10  # of PyTorch's state, whose numbers may take one byte each
TORCH_LINEAR = "linear.weight"
TORCH_KEYS = ("0.weight", "0.bias", "2.weight", "2.bias")


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    path: Path  # the file
    format: str  # its format
    precision: str  # ``"float64"`` or ``"float32"``
    # Largest difference to the network on 1000 standard normal inputs, relative to the outputs' spread there, that
    # rounding the parameters makes; zero in double precision, infinite where the outputs overflow.
    largest_difference: float


def export_network(
    net: TwoLayerNetwork | DeepNetwork,
    path: str | PathLike[str],
    *,
    to: str | None = None,
    precision: str = "float64",
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    recipe: Recipe | None = None,
) -> Export:
    """Write a network for another program.

    Parameters
    ----------
    net : TwoLayerNetwork or DeepNetwork
        The network.
    path : path-like
        Where to write. An existing file is replaced only when the new one is complete.
    to : {"onnx", "torch", "json", "numpy", "c", "planted"}, optional
        The format; by default the suffix decides: ``.onnx``, ``.safetensors`` (PyTorch state), ``.json``, ``.py``, ``.h``.
    precision : {"float64", "float32"}
        Precision of the parameters, for ONNX, PyTorch and C.
    features, targets : sequence of str, optional
        Names of the inputs and of the outputs, kept by the formats ``"json"`` and ``"planted"``.
    recipe : Recipe, optional
        How the columns of a table become the inputs, kept by the format ``"planted"``; it names the columns too.

    Returns
    -------
    Export
        What was written, and the difference that rounding makes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "net.json"
    >>> net = TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]])
    >>> export_network(net, path).format, import_network(path).is_equivalent(net)
    ('json', True)
    """
    if not isinstance(net, TwoLayerNetwork | DeepNetwork):
        raise BadInputTypeError(
            f"{type(net).__name__} given; export_network writes a TwoLayerNetwork or a DeepNetwork"
        )
    chosen = _choose_format(path, to, precision)
    columns = check_columns(net, features, targets)
    if recipe is not None and chosen != "planted":
        raise BadInputError(f"{chosen} keeps no preparation of columns; planted does")
    if columns and chosen not in FORMATS_WITH_COLUMNS:
        raise BadInputError(f"{chosen} keeps no names of columns; json and planted do")
    if chosen == "planted":
        save_network(net, path, **columns, recipe=recipe)
        return Export(Path(path), chosen, precision, 0.0)
    _check_range(net, precision)
    writers: dict[str, Callable[[TwoLayerNetwork | DeepNetwork, str], bytes]] = {
        "onnx": format_onnx,
        "torch": _format_torch,
        "json": lambda network, _: format_json(network, columns),
        "numpy": lambda network, _: format_numpy(network),
        "c": lambda network, kind: format_c(network, kind, name=_c_name(path)),
    }
    contents = writers[chosen](net, precision)
    difference = _rounding_difference(net, precision)
    atomic_write(path, lambda partial: partial.write_bytes(contents))
    return Export(Path(path), chosen, precision, difference)


def load_with_columns(path: str | PathLike[str]) -> SavedNetwork:
    """Read a network that planted wrote, with the names of its columns.

    Parameters
    ----------
    path : path-like
        A file ``.json``, or a safetensors file of any name.

    Returns
    -------
    SavedNetwork
        The network, and the names of its inputs and outputs, or None where the file has none.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "net.safetensors"
    >>> TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]]).save(path, features=["mass", "speed"])
    >>> load_with_columns(path).features
    ('mass', 'speed')
    """
    return parse_json(Path(path)) if Path(path).suffix.lower() == ".json" else load_saved(path)


def import_network(source: Any) -> TwoLayerNetwork | DeepNetwork:
    """Read a network that another program wrote, or take it from an object of PyTorch or scikit-learn.

    Parameters
    ----------
    source : path-like, torch.nn.Module or MLPRegressor
        A file ``.onnx``, ``.json`` or ``.safetensors``; a module of linear layers with ReLUs between them; or a fitted
        `MLPRegressor` with ReLU units.

    Returns
    -------
    TwoLayerNetwork or DeepNetwork
        The network, a `DeepNetwork` if there are several hidden layers. Parameters are taken as they are, so single
        precision stays exact.

    Examples
    --------
    >>> import_network(to_sklearn(TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]]))).W
    array([[1., 2.]])
    """
    if isinstance(source, str | PathLike):
        return _import_file(Path(source))
    if hasattr(source, "coefs_") and hasattr(source, "intercepts_"):
        return _from_sklearn(source)
    if hasattr(source, "state_dict") and hasattr(source, "modules"):
        return _from_torch(source)
    raise BadInputTypeError(
        f"a {type(source).__name__} is no network; expected a file, a PyTorch module or a fitted MLPRegressor"
    )


def to_torch(net: TwoLayerNetwork | DeepNetwork, *, precision: str = "float64") -> Any:
    """Make a PyTorch module ``Sequential(Linear, ReLU, ..., Linear)``; a linear part is a layer ``linear`` beside it.

    Parameters
    ----------
    net : TwoLayerNetwork or DeepNetwork
        A network with ReLU or leaky ReLU units.
    precision : {"float64", "float32"}
        Precision of the parameters.

    Returns
    -------
    torch.nn.Sequential
        The module.

    Examples
    --------
    >>> module = to_torch(TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]]))
    >>> import_network(module).A
    array([[3.]])
    """
    import torch

    activation = net.activation.spelling.torch
    if activation is None:
        raise net.activation.not_written("as a module of PyTorch")
    dtype = torch.float64 if precision == "float64" else torch.float32
    parts: list[Any] = []
    for W, _ in _layers(net):
        linear = torch.nn.Linear(W.shape[1], W.shape[0], dtype=dtype)
        parts += [linear, getattr(torch.nn, activation[0])(**activation[1])]
    state = _torch_state(net)
    module = (_bent_module() if TORCH_LINEAR in state else torch.nn.Sequential)(*parts[:-1])
    if TORCH_LINEAR in state:
        module.linear = torch.nn.Linear(net.n_features, net.n_outputs, bias=False, dtype=dtype)
    module.load_state_dict({key: torch.as_tensor(part.copy()) for key, part in state.items()})
    return module.eval()


def _layers(net: TwoLayerNetwork | DeepNetwork) -> tuple[tuple[Array, Array], ...]:
    """Weights and biases of every layer."""
    return net.layers if isinstance(net, DeepNetwork) else ((net.W, net.b), (net.A, net.c))


def _torch_state(net: TwoLayerNetwork | DeepNetwork) -> dict[str, Array]:
    """The parameters under the names of a Sequential of linear layers and activations."""
    state = {
        f"{2 * place}.{kind}": part
        for place, layer in enumerate(_layers(net))
        for kind, part in zip(("weight", "bias"), layer, strict=True)
    }
    if isinstance(net, TwoLayerNetwork) and net.B is not None:
        state[TORCH_LINEAR] = net.B
    return state


@cache
def _bent_module() -> Any:
    """Return the class of PyTorch modules with a linear part; PyTorch is imported when it is first needed."""
    import torch

    class SequentialWithLinear(torch.nn.Sequential):  # type: ignore[misc]
        """``Linear, ReLU, Linear`` and, added to it, the layer ``linear`` of the inputs."""

        def forward(self, x: Any) -> Any:
            return self[2](self[1](self[0](x))) + self.linear(x)

    return SequentialWithLinear


def to_sklearn(net: TwoLayerNetwork | DeepNetwork) -> Any:
    """Make a fitted scikit-learn regressor with the weights of a network; pairs of units stand for a linear part.

    Parameters
    ----------
    net : TwoLayerNetwork or DeepNetwork
        A network of ReLU, tanh or sigmoid units.

    Returns
    -------
    sklearn.neural_network.MLPRegressor
        A regressor whose `predict` is the network; `fit` would start anew.

    Examples
    --------
    >>> to_sklearn(TwoLayerNetwork(W=[[1.0, 2.0]], A=[[3.0]])).predict([[1.0, 1.0]])
    array([9.])
    """
    from sklearn.neural_network import MLPRegressor

    name = net.activation.spelling.sklearn
    if name is None:
        raise net.activation.not_written("for scikit-learn, which knows relu, tanh and sigmoid")
    deep = net if isinstance(net, DeepNetwork) else DeepNetwork.from_two_layer(linear_part_as_units(net))
    model = MLPRegressor(hidden_layer_sizes=deep.widths[1:-1], activation=name)
    model.coefs_ = [W.T.copy() for W, _ in deep.layers]
    model.intercepts_ = [b.copy() for _, b in deep.layers]
    model.n_layers_, model.n_outputs_ = len(deep.layers) + 1, net.n_outputs
    model.out_activation_ = "identity"
    model.n_features_in_ = net.n_features
    return model


def _import_file(path: Path) -> TwoLayerNetwork | DeepNetwork:
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return parse_onnx(path)
    if suffix == ".json":
        return parse_json(path).network  # type: ignore[return-value]
    if suffix == ".safetensors":
        return _parse_torch(path) if _is_torch_state(path) else load_layers(path)
    raise BadInputError(f"{os.fspath(path)}: a network is read from .onnx, .json or .safetensors")


def _from_sklearn(model: Any) -> TwoLayerNetwork | DeepNetwork:
    activation = activation_of_sklearn(model.activation)
    if len(model.coefs_) < 2 or activation is None:
        raise BadInputError(
            f"the MLPRegressor has {len(model.coefs_) - 1} hidden layer(s) of {model.activation} units; expected relu, "
            "tanh or logistic"
        )
    pairs = [(W.T, b) for W, b in zip(model.coefs_, model.intercepts_, strict=True)]
    return network_of_layers(pairs, activation)


def _from_torch(module: Any) -> TwoLayerNetwork | DeepNetwork:
    import torch

    layers = [layer for layer in module.modules() if not list(layer.children())]
    linear = layers.pop() if len(layers) == 4 and isinstance(module, _bent_module()) else None
    n_linear = sum(isinstance(each, torch.nn.Linear) for each in layers)
    is_deep = type(module) is torch.nn.Sequential and n_linear > 2
    layers = list(module) if is_deep else layers  # one activation may be used several times
    found = {activation_of_module(type(layer).__name__, vars(layer)) for layer in layers[1::2]}
    is_known = len(found) == 1 and (is_deep or len(layers) == 3) and len(layers) % 2 == 1
    is_known = is_known and all(isinstance(layer, torch.nn.Linear) for layer in layers[::2])
    activation = found.pop() if is_known else None
    if activation is None:
        kinds = ", ".join(type(layer).__name__ for layer in layers)
        expected = "Linear, ReLU, ..., Linear with equal activations" if is_deep else "Linear, ReLU, Linear"
        raise BadInputError(f"the module has the layers {kinds}; expected {expected}")
    pairs = [(_tensor(layer.weight), _tensor(layer.bias)) for layer in layers[::2]]
    return network_of_layers(pairs, activation, None if linear is None else _tensor(linear.weight))


def _tensor(value: Any) -> Array | None:
    return None if value is None else np.asarray(value.detach().cpu().double().numpy())


def _format_torch(net: TwoLayerNetwork | DeepNetwork, precision: str) -> bytes:
    from safetensors.numpy import save

    if not is_rectifier(net.activation):
        raise net.activation.not_written("in a state of PyTorch, which has weights alone")
    state = _torch_state(net)
    linear = " + linear" if TORCH_LINEAR in state else ""
    arrays = {key: np.ascontiguousarray(part.astype(precision)) for key, part in state.items()}
    middle = "Linear, ReLU, " * ((len(state) - bool(linear)) // 2 - 1)
    module = f"Sequential({middle}Linear){linear}"
    return bytes(save(arrays, metadata={"generator": "planted", "module": module}))


def _is_torch_state(path: Path) -> bool:
    """Whether a safetensors file has the names of a Sequential's state, from its header alone."""
    with open_regular(path) as (stream, _):
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(min(length, 1 << 20))
    return b'"0.weight"' in header


def _parse_torch(path: Path) -> TwoLayerNetwork | DeepNetwork:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    contents = read_regular(path, largest=LARGEST_STATE, growth=MEMORY_PER_BYTE)
    try:
        arrays = load(contents)
        held, linear = sorted(arrays), arrays.pop(TORCH_LINEAR, None)
        places = range(0, len(arrays), 2)
        keys = {f"{place}.{kind}" for place in places for kind in ("weight", "bias")}
        is_deep = len(arrays) > len(TORCH_KEYS) and linear is None
        if set(arrays) != keys or not (is_deep or len(arrays) == len(TORCH_KEYS)):
            raise FileFormatError(f"it holds {', '.join(held)}; expected {', '.join(TORCH_KEYS)}")
        pairs = [(arrays[f"{place}.weight"], arrays[f"{place}.bias"]) for place in places]
        with np.errstate(invalid="ignore"):  # a NaN is refused with the network
            return network_of_layers(pairs, "relu", linear)
    except (ValueError, SafetensorError, LookupError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from error


def _choose_format(path: str | PathLike[str], to: str | None, precision: str) -> str:
    """Return the format to write, from its name or from the suffix of the file."""
    chosen = to or SUFFIXES.get(Path(path).suffix.lower())
    if chosen not in FORMATS:
        raise BadInputError(
            f"format {to or Path(path).suffix!r} is not known; known are {', '.join(sorted(FORMATS))}"
        )
    refuse_other_suffix(path, chosen)
    if precision not in ("float64", "float32"):
        raise BadInputError(f"precision={precision!r}; expected 'float64' or 'float32'")
    if precision == "float32" and chosen in ("json", "numpy", "planted"):
        raise BadInputError(
            f"{chosen} is written in double precision; precision='float32' is for onnx, torch and c"
        )
    return chosen


def _check_range(net: TwoLayerNetwork | DeepNetwork, precision: str) -> None:
    """Refuse parameters that the precision cannot hold."""
    largest = float(np.finfo(precision).max)
    slopes = np.array([net.activation.right, net.activation.left])
    for name, values in (*parameters_by_name(net).items(), ("the slope", slopes)):
        with np.errstate(over="ignore"):
            places = np.argwhere(~np.isfinite(values.astype(precision)))
        if len(places):
            first = tuple(int(i) for i in places[0])
            raise BadInputError(
                f"{name} holds {values[first]:.6g} at {first}, but {precision} ends at {largest:.3g}; "
                "write it with precision='float64', or scale the units first with net.canonical()"
            )


def _c_name(path: str | PathLike[str]) -> str:
    """A C identifier from the name of the file."""
    stem = "".join(char if char.isascii() and char.isalnum() else "_" for char in Path(path).stem)
    return stem if stem and not stem[0].isdigit() else f"net_{stem}"


def _rounding_difference(net: TwoLayerNetwork | DeepNetwork, precision: str) -> float:
    """Largest difference that rounding the parameters makes on standard normal inputs, relative to the spread."""
    if precision == "float64":
        return 0.0

    def rounded_part(part: Array) -> Array:
        return np.asarray(part.astype(precision).astype(np.float64))

    B = rounded_part(net.B) if isinstance(net, TwoLayerNetwork) and net.B is not None else None
    pairs = [(rounded_part(W), rounded_part(b)) for W, b in _layers(net)]
    rounded = network_of_layers(pairs, net.activation, B)
    rows = np.random.default_rng(0).standard_normal((N_PROBES, net.n_features))
    with np.errstate(over="ignore", invalid="ignore"):
        exact = net(rows)
        spread = exact.std(axis=0)
        worst = (np.abs(exact - rounded(rows)) / np.where(spread > 0, spread, 1.0)).max(initial=0.0)
    return float(worst) if np.isfinite(worst) else float("inf")
