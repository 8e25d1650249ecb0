"""Mutated files of every kind that planted reads give right answers or typed errors; ``make fuzz`` reads many more."""

import json
from itertools import islice

import numpy as np
import pytest

from pathology.corpus import corpus
from pathology.mutations import READERS, SEEDS, _broken_promise, _sound, mutate, read_corpus, read_mutants
from pathology.tries import tried
from planted.io import memory_budget
from planted.outcomes import FileFormatError, PlantedError

TRIES = {"arguments": 100}  # of each kind; 300 of the others
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
