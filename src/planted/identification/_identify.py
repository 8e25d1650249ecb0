"""`planted.identify`: check what was given, ask the black box, judge the answers, and make the record."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from planted._clock import StopRequested, time_budget
from planted._streams import solver_streams
from planted._threads import one_thread_inside
from planted._typing import Progress, Seed
from planted.checks import Check
from planted.identification._exact import identify_exact
from planted.identification._oracles import Oracle, as_oracle
from planted.identification._run import QueryRun
from planted.identification._session import (
    N_REPEATED,
    Domain,
    QuerySession,
    make_domain,
    unsaturated_domain,
)
from planted.networks import Activation, is_slope_unknown, is_unknown, parse_activation
from planted.outcomes import BadInputError, Outcome
from planted.results import Recovery

__all__ = ["identify"]

NOISY_SAMPLES = 20_000
CURVED_DOUBLINGS = 1  # of a box that is chosen: far out curved units are constant or straight


@one_thread_inside
def identify(
    oracle: Any,
    n_features: int | None = None,
    *,
    depth: int | str = "auto",
    budget: int | None = None,
    box: tuple[Any, Any] | None = None,
    scale: float | Any = 1.0,
    repeats: int = 1,
    outputs: str = "auto",
    activation: str = "relu",
    batch_rows: int = 4096,
    log: str | PathLike[str] | None = None,
    random_state: Seed = None,
    progress: Progress | None = None,
    budget_seconds: float | None = None,
) -> Recovery:
    """Read a network back from a black box by choosing what to ask it.

    Parameters
    ----------
    oracle : callable, torch.nn.Module, path of an ONNX file, fitted regressor or classifier, or list of str
        What can be asked: takes rows of shape (n, d) and returns answers of shape (n, m) or (n,). A list of str is a
        command that reads rows as CSV without header from its input and writes answers in the same form.
    n_features : int, optional
        Number of inputs; may be omitted if the oracle tells it.
    depth : int or "auto", default="auto"
        Number of hidden layers. With 1 only two-layer networks are looked for; a larger number refuses others.
    budget : int, optional
        Most questions (rows) to ask. If they do not suffice, what is certain by then is returned as
        ``STOPPED_EARLY``.
    box : (low, high), optional
        Inputs must stay between these bounds (numbers or arrays of shape (d,)). Without a box questions may be
        anywhere, some of them a million times farther out than ``scale``.
    scale : float or array_like of shape (d,), default=1.0
        Size of typical inputs when there is no box.
    repeats : int, default=1
        Above 1 the oracle is taken to be noisy: every question is asked this many times, the answers are averaged, and
        the network is recovered from them by the sample methods of `planted.recover`.
    outputs : str, default="auto"
        "probabilities" if the oracle answers with probabilities. The network that is read has their log-odds as outputs:
        of every class against the last, or of every output if they do not sum to one. Without a box one is chosen in
        which log-odds stay within 30, or 12 if there is only one. "log-odds" if it answers with log-odds, which may be
        infinite where a probability is 0 or 1: a box is chosen as well. "logits" if the answers are neither. "auto" asks
        classifiers by ``predict_proba``, or else by ``decision_function``. For an ONNX file also the name of the output
        that is to be asked.
    activation : str, default="relu"
        Activation of the units. With "relu" units of any two slopes are found: leaky ones and absolute values too. A curved
        one, such as "tanh", "sigmoid", "softplus", "gelu", "silu", "elu" or a name of `planted.register_activation`, needs
        answers without noise; what is no two-layer network of such units is refused.
    batch_rows : int, default=4096
        Most questions in one call of the oracle.
    log : path-like, optional
        File that keeps questions and answers. A run that broke off is resumed from it: with the same ``random_state``
        the same questions come up again and are answered from the log. The log of another ONNX file or command line is
        refused.
    random_state : int, Generator, SeedSequence or None
        Seed; the same seed asks the same questions.
    progress : callable, optional
        Called as ``progress(what, fraction)`` while working.
    budget_seconds : float, optional
        Time limit, looked at before every batch of questions. What is certain by then is returned as
        ``STOPPED_EARLY``.

    Returns
    -------
    Recovery
        The network and the evidence: a `TwoLayerNetwork`, or a `DeepNetwork` if there are several hidden layers.
        ``stats["queries"]`` counts the questions, ``stats["reused"]`` the answers taken from the log. If the reading of a
        deep network ended early, ``stats["certain_layers"]`` holds the hidden layers that are certain; if none
        is, ``stats["first_hyperplanes"]`` holds the hyperplanes that were found again elsewhere: units of the first
        layer up to orientation and scale, and now and then a flat part of a unit above.

    Raises
    ------
    OracleError
        If the oracle raises, changes its answers, or answers with NaN or in the wrong shape.

    Examples
    --------
    >>> import planted
    >>> secret = planted.simulate.teacher(10, 5, bias=(-0.5, 0.5), random_state=0)
    >>> recovery = planted.identify(secret, 10, random_state=1)
    >>> recovery.outcome.name, recovery.network.n_hidden, recovery.stats["queries"] < 1000
    ('RECOVERED', 5, True)
    >>> planted.parameter_error(recovery.network, secret) < 1e-12
    True
    """
    with time_budget(budget_seconds):
        source = as_oracle(oracle, outputs=outputs)
        d = _check_n_features(n_features, source)
        _check_counts(budget=budget, repeats=repeats, batch_rows=batch_rows)
        _check_depth(depth)
        shape = _check_activation(activation, repeats, depth)
        domain = make_domain(d, box, scale, source)
        session = QuerySession(source, d, budget=budget, batch_rows=batch_rows, log=log)
        seed = np.random.SeedSequence() if random_state is None else random_state
        watch = _forwards(progress) if progress is not None else _ignore
        run = QueryRun(session, domain, repeats, seed, watch, budget_seconds, depth, shape)
        if source.is_log_odds and box is None:
            try:
                rng = solver_streams(seed, 6)[5]
                far = {"farthest": CURVED_DOUBLINGS} if shape.is_curved else {}
                run = replace(run, domain=unsaturated_domain(session, domain, rng, **far))
            except StopRequested as stop:
                return run.stop(stop, None)
        search = identify_exact if repeats == 1 else _identify_noisy
        answer = (_identify_curved if shape.is_curved else search)(run)
        return _with_log_odds(answer, run.domain) if source.is_log_odds else answer


def _check_n_features(n_features: int | None, oracle: Oracle) -> int:
    """Return the number of inputs, from the caller or from the oracle; both must agree."""
    if n_features is None and oracle.n_features is None:
        raise BadInputError("n_features is missing: this oracle does not tell how many inputs it takes")
    if n_features is not None and (
        isinstance(n_features, bool) or int(n_features) != n_features or n_features < 1
    ):
        raise BadInputError(f"n_features={n_features!r}; expected a number of at least 1")
    if n_features is not None and oracle.n_features not in (None, n_features):
        raise BadInputError(f"n_features={n_features}, but the oracle takes {oracle.n_features} inputs")
    return int(n_features if n_features is not None else oracle.n_features or 0)


def _check_counts(*, budget: int | None, repeats: int, batch_rows: int) -> None:
    """Refuse numbers that are not whole or not positive."""
    for name, value in (("budget", budget), ("repeats", repeats), ("batch_rows", batch_rows)):
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise BadInputError(f"{name}={value!r}; expected a whole number of at least 1")


def _check_depth(depth: int | str) -> None:
    """Refuse what is no number of hidden layers."""
    is_count = isinstance(depth, int | np.integer) and not isinstance(depth, bool) and depth >= 1
    if not (is_count or (isinstance(depth, str) and depth == "auto")):
        raise BadInputError(f'depth={depth!r}; expected "auto" or a whole number of at least 1')


def _check_activation(name: str, repeats: int, depth: int | str) -> Activation:
    """Return the activation; refuse what no search takes, with what works."""
    if is_unknown(name) or is_slope_unknown(name):
        raise BadInputError(
            f"activation={name!r}; expected a name. With 'relu' leaky units of any slope are found too; a curved activation "
            "must be named."
        )
    shape = parse_activation(name)
    is_rectified = shape.is_curved and shape.inverse is not None
    if is_rectified or not (shape.is_curved or shape.is_piecewise_linear):
        raise BadInputError(
            f"activation={name!r} is not read by questions; ask for a sample and use planted.recover, which takes it"
        )
    if shape.is_curved and repeats > 1:
        raise BadInputError(
            f"activation={name!r} needs answers without noise; repeats={repeats} is for noisy ones. Ask for a sample and "
            "use planted.recover."
        )
    if shape.is_curved and depth not in (1, "auto"):
        raise BadInputError(f"activation={name!r} is read in two-layer networks only; got depth={depth}")
    return shape


def _with_log_odds(answer: Recovery, domain: Domain) -> Recovery:
    """Say in a record that the outputs are log-odds, where they were read, and how many digits they have."""
    low, high = domain.centre - domain.scale, domain.centre + domain.scale
    detail = (
        f"{answer.detail} The outputs of the network are log-odds, read in a box of "
        f"inputs from {low.min():.3g} to {high.max():.3g}"
    )
    for rounding in answer.find(Check.ROUNDING):
        digits = -np.log10(max(float(rounding.measured), np.finfo(float).eps))
        detail += f"; they have about {digits:.0f} digits there"
    box = {"box": [low.tolist(), high.tolist()], "outputs": "log-odds"}
    return replace(answer, detail=f"{detail}.", stats={**answer.stats, **box})


def _identify_curved(run: QueryRun) -> Recovery:
    """Ask at inputs of several sizes and recover from the answers; ask some again at the end."""
    from planted.identification.curved import read_curved  # only for curved units

    session = run.session
    rng, checking = solver_streams(run.random_state, 2)
    try:
        first = run.domain.rows(run.domain.snap(checking.uniform(-1, 1, (N_REPEATED, session.n_features))))
        answers = session.ask(first)
        session.check_unchanged(first, answers, batches=2)
        found = read_curved(
            session,
            run.domain,
            run.activation,
            rng=rng,
            random_state=run.random_state,
            progress=run.progress,
        )
        session.check_unchanged(first, answers)
    except StopRequested as stop:
        return run.stop(stop, None)
    return run.finish(None, found.verdict, found.network)


def _identify_noisy(run: QueryRun) -> Recovery:
    """Ask in pairs (z, -z), each several times, and recover from the averaged answers."""
    session, domain, repeats = run.session, run.domain, run.repeats
    affordable = NOISY_SAMPLES if session.budget is None else session.budget // repeats
    pairs = affordable // 2
    if pairs < 1:
        raise BadInputError(f"budget={session.budget} allows no pair of questions, {repeats} times each")
    (rng,) = solver_streams(run.random_state, 3)[2:]
    shape = (pairs, session.n_features)
    draw = rng.uniform(-1, 1, shape) if domain.has_box else rng.standard_normal(shape)
    X = domain.rows(np.concatenate([draw, -draw]))
    try:
        Y = sum(session.ask(X, fresh=True) for _ in range(repeats)) / repeats
        from planted.recovery import recover  # the sample methods are loaded only where they are needed

        answer = recover(X, Y, random_state=run.random_state, progress=run.progress)
    except StopRequested as stop:
        return run.stop(stop, None)
    detail = answer.detail
    if answer.outcome is Outcome.STOPPED_EARLY:
        detail += f" {session.queries} questions were asked."
    return replace(answer, stats={**answer.stats, **run.counts()}, detail=detail)


def _forwards(progress: Progress) -> Progress:
    """Report fractions that never fall: a reading of several layers begins anew where one of two layers ended."""
    farthest = 0.0

    def report(what: str, fraction: float) -> None:
        nonlocal farthest
        farthest = max(farthest, fraction)
        progress(what, farthest)

    return report


def _ignore(what: str, fraction: float) -> None:
    """Take no notice of progress."""
