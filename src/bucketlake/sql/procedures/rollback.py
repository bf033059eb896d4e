"""CALL sys.rollback, sys.rollback_to, sys.rollback_to_timestamp, sys.rollback_to_watermark, …: see `PROCEDURES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.ops.refs.rollback import latest_or_refuse
from bucketlake.sql.procedures.arguments import table_of, whole_number
from bucketlake.sql.procedures.registry import TABLE, Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_MOVED = "previous_snapshot_id bigint not null, current_snapshot_id bigint not null"
_ONE = "only can set one of version/snapshot/tag in RollbackProcedure."


def _check(given: Arguments) -> None:
    if sum(name in given for name in ("version", "snapshot", "tag")) != 1:
        raise InvalidError(_ONE, remedy="give one: version => 3, or version => 'a tag'")


def _check_two(given: Arguments) -> None:
    if ("tag" in given) == ("snapshot_id" in given):
        raise InvalidError(
            "Must specify exactly one of tag and snapshot_id.", remedy="give one: snapshot_id => 3, or tag => 'a tag'"
        )


def _rollback(lake: Lake, given: Arguments) -> Rows:
    version = given.get("version", "").strip()
    if version.isascii() and version.isdigit():
        return _back(lake, given, int(version))
    return _back(lake, given, given.get("tag", version) if "snapshot" not in given else int(given["snapshot"]))


def _rollback_to(lake: Lake, given: Arguments) -> Rows:
    return _back(lake, given, given["tag"] if "tag" in given else int(given["snapshot_id"]))


def _back(lake: Lake, given: Arguments, version: int | str) -> Rows:
    table = table_of(lake, given)
    before = latest_or_refuse(table.table.store)
    return [(before, table.rollback_to(version).id)]


def _to_timestamp(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    before = latest_or_refuse(table.table.store)
    return [(before, table.rollback_to(timestamp=whole_number(given, "timestamp")).id)]


def _to_watermark(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    before = latest_or_refuse(table.table.store)
    return [(before, table.rollback_to(watermark=whole_number(given, "watermark")).id)]


def _as_latest(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    before = latest_or_refuse(table.table.store)
    version: int | str = given["tag"] if "tag" in given else int(given["snapshot_id"])
    target = table.tags()[version].id if isinstance(version, str) and version in table.tags() else version
    now = table.rollback_to_as_latest(version)
    return [(before, target, now.id)]


_TAG = Argument("tag", "a tag's name")
_ID = Argument("snapshot_id", "a snapshot's id", "bigint")

PROCEDURES = (
    Procedure(
        "rollback",
        "Makes an older snapshot the newest; later snapshots, tags and changelogs go. Give one of the three.",
        (
            TABLE,
            Argument("version", "a snapshot's id or a tag's name"),
            Argument("snapshot", "a snapshot's id", "bigint"),
            _TAG,
        ),
        _rollback,
        _MOVED,
        _check,
        engines="Spark",
    ),
    Procedure(
        "rollback_to",
        "As `rollback`, with Flink's arguments.",
        (TABLE, _TAG, _ID),
        _rollback_to,
        _MOVED,
        _check_two,
        engines="Flink",
    ),
    Procedure(
        "rollback_to_timestamp",
        "Rolls back to the last snapshot that was committed at or before a time.",
        (TABLE, Argument("timestamp", "epoch milliseconds", "bigint", required=True)),
        _to_timestamp,
        _MOVED,
    ),
    Procedure(
        "rollback_to_watermark",
        "Rolls back to the last snapshot whose watermark is not later than the given one.",
        (TABLE, Argument("watermark", "epoch milliseconds", "bigint", required=True)),
        _to_watermark,
        _MOVED,
    ),
    Procedure(
        "rollback_to_as_latest",
        "Publishes an older snapshot's content as a new snapshot. Nothing is removed.",
        (TABLE, _TAG, _ID),
        _as_latest,
        "previous_snapshot_id bigint, rolled_back_snapshot_id bigint, current_snapshot_id bigint",
        _check_two,
        engines="Flink",
    ),
)
