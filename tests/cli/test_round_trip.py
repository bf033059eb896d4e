"""`export` and `import`: what one writes, the other reads as the same values into a table of the same types."""

from __future__ import annotations

import datetime as dt
import math
import os
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run

import bucketlake

FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
COLUMNS = {
    "id": pa.array([1, 2, 3], pa.int64()),
    "flag": pa.array([True, None, False]),
    "small": pa.array([1, -128, None], pa.int8()),
    "real": pa.array([1.5, None, math.inf], pa.float32()),
    "double": pa.array([0.1, -0.0, -1e300], pa.float64()),
    "money": pa.array([Decimal("1.10"), None, Decimal("-99999.99")], pa.decimal128(7, 2)),
    "huge": pa.array([Decimal("1" * 38), None, Decimal(0)], pa.decimal128(38, 0)),
    "text": pa.array(["", "null", 'a,"b"\r\n\u0000\u00e9'], pa.string()),
    "other": pa.array([None, " x ", "NA"], pa.string()),
    "bytes": pa.array([b"\x00\xff", None, b""], pa.binary()),
    "day": pa.array([FIRST.date(), None, LAST.date()]),
    "clock": pa.array([dt.time(1, 2, 3, 4000), None, dt.time(23, 59, 59, 999000)], pa.time32("ms")),
    "local": pa.array([FIRST, None, LAST], pa.timestamp("us")),
    "instant": pa.array([FIRST, None, LAST], pa.timestamp("us", "UTC")),
    "list": pa.array([[None, 1], [], None], pa.list_(pa.int32())),
    "map": pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int64())),
    "row": pa.array([{"x": 1, "y": "q\n"}, None, {"x": None, "y": None}], pa.struct({"x": "i4", "y": "str"})),
    "rows": pa.array([[{"x": FIRST.date()}], None, [None]], pa.list_(pa.struct({"x": pa.date32()}))),
    "days": pa.array([[(1, LAST.date())], None, []], pa.map_(pa.int32(), pa.date32())),
}


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "jsonl", "json", "csv.gz"])
def test_values_come_back(form: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table(COLUMNS)
    catalog = bucketlake.open("wh")
    options = {"bucket": "1"}
    catalog.create_table("given", rows.schema, [], ["id"], options).write_arrow(rows)
    back = catalog.create_table("back", rows.schema, [], ["id"], options)
    done = run("export", "given", f"out.{form}", warehouse="wh")
    assert done.status == 0, done.err
    done = run("import", f"out.{form}", "back", "--if-exists", "append", warehouse="wh")
    assert done.status == 0, done.err
    expected = catalog.table("given").to_arrow().to_pylist()
    if "json" in form:  # which has no word for infinity
        expected[2]["real"] = None
    assert back.to_arrow().to_pylist() == expected


def test_texts_of_a_file_with_types_are_no_hexadecimal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, kind in {"t": pa.string(), "u": pa.large_string()}.items():
        texts = pa.array(["cafe", "hello"], kind)
        pq.write_table(pa.table({"v": texts, "r": pa.StructArray.from_arrays([texts], ["m"])}), f"{name}.parquet")
        types = ["--type", "v=BYTES", "--type", "r=ROW<m BYTES>"]
        done = run("import", f"{name}.parquet", *types, warehouse="wh")
        assert done.status == 0, done.err
        rows = bucketlake.open("wh").table(name).to_arrow().to_pylist()
        assert rows == [{"v": value, "r": {"m": value}} for value in (b"cafe", b"hello")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BYTES", "hello"),
        ("BYTES", "abc"),
        ("TIME", "25:00:00"),
        ("TIME", "10:00:00.0001"),
        ("TIME", "2024-01-01"),
        ("ARRAY<INT>", "1"),
        ("ARRAY<INT>", '"[1],""w"":2"'),
        ("ARRAY<INT>", '"[1]}{""v"":[2]"'),
        ("ROW<a INT>", '"{""a"":""x""}"'),
    ],
)
def test_texts_that_are_no_such_values(
    kind: str, text: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(f"id,v\n1,{text}\n")
    refused = run("import", "t.csv", "--type", f"v={kind}", warehouse="wh")
    assert (refused.status, "a value that its column cannot hold" in refused.err) == (1, True), refused.err
    assert not Path("wh/default.db/t").exists()


def test_a_pipe_says_nothing_twice(run: Run, tmp_path: Path) -> None:
    """A file is looked at before it is read: of a pipe the rows that were looked at were lost, or all of them."""
    ours, theirs = os.pipe()
    text = "id,v\n" + "".join(f"{number},{'x' * 1000}\n" for number in range(9000))  # more than is read at a time
    pipe = os.fdopen(theirs, "wb", buffering=0)
    writer = threading.Thread(target=lambda: (pipe.write(text.encode()), pipe.close()), daemon=True)
    writer.start()
    given = run("import", f"/dev/fd/{ours}", "t", "--format", "csv", "-k", "id", "--json", warehouse=str(tmp_path))
    os.close(ours)
    writer.join()
    assert given.json["rows"] == 9000, given.err
    assert run("cat", "t", "--where", "id IN (0, 8999)", "--json", warehouse=str(tmp_path)).out.count('"id"') == 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_no_file_is_written_to_and_not_replaced(run: Run, own: str, tmp_path: Path, form: str) -> None:
    """`export t /dev/null --overwrite` by somebody who may do all put a file in the place of the device."""
    path = tmp_path / f"fifo.{form}"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()
    given = run("export", "db.days", str(path), "--overwrite", warehouse=own)
    reader.join(30)
    assert (given.status, given.out, path.is_fifo()) == (0, "", True), given.err
    assert found and (found[0].count(b"\n") == 4 if form == "csv" else found[0].startswith(b"PAR1"))


def test_a_folder_in_the_place_of_a_file_is_named(run: Run, own: str, tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    given = run("export", "db.days", str(tmp_path / "out.csv"), "--overwrite", warehouse=own)
    assert given.status == 1 and f"path={tmp_path}/out.csv, reason=Is a directory" in given.err
    assert sorted(one.name for one in tmp_path.iterdir() if one.name[0] == ".") == []
