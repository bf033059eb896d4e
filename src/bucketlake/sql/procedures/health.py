"""CALL sys.fsck, sys.repair_table, sys.advise, sys.usage.

Spec: docs/maintenance.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.scan.partition_choice import parse_specs
from bucketlake.sql.procedures.arguments import flag, table_of, whole_number
from bucketlake.sql.procedures.registry import PARTITIONS, TABLE, Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.ops.check.findings import Report
    from bucketlake.spark.session import Lake

_FINDINGS = (
    "code string not null, severity string not null, level string not null, `partition` string, bucket int, "
    "snapshot bigint, holder string, file string, `count` bigint not null, cause string not null, "
    "consequence string not null, remedy string not null, repair string not null"
)
_LEVEL = Argument("level", "how deep: metadata, footers, keys, rows; each includes those before", default="metadata")
_SNAPSHOT = Argument("snapshot", "the snapshot whose files are looked at; the newest if left out", "bigint")


def _check(given: Arguments) -> None:
    level = given.get("level", "metadata").lower()
    if level not in LEVELS:
        raise InvalidError("no such level of checking", level=level, remedy=f"use one of {', '.join(LEVELS)}")
    parse_specs(given.get("partitions", ""))


def _report(lake: Lake, given: Arguments, usual: str) -> Report:
    specs = parse_specs(given["partitions"]) if "partitions" in given else None
    level = given.get("level", usual).lower()
    return table_of(lake, given).fsck(level, specs or None, whole_number(given, "snapshot"))


def _fsck(lake: Lake, given: Arguments) -> Rows:
    return list(_report(lake, given, "metadata").told())


def _repair(lake: Lake, given: Arguments) -> Rows:
    allow = [code.strip() for code in given.get("allow", "").split(",") if code.strip()]
    report = _report(lake, given, "keys")
    done = table_of(lake, given).repair(report, allow, flag({"dry_run": "true", **given}, "dry_run"))
    snapshot = None if done.snapshot is None else done.snapshot.id
    return [
        (
            action.finding.code,
            *(action.finding.place.partition_text, action.finding.place.bucket, action.finding.place.file),
            *(action.finding.cause, action.mend or None, action.state, snapshot),
        )
        for action in done.actions
    ]


def _advise(lake: Lake, given: Arguments) -> Rows:
    return [
        (one.topic, one.partition, float(one.measure), float(one.threshold), one.reason, one.command)
        for one in table_of(lake, given).advise()
    ]


def _usage(lake: Lake, given: Arguments) -> Rows:
    return [(one.kind, one.holder, one.files, one.bytes) for one in table_of(lake, given).usage().held]


PROCEDURES = (
    Procedure(
        "fsck",
        "Checks that a table is intact. One row a fault, with place, cause, consequence and remedy.",
        (TABLE, _LEVEL, PARTITIONS, _SNAPSHOT),
        _fsck,
        _FINDINGS,
        check=_check,
        engines="",
    ),
    Procedure(
        "repair_table",
        "Repairs what a check finds, in one commit that can be rolled back. What would lose rows has to be named.",
        (
            TABLE,
            Argument("level", "how deep to check: metadata, footers, keys, rows", default="keys"),
            PARTITIONS,
            Argument("allow", "codes of faults whose repair loses rows or something else of value: `code1,code2`"),
            Argument("dry_run", "only say what would be done", "boolean", default="true"),
        ),
        _repair,
        "code string not null, `partition` string, bucket int, file string, cause string not null, mend string, "
        "state string not null, snapshot bigint",
        check=_check,
        engines="",
    ),
    Procedure(
        "advise",
        "Lists what would make a table better, each with measure, threshold, and the command that does it.",
        (TABLE,),
        _advise,
        "topic string not null, `partition` string, measure double not null, threshold double not null, "
        "reason string not null, command string",
        engines="",
    ),
    Procedure(
        "usage",
        "Reports where the bytes of a table's folder are, each counted once.",
        (TABLE,),
        _usage,
        "kind string not null, holder string, files bigint not null, `bytes` bigint not null",
        engines="",
    ),
)
