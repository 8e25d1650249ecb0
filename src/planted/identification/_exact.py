"""Read a network of breaks from exact answers: along lines first, layer by layer where lines say that it is deep."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from planted._clock import StopRequested
from planted._streams import solver_streams
from planted._typing import Array
from planted.identification._grid import DOUBLE, DOUBLES, Grid
from planted.identification._rounding import Rounding
from planted.identification._run import QueryRun
from planted.identification._session import N_REPEATED, Domain, QuerySession
from planted.identification.deep import (
    FARTHEST,
    DeepFinding,
    Reading,
    Records,
    Tally,
    add_missing,
    breaks_bend,
    finish_leaky,
    finish_reading,
    finish_single,
    judge_deep,
    judge_deep_stop,
    looks_deep,
    miss_on_lines,
    read_coarse,
    read_layers,
    read_leaky,
    refine_nearby,
    survey_layer,
    with_far_answers,
)
from planted.identification.two_layer import (
    COARSE,
    DEEPER,
    BlackBox,
    Deeper,
    Identification,
    Line,
    LineScan,
    Refusal,
    Terms,
    choose_scale,
    finish_network,
    judge,
    search_lines,
)
from planted.networks import DeepNetwork
from planted.results import Recovery

__all__ = ["identify_exact"]

FINEST = 2e-13  # the step of decimals, relative to the outputs' spread, at which several layers are read
SINGLE = 2.0**-24  # relative rounding error of answers in single precision
FARTHER = 2.0**17  # at least: biases are small there beside the corners at which rays begin
PATIENCE = 1  # lines within a box without success before higher layers are looked for
READINGS = 2  # of several layers, each along lines of its own, where nothing says that the black box is of another kind
REREAD = 20_000  # questions of the first reading, at most, for a second one


def identify_exact(run: QueryRun) -> Recovery:
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
        grid, larger = choose_scale(near, answers, checking)
        wide = replace(domain, scale=domain.scale * larger)
        box = _black_box(session, wide, grid)
        reader = _DeepReader(run, box, wide, deep_rng)
        has_decimals = grid.step > 0 and grid.relative <= DOUBLE and not box.has_box
        is_single = grid.step == 0 and grid.relative == SINGLE and not box.has_box
        is_open = run.depth != 1 and (has_decimals or is_single or not grid.words)
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
        if isinstance(found, Deeper) and reader.too_coarse(found) and not (has_decimals or is_single):
            found = Refusal(
                "parallel lines say that it has several hidden layers, and its answers are uncertain by "
                f"{found.rounding.relative:.1e} of their size, too coarse to read those"
            )
        if is_single and is_open and reader.is_wanted(found, is_coarse=True):
            reader = _single_reader(run, grid, deep_rng)
            reader.read([])
        elif has_decimals and is_open and reader.is_wanted(found, is_coarse=True):
            reader = _farther_reader(run, replace(near, grid=grid), answers, checking, deep_rng)
            reader.read([])
        elif is_open and reader.is_wanted(found):
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
            found = finish_network(session, (domain, wide), found, replace(near, grid=grid), checking)
        session.check_unchanged(first, answers)
    except StopRequested as stop:
        if reader.is_started and not isinstance(found, Identification):
            return reader.record_stop(stop)
        if isinstance(found, Deeper):
            found = None
        if isinstance(found, Identification):
            found = replace(found, network=wide.restore(found.network))
        return run.stop(stop, found)
    # The search yields at least once, and was made again if it said deeper.
    assert isinstance(found, Identification | Refusal)
    terms = Terms(session.queries, domain.has_box, wide.scale, grid, session.unrepeatable)
    return run.finish(found, *judge(found, terms))


def _guess_depth(
    depth: int | str, box: BlackBox, rng: np.random.Generator, line: Line, scan: LineScan, rounding: Rounding
) -> list[tuple[Line, LineScan]]:
    """Lines that say that several hidden layers are to be looked for first; none if there is one."""
    return looks_deep(box, line, scan, rounding, rng) if depth == "auto" else [(line, scan)]


def _refuse_shallow(box: BlackBox, found: Identification, rng: np.random.Generator) -> Refusal | None:
    """Refuse a two-layer network that answers on fresh lines or farther out than typical inputs contradict."""
    if found.rounding.relative > COARSE:
        return None
    off, asked = miss_on_lines(box, found.network, found.rounding, rng)
    if off == 0:
        return None
    return Refusal(
        f"a network of {found.network.n_hidden} units answers as it does near typical inputs, but not in {off} of {asked} "
        f"places on fresh lines and farther out. {DEEPER}",
        found.rounding,
    )


class _DeepReader:
    """The reading of several hidden layers, in the units of the search, and the record that is made of it."""

    def __init__(
        self,
        run: QueryRun,
        box: BlackBox,
        domain: Domain,
        rng: np.random.Generator,
        near: BlackBox | None = None,
    ) -> None:
        self.run, self.records, self.domain, self.rng = run, Records(box), domain, rng
        self.near = near  # the black box at typical inputs, if it is asked farther out
        self.reading = Reading()
        self.finding: DeepFinding | None = None
        self.is_started = False
        self.tally = Tally(run.progress, box.n_features, lambda: run.session.queries, lambda: self.reading)
        self.records.tell = self.tally.tell

    def is_wanted(self, found: Identification | Refusal | Deeper | None, *, is_coarse: bool = False) -> bool:
        """Whether the search along lines leaves room for several hidden layers; `is_coarse`: even if answers are coarse."""
        if isinstance(found, Identification):
            return found.misfits > 0 and (is_coarse or found.rounding.relative <= COARSE)
        if not isinstance(found, Deeper | Refusal) or found.rounding is None:
            return False
        return is_coarse or not self.too_coarse(found)

    @staticmethod
    def too_coarse(found: Identification | Refusal | Deeper | None) -> bool:
        """Whether there seem to be several hidden layers, and the answers are too coarse to read them."""
        return isinstance(found, Deeper) and found.rounding.relative > COARSE

    def read(self, scans: list[tuple[Line, LineScan]]) -> None:
        """Read the layers, beginning with lines already scanned; if all are known, polish and check the network.

        Chance may leave a unit out, most often in small networks: what another reading adds is then kept.
        """
        self.is_started = True
        for number in range(READINGS):
            before, missed = self.reading, self.finding
            self.reading, self.finding = Reading(), None
            try:
                self._read([] if number else scans)
            finally:
                if number and not self._is_further(before):
                    self.reading, self.finding = before, missed
            if number and missed is not None and self.finding is not None and self.finding is not missed:
                # Chance had the opportunities of both readings.
                self.finding = replace(self.finding, n_attempts=self.finding.n_attempts + missed.n_attempts)
            if not self._may_read_again():
                break
        if self.finding is not None and self.finding.is_right:
            self.finding = with_far_answers(self.finding, self.records, self.rng)
            if self.finding.agrees_within < FARTHEST:
                self._add_far_units(self.finding)

    def _may_read_again(self) -> bool:
        """Whether the reading missed something that another one may find, with few questions."""
        is_missing = self.reading.is_open if self.finding is None else not self.finding.is_right
        return is_missing and self.reading.slope is None and self.run.session.queries <= REREAD

    def _is_further(self, before: Reading) -> bool:
        """Whether this reading came further than one before it."""
        reading = self.reading
        if self.finding is not None and self.finding.is_right:
            return True
        return before.top is None and (len(reading.certain), len(reading.layers)) > (
            len(before.certain),
            len(before.layers),
        )

    def _add_far_units(self, finding: DeepFinding) -> None:
        """Add units that answers far out have shown; if that does not help, nothing changes."""
        reading = self.reading
        if reading.slope is not None or self.near is not None or finding.bound is not None:
            return
        before = list(reading.layers), reading.top
        if add_missing(reading, self.records, self.rng):
            found = finish_reading(reading, self.records, rng=self.rng)
            if found.is_right:
                found = with_far_answers(found, self.records, self.rng)
                if found.agrees_within > finding.agrees_within:
                    self.finding = found
                    return
        reading.layers, reading.top = before

    def _read(self, scans: list[tuple[Line, LineScan]]) -> None:
        try:
            steps = read_layers(
                self.records,
                scans,
                rng=self.rng,
                progress=self.tally.enter,
                is_dense=self.run.depth != "auto",
                may_stop=self.run.may_stop,
            )
            for latest in steps:
                self.reading = latest
            if self.reading.slope is not None and self.near is None:
                self._read_leaky()
                return
        except LinAlgError as error:
            self.reading.reason = f"a decomposition broke down: {error}"
            self.reading.top = None
        if self.reading.top is not None and len(self.reading.layers) > 1:
            self.tally.enter("refining all layers")
            self.finding = finish_reading(self.reading, self.records, rng=self.rng)
            if self.near is not None:
                larger = float((self.domain.scale / self.run.domain.scale).max())
                self.finding = refine_nearby(self.finding, self.records, self.near, larger, self.rng)
        if self.finding is None or not self.finding.is_right:
            self.reading.confirm(replace(self.records.box, ask=self.records.ask), self.rng)

    def _read_leaky(self) -> None:
        """Read the layers above a first one of leaky units, and refine and check the network."""
        reading, survey = self.reading, self.reading.surveys[0]
        assert reading.slope is not None and reading.rounding is not None
        look = partial(survey_layer, rng=self.rng)
        steps = read_leaky(self.records, survey, reading.slope, look, rng=self.rng, progress=self.tally.enter)
        for layers, top, reason in steps:
            reading.layers, reading.top, reading.reason, reading.outcome = layers, top, reason, None
        if reading.top is not None and len(reading.layers) > 1:
            self.tally.enter("refining all layers")
            self.finding = finish_leaky(reading, self.records, rng=self.rng)

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
            layers = self.domain.restore_layers(finding.network.layers)
            network = DeepNetwork(layers, finding.network.activation).canonical()
        return run.finish(None, verdict, network, **({} if is_shown else self._certain()))

    def record_stop(self, stop: StopRequested) -> Recovery:
        """Return the record of a reading that was stopped."""
        session = self.run.session
        verdict = judge_deep_stop(str(stop), self.reading, queries=session.queries, budget=session.budget)
        verdict = replace(verdict, detail=verdict.detail + session.log_note)
        return self.run.finish(None, verdict, None, **self._certain())

    def _certain(self) -> dict[str, Any]:
        """The layers that are certain, in the units of the inputs, as plain lists; else the first one up to orientation."""
        layers = self.reading.certain
        if not layers:
            surveys = self.reading.surveys
            if not surveys or not surveys[0].planes.offsets.size:
                return {"certain_layers": []}
            planes = surveys[0].planes
            ((W, b),) = self.domain.restore_layers([(planes.normals, planes.offsets)])
            return {"certain_layers": [], "first_hyperplanes": {"W": W.tolist(), "b": b.tolist()}}
        restored = self.domain.restore_layers(layers)
        return {"certain_layers": [{"W": W.tolist(), "b": b.tolist()} for W, b in restored]}


class _SingleReader(_DeepReader):
    """The reading of answers in single precision: rough layers first, then all parameters at once."""

    def _read(self, scans: list[tuple[Line, LineScan]]) -> None:
        """Read the layers; lines scanned before go too far out to be of use."""
        try:
            for latest in read_coarse(self.records, rng=self.rng, progress=self.tally.enter):
                self.reading = latest
                if latest.top is None or len(latest.layers) == 1:
                    continue
                self.tally.enter("refining all layers")
                finding = finish_single(latest, self.records, self.domain.scale, rng=self.rng)
                if finding.is_right:
                    self.finding = finding
                    break
        except LinAlgError as error:
            self.reading.reason = f"a decomposition broke down: {error}"
            self.reading.top = None


def _single_reader(run: QueryRun, grid: Grid, rng: np.random.Generator) -> _DeepReader:
    """A reader that asks at inputs that single precision holds: in units that are powers of two."""
    scale = np.exp2(np.round(np.log2(run.domain.scale)))
    domain = replace(run.domain, scale=scale, is_single=True)
    return _SingleReader(run, _black_box(run.session, domain, grid), domain, rng)


def _farther_reader(
    run: QueryRun, near: BlackBox, answers: Array, checking: np.random.Generator, rng: np.random.Generator
) -> _DeepReader:
    """A reader that asks so far out that the decimals of the answers are as good as exact."""
    larger = max(choose_scale(near, answers, checking, fine=FINEST)[1], FARTHER)
    wide = replace(run.domain, scale=run.domain.scale * larger)
    return _DeepReader(run, _black_box(run.session, wide, near.grid), wide, rng, near)


def _black_box(session: QuerySession, domain: Domain, grid: Grid) -> BlackBox:
    """The oracle in the units of the search."""
    return BlackBox(
        lambda Z: session.ask(domain.rows(Z)), session.n_features, domain.has_box, domain.snap, grid
    )
