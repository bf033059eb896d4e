"""`docs/sql/system-tables.md`: every system table with its columns. `python -m tests.docs.system_tables` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bucketlake.catalog_tables import ABOUT, CATALOG_TABLES
from bucketlake.ops.system.registry import SYSTEM_TABLES
from bucketlake.types.model import DataField, type_text

PAGE = Path(__file__).parents[2] / "docs" / "sql" / "system-tables.md"
HEAD = """# System tables

System tables show what a table or the catalog knows about itself, as rows. Names, columns, types and texts are Apache Paimon's.

```sql
SELECT * FROM db.`t$snapshots`;
SELECT * FROM db.`t$branch_b1$files` WHERE partition = '{2024-01-01}' AND level = 0;
SELECT * FROM db.`t$files` VERSION AS OF 3;
SELECT * FROM db.`t$manifests` /*+ OPTIONS('scan.tag-name'='one') */;
SELECT * FROM sys.tables WHERE database_name = 'db';
```

In Python:

| With | Call |
|---|---|
| a session | `lake.table("db.t$files").read(where="bucket = 1", columns=["file_path"])` |
| no Spark | `catalog.table("db.t$files").to_arrow(where="bucket = 1")` |
| Spark's reader | `spark.read.format("bucketlake").load("/warehouse/db.db/t$files")` |

## Rules

- System tables can be joined, described (`DESCRIBE`) and used as the source of an INSERT, like any table. They cannot be
  written, altered or dropped.
- SHOW TABLES does not list them. `SHOW TABLES IN sys` lists those of the catalog. For an unknown name, the error gives the
  nearest one.
- **Time travel.** A table that *travels* shows the snapshot that `VERSION AS OF`, `TIMESTAMP AS OF` or `scan.*` options
  choose, else the newest. The others show all there is. `incremental-between` (what came between two snapshots) is refused.
- **Pruning.** Conditions on `snapshot_id`, `schema_id`, `tag_name`, `branch_name`, `partition`, `bucket`, `level`,
  `database_name` and `table_name` leave out files before they are read.
- **Times** are in the reader's time zone, in milliseconds.
- **Values** of keys and statistics are printed as Paimon holds them: a date is its number of days since 1970, a timestamp
  `2024-01-31T02:03`. Partitions are printed as SQL casts their values.

"""
TAIL = """## Tables over rows

These show a table's rows in another way. Time travel, `OPTIONS` hints and branches (`` `t$branch_b$ro` ``) work as for the
table.

| Name | What it shows |
|---|---|
| `t$ro` | the result of the last full compaction of each bucket: Spark's own scan, no merge. For append tables: the table |
| `t$audit_log` | rows with their kind, deletes included: `rowkind` is `+I`, `-U`, `+U` or `-D` |
| `t$binlog` | the same, with values as arrays; an update's two rows are one: `[before, after]` |
| `t$row_tracking` | the table's columns, `_ROW_ID` and `_SEQUENCE_NUMBER`, for tables with [row tracking](../row-tracking.md) |

### Reading changes

```sql
SELECT * FROM db.`t$audit_log` /*+ OPTIONS('incremental-between'='12,20') */;
SELECT * FROM db.t /*+ OPTIONS('incremental-between'='12,20', 'incremental-between-scan-mode'='diff') */;
SELECT * FROM db.t /*+ OPTIONS('incremental-between-timestamp'='2026-03-01 00:00:00,2026-03-02 00:00:00') */;
```

In Python: `t.read(incremental_between="12,20")`, and without Spark `table.to_arrow(incremental_between="12,20")`.

- The first snapshot is excluded, the second included. Two tags may stand for them.
- Tables with a changelog producer give their changelog, others what was written. `incremental-between-scan-mode` chooses
  `delta`, `changelog` or `diff`, the difference of the two states.
- A read of the table itself shows rows that came, not deletes. For these, read the audit log.

What exactly comes: [spec/incremental.md](../spec/incremental.md).

## Metadata columns

Rows of a table have columns that `*` does not show. Ask for them by name:

```sql
SELECT *, __paimon_file_path FROM db.t;
SELECT __paimon_partition, __paimon_bucket, count(*) FROM db.t GROUP BY ALL;
```

| Column | Type | Meaning |
|---|---|---|
| `__paimon_file_path` | STRING | the file that holds the row |
| `__paimon_row_index` | BIGINT | the row's place in its file, from 0 |
| `__paimon_partition` | STRUCT | the partition columns; an empty struct for tables without partitions |
| `__paimon_bucket` | INT | the row's bucket |
| `_ROW_ID` | BIGINT | the row's id, in tables with [row tracking](../row-tracking.md) |
| `_SEQUENCE_NUMBER` | BIGINT | the snapshot that wrote the row last, in tables with row tracking |

File path and row index exist for append tables, for tables with deletion vectors, and for buckets that need no merge (one
file, or one level above 0). Elsewhere they are refused, as in Apache Paimon; in statements that read another table too,
an error of the rows whose place is asked for. They are also refused in statements of unusual form (`FROM t SELECT …`, pipes,
natural joins).

DELETE, UPDATE and MERGE take them in conditions and values, of the rows as they are:

```sql
DELETE FROM db.t WHERE __paimon_file_path LIKE '%/data-2b1c%';
UPDATE db.t SET note = concat('bucket ', __paimon_bucket) WHERE __paimon_bucket = 3;
MERGE INTO db.t USING s ON t.id = s.id AND __paimon_bucket = 0 WHEN MATCHED THEN DELETE;
```

## max_pt

`sys.max_pt('db.t')` is the greatest value of the table's first partition column, as a string, among the partitions that have
data. Nulls do not count. It is replaced by its value before the statement is planned, so `WHERE dt = sys.max_pt('db.t')` reads
one partition.

Tables without partitions, or without data, are refused. So is an argument that is no literal.
"""


def _rows(fields: Sequence[DataField], about: Mapping[str, str]) -> Iterator[str]:
    yield "| Column | Type | Meaning |"
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
