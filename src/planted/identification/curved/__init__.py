r"""Read networks of curved units (tanh, sigmoid, softplus, GELU, ...) back from exact answers.

Problem     A black box answers without noise with :math:`A f(W x + b) + c` for a known curved f. There are no breaks to look
            for. Find W, b, A, c, or say that the box is no such network.
Idea        Answers without noise are samples without noise, at inputs that can be chosen. Inputs are drawn at sizes from a
            half to twice the typical one, so that units bend somewhere; the sample method `restarts` finds the network and
            its certificate (`planted.recover`). The number of units is not known, so the sample begins small and is doubled,
            with the old answers kept, until a certificate holds. Then fresh questions, at sizes from a quarter to four times
            the typical one, must be answered as the network predicts: to `FRESH` of the size of the answers.
Guarantee   That of the certificate, and fresh answers. What does not fit is refused by name, without a network.
Cost        About 12 questions for each parameter, rounded up to the next doubling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planted._typing import Array, Progress, Seed
from planted.checks import Check
from planted.identification._session import Domain, QuerySession
from planted.networks import Activation, TwoLayerNetwork
from planted.outcomes import Guarantee, Outcome
from planted.results import Evidence, Recovery, Unavailable, Verdict

__all__ = ["CurvedFinding", "read_curved"]

FIRST_UNITS = 4  # units for which the first sample is large enough
PER_UNKNOWN = 12
FEW_VALUES = 0.1  # different answers per question that are classes
DOUBLINGS = 3
FRESH = 1e-8  # of the largest answer: what rounding and the polish of the fit leave
N_FRESH = 96


@dataclass(frozen=True, slots=True)
class CurvedFinding:
    """The verdict, and the network if there is one to show."""

    verdict: Verdict
    network: TwoLayerNetwork | None


def read_curved(
    session: QuerySession,
    domain: Domain,
    activation: Activation,
    *,
    rng: np.random.Generator,
    random_state: Seed,
    progress: Progress,
) -> CurvedFinding:
    """Ask, recover, ask again."""
    from planted.recovery import recover  # the sample methods are loaded only where they are needed

    d = session.n_features
    X, Y = np.zeros((0, d)), np.zeros((0, 0))
    count = PER_UNKNOWN * (FIRST_UNITS + 1) * (d + 1)
    answer: Recovery | None = None
    for _ in range(DOUBLINGS + 1):
        fresh = _inputs(count - len(X), domain, rng, farthest=1.0)
        answers = session.ask(fresh)
        X, Y = np.vstack([X, fresh]), np.vstack([Y.reshape(-1, answers.shape[1]), answers])
        values = len(np.unique(Y, axis=0))
        if 1 < values <= FEW_VALUES * len(Y):
            asked = Evidence("questions asked", session.queries, key=Check.QUESTIONS)
            text = (
                f"The black box gave {values} different answers to {len(Y)} questions, as labels do and units that are "
                "constant almost everywhere: no network is read from that. Ask for probabilities or log-odds, or "
                "in a smaller box."
            )
            return CurvedFinding(Verdict.refusal(Outcome.ASSUMPTION_FAILED, text, asked), None)
        answer = recover(
            X, Y, method="restarts", activation=activation.name, random_state=random_state, progress=progress
        )
        if answer.outcome is Outcome.RECOVERED and answer.guarantee is Guarantee.EXACT:
            return _checked(session, domain, answer, rng)
        count *= 2
    assert answer is not None
    asked = Evidence("questions asked", session.queries, key=Check.QUESTIONS)
    text = (
        f"The black box is no two-layer {activation.name} network that {len(X)} answers determine: {answer.outcome.name}. "
        f"{answer.detail}"
    )
    return CurvedFinding(Verdict.refusal(Outcome.ASSUMPTION_FAILED, text, asked, *answer.evidence), None)


def _inputs(count: int, domain: Domain, rng: np.random.Generator, *, farthest: float) -> Array:
    """Draw questions at several sizes; in a box evenly."""
    if domain.has_box:
        return domain.rows(rng.uniform(-1, 1, (count, len(domain.scale))))
    sizes = 2.0 ** rng.uniform(-farthest, farthest, (count, 1))
    return domain.rows(domain.snap(sizes * rng.standard_normal((count, len(domain.scale)))))


def _checked(
    session: QuerySession, domain: Domain, answer: Recovery, rng: np.random.Generator
) -> CurvedFinding:
    """Compare the network with fresh answers."""
    network: TwoLayerNetwork = answer.network
    rows = _inputs(N_FRESH, domain, rng, farthest=2.0)
    truth = session.ask(rows, fresh=True)
    gap = np.abs(network(rows) - truth) / max(float(np.abs(truth).max()), np.finfo(float).tiny)
    misfits = int((gap.max(axis=1) > FRESH).sum())
    lines = (
        Evidence("questions asked", session.queries, key=Check.QUESTIONS),
        Evidence(
            "questions per parameter",
            session.queries / network.n_parameters,
            key=Check.QUESTIONS_PER_PARAMETER,
        ),
        Evidence(
            f"fresh answers of {N_FRESH} that the network misses", misfits, 0, "<=", key=Check.FRESH_ANSWERS
        ),
        Evidence(
            "largest miss of a fresh answer, relative to the largest",
            float(gap.max()),
            key=Check.RESIDUAL_BOUND,
        ),
    )
    doubt = Unavailable(
        "The answers are not a noisy sample; the evidence shows how well they are reproduced."
    )
    if misfits:
        text = (
            f"The black box is no two-layer {network.activation.name} network: one of {network.n_hidden} units reproduces "
            f"the sample, but misses {misfits} of {N_FRESH} fresh answers by up to {gap.max():.2g} of their size."
        )
        verdict = Verdict(Outcome.ASSUMPTION_FAILED, Guarantee.NONE, (*lines, *answer.evidence), text, doubt)
        return CurvedFinding(verdict, None)
    text = (
        f"{session.queries} questions; {network.n_hidden} {network.activation.name} units reproduce all answers to "
        f"rounding, and {N_FRESH} fresh ones."
    )
    evidence = (*lines, *answer.evidence)
    return CurvedFinding(Verdict(Outcome.RECOVERED, answer.guarantee, evidence, text, doubt), network)
