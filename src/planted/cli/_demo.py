"""`planted demo`: a network is planted, hidden, and found again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planted.cli._console import (
    out_console,
    print_note,
    print_paragraph,
    print_table,
    progress_bar,
    spoken_warnings,
)
from planted.cli._files import write_page
from planted.cli._options import check_folder
from planted.cli._recover import print_verdict
from planted.outcomes import BadInputError, Outcome

if TYPE_CHECKING:
    from planted.reporting import Contender, Section
    from planted.results import Recovery
    from planted.simulate import Dataset

__all__ = ["demo"]

# With d = 12 inputs and k = 20 units the uniqueness theorem has k(k+1)/2 + k(d+1) = 470 unknowns;
# 720 samples are half as many again.
N_SAMPLES, N_FEATURES, N_HIDDEN, N_OUTPUTS = 720, 12, 20, 24
ACTIVITY = (0.3, 0.7)
N_FRESH = 2000
TITLE = "Planted, hidden, found"
OUR_MARK = ('<meta name="generator" content="planted">', f"<title>{TITLE}")


def demo(
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Another seed, another world.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("planted-demo.html"),
) -> None:
    """Watch a network being planted, hidden and found again, beside scikit-learn on the same data.

    Needs no files and takes about a minute.
    """
    check_folder(out)
    _check_ours(out)
    console = out_console()
    world = _plant(seed)
    story = _tell_beginning(world, seed)
    for paragraph in story:
        print_paragraph(console, paragraph)
    recovery, seconds = _search(world, seed)
    from planted.reporting import summarise

    summary = summarise(recovery, data=(world.X, world.Y))
    print_verdict(console, summary)
    console.print()
    section = _set_beside(world, recovery, (seed, seconds), story)
    print_table(console, section.blocks[0])  # type: ignore[arg-type]  # its first block is the table
    print_paragraph(console, section.paragraphs[-1])
    page = summary.with_sections(
        section, title=TITLE, lead="The two-minute story of planted, with its evidence."
    )
    write_page(out, page.html())
    print_note(f"The whole story, with plots, is in {out}: open it in a browser.")
    if recovery.outcome is not Outcome.RECOVERED:
        raise typer.Exit(1)


def _check_ours(out: Path) -> None:
    """Refuse to overwrite a file that is not a page of an earlier demonstration."""
    if not out.exists():
        return
    with out.open("rb") as file:
        head = file.read(4096).decode("utf-8", errors="replace")
    if not all(mark in head for mark in OUR_MARK):
        raise BadInputError(
            f"{out} exists and is not a page of this demonstration. Choose another name with --out."
        )


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
    n_numbers = net.W.size + net.b.size + net.A.size
    return (
        f"Planted. A network of {net.n_hidden} ReLU units with biases, {net.n_features} inputs and "
        f"{net.n_outputs} outputs: {n_numbers:,} numbers, drawn at random with seed {seed}, then put away.",
        f"Seen. {len(world.X)} samples, no more: inputs from a lopsided law (a shifted exponential) and the "
        "outputs that the network gave for them. Not the weights, and not the number of units.",
        "Asked. Which network made these samples, and is it the only one that could have?",
    )


def _search(world: Dataset, seed: int) -> tuple[Recovery, float]:
    """Recover the network from the samples alone."""
    import planted

    started = time.perf_counter()
    with progress_bar("looking for the network") as progress, spoken_warnings():
        recovery = planted.recover(world.X, world.Y, random_state=seed, progress=progress)
    return recovery, time.perf_counter() - started


def _set_beside(
    world: Dataset, recovery: Recovery, run: tuple[int, float], story: tuple[str, ...]
) -> Section:
    """Judge planted's answer and scikit-learn's by the truth and by fresh samples."""
    from planted.cli._rivals import Judge, fit_rivals
    from planted.reporting import compare_section
    from planted.simulate import inputs

    seed, seconds = run
    judge = Judge(world.network, inputs(N_FRESH, N_FEATURES, law=world.law, random_state=seed + 1))
    contenders: tuple[Contender, ...] = ()
    if recovery.network is not None:
        claim = "this is the network" if recovery.outcome is Outcome.RECOVERED else recovery.outcome.name
        contenders = (judge.mark(recovery.network, name="planted", seconds=seconds, claim=claim),)
    with progress_bar("scikit-learn on the same data") as progress:
        contenders += fit_rivals(world, judge, progress=progress)
    paragraphs = (*story, _tell_end(recovery, contenders))
    return compare_section(contenders, title="The story", story=paragraphs)


def _tell_end(recovery: Recovery, contenders: tuple[Contender, ...]) -> str:
    """What was found and how we know, from the numbers of this run."""
    if recovery.outcome is not Outcome.RECOVERED:
        return f"Not found. planted ended with {recovery.outcome.name} and says so: {recovery.detail}"
    ours, *rivals = contenders
    nearest = min(item.parameter_error for item in rivals)
    n_checks = sum(item.comparison != "info" for item in recovery.evidence)
    return (
        f"Found. Every weight and bias agrees with the planted one to {ours.parameter_error:.1e}; the number "
        "of units was read from the data. Training by gradients on the same data, told the number of units, "
        f"stays {nearest:.1g} away at its best. The truth was not needed to know this: {n_checks} "
        "requirements were checked on the samples alone, and the evidence shows each with its numbers."
    )
