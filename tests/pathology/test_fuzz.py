"""Mutated files of every kind that planted reads give right answers or typed errors; ``make fuzz`` reads many more."""

import argparse
import dataclasses
import importlib.util
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pathology.corpus import corpus
from pathology.mutations import READERS, SEEDS, _broken_promise, _sound, mutate, read_corpus, read_mutants
from pathology.tries import tried
from planted.io import memory_budget
from planted.outcomes import FileFormatError, PlantedError

TRIES = {"arguments": 100}  # of each kind; 300 of the others
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
STORED = json.loads(SEEDS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("reader", READERS)
def test_mutated_files_give_right_answers_or_typed_errors(tmp_path, reader):
    tried(TRIES.get(reader, 300))
    failures = list(
        filter(None, islice(read_mutants(reader, STORED["seed"], tmp_path), TRIES.get(reader, 300)))
    )
    assert not failures, failures[:3]


@pytest.mark.parametrize(("reader", "seed", "number"), STORED["once_failed"])
def test_files_that_once_failed(tmp_path, reader, seed, number):
    assert next(read_mutants(reader, seed, tmp_path, first=number)) is None


@pytest.mark.parametrize("reader", READERS)
def test_sound_files_are_read_and_mutants_are_reproducible_and_differ(tmp_path, reader):
    for number, content in enumerate(_sound(reader)):
        file = tmp_path / READERS[reader].name
        file.write_bytes(content)
        assert _broken_promise(READERS[reader], file, number) is None
        if reader == "arguments":
            continue
        mutants = [[mutate(content, np.random.default_rng((i, 5))) for i in range(50)] for _ in range(2)]
        assert mutants[0] == mutants[1] and len(set(mutants[0]) - {content}) > 35


def test_a_broken_promise_is_seen(tmp_path):
    """A reader that raises a foreign error, names no file, answers wrongly or takes long is a failure each."""

    def raises(error):
        def judge(file, number):
            raise error

        return judge

    judges = {
        "foreign error": raises(KeyError("x")),
        "does not name": raises(FileFormatError("damaged")),
        "wrong": lambda file, number: "wrong",
    }
    file = tmp_path / "net.json"
    file.write_bytes(b"")
    for reason, judge in judges.items():
        assert reason in _broken_promise(type(READERS["json"])("net.json", list, judge), file, 0)


def test_the_study_counts_what_is_read_refused_and_broken(monkeypatch, capsys, tmp_path):
    """Of 60 files of a reader that breaks its promise for every tenth, six are in the row, and the line is red."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location("planted_fuzz", BENCHMARKS / "fuzz.py")
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    options = argparse.Namespace(files=60, quick=False, seed=5)
    lines, (row,) = study.read_all("json")(options)
    assert (
        lines[0].passed
        and row["read"] + row["refused"] == row["files"] == 60
        and min(row["read"], row["refused"]) > 0
    )
    right = READERS["json"]

    def judge(file, number):
        return "wrong" if number % 10 == 0 else right.judge(file, number)

    monkeypatch.setitem(READERS, "json", dataclasses.replace(right, judge=judge))
    lines, (row,) = study.read_all("json")(options)
    assert not lines[0].passed and [number for number, _ in row["failures"]] == list(range(0, 60, 10))
    assert row["read"] + row["refused"] == 54


def test_the_corpus_gives_typed_errors_as_it_is_and_changed(tmp_path):
    found = list(read_corpus(tmp_path, mutants=3))
    assert len(found) > 100 and not any(found), [failure for failure in found if failure][:3]


@pytest.mark.parametrize("reader", corpus())
def test_no_file_of_the_corpus_is_taken_for_a_sound_one(tmp_path, reader):
    """Every hostile file is refused, but for three that are sound in their way."""
    file = tmp_path / READERS[reader].name
    for place, content in enumerate(corpus()[reader]):
        file.write_bytes(content)
        if (reader, place) in {("onnx run", 3), ("query log", 1), ("query log", 2)}:  # it runs; torn ends
            continue
        with memory_budget(200_000_000), pytest.raises(PlantedError):
            READERS[reader].judge(file, 1)
