"""`import`: what is found out of files, what it makes, and that it is there whole or not at all."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run

import bucketlake
from bucketlake.cli import infer, loading

TRIPS = """id,zip,name,when,amount,ok,day,note
1,007,"Ann, B",2024-01-01 10:00:00,1.5,true,2024-01-01,NA
2,008,,2024-01-01T11:00:00,NA,false,2024-01-02,
3,123,"",2024-01-02,3,true,,x
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips.csv").write_text(TRIPS)
    return tmp_path


def test_a_csv_becomes_a_table(run: Run, folder: Path) -> None:
    dry = run("import", "trips.csv", "--dry-run", warehouse="wh")
    assert (dry.status, "would make trips: key id" in dry.out, Path("wh").exists()) == (0, True, False)
    done = run("import", "trips.csv", "--json", warehouse="wh").json
    assert (done["table"], done["rows"], done["snapshot"], done["created"]) == ("default.trips", 3, 1, True)
    assert (done["primary_key"], done["bucket"], done["unique"]) == (["id"], 1, "id")
    assert done["columns"] == {
        "id": "BIGINT",
        "zip": "STRING",
        "name": "STRING",
        "when": "TIMESTAMP(6)",
        "amount": "DOUBLE",
        "ok": "BOOLEAN",
        "day": "DATE",
        "note": "STRING",
    }
    rows = bucketlake.open("wh").table("trips").to_arrow().sort_by("id").to_pylist()
    assert [(row["zip"], row["name"], row["amount"], row["note"]) for row in rows] == [
        ("007", "Ann, B", 1.5, "NA"),
        ("008", None, None, None),
        ("123", "", 3.0, "x"),
    ]


def test_a_table_that_is_there(run: Run, folder: Path) -> None:
    run("import", "trips.csv", warehouse="wh")
    assert run("import", "trips.csv", warehouse="wh").status == 1
    assert run("import", "trips.csv", "trips", "--if-exists", "skip", warehouse="wh").status == 0
    Path("more.csv").write_text("name,id\nEve,9\n")
    more = run("import", "more.csv", "trips", "--if-exists", "append", "--json", warehouse="wh").json
    assert (more["rows"], more["created"], more["snapshot"]) == (1, False, 2)
    table = bucketlake.open("wh").table("trips")
    assert {row["id"]: row["name"] for row in table.to_arrow().to_pylist()} == {1: "Ann, B", 2: None, 3: "", 9: "Eve"}
    asked = run("import", "more.csv", "trips", "--if-exists", "replace", warehouse="wh")
    assert (asked.status, "--yes" in asked.err) == (1, True)
    assert run("import", "more.csv", "trips", "--if-exists", "replace", "-y", warehouse="wh").status == 0
    assert [row["id"] for row in table.to_arrow().to_pylist()] == [9]
    Path("odd.csv").write_text("id,quantity\n1,2\n")
    odd = run("import", "odd.csv", "trips", "--if-exists", "append", warehouse="wh")
    assert (odd.status, "ADD COLUMN `quantity` BIGINT" in odd.err) == (1, True)
    again = ("import", "more.csv", "trips", "--if-exists", "append")
    assert run(*again, "--key", "id", warehouse="wh").status == 0  # what a script says each time
    other = run(*again, "--key", "name", warehouse="wh")
    assert (other.status, "the table has id" in other.err) == (2, True)
    assert run(*again, "--bucket", "3", warehouse="wh").status == 2


