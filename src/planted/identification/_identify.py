"""`planted.identify`: check what was given, ask the black box, judge the answers, and make the record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from time import perf_counter
from typing import Any

import numpy as np

from planted._clock import StopRequested, time_budget
from planted._streams import seed_entropy, solver_streams
from planted._threads import one_thread_inside
from planted._typing import Array, Progress, Seed
from planted.fitting._problem import Scaling
from planted.identification._oracles import Oracle, as_oracle
from planted.identification._refine_answers import refine_on_answers
from planted.identification._search import COARSE, BlackBox, Identification, Refusal, search_lines
from planted.identification._session import QuerySession
from planted.identification._verdict import judge, judge_stop
from planted.networks import TwoLayerNetwork
from planted.outcomes import BadInputError, Outcome
from planted.results import Provenance, Recovery, Verdict

__all__ = ["identify"]

N_REPEATED = 8  # questions asked twice, at the start and at the end, to see whether answers change
REFINED_ROWS = 20_000
REFINED_RADII = 8.0  # questions farther out carry larger rounding errors and are left out of the refinement
NOISY_SAMPLES = 20_000


@one_thread_inside
def identify(
    oracle: Any,
    n_features: int | None = None,
    *,
    budget: int | None = None,
    box: tuple[Any, Any] | None = None,
    scale: float | Any = 1.0,
    repeats: int = 1,
    batch_rows: int = 4096,
    log: str | PathLike[str] | None = None,
    random_state: Seed = None,
    progress: Progress | None = None,
    budget_seconds: float | None = None,
) -> Recovery:
    """Read a two-layer ReLU network back from a black box by choosing what to ask it.

    Parameters
    ----------
    oracle : callable, torch.nn.Module, path of an ONNX file, fitted regressor, or list of str
        What can be asked: takes rows of shape (n, d) and returns answers of shape (n, m) or (n,). A list of str is a
        command that reads rows as CSV without header from its input and writes answers in the same form.
    n_features : int, optional
        Number of inputs; may be omitted if the oracle tells it.
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
    batch_rows : int, default=4096
        Most questions in one call of the oracle.
    log : path-like, optional
        File that keeps questions and answers. A run that broke off is resumed from it: with the same ``random_state``
        the same questions come up again and are answered from the log.
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
        The network and the evidence; ``stats["queries"]`` counts the questions, ``stats["reused"]`` the answers taken
        from the log.

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
        source = as_oracle(oracle)
        d = _check_n_features(n_features, source)
        _check_counts(budget=budget, repeats=repeats, batch_rows=batch_rows)
        domain = _domain(d, box, scale, source)
        session = QuerySession(source, d, budget=budget, batch_rows=batch_rows, log=log)
        seed = np.random.SeedSequence() if random_state is None else random_state
        run = _Run(session, domain, repeats, seed, progress or _ignore, budget_seconds)
        return _identify_exact(run) if repeats == 1 else _identify_noisy(run)


@dataclass(frozen=True, slots=True)
class _Domain:
    """Units of the search: x = centre + scale z, with z of order one, or within [-1, 1] if there is a box."""

    centre: Array
    scale: Array
    has_box: bool
    is_single: bool

    def rows(self, Z: Array) -> Array:
        X = self.centre + self.scale * Z
        return np.clip(X, self.centre - self.scale, self.centre + self.scale) if self.has_box else X

    def snap(self, Z: Array) -> Array:
        """Round to single precision if the oracle does; without a box the scale is a power of two then."""
        return Z.astype(np.float32).astype(np.float64) if self.is_single and not self.has_box else Z

    def restore(self, network: TwoLayerNetwork) -> TwoLayerNetwork:
        return Scaling(self.centre, self.scale, np.zeros(network.n_outputs), 1.0).restore(network)


