"""`docs/sql/README.md`: what of Paimon's Spark documents works here. `python -m tests.docs.sql_index` writes it.

Statements are listed here, under the words that open them in the code; a test asks that none is left out. All else is
read from the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bucketlake.catalog_tables import CATALOG_TABLES
from bucketlake.ops.scan.system_tables import ROW_VIEWS
from bucketlake.ops.system.registry import SYSTEM_TABLES
from bucketlake.options.engines import CONNECTOR_KEYS
from bucketlake.options.options import OPTIONS
from bucketlake.spark.read.hidden import COLUMNS
from bucketlake.spark.write.bucket_functions import KINDS
from bucketlake.sql.procedures.catalogue import PROCEDURES

PAGE = Path(__file__).parents[2] / "docs" / "sql" / "README.md"
HEAD = """# SQL

`lake.sql("…")` takes every statement of Spark SQL, over lake tables, temporary views and Spark's own tables alike. It also
takes the statements of Apache Paimon's Spark connector, and Flink's spellings of tables. If you come from that connector,
replace `spark.sql` by `lake.sql`.

This page lists what the connector's documents name, with its state here. It is generated from the code.

| Page | Covers |
|---|---|
| [Databases, tables, views](ddl.md) | CREATE, REPLACE, ALTER, SHOW, DESCRIBE, USE, ANALYZE |
| [INSERT](insert.md), [MERGE](merge.md), [COPY INTO](copy-into.md) | writing rows |
| [Tags and branches](tags.md) | naming snapshots |
| [Procedures](procedures.md) | CALL |
| [System tables](system-tables.md) | system tables and metadata columns |
| [Functions](functions.md) | functions of the catalog |
| [DataFrames](../dataframes.md) | the same from Python |

## Parameters

Pass values beside the text: `lake.sql("… WHERE id > :low", {"low": 5})`, or `?` and a list. Names in braces stand for DataFrames, columns
and values: `lake.sql("SELECT * FROM {frame} WHERE id > {low}", frame=frame, low=5)`, as with `spark.sql`.
Tables and frames of pandas, polars and Arrow stand there, too, and DataFrames of other sessions (`foreachBatch`).

`IDENTIFIER('db.t')`, `IDENTIFIER(:name)` and `IDENTIFIER(?)` stand for a name, in every statement. So do variables, and
expressions of these but `?` by `||`, `CONCAT`, `LOWER`, `REPLACE` and their like: `IDENTIFIER('db.' || :name)`. Others
reach Spark alone, which does not know the lake's tables.

`EXECUTE IMMEDIATE 'text' INTO variable USING value` runs a text. A value may be a variable or an expression, but not a query.

`${name}` is a setting of the session (`SET name = …`), put in before anything is read, as by Spark;
`spark.sql.variable.substitute` = `false` leaves it as it stands.

Names with `$` (`t$snapshots`, `t$branch_b`) need no backticks.

## Scripts

A script of Spark's, `BEGIN … END` with variables, conditions, loops and EXIT handlers, is one statement, whose rows are those of
its last query. One that only queries reads tables of the lake as they are when it begins. One with other statements (INSERT,
MERGE, ALTER, CALL, …) runs them one by one, each a commit of its own. In such a script:

- its variables are the session's while it runs. A variable that the session has already is refused, by name. Of a
  labelled block, and of a FOR with a name, they may have it before them (`label.variable`), unless a variable has this name;
- a handler where a variable hides another one is refused: Spark takes the outer one in its body, and the inner one elsewhere;
- CONTINUE handlers, cursors, SIGNAL, RESIGNAL, GET DIAGNOSTICS and conditions of one's own are refused, as are `?` markers:
  `:name` stands in all of its statements.

## Errors

Errors point at the statement as you wrote it. Spark's own errors are rephrased with line, column and a caret in that
text, without plans and generated names.

- They stay Spark's classes (`AnalysisException`, `ParseException`) with their condition. A name that is missing or taken
  has Spark's condition too (`TABLE_OR_VIEW_NOT_FOUND`).
- For unknown tables, columns, functions, procedures, arguments, options and system tables, the error gives the nearest name.
  A misspelt keyword (`SHOW TABELS`) gets the one that is meant.