def test_what_fails_leaves_nothing(run: Run, folder: Path) -> None:
    Path("bad.csv").write_text("a,b\n1,2\n3\n")
    bad = run("import", "bad.csv", "shop.bad", warehouse="wh")
    assert (bad.status, "bad.csv" in bad.err) == (1, True)
    Path("null.csv").write_text("id,b\n1,2\n,3\n")
    assert run("import", "null.csv", "shop.t", "--key", "id", warehouse="wh").status == 1
    for words in (["nope.csv"], ["trips.csv", "a.b.c"], ["trips.csv", "t", "--key", "nope"]):
        assert run("import", *words, warehouse="wh").status == 1, words
    assert run("import", "trips.csv", "--if-exists", "maybe", warehouse="wh").status == 2
    assert run("import", "-", warehouse="wh").status == 2
    Path("empty.csv").write_text("")
    assert run("import", "empty.csv", warehouse="wh").status == 1
    left = [path.as_posix() for path in Path("wh").rglob("*")] if Path("wh").exists() else []
    assert left == []


def test_what_a_first_try_meets(run: Run, folder: Path) -> None:
    """Options nobody knows, a first line that is a row, blank files, spreadsheets, names with spaces."""
    done = run("import", "trips.csv", "--option", "bukket=3", "--option", "owner=me", warehouse="wh")
    assert done.status == 0
    assert "'bukket' is not known and has no effect; did you mean 'bucket'?" in done.err
    assert "'owner' is not known: it is kept" in done.err
    assert bucketlake.open("wh").table("trips").schema.options["owner"] == "me"
    made = run("create", "made", "--columns", "id INT", "--option", "owner=me", warehouse="wh")
    assert (made.status, "'owner' is not known" in made.err) == (0, True)
    Path("bare.csv").write_text("1,Oslo\n2,Rome\n")
    assert "names: 1, Oslo; --no-header where it is a row" in run("import", "bare.csv", warehouse="wh").err
    assert run("import", "bare.csv", "named", "--no-header", warehouse="wh").err == ""
    Path("spaces.csv").write_text("First Name,2024\nAda,1\nBob,2\n")
    assert "--key 'First Name' makes it one" in run("import", "spaces.csv", warehouse="wh").out
    assert "bucketlake cat -w wh 'default.my table'\n" in run("import", "spaces.csv", "my table", warehouse="wh").out
    Path("blank.csv").write_bytes(b"\xef\xbb\xbf\n \n")
    assert "the file is empty" in run("import", "blank.csv", warehouse="wh").err
    Path("x.xlsx").write_bytes(b"PK")
    assert "use CSV" in run("import", "x.xlsx", warehouse="wh").err
    Path("twice.csv").write_text("a,a\n1,2\n")
    assert "--no-header" in run("import", "twice.csv", warehouse="wh").err


def test_a_folder_of_another_tables_files_is_no_input(run: Run, folder: Path) -> None:
    """Files of rows that were deleted there came with the others."""
    (folder / "delta" / "_delta_log").mkdir(parents=True)
    (folder / "delta" / "_delta_log" / "0.json").touch()
    (folder / "delta" / "a.csv").write_text("id\n1\n")
    refused = run("import", "delta", "t", warehouse="wh")
    assert (refused.status, "of a Delta Lake table" in refused.err, "write_table" in refused.err) == (1, True, True)
    assert run("import", "delta/a.csv", "t", warehouse="wh").status == 0


def test_a_name_that_is_taken_meanwhile(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pa.schema([("x", pa.int32())])
    real = loading.create_with_rows

    def late(catalog: bucketlake.Catalog, draft: bucketlake.Table, batches: object) -> object:
        catalog.create_table("trips", theirs)
        return real(catalog, draft, batches)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "create_with_rows", late)
    assert run("import", "trips.csv", warehouse="wh").status == 1
    table = bucketlake.open("wh").table("trips")
    assert (table.arrow_schema, table.latest_snapshot()) == (theirs, None)
    assert not list(Path("wh").rglob("*.parquet"))


