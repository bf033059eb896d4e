"""Options that few tables have, between Bucketlake and Apache Paimon on Flink: each writes, deletes and compacts what the
other wrote, both read the same rows, and fsck finds nothing."""

from __future__ import annotations

import warnings
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake import Table
from bucketlake.ops.table.store import clear_cache

pytestmark = [pytest.mark.peer, pytest.mark.slow]

DV = {"deletion-vectors.enabled": "true"}
LOOKUP = {"changelog-producer": "lookup"}
AVRO = {"file.format": "avro"}
KEPT = "snapshot.num-retained"
CLUSTERED = {"pk-clustering-override": "true", "clustering.columns": "s"}
AGGREGATES = {"fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "listagg"}
KEYED: tuple[dict[str, str], ...] = (
    *({"manifest.compression": codec} for codec in ("null", "snappy", "deflate", "bzip2", "xz")),
    *({"file.compression": codec} for codec in ("snappy", "gzip", "none")),
    *({**AVRO, "file.compression": codec} for codec in ("snappy", "deflate", "bzip2", "xz")),
    {"file.format": "orc", "file.compression": "lz4"},
    {"parquet.writer.version": "PARQUET_2_0"},
    {"parquet.writer.version": "v2", "parquet.enable.dictionary": "false"},
    {"file.format.per.level": "0:avro,5:orc"},
    {"file.compression.per.level": "0:none,5:gzip"},
    {"manifest.delete-file-drop-stats": "true"},
    {"manifest.sort.enabled": "true", "manifest.target-file-size": "1 kb", "manifest.merge-min-count": "2"},
    {"metadata.stats-keep-first-n-columns": "1"},
    {"metadata.stats-mode.per.level": "0:none"},
    {"metadata.stats-mode": "truncate(2)"},
    {"sequence.field": "v", "sequence.field.sort-order": "descending"},
    {"sequence.field": "v", "fields.v.ignore-retract": "true"},
    {"sink.key-only-deletes.enabled": "true"},
    {"local-merge-buffer-size": "1 mb"},
    {"write-buffer-size": "64 kb", "page-size": "16 kb", "write-buffer-spillable": "true"},
    {"force-lookup": "true"},
    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
    {**LOOKUP, "lookup-wait": "false"},
    {**LOOKUP, "changelog-producer.row-deduplicate": "true"},
    {**LOOKUP, "changelog.num-retained.max": "10", f"{KEPT}.max": "2", f"{KEPT}.min": "1"},
    {f"{KEPT}.min": "1", f"{KEPT}.max": "1", "snapshot.expire.clean-empty-directories": "true"},
    {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"},
    {"merge-engine": "aggregation", **AGGREGATES, "fields.s.list-agg-delimiter": ";"},
    {"merge-engine": "partial-update", "ignore-delete": "true"},
    {"rowkind.field": "s"},
    {"file-index.bsi.columns": "v"},
    {"file-index.range-bitmap.columns": "v,s"},
    {"bucket-function.type": "mod", "bucket-key": "k"},
    {"bucket-function.type": "hive", "bucket-key": "k"},
    {**DV, "deletion-vectors.merge-on-read": "true"},
    {**DV, "compaction.force-up-level-0": "true"},
    {"bucket": "-1", "dynamic-bucket.initial-buckets": "2", "dynamic-bucket.max-buckets": "2"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
    {"snapshot.ignore-empty-commit": "false"},
    {"data-file.thin-mode": "true", "file.format": "orc"},
    {"tag.automatic-creation": "process-time", "tag.creation-period": "daily"},
    {"num-levels": "3", "compaction.size-ratio": "50"},
    {"compaction.file-num-limit": "3", "compaction.total-size-threshold": "1 mb"},
    {"commit.force-compact": "true"},
    {**DV, **CLUSTERED},
    {**DV, **CLUSTERED, "clustering.columns": "v", "data-file.thin-mode": "true", "changelog-producer": "input"},
    {**DV, **CLUSTERED, "clustering.columns": "ts,d", "deletion-vectors.bitmap64": "true", "target-file-size": "1 kb"},
    {**DV, **CLUSTERED, "bucket": "-1", "file.format": "orc"},
    {**CLUSTERED, "merge-engine": "first-row"},
    {**DV, "pk-btree.index.columns": "v,s", "pk-bitmap.index.columns": "d"},
    {**DV, "pk-bitmap.index.columns": "s", "pk-btree.index.columns": "ts", "index-file-in-data-file-dir": "true"},
    {**DV, "pk-btree.index.columns": "v", "fields.v.pk-btree.index.options": '{"block-size":"1 kb"}', **LOOKUP},
)
APPENDED: tuple[dict[str, str], ...] = (
    AVRO,
    {"bucket": "3", "bucket-key": "k", "bucket-function.type": "mod"},
    {"compaction.min.file-num": "2", "file-index.bitmap.columns": "k"},
    {"parquet.bloom.filter.enabled#k": "true", "parquet.page.size": "1024"},
    {"metadata.stats-mode": "counts"},
    {"row-tracking.enabled": "true"},
    {"file-index.in-manifest-threshold": "0 b", "file-index.bloom-filter.columns": "k,s"},
)
COLUMNS = "k INT NOT NULL, p INT, v BIGINT NOT NULL, s STRING, d DECIMAL(10, 2), ts TIMESTAMP(6)"
SETS = [(True, options) for options in KEYED] + [(False, options) for options in APPENDED]


def told(options: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in options.items())


def both(flink: FlinkPaimon, table: Table) -> list[str]:
    """The rows, which both read alike."""
    clear_cache()
    theirs = sorted(map(repr, flink.sql("SELECT k, p, v, s, d, ts FROM t").rows))
    assert sorted(repr(tuple(row.values())) for row in table.to_arrow().to_pylist()) == theirs
    return theirs


@pytest.mark.parametrize(("keyed", "options"), SETS, ids=[f"{keyed}-{told(options)}" for keyed, options in SETS])
def test_in_turns(flink: FlinkPaimon, tmp_path: Path, keyed: bool, options: dict[str, str]) -> None:
    options = {"bucket": "2" if keyed else "-1", "num-sorted-run.compaction-trigger": "3", **options}
    written = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    key = ", PRIMARY KEY (k, p) NOT ENFORCED" if keyed else ""
    kinds = "rowkind.field" in options
    deletes = keyed and not kinds and "merge-engine" not in options
    flink.use(tmp_path)
    flink.sql(f"CREATE TABLE t ({COLUMNS}{key}) PARTITIONED BY (p) WITH ({written})")
    for batch in range(4):
        rows = ", ".join(
            f"({k}, {k % 2}, {k * 10 + batch}, '{'+I' if kinds else f's{k}-{batch}'}', CAST({k}.{batch} AS DECIMAL(10, 2)), "
            f"TIMESTAMP '2024-01-0{batch + 1} 00:00:0{k % 10}.123456')"
            for k in range(batch, batch + 12)
        )
        flink.sql(f"INSERT INTO t VALUES {rows}")
        if batch == 2 and deletes:
            flink.sql("DELETE FROM t WHERE k = 5")
    table = bucketlake.open(tmp_path).table("t")
    both(flink, table)
    found = table.to_arrow(where="v >= 60 AND s <> 's7-1'").column("k").to_pylist()
    assert sorted(found) == sorted(row[0] for row in flink.sql("SELECT k FROM t WHERE v >= 60 AND s <> 's7-1'").rows)
    new = [(k, k % 2, 900 + k, "+I" if kinds else f"x{k}", Decimal("1.50"), datetime(2025, 1, 1)) for k in range(8, 30)]
    schema = table.to_arrow().schema
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of work beside the rows
        table.write_arrow(
            pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in new], schema=schema)
        )
    if deletes:
        table.delete("k = 9")
    before = both(flink, table)
    table.compact(full=True)
    assert both(flink, table) == before
    for where in ("v = 925", "v > 915 AND d = 1.50", "s = 'x25' OR s = 'x26'"):
        theirs = sorted(row[0] for row in flink.sql(f"SELECT k FROM t WHERE {where}").rows)
        assert sorted(table.to_arrow(where=where).column("k").to_pylist()) == theirs
    text = "+I" if kinds else "z"
    flink.sql(f"INSERT INTO t VALUES (8, 0, 5000, '{text}', CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS TIMESTAMP(6)))")
    both(flink, table)
    assert table.fsck("rows").findings == ()
