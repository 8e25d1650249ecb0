"""The front door: diagnosis, plan, budget, interruption, and answers for data that are not planted."""

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import planted
from planted import Outcome, simulate
from planted._clock import StopRequested, check_time, time_budget
from planted.certificates import _noisy
from planted.checks import Check
from planted.diagnostics import _gaussianity, estimate_noise, gaussianity_test, symmetry_test
from planted.outcomes import BadInputError
from planted.recovery import Method, _recover, find_method
from planted.reporting import summarise_diagnosis
from planted.results import Evidence, Provenance, Recovery, Unavailable

EXACT = simulate.dataset(
    80, n_features=5, n_hidden=3, n_outputs=4, law="exponential", activity=(0.3, 0.7), random_state=2
)


def test_diagnosis_names_the_failed_requirement_with_its_number() -> None:
    diagnosis = planted.diagnose(EXACT.X, EXACT.Y, random_state=0)
    checks = {check.method: check for check in diagnosis.methods}
    assert diagnosis.n_hidden == (3, 3)
    assert diagnosis.noise.relative_std == 0
    assert checks["complementarity"].applies
    assert not checks["symmetric-inputs"].applies
    assert "symmetric" in checks["symmetric-inputs"].reason
    assert str(np.format_float_positional(0.05)) not in checks["symmetric-inputs"].reason
    assert set(checks) == set(planted.methods())


def test_diagnosis_sees_constant_and_collinear_columns_and_repeated_rows() -> None:
    X = np.column_stack([EXACT.X[:, 0], 2 * EXACT.X[:, 0] - 1, np.full(80, 3.0)])
    X[40:] = X[:40]
    with pytest.warns(planted.outcomes.DataWarning, match="constant"):
        diagnosis = planted.diagnose(X, EXACT.Y, random_state=0)
    found = {item.name: item for item in diagnosis.findings}
    assert found["constant input columns"].measured == 1
    assert not found["smallest relative singular value of the inputs"].passed
    assert found["distinct rows among those looked at"].measured == 40


def test_diagnosis_counts_activity_of_a_given_network() -> None:
    diagnosis = planted.diagnose(EXACT.X, EXACT.Y, network=EXACT.network, random_state=0)
    counts = [item.measured for item in diagnosis.findings if item.name.startswith("samples on which unit")]
    assert counts == EXACT.network.patterns(EXACT.X).sum(axis=0).tolist()


def test_diagnosis_has_text_html_and_json() -> None:
    diagnosis = planted.diagnose(EXACT.X, EXACT.Y, random_state=0)
    report = summarise_diagnosis(diagnosis)
    assert json.loads(report.json())["record"]["n_hidden"] == [3, 3]
    assert "complementarity" in report.text() and "complementarity" in report.html()
    assert "80 samples" in str(diagnosis)


@pytest.mark.parametrize("law", ["gaussian", "correlated"])
def test_gaussianity_test_has_its_level(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # 60 tests at level 0.05: 3 +- 1.7 alarms; four standard deviations. The level is that of any number of simulations.
    monkeypatch.setattr(_gaussianity, "SIMULATIONS", 99)
    alarms = 0
    for seed in range(60):
        X = simulate.inputs(120, 3, law=law, random_state=seed)
        alarms += not gaussianity_test(X, np.random.default_rng(10_000 + seed)).passed
    assert abs(alarms - 3) <= 6


@pytest.mark.parametrize(("law", "options"), [("exponential", {}), ("student-t", {"df": 3})])
def test_input_tests_have_power(law: str, options: dict[str, float]) -> None:
    samples = [simulate.inputs(1000, 10, law=law, random_state=seed, **options) for seed in range(10)]
    assert all(not gaussianity_test(X, np.random.default_rng(seed)).passed for seed, X in enumerate(samples))
    if law == "exponential":
        assert all(symmetry_test(X).p_value < 0.05 for X in samples)


def test_symmetry_test_has_its_level() -> None:
    alarms = sum(
        symmetry_test(simulate.inputs(300, 4, law="laplace", random_state=seed)).p_value < 0.05
        for seed in range(400)
    )
    assert abs(alarms - 20) <= 18  # four standard deviations of a binomial(400, 0.05)


def test_noise_from_replicates_is_the_noise() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(300, 3)), 2, axis=0)
    Y = X @ rng.normal(size=(3, 2)) + 0.2 * rng.normal(size=(600, 2))
    estimate = estimate_noise(X, Y, rng)
    assert estimate.kind == "replicates" and not estimate.is_bound
    # 600 degrees of freedom: a relative standard error of 1 / sqrt(2 * 600)
    spread = Y.std(axis=0)
    assert estimate.relative_std * np.sqrt((spread**2).mean()) == pytest.approx(0.2, rel=4 / np.sqrt(1200))


