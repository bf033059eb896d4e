"""`files`, `snapshots`, `tags`, `branches`, `consumers`, `usage`, `plan`: what a table consists of, and its history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.cli.answer import Facts, Rows, columns, local_millis, shown
from bucketlake.cli.command import READING, WithFormat, add
from bucketlake.cli.grammar import Group, Option
from bucketlake.cli.text import aligned, look_of, table
from bucketlake.cli.warehouse import OfTable, Travel, Where, partition_text
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.ops.scan.scan import Plan
    from bucketlake.ops.table import wall_clock
    from bucketlake.table import Table
else:
    wall_clock = lazy("bucketlake.ops.table.wall_clock")


class Limited(WithFormat):
    """A list that may be cut."""

    limit: Annotated[int | None, Option("--limit", "-n", min=0, help="At most this many, the newest.")] = None


class Files(OfTable, Where, Travel, WithFormat):
    """What `files` takes."""

    limit: Annotated[int | None, Option("--limit", "-n", min=0, help="At most this many.")] = None


def files(given: Files) -> Rows:
    """List the data files of a table, all or those a query needs."""
    found = given.plain_table().files(given.where, **given.travel())
    rows = []
    for one in found[: given.limit]:
        file = one.file
        made = None if file.creation_time is None else wall_clock.local_to_epoch(file.creation_time)
        place = (partition_text(one.partition), one.bucket, file.level)
        numbers = (file.row_count, file.file_size, file.min_sequence_number, file.max_sequence_number)
        rows.append((*place, *numbers, file.schema_id, made, one.path))
    return Rows(rows, hint="no data files")


class Snapshots(OfTable, Limited):
    """What `snapshots` takes."""


def snapshots(given: Snapshots) -> Rows:
    """List the snapshots of a table, newest first."""
    store = given.plain_table().store
    names: dict[int, list[str]] = {}
    for name, tag in store.tags().items():
        names.setdefault(tag.id, []).append(name)
    rows: list[tuple[Any, ...]] = []
    for one in store.snapshots(newest_first=True):
        if given.limit is not None and len(rows) >= given.limit:
            break
        told = (one.id, one.time_millis, one.commit_kind.value, one.operation, one.commit_user)
        counts = (one.total_record_count, one.delta_record_count, one.changelog_record_count)
        rows.append((*told, *counts, one.schema_id, one.watermark, sorted(names.get(one.id, []))))
    return Rows(rows, hint="nothing was committed yet")


class Tags(OfTable, WithFormat):
    """What `tags` takes."""


def tags(given: Tags) -> Rows:
    """List the tags of a table and the snapshots that they hold."""
    rows = [
        (
            one["tag_name"],
            one["snapshot_id"],
            local_millis(one["commit_time"]),
            one["record_count"],
            local_millis(one["create_time"]),
            one["time_retained"],
        )
        for one in given.system("tags")
    ]
    return Rows(rows, hint="no tags; bucketlake tag create TABLE NAME makes one")


class Branches(OfTable, WithFormat):
    """What `branches` takes."""


def branches(given: Branches) -> Rows:
    """List the branches of a table."""
    rows = [(one["branch_name"], local_millis(one["create_time"])) for one in given.system("branches")]
    return Rows(rows, hint="no branches; bucketlake branch create TABLE NAME makes one")


class Consumers(OfTable, WithFormat):
    """What `consumers` takes."""


def consumers(given: Consumers) -> Rows:
    """List the consumers of a table, and how far each is behind."""
    found = given.plain_table()
    newest = found.store.latest_snapshot_id() or 0
    rows = [(name, int(number), max(newest + 1 - number, 0)) for name, number in found.consumers().items()]
    return Rows(sorted(rows), hint="no consumers")


class Usage(OfTable, WithFormat):
    """What `usage` takes."""


def usage(given: Usage) -> Rows:
    """Show where the bytes of a table's folder are."""
    found = given.plain_table().usage()
    rows = [(one.kind, one.holder, one.files, one.bytes) for one in found.held]
    notes = (f"total  {shown(found.total, 'size')}",)
    return Rows(rows, notes=notes)


class Planning(OfTable, Where, Travel):
    """What `plan` takes."""

    columns: Annotated[str | None, Option(help="Columns that would be read, separated by commas.")] = None


def plan(given: Planning) -> Facts:
    """Show what a query would open: files, splits, bytes."""
    found = given.plain_table()
    names = None if given.columns is None else [one.strip() for one in given.columns.split(",")]
    read = found.plan(given.where, names, **given.travel())
    every = found.plan(None, names, **given.travel())
    values = _planned(found, read, every)
    return Facts(values, text=list(_plan_text(values)))