@dataclass(frozen=True, slots=True)
class _Run:
    """One identification: what is asked and how, and the record that is made of its verdict."""

    session: QuerySession
    domain: _Domain
    repeats: int
    random_state: Seed
    progress: Progress
    budget_seconds: float | None
    started: float = field(default_factory=perf_counter)

    def finish(
        self, found: Identification | Refusal | None, verdict: Verdict, network: TwoLayerNetwork | None
    ) -> Recovery:
        """Return the record of a verdict on what was found."""
        session = self.session
        counts: dict[str, Any] = {}
        if isinstance(found, Identification):
            counts = {"lines": found.n_lines, "n_hidden": found.network.n_hidden}
        parameters = {
            "budget": session.budget,
            "budget_seconds": self.budget_seconds,
            "has_box": self.domain.has_box,
            "repeats": self.repeats,
            "oracle": session.oracle.name,
        }
        shape = (session.queries, session.n_features, session.n_outputs or 0)
        seed = seed_entropy(self.random_state)
        provenance = Provenance("identify", "Carlini2020", parameters, seed, shape)
        return verdict.record(network, counts | self.counts(), provenance)

    def stop(self, stop: StopRequested, latest: Identification | Refusal | None) -> Recovery:
        """Return the record of a run that was stopped, with what is certain."""
        verdict, network = judge_stop(
            str(stop),
            latest,
            queries=self.session.queries,
            budget=self.session.budget,
            has_box=self.domain.has_box,
        )
        verdict = replace(verdict, detail=verdict.detail + self.session.log_note)
        return self.finish(latest, verdict, network)

    def counts(self) -> dict[str, Any]:
        """Return what the run has cost so far."""
        seconds = perf_counter() - self.started
        return {"queries": self.session.queries, "reused": self.session.reused, "seconds": seconds}


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


def _domain(d: int, box: tuple[Any, Any] | None, scale: Any, oracle: Oracle) -> _Domain:
    """Return the units of the search, from the box or from the size of typical inputs."""
    if box is None:
        sizes: Array = np.broadcast_to(np.asarray(scale, dtype=np.float64), (d,))
        if not (np.isfinite(sizes) & (sizes > 0)).all():
            raise BadInputError(f"scale={scale!r}; expected positive numbers")
        if oracle.is_single:
            sizes = np.exp2(np.round(np.log2(sizes)))
        return _Domain(np.zeros(d), np.array(sizes), False, oracle.is_single)
    if len(box) != 2:
        raise BadInputError(f"box has {len(box)} parts; expected (low, high)")
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (d,)) for end in box)
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise BadInputError("box: every lower bound must be finite and below its upper bound")
    return _Domain((low + high) / 2, (high - low) / 2, True, oracle.is_single)


def _identify_exact(run: _Run) -> Recovery:
    """Ask and judge; ask a few questions at the start and again at the end, to see whether the answers change."""
    session, domain = run.session, run.domain
    rng, checking = solver_streams(run.random_state, 2)
    box = BlackBox(lambda Z: session.ask(domain.rows(Z)), session.n_features, domain.has_box, domain.snap)
    found: Identification | Refusal | None = None
    try:
        first = domain.rows(domain.snap(box.draw(N_REPEATED, checking) / 2))
        answers = session.ask(first)
        session.check_unchanged(first, answers)
        for latest in search_lines(box, rng=rng, progress=run.progress):
            found = latest  # kept in case the search is stopped; the last is the answer
        session.check_unchanged(first, answers)
    except StopRequested as stop:
        if isinstance(found, Identification):
            found = replace(found, network=domain.restore(found.network))
        return run.stop(stop, found)
    assert found is not None  # the search yields at least once
    if isinstance(found, Identification):
        found = replace(found, network=domain.restore(_refine(session, domain, found)))
    return run.finish(found, *judge(found, queries=session.queries, has_box=domain.has_box))


def _refine(session: QuerySession, domain: _Domain, found: Identification) -> TwoLayerNetwork:
    """Refine on the answers that are not too far out, where rounding is coarse enough to be averaged over."""
    net = found.network
    if found.misfits or net.n_hidden == 0 or found.orientation.shares is None:
        return net
    if found.rounding.relative <= COARSE:
        return net  # the jumps are known to rounding: least squares over many answers would only add to it
    X, Y = (np.concatenate(parts) for parts in zip(*session.kept, strict=True))
    Z = (X - domain.centre) / domain.scale
    near = np.flatnonzero(np.linalg.norm(Z, axis=1) <= REFINED_RADII * found.rounding.radius)
    near = near[:: 1 + len(near) // REFINED_ROWS]
    return refine_on_answers(Z[near], Y[near], net, errors=found.rounding.at(Z[near]))


def _identify_noisy(run: _Run) -> Recovery:
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


def _ignore(what: str, fraction: float) -> None:
    """Take no notice of progress."""