def test_an_interrupted_import(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("bucketlake.creation.Commit.commit", stopped)
    result = run("import", "trips.csv", warehouse="wh")
    assert (result.status, "no rows were imported" in result.err) == (130, True)
    assert not bucketlake.open("wh").table_exists("trips")
    assert not [path for path in Path("wh").rglob("*") if path.is_file()]


def test_an_interrupt_after_the_commit(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("bucketlake.table.Table.compacted", stopped)
    result = run("import", "trips.csv", warehouse="wh")
    assert (result.status, "default.trips is at snapshot 1" in result.err) == (130, True)
    assert bucketlake.open("wh").table("trips").to_arrow().num_rows == 3


def test_uuids_are_text(run: Run, folder: Path) -> None:
    ids = [uuid.UUID(int=0), None, uuid.UUID(int=(1 << 128) - 1), uuid.uuid5(uuid.NAMESPACE_DNS, "a")]
    column = pa.array([value and value.bytes for value in ids], pa.uuid())
    each = pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), column)
    pq.write_table(pa.table({"v": column, "l": each}).slice(1), "u.parquet")
    done = run("import", "u.parquet", "--json", warehouse="wh")
    assert list(done.json["columns"].values()) == ["STRING", "ARRAY<STRING>"], done.err
    expected = [value and str(value) for value in ids[1:]]
    rows = bucketlake.open("wh").table("u").to_arrow()
    assert (rows["v"].to_pylist(), rows["l"].to_pylist()) == (expected, [[value] for value in expected])


def test_times_of_day_are_not_cut(run: Run, folder: Path) -> None:
    """Tables have milliseconds; what lay below was lost, of a column told as TIME(6) or TIME(9)."""
    whole, fine = dt.time(10, 0, 0, 5000), dt.time(10, 0, 0, 5001)
    kinds = [pa.time64("us"), pa.map_(pa.string(), pa.time64("us")), pa.struct([("x", pa.time64("us"))])]
    for name, kind in zip(("plain", "map", "struct"), kinds, strict=True):
        stored = {}
        for number, value in enumerate((whole, fine)):
            stored[number] = {"plain": value, "map": [("k", value)], "struct": {"x": value}}[name]
            pq.write_table(pa.table({"t": pa.array([stored[number]], kind)}), f"{number}.parquet")
        done = run("import", "0.parquet", name, "--json", warehouse="wh")
        assert "TIME(3)" in done.json["columns"]["t"], done.err
        assert bucketlake.open("wh").table(name).to_arrow()["t"].to_pylist() == [stored[0]]
        for table in (name, "fine"):
            refused = run("import", "1.parquet", table, "--if-exists", "append", warehouse="wh")
            assert (refused.status, "would lose data" in refused.err) == (1, True)
    again = run("import", "1.parquet", "text", "--type", "t=ROW<x STRING>", warehouse="wh")
    assert again.status == 0, again.err
    assert bucketlake.open("wh").table("text").to_arrow().to_pylist() == [{"t": {"x": "10:00:00.005001"}}]


def test_every_format(run: Run, folder: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "b": ["x", None], "u": pa.array([1, 2], pa.uint64())})
    pq.write_table(rows, "p.parquet")
    with pa.OSFile("a.arrow", "wb") as file, pa.ipc.new_file(file, rows.schema) as arrow:
        arrow.write_table(rows)
    with pa.OSFile("s.arrows", "wb") as file, pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows)
    Path("l.jsonl").write_text('{"id":1,"b":{"c":[1]}}\n{"id":2.5,"d":"x"}\n')
    Path("j.json").write_text('[{"id":1,"b":"x"},\n {"id":2,"b":"y"}]')
    Path("z.csv.gz").write_bytes(gzip.compress(b"a;b\n1;2\n"))
    Path("many").mkdir()
    for name in ("1.csv", "2.csv"):
        Path("many", name).write_text(f"k,v\n{name[0]},x\n")
    types = {}
    for name in ("p.parquet", "a.arrow", "s.arrows", "l.jsonl", "j.json", "z.csv.gz", "many"):
        done = run("import", name, "--json", warehouse="wh")
        assert done.status == 0, done.err
        types[name] = (done.json["rows"], list(done.json["columns"].values()), done.json["primary_key"])
    assert types == {
        **dict.fromkeys(("p.parquet", "a.arrow", "s.arrows"), (2, ["INT", "STRING", "DECIMAL(20, 0)"], ["id"])),
        "l.jsonl": (2, ["DOUBLE", "ROW<`c` ARRAY<BIGINT>>", "STRING"], []),
        "j.json": (2, ["BIGINT", "STRING"], ["id"]),
        "z.csv.gz": (1, ["BIGINT", "BIGINT"], []),
        "many": (2, ["BIGINT", "STRING"], []),
    }
    piped = run("import", "-", "t", "--format", "csv", "--json", warehouse="wh", stdin="a,b\n1,x\n")
    assert (piped.status, piped.json["rows"]) == (0, 1)
    latin = run("import", "-", "u", "--format", "csv", warehouse="wh", stdin="a\nå\n".encode("latin-1"))
    assert (latin.status, "--encoding" in latin.err) == (1, True)