def _planned(found: Table, read: Plan, every: Plan) -> dict[str, Any]:
    splits = [split for _, split in read.splits_of(found.store)]
    whole = [split for _, split in every.splits_of(found.store)]
    rows = []
    for store, split in read.splits_of(found.store):
        size = sum(file.file_size for file in split.files)
        records = sum(file.row_count for file in split.files)
        place = partition_text(store.paths.shown_texts(split.partition))
        kind = "as it is" if split.raw else "merged"
        told = {"partition": place, "bucket": split.bucket, "read": kind, "files": len(split.files)}
        rows.append({**told, "records": records, "bytes": size})
    return {
        "snapshot": None if read.snapshot is None else read.snapshot.id,
        "files": sum(len(split.files) for split in splits),
        "files_in_all": sum(len(split.files) for split in whole),
        "bytes": read.size,
        "bytes_in_all": every.size,
        "records": read.row_count,
        "splits": rows,
    }


def _plan_text(values: dict[str, Any]) -> Iterator[str]:
    look = look_of(sys.stdout)
    files = f"{values['files']:,} of {values['files_in_all']:,}"
    size = f"{shown(values['bytes'], 'size')} of {shown(values['bytes_in_all'], 'size')}"
    told = [("snapshot", shown(values["snapshot"], "json")), ("files", files), ("bytes", size)]
    yield from aligned([*told, ("records", f"{values['records']:,}")], look)
    if values["splits"]:
        yield ""
        head = ["partition", "bucket", "read", "files", "records", "bytes"]
        kinds = ["text", "json", "text", "count", "count", "size"]
        cells = [[shown(one[name], kind) for name, kind in zip(head, kinds, strict=True)] for one in values["splits"]]
        yield from table(head, cells, [False, True, False, True, True, True], look)


FILES = columns(
    partition="the partition, `dt=2026-01-01`; empty where there is none",
    bucket="id: bucket",
    level="id: level in the bucket's LSM tree",
    records="count: records in it",
    bytes="size: its size",
    min_sequence="id: smallest sequence number",
    max_sequence="id: largest sequence number",
    schema_id="id: schema that it was written with",
    created="time: when it was written",
    path="its path",
)
SNAPSHOTS = columns(
    snapshot="id: its id",
    time="time: when it was committed",
    kind="APPEND, COMPACT, OVERWRITE or ANALYZE",
    operation="what the commit was made for, where that was recorded",
    user="who committed: the name that the writer gave itself",
    records="count: records in all files, superseded ones included",
    added="count: records that the commit added, less those that it removed",
    changelog="count: records of its changelog",
    schema_id="id: schema that was in force",
    watermark="json: of the input, epoch milliseconds",
    tags="list: tags that hold it",
)


def register(app: Group) -> None:
    """Register the family."""
    add(app, files, panel=READING, answers=("rows", FILES))
    add(app, snapshots, panel=READING, answers=("rows", SNAPSHOTS))
    tag = columns(
        tag="its name",
        snapshot="id: id of the snapshot that it holds",
        committed="time: when that was committed",
        records="count: records in its files",
        created="time: when the tag was made, where that was recorded",
        kept_for="how long it is kept (`PT24H`); null for ever",
    )
    add(app, tags, panel=READING, answers=("rows", tag))
    add(app, branches, panel=READING, answers=("rows", columns(branch="its name", created="time: when it was made")))
    consumer = columns(
        consumer="its name",
        next_snapshot="id: the snapshot that it reads next",
        behind="count: snapshots that it has yet to read",
    )
    add(app, consumers, panel=READING, answers=("rows", consumer))
    held = columns(
        kind="live, history, changelog, index, metadata, orphans or foreign",
        holder="of history: the snapshot, tag or branch that keeps it",
        files="count: files",
        bytes="size: their size",
    )
    add(app, usage, panel=READING, answers=("rows", held))
    planned = columns(
        snapshot="id: the snapshot that would be read; null where there is none",
        files="count: data files that would be opened",
        files_in_all="count: data files without the condition",
        bytes="size: of the files that would be opened",
        bytes_in_all="size: of all",
        records="count: records in the files that would be opened",
        splits="json: what tasks would read: partition, bucket, read (`as it is` or `merged`), files, records, bytes",
    )
    add(app, plan, panel=READING, answers=("facts", planned))
