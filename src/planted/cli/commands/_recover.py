"""`planted recover`: samples in, the network and the evidence out."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from planted._validation import check_choice
from planted.cli._console import (
    out_console,
    print_note,
    print_table,
    progress_bar,
    spoken_warnings,
)
from planted.cli._data import (
    Columns,
    LongRun,
    is_too_large,
    notes_on,
    noticed_interrupts,
    open_run,
    read_samples,
    save_with_columns,
    write_page,
)
from planted.cli._options import (
    ActivationOption,
    AffineOption,
    CategoriesOption,
    DecimalOption,
    EffortOption,
    ExcludeOption,
    FeaturesOption,
    ForceOption,
    LikelihoodOption,
    MethodOption,
    MethodOptions,
    MissingOption,
    NoiseOption,
    ObjectiveOption,
    RuleOption,
    SeedOption,
    TargetsOption,
    VariantOption,
    WarmStartOption,
    check_written,
    parse_hidden,
    read_method_options,
)
from planted.outcomes import BadInputError, Guarantee, Outcome, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planted.io import Labels, Recipe
    from planted.reporting import Report
    from planted.results import Recovery

__all__ = ["print_verdict", "recover", "write_results"]

PREVIEW_ROWS = 20_000
EXIT_INTERRUPTED = 130
ACCEPTED = {
    "recovered": (Outcome.RECOVERED,),
    "fitted": (Outcome.RECOVERED, Outcome.FITTED),
}
TONES = {"good": "bold green", "caution": "bold yellow", "bad": "bold red"}


def recover(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA",
            help="A .csv, .tsv (or .csv.gz), .parquet, .feather, .npy or .npz file, or a folder of them.",
        ),
    ] = None,
    targets: TargetsOption = None,
    features: FeaturesOption = None,
    exclude: ExcludeOption = None,
    categories: CategoriesOption = None,
    missing: MissingOption = "refuse",
    decimal: DecimalOption = "point",
    weights: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A column of row weights; the file is then read in blocks."),
    ] = None,
    hidden: Annotated[str, typer.Option(metavar="auto|N", help="Number of hidden units.")] = "auto",
    method: MethodOption = "auto",
    variant: VariantOption = None,
    noise: NoiseOption = None,
    objective: ObjectiveOption = None,
    rule: RuleOption = None,
    warm_start: WarmStartOption = None,
    option: MethodOptions = None,
    effort: EffortOption = "normal",
    affine: AffineOption = "auto",
    activation: ActivationOption = "relu",
    likelihood: LikelihoodOption = "gaussian",
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the network (.safetensors).")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report (.html).")] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit; the best so far is then printed.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the file in blocks, never whole (large files always are).")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Sum on the Dask cluster at tcp://HOST:PORT.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to keep what was summed (if not given, a folder here)."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the checkpoint of an earlier run on these data."),
    ] = False,
    sums: Annotated[
        list[Path] | None,
        typer.Option("--sums", metavar="FILE...", help="Merged sums of `planted sums` instead of DATA."),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.0, help="How long to wait for another run with this checkpoint."
        ),
    ] = 0.0,
    accept: Annotated[
        str,
        typer.Option(
            metavar="recovered|fitted", help="What exit code 0 means: this network, or one that fits."
        ),
    ] = "recovered",
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Find the two-layer network that made the targets from the inputs.

    Exit code 0: this is the network (with --accept fitted: or one that fits). 1: it could not be recovered, and the reason
    is printed. 130: interrupted.
    """
    if accept not in ACCEPTED:
        raise BadInputError(f"--accept is {accept!r}; expected recovered or fitted.")
    files = ("--out", out, "network"), ("--report", report, "report")
    check_written(*files, inputs=[data, warm_start, *(sums or ())], force=force)
    named = {"variant": variant, "noise": noise, "objective": objective, "rule": rule}
    chosen = read_method_options(method, option, named, warm_start)
    n_hidden = parse_hidden(hidden)
    large = _Large(stream or weights is not None, cluster, checkpoint, resume, wait)
    given: dict[str, Any] = {"method": method, "activation": activation, "effort": effort}
    is_of_labels = likelihood != "gaussian"
    if is_of_labels:
        given["likelihood"] = likelihood
    if affine != "auto":
        check_choice("affine", affine, ("auto", "yes", "no"))
        given["affine"] = affine == "yes"
    with (
        progress_bar(f"reading {data or 'sums'}") as progress,
        spoken_warnings(),
        noticed_interrupts() as noticed,
    ):
        samples = _open_samples(
            data,
            Columns(targets, features, weights, exclude, categories, missing, decimal, is_of_labels),
            large,
            sums=sums,
            seed=seed,
            given={
                **given,
                "hidden": hidden,
                "options": {name: str(value) for name, value in chosen.items() if name != "warm_start"},
                "warm_start": warm_start and sha256(warm_start.read_bytes()).hexdigest(),
            },
        )
        options = given | chosen | {"n_hidden": n_hidden, "progress": progress, "budget_seconds": budget}
        began = monotonic()
        record = samples.recover(random_state=samples.run.seed if samples.run else seed, **options)
        seconds = monotonic() - began
    from planted.reporting import outline, summarise

    drawn = report is not None
    if is_of_labels:  # residuals and straight lines say nothing about labels
        rows, samples = None, samples.with_classes(record)
    else:
        record, rows = samples.in_context(record)
    summary = summarise(record, data=rows, **samples.names) if drawn else outline(record)
    is_spent = budget is not None and seconds >= budget
    is_open = record.outcome is Outcome.STOPPED_EARLY
    can_go_on = noticed.seen or (is_spent and is_open)
    going_on = _how_to_go_on(record, samples.run, is_interrupted=noticed.seen) if can_go_on else ""
    if going_on and is_open:
        summary = replace(summary, verdict=replace(summary.verdict, advice=going_on))
    notes = [
        *samples.notes,
        *write_results(record, summary, samples.names, out=out, report=report, recipe=samples.recipe),
    ]
    if as_json:
        print(json.dumps(summary.record, allow_nan=False))
    else:
        print_verdict(out_console(), summary)
        if not is_of_labels:
            print_kinks(out_console(), record, samples.names)
    for note in notes:
        print_note(note)
    if going_on and (as_json or not is_open):
        print_note(going_on)
    if noticed.seen:
        raise typer.Exit(EXIT_INTERRUPTED)
    if samples.run is not None and not can_go_on:
        samples.run.finish()
    if record.outcome not in ACCEPTED[accept]:
        raise typer.Exit(1)