def test_numbers_and_dates_as_others_write_them(run: Run, folder: Path) -> None:
    Path("orte.csv").write_text(
        "Nr;Betrag;Tag;Uhr;Ort\n1;1.234,56;31.12.2026;1.1.2026 14:05;1,5 km\n2;-7,00;1.2.2026;;\n"
    )
    plain = run("import", "orte.csv", "--json", warehouse="wh")
    assert list(plain.json["columns"].values()) == ["BIGINT", "STRING", "STRING", "STRING", "STRING"]
    assert "Betrag is text, and looks like numbers with a decimal comma: --decimal ," in plain.err
    assert "Tag is text, and looks like dates: --date-format %d.%m.%Y" in plain.err and "Ort is" not in plain.err
    formats = ["--date-format", "%d.%m.%Y", "--date-format", "%d.%m.%Y %H:%M"]
    more = [*formats, "--decimal", ",", "--type", "Betrag=DECIMAL(9,2)", "--if-exists", "append"]
    done = run("import", "orte.csv", "orte2", *more, "--json", warehouse="wh")
    assert (done.status, done.err) == (0, "")
    assert list(done.json["columns"].values()) == ["BIGINT", "DECIMAL(9, 2)", "DATE", "TIMESTAMP(6)", "STRING"]
    run("import", "orte.csv", "orte2", *formats, "--decimal", ",", "--if-exists", "append", warehouse="wh")
    row = {"Nr": 1, "Betrag": Decimal("1234.56"), "Tag": dt.date(2026, 12, 31), "Ort": "1,5 km"}
    found = bucketlake.open("wh").table("orte2").to_arrow(where="Nr = 1").to_pylist()
    assert found == [row | {"Uhr": dt.datetime(2026, 1, 1, 14, 5)}] * 2
    said = run("import", "orte.csv", "x", "--type", "Betrag=DECIMAL(9,2)", warehouse="wh")
    assert (said.status, "--decimal ," in said.err) == (1, True)
    assert "--date-format" in run("import", "orte.csv", "x", "--type", "Tag=DATE", warehouse="wh").err
    for wrong in (("--decimal", ";"), ("--date-format", "dmy"), ("--date-format", "%d %z"), ("--encoding", "klingon")):
        assert run("import", "orte.csv", "x", *wrong, warehouse="wh").status == 2


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1.234", "12"], pa.int64()),
        (["1.234.567,5", "-0,5", "3"], pa.float64()),
        (["1.5", "2,5"], pa.string()),  # a point groups by three or means nothing
        (["1,234.5"], pa.string()),
        (["31.02.2026"], pa.string()),
        (["01.02.26"], pa.string()),
        (["29.02.2024", " 1.3.2024", "", "2024-03-01", None], pa.date32()),
        (["01.03.2024", "soon"], pa.string()),
    ],
)
def test_types_of_text_with_commas_and_days_first(texts: list[str | None], kind: pa.DataType) -> None:
    plain = infer.plain_texts(",", ["%d.%m.%Y"])
    guess = infer.Guess(plain)
    guess.see(pa.array(texts, pa.string()))
    assert guess.type == kind
    assert infer.converted(pa.array(texts, pa.string()), guess.type, plain).type == kind


