"""Tables as they come: each is read as meant, read with a sentence beside the answer, or refused with what to type next."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from planted.cli import app
from planted.cli._data import doubts_about
from planted.io import Labels, learn_recipe, load_with_columns, read_table
from planted.io._memory import current_budget
from planted.io.tables._csv import open_csv
from planted.outcomes import BadInputError, PlantedError

RUNNER = CliRunner()
N = 40
RNG = np.random.default_rng(8)
DOSE = RNG.uniform(1, 40, N).round(2)


def run(*words: object) -> tuple[int, str, str]:
    answer = RUNNER.invoke(app, [str(word) for word in words])
    return answer.exit_code, answer.stdout, re.sub(r"\s+", " ", answer.stderr)


def table(folder: Path, columns: dict, mark: str = ",", encoding: str = "utf-8", above: str = "") -> Path:
    lines = [mark.join(columns), *(mark.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path = folder / "t.csv"
    path.write_bytes((above + "\n".join(lines) + "\n").encode(encoding))
    return path


REFUSED = {
    "dates with points": ({"day": [f"{i % 28 + 1:02d}.06.2024" for i in range(N)]}, {}, "dates as in 2026-01-31"),
    "percent": ({"share": [f"{x}%" for x in DOSE]}, {}, "numbers alone"),
    "money": ({"price": [f"${x}" for x in DOSE]}, {}, "numbers alone"),
    "units": ({"dose": [f"{x} mg" for x in np.arange(60) / 7]}, {}, "numbers alone"),
    "thousands": ({"dose": [f"{1000 * x:,.2f}" for x in DOSE]}, {"mark": ";"}, "marks between the thousands"),
    "remarks": ({"dose": DOSE}, {"above": "# made by a device\n# in mg\n"}, "begin with #"),
    "a title": ({"dose": DOSE}, {"above": "Study 12,,\n\n"}, "delete the lines above"),
    "Latin-1": ({"größe": DOSE}, {"encoding": "latin-1"}, "UTF-8"),
    "an empty column": ({"note": [""] * N}, {}, "--exclude 'note'"),
    "a question mark": ({"dose": ["?", *DOSE[1:]]}, {}, "--missing drop"),
    "thousands by spaces": ({"net price": [f"{i + 1} {i:03d}" for i in range(N)]}, {}, "marks between the thousands"),
    "thousands or decimals": ({"dose": [f"{i + 1},{i:03d}" for i in range(N)]}, {"mark": ";"}, "between thousands, write"),
    "debts": ({"balance": [f"({x})" if i % 2 else f"{x}" for i, x in enumerate(DOSE)]}, {}, "minus sign"),
    "spaces": ({"dose": DOSE}, {"mark": " "}, "Separate the columns"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_says_what_to_write(name: str, tmp_path: Path) -> None:
    columns, layout, advice = REFUSED[name]
    cells = next(iter(columns.values()))
    path = table(
        tmp_path, {**columns, "x": range(3, 3 + len(cells)), "y": np.arange(len(cells)) % 7}, **layout
    )
    with pytest.raises(PlantedError) as refusal:
        read_table(path, recipe=learn_recipe(path))
    assert advice in re.sub(r"\s+", " ", str(refusal.value))


def test_a_separator_at_the_end_of_every_line(tmp_path: Path) -> None:
    path = table(tmp_path, {"x": DOSE, "y": DOSE[::-1], "": [""] * N})
    with pytest.raises(BadInputError, match=r"--exclude 2"):
        read_table(path)
    assert learn_recipe(path, exclude="2").targets == ("y",)


def test_bars_separate_columns_and_marks_of_missing_cells_are_no_levels(tmp_path: Path) -> None:
    path = table(
        tmp_path, {"x": ["?", ".", "-", *DOSE[3:]], "region": ["-", *"ab" * 19, "a"], "y": DOSE}, mark="|"
    )
    recipe = learn_recipe(path, missing="drop")
    assert recipe.inputs == ("x", "region=b")
    assert len(read_table(path, recipe=recipe).X) == N - 3


DOUBTS = {
    "rises by one": np.arange(1001.0, 1001 + N),
    "dates written as 20230102": 20230102.0 + np.arange(N) % 20,
    "holds -999 in 4 rows": np.where(np.arange(N) % 10 == 3, -999.0, DOSE),
    "holds 99 in 4 rows": np.where(np.arange(N) % 10 == 3, 99.0, np.arange(N) % 5),
}


@pytest.mark.parametrize("words", DOUBTS)
def test_numbers_that_may_mean_something_else(words: str) -> None:
    (note,) = doubts_about(np.column_stack([DOSE, DOUBTS[words]]), ("a", "b"), None)
    assert words in note and note.startswith("Input 'b'") and note.endswith("--exclude 'b'.")


def test_identity_numbers() -> None:
    shuffled = RNG.permutation(N) * 7 + 1000.0
    for name in ("id", "customer_id", "Customer ID", "orderNo", "zip code"):
        (note,) = doubts_about(np.column_stack([DOSE, shuffled]), ("a", name), None)
        assert "different whole number in every row" in note and note.endswith(f"--exclude {name!r}.")
    assert (
        doubts_about(shuffled[:, None], ("paid",), None)
        == doubts_about(shuffled[:, None], ("bid",), None)
        == []
    )
    assert doubts_about((shuffled // 50)[:, None], ("id",), None) == []  # not all different
    (note,) = doubts_about(shuffled[:, None] * 1e15, ("account",), None)
    assert "more than 15 digits" in note


def test_an_input_that_is_the_target_in_other_units(tmp_path: Path) -> None:
    price = RNG.uniform(10, 90, N).round(2)
    path = table(tmp_path, {"size": DOSE, "cents": (100 * price).round(), "price": price})
    _, _, said = run("recover", path, "--effort", "quick", "--seed", 0)
    assert "Input 'cents' is the target 'price', up to units" in said and "--exclude 'cents'" in said
    path = table(tmp_path, {"size": DOSE, "other": price[::-1], "price": price})
    assert "up to units" not in run("recover", path, "--effort", "quick", "--seed", 0)[2]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a,b\n1,2,\n3,4,\n", "ends with a separator: delete"),
        ("of device 7\na,b\n1,2\n3,4\n", "delete the lines above"),
        ("a,b\n1,2\n3,4,5,6\n", "Quote cells that contain the separator"),
    ],
)
def test_rows_with_too_many_cells(text: str, advice: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    code, _, said = run("recover", path)
    assert code == 2 and advice in said


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_rows_to_test_anything(n: int, tmp_path: Path) -> None:
    path = table(tmp_path, {"a": DOSE[:n], "b": DOSE[1 : n + 1] ** 2, "y": DOSE[:n] + 1})
    code, printed, _ = run("recover", path, "--method", "small-network", "--seed", 0, "--accept", "fitted")
    told = " ".join(printed.split())
    assert code == 0 and "A line through too few samples to test it" in told
    assert "Collect more samples: nothing says how well this predicts others." in told
    assert "cross-validated" not in told and "Use it for prediction" not in told


def test_commas_in_a_tsv(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("a,b,y\n1,2,3\n4,5,6\n")
    code, _, said = run("recover", path)
    assert code == 2 and "tabs those of a .tsv" in said


def test_ordinary_numbers_are_beyond_doubt() -> None:
    counts, ages = RNG.integers(0, 100, N), RNG.integers(18, 100, N)
    years, flags = RNG.choice([2019, 2020, 2021], N), RNG.choice([-1.0, 1.0], N)
    normal, heavy = RNG.standard_normal(N), RNG.standard_cauchy(N)
    X = np.column_stack([counts, ages, years, flags, normal, heavy, np.zeros(N)])
    assert doubts_about(X, tuple("abcdefg"), Path("t.csv")) == []


def test_a_first_line_of_numbers_is_said_aloud(tmp_path: Path) -> None:
    path = table(tmp_path, {"2019": DOSE, "2020": DOSE[::-1], "2021": DOSE})
    code, _, said = run("diagnose", path)
    assert code == 0 and "first line is read as a row" in said


def test_the_head_of_a_file_that_breaks_off_still_tells_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\nnorth,1\nsouth,"2\n')  # a quote without an end
    assert open_csv(path, current_budget()).texts == (0,)
    with pytest.raises(PlantedError, match="row"):
        read_table(path, recipe=learn_recipe(path))


# --- classes as text


@pytest.mark.parametrize(("likelihood", "names"), [("logistic", "no maybe"), ("multinomial", "cat dog owl")])
def test_classes_as_text(likelihood: str, names: str, tmp_path: Path) -> None:
    classes, X = np.array(names.split()), RNG.standard_normal((150, 2))
    labels = classes[
        np.argmax(X @ RNG.standard_normal((2, len(classes))) + RNG.gumbel(size=(150, len(classes))), axis=1)
    ]
    path = table(tmp_path, {"a": X[:, 0], "b": X[:, 1], "kind": labels})
    out, page, predictions = (tmp_path / name for name in ("n.safetensors", "r.html", "p.csv"))
    words = ("recover", path, "--likelihood", likelihood, "--effort", "quick", "--seed", 0, "--out", out)
    code, _, said = run(*words, "--report", page, "--accept", "fitted")
    assert code == 0 and f"Classes of 'kind': {', '.join(sorted(classes))}." in said
    assert load_with_columns(out).labels == Labels(likelihood, tuple(sorted(classes)))
    code, _, said = run("predict", out, path, "--out", predictions)
    assert code == 0, said
    assert predictions.read_text().splitlines()[0] == ",".join(f"P({name})" for name in sorted(classes))


def test_classes_without_a_likelihood_say_which_option(tmp_path: Path) -> None:
    path = table(tmp_path, {"a": DOSE, "kind": np.where(DOSE > 20, "up", "down")})
    code, _, said = run("recover", path)
    assert code == 2 and "--likelihood logistic" in said
    code, _, said = run("recover", path, "--likelihood", "logistic", "--stream")
    assert code == 2 and "no --stream" in said