def test_auto_records_what_it_tried_and_what_it_passed_over() -> None:
    scalar = simulate.dataset(
        400, n_features=3, n_hidden=2, n_outputs=1, bias=(-0.5, 0.5), outputs="magnitudes", random_state=5
    )
    answer = planted.recover(scalar.X, scalar.Y, random_state=0)
    lines = {line["method"]: line for line in answer.trace if "method" in line}
    assert lines["complementarity"]["outcome"] == "passed over"
    assert lines["restarts"]["outcome"] == "RECOVERED"
    assert planted.parameter_error(answer.network, scalar.network) < 1e-12


def test_auto_is_the_same_at_the_same_seed() -> None:
    first, second = (planted.recover(EXACT.X, EXACT.Y, random_state=3) for _ in range(2))
    assert first.network is not None and second.network is not None
    assert all(np.array_equal(getattr(first.network, name), getattr(second.network, name)) for name in "WbAc")


def test_data_that_are_not_planted_are_fitted_the_same_at_every_run() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=150)
    one, two = (planted.recover(X, y, method="small-network", random_state=0) for _ in range(2))
    assert one.outcome is Outcome.FITTED and one.network is not None and two.network is not None
    assert np.array_equal(one.network.W, two.network.W)
    assert one.evidence[0].measured < 0.9  # cross-validated error, a tenth below predicting the mean


def test_a_network_that_remembers_the_rows_does_not_win() -> None:
    """A search that has seen the rows held out scores well on them: here its five units would predict four times worse."""
    rng = np.random.default_rng(4)
    X, noise = np.exp(rng.standard_normal((220, 8))), 4 * rng.standard_normal(220)
    fresh = np.exp(rng.standard_normal((2000, 8)))

    def truth(X: np.ndarray) -> np.ndarray:
        return X.sum(axis=1) + 0.3 * X[:, 0] * X[:, 1]

    answer = planted.recover(X, truth(X) + noise, random_state=0)
    assert answer.outcome is Outcome.FITTED
    assert answer.network is not None
    assert ((answer.network(fresh)[:, 0] - truth(fresh)) ** 2).mean() < 0.1 * truth(fresh).var()


def test_small_network_is_never_called_recovered() -> None:
    answer = planted.recover(EXACT.X, EXACT.Y, method="small-network", random_state=0)
    assert answer.outcome is Outcome.FITTED
    assert not answer.uncertainty


def test_options_need_a_named_method_that_knows_them() -> None:
    with pytest.raises(BadInputError, match="name it with method"):
        planted.recover(EXACT.X, EXACT.Y, noise="none")
    with pytest.raises(BadInputError, match="has no option wings; it knows"):
        planted.recover(EXACT.X, EXACT.Y, method="complementarity", wings=2)
    with pytest.raises(BadInputError, match="unknown method 'magic'"):
        planted.recover(EXACT.X, EXACT.Y, method="magic")
    with pytest.raises(BadInputError, match="needs an activation among relu"):
        planted.recover(EXACT.X, EXACT.Y, method="complementarity", activation="quadratic")


def test_where_every_sample_is_reproduced_no_table_fit_is_tried() -> None:
    """A unit that is always on: reproduced exactly, not identifiable, and nothing that a small network could add."""
    b = EXACT.network.b.copy()
    b[0] = 1 - (EXACT.X @ EXACT.network.W[0]).min()
    network = planted.TwoLayerNetwork(EXACT.network.W, b, EXACT.network.A)
    answer = planted.recover(EXACT.X, network(EXACT.X), affine=False, random_state=0)
    assert answer.outcome is Outcome.NOT_IDENTIFIABLE
    lines = {line["method"]: line for line in answer.trace if "method" in line}
    assert lines["small-network"]["detail"] == "every sample is already reproduced to rounding"


def test_no_time_is_an_outcome_not_a_crash() -> None:
    answer = planted.recover(EXACT.X, EXACT.Y, random_state=0, budget_seconds=0.0)
    assert answer.outcome is Outcome.STOPPED_EARLY
    assert any("out of time" in line.get("detail", "") for line in answer.trace)


