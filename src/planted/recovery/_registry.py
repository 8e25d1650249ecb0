"""The table of methods: one line each, everything else is read from the method's own card.

A method is a module in `planted.algorithms` with a card ``REQUIRES`` and a function that takes row blocks, the number
of hidden units and keyword options, and returns a `Recovery`. Modules are imported when they are first asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from planted.outcomes import BadInputError
from planted.results import Recovery, Requirements

__all__ = ["Method", "find_method", "methods", "weighing_method"]

# name -> (module, function); the order is the one in which "auto" tries them: cheap and exact first.
_MODULES = {
    "complementarity": ("planted.methods.complementarity", "recover_complementarity"),
    "restarts": ("planted.methods.restarts", "recover_restarts"),
    "symmetric-inputs": ("planted.methods.symmetric_inputs", "recover_symmetric_inputs"),
    "hermite": ("planted.methods.hermite", "recover_hermite"),
    "landscape": ("planted.methods.landscape", "recover_landscape"),
    "sign-patterns": ("planted.methods.sign_patterns", "recover_sign_patterns"),
    "joint-diagonalisation": ("planted.methods.joint_diagonalisation", "recover_joint_diagonalisation"),
    "ica": ("planted.methods.ica", "recover_ica"),
    "lone-units": ("planted.methods.lone_units", "recover_lone_units"),
    "gross-errors": ("planted.methods.gross_errors", "recover_gross_errors"),
    "half-spaces": ("planted.methods.half_spaces", "recover_half_spaces"),
    "small-network": ("planted.methods.small_network", "recover_small_network"),
}
_COMMON = frozenset({"blocks", "n_hidden", "random_state", "progress", "activation"})


@dataclass(frozen=True, slots=True)
class Method:
    """A method, ready to run."""

    requires: Requirements  # its card
    # ``run(blocks, n_hidden, random_state=..., progress=..., **options) -> Recovery``.
    run: Callable[..., Recovery]

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options the method understands."""
        return tuple(name for name in inspect.signature(self.run).parameters if name not in _COMMON)

    def activation_keyword(self, name: str) -> dict[str, str]:
        """Return the activation as a keyword, for methods that handle several; nothing for the others."""
        return {"activation": name} if "activation" in inspect.signature(self.run).parameters else {}

    def check_options(self, options: dict[str, object]) -> None:
        """Refuse options the method does not know."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            raise BadInputError(
                f"method {self.requires.method!r} has no option {', '.join(unknown)}; it knows {', '.join(self.options)}"
            )


def find_method(name: str) -> Method:
    """Return the method of a name."""
    if name not in _MODULES:
        raise BadInputError(f"unknown method {name!r}; known are 'auto', {', '.join(map(repr, _MODULES))}")
    module_name, function_name = _MODULES[name]
    module = import_module(module_name)
    return Method(module.REQUIRES, getattr(module, function_name))


def weighing_method(name: str) -> str:
    """Return the method for rows that carry weights, or refuse one that cannot use them.

    `name`: the method asked for; "auto" stands for the first that takes weights.

    Examples
    --------
    >>> weighing_method("auto")
    'restarts'
    """
    able = [each for each in _MODULES if "sample_weight" in find_method(each).options]
    if name == "auto":
        return able[0]
    if name in _MODULES and name not in able:
        raise BadInputError(
            f"method {name!r} cannot weigh rows; {', '.join(map(repr, able))} can. Name it with method=..., or leave the "
            "weights out."
        )
    return name


def methods() -> dict[str, Requirements]:
    """Return the table of methods with what each requires.

    Returns
    -------
    dict
        Method name to `Requirements`, in the order in which ``method="auto"`` considers them.

    Examples
    --------
    >>> import planted
    >>> planted.methods()["complementarity"].n_outputs
    'm >= k'
    """
    return {name: find_method(name).requires for name in _MODULES}