def _how_to_go_on(record: Recovery, run: LongRun | None, *, is_interrupted: bool) -> str:
    """Say what a run that was stopped left behind, and what to type to go on."""
    best = "this is the best so far" if record.network is not None else "no network was found yet"
    if is_interrupted:
        said, more = f"Interrupted: {best}.", ""
    else:
        said, more = f"Out of time: {best}.", " and more time: --budget SECONDS"
    if run is not None and run.folder is not None:
        where = shlex.quote(str(run.folder))
        return (
            f"{said} What was read is in {run.folder}; to go on, type the same command with --resume --checkpoint {where}"
            f"{more}"
        )
    if is_interrupted:
        return (
            f"{said} Nothing was kept to go on from; a run with --checkpoint FOLDER keeps what it has read."
        )
    return f"{said} Allow more time with --budget SECONDS."


@dataclass(frozen=True, slots=True)
class _Large:
    """What was asked for data larger than memory."""

    stream: bool
    cluster: str | None
    checkpoint: Path | None
    resume: bool
    wait: float

    def is_wanted(self, data: Path) -> bool:
        """Return whether the rows are to be read in blocks."""
        asked = self.stream or self.cluster is not None or self.checkpoint is not None or self.resume
        return asked or data.is_dir() or is_too_large(data)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples in memory, in blocks or as sums, with what the report needs of them."""

    data: tuple[Any, ...]
    names: dict[str, Any]
    run: LongRun | None = None
    recipe: Recipe | None = None
    notes: Sequence[str] = ()

    def recover(self, **options: Any) -> Recovery:
        """Recover from rows, or from sums if there are only sums."""
        from planted.moments import RowSummary

        if isinstance(self.data[0], RowSummary):
            from planted.recovery import recover_from_sums

            return recover_from_sums(*self.data, **options)
        from planted.recovery._recover import recover as recover_rows

        return recover_rows(*self.data, **options)

    def with_classes(self, record: Recovery) -> _Samples:
        """Name the outputs after the classes whose log-odds they are."""
        classes, targets = record.stats.get("classes"), self.names.get("target_names")
        if not classes or not targets:
            return self
        listed = ", ".join(shown(str(name)) for name in classes)
        against = (
            "output is the log-odds of the second"
            if len(classes) == 2
            else "outputs are the log-odds of the others"
        )
        notes = (*self.notes, f"Classes of {shown(targets[0])!r}: {listed}. The {against} against the first.")
        outputs = targets if len(classes) == 2 else tuple(f"{targets[0]}={name}" for name in classes[1:])
        return replace(self, names={**self.names, "target_names": outputs}, notes=notes)

    def in_context(self, record: Recovery) -> tuple[Recovery, tuple[Any, Any]]:
        """Put the network beside the mean and a line, and return the rows by which that was done."""
        from planted.moments._gram import beside_simple_models

        rows = self.preview()
        if record.network is None:
            return record, rows
        context = beside_simple_models(record.network, *rows, held_out_mse=record.held_out_mse)
        return replace(record, stats={**record.stats, "context": context}), rows

    def preview(self) -> tuple[Any, Any]:
        """Rows to draw: all that are in memory, or a sample of the blocks."""
        if len(self.data) == 2:
            return self.data[0], self.data[1]
        import numpy as np

        from planted.moments import RowSummary
        from planted.rows import RowBlocks, sample_rows

        if isinstance(self.data[0], RowSummary):
            return self.data[0].X, self.data[0].Y
        rows = RowBlocks(self.data[0].open, self.data[0].entry)  # this pass is not written to the checkpoint
        return sample_rows(rows, PREVIEW_ROWS, np.random.default_rng(0))


def _open_samples(
    data: Path | None,
    columns: Columns,
    large: _Large,
    *,
    sums: list[Path] | None,
    seed: int | None,
    given: dict[str, Any],
) -> _Samples:
    """Open what was given: sums, a file in blocks, or a file that fits into memory."""
    if (data is None) == (not sums):
        raise BadInputError("give DATA or --sums FILE..., one of them.")
    if data is None and columns.weights is not None:
        raise BadInputError("--weights names a column of DATA; sums hold no weights.")
    if data is None:
        from planted.io.state._sums import read_sums_with_names

        summary, kept = read_sums_with_names(sums or [])
        roles = {"features": "feature_names", "targets": "target_names"}
        return _Samples((summary,), {roles[role]: names for role, names in kept.items()})
    if large.is_wanted(data):
        run = open_run(
            data,
            replace(columns, classes=False),  # rows in blocks carry classes as numbers
            cluster=large.cluster,
            folder=large.checkpoint,
            resume=large.resume,
            seed=seed,
            parameters=given,
            wait_seconds=large.wait,
        )
        from planted.io.tables._blocks import columns_of

        notes = run.recipe.notes if run.recipe else ()
        return _Samples((run.blocks,), columns_of(run.blocks), run, run.recipe, notes)
    table, recipe = read_samples(data, columns)
    names = {"feature_names": table.feature_names, "target_names": table.target_names}
    labels = table.Y if recipe is None or not recipe.classes else _class_names(table.Y, recipe.classes)
    return _Samples((table.X, labels), names, recipe=recipe, notes=notes_on(table, recipe, data))


def _class_names(codes: Any, classes: Sequence[str]) -> Any:
    """Return the names of classes that were read as numbers. Shapes: codes (n, 1), result (n,)."""
    import numpy as np

    return np.array(classes)[codes[:, 0].astype(np.intp)]


def print_verdict(console: Console, summary: Report) -> None:
    """Print the verdict, the facts and the evidence."""
    verdict = summary.verdict
    console.print(
        Text.assemble((verdict.outcome.replace("_", " "), TONES[verdict.tone]), "  ", shown(verdict.sentence))
    )
    if verdict.detail:
        console.print(Text(shown(verdict.detail)))
    console.print(Text(shown(" · ".join(f"{label} {value}" for label, value in summary.facts)), style="dim"))
    for section in summary.sections:
        if section.name in ("evidence", "context"):
            for block in section.blocks:
                print_table(console, block)  # type: ignore[arg-type]  # these sections hold tables only
    console.print(Text.assemble(("Guarantee  ", "bold"), verdict.guarantee))
    console.print(Text.assemble(("What to do ", "bold"), verdict.advice))


def print_kinks(console: Console, record: Recovery, names: dict[str, Any]) -> None:
    """Print the table of kinks for functions that are read by them: of one input, or with a linear part."""
    if getattr(record.network, "B", None) is None and record.provenance.shape[1] > 1:
        return
    from planted.reporting._kinks import kink_section

    section = kink_section(record, **names)
    if section is not None:
        for block in section.blocks:
            print_table(console, block)  # type: ignore[arg-type]  # the section holds tables only
        for paragraph in section.paragraphs[1:]:
            console.print(Text(shown(paragraph)))


def write_results(
    record: Recovery,
    summary: Report,
    names: dict[str, Any],
    *,
    out: Path | None,
    report: Path | None,
    recipe: Recipe | None = None,
) -> list[str]:
    """Write the files that were asked for; return what is to be said about them."""
    notes = []
    if out is not None and record.network is None:
        notes.append(f"There is no network to write; {out} was not touched.")
    elif out is not None and record.network is not None:
        labels = _labels_of(record)
        noise = None if labels else _noise_of(record)
        notes += save_with_columns(record.network, out, names, recipe, noise=noise, labels=labels)
    if report is not None:
        write_page(report, summary.html())
        notes.append(f"The report is in {report}.")
    return notes


def _labels_of(record: Recovery) -> Labels | None:
    """Return what the outputs mean, if they are predictors of labels."""
    likelihood = record.provenance.parameters.get("likelihood", "gaussian")
    if likelihood == "gaussian":
        return None
    from planted.io import Labels

    classes = record.stats.get("classes")
    return Labels(likelihood, None if classes is None else tuple(classes))


def _noise_of(record: Recovery) -> tuple[float, float] | None:
    """Return the noise of predictions, for `planted predict --interval`; None where there is none, or it is not known."""
    if record.guarantee is Guarantee.EXACT:
        return None
    from planted.recovery._intervals import prediction_noise

    try:
        return prediction_noise(record)
    except BadInputError:
        return None
