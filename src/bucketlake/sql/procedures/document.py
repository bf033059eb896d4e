"""docs/sql/procedures.md, made of the declarations.

python -m bucketlake.sql.procedures.document > docs/sql/procedures.md
"""

from __future__ import annotations

from bucketlake.sql.procedures.catalogue import PROCEDURES, need_of
from bucketlake.sql.procedures.notes import NOTES
from bucketlake.sql.procedures.registry import Procedure

_HEAD = """# Procedures

    CALL [catalog.]sys.<name>([argument, …])

- `CALL sys.help()` lists the procedures, `CALL sys.help('compact')` the arguments of one.
- Give arguments by position, or by name (`name => value`); those by position come first.
- Names may stand bare or in backticks, in any case, as either engine calls them: `snapshot`, `snapshot_id`.
- `CAST(value AS type)` is the value, as Flink wants numbers and NULL.
- An empty text and NULL mean that the argument is absent.
- By position, Spark's order is tried first, and if it makes no sense Flink's.

This page is generated from the code. See also [tags, branches, rollbacks, partitions](../spec/tags.md) and
[maintenance](../maintenance.md).

## Partitions

If an argument names partitions, separate specs by `;`, and columns within one by `,`. A spec may name some of the
partition columns. Values are read as the columns' types, with or without quotes. The table's
`partition.default-name` means null.

If an argument is a condition over partition columns, it may be any that Spark can evaluate on them:
`dt < '2024-01-01'`, `substr(dt, 1, 7) = '2024-01'`, `hh < 10` of texts that are numbers. Those that compare columns
with constants of their types need no Spark.
"""


def page() -> str:
    """The page's text."""
    built = [one for one in PROCEDURES.values() if one.run is not None]
    missing = [one for one in PROCEDURES.values() if one.run is None]
    lines = [_HEAD, *(line for one in built for line in _section(one)), "## Not built", ""]
    lines += [
        "These procedures are known by name, and refused before anything is done.",
        "",
        "| Procedure | In Paimon on | Why not |",
        "|---|---|---|",
    ]
    lines += [f"| `{one.name}` | {one.engines} | {one.missing} |" for one in missing]
    return "\n".join(lines) + "\n"


def _section(procedure: Procedure) -> list[str]:
    origin = f"As in Apache Paimon on {procedure.engines}." if procedure.engines else "Only in Bucketlake."
    columns = ", ".join(f"`{column}`" for column in procedure.columns.replace("`", "").split(", "))
    lines = [f"## {procedure.name}", "", procedure.doc, ""]
    if procedure.arguments:
        lines += ["| Argument | Type | | Meaning |", "|---|---|---|---|"]
        lines += [f"| `{one.name}` | {one.kind} | {need_of(one)} | {one.doc} |" for one in procedure.arguments]
        lines.append("")
    lines += [f"*Returns* {columns}. *{origin}*", ""]
    if procedure.name in NOTES:
        lines += [NOTES[procedure.name].strip("\n"), ""]
    return lines


if __name__ == "__main__":
    print(page(), end="")
