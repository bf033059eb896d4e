"""`docs/sql/system-tables.md`: every system table with its columns. `python -m tests.docs.system_tables` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bucketlake.catalog_tables import ABOUT, CATALOG_TABLES
from bucketlake.ops.system.registry import SYSTEM_TABLES
from bucketlake.types.model import DataField, type_text

PAGE = Path(__file__).parents[2] / "docs" / "sql" / "system-tables.md"
HEAD = """# System tables

What a table or the catalog knows of itself, as rows: names, columns, types and texts are Apache Paimon's.

```sql
SELECT * FROM db.`t$snapshots`;
SELECT * FROM db.`t$branch_b1$files` WHERE partition = '{2024-01-01}' AND level = 0;
SELECT * FROM db.`t$files` VERSION AS OF 3;
SELECT * FROM db.`t$manifests` /*+ OPTIONS('scan.tag-name'='one') */;
SELECT * FROM sys.tables WHERE database_name = 'db';
```

In Python: `lake.table("db.t$files").read(where="bucket = 1", columns=["file_path"])`, without Spark `catalog.table("db.t$files").to_arrow(where="bucket = 1")`, and
`spark.read.format("bucketlake").load("/warehouse/db.db/t$files")`. They join, are described (`DESCRIBE`) and can be the source of an INSERT like any table; SHOW TABLES does not list them
(`SHOW TABLES IN sys` lists those of the catalog). They cannot be written, altered or dropped. An unknown name is refused with the nearest one.

- Times are by the clock of the reader's time zone, in milliseconds.
- A table that *travels* shows the snapshot that `VERSION AS OF`, `TIMESTAMP AS OF` or `scan.*` options choose, else the newest; the others show all there is. What came between two snapshots
  (`incremental-between`) is refused.
- Conditions on `snapshot_id`, `schema_id`, `tag_name`, `branch_name`, `partition`, `bucket`, `level`, `database_name` and `table_name` leave out files before they are read.
- Values of keys and statistics are printed as Paimon holds them: a date is its number of days since 1970, a timestamp `2024-01-31T02:03`. Partitions are printed as SQL casts their values.

"""
TAIL = """## Tables over rows

A table's rows seen another way. Time travel, `OPTIONS` hints and branches (`` `t$branch_b$ro` ``) work as for the table.

| name | what it shows |
|---|---|
| `t$ro` | the result of the last full compaction of each bucket: Spark's own scan, no merge. Append tables: the table |
| `t$audit_log` | rows with their kind: `rowkind` is `+I`, `-U`, `+U` or `-D`; deletes are there |
| `t$binlog` | the same, values as arrays; an update's two rows are one: `[before, after]` |
| `t$row_tracking` | the table's columns, `_ROW_ID` and `_SEQUENCE_NUMBER`: of tables with [row tracking](../row-tracking.md) |

### Reading changes

```sql
SELECT * FROM db.`t$audit_log` /*+ OPTIONS('incremental-between'='12,20') */;
SELECT * FROM db.t /*+ OPTIONS('incremental-between'='12,20', 'incremental-between-scan-mode'='diff') */;
SELECT * FROM db.t /*+ OPTIONS('incremental-between-timestamp'='2026-03-01 00:00:00,2026-03-02 00:00:00') */;
```

In Python: `t.read(incremental_between="12,20")`, and without Spark `table.to_arrow(incremental_between="12,20")`. The first snapshot is left out, the second taken in; two tags
may stand for them. Tables with a changelog producer give their changelog, others what was written; `incremental-between-scan-mode` chooses `delta`, `changelog` or
`diff`, the difference of the two states. A read of the table itself shows rows that came, not deletes: for these ask the audit log.

What exactly comes: [spec/incremental.md](../spec/incremental.md).

## Metadata columns

Rows of a table have columns that `*` does not show: ask for them by name.

```sql
SELECT *, __paimon_file_path FROM db.t;
SELECT __paimon_partition, __paimon_bucket, count(*) FROM db.t GROUP BY ALL;
```

| column | type | meaning |
|---|---|---|
| `__paimon_file_path` | STRING | the file that holds the row |
| `__paimon_row_index` | BIGINT | the row's place in its file, from 0 |
| `__paimon_partition` | STRUCT | the partition columns; an empty struct for tables without partitions |
| `__paimon_bucket` | INT | the row's bucket |
| `_ROW_ID`, `_SEQUENCE_NUMBER` | BIGINT | of tables with [row tracking](../row-tracking.md): the row's id, the snapshot that wrote it last |

Path and place are those of append tables, of tables with deletion vectors, and of buckets that need no merge (one file, or one level above 0); elsewhere they are refused, as in Apache Paimon. They are
refused, too, in statements of unusual form (`FROM t SELECT …`, pipes, natural joins).

DELETE, UPDATE and MERGE take them in conditions and values, of the rows as they are:

```sql
DELETE FROM db.t WHERE __paimon_file_path LIKE '%/data-2b1c%';
UPDATE db.t SET note = concat('bucket ', __paimon_bucket) WHERE __paimon_bucket = 3;
MERGE INTO db.t USING s ON t.id = s.id AND __paimon_bucket = 0 WHEN MATCHED THEN DELETE;
```

## max_pt

`sys.max_pt('db.t')` is the greatest value of the table's first partition column, as a string, among the partitions that have data; nulls do not count. It is replaced by its value before the statement is
planned, so that `WHERE dt = sys.max_pt('db.t')` reads one partition. Tables without partitions, or without data, are refused; so is an argument that is no literal.
"""


def _rows(fields: Sequence[DataField], about: Mapping[str, str]) -> Iterator[str]:
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for item in fields:
        yield f"| `{item.name}` | {type_text(item.type).replace('|', chr(92) + '|')} | {about[item.name]} |"
    yield ""


def page() -> str:
    """The whole page."""
    lines = [HEAD.rstrip(), "", "## Beside a table", ""]
    for name, table in SYSTEM_TABLES.items():
        travels = "" if table.travels else " Does not travel."
        lines += [f"### `t${name}`", "", f"Key: {', '.join(f'`{key}`' for key in table.key)}.{travels}", ""]
        lines += _rows(table.fields, table.about)
    lines += ["## Of the catalog", ""]
    lines += [
        "`sys.catalog_options` is there unless the catalog was opened with `catalog-options-table.enabled=false`.",
        "",
    ]
    for name, fields in CATALOG_TABLES.items():
        lines += [f"### `sys.{name}`", "", *_rows(fields, ABOUT)]
    return "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page())
