"""docs/sql/procedures.md, made of the declarations.

python -m bucketlake.sql.procedures.document > docs/sql/procedures.md
"""

from __future__ import annotations

from bucketlake.sql.procedures.catalogue import PROCEDURES, need_of
from bucketlake.sql.procedures.notes import NOTES
from bucketlake.sql.procedures.registry import Procedure

_HEAD = """# Procedures

    CALL [catalog.]sys.<name>([argument, …])

Arguments are given by place, or by name (`name => value`, names bare or in backticks, in either engine's spelling:
`consumerId`, `consumer_id`); first those by place. An empty text and NULL mean that the argument is absent. By place
Spark's order is tried first, and where it makes no sense Flink's. `CALL sys.help()` lists the procedures,
`CALL sys.help('compact')` the arguments of one.

This page is made of the code. More: [tags, branches, rollbacks, partitions](../spec/tags.md),
[maintenance](../maintenance.md).

## Partitions
Where an argument names partitions, specs are separated by `;`, columns within one by `,`; a spec may name some of the
partition columns. Values are read as the columns' types, with quotes around them or not; the table's
`partition.default-name` means null.
"""


def page() -> str:
    """The page's text."""
    built = [one for one in PROCEDURES.values() if one.run is not None]
    missing = [one for one in PROCEDURES.values() if one.run is None]
    lines = [_HEAD, *(line for one in built for line in _section(one)), "## Not built", ""]
    lines += ["Known by name and refused before anything is done.", "", "| procedure | of | why not |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.engines} | {one.missing} |" for one in missing]
    return "\n".join(lines) + "\n"


def _section(procedure: Procedure) -> list[str]:
    origin = f"Of {procedure.engines}." if procedure.engines else "Ours."
    lines = [f"## {procedure.name}", f"{procedure.doc} {origin} Returns {procedure.columns.replace('`', '')}.", ""]
    if procedure.arguments:
        lines += ["| argument | type | | meaning |", "|---|---|---|---|"]
        lines += [f"| `{one.name}` | {one.kind} | {need_of(one)} | {one.doc} |" for one in procedure.arguments]
        lines.append("")
    if procedure.name in NOTES:
        lines += [NOTES[procedure.name].strip("\n"), ""]
    return lines


if __name__ == "__main__":
    print(page(), end="")
