"""CALL sys.* for what is old, done, lost or read by others: partitions, consumers, files, manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bucketlake.ops.scan.partition_choice import parse_specs
from bucketlake.options.options import parse_duration
from bucketlake.sql.procedures.arguments import flag, parse_options, pattern, table_of, whole_number
from bucketlake.sql.procedures.registry import DONE, OPTIONS, TABLE, Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_EXPIRY = {
    "expiration_time": "partition.expiration-time",
    "timestamp_formatter": "partition.timestamp-formatter",
    "timestamp_pattern": "partition.timestamp-pattern",
    "expire_strategy": "partition.expiration-strategy",
    "max_expires": "partition.expiration-max-num",
}


# ---------------------------------------------------------------------------------------------- partitions


def _check_expiry(given: Arguments) -> None:
    if "expiration_time" in given:
        parse_duration(given["expiration_time"])
    parse_options(given.get("options", ""))


def _expire_partitions(lake: Lake, given: Arguments) -> Rows:
    options = {key: given[name] for name, key in _EXPIRY.items() if name in given}
    gone = table_of(lake, given).expire_partitions({**options, **parse_options(given.get("options", ""))})
    return [(_spec_text(spec),) for spec in gone] or [("No expired partitions.",)]


def _spec_text(spec: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in spec.items())


def _check_specs(given: Arguments) -> None:
    parse_specs(given["partitions"])


def _mark_done(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).mark_partitions_done(parse_specs(given["partitions"]))
    return DONE


def _drop_partitions(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).drop_partitions(parse_specs(given["partitions"]))
    return [("Success",)]


# ---------------------------------------------------------------------------------------------- consumers


def _reset_consumer(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).reset_consumer(given["consumerId"], whole_number(given, "nextSnapshotId"))
    return DONE


def _check_consumers(given: Arguments) -> None:
    for name in ("includingConsumers", "excludingConsumers"):
        pattern(given, name, ".*")


def _clear_consumers(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).clear_consumers(given.get("includingConsumers"), given.get("excludingConsumers"))
    return DONE


# ---------------------------------------------------------------------------------------------- files


def _purge(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).purge()
    return [("Success",)]


_SORTING = {
    "manifest_sort_enabled": "manifest-sort.enabled",
    "manifest_sort_partition_field": "manifest-sort.partition-field",
    "manifest_sort_max_rewrite_size": "manifest-sort.max-rewrite-size",
}


def _check_manifests(given: Arguments) -> None:
    parse_options(given.get("options", ""))
    for name in ("dry_run", "manifest_sort_enabled"):
        flag(given, name)


def _compact_manifest(lake: Lake, given: Arguments) -> Rows:
    sorting = {key: given[name] for name, key in _SORTING.items() if name in given}
    table = table_of(lake, given).with_options({**parse_options(given.get("options", "")), **sorting})
    if not flag(given, "dry_run"):
        table.compact_manifests()
    return DONE


def _remove_missing(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    gone = table.remove_unexisting_files(flag(given, "dry_run"), whole_number(given, "parallelism"))
    return [(path,) for path in gone]


def _remove_missing_manifests(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).remove_unexisting_manifests()
    return [("Success",)]


def _repair_earliest(lake: Lake, given: Arguments) -> Rows:
    following = whole_number(given, "snapshot_id") or 0
    return [(table_of(lake, given).repair_earliest_snapshot(following), following)]


PROCEDURES = (
    Procedure(
        "expire_partitions",
        "Drops partitions that are too old, the smallest first. One row a partition.",
        (
            TABLE,
            Argument("expiration_time", "the age, such as `7 d`; not 0", default="partition.expiration-time"),
            Argument("timestamp_formatter", "form of the time, such as `yyyyMMdd`"),
            Argument("timestamp_pattern", "columns that make up the time, such as `$dt $hour:00`; the first column"),
            Argument("expire_strategy", "`values-time`, or `update-time`: of the last write", default="values-time"),
            Argument("max_expires", "the most that go", "int", default="100"),
            OPTIONS,
        ),
        _expire_partitions,
        "expired_partitions string",
        _check_expiry,
    ),
    Procedure(
        "mark_partition_done",
        "Marks partitions as done, by `partition.mark-done-action` (default: `_SUCCESS` files).",
        (TABLE, Argument("partitions", "specs of all partition columns: `dt=a,hh=1;dt=b,hh=2`", required=True)),
        _mark_done,
        check=_check_specs,
    ),
    Procedure(
        "drop_partition",
        "Drops partitions.",
        (TABLE, Argument("partitions", "specs of all or some partition columns: `dt=a;dt=b,hh=2`", required=True)),
        _drop_partitions,
        "result string",
        _check_specs,
        engines="Flink",
    ),
    Procedure(
        "reset_consumer",
        "Sets a consumer to a snapshot, or forgets it.",
        (
            TABLE,
            Argument("consumerId", "the consumer", required=True),
            Argument("nextSnapshotId", "the snapshot that it reads next; forget it if left out", "bigint"),
        ),
        _reset_consumer,
    ),
    Procedure(
        "clear_consumers",
        "Forgets consumers.",
        (
            TABLE,
            Argument("includingConsumers", "a regular expression for whole names", default=".*"),
            Argument("excludingConsumers", "a regular expression for those that stay"),
        ),
        _clear_consumers,
        check=_check_consumers,
    ),
    Procedure(
        "purge_files",
        "Removes all rows for good: branches, tags, consumers, old snapshots, all files. No writer may be active.",
        (TABLE,),
        _purge,
        "result string",
    ),
    Procedure(
        "compact_manifest",
        "Rewrites the newest snapshot's manifests into fewer ones, without deletions.",
        (
            TABLE,
            OPTIONS,
            Argument("dry_run", "do nothing", "boolean", default="false"),
            Argument("manifest_sort_enabled", "put entries in the order of a partition column", "boolean"),
            Argument("manifest_sort_partition_field", "which one; the first if left out"),
            Argument("manifest_sort_max_rewrite_size", "most bytes rewritten for the order alone", default="256 mb"),
        ),
        _compact_manifest,
        check=_check_manifests,
    ),
    Procedure(
        "remove_unexisting_files",
        "Drops missing data files from the table. One row a file; their rows are lost.",
        (
            TABLE,
            Argument("dry_run", "only say which", "boolean", default="false"),
            Argument("parallelism", "threads that look", "int"),
        ),
        _remove_missing,
        "fileName string not null",
    ),
    Procedure(
        "remove_unexisting_manifests",
        "Drops missing manifests from the newest snapshot. What they added is lost, and what they deleted may be "
        "back: prefer a rollback to an intact snapshot.",
        (Argument("table", TABLE.doc, required=True, alias="tableId"),),
        _remove_missing_manifests,
        "result string",
        engines="Flink",
    ),
    Procedure(
        "repair_earliest_snapshot",
        "Makes the history begin with a snapshot that follows a gap.",
        (TABLE, Argument("snapshot_id", "the snapshot", "bigint", required=True)),
        _repair_earliest,
        "previous_earliest_snapshot_id bigint not null, current_earliest_snapshot_id bigint not null",
    ),
)
