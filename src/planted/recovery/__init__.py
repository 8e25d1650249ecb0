"""The front door: look at the data, choose a method, return one answer with its evidence.

Names are loaded when they are first used: a recovery does not load what computes standard errors or lists outliers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planted.recovery._diagnose import Diagnosis, MethodCheck, diagnose
    from planted.recovery._intervals import half_width, prediction_noise, standard_errors
    from planted.recovery._kinks import KinkTable, kinks
    from planted.recovery._labels import encode_labels
    from planted.recovery._outliers import outliers
    from planted.recovery._recover import recover
    from planted.recovery._registry import Cost, Method, find_method, methods, predict_cost
    from planted.recovery._summaries import recover_from_sums

__all__ = [
    "Cost",
    "Diagnosis",
    "KinkTable",
    "Method",
    "MethodCheck",
    "diagnose",
    "encode_labels",
    "find_method",
    "half_width",
    "kinks",
    "methods",
    "outliers",
    "predict_cost",
    "prediction_noise",
    "recover",
    "recover_from_sums",
    "standard_errors",
]

_HOMES = {
    "Cost": "_registry",
    "Diagnosis": "_diagnose",
    "KinkTable": "_kinks",
    "half_width": "_intervals",
    "kinks": "_kinks",
    "Method": "_registry",
    "MethodCheck": "_diagnose",
    "diagnose": "_diagnose",
    "encode_labels": "_labels",
    "find_method": "_registry",
    "methods": "_registry",
    "outliers": "_outliers",
    "predict_cost": "_registry",
    "prediction_noise": "_intervals",
    "recover": "_recover",
    "recover_from_sums": "_summaries",
    "standard_errors": "_intervals",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
