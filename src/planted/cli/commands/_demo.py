"""`planted demo`: a network is planted, hidden, and found again."""

from __future__ import annotations

import json
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planted._threads import one_thread
from planted.cli._console import (
    err_console,
    out_console,
    print_note,
    print_paragraph,
    print_table,
    progress_bar,
    spoken_warnings,
)
from planted.cli._data import write_page
from planted.cli._options import ForceOption, check_written
from planted.cli.commands._recover import print_verdict
from planted.outcomes import Outcome

if TYPE_CHECKING:
    from planted.reporting import Contender
    from planted.results import Recovery
    from planted.simulate import Dataset

__all__ = ["demo"]

# With d = 12 inputs and k = 20 units the uniqueness theorem needs k(k+1)/2 + k(d+1) - k = 450 samples.
N_SAMPLES, N_FEATURES, N_HIDDEN, N_OUTPUTS = 500, 12, 20, 24
ACTIVITY = (0.3, 0.7)
N_FRESH = 2000
TITLE = "Planted, hidden, found"


def demo(
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Another seed, another world.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("planted-demo.html"),
    force: ForceOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the errors of everyone as JSON; the story goes to stderr.")
    ] = False,
) -> None:
    """Watch a network being planted, hidden and found again, beside scikit-learn on the same data.

    Needs no files and takes about a minute.
    """
    check_written(("--out", out, "report"), force=force)
    console = err_console() if as_json else out_console()
    world = _plant(seed)
    story = _tell_beginning(world, seed)
    for paragraph in story:
        print_paragraph(console, paragraph)
    import_module("sklearn.neural_network")  # a limit of threads reaches only libraries that are loaded
    from planted.reporting import compare_section, summarise

    with one_thread():  # planted and scikit-learn are timed alike
        runs, seconds = _search(world, seed)
        summary = summarise(runs[0], data=(world.X, world.Y))
        print_verdict(console, summary)
        console.print()
        contenders = _set_beside(world, runs, (seed, seconds))
    section = compare_section(contenders, title="The story", story=(*story, _tell_end(runs[0], contenders)))
    print_table(console, section.blocks[0])  # type: ignore[arg-type]  # its first block is the table
    print_paragraph(console, section.paragraphs[-1])
    page = summary.with_sections(
        section, title=TITLE, lead="The two-minute story of planted, with its evidence."
    )
    write_page(out, page.html())
    print_note(f"The whole story, with plots, is in {out}: open it in a browser.")
    if as_json:
        print(json.dumps(_as_record(runs, contenders, out)))
    if runs[0].outcome is not Outcome.RECOVERED:
        raise typer.Exit(1)


def _plant(seed: int) -> Dataset:
    """Draw the network and the samples."""
    from planted.simulate import dataset

    return dataset(
        N_SAMPLES,
        law="exponential",
        random_state=seed,
        n_features=N_FEATURES,
        n_hidden=N_HIDDEN,
        n_outputs=N_OUTPUTS,
        activity=ACTIVITY,
    )


def _tell_beginning(world: Dataset, seed: int) -> tuple[str, ...]:
    """What was planted and what is seen."""
    net = world.network
    return (
        f"Planted. A network of {net.n_hidden} ReLU units with biases, {net.n_features} inputs and "
        f"{net.n_outputs} outputs: {net.n_parameters:,} free numbers, drawn at random with seed {seed}, then put away.",
        f"Seen. {len(world.X)} samples, no more: inputs from a lopsided law (a shifted exponential) and the "
        "outputs that the network gave for them. Not the weights, and not the number of units.",
        "Asked. Which network made these samples, and is it the only one that could have?",
    )


def _search(world: Dataset, seed: int) -> tuple[list[Recovery], float]:
    """Recover the network from the samples alone, as often as the rivals are trained, each time with a new seed."""
    import planted
    from planted.cli.commands._rivals import N_RUNS

    started = time.perf_counter()
    with progress_bar("looking for the network") as progress, spoken_warnings():
        runs = [
            planted.recover(world.X, world.Y, random_state=seed + i, progress=progress) for i in range(N_RUNS)
        ]
    return runs, time.perf_counter() - started


def _set_beside(world: Dataset, runs: list[Recovery], origin: tuple[int, float]) -> tuple[Contender, ...]:
    """Judge planted's answers and scikit-learn's by the truth and by fresh samples."""
    from planted.cli.commands._rivals import Judge, fit_rivals
    from planted.simulate import inputs

    seed, seconds = origin
    judge = Judge(world.network, inputs(N_FRESH, N_FEATURES, law=world.law, random_state=seed + 1))
    networks = [run.network for run in runs if run.network is not None]
    contenders: tuple[Contender, ...] = ()
    if networks:
        is_certain = all(run.outcome is Outcome.RECOVERED for run in runs)
        claim = "the network, certified" if is_certain else runs[0].outcome.name
        contenders = (judge.mark(networks, name="planted", seconds=seconds, claim=claim),)
    with progress_bar("scikit-learn on the same data") as progress:
        return contenders + fit_rivals(world, judge, progress=progress)


def _as_record(runs: list[Recovery], contenders: tuple[Contender, ...], page: Path) -> dict[str, Any]:
    """Return how it ended, and each one's errors at every seed."""
    errors = {item.name: list(item.parameter_errors) for item in contenders}
    return {"outcome": runs[0].outcome.name, "parameter_errors": errors, "page": str(page)}


def _tell_end(recovery: Recovery, contenders: tuple[Contender, ...]) -> str:
    """What was found and how we know, from the numbers of this run."""
    if recovery.outcome is not Outcome.RECOVERED:
        return f"Not found. planted ended with {recovery.outcome.name} and says so: {recovery.detail}"
    ours, *rivals = contenders
    errors = [error for item in rivals for error in item.parameter_errors]
    n_checks = sum(item.comparison != "info" for item in recovery.evidence)
    return (
        f"Found. With each of {len(ours.parameter_errors)} seeds every weight, bias and sign agrees with the "
        f"planted one to {max(ours.parameter_errors):.1e}; the number of units was read from the data. Trained by "
        f"gradients on the same data and told the number of units, {len(errors)} runs end between "
        f"{min(errors):.0e} and {max(errors):.1g} away, none of them with a certificate. Here the truth was not "
        f"needed to know: {n_checks} requirements were checked on the samples alone, each shown with its numbers."
    )