def test_rows_that_became_one_are_told(run: Run, folder: Path) -> None:
    Path("twice.csv").write_text("id,v\n1,a\n1,b\n2,c\n")
    done = run("import", "twice.csv", "--key", "id", "--json", warehouse="wh")
    assert done.json["rows"] == 3 and "same id became one: 3 rows, 2 records (deduplicate)" in done.err
    Path("case.csv").write_text("k,a,A\n1,2,3\n")
    assert "a, A: names that SQL does not tell apart" in run("import", "case.csv", warehouse="wh").err
    Path("wide.csv").write_bytes("a,b\n1,ü\n".encode("utf-16"))
    assert "--encoding utf-16" in run("import", "wide.csv", warehouse="wh").err
    assert run("import", "wide.csv", "--encoding", "utf-16", "--json", warehouse="wh").json["rows"] == 1


def test_rows_that_are_added_and_became_one_are_told(run: Run, folder: Path) -> None:
    Path("lines.csv").write_text("order_id,v\n1,a\n2,b\n")
    first = run("import", "lines.csv", "lines", warehouse="wh")
    assert "key order_id, whose values all differ (--key none: no key)" in first.out
    Path("more.csv").write_text("order_id,v\n3,a\n3,b\n")
    more = run("import", "more.csv", "lines", "--if-exists", "append", warehouse="wh")
    assert "same order_id became one: 2 rows, 1 record (deduplicate)" in more.err
    again = run("import", "lines.csv", "lines", "--if-exists", "append", warehouse="wh")
    assert again.err == "" and "rows of one order_id are one (deduplicate)" in again.out
    assert bucketlake.open("wh").table("lines").to_arrow().num_rows == 3


def test_a_file_is_no_name_of_a_table(run: Run, folder: Path) -> None:
    """Its rows were left out, and a database came of its name."""
    Path("corrections.csv").write_text("id,zip\n9,1\n")
    for last in ("corrections.csv", str(folder / "corrections.csv"), "-"):
        refused = run("import", "trips.csv", last, "--key", "id", warehouse="wh")
        assert (refused.status, "which table?" in refused.err) == (2, True), refused.err
    typo = run("import", "trips.csv", "corections.csv", "--key", "id", warehouse="wh")
    assert (typo.status, "neither a file" in typo.err, Path("wh").exists()) == (2, True, False)
    Path("trips").mkdir()
    assert (
        run("import", "trips.csv", "corrections.csv", "trips", "--key", "id", "--json", warehouse="wh").json["rows"]
        == 4
    )
    assert run("create", "events.json", "--columns", "id BIGINT, zip STRING", warehouse="wh").status == 0
    assert run("import", "corrections.csv", "events.json", "--if-exists", "append", warehouse="wh").status == 0


