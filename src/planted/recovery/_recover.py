"""`planted.recover`: validate, choose, run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planted._clock import time_budget
from planted._threads import one_thread_inside
from planted._typing import Progress, Seed
from planted._validation import check_n_hidden
from planted.fitting._problem import Preparation
from planted.networks import parse_activation
from planted.outcomes import BadInputError
from planted.recovery._auto import AUTO, recover_automatically
from planted.recovery._blocks import blocks_and_notices
from planted.recovery._cost import require_room
from planted.recovery._registry import Method, find_method, weighing_method
from planted.results import Recovery
from planted.rows import RowBlocks

__all__ = ["recover"]


@one_thread_inside
def recover(
    X: Any,
    Y: Any = None,
    n_hidden: int | str = "auto",
    *,
    method: str = "auto",
    activation: str = "relu",
    random_state: Seed = None,
    progress: Progress | None = None,
    budget_seconds: float | None = None,
    missing_labels: str = "refuse",
    **options: Any,
) -> Recovery:
    """Recover the two-layer network that generated the data.

    Parameters
    ----------
    X : array_like of shape (n, d), DataFrame, Dask array or dataframe, or RowBlocks
        Inputs. A `planted.RowBlocks` carries inputs and outputs, perhaps weights, and may be larger than memory; Y is
        then omitted.
    Y : array_like of shape (n, m) or (n,), or Dask array, dataframe or series, optional
        Outputs.
    n_hidden : int or "auto"
        Number of hidden units, if it is known.
    method : str, default="auto"
        One of `planted.methods`, or "auto". Rows that carry weights need a method that takes them; "auto" chooses it.
    activation : str, default="relu"
        Activation of the hidden units.
    random_state : int, Generator, SeedSequence or None
        Seed of the solver; the same seed gives the same answer. With None a fresh one is drawn and recorded in
        the provenance.
    progress : callable, optional
        Called as ``progress(what, fraction)`` while working.
    budget_seconds : float, optional
        Time limit; the best network so far is then returned as ``STOPPED_EARLY``.
    missing_labels : {"refuse", "mask"}
        What to do about labels that are NaN: refuse them, or leave these entries out and use all others.
    **options
        Options of the method.

    Returns
    -------
    Recovery
        The network, how far to trust it, and why.

    Examples
    --------
    >>> import planted
    >>> data = planted.simulate.dataset(80, n_features=6, n_hidden=3, n_outputs=4, law="exponential",
    ...                                 activity=(0.3, 0.7), random_state=0)
    >>> recovery = planted.recover(data.X, data.Y, random_state=0)
    >>> recovery.outcome.name, planted.parameter_error(recovery.network, data.network) < 1e-12
    ('RECOVERED', True)
    """
    k = check_n_hidden(n_hidden)
    if missing_labels not in ("refuse", "mask"):
        raise BadInputError(f"missing_labels={missing_labels!r}; expected 'refuse' or 'mask'")
    name = parse_activation(activation).name
    blocks, notices = _rows_of(X, Y, missing_labels)
    require_room(blocks, k)
    chosen = _method_named(weighing_method(method) if blocks.is_weighted else method, name, options)
    data = Preparation(blocks, random_state=random_state, progress=progress)
    with time_budget(budget_seconds):
        if missing_labels == "mask":
            from planted.recovery._missing import recover_despite_missing  # only who masks labels needs it

            masked = Method(chosen.requires, recover_despite_missing)
            answer = masked.run(data, k, method=chosen, activation=name, options=options)
        else:
            answer = chosen.run(data, k, activation=name, **options)
    return replace(answer, stats={**answer.stats, "notices": list(notices)}) if notices else answer


def _rows_of(X: Any, Y: Any, missing_labels: str) -> tuple[RowBlocks, tuple[str, ...]]:
    """Return the rows, with NaN for missing labels where they are allowed, and what is worth knowing about them."""
    if missing_labels == "refuse":
        return blocks_and_notices(X, Y)
    if isinstance(X, RowBlocks) and X.is_weighted:
        raise BadInputError("rows that carry weights cannot have missing labels; leave out one or the other")
    from planted.recovery._missing import masked_blocks

    return masked_blocks(X, Y), ()


def _method_named(name: str, activation: str, options: dict[str, Any]) -> Method:
    """Return the method that was asked for; refuse an activation or options that it does not know."""
    if name == "auto":
        if options:
            raise BadInputError(f"options {', '.join(options)} belong to a method; name it with method=...")
        return Method(AUTO, recover_automatically)
    chosen = find_method(name)
    chosen.requires.check_activation(activation)
    chosen.check_options(options)
    return chosen