@pytest.mark.parametrize("method", planted.methods())
def test_every_method_that_runs_out_of_time_says_so(method: str) -> None:
    answer = planted.recover(EXACT.X, EXACT.Y, method=method, random_state=0, budget_seconds=0.0)
    assert answer.outcome is Outcome.STOPPED_EARLY
    assert answer.network is None
    assert "out of time" in str(answer) or "nterrupted" in str(answer)


def test_budgets_nest_and_are_lifted() -> None:
    with time_budget(100.0):
        with time_budget(0.0), pytest.raises(StopRequested):
            check_time()
        check_time()
    check_time()
    with pytest.raises(BadInputError, match="budget_seconds=-1"), time_budget(-1):
        check_time()


def test_blocks_notice_the_deadline() -> None:
    blocks = planted.RowBlocks.from_arrays(EXACT.X, EXACT.Y, block_rows=10)
    with time_budget(0.0), pytest.raises(StopRequested):
        list(blocks)


def test_interruption_after_a_first_answer_returns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = planted.recover(EXACT.X, EXACT.Y, method="small-network", random_state=0)

    def run(*_: object, **__: object) -> planted.Recovery:
        return fitted

    def plan(*_: object) -> Iterator[Method]:
        yield Method(find_method("small-network").requires, run)
        raise KeyboardInterrupt

    monkeypatch.setattr(_recover, "_plan", plan)
    answer = planted.recover(EXACT.X, EXACT.Y, random_state=0)
    assert answer.outcome is Outcome.STOPPED_EARLY
    assert answer.network is fitted.network


def test_every_method_has_a_card_that_matches_its_name() -> None:
    for name, card in planted.methods().items():
        assert card.method == name
        assert find_method(name).options is not None
        assert card.predict_samples(10, 5, 5, is_noisy=False) >= simulate.information_limit(10, 5, 5)


def test_a_fitted_network_tells_the_noise_and_the_activity() -> None:
    """Noise 0.2 measured from the residual of the truth, to four standard errors of a standard deviation."""
    data = planted.simulate.dataset(500, n_features=4, n_hidden=3, n_outputs=3, noise=0.2, random_state=5)
    diagnosis = planted.diagnose(data.X, data.Y, network=data.network, random_state=0)
    assert (diagnosis.noise.kind, diagnosis.noise.is_bound) == ("the fitted network", False)
    spread = np.sqrt(data.Y.var(axis=0).mean())
    assert diagnosis.noise.relative_std * spread == pytest.approx(
        0.2, rel=4 / np.sqrt(2 * data.Y.size) + 0.01
    )
    counts = [item.measured for item in diagnosis.findings if item.name.startswith("samples on which unit")]
    assert counts == list(data.network.patterns(data.X).sum(axis=0))
    with pytest.raises(BadInputError, match="the data have 4 inputs and 3 outputs, the network 4 and 1"):
        planted.diagnose(
            data.X, data.Y, network=planted.TwoLayerNetwork(data.network.W, None, np.ones((1, 3)))
        )


def test_a_linear_part_is_refused_by_name_and_none_is_what_other_methods_look_for() -> None:
    with pytest.raises(BadInputError, match=r"'ica' knows no linear part.*'complementarity', 'restarts'"):
        planted.recover(EXACT.X, EXACT.Y, method="ica", affine=True, random_state=0)
    plain, without = (
        planted.recover(EXACT.X, EXACT.Y, method="sign-patterns", affine=affine, random_state=0)
        for affine in ("auto", False)
    )
    assert without.outcome is plain.outcome


def answer_of(
    network: planted.TwoLayerNetwork, *evidence: Evidence, held_out: float | None = None
) -> Recovery:
    failed = Evidence("p-value of traces of x", 0.011, 0.02, ">=", key=Check.LACK_OF_FIT)
    return Recovery(
        network=network,
        outcome=Outcome.FITTED,
        guarantee=planted.Guarantee.HEURISTIC,
        evidence=evidence or (failed,),
        uncertainty=Unavailable("not asked for"),
        stats={},
        provenance=Provenance("restarts", "planted", {}, 5, (3, 2, 1)),
        held_out_mse=held_out,
    )


