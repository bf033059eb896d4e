"""Schemas of very many columns, keys and options, as a forged file may have them: work grows with their number, no more."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.profile import first, later

import bucketlake
from bucketlake import InvalidError, Table
from bucketlake.schema.change import SetOption

COLUMNS = 20_000
CPU = 30  # seconds of a process that looks at such a schema several times; comparing each name with each takes minutes
PROGRAM = """
import sys
import bucketlake
from bucketlake.schema.change import AddColumn
from bucketlake.types.model import INT

catalog = bucketlake.open(sys.argv[1])
assert catalog.table("db.t").to_arrow(columns=["c0"]).num_rows == 0
catalog.table("db.t").alter(AddColumn("another", INT))
assert "another" in catalog.table("db.t").schema.field_names
"""
NAMES = [f"c{number}" for number in range(COLUMNS)]
TABLES = {
    "keys": {"primaryKeys": NAMES[: COLUMNS // 2], "options": {"bucket": "1"}},
    "partitions": {"primaryKeys": NAMES, "partitionKeys": NAMES[: COLUMNS // 2], "options": {"bucket": "1"}},
    "bucket-key": {"primaryKeys": NAMES, "options": {"bucket": "1", "bucket-key": ",".join(NAMES)}},
    "sequence.field": {"options": {"bucket": "1", "sequence.field": ",".join(NAMES[1:])}},
    "groups": {
        "options": {
            **{"bucket": "1", "merge-engine": "partial-update"},
            **{f"fields.{NAMES[at]}.sequence-group": NAMES[at + 1] for at in range(1, COLUMNS - 1, 2)},
        }
    },
    "one group": {
        "options": {
            **{"bucket": "1", "merge-engine": "partial-update"},
            f"fields.{','.join(NAMES[2:])}.sequence-group": "c1",
        }
    },
    "functions": {
        "options": {
            **{"bucket": "1", "merge-engine": "aggregation"},
            **{f"fields.{name}.aggregate-function": "last_value" for name in NAMES[1:]},
        }
    },
    "members": {
        "fields": [
            {"id": 0, "name": "c0", "type": "INT NOT NULL"},
            {
                "id": 1,
                "name": "r",
                "type": {
                    "type": "ROW",
                    "fields": [{"id": at + 2, "name": name, "type": "INT"} for at, name in enumerate(NAMES)],
                },
            },
        ]
    },
}


def forged(folder: Path, **parts: object) -> Table:
    """A table with a schema that is written as a file."""
    schema: dict[str, object] = {
        "version": 3,
        "id": 0,
        "fields": [{"id": at, "name": name, "type": "INT NOT NULL"} for at, name in enumerate(NAMES)],
        "highestFieldId": COLUMNS + 2,
        **{"partitionKeys": [], "primaryKeys": ["c0"], "options": {"bucket": "1"}, "timeMillis": 1},
        **parts,
    }
    catalog = bucketlake.open(folder)
    catalog.create_database("db")
    path = folder / "db.db" / "t" / "schema"
    path.mkdir(parents=True)
    (path / "schema-0").write_text(json.dumps(schema))
    return catalog.table("db.t")


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))


@pytest.mark.parametrize("what", later(first(list(TABLES), 4), 2))
def test_work_grows_with_the_number_of_columns(what: str, tmp_path: Path) -> None:
    forged(tmp_path, **TABLES[what])
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    found = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert found.returncode == 0, (found.returncode, found.stderr[-2000:])


def test_partition_folders_deeper_than_a_file_system_takes(tmp_path: Path) -> None:
    keys = [f"p{number}" for number in range(3000)]
    fields = [{"id": at, "name": name, "type": "INT"} for at, name in enumerate([*keys, "v"])]
    table = forged(tmp_path, fields=fields, partitionKeys=keys, primaryKeys=[], options={})
    with pytest.raises(InvalidError, match="longer than the file system takes"):
        table.write_arrow(pa.table({name: pa.array([1], pa.int32()) for name in [*keys, "v"]}))


def test_more_filters_than_an_index_holds(tmp_path: Path) -> None:
    """Each of them takes half a megabyte or more, whatever is in it."""
    names = [f"v{number}" for number in range(3000)]
    fields = [{"id": at, "name": name, "type": "INT"} for at, name in enumerate(names)]
    options = {"file-index.bloom-filter.columns": ",".join(names)}
    table = forged(tmp_path, fields=fields, primaryKeys=[], options=options)
    with pytest.raises(InvalidError, match="file indexes of a data file are too large"):
        table.write_arrow(pa.table({name: pa.array([1], pa.int32()) for name in names}))
    assert table.latest_snapshot() is None


def test_an_error_about_a_long_option_is_short(tmp_path: Path) -> None:
    table = forged(tmp_path, options={"bucket": "1", "sequence.field": "x" * 1_000_000})
    with pytest.raises(InvalidError, match="Sequence field") as found:
        table.alter(SetOption("target-file-size", "1 mb"))
    assert len(str(found.value)) < 200_000


KEYS = """
import sys
import pyarrow as pa
import bucketlake

catalog = bucketlake.open(sys.argv[1])
catalog.create_database("db")
columns = pa.schema([("k", pa.string()), ("v", pa.int32())])
table = catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": "2"})
keys = ["x" * (1_000_000 + 8 * at) + str(at) for at in range(20)]
for version in range(2):
    table.write_arrow(pa.table({"k": keys, "v": pa.array([version] * len(keys), pa.int32())}))
assert table.to_arrow(columns=["v"]).column("v").to_pylist() == [1] * len(keys)
table.delete(f"k = '{keys[5]}'")
table.compact()
assert set(table.to_arrow().column("k").to_pylist()) == {*keys} - {keys[5]}
"""
FILES = """
import datetime
import sys
import pyarrow as pa
import bucketlake

catalog = bucketlake.open(sys.argv[1])
catalog.create_database("db")
texts, times = [f"c{at}" for at in range(6000)], [f"t{at}" for at in range(1000)]
columns = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in texts), *((name, pa.timestamp("us")) for name in times)])
table = catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": "1"})
now = datetime.datetime(2026, 1, 1)
row = {**dict.fromkeys(texts, "a"), **dict.fromkeys(times, now)}
table.write_arrow(pa.Table.from_pylist([{"id": 1, **row}, {"id": 2, **row}], schema=columns))
table.write_arrow(pa.Table.from_pylist([{"id": 2, **row}, {"id": 3, **row}], schema=columns))
table.compact()
assert table.to_arrow(where=f"t7 = TIMESTAMP '{now}'").num_rows == 3
"""


@pytest.mark.parametrize("program", [KEYS, FILES], ids=["keys of a megabyte", "files of 7000 columns"])
def test_work_grows_with_what_is_written(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", program, str(tmp_path)]
    found = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert found.returncode == 0, (found.returncode, found.stderr[-2000:])
