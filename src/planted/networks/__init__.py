"""Networks and activations, equality of functions, matching of units, error metrics."""

from planted.networks._activations import (
    Activation,
    activation_names,
    activation_of_module,
    activation_of_sklearn,
    is_rectifier,
    is_slope_unknown,
    is_unknown,
    parse_activation,
    register_activation,
    requested_activation,
)
from planted.networks._curved_forms import turn_units, turned_away
from planted.networks._deep import DeepNetwork
from planted.networks._kinks import unit_order
from planted.networks._matching import UnitMatching, match_units, parameter_error
from planted.networks._metrics import GklwError, gklw_error, glm_error, relative_mse
from planted.networks._network import TwoLayerNetwork, plain_parameters
from planted.networks._simplify import linear_part_as_units
from planted.networks._three_layers import ThreeLayerNetwork

__all__ = [
    "Activation",
    "DeepNetwork",
    "GklwError",
    "ThreeLayerNetwork",
    "TwoLayerNetwork",
    "UnitMatching",
    "activation_names",
    "activation_of_module",
    "activation_of_sklearn",
    "gklw_error",
    "glm_error",
    "is_rectifier",
    "is_slope_unknown",
    "is_unknown",
    "linear_part_as_units",
    "match_units",
    "parameter_error",
    "parse_activation",
    "plain_parameters",
    "register_activation",
    "relative_mse",
    "requested_activation",
    "turn_units",
    "turned_away",
    "unit_order",
]