- A statement about a lake table that neither Bucketlake nor Spark knows is refused by name.
- Values that a statement cannot use (`CAST_INVALID_INPUT`) are told in the same way where the statement itself reads rows
  (INSERT, UPDATE, DELETE, MERGE). What a DataFrame raises when it is collected is Spark's as it is.

```
lake.sql("SELECT id, nme FROM db.t")
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nme` cannot be resolved. Did you mean one of the following? [`name`, `id`]. SQLSTATE: 42703

line 1, column 12:
SELECT id, nme FROM db.t
           ^^^
```
"""
TITLES = {
    "ddl.md": "Tables",
    "functions.md": "Functions",
    "tags.md": "Tags",
    "insert.md": "INSERT",
    "insert.md#options": "Options",
    "merge.md": "MERGE",
    "copy-into.md": "COPY INTO",
    "procedures.md": "Procedures",
    "README.md#parameters": "Parameters",
    "../spec/row_changes.md#update": "UPDATE",
    "../spec/row_changes.md#explain": "EXPLAIN",
    "../spec/row_changes.md#delete": "DELETE",
    "../spec/pushdown.md": "Pushdown",
}
# (words that open it, as written, state, page)
Statement = tuple[str, str, str, str]
WORKS = "works"
# fmt: off
STATEMENTS: tuple[Statement, ...] = (
    ("CREATE", "`CREATE DATABASE`, `CREATE TABLE` [`PARTITIONED BY`, `TBLPROPERTIES`, `LOCATION`], `… AS SELECT`, `… LIKE`", WORKS, "ddl.md"),
    ("CREATE", "`CREATE [OR REPLACE] TEMPORARY VIEW`", WORKS + "; pins its snapshot", "ddl.md"),
    ("CREATE", "`CREATE VIEW`", WORKS + " in SQL and REST catalogs; over lake tables refused by name in a file system catalog, which holds none; others are Spark's", "ddl.md"),
    ("CREATE", "`CREATE [TEMPORARY] FUNCTION`", "Spark's; refused by name in the lake's databases, and where its body reads lake tables", "functions.md"),
    ("REPLACE", "`REPLACE TABLE`, `CREATE OR REPLACE TABLE`, with `AS SELECT`", WORKS, "ddl.md"),
    ("DROP", "`DROP TABLE`, `DROP DATABASE`, `DROP VIEW`", WORKS, "ddl.md"),
    ("ALTER", "`ALTER TABLE … SET / UNSET TBLPROPERTIES`, `ADD / RENAME / DROP / ALTER COLUMN`, `RENAME TO`", WORKS, "ddl.md"),
    ("ALTER", "`ALTER TABLE … ADD / DROP PARTITION`", WORKS, "ddl.md"),
    ("ALTER", "`ALTER TABLE … CREATE / REPLACE / RENAME / DELETE TAG`", WORKS, "tags.md"),
    ("ALTER", "`ALTER DATABASE`", WORKS, "ddl.md"),
    ("COMMENT", "`COMMENT ON TABLE / COLUMN / DATABASE`", WORKS, "ddl.md"),
    ("TRUNCATE", "`TRUNCATE TABLE [PARTITION]`", WORKS, "ddl.md"),
    ("INSERT", "`INSERT INTO`, `INSERT OVERWRITE [PARTITION]`, `REPLACE WHERE`, `BY NAME`, `WITH SCHEMA EVOLUTION`", WORKS, "insert.md"),
    ("WITH", "`WITH … INSERT`, `WITH … UPDATE`, `… DELETE`, `… MERGE`", WORKS, "insert.md"),
    ("FROM", "`FROM … INSERT …`", WORKS, "insert.md"),
    ("UPDATE", "`UPDATE`", WORKS, "../spec/row_changes.md#update"),
    ("DELETE", "`DELETE FROM`", WORKS, "../spec/row_changes.md#delete"),
    ("MERGE", "`MERGE [WITH SCHEMA EVOLUTION] INTO`", WORKS, "merge.md"),
    ("COPY", "`COPY INTO` a table, `COPY INTO` a folder", WORKS, "copy-into.md"),
    ("CALL", "`CALL sys.…`", WORKS, "procedures.md"),
    ("EXPLAIN", "`EXPLAIN` query, INSERT, DELETE, UPDATE, MERGE, CREATE TABLE … AS", WORKS, "../spec/row_changes.md#explain"),
    ("EXECUTE", "`EXECUTE IMMEDIATE` text [`INTO` variables] [`USING` values]", WORKS, "README.md#parameters"),
    ("SHOW", "`SHOW TABLES / TABLE EXTENDED / COLUMNS / PARTITIONS / TBLPROPERTIES / CREATE TABLE / VIEWS / TAGS / DATABASES`", WORKS, "ddl.md"),
    ("DESC", "`DESC`, `DESC EXTENDED` [`AS JSON`], `DESC DATABASE`", WORKS, "ddl.md"),
    ("DESCRIBE", "`DESCRIBE … PARTITION`", WORKS, "ddl.md"),
    ("ANALYZE", "`ANALYZE TABLE … COMPUTE STATISTICS [FOR COLUMNS]`", WORKS, "ddl.md"),
    ("CACHE", "`CACHE TABLE`", WORKS, "ddl.md"),
    ("UNCACHE", "`UNCACHE TABLE`", WORKS, "ddl.md"),
    ("REFRESH", "`REFRESH TABLE`", WORKS + ": every statement reads the newest snapshot anyhow", "ddl.md"),
    ("USE", "`USE db`, `SET CATALOG c`, Flink's `USE CATALOG c`", WORKS, "ddl.md"),
    ("SET", "`SET spark.paimon.… = …`, Flink's `SET 'k' = 'v'`", WORKS, "insert.md#options"),
    ("RESET", "`RESET spark.paimon.…`, Flink's `RESET 'k'`", WORKS, "insert.md#options"),
    ("SELECT", "`SELECT`, with `VERSION AS OF`, `TIMESTAMP AS OF`, `/*+ OPTIONS('k'='v') */`, table functions", WORKS, "../spec/pushdown.md"),
    ("MSCK", "`MSCK REPAIR TABLE`", "refused by name: partitions are what rows say", ""),
)


def page() -> str:
    """The page's text."""
    lines = [HEAD, "## Statements", "", "| Statement | State | More |", "|---|---|---|"]
    for _, form, state, link in STATEMENTS:
        more = f"[{TITLES[link]}]({link})" if link else ""
        lines.append(f"| {form} | {state} | {more} |")
    lines += ["", "## Procedures", "", "| Procedure | In Paimon on | State |", "|---|---|---|"]
    for one in PROCEDURES.values():
        state = f"[{WORKS}](procedures.md#{one.name})" if one.run is not None else f"refused: {one.missing}"
        lines.append(f"| `sys.{one.name}` | {one.engines or '– (only in Bucketlake)'} | {state} |")
    lines += ["", "## Tables, columns and functions", "", "| Kind | Names |", "|---|---|"]
    lines += [f"| {kind} | {', '.join(f'`{name}`' for name in names)} |" for kind, names in _names()]
    lines += ["", "## Options of the connector", "", "| Option | State | Meaning |", "|---|---|---|"]
    for key in sorted(CONNECTOR_KEYS):
        row = OPTIONS[key]
        lines.append(f"| `{key}` | {_state(key)} | {row.doc} |")
    lines.append("")
    lines.append("All options of tables: [options](../reference/options.md).")
    return "\n".join(lines) + "\n"


def _names() -> Iterator[tuple[str, list[str]]]:
    yield "system tables of a table", [f"t${name}" for name in sorted([*SYSTEM_TABLES, *ROW_VIEWS])]
    yield "system tables of the catalog", [f"sys.{name}" for name in sorted(CATALOG_TABLES)]
    yield "metadata columns", list(COLUMNS)
    yield "functions", [f"sys.{name}" for name in (*KINDS, "max_pt")]


def _state(key: str) -> str:
    effect = OPTIONS[key].effect
    if effect == "honoured":
        return "honoured"
    if effect == "kept":
        return f"without effect: {effect.why}"
    if effect.within:
        return f"honoured by {effect.within}; refused in SQL: {effect.remedy}"
    return f"refused: {effect.remedy or 'not supported'}"


if __name__ == "__main__":
    PAGE.write_text(page())
