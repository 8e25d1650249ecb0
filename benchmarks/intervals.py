"""Do the 95 % intervals of claimed networks cover 93 to 97 %, under each law of noise, or is nothing claimed?

    python benchmarks/intervals.py [--quick] [--write] [--fits 200]

Problems are those of `families_noisy.py`: another network, other inputs and another size of the noise for every fit. The
network is refined from the truth, so that the certificate and its intervals are judged and not the search; the certificate
sees the data alone. Intervals are estimate ± 1.96 standard errors, counted over all parameters of all claims, wrong ones
included. The parameters of a fit are not independent, so the error of a share is taken from its spread over the fits; a
law holds if the share is within two of these errors of 93 to 97 %. A law with fewer than 20 claims is called rarely
claimed: so few give no such spread, and the binomial interval of the share must reach 93 to 97 %, as for the families of
`calibration.py`.

Every refusal here is one of a true network. Tests that are made at a level, as those of the residual are, may refuse one
in ten of all of them together; which did is said. What the noise is too large for (units that it hides, parameters that
it leaves open) is no false alarm and is not counted.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
from _table import Line, parse_options, report
from calibration import covers, judge
from families_noisy import FAMILIES
from refusals import one_noisy_kink

from planted import Outcome, RowBlocks
from planted.certificates._noisy import certify_noisy
from planted.certificates.noise._covariance import certify_whitened
from planted.checks import Check
from planted.fitting._refine import refine
from planted.fitting._run import prepare_problem

LAWS = {
    "normal noise": "ordinary",
    "t4 noise": "t4_noise",
    "Laplace noise": "laplace_noise",
    "heteroscedastic noise": "unequal_noise",
    "multiplicative noise": "proportional_noise",
    "autoregressive noise": "autocorrelated_noise",
    "autoregressive inputs and noise": "correlated_rows",
    "normal noise, one kink": "one_noisy_kink",
}
DRAWS = {**FAMILIES, "one_noisy_kink": one_noisy_kink}
FEW_CLAIMS = 20
ALARMS = 0.1
WITHOUT_FAULT = ("ordinary", "one_noisy_kink")  # normal noise of one variance, rows that are independent
# Lines of what the samples can tell at all.
LIMITS = (
    Check.HIDDEN_UNITS,
    Check.HIDDEN_PAIRS,
    Check.CLOSE_UNITS,
    Check.DIRECTION_ERROR,
    Check.SIZE_ERROR,
    Check.NEEDLESS_UNIT,
    Check.BEND,
    Check.UNCERTAIN_SIDES,
    Check.SMOOTH_BENDS,
    Check.SAMPLES,
)


def main() -> None:
    options = parse_options(
        __doc__.splitlines()[0], fits={"type": int, "default": 200, "help": "for each law"}
    )
    fits = max(options.fits // 10, 1) if options.quick else options.fits
    lines, rows = [], []
    for name, family in LAWS.items():
        mine = [judged(family, seed) for seed in range(options.seed, options.seed + fits)]
        rows.extend({"law": name, **row} for row in mine)
        lines.append(summary(name, mine))
        lines.extend([false_alarms(name, mine)] if family in WITHOUT_FAULT else [])
        print(lines[-1], flush=True)
    report("intervals", lines, rows, options)


def judged(family: str, seed: int) -> dict[str, Any]:
    """Refine from the truth and certify; count the parameters in their intervals."""
    X, Y, truth, kind = DRAWS[family](np.random.default_rng([seed, *family.encode()]))
    assert truth is not None
    problem = prepare_problem(RowBlocks.from_arrays(X, Y), random_state=seed)
    fit = refine(problem.blocks, problem.scaling.standardise(truth), offset=False)
    network, verdict = fit.network, certify_noisy(problem, fit, offset=False)
    if problem.n_outputs >= truth.n_hidden:
        network, verdict = certify_whitened(problem, fit, verdict, offset=False)
    found = SimpleNamespace(network=problem.scaling.restore(network), uncertainty=verdict.uncertainty)
    is_right, covered, count = judge(found, truth, (X, Y), kind)
    return {
        "seed": seed,
        "outcome": verdict.outcome.name,
        "failed": [item.key.value for item in verdict.evidence if not item.passed],
        "right": is_right,
        "covered": covered,
        "parameters": count,
    }


def summary(name: str, rows: list[dict[str, Any]]) -> Line:
    """Return the line of a law: the share covered is 93 to 97 %, up to two of its standard errors."""
    claims = [row for row in rows if row["outcome"] == Outcome.RECOVERED.name]
    wrong = sum(not row["right"] for row in claims)
    target = f"{name}: intervals of claims cover 93 to 97 %, up to two errors of the share, none is wrong"
    if len(claims) < FEW_CLAIMS:
        inside, total = (sum(row[key] for row in claims) for key in ("covered", "parameters"))
        few = f"rarely claimed: {len(claims)} of {len(rows)} fits, {inside}/{total} covered, {wrong} wrong"
        return Line(target, few, covers(inside, total) and not wrong)
    covered, count = (np.array([row[key] for row in claims], float) for key in ("covered", "parameters"))
    share = float(covered.sum() / count.sum())
    error = float(np.sqrt(((covered - share * count) ** 2).sum()) / count.sum())
    text = (
        f"{share:.1%} ± {error:.1%} of {count.sum():.0f} in {len(claims)}/{len(rows)} claims, {wrong} wrong"
    )
    return Line(target, text, 0.93 - 2 * error <= share <= 0.97 + 2 * error and not wrong)


def false_alarms(name: str, rows: list[dict[str, Any]]) -> Line:
    """Return how many true networks the tests at a level refuse, and which tests."""
    limits = {check.value for check in LIMITS}
    alarms = [set(row["failed"]) - limits for row in rows]
    counts = Counter(key for failed in alarms for key in failed)
    refused = sum(map(bool, alarms))
    named = ", ".join(f"{key} {count}" for key, count in counts.most_common())
    return Line(
        f"{name}: tests at a level refuse at most 10 % of true networks",
        f"{refused}/{len(rows)}" + (f" ({named})" if named else ""),
        refused <= ALARMS * len(rows),
    )


if __name__ == "__main__":
    main()