@pytest.mark.parametrize(
    ("n", "slack", "is_simple"), [(4000, 0.0, True), (4000, 0.3, False), (900, 0.0, False)]
)
def test_of_two_that_fit_as_well_the_one_of_fewer_units_is_kept_where_samples_abound(
    n: int, slack: float, is_simple: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = simulate.dataset(n, n_features=3, n_hidden=2, n_outputs=1, affine=True, noise=0.1, random_state=3)
    few = data.network
    wide = planted.TwoLayerNetwork(
        np.vstack([few.W, np.ones((8, 3))]), None, np.hstack([few.A, np.zeros((1, 8))]), few.c, B=few.B
    )
    wide = replace(wide, b=np.append(few.b, np.arange(8.0)))
    shifted = replace(few, c=few.c + slack * data.Y.std())
    noise = float(((data.Y - few(data.X)) ** 2).mean())
    answers = [answer_of(shifted), answer_of(wide, held_out=noise)]
    monkeypatch.setattr(_recover, "_score", lambda rows, answer, *_, **__: answer.held_out_mse or np.inf)
    run = SimpleNamespace(
        problem=SimpleNamespace(n_samples=n),
        data=SimpleNamespace(blocks=planted.RowBlocks.from_arrays(data.X, data.Y)),
    )
    assert _recover._choose(run, answers, "relu", "auto") is answers[0 if is_simple else 1]  # type: ignore[arg-type]


def test_kinks_that_leave_a_trace_of_the_inputs_are_no_settled_answer() -> None:
    kink = Evidence("weights along other columns", 0.2, 2.0, "<=", key=Check.ONE_COLUMN)

    def settled(p_value: float) -> bool:
        trace = Evidence("p-value of traces of x", p_value, 0.02, ">=", key=Check.LACK_OF_FIT)
        return _recover._is_settled(answer_of(EXACT.network, kink, trace), "auto")

    assert settled(0.3) and settled(0.011)
    assert not settled(1e-7)


def test_kinks_are_settled_although_neighbours_are_correlated_by_chance() -> None:
    curve = Evidence("fall of BIC", 0.0, 5.0, "<=", key=Check.SMOOTH_CURVE)

    def settled(p_value: float) -> bool:
        line = Evidence("p-value of neighbours", p_value, 0.05, ">=", key=Check.NEIGHBOURS)
        return _recover._is_settled(answer_of(EXACT.network, curve, line), "auto")

    assert settled(0.3) and settled(0.04)
    assert not settled(0.001)  # the smallest that 999 samples of the bootstrap give


def test_a_network_of_the_width_asked_for_ends_the_search_although_one_near_it_fits_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nearer = Evidence("largest score of a model near this one", 4.2, 3.5, "<=", key=Check.NEAR_MODELS)
    monkeypatch.setattr(_noisy, "near_model_evidence", lambda *_, **__: (nearer,))
    for seed in range(1, 4):
        data = simulate.dataset(800, n_features=5, n_hidden=3, n_outputs=4, noise=0.1, random_state=seed)
        told = planted.recover(data.X, data.Y, 3, random_state=10 + seed)
        assert told.outcome is Outcome.FITTED and told.fails_only(Check.NEAR_MODELS)
        assert told.network is not None and told.network.n_hidden == 3
        assert planted.parameter_error(told.network, data.network) < 0.2
        names = [line["method"] for line in told.trace if line.get("outcome") not in (None, "passed over")]
        assert names == ["complementarity"]
        # Of another width it does not: it may be the width that is wrong.
        assert not _recover._is_settled(told, 4) and not _recover._is_settled(told, "auto")
        traced = replace(
            told, evidence=(*told.evidence, Evidence("p", 0.0, 0.01, ">=", key=Check.LACK_OF_FIT))
        )
        assert not _recover._is_settled(traced, 3)


def test_evidence_of_numpy_numbers_is_plain_data() -> None:
    assert Evidence("a number", np.float64(1.0), 2.0, "<=").passed is True


@pytest.mark.parametrize("seed", [0, 4])
def test_a_fit_that_nothing_was_tested_of_names_what_kept_the_nearest_answer_from_a_claim(seed):
    data = planted.simulate.dataset(250, n_features=4, n_hidden=3, n_outputs=2, noise=0.3, random_state=seed)
    answer = planted.recover(data.X, data.Y, random_state=seed)
    assert (answer.outcome, answer.provenance.algorithm) == (Outcome.FITTED, "small-network")
    said = answer.detail.partition("Nearest to a claim came ")[2]
    tried = {line["method"]: line for line in answer.trace if line.get("outcome") == "FITTED"}
    units, _, rest = said.partition(" by ")
    method, _, why = rest.partition(": ")
    assert units == f"{tried[method]['n_hidden']} units"
    assert why.rstrip(".") and tried[method]["detail"].startswith(why.rstrip("."))
