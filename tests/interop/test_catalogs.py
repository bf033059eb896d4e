"""Apache Paimon on catalogs that are no file system: it and Bucketlake make, write and read each other's tables."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from tests.catalogs import servers
from tests.catalogs.rest_server import TOKEN, serving
from tests.peers import install
from tests.peers.flink import FlinkPaimon
from tests.peers.rpc import PeerMissing

import bucketlake
from bucketlake.catalog import Catalog

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
PYTHON = """
import sys, pyarrow as pa
from pypaimon import CatalogFactory, Schema
catalog = CatalogFactory.create(dict(pair.split("=", 1) for pair in sys.argv[1:]))
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
catalog.create_table("db.theirs", Schema.from_pyarrow_schema(schema, primary_keys=["id"], options={"bucket": "1"}), False)
for name in ("db.ours", "db.theirs"):
    builder = catalog.get_table(name).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.table({"id": pa.array([7], pa.int64()), "v": ["theirs"]}, schema=schema))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
builder = catalog.get_table("db.ours").new_read_builder()
found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
print(sorted(found.column("id").to_pylist()))
"""


def _ours(catalog: Catalog) -> None:
    catalog.create_database("db", ignore_if_exists=True)
    made = catalog.create_table("db.ours", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    made.write_arrow(pa.table({"id": [1, 2], "v": ["a", "b"]}, SCHEMA))


def _in_turns(flink: FlinkPaimon, catalog: Catalog, options: dict[str, str]) -> None:
    """Each makes a table, writes to both, and reads both."""
    _ours(catalog)
    told = ", ".join(
        f"'{key}' = '{value}'" for key, value in {"type": "paimon", "cache-enabled": "false", **options}.items()
    )
    name = f"c_{options['metastore']}"
    try:
        flink.run(
            [
                f"CREATE CATALOG {name} WITH ({told})",
                f"CREATE TABLE {name}.db.theirs (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')",
                f"INSERT INTO {name}.db.theirs VALUES (1, 'x'), (2, 'y')",
                f"INSERT INTO {name}.db.ours VALUES (2, 'B'), (3, 'c')",
            ]
        )
        assert catalog.list_tables("db") == ["ours", "theirs"]
        catalog.table("db.theirs").write_arrow(pa.table({"id": [2, 9], "v": ["Y", "z"]}, SCHEMA))
        catalog.alter_table("db.theirs", bucketlake.schema.SetOption("snapshot.num-retained.max", "99"))
        for table, expected in {
            "ours": [(1, "a"), (2, "B"), (3, "c")],
            "theirs": [(1, "x"), (2, "Y"), (9, "z")],
        }.items():
            rows = catalog.table(f"db.{table}").to_arrow().sort_by("id").to_pylist()
            assert [tuple(row.values()) for row in rows] == expected
            assert sorted(flink.sql(f"SELECT * FROM {name}.db.{table}").rows) == expected
        flink.sql(f"INSERT INTO {name}.db.theirs VALUES (10, 'q')")
        assert catalog.table("db.theirs").to_arrow().num_rows == 4
    finally:
        flink.run(["USE CATALOG default_catalog", f"DROP CATALOG IF EXISTS {name}"])


def test_flink_on_a_rest_catalog(flink: FlinkPaimon, tmp_path: Path) -> None:
    with serving(tmp_path / "files") as server:
        server.strict = False
        options = {"metastore": "rest", "uri": server.uri, "token.provider": "bear", "token": TOKEN}
        catalog = bucketlake.open("warehouse", options)
        _in_turns(flink, catalog, {**options, "warehouse": "warehouse"})
        server.wrong.clear()  # what Paimon's own client sends beyond the document


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_pypaimon(kind: str, tmp_path: Path) -> None:
    try:
        python = install.python_of(install.ensure("pypaimon"))
    except PeerMissing as error:
        pytest.skip(f"PEER MISSING: {error}")
    with serving(tmp_path / "files") as server:
        if kind == "jdbc":
            options, warehouse = servers.sqlite(tmp_path), f"{tmp_path}/wh"
        else:
            server.strict = False
            options = {"metastore": "rest", "uri": server.uri, "token.provider": "bear", "token": TOKEN}
            warehouse = "warehouse"
        catalog = bucketlake.open(warehouse, options)
        _ours(catalog)
        told = [f"{key}={value}" for key, value in {**options, "warehouse": warehouse}.items()]
        done = subprocess.run([str(python), "-c", PYTHON, *told], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.split("\n")[-2] == "[1, 2, 7]"
        assert catalog.table("db.theirs").to_arrow().to_pylist() == [{"id": 7, "v": "theirs"}]
        assert catalog.table("db.ours").to_arrow().num_rows == 3
        server.wrong.clear()
