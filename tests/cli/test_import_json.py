"""JSON that is imported: arrays and lines are the same rows, and no value is lost to the type that was found."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Run

import bucketlake
from bucketlake.cli import json_lines
from bucketlake.cli.files import Shape
from bucketlake.cli.sources import Source
from bucketlake.env.local import LocalStorage
from bucketlake.errors import InvalidError

TEXTS = st.text(alphabet='\\"[]{},:\n a\u00e9\u0007', max_size=6)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.just(1.5), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


def _lines(path: Path, data: bytes) -> list[Any]:
    path.write_bytes(data)
    source = Source(str(path), Shape("json"), LocalStorage())
    return [json.loads(line) for chunk in json_lines._chunks(source) for line in chunk.split(b"\n") if line.strip()]


@given(rows=st.lists(VALUES.map(lambda value: {"v": value}), max_size=5), seed=st.integers(0, 1 << 30))
def test_an_array_is_the_objects_in_it(rows: list[Any], seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = random.Random(seed)
    text = json.dumps(rows, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)
    data = rng.choice([b"", b"\xef\xbb\xbf"]) + rng.choice([b"", b" \n"]) + text.encode() + rng.choice([b"", b"\n"])
    path = tmp_path_factory.getbasetemp() / "array.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "BLOCK", rng.choice([1, 2, 3, 7, 1000]))
        assert _lines(path, data) == rows


@pytest.mark.parametrize("text", ['[{"a":1}', '[{"a":1}] x', '[{"a":1}]]', '[{"a":1}] [{"a":2}]'])
@pytest.mark.parametrize("block", [1, 1000])
def test_what_is_no_whole_array_is_refused(
    text: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "BLOCK", block)
    with pytest.raises(InvalidError, match="JSON array"):
        _lines(tmp_path / "a.json", text.encode())


@pytest.fixture
def made(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a file, and returns the types of the table's columns, and its rows."""
    monkeypatch.chdir(tmp_path)

    def imported(
        text: str, *more: str, name: str = "t.jsonl", table: str = "t"
    ) -> tuple[list[str], list[dict[str, Any]]]:
        Path(name).write_text(text)
        done = run("import", name, table, "--json", *more, warehouse="wh")
        assert done.status == 0, done.err
        return list(done.json["columns"].values()), bucketlake.open("wh").table(table).to_arrow().to_pylist()

    return imported


def test_of_what_nothing_is_known_becomes_text_or_a_map(made: Any) -> None:
    lines = '{"id":1,"a":[],"b":{},"c":{"d":null,"e":[{}]}}\n{"id":2,"a":null}\n'
    assert made(lines) == (
        ["BIGINT", "ARRAY<STRING>", "MAP<STRING NOT NULL, STRING>"]
        + ["ROW<`d` STRING, `e` ARRAY<MAP<STRING NOT NULL, STRING>>>"],
        [
            {"id": 1, "a": [], "b": [], "c": {"d": None, "e": [[]]}},
            {"id": 2, "a": None, "b": None, "c": None},
        ],
    )


def test_whole_numbers_keep_their_digits(made: Any) -> None:
    big = 12345678901234567890
    types, rows = made(f'{{"id":{big},"n":{{"k":[{big},1]}},"x":{big}}}\n{{"id":2,"n":null,"x":0.5}}\n')
    assert types == ["DECIMAL(38, 0)", "ROW<`k` ARRAY<DECIMAL(38, 0)>>", "DOUBLE"]  # x has fractions
    assert {row["id"] for row in rows} == {Decimal(2), Decimal(big)}
    assert [row["n"] for row in rows if row["n"]] == [{"k": [Decimal(big), Decimal(1)]}]


def test_values_of_an_array_are_as_in_lines(made: Any) -> None:
    big = 12345678901234567890
    assert made(f'[{{"id":{big},"t":"2024-01-01T10:00:00"}}]', name="t.json")[0] == ["DECIMAL(38, 0)", "TIMESTAMP(0)"]


