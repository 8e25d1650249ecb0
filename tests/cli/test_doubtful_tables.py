"""Tables that could be read in two ways are refused or read aloud, and advice names only options that the command has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from planted import TwoLayerNetwork
from planted.cli import app
from planted.io import Recipe, learn_recipe, open_blocks, read_table, write_table
from planted.outcomes import BadInputError, FileFormatError, PlantedError

RUNNER = CliRunner()
OPTIONS = {
    name: {word for option in command.params for word in option.opts}
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
}


def run(*words: object) -> tuple[int, str, str]:
    answer = RUNNER.invoke(app, [str(word) for word in words])
    return answer.exit_code, answer.stdout, re.sub(r"\s+", " ", answer.stderr)


# --- a last column that counts the rows


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".parquet", ".feather"])
@pytest.mark.parametrize("seed", range(3))
def test_a_last_column_that_counts_the_rows_is_no_target_unless_named(
    suffix: str, seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng([41, seed])
    n, begin = int(rng.integers(5, 3000)), int(rng.choice([0, 1, rng.integers(2, 10**6)]))
    values = np.column_stack([rng.standard_normal((n, 2)), np.arange(begin, begin + n)])
    path = tmp_path / f"rows{suffix}"
    if suffix == ".npy":
        np.save(path, values)
    else:
        write_table(path, dict(zip("aby", values.T, strict=True)))
    name = "2" if suffix == ".npy" else "y"
    for read in (read_table, open_blocks, learn_recipe):
        with pytest.raises(BadInputError, match="counts the rows"):
            read(path)
        read(path, targets=name)
        read(path, targets="0" if suffix == ".npy" else "a")
    code, printed, said = run("recover", path, "--seed", 0, "--budget", 0.2)
    assert code == 2 and "counts the rows" in said and "--targets" in said and not printed


def test_a_column_of_rising_numbers_that_is_called_id(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    numbers = np.cumsum(rng.integers(1, 9, 40)).astype(float)
    for name, is_refused in (("ID", True), ("y", False)):
        columns = {"a": rng.standard_normal(40), name: numbers}
        path = tmp_path / f"{name}.csv"
        write_table(path, columns)
        if is_refused:
            with pytest.raises(BadInputError, match="counts the rows"):
                read_table(path)
        else:
            assert read_table(path).target_names == ("y",)


# --- networks without the names of their inputs


@pytest.mark.parametrize("seed", range(3))
def test_a_network_without_names_takes_no_more_columns_than_it_has_inputs(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([42, seed])
    d = int(rng.integers(1, 5))
    net = TwoLayerNetwork(rng.standard_normal((2, d)), A=rng.standard_normal((1, 2)))
    net.save(tmp_path / "net.safetensors")
    X = rng.standard_normal((6, d))
    write_table(tmp_path / "just.csv", {f"c{j}": X[:, j] for j in range(d)})
    write_table(tmp_path / "more.csv", {f"c{j}": X[:, j] for j in range(d)} | {"y": X[:, 0]})
    code, printed, said = run("predict", tmp_path / "net.safetensors", tmp_path / "just.csv")
    assert code == 0 and "taken in their order: 'c0'" in said
    np.testing.assert_allclose([float(line) for line in printed.split()[1:]], net(X)[:, 0], rtol=1e-12)
    code, printed, said = run("predict", tmp_path / "net.safetensors", tmp_path / "more.csv")
    assert code == 2 and not printed and "--features" in said


@pytest.mark.parametrize("target", [0, 1, 2])
def test_numbered_columns_are_those_that_the_network_was_made_from(target: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([43, target])
    values, net = rng.standard_normal((8, 3)), TwoLayerNetwork([[1.0, -2.0]], A=[[1.0]])
    inputs = [j for j in range(3) if j != target]
    net.save(tmp_path / "net.safetensors", features=[str(j) for j in inputs], targets=[str(target)])
    np.save(tmp_path / "rows.npy", values)
    code, printed, _ = run("predict", tmp_path / "net.safetensors", tmp_path / "rows.npy")
    assert code == 0
    np.testing.assert_allclose(
        [float(x) for x in printed.split()[1:]], net(values[:, inputs])[:, 0], rtol=1e-12
    )


# --- dates


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_dates_with_and_without_a_zone_do_not_mix(seed: int, suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([44, seed])
    zone = str(rng.choice(["Z", "+01:00", "-05:30"]))
    plain = [f"2026-01-{day:02d}T{rng.integers(24):02d}:30" for day in rng.integers(1, 29, 12)]
    zoned = [text + zone for text in plain]
    mixed = [*plain[:6], *zoned[6:]] if seed % 2 else [*zoned[:11], plain[11]]
    tables = {}
    for name, days in (("plain", plain), ("zoned", zoned), ("mixed", mixed)):
        tables[name] = tmp_path / f"{name}{suffix}"
        _write_days(tables[name], days, rng.standard_normal(12))
    with pytest.raises(BadInputError, match="only one has a zone"):
        learn_recipe(tables["mixed"], targets="y")
    for one, other in (("plain", "zoned"), ("zoned", "plain")):
        recipe = learn_recipe(tables[one], targets="y")
        assert Recipe.from_dict(recipe.to_dict()) == recipe
        assert ("T00:00Z" in recipe.inputs[0]) == (one == "zoned")
        found = read_table(tables[one], recipe=recipe)
        assert (found.X >= 0).all() and found.X.min() < 1
        with pytest.raises(PlantedError, match="zone"):
            read_table(tables[other], recipe=recipe)


def _write_days(path: Path, days: list[str], y: np.ndarray) -> None:
    if path.suffix == ".csv":
        lines = [f"{day},{value!r}" for day, value in zip(days, y.tolist(), strict=True)]
        path.write_text("\n".join(["day,y", *lines, ""]))
        return
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"day": days, "y": y}), path)


# --- missing targets


@pytest.mark.parametrize("way", [[], ["--stream"]])
@pytest.mark.parametrize("seed", range(2))
def test_the_advice_for_a_missing_target_works(
    way: list[str], seed: int, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng([45, seed])
    rows = rng.standard_normal((60, 2))
    cells = [f"{a!r},{b!r},{max(a - b, 0.0)!r}" for a, b in rows.tolist()]
    gap = int(rng.integers(1, 60))
    cells[gap] = cells[gap].rpartition(",")[0] + ","
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *cells, ""]))
    words = ("recover", "rows.csv", "--seed", 1, "--hidden", 1, "--out", "net.safetensors", *way)
    for more in ([], ["--missing", "mean"]):
        code, _, said = run(*words, *more)
        assert code == 2 and "--missing drop" in said and "--missing mean" not in said, said
    code, _, said = run(*words, "--missing", "drop")
    assert code == 0, said


# --- texts that are no UTF-8


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_wide_text_is_named(encoding: str, suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(46)
    mark = "," if suffix == ".csv" else "\t"
    lines = [mark.join(map(repr, row)) for row in rng.standard_normal((9, 3)).tolist()]
    path = tmp_path / f"rows{suffix}"
    path.write_bytes("\r\n".join([mark.join("aby"), *lines, ""]).encode(encoding))
    with pytest.raises(FileFormatError, match=r"UTF-(16|32), expected UTF-8"):
        read_table(path)
    path.write_bytes("\r\n".join(lines).encode(encoding))  # no header
    with pytest.raises(FileFormatError, match="expected UTF-8"):
        read_table(path)


# --- advice


def _awkward(folder: Path) -> list[Path]:
    """Tables that reader after reader refuses, each with its own advice."""
    texts = {
        "gap": "a,b,y\n1,,3\n4,5,6\n",
        "word": "a,b,y\n1,x1,3\n4,5,6\n",
        "comma": "a;b;y\n1,5;2;3\n4;5;6\n",
        "words": "a,b,y\n1,north,3\n4,south,6\n",
        "day": "a,b,y\n1,31.12.2025,3\n4,30.12.2025,6\n",
        "target": "a,b,y\n1,2,\n4,5,6\n",
        "ragged": "a,b,y\n1,2\n4,5,6\n",
        "wide": "a,b,y\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    np.savez(folder / "arrays.npz", a=np.ones((3, 2)), b=np.ones(3))
    return sorted(folder.glob("*.[cn][sp][vz]"))


@pytest.mark.parametrize("command", ["recover", "diagnose", "memorize", "sums", "predict", "compare"])
def test_advice_names_only_options_that_the_command_has(command: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    TwoLayerNetwork([[1.0, -1.0]], A=[[1.0]]).save("net.safetensors", features=["a", "b"], targets=["y"])
    for table in _awkward(tmp_path):
        words: dict[str, list[object]] = {
            "predict": ["net.safetensors", table],
            "compare": ["net.safetensors", "net.safetensors", "--box-from", table],
            "sums": [table, "--out", "part.sums"],
        }
        for memory in ("100MB", "2kB"):
            code, _, said = run(command, *words.get(command, [table]), "--memory", memory)
            named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", said))
            assert named <= OPTIONS[command], (table.name, said)
            assert code != 3, said
