"""Tables as they are: text, dates, gaps and row numbers become inputs by a recipe that is stored with the network."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from planted import TwoLayerNetwork
from planted.io import (
    PreparedColumn,
    Recipe,
    learn_recipe,
    load_with_columns,
    memory_budget,
    open_blocks,
    read_table,
    save_network,
)
from planted.outcomes import BadInputError, BadInputTypeError, FileFormatError, PlantedError

LEVELS = ("north", "south", "west")
FORMATS = (".csv", ".tsv", ".csv.gz", ".parquet", ".feather")


@pytest.fixture(params=["arrow", "plain"])
def parser(request, monkeypatch):
    """Read text with Arrow, and again without it."""
    if request.param == "plain":
        found = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *a: None if name == "pyarrow" else found(name, *a)
        )
    return request.param


def world(seed: int, n: int = 120) -> dict[str, list]:
    """Draw a table with a column of every kind and with gaps."""
    rng = np.random.default_rng([29, seed])
    size = [None if rng.random() < 0.1 else float(value) for value in rng.standard_normal(n).round(6)]
    region = [str(value) for value in rng.choice(LEVELS, n)]
    region[:3] = LEVELS
    region[int(rng.integers(3, n))] = None
    sold = [bool(value) for value in rng.random(n) < 0.4]
    start = date(2020 + seed, 2, 27)
    when = [start + timedelta(int(day)) for day in rng.integers(0, 900, n)]
    y = [float(value) for value in rng.standard_normal(n).round(6)]
    return {"size": size, "region": region, "sold": sold, "when": when, "y": y}


def write(columns: dict[str, list], path: Path) -> Path:
    """Write a table in the format of its name."""
    if path.suffix in (".parquet", ".feather"):
        table = pa.table(columns)
        parquet.write_table(table, path) if path.suffix == ".parquet" else feather.write_feather(
            table, str(path)
        )
        return path
    rows = [["" if cell is None else cell for cell in row] for row in zip(*columns.values(), strict=True)]
    delimiter = "\t" if ".tsv" in path.name else ","
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def expected(columns: dict[str, list], missing: str) -> tuple[np.ndarray, np.ndarray]:
    """Code the same table by hand."""
    first = min(columns["when"])
    rows, labels = [], []
    known = [value for value in columns["size"] if value is not None]
    named = [value for value in columns["region"] if value is not None]
    shares = [named.count(level) / len(named) for level in LEVELS[1:]]
    for size, region, sold, when, y in zip(*columns.values(), strict=True):
        if missing == "drop" and (size is None or region is None):
            continue
        one_hot = shares if region is None else [float(region == level) for level in LEVELS[1:]]
        number = sum(known) / len(known) if size is None else size
        gaps = [float(size is None)], [float(region is None)]
        left, right = gaps if missing == "mean" else ([], [])
        rows.append([number, *left, *one_hot, *right, float(sold), float((when - first).days)])
        labels.append([y])
    return np.array(rows), np.array(labels)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("missing", ["drop", "mean"])
@pytest.mark.parametrize("seed", range(2))
def test_columns_of_every_kind(suffix: str, missing: str, seed: int, parser: str, tmp_path: Path) -> None:
    if parser == "plain" and suffix in (".parquet", ".feather"):  # these formats need Arrow
        suffix = ".csv"
    columns = world(seed)
    file = write(columns, tmp_path / f"rows{suffix}")
    recipe = learn_recipe(file, missing=missing)
    X, Y = expected(columns, missing)
    table = read_table(file, recipe=recipe)
    np.testing.assert_allclose(table.X, X, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(table.Y, Y)
    middle = ("size missing",) if missing == "mean" else ()
    last = ("region missing",) if missing == "mean" else ()
    when = f"when (days since {min(columns['when'])})"
    assert table.feature_names == ("size", *middle, "region=south", "region=west", *last, "sold", when)
    for rows in (7, 1000):
        blocks = list(open_blocks(file, recipe=recipe, block_rows=rows))
        np.testing.assert_array_equal(np.vstack([block for block, _ in blocks]), table.X)
        assert all(len(block) == rows for block, _ in blocks[:-1])
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    said = " ".join(recipe.notes)
    assert "reference 'north'" in said and f"since {min(columns['when'])}" in said
    assert ("true is 1" in said) == (suffix not in (".parquet", ".feather"))  # where they are numbers already
    assert ("left out" in said) == (missing == "drop") and ("mean of the column" in said) == (
        missing == "mean"
    )


@pytest.mark.parametrize("suffix", FORMATS)
def test_gaps_are_refused_unless_the_user_says_otherwise(suffix: str, tmp_path: Path) -> None:
    file = write(world(3), tmp_path / f"rows{suffix}")
    recipe = learn_recipe(file)
    with pytest.raises(BadInputError, match=r"missing or NaN.*--missing drop.*--missing mean"):
        read_table(file, recipe=recipe)
    with pytest.raises(BadInputError, match="--missing drop"):
        list(open_blocks(file, recipe=recipe))


def test_a_table_of_numbers_needs_no_preparation(tmp_path: Path) -> None:
    file = tmp_path / "plain.csv"
    file.write_text("a,b,y\n1,2,3\n4,5,7\n")
    recipe = learn_recipe(file, exclude="b")
    assert recipe.is_plain and recipe.inputs == ("a",) and recipe.notes == ()
    np.testing.assert_array_equal(read_table(file, recipe=recipe).X, [[1.0], [4.0]])


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_the_decimal_comma(suffix: str, parser: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    values = rng.standard_normal((30, 3)).round(5)
    lines = ["a;b;y", *(";".join(f"{value}".replace(".", ",") for value in row) for row in values)]
    file = tmp_path / f"comma{suffix}"
    text = "\n".join(lines).encode()
    file.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    recipe = learn_recipe(file, decimal=",")
    table = read_table(file, recipe=recipe)
    np.testing.assert_array_equal(np.hstack([table.X, table.Y]), values)
    with pytest.raises(BadInputTypeError, match="--decimal comma"):
        read_table(file)
    with pytest.raises(BadInputTypeError, match="--decimal comma"):  # not taken for categories
        read_table(file, recipe=learn_recipe(file))


INDEXED = {
    "no name": (",a,y\n0,3,1\n1,5,2\n2,4,2\n", ("a",)),
    "pandas": ("Unnamed: 0,a,y\n0,3,1\n1,5,2\n2,4,2\n", ("a",)),
    "from one": ("id,a,y\n1,3,1\n2,5,2\n3,4,2\n", ("a",)),
    "row names": (",a,y\nMazda,3,1\nFiat,5,2\nFord,4,2\n", ("a",)),
    "does not count": ("id,a,y\n1,3,1\n7,5,2\n3,4,2\n", ("id", "a")),
    "a column of its own": ("step,a,y\n0,3,1\n1,5,2\n2,4,2\n", ("step", "a")),
    "the only input": ("id,y\n1,3\n2,5\n3,4\n", ("id",)),
}


@pytest.mark.parametrize("case", INDEXED)
def test_a_column_that_counts_the_rows_is_left_out_and_named(case: str, tmp_path: Path) -> None:
    text, inputs = INDEXED[case]
    file = tmp_path / "rows.csv"
    file.write_text(text)
    recipe = learn_recipe(file)
    assert recipe.inputs == inputs
    assert any("was left out" in note for note in recipe.notes) == (inputs == ("a",))
    if inputs == ("a",) and case != "no name" and case != "row names":
        name = text.partition(",")[0]
        assert learn_recipe(file, features=[name, "a"]).inputs == (name, "a")  # chosen by name


REFUSED = {
    "mixed": (
        "a,b,y\n1,2,3\n4,five,6\n",
        "row 1, column 'b' holds 'five', expected a number.*--exclude.*--categories",
    ),
    "day or month": (
        "a,when,y\n1,31/12/2025,3\n2,01/02/2025,4\n",
        "'31/12/2025'.*2026-01-31.*--exclude 'when'",
    ),
    "names": (
        "a,name,y\n" + "".join(f"{i},person {i},3\n" for i in range(60)),
        "more than 50 different texts.*--exclude 'name'",
    ),
    "text target": ("a,b,y\n1,2,good\n4,5,bad\n", "the target 'y' holds texts such as 'good'.*--targets"),
    "percent": ("a,b,y\n1,20%,3\n4,30%,6\n", "column 'b' holds '20%', expected a number"),
    "late word": ("a,b,y\n" + "1,2,3\n" * 700 + "4,word,6\n", "row 700, column 'b' holds 'word'"),
    "one text or nothing": (
        "a,b,y\n1,x,3\n4,,6\n5,x,6\n",
        "'b' holds 'x' or nothing.*yes and no.*--exclude 'b'",
    ),
    "only one text": ("b,y\nx,3\nx,6\n", "leaves 0 inputs"),
    "long text": ("a,b,y\n1," + "x" * 300 + ",3\n", "a text of 300 characters.*--exclude 'b'"),
    "other digits": ("a,b,y\n1,2,3\n1,\uff11,3\n", "row 1, column 'b' holds '\uff11', expected a number"),
    "header alone": ("a,b,y", "a header, but no row of data"),
    "word and date": (
        "a,b,y\n1,soon,3\n4,2026-01-01,6\n",
        "'2026-01-01', a date, and 'soon', which is none.*--exclude",
    ),
    "no such day": (
        "a,b,y\n1,2026-02-30,3\n4,2026-01-01,6\n",
        "'2026-02-30', which is no moment of the calendar",
    ),
    "no such second": (
        "a,b,y\n1,2026-02-03T23:59:60,3\n",
        "'2026-02-03T23:59:60', which is no moment of the calendar",
    ),
    "date and word": ("a,b,y\n1,2026-01-01,3\n4,soon,6\n", "row 1, column 'b' holds 'soon', expected a date"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_type(case: str, parser: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(PlantedError, match=message):
        read_table(file, recipe=learn_recipe(file))


def test_numbers_may_be_categories(parser: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("zone,a,y\n10,1,3\n9,2,4\n10,3,5\nother,3,6\n")
    recipe = learn_recipe(file, categories="zone")
    assert recipe.inputs == ("zone=10", "zone=other", "a")  # numbers by size, the first is the reference
    np.testing.assert_array_equal(read_table(file, recipe=recipe).X[:, :2], [[1, 0], [0, 0], [1, 0], [0, 1]])
    with pytest.raises(BadInputError, match="not among the inputs"):
        learn_recipe(file, categories="zone", features="a")


def test_times_and_zones(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("when,y\n2026-01-02T12:00Z,1\n2026-01-01 06:00:00+00:00,2\n2026-01-03T01:00:00+01:00,3\n")
    recipe = learn_recipe(file)
    assert recipe.inputs == ("when (days since 2026-01-01T00:00Z)",)
    np.testing.assert_allclose(read_table(file, recipe=recipe).X[:, 0], [1.5, 0.25, 2.0])
    stamps = pa.array([datetime(2026, 1, 2, 12), datetime(2026, 1, 1, 6)], pa.timestamp("ns"))
    parquet.write_table(pa.table({"when": stamps, "y": [1.0, 2.0]}), tmp_path / "rows.parquet")
    recipe = learn_recipe(tmp_path / "rows.parquet")
    np.testing.assert_allclose(read_table(tmp_path / "rows.parquet", recipe=recipe).X[:, 0], [1.5, 0.25])


def test_targets_may_be_true_or_false(parser: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,y\n1,True\n2,False\n3,True\n")
    np.testing.assert_array_equal(read_table(file, recipe=learn_recipe(file)).Y[:, 0], [1.0, 0.0, 1.0])


# --- compressed files


def test_what_a_compressed_file_expands_to_counts(parser: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.csv.gz"
    with gzip.open(file, "wb") as stream:
        stream.write(b"a,y\n")
        for _ in range(40):
            stream.write(b"1,2\n" * 25_000)
    assert file.stat().st_size < 50_000
    with memory_budget("20MB"), pytest.raises(BadInputError, match=r"budget|memory"):
        read_table(file)


@pytest.mark.parametrize("ratio", [True, False])
def test_a_bomb_is_refused_while_it_is_read(ratio: bool, tmp_path: Path, monkeypatch) -> None:
    from planted.io.tables import _gzip

    monkeypatch.setattr(_gzip, "BOMB_BYTES", 2**20)
    rng = np.random.default_rng(0)
    line = b"1,2\n" if ratio else b""
    file = tmp_path / "bomb.csv.gz"
    with gzip.open(file, "wb") as stream:
        stream.write(b"a,y\n")
        stream.write(line * 2**19 if ratio else b"\n".join(f"{v},1".encode() for v in rng.random(80_000)))
    read = lambda: sum(len(X) for X, _ in open_blocks(file))  # noqa: E731
    if ratio:
        with pytest.raises(FileFormatError, match=r"expands more than 100-fold.*gunzip"):
            read()
    else:
        assert read() == 80_000


def test_one_endless_line_inside_a_compressed_file(tmp_path: Path) -> None:
    file = tmp_path / "line.csv.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        for _ in range(17):
            stream.write(b"0" * 2**20)
    with pytest.raises(FileFormatError, match="longer than 16 MB"):
        read_table(file)


@pytest.mark.parametrize("damage", ["cut", "flipped", "not compressed"])
def test_damaged_compressed_files(damage: str, parser: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    text = b"a,y\n" + b"\n".join(f"{a},{b}".encode() for a, b in rng.random((3000, 2)))
    packed = gzip.compress(text)
    broken = {
        "cut": packed[: len(packed) // 2],
        "flipped": packed[:-6] + bytes([packed[-6] ^ 255]) + packed[-5:],
        "not compressed": text,
    }[damage]
    file = tmp_path / "rows.csv.gz"
    file.write_bytes(broken)
    with pytest.raises(FileFormatError, match=r"cannot be read as \.csv\.gz"):
        read_table(file)


# --- in the file of a network


@pytest.mark.parametrize(
    "text", ["2026-13-01", "0001-01-01T00:00:00+23:00", "9999-12-31T23:00:00-23:00", "2026", "2026-"]
)
def test_texts_that_only_look_like_dates(text: str) -> None:
    assert PreparedColumn("when", "date", origin="2026-01-01").code(text) is None
    assert PreparedColumn("when", "date", origin="2026-01-01").code("2026-01-03") == 2.0


REGION = PreparedColumn("region", "category", levels=LEVELS)


def test_a_network_keeps_its_recipe(tmp_path: Path) -> None:
    recipe = Recipe((PreparedColumn("size", fill=(1.5,)), REGION), ("y",), "mean")
    network = TwoLayerNetwork(np.ones((2, 4)), A=[[1.0, 2.0]])
    path = tmp_path / "net.safetensors"
    save_network(network, path, recipe=recipe)
    saved = load_with_columns(path)
    assert saved.recipe == recipe and saved.features == recipe.inputs and saved.targets == ("y",)
    save_network(network, path, features=list("abcd"))
    assert load_with_columns(path).recipe is None


@pytest.mark.parametrize(
    "change",
    [
        {"columns": []},
        {"columns": [{"name": "a", "kind": "python"}]},
        {"columns": [{"name": "a", "kind": "category"}]},
        {"columns": [{"name": "a", "kind": "category", "levels": ["x"] * 2}]},
        {"columns": [{"name": "a", "kind": "category", "levels": [str(i) for i in range(60)]}]},
        {"columns": [{"name": "a", "kind": "date", "origin": "soon"}]},
        {"columns": [{"name": "a", "kind": "number", "fill": [float("nan")]}]},
        {"columns": [{"name": "a", "kind": "number", "fill": [1.0, 2.0]}]},
        {"columns": [{"name": "a", "kind": "number", "code": "import os"}]},
        {"missing": "guess"},
        {"decimal": "x"},
        {"flags": ["z"]},
        {"more": 1},
    ],
    ids=repr,
)
def test_a_recipe_from_a_file_holds_nothing_else(change: dict) -> None:
    kept = Recipe((REGION, PreparedColumn("b")), ("y",)).to_dict()
    assert Recipe.from_dict(kept).inputs == ("region=south", "region=west", "b")
    with pytest.raises(BadInputError, match="damaged"):
        Recipe.from_dict(kept | change)
