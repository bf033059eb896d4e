"""Bucketlake reads, and goes on writing, what Flink, pypaimon and paimon-rust wrote. The corpus covers more of Flink."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.cases import Case, to_arrow
from tests.interop.catalogue import CODECS, KV, PARTITIONS, kv
from tests.interop.engines import DATABASE, keys_by_bucket, listed_here, listing, result_rows
from tests.interop.typed_values import KEYS, plain_columns, plain_rows
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PaimonRust, PyPaimon
from tests.peers.rpc import PeerError

import bucketlake
from bucketlake import Catalog, Table
from bucketlake.types.model import Root

pytestmark = pytest.mark.peer


def _nothing(maker: object) -> None:
    """A case whose rows another engine writes."""


def _cases() -> dict[str, tuple[Case, Sequence[tuple[Any, ...]]]]:
    found: list[tuple[Case, Sequence[tuple[Any, ...]]]] = []
    for form in CODECS:
        options = {"bucket": "-1", "file.format": form}
        found.append((Case(f"types_{form}", "", plain_columns(form), _nothing, options=options), plain_rows(form)))
        options = {"bucket": "2", "file.format": form}
        found.append((Case(f"pk_{form}", "", KV, _nothing, keys=["k"], options=options), kv(0, 30, form)))
    for label, (kind, values) in KEYS.items():
        columns = {"v": "INT", "k": kind}
        case = Case(f"key_{label}", "", columns, _nothing, keys=["k"], options={"bucket": "3"})
        found.append((case, list(enumerate(values()))))
    for label, (kind, values, options) in PARTITIONS.items():
        columns = {"k": "INT", "p": kind}
        case = Case(f"pt_{label}", "", columns, _nothing, partitions=["p"], options={"bucket": "-1", **options})
        found.append((case, list(enumerate(values))))
    options = {"bucket": "4", "bucket-key": "v"}
    found.append((Case("bucketed", "", KV, _nothing, options=options), kv(0, 30, "a")))
    return {case.name: (case, rows) for case, rows in found}


CASES = _cases()
# What a peer cannot write, or writes so that Paimon on Flink reads other rows or other folders than it was given.
PYPAIMON_FAILS = {
    "types_avro": "no MAPs in avro",
    "key_double": "takes -0.0 and 0.0 for one key",
}
RUST_FAILS = {
    "types_orc": "writes no zstd in orc",
    "pk_orc": "writes no zstd in orc",
    "pt_float": "no FLOAT partitions",
    "pt_double": "no DOUBLE partitions",
    "pt_time_plain": "names the folder of a TIME otherwise than Paimon",
}
# What a peer puts into other buckets than Paimon does.
PYPAIMON_BUCKETS = {
    "key_timestamp_9": "hashes microseconds",
    "key_ltz_9": "hashes microseconds",
}
RUST_BUCKETS: dict[str, str] = {}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """One database for each engine that writes."""
    catalog = bucketlake.open(tmp_path_factory.mktemp("interop"))
    for database in (DATABASE, "pypaimon", "rust", "flink"):
        catalog.create_database(database)
    for case, rows in CASES.values():
        table = case.create(catalog, DATABASE)
        table.write_arrow(to_arrow(table, rows))
    return catalog


def _rows(table: Table) -> list[str]:
    return canonical(arrow_rows(table.to_arrow(), table.schema.fields))


def _written(catalog: Catalog, peer: PyPaimon | PaimonRust, database: str, name: str) -> Table:
    case, rows = CASES[name]
    table = case.create(catalog, database)
    peer.use(catalog.warehouse).write(database, name, _fitted(peer, table, to_arrow(table, rows)))
    return table.refresh()


def _fitted(peer: PyPaimon | PaimonRust, table: Table, rows: pa.Table) -> pa.Table:
    """The rows; paimon-rust wants TIMESTAMP(0) in seconds."""
    for at, field in enumerate(table.schema.fields):
        if isinstance(peer, PaimonRust) and field.type.root is Root.TIMESTAMP and field.type.precision == 0:
            rows = rows.set_column(at, field.name, rows.column(at).cast(pa.timestamp("s")))
    return rows


def _check_written(
    catalog: Catalog, peer: PyPaimon | PaimonRust, database: str, name: str, known: str | None, buckets: str | None
) -> None:
    """What the peer wrote reads as its rows and lies where ours lies; a known failure must still be one."""
    ours = catalog.table(f"{DATABASE}.{name}")
    try:
        table = _written(catalog, peer, database, name)
        right = _rows(table) == _rows(ours)
    except (PeerError, bucketlake.BucketlakeError):
        if known is None:
            raise
        return
    assert right is (known is None), known or "unequal rows"
    if right and not name.endswith(("_orc", "_avro")) and not name.startswith("types"):
        alike = keys_by_bucket(table, ["k"]) == keys_by_bucket(ours, ["k"])
        assert alike is (buckets is None), buckets or "other folders"
    if right and buckets is None:
        _goes_on(table)


def _goes_on(table: Table) -> None:
    """Bucketlake writes the table's rows once more: upserts change nothing, appends double the rows."""
    before = table.to_arrow()
    table.write_arrow(before)
    expected = _canonical_times(table, before, 1 if table.schema.primary_keys else 2)
    assert _rows(table.refresh()) == expected


