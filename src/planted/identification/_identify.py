"""`planted.identify`: check what was given, ask the black box, judge the answers, and make the record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from time import perf_counter
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from planted._clock import StopRequested, time_budget
from planted._streams import seed_entropy, solver_streams
from planted._threads import one_thread_inside
from planted._typing import Array, Progress, Seed
from planted.checks import Check
from planted.identification._breakpoints import LineScan
from planted.identification._grid import DOUBLES, Grid, find_grid
from planted.identification._jumps import Line
from planted.identification._oracles import Oracle, as_oracle
from planted.identification._refine_answers import Deviation, largest_standard_error, refine_on_answers
from planted.identification._rounding import Rounding
from planted.identification._search import (
    COARSE,
    DEEPER,
    STEPS_OFF,
    BlackBox,
    Deeper,
    Identification,
    Refusal,
    check_network,
    search_lines,
)
from planted.identification._session import Domain, QuerySession, make_domain, unsaturated_domain
from planted.identification._verdict import Terms, judge, judge_stop
from planted.identification.deep import (
    DeepFinding,
    Reading,
    Records,
    breaks_bend,
    finish_reading,
    judge_deep,
    judge_deep_stop,
    looks_deep,
    miss_on_lines,
    read_layers,
)
from planted.networks import (
    Activation,
    DeepNetwork,
    TwoLayerNetwork,
    is_slope_unknown,
    is_unknown,
    parse_activation,
)
from planted.outcomes import BadInputError, Outcome
from planted.results import Provenance, Recovery, Verdict

__all__ = ["identify"]

N_REPEATED = 8  # questions asked twice, at the start and at the end, to see whether answers change
REFINED_ROWS = 20_000
REFINED_RADII = 8.0  # questions farther out carry larger rounding errors and are left out of the refinement
NOISY_SAMPLES = 20_000
PER_PARAMETER = 4  # questions at typical inputs after a search farther out
ON_HYPERPLANES = 4  # questions on each hyperplane after a search farther out
PATIENCE = 1  # lines within a box without success before higher layers are looked for
N_GRID = 40  # further questions if the first answers lie on a grid
WIDENINGS = 4  # of the scale, at most
LARGER = 2.0**12  # by which the scale is widened at once, at most
FINE_GRID = 1e-8  # the step of a grid, relative to the outputs' spread, at which steps do not matter


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
        which log-odds stay within 30, or 12 if there is only one. "logits" if the answers are no probabilities. "auto"
        asks classifiers by ``predict_proba``, or else by ``decision_function``. For an ONNX file also the name of the
        output that is to be asked.
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
        deep network ended early, ``stats["certain_layers"]`` holds the hidden layers that are certain.

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
        run = _Run(session, domain, repeats, seed, progress or _ignore, budget_seconds, depth, shape)
        if source.is_log_odds and box is None:
            try:
                rng = solver_streams(seed, 6)[5]
                run = replace(run, domain=unsaturated_domain(session, domain, rng))
            except StopRequested as stop:
                return run.stop(stop, None)
        search = _identify_exact if repeats == 1 else _identify_noisy
        answer = (_identify_curved if shape.is_curved else search)(run)
        return _with_log_odds(answer, run.domain) if source.is_log_odds else answer


@dataclass(frozen=True, slots=True)
class _Run:
    """One identification: what is asked and how, and the record that is made of its verdict."""

    session: QuerySession
    domain: Domain
    repeats: int
    random_state: Seed
    progress: Progress
    budget_seconds: float | None
    depth: int | str
    activation: Activation
    started: float = field(default_factory=perf_counter)

    def finish(
        self,
        found: Identification | Refusal | None,
        verdict: Verdict,
        network: TwoLayerNetwork | DeepNetwork | None,
        **counts: Any,
    ) -> Recovery:
        """Return the record of a verdict on what was found."""
        session = self.session
        if isinstance(found, Identification):
            counts = {"lines": found.n_lines, "n_hidden": found.network.n_hidden}
        parameters = {
            "budget": session.budget,
            "budget_seconds": self.budget_seconds,
            "has_box": self.domain.has_box,
            "repeats": self.repeats,
            "depth": self.depth,
            "activation": self.activation.name,
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
            terms=Terms(self.session.queries, self.domain.has_box, self.domain.scale),
            budget=self.session.budget,
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
    if not (shape.is_curved or shape.is_piecewise_linear):
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
        f"{answer.detail} The answers are probabilities: the outputs of the network are log-odds, read in a box of "
        f"inputs from {low.min():.3g} to {high.max():.3g}"
    )
    for rounding in answer.find(Check.ROUNDING):
        digits = -np.log10(max(float(rounding.measured), np.finfo(float).eps))
        detail += f"; they have about {digits:.0f} digits there"
    box = {"box": [low.tolist(), high.tolist()], "outputs": "log-odds"}
    return replace(answer, detail=f"{detail}.", stats={**answer.stats, **box})


def _identify_exact(run: _Run) -> Recovery:
    """Ask and judge; ask a few questions at the start and again at the end, to see whether the answers change."""
    session, domain = run.session, run.domain
    rng, checking, _, guessing, deep_rng = solver_streams(run.random_state, 5)
    near = _black_box(session, domain, DOUBLES)
    wide, grid = domain, near.grid
    found: Identification | Refusal | Deeper | None = None
    reader = _DeepReader(run, near, domain, deep_rng)
    try:
        first = domain.rows(domain.snap(near.draw(N_REPEATED, checking) / 2))
        answers = session.ask(first)
        session.check_unchanged(first, answers, batches=2)
        grid, larger = _choose_scale(near, answers, checking)
        wide = replace(domain, scale=domain.scale * larger)
        box = _black_box(session, wide, grid)
        reader = _DeepReader(run, box, wide, deep_rng)
        is_open = run.depth != 1 and not grid.words
        guess = partial(_guess_depth, run.depth, box, guessing) if is_open else None
        for number, latest in enumerate(search_lines(box, rng=rng, progress=run.progress, looks_deep=guess)):
            found = latest  # kept in case the search is stopped; the last is the answer
            if (
                number == PATIENCE
                and is_open
                and reader.is_wanted(found)
                and box.has_box
                and breaks_bend(box, guessing)
            ):
                break
        if isinstance(found, Deeper) and reader.too_coarse(found):
            found = Refusal(
                "parallel lines say that it has several hidden layers, and its answers are uncertain by "
                f"{found.rounding.relative:.1e} of their size, too coarse to read those"
            )
        if is_open and reader.is_wanted(found):
            reader.read(found.scans if isinstance(found, Deeper) else [])
            if isinstance(found, Deeper) and not reader.is_answer:
                for latest in search_lines(box, rng=rng, progress=run.progress):
                    found = latest
        if is_open and isinstance(found, Identification) and not (found.misfits or reader.is_answer):
            refusal = _refuse_shallow(box, found, guessing)
            if refusal is not None:
                found = refusal
                reader.read([])
        if reader.is_answer:
            session.check_unchanged(first, answers)
            return reader.record()
        if isinstance(found, Identification):
            found = _finish_network(session, (domain, wide), found, replace(near, grid=grid), checking)
        session.check_unchanged(first, answers)
    except StopRequested as stop:
        if reader.is_started and not isinstance(found, Identification):
            return reader.record_stop(stop)
        if isinstance(found, Deeper):
            found = None
        if isinstance(found, Identification):
            found = replace(found, network=wide.restore(found.network))
        return run.stop(stop, found)
    assert isinstance(
        found, Identification | Refusal
    )  # the search yields at least once, and was made again if deeper
    terms = Terms(session.queries, domain.has_box, wide.scale, grid, session.unrepeatable)
    return run.finish(found, *judge(found, terms))


def _guess_depth(
    depth: int | str, box: BlackBox, rng: np.random.Generator, line: Line, scan: LineScan, rounding: Rounding
) -> list[tuple[Line, LineScan]]:
    """Lines that say that several hidden layers are to be looked for first; none if there is one."""
    return looks_deep(box, line, scan, rounding, rng) if depth == "auto" else [(line, scan)]


def _refuse_shallow(box: BlackBox, found: Identification, rng: np.random.Generator) -> Refusal | None:
    """Refuse a two-layer network that fresh lines, which go farther out than typical inputs, contradict."""
    if found.rounding.relative > COARSE:
        return None
    off, asked = miss_on_lines(box, found.network, found.rounding, rng)
    if off == 0:
        return None
    return Refusal(
        f"a network of {found.network.n_hidden} units answers as it does near typical inputs, but not in {off} of {asked} "
        f"places on fresh lines that go farther out. {DEEPER}",
        found.rounding,
    )


class _DeepReader:
    """The reading of several hidden layers, in the units of the search, and the record that is made of it."""

    def __init__(self, run: _Run, box: BlackBox, domain: Domain, rng: np.random.Generator) -> None:
        self.run, self.records, self.domain, self.rng = run, Records(box), domain, rng
        self.reading = Reading()
        self.finding: DeepFinding | None = None
        self.is_started = False

    def is_wanted(self, found: Identification | Refusal | Deeper | None) -> bool:
        """Whether the search along lines leaves room for several hidden layers."""
        if isinstance(found, Identification):
            return found.misfits > 0 and found.rounding.relative <= COARSE
        return (
            isinstance(found, Deeper | Refusal) and found.rounding is not None and not self.too_coarse(found)
        )

    @staticmethod
    def too_coarse(found: Identification | Refusal | Deeper | None) -> bool:
        """Whether there seem to be several hidden layers, and the answers are too coarse to read them."""
        return isinstance(found, Deeper) and found.rounding.relative > COARSE

    def read(self, scans: list[tuple[Line, LineScan]]) -> None:
        """Read the layers, beginning with lines already scanned; if all are known, polish and check the network."""
        self.is_started = True
        try:
            for latest in read_layers(self.records, scans, rng=self.rng, progress=self.run.progress):
                self.reading = latest
        except LinAlgError as error:
            self.reading.reason = f"a decomposition broke down: {error}"
            self.reading.top = None
        if self.reading.top is not None and len(self.reading.layers) > 1:
            self.run.progress("refining all layers", 0.9)
            self.finding = finish_reading(self.reading, self.records, rng=self.rng)

    @property
    def is_answer(self) -> bool:
        """Whether what was read is the answer: a deep network, or layers that show that there are several."""
        if self.finding is not None:
            return True
        return bool(self.reading.surveys) and self.reading.top is None and self.reading.is_deep

    def record(self) -> Recovery:
        """Return the record of the reading."""
        run, finding = self.run, self.finding
        verdict, is_shown = judge_deep(
            self.reading,
            finding,
            queries=run.session.queries,
            has_box=run.domain.has_box,
            depth=None if run.depth == "auto" else int(run.depth),
        )
        network = None
        if is_shown and finding is not None:
            network = DeepNetwork(self.domain.restore_layers(finding.network.layers)).canonical()
        return run.finish(None, verdict, network, **({} if is_shown else self._certain()))

    def record_stop(self, stop: StopRequested) -> Recovery:
        """Return the record of a reading that was stopped."""
        session = self.run.session
        verdict = judge_deep_stop(str(stop), self.reading, queries=session.queries, budget=session.budget)
        verdict = replace(verdict, detail=verdict.detail + session.log_note)
        return self.run.finish(None, verdict, None, **self._certain())

    def _certain(self) -> dict[str, Any]:
        """The layers that are certain, in the units of the inputs, as plain lists."""
        layers = self.reading.layers
        if not layers or self.reading.top is not None:
            return {"certain_layers": []}
        restored = self.domain.restore_layers(layers)
        return {"certain_layers": [{"W": W.tolist(), "b": b.tolist()} for W, b in restored]}


def _black_box(session: QuerySession, domain: Domain, grid: Grid) -> BlackBox:
    """The oracle in the units of the search."""
    return BlackBox(
        lambda Z: session.ask(domain.rows(Z)), session.n_features, domain.has_box, domain.snap, grid
    )


def _choose_scale(box: BlackBox, answers: Array, rng: np.random.Generator) -> tuple[Grid, float]:
    """Find the grid of the answers, and how many times farther out to ask so that its steps are small.

    Answers with decimals have the same rounding error everywhere, while the function grows with the distance. No further
    question is asked if the first answers are on no grid.
    """
    grid, larger = find_grid(answers), 1.0
    if not grid.words and np.unique(answers).size >= N_REPEATED:
        return grid, larger
    for _ in range(WIDENINGS):
        answers = box.ask(box.snap(larger * box.draw(N_GRID, rng)))
        grid = find_grid(answers)
        spread = answers.std(axis=0)
        smallest = float(spread[spread > 0].min(initial=np.inf))
        if box.has_box or (not grid.words and np.isfinite(smallest)):
            break
        factor = grid.step / (max(FINE_GRID, grid.relative) * smallest) if np.isfinite(smallest) else LARGER
        larger *= 2.0 ** np.ceil(np.log2(min(max(factor, 1.0), LARGER)))
        if factor < LARGER:
            break
    return grid, larger


def _finish_network(
    session: QuerySession,
    domains: tuple[Domain, Domain],
    found: Identification,
    near: BlackBox,
    rng: np.random.Generator,
) -> Identification | Refusal:
    """Refine the network and write it in the units of the inputs; what was not checked at these inputs is checked."""
    domain, wide = domains
    larger = float((wide.scale / domain.scale).max())
    if larger > 1 and not found.misfits:  # biases show at typical inputs
        count = min(PER_PARAMETER * found.network.n_parameters, REFINED_ROWS)
        near.ask(near.snap(near.draw(count, rng)))
    refined, deviation = _refine(session, wide, found)
    network = wide.restore(refined)
    if found.misfits or (refined is found.network and larger == 1.0):
        return replace(found, network=network)
    rounding = replace(found.rounding, radius=found.rounding.radius * larger)
    is_refined = refined is not found.network
    checks = check_network(near, domain.adapt(network), rounding, rng, is_fine=is_refined and larger > 1)
    if larger > 1 and is_refined and not checks.misfits:
        refusal = _refuse_smooth(near, domain.adapt(network), rng)
        if refusal is not None:
            return refusal
    return replace(
        found,
        network=network,
        deviation=deviation,
        n_attempts=1,
        misfits=checks.misfits,
        largest_misfit=checks.largest,
    )


def _refuse_smooth(box: BlackBox, network: TwoLayerNetwork, rng: np.random.Generator) -> Refusal | None:
    """Refuse a function that bends smoothly where it seemed to break from far away: ask on its hyperplanes."""
    rows = box.draw(ON_HYPERPLANES * network.n_hidden, rng)
    W, b = (np.repeat(part, ON_HYPERPLANES, axis=0) for part in (network.W, network.b))
    rows -= ((np.einsum("nd,nd->n", rows, W) + b) / np.einsum("nd,nd->n", W, W))[:, None] * W
    rows = box.snap(rows[np.linalg.norm(rows, axis=1) <= REFINED_RADII * np.sqrt(box.n_features)])
    if not len(rows):
        return None
    truth = box.ask(rows)
    steps = np.abs(truth - network(rows)) / box.grid.steps(np.abs(truth))
    off = int((steps.max(axis=1) > STEPS_OFF).sum())
    if off == 0:
        return None
    return Refusal(
        f"it bends smoothly: {off} of {len(rows)} answers on its hyperplanes are up to {steps.max():.3g} steps of their "
        f"rounding ({box.grid.words}) away from a break"
    )


def _refine(
    session: QuerySession, domain: Domain, found: Identification
) -> tuple[TwoLayerNetwork, Deviation | None]:
    """Refine on the answers that are not too far out, where rounding is coarse enough to be averaged over.

    Returns the network in the units of the search, and its standard errors in those of the inputs.
    """
    net = found.network
    if found.misfits or net.n_hidden == 0 or found.orientation.shares is None:
        return net, None
    if found.orientation.residual > 0 or found.orientation.doubled.all():
        return net, None  # a linear part or leaky units: pairs of units are not refined one by one
    if found.rounding.relative <= COARSE:
        return (
            net,
            None,
        )  # the jumps are known to rounding: least squares over many answers would only add to it
    X, Y = (np.concatenate(parts) for parts in zip(*session.kept, strict=True))
    Z = (X - domain.centre) / domain.scale
    near = np.flatnonzero(np.linalg.norm(Z, axis=1) <= REFINED_RADII * found.rounding.radius)
    near = near[:: 1 + len(near) // REFINED_ROWS]
    errors = found.rounding.at(Z[near])
    refined = refine_on_answers(Z[near], Y[near], net, errors=errors)
    final = domain.restore(refined)
    norms = np.linalg.norm(final.W, axis=1)
    final = TwoLayerNetwork(final.W / norms[:, None], final.b / norms, final.A * norms, final.c)
    return refined, largest_standard_error(X[near], Y[near], final, errors=errors)


def _identify_curved(run: _Run) -> Recovery:
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