def test_what_is_said_goes_before_what_is_found(run: Run, folder: Path) -> None:
    words = ["-k", "zip,day", "-p", "day", "--bucket", "2", "--type", "zip=INT", "--option", "file.format=avro"]
    Path("t.csv").write_text("zip,day\n1,2024-01-01\n2,2024-01-02\n")
    done = run("import", "t.csv", *words, "--comment", "c", "--json", warehouse="wh").json
    assert (done["primary_key"], done["partition_by"], done["bucket"]) == (["zip", "day"], ["day"], 2)
    schema = bucketlake.open("wh").table("t").schema
    assert (schema.options["file.format"], schema.comment) == ("avro", "c")
    assert run("import", "trips.csv", "--key", "none", "--json", warehouse="wh").json["primary_key"] == []


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2", "0"], pa.int64()),
        (["1", "2.5", ".5", "1e3"], pa.float64()),
        (["9007199254740992", "1.5"], pa.float64()),
        (["9007199254740993", "1.5"], pa.string()),
        (["1e400", "1.5"], pa.string()),
        (["007", "1"], pa.string()),
        (["+1"], pa.string()),
        (["-0"], pa.string()),
        (["9223372036854775807"], pa.int64()),
        (["9223372036854775808"], pa.string()),
        (["12345678901234567890"], pa.string()),
        (["true", "FALSE", ""], pa.bool_()),
        (["yes"], pa.string()),
        (["2024-02-29", "NA"], pa.date32()),
        (["2024-02-30"], pa.string()),
        (["2024-01-01", "2024-01-01 10:00:00.123456"], pa.timestamp("us")),
        (["2024-01-01T10:00:00Z", "2024-01-01T10:00:00+02:00"], pa.timestamp("us", "UTC")),
        (["", "NULL"], pa.string()),
        ([None], pa.string()),
        (["1", "x"], pa.string()),
        (["nan", "1.5"], pa.float64()),
    ],
)
def test_types_of_text(texts: list[str | None], kind: pa.DataType) -> None:
    guess = infer.Guess()
    for text in texts:  # batch by batch is as all at once
        guess.see(pa.array([text], pa.string()))
    assert guess.type == kind
    whole = infer.Guess()
    whole.see(pa.array(texts, pa.string()))
    assert whole.type == kind
    assert len(infer.converted(pa.array(texts, pa.string()), kind)) == len(texts)


def test_unique_is_proved() -> None:
    def proved(*batches: list[object]) -> bool:
        one = infer.Unique()
        for batch in batches:
            one.see(pa.array(batch))
        return one.proved()

    assert proved([1, 2], [3])
    assert not proved([1, 2], [2])
    assert not proved([1, 1])
    assert not proved([1, None])
    assert not proved()
    assert proved(["a"], ["b"])
    many = infer.Unique()
    many.MOST = 2
    many.see(pa.array([1, 2, 3]))
    assert not many.proved()


def test_only_columns_named_like_keys_become_keys(run: Run, folder: Path) -> None:
    def key(text: str, table: str = "orders") -> list[str]:
        Path("f.csv").write_text(text)
        return run("import", "f.csv", table, "--dry-run", "--json", warehouse="wh").json["primary_key"]

    assert key("city,population\nA,1\nB,2\n") == []
    assert key("city,order_id\nA,1\nB,2\n") == ["order_id"]
    assert key("city,order_id\nA,1\nB,1\n") == []
    assert key("user_id,x\nA,1\nB,1\n") == ["user_id"]
    assert key("x,user_id\n1,A\n2,B\n") == []
    assert key("id,x\nNA,1\n2,1\n") == []
    assert key("id,x\n1.5,1\n2,1\n") == []
    hint = run("import", "f.csv", "o", "--dry-run", warehouse="wh")
    assert hint.status == 0


def test_round_trip_of_every_format(run: Run, folder: Path) -> None:
    run("import", "trips.csv", "--type", "when=TIMESTAMP(6)", warehouse="wh")
    before = bucketlake.open("wh").table("trips").to_arrow().sort_by("id").to_pylist()
    for name in ("x.csv", "x.csv.gz", "x.jsonl", "x.parquet", "x.arrow"):
        assert run("export", "trips", name, warehouse="wh").status == 0
        again = name.replace(".", "_")
        types = ["--type", "day=DATE"] if "json" in name else []
        assert run("import", name, again, *types, warehouse="wh").status == 0
        after = bucketlake.open("wh").table(again).to_arrow().sort_by("id").to_pylist()
        if "json" not in name:
            assert after == before, name
        assert json.loads(json.dumps(len(after))) == 3