def _canonical_times(table: Table, rows: pa.Table, times: int) -> list[str]:
    return canonical(arrow_rows(rows, table.schema.fields) * times)


@pytest.mark.parametrize("name", CASES)
def test_what_pypaimon_wrote(pypaimon: PyPaimon, catalog: Catalog, name: str) -> None:
    _check_written(catalog, pypaimon, "pypaimon", name, PYPAIMON_FAILS.get(name), PYPAIMON_BUCKETS.get(name))


@pytest.mark.parametrize("name", CASES)
def test_what_rust_wrote(paimon_rust: PaimonRust, catalog: Catalog, name: str) -> None:
    _check_written(catalog, paimon_rust, "rust", name, RUST_FAILS.get(name), RUST_BUCKETS.get(name))


def test_what_flink_created_and_wrote(flink: FlinkPaimon, catalog: Catalog) -> None:
    """Schema, options, keys, comments and defaults of a table that Flink's DDL made."""
    flink.use(catalog.warehouse).run(
        [
            "CREATE TABLE flink.made (a STRING COMMENT 'first', b DECIMAL(10, 2) NOT NULL, c ROW<x INT, y ARRAY<STRING>>,"
            " d TIMESTAMP_LTZ(3), p DATE, PRIMARY KEY (p, a) NOT ENFORCED) COMMENT 'all of it' PARTITIONED BY (p)"
            " WITH ('bucket' = '2', 'file.format' = 'avro', 'write-only' = 'true')",
            "INSERT INTO flink.made VALUES ('k', 1.5, ROW(1, ARRAY['u']), TO_TIMESTAMP_LTZ(7, 3), DATE '2024-01-01'),"
            " ('l', 2, CAST(NULL AS ROW<x INT, y ARRAY<STRING>>), TO_TIMESTAMP_LTZ(-7, 3), DATE '1969-12-31')",
        ]
    )
    table = catalog.table("flink.made")
    assert table.schema.primary_keys == ("p", "a")
    assert table.schema.partition_keys == ("p",)
    assert table.schema.comment == "all of it"
    assert table.schema.field("a").description == "first"
    assert not table.schema.field("b").type.nullable
    assert table.schema.options["bucket"] == "2"
    table.write_arrow(table.to_arrow(where="a = 'k'"))
    result = flink.sql("SELECT * FROM flink.made")
    assert _rows(table) == result_rows(result)
    assert listing(flink, ["flink.made"])["flink.made"] == listed_here(table)


def test_the_same_ddl_makes_the_same_schema_file(flink: FlinkPaimon, catalog: Catalog) -> None:
    # Flink makes TIME of every TIME(n).
    columns = {name: kind for name, kind in plain_columns("parquet").items() if not kind.startswith("TIME(")}
    listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    flink.use(catalog.warehouse).sql(
        f"CREATE TABLE flink.alike ({listed}, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"
    )
    case = Case("alike", "", columns, _nothing, keys=["id"], options={"bucket": "1"})
    ours, theirs = case.create(catalog, DATABASE), catalog.table("flink.alike")
    assert ours.schema.fields == theirs.schema.fields
    assert ours.schema.highest_field_id == theirs.schema.highest_field_id
    ours_file, theirs_file = (table.store.env.storage.read(table.store.paths.schema(0)) for table in (ours, theirs))
    assert _comparable(ours_file) == _comparable(theirs_file)


def _comparable(schema: bytes) -> list[tuple[str, Any]]:
    """The members of a schema file in their order, without its time; Flink comments every table, if by nothing."""
    return [(key, value) for key, value in json.loads(schema).items() if (key, value) != ("comment", "")][:-1]


def test_flink_reads_what_the_python_peers_and_we_wrote_together(
    flink: FlinkPaimon, pypaimon: PyPaimon, paimon_rust: PaimonRust, catalog: Catalog
) -> None:
    catalog.create_database("shared")
    table = Case("t", "", KV, _nothing, keys=["k"], options={"bucket": "2"}).create(catalog, "shared")
    model: dict[int, str] = {}
    for turn in range(2):
        for at, (label, write) in enumerate(
            (
                ("ours", lambda rows: table.refresh().write_arrow(rows)),
                ("pypaimon", lambda rows: pypaimon.use(catalog.warehouse).write("shared", "t", rows)),
                ("rust", lambda rows: paimon_rust.use(catalog.warehouse).write("shared", "t", rows)),
                ("flink", lambda rows: _by_flink(flink, catalog, rows)),
            )
        ):
            rows = kv(at * 5 + turn, at * 5 + turn + 9, f"{label} {turn} ")
            write(to_arrow(table, rows))
            model.update(rows)
    assert _rows(table.refresh()) == canonical(model.items())
    assert result_rows(flink.sql("SELECT * FROM shared.t")) == canonical(model.items())


def _by_flink(flink: FlinkPaimon, catalog: Catalog, rows: pa.Table) -> None:
    values = ", ".join(f"({row['k']}, '{row['v']}')" for row in rows.to_pylist())
    flink.use(catalog.warehouse).sql(f"INSERT INTO shared.t VALUES {values}")
