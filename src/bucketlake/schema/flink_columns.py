"""What Flink declares beside a table's columns, and Paimon keeps among its options: watermarks and computed columns.

    schema.watermark.0.rowtime = ts, schema.watermark.0.strategy.expr = `ts` - INTERVAL '5' SECOND
    schema.2.name = c, schema.2.expr = `v` + 1

Flink cannot open a table whose columns lack one that these name, or have one of a computed column's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bucketlake.errors import AlreadyExistsError, UnsupportedError

_ROWTIME = re.compile(r"schema\.watermark\.\d+\.rowtime")
_EXPRESSION = re.compile(r"schema\.(?:watermark\.\d+\.strategy|\d+)\.expr")
_BESIDE = re.compile(r"(schema\.\d+)\.(?:expr|metadata|virtual)")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")


def check_kept(options: Mapping[str, str], path: tuple[str, ...]) -> None:
    """Refuse to drop or rename a column, or a member of one, that is named there. UnsupportedError."""
    for key, value in options.items():
        if _ROWTIME.fullmatch(key):
            names = value.split(".")
        elif _EXPRESSION.fullmatch(key):
            names = [name.replace("``", "`") for name in _QUOTED.findall(value)]
        else:
            continue
        if path[0] in names and path[-1] in names:
            raise UnsupportedError(
                "Flink's watermark, or a computed column, is made of the column, and Flink could not open the table",
                column=".".join(path),
                option=key,
                value=value,
                remedy="take it off with Flink's ALTER TABLE, or reset the options 'schema.…' that declare it",
            )


def check_free(options: Mapping[str, str], name: str) -> None:
    """Refuse a column that has the name of a computed one. AlreadyExistsError."""
    for key in options:
        found = _BESIDE.fullmatch(key)
        if found is not None and options.get(f"{found[1]}.name") == name:
            raise AlreadyExistsError(
                "column exists", column=name, option=key, remedy="Flink computes it: choose another"
            )
