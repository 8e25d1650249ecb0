"""The front door: look at the data, choose a method, return one answer with its evidence."""

from planted.front._cost import Cost, predict_cost
from planted.front._diagnose import Diagnosis, MethodCheck, diagnose
from planted.front._intervals import standard_errors
from planted.front._outliers import outliers
from planted.front._recover import recover
from planted.front._registry import Method, find_method, methods
from planted.front._summaries import recover_from_sums

__all__ = [
    "Cost",
    "Diagnosis",
    "Method",
    "MethodCheck",
    "diagnose",
    "find_method",
    "methods",
    "outliers",
    "predict_cost",
    "recover",
    "recover_from_sums",
    "standard_errors",
]
