"""Recover the two-layer neural network that generated a data set, with evidence that it is the one.

Public names are loaded when they are first used, so that ``import planted`` costs little more than NumPy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planted._version import __version__

if TYPE_CHECKING:
    from planted import diagnostics, simulate
    from planted._clock import StopRequested
    from planted.checks import Check
    from planted.distributed import on_cluster
    from planted.estimators import (
        MemorizingClassifier,
        MemorizingRegressor,
        TwoLayerClassifier,
        TwoLayerRegressor,
    )
    from planted.identification import compare, identify
    from planted.io import (
        checkpointed,
        export_network,
        import_network,
        load_network,
        open_blocks,
        to_sklearn,
        to_torch,
    )
    from planted.memorization._memorize import memorize
    from planted.memorization._result import Memory
    from planted.networks import (
        DeepNetwork,
        ThreeLayerNetwork,
        TwoLayerNetwork,
        UnitMatching,
        match_units,
        parameter_error,
        register_activation,
    )
    from planted.outcomes import Guarantee, Outcome
    from planted.recovery import (
        Diagnosis,
        KinkTable,
        diagnose,
        kinks,
        methods,
        outliers,
        recover,
        recover_from_sums,
        standard_errors,
    )
    from planted.results import Evidence, Recovery, Requirements, Unavailable, Uncertainty
    from planted.rows import RowBlocks
    from planted.verification import OutputBounds, SlopeBounds, bounds, slopes
    from planted.verification.properties import Verdict, verify

__all__ = [
    "Check",
    "DeepNetwork",
    "Diagnosis",
    "Evidence",
    "Guarantee",
    "KinkTable",
    "MemorizingClassifier",
    "MemorizingRegressor",
    "Memory",
    "Outcome",
    "OutputBounds",
    "Recovery",
    "Requirements",
    "RowBlocks",
    "SlopeBounds",
    "StopRequested",
    "ThreeLayerNetwork",
    "TwoLayerClassifier",
    "TwoLayerNetwork",
    "TwoLayerRegressor",
    "Unavailable",
    "Uncertainty",
    "UnitMatching",
    "Verdict",
    "__version__",
    "bounds",
    "checkpointed",
    "compare",
    "diagnose",
    "diagnostics",
    "export_network",
    "identify",
    "import_network",
    "kinks",
    "load_network",
    "match_units",
    "memorize",
    "methods",
    "on_cluster",
    "open_blocks",
    "outliers",
    "parameter_error",
    "recover",
    "recover_from_sums",
    "register_activation",
    "simulate",
    "slopes",
    "standard_errors",
    "to_sklearn",
    "to_torch",
    "verify",
]

_HOMES = {
    "Check": "planted.checks",
    "DeepNetwork": "planted.networks",
    "StopRequested": "planted._clock",
    "checkpointed": "planted.io",
    "on_cluster": "planted.distributed",
    "open_blocks": "planted.io",
    "recover_from_sums": "planted.recovery",
    "Diagnosis": "planted.recovery",
    "KinkTable": "planted.recovery",
    "kinks": "planted.recovery",
    "diagnose": "planted.recovery",
    "Evidence": "planted.results",
    "Guarantee": "planted.outcomes",
    "MemorizingClassifier": "planted.estimators",
    "MemorizingRegressor": "planted.estimators",
    "Memory": "planted.memorization._result",
    "Outcome": "planted.outcomes",
    "Recovery": "planted.results",
    "Requirements": "planted.results",
    "RowBlocks": "planted.rows",
    "ThreeLayerNetwork": "planted.networks",
    "TwoLayerNetwork": "planted.networks",
    "TwoLayerClassifier": "planted.estimators",
    "TwoLayerRegressor": "planted.estimators",
    "Unavailable": "planted.results",
    "Uncertainty": "planted.results",
    "UnitMatching": "planted.networks",
    "OutputBounds": "planted.verification",
    "SlopeBounds": "planted.verification",
    "bounds": "planted.verification",
    "slopes": "planted.verification",
    "Verdict": "planted.verification.properties",
    "verify": "planted.verification.properties",
    "compare": "planted.identification",
    "export_network": "planted.io",
    "identify": "planted.identification",
    "import_network": "planted.io",
    "load_network": "planted.io",
    "match_units": "planted.networks",
    "memorize": "planted.memorization._memorize",
    "methods": "planted.recovery",
    "outliers": "planted.recovery",
    "parameter_error": "planted.networks",
    "recover": "planted.recovery._recover",
    "register_activation": "planted.networks",
    "standard_errors": "planted.recovery",
    "to_sklearn": "planted.io",
    "to_torch": "planted.io",
}


def __getattr__(name: str) -> Any:
    if name in ("diagnostics", "simulate"):
        return import_module(f"planted.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'planted' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """The type of this package: importing the subpackage `planted.methods` does not hide the function of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "methods" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel by name, as any module does, with functions that joblib and Dask send to other processes."""
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