def test_dates_are_dates_as_in_a_csv(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    day, moment = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)
    line = '{"id":1,"d":"2026-01-01","t":"2026-01-01","r":{"d":"2026-01-01","n":0.5},"l":["2026-01-01"],"s":"2026-01-01"}\n'
    rest = '{"id":2,"d":null,"t":"2026-01-02T10:00:00","r":{"d":null},"l":[],"s":"x"}\n'
    for block in (1 << 20, 16):  # in one piece, and a line at a time
        monkeypatch.setattr(json_lines, "BLOCK", block)
        types, rows = made(line + rest, name=f"{block}.jsonl", table=f"t{block}")
        assert types == ["BIGINT", "DATE", "TIMESTAMP(0)", "ROW<`d` DATE, `n` DOUBLE>", "ARRAY<DATE>", "STRING"]
        first = {"id": 1, "d": day, "t": moment, "r": {"d": day, "n": 0.5}, "l": [day], "s": "2026-01-01"}
        assert min(rows, key=lambda row: row["id"]) == first


def test_what_is_to_be_text_is_the_text_that_stands_there(made: Any) -> None:
    """`2026-01-01T10:00:00Z` became `2026-01-01 10:00:00Z`, a date a midnight."""
    line = '{"id":1,"a":"2026-01-01","b":"2026-01-01T10:00:00Z","l":["2026-01-01"]}\n'
    typed = [word for one in ("a=STRING", "b=STRING", "l=ARRAY<STRING>") for word in ("--type", one)]
    row = {"id": 1, "a": "2026-01-01", "b": "2026-01-01T10:00:00Z", "l": ["2026-01-01"]}
    assert made(line, *typed)[1] == [row]
    cells = 'id,a,b,l\n1,2026-01-01,2026-01-01T10:00:00Z,"[""2026-01-01""]"\n'
    assert made(cells, *typed, name="c.csv", table="c")[1] == [row]


def test_types_of_members_hold_the_values_of_all_lines(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "BLOCK", 16)  # a line at a time
    lines = [
        {"k": 1, "r": {"t": "2024-01-01T00:00:00", "u": "2024-01-01T00:00:00"}, "l": [None, 1]},
        {"k": 2, "r": {"t": "x", "n": 1}, "l": None},
        {"k": 3, "r": None, "l": [None, 1.5]},
        {"k": 4, "r": {"n": 2.5}, "l": []},
    ]
    types, rows = made("\n".join(map(json.dumps, lines)))
    assert types == ["BIGINT", "ROW<`t` STRING, `u` TIMESTAMP(0), `n` DOUBLE>", "ARRAY<DOUBLE>"]
    assert [row["l"] for row in rows] == [line["l"] for line in lines]
    assert [row["r"] and row["r"]["t"] for row in rows] == ["2024-01-01T00:00:00", "x", None, None]


def test_objects_are_maps_where_the_column_is_one(made: Any, run: Run) -> None:
    lines = '{"id":1,"m":{"a":1,"b":2}}\n{"id":2,"m":{"b":3}}\n{"id":3,"m":{}}\n{"id":4}\n'
    rows = [
        {"id": 1, "m": [("a", 1), ("b", 2)]},
        {"id": 2, "m": [("b", 3)]},
        {"id": 3, "m": []},
        {"id": 4, "m": None},
    ]
    assert made(lines, "--type", "m=MAP<STRING, INT>") == (["BIGINT", "MAP<STRING NOT NULL, INT>"], rows)
    assert run("export", "t", "out.jsonl", warehouse="wh").status == 0
    assert made(Path("out.jsonl").read_text(), "--if-exists", "replace", "--yes")[1] == rows
    assert made('{"id":5,"m":[]}\n', "--if-exists", "append")[1] == [*rows, {"id": 5, "m": []}]


def test_columns_without_a_value_fit_every_column(made: Any) -> None:
    made('{"id":1,"r":{"a":1},"l":[{"b":1}]}\n')
    assert made('{"id":2,"r":null,"l":[]}\n', "--if-exists", "append")[1][1] == {"id": 2, "r": None, "l": []}


def test_errors_say_what_helps(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.jsonl").write_text('{"v":1}\n{"v":"x"}\n')
    assert "lake.write_table(lake.spark.read.json('" in run("import", "m.jsonl", warehouse="wh").err
    Path("o.jsonl").write_text('{"v":{"a":1}}\n')
    refused = run("import", "o.jsonl", "--type", "v=STRING", warehouse="wh")
    assert (refused.status, "--type 'v=ROW<`a` BIGINT>'" in refused.err) == (1, True)
    for depth in (65, 100_000):
        Path("d.jsonl").write_text('{"v":' + "[" * depth + "]" * depth + "}")
        assert "nested more than 64 deep" in run("import", "d.jsonl", warehouse="wh").err
    Path("e.jsonl").write_text("\n")
    assert "no object is in the files" in run("import", "e.jsonl", warehouse="wh").err
    assert not Path("wh/default.db").exists()
