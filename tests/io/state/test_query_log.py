"""A log of questions: damage costs the records it touches and no other, and a log of something else is refused."""

import json
import warnings
import zlib

import numpy as np
import pytest

from pathology.tries import tried
from planted.io.state._query_log import MARKER, QueryLog
from planted.outcomes import BadInputError, DataWarning, FileFormatError


def batches(draw, d, m):
    counts = draw.integers(1, 30, size=int(draw.integers(4, 10)))
    return [(draw.standard_normal((n, d)), draw.standard_normal((n, m))) for n in counts]


def old_record(X, Y):
    body = np.ascontiguousarray(X, "<f8").tobytes() + np.ascontiguousarray(Y, "<f8").tobytes()
    return len(X).to_bytes(8, "little") + body + zlib.crc32(body).to_bytes(4, "little")


def old_header(d, m):
    return (
        json.dumps(
            {"format": "planted.identification", "schema": 1, "n_features": d, "n_outputs": m}
        ).encode()
        + b"\n"
    )


def write(path, pairs, d, m, schema):
    """Write a log and return where its records begin, and its end."""
    if schema == 1:
        path.write_bytes(old_header(d, m))
    places = []
    for X, Y in pairs:
        if schema == 1:
            places.append(path.stat().st_size)
            path.write_bytes(path.read_bytes() + old_record(X, Y))
        else:
            start = path.stat().st_size if path.exists() else 0
            QueryLog(path, d).append(X, Y)
            places.append(start or path.read_bytes().index(b"\n") + 1)
    return [*places, path.stat().st_size]


def known(log, X, Y):
    """Return how many questions the log answers; those it answers, it answers right."""
    found = [log.find(row) for row in X]
    assert all(answer is None or np.array_equal(answer, y) for answer, y in zip(found, Y, strict=True))
    return sum(answer is not None for answer in found)


def reopened(path, d, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return QueryLog(path, d, **options)


@pytest.mark.parametrize("schema", [1, 2])
@pytest.mark.parametrize("case", range(20))
def test_damage_costs_the_record_it_touches_and_no_other(tmp_path, case, schema):
    draw = np.random.default_rng([case, schema])
    d, m = (int(n) for n in draw.integers(1, 6, size=2))
    path, pairs = tmp_path / "log", batches(draw, d, m)
    places = write(path, pairs, d, m, schema)
    victim = int(draw.integers(0, len(pairs)))
    start, end = places[victim], places[victim + 1]
    data = bytearray(path.read_bytes())
    kind = case % 5
    if kind == 0:  # a bit of the length, where a reader is led astray
        data[start + (0 if schema == 1 else len(MARKER)) + int(draw.integers(0, 8))] ^= 1 << int(
            draw.integers(0, 8)
        )
    elif kind == 1:  # a bit anywhere
        data[int(draw.integers(start, end))] ^= 1 << int(draw.integers(0, 8))
    elif kind == 2:  # the record torn in the middle, as by a crash, and others after it
        del data[int(draw.integers(start + 1, end)) : end]
    elif kind == 3:  # zeros
        data[start:end] = bytes(end - start)
    else:  # noise before it
        data[start:start] = draw.bytes(int(draw.integers(1, 100)))
    path.write_bytes(data)
    log = reopened(path, d)
    for number, (X, Y) in enumerate(pairs):
        expected = 0 if number == victim and kind != 4 else len(X)
        assert known(log, X, Y) == expected, (number, victim, kind)
    assert path.read_bytes() == data and log.damaged_bytes > 0  # nothing is cut off

    X, Y = pairs[victim]
    log.append(X, Y)  # asked again
    again = reopened(path, d)
    assert [known(again, X, Y) for X, Y in pairs] == [len(X) for X, _ in pairs]


@pytest.mark.parametrize("case", range(4))
def test_damage_in_the_middle_is_said_and_a_torn_end_is_not(tmp_path, case):
    draw = np.random.default_rng(case)
    pairs = batches(draw, 3, 1)
    places = write(tmp_path / "log", pairs, 3, 1, 2)
    whole = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(whole[: int(draw.integers(places[-2] + 1, places[-1]))])
    QueryLog(tmp_path / "log", 3)  # a warning would fail the test
    data = bytearray(whole)
    data[places[1] + 30] ^= 1
    (tmp_path / "log").write_bytes(data)
    with pytest.warns(
        DataWarning, match=rf"log: {places[2] - places[1]:,} bytes between whole records are damaged"
    ):
        QueryLog(tmp_path / "log", 3)


def test_an_old_log_is_read_and_goes_on(tmp_path):
    draw = np.random.default_rng(0)
    pairs, more = batches(draw, 4, 2), batches(draw, 4, 2)
    write(tmp_path / "log", pairs, 4, 2, 1)
    old = (tmp_path / "log").read_bytes()
    for X, Y in more:
        QueryLog(tmp_path / "log", 4).append(X, Y)
    log = QueryLog(tmp_path / "log", 4)
    assert [known(log, X, Y) for X, Y in pairs + more] == [len(X) for X, _ in pairs + more]
    new = (tmp_path / "log").read_bytes()
    assert sum(a != b for a, b in zip(old, new, strict=False)) == 1  # the schema: version 0.1.0 refuses it
    assert json.loads(new.partition(b"\n")[0])["schema"] == 2


@pytest.mark.parametrize("schema", [1, 2])
@pytest.mark.parametrize("at_end", [True, False])
def test_a_record_of_no_question_is_a_typed_error(tmp_path, schema, at_end):
    X, Y = np.ones((2, 3)), np.ones((2, 1))
    write(tmp_path / "log", [(X, Y)], 3, 1, schema)
    empty = bytes(12)
    if schema == 2:
        head = MARKER + bytes(8)
        empty = head + zlib.crc32(head).to_bytes(4, "little") + bytes(4)
    with (tmp_path / "log").open("ab") as stream:
        stream.write(empty + (b"" if at_end else old_record(2 * X, Y)))
    with pytest.raises(FileFormatError, match=r"log: the record at byte \d+ holds 0 questions"):
        QueryLog(tmp_path / "log", 3)
    with pytest.raises(BadInputError, match="a batch has questions"):
        QueryLog(tmp_path / "new", 3).append(X[:0], Y[:0])
    assert not (tmp_path / "new").exists()


def test_a_log_of_another_oracle_is_refused_by_name(tmp_path):
    tried(3)  # other inputs, another name, other outputs
    X, Y = np.ones((2, 3)), np.ones((2, 1))
    QueryLog(tmp_path / "log", 3, oracle="model A").append(X, Y)
    with pytest.raises(BadInputError, match="log holds questions with 3 inputs, not 4"):
        QueryLog(tmp_path / "log", 4)
    with pytest.raises(BadInputError, match="log holds answers of the oracle 'model A', not of 'model B'"):
        QueryLog(tmp_path / "log", 3, oracle="model B")
    with pytest.raises(
        BadInputError, match="log holds answers with 1 outputs, not 2: it is the log of another oracle"
    ):
        QueryLog(tmp_path / "log", 3, oracle="model A").append(X, np.ones((2, 2)))
    assert len(QueryLog(tmp_path / "log", 3)) == 1  # two equal questions
    with pytest.raises(BadInputError, match="is not a file"):
        QueryLog(tmp_path, 3)
