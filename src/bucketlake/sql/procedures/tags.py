"""CALL sys.create_tag, sys.replace_tag, sys.rename_tag, sys.delete_tag, sys.expire_tags, …: see `PROCEDURES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.scan.select import epoch_millis
from bucketlake.options.options import parse_duration
from bucketlake.sql.procedures.arguments import table_of, whole_number
from bucketlake.sql.procedures.registry import DONE, RETAINED, TABLE, Argument, Arguments, Procedure, Rows
from bucketlake.sql.tables.tags import listed_names

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

_TAG = Argument("tag", "the tag's name", required=True, alias="tag_name")
_TARGET = Argument("target_tag", "the new name, which must be free", required=True, alias="target_tag_name")
_SNAPSHOT = Argument("snapshot", "the snapshot's id; the newest if left out", "bigint", alias="snapshot_id")
_FOUND = "tagName string, snapshot bigint, commit_time bigint, watermark string"


def _check(given: Arguments) -> None:
    if "time_retained" in given:
        parse_duration(given["time_retained"])


def _create(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).create_tag(given["tag"], whole_number(given, "snapshot"), given.get("time_retained"))
    return DONE


def _replace(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).replace_tag(given["tag"], whole_number(given, "snapshot"), given.get("time_retained"))
    return DONE


def _rename(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).rename_tag(given["tag"], given["target_tag"])
    return DONE


def _delete(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    for name in listed_names(given["tag"], table.tags()):
        table.delete_tag(name)
    return DONE


def _expire(lake: Lake, given: Arguments) -> Rows:
    gone = table_of(lake, given).expire_tags(given.get("older_than"))
    return [(name,) for name in gone] or [("No expired tags.",)]


def _trigger(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).trigger_tag_automatic_creation()
    return DONE


def _from_timestamp(lake: Lake, given: Arguments) -> Rows:
    """The first snapshot at or after a time, or the first tag's where that is earlier."""
    millis = whole_number(given, "timestamp")
    if millis is None:
        raise InvalidError("sys.create_tag_from_timestamp needs arguments", missing=["timestamp"])
    table = table_of(lake, given)
    found = _first(table, lambda one: one.time_millis, millis)
    if found is None:
        raise NotFoundError(f"Could not find any snapshot whose commit-time later than {millis}.", table=table.name)
    return _tagged(lake, given, found)


def _from_watermark(lake: Lake, given: Arguments) -> Rows:
    """The first snapshot whose watermark is at or after one, or the first tag's where that is earlier."""
    mark = whole_number(given, "watermark") or 0
    table = table_of(lake, given)
    found = _first(table, lambda one: one.watermark, mark)
    if found is None:
        raise NotFoundError(f"Could not find any snapshot whose watermark later than {mark}.", table=table.name)
    return _tagged(lake, given, found)


def _first(table: LakeTable, mark_of: Callable[[Snapshot], int | None], least: int) -> Snapshot | None:
    """The first snapshot with such a mark, or the first tag's where its mark is less."""

    def reaches(one: Snapshot) -> bool:
        return (mark := mark_of(one)) is not None and mark >= least

    tagged = sorted(table.tags().values(), key=lambda one: one.id)
    found = [*filter(reaches, table.snapshots())][:1] + [*filter(reaches, tagged)][:1]
    return min(found, key=lambda one: mark_of(one) or 0, default=None)


def _tagged(lake: Lake, given: Arguments, found: Snapshot) -> Rows:
    table_of(lake, given).create_tag(given["tag"], found.id, given.get("time_retained"))
    mark = "null" if found.watermark is None else str(found.watermark)
    return [(given["tag"], found.id, found.time_millis, mark)]


def _check_expiry(given: Arguments) -> None:
    epoch_millis(given.get("older_than"))


PROCEDURES = (
    Procedure(
        "create_tag",
        "Tags a snapshot: its files stay when it expires.",
        (TABLE, _TAG, _SNAPSHOT, RETAINED),
        _create,
        check=_check,
        flink=("table", "tag", "snapshot", "time_retained"),
    ),
    Procedure(
        "replace_tag",
        "Moves an existing tag to another snapshot, with another retention.",
        (TABLE, _TAG, _SNAPSHOT, RETAINED),
        _replace,
        check=_check,
    ),
    Procedure(
        "rename_tag",
        "Renames a tag.",
        (TABLE, _TAG, _TARGET),
        _rename,
    ),
    Procedure(
        "delete_tag",
        "Deletes tags, and the files that only they kept. Missing tags are ignored.",
        (TABLE, Argument("tag", "the tags' names, separated by commas", required=True)),
        _delete,
    ),
    Procedure(
        "expire_tags",
        "Deletes tags whose time is over. One row a tag.",
        (TABLE, Argument("older_than", "tags made before go too; in this machine's time zone")),
        _expire,
        "expired_tags string not null",
        _check_expiry,
    ),
    Procedure(
        "create_tag_from_timestamp",
        "Tags the first snapshot, or the first tagged one, committed at or after a time.",
        (TABLE, _TAG, Argument("timestamp", "epoch milliseconds", "bigint"), RETAINED),
        _from_timestamp,
        _FOUND,
        _check,
    ),
    Procedure(
        "create_tag_from_watermark",
        "Tags the first snapshot, or the first tagged one, whose watermark is at least the given one.",
        (TABLE, _TAG, Argument("watermark", "epoch milliseconds", "bigint", required=True), RETAINED),
        _from_watermark,
        _FOUND,
        _check,
        engines="Flink",
    ),
    Procedure(
        "trigger_tag_automatic_creation",
        "Creates the tags that `tag.automatic-creation` asks for now, and deletes those whose time is over.",
        (TABLE,),
        _trigger,
    ),
)
