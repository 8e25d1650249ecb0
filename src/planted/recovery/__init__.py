"""The front door: look at the data, choose a method, return one answer with its evidence."""

from planted.recovery._cost import Cost, predict_cost
from planted.recovery._diagnose import Diagnosis, MethodCheck, diagnose
from planted.recovery._intervals import standard_errors
from planted.recovery._outliers import outliers
from planted.recovery._recover import recover
from planted.recovery._registry import Method, find_method, methods
from planted.recovery._summaries import recover_from_sums

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
