"""What a table was and is: `$snapshots`, `$schemas`, `$options`, `$tags`, `$branches`, `$consumers`, `$statistics`,
`$aggregation_fields`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from bucketlake.errors import CorruptError, NotFoundError
from bucketlake.format.guard import decoding, json_object
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.metadata.statistics import ANEW, decode_statistics
from bucketlake.lazy import pa
from bucketlake.ops.system.model import (
    BATCH,
    LONG,
    MOMENT,
    TEXT,
    Ask,
    Column,
    SystemTable,
    columns_table,
    each,
    listed,
    longs,
    shown_selection,
    texts,
)
from bucketlake.ops.system.texts import hash_order
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import TableSchema, pretty_json
from bucketlake.types.model import DataField, format_field, type_text
from bucketlake.values import dataclass

# ---------------------------------------------------------------------------------------------- snapshots

SNAPSHOT_FIELDS = columns_table(
    ("snapshot_id", LONG, False),
    ("schema_id", LONG, False),
    ("commit_user", TEXT, False),
    ("commit_identifier", LONG, False),
    ("commit_kind", TEXT, False),
    ("commit_time", MOMENT, False),
    ("base_manifest_list", TEXT, False),
    ("delta_manifest_list", TEXT, False),
    ("changelog_manifest_list", TEXT, True),
    ("total_record_count", LONG, True),
    ("delta_record_count", LONG, True),
    ("changelog_record_count", LONG, True),
    ("watermark", LONG, True),
    ("next_row_id", LONG, True),
    ("operation", TEXT, True),
    ("writer_version", TEXT, True),
)


def _snapshots(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    ids = ask.kept(SNAPSHOT_FIELDS[0], store.snapshot_ids())
    columns = {
        "snapshot_id": longs(lambda found: found.id),
        "schema_id": longs(lambda found: found.schema_id),
        "commit_user": texts(lambda found: found.commit_user),
        "commit_identifier": longs(lambda found: found.commit_identifier),
        "commit_kind": texts(lambda found: found.commit_kind.value),
        "commit_time": _moments(lambda found: found.time_millis),
        "base_manifest_list": texts(lambda found: found.base_manifest_list),
        "delta_manifest_list": texts(lambda found: found.delta_manifest_list),
        "changelog_manifest_list": texts(lambda found: found.changelog_manifest_list),
        "total_record_count": longs(lambda found: found.total_record_count),
        "delta_record_count": longs(lambda found: found.delta_record_count),
        "changelog_record_count": longs(lambda found: found.changelog_record_count),
        "watermark": longs(lambda found: found.watermark),
        "next_row_id": longs(lambda found: found.next_row_id),
        "operation": texts(lambda found: found.operation),
        "writer_version": texts(lambda found: found.unknown.get("writerVersion")),
    }
    for start in range(0, len(ids), BATCH):
        found = parallel(store.find_snapshot, ids[start : start + BATCH], store.manifest_threads)
        there = [snapshot for snapshot in found if snapshot is not None]
        yield from listed(SNAPSHOT_FIELDS, ask, there, columns)


def _moments(value: Callable[[Any], int | None]) -> Column[Any]:
    """Epoch milliseconds as local times."""
    return each(pa.timestamp("ms"), lambda item: local_time(value(item)))


def local_time(millis: int | None) -> datetime | None:
    """The wall clock of this process at a moment."""
    if millis is None:
        return None
    moment = datetime.fromtimestamp(millis // 1000, timezone.utc).astimezone().replace(tzinfo=None)
    return moment.replace(microsecond=millis % 1000 * 1000)


# ---------------------------------------------------------------------------------------------- schemas, options

SCHEMA_FIELDS = columns_table(
    ("schema_id", LONG, False),
    ("fields", TEXT, False),
    ("partition_keys", TEXT, False),
    ("primary_keys", TEXT, False),
    ("options", TEXT, False),
    ("comment", TEXT, True),
    ("update_time", MOMENT, False),
)
OPTION_FIELDS = columns_table(("key", TEXT, False), ("value", TEXT, False))
AGGREGATION_FIELDS = columns_table(
    ("field_name", TEXT, False),
    ("field_type", TEXT, False),
    ("function", TEXT, True),
    ("function_options", TEXT, True),
    ("comment", TEXT, True),
)


def stored_schema(store: Store, schema_id: int | None = None) -> TableSchema:
    """A schema as its file has it, without options of a handle; by default the newest."""
    if schema_id is None:
        ids = store.schema_ids()
        if not ids:
            raise NotFoundError("Table not exists.", path=store.paths.root, remedy="check the path")
        schema_id = ids[-1]
    path = store.paths.schema(schema_id)
    return TableSchema.decode(store.env.storage.read(path), path, schema_id)


def _schemas(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    ids = ask.kept(SCHEMA_FIELDS[0], store.schema_ids())
    found = parallel(lambda number: stored_schema(store, number), ids, store.manifest_threads)
    columns = {
        "schema_id": longs(lambda schema: schema.id),
        "fields": texts(lambda schema: flat_json([format_field(item) for item in schema.fields])),
        "partition_keys": texts(lambda schema: flat_json(list(schema.partition_keys))),
        "primary_keys": texts(lambda schema: flat_json(list(schema.primary_keys))),
        "options": texts(lambda schema: flat_json(_ordered(schema.options))),
        "comment": texts(lambda schema: schema.comment),
        "update_time": _moments(lambda schema: schema.time_millis),
    }
    yield from listed(SCHEMA_FIELDS, ask, found, columns)


def flat_json(value: Any) -> str:
    """JSON in one line, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _ordered(options: Mapping[str, str]) -> dict[str, str]:
    return {key: options[key] for key in hash_order(options)}


def option_rows(pairs: Sequence[tuple[str, str]], ask: Ask) -> Iterator[pa.RecordBatch]:
    """Options as rows."""
    yield from listed(
        OPTION_FIELDS, ask, pairs, {"key": texts(lambda pair: pair[0]), "value": texts(lambda pair: pair[1])}
    )


def _options(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    yield from option_rows(list(_ordered(stored_schema(store).options).items()), ask)


def _aggregations(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    schema = stored_schema(store)
    functions: dict[str, list[str]] = {}
    settings: dict[str, list[str]] = {}
    for key, value in _ordered(schema.options).items():
        parts = key.rstrip(".").split(".")
        if len(parts) > 2 and parts[0] == "fields":
            functions.setdefault(parts[1], []).append(value)
            settings.setdefault(parts[1], []).append(key)
    columns = {
        "field_name": texts(lambda item: item.name),
        "field_type": texts(lambda item: type_text(item.type)),
        "function": texts(lambda item: f"[{', '.join(functions.get(item.name, []))}]"),
        "function_options": texts(lambda item: f"[{', '.join(settings.get(item.name, []))}]"),
        "comment": texts(lambda item: item.description),
    }
    yield from listed(AGGREGATION_FIELDS, ask, list[DataField](schema.fields), columns)


# ---------------------------------------------------------------------------------------- tags, branches, consumers

TAG_FIELDS = columns_table(
    ("tag_name", TEXT, False),
    ("snapshot_id", LONG, False),
    ("schema_id", LONG, False),
    ("commit_time", MOMENT, False),
    ("record_count", LONG, True),
    ("create_time", MOMENT, True),
    ("time_retained", TEXT, True),
)
BRANCH_FIELDS = columns_table(("branch_name", TEXT, False), ("create_time", MOMENT, False))
CONSUMER_FIELDS = columns_table(("consumer_id", TEXT, False), ("next_snapshot_id", LONG, False))


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    snapshot: Snapshot


def _tags(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    names = ask.kept(TAG_FIELDS[0], store.tag_names())
    found = parallel(store.find_tag, names, store.manifest_threads)
    there = [_Tag(name, tag) for name, tag in zip(names, found, strict=True) if tag is not None]
    columns = {
        "tag_name": texts(lambda tag: tag.name),
        "snapshot_id": longs(lambda tag: tag.snapshot.id),
        "schema_id": longs(lambda tag: tag.snapshot.schema_id),
        "commit_time": _moments(lambda tag: tag.snapshot.time_millis),
        "record_count": longs(lambda tag: tag.snapshot.total_record_count),
        "create_time": each(pa.timestamp("ms"), lambda tag: _created(store, tag)),
        "time_retained": texts(lambda tag: _retained(store, tag)),
    }
    yield from listed(TAG_FIELDS, ask, there, columns)


def _created(store: Store, tag: _Tag) -> datetime | None:
    """A tag's `tagCreateTime`: year, month, day, hour, minute, second, nanosecond; the last ones may be left out."""
    parts = tag.snapshot.unknown.get("tagCreateTime")
    if parts is None:
        return None
    with decoding("not a tag", store.paths.tag(tag.name)):
        if isinstance(parts, str):
            moment = datetime.fromisoformat(parts[:26])
        else:
            numbers = [int(part) for part in parts] + [0] * (7 - len(parts))
            year, month, day, hour, minute, second, nanos = numbers
            moment = datetime(year, month, day, hour, minute, second, nanos // 1000)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _retained(store: Store, tag: _Tag) -> str | None:
    """A tag's `tagTimeRetained`, seconds, as Java's Duration prints it."""
    seconds = tag.snapshot.unknown.get("tagTimeRetained")
    if seconds is None or isinstance(seconds, str):
        return seconds
    with decoding("not a tag", store.paths.tag(tag.name)):
        return duration_text(Decimal(str(seconds)))


def duration_text(seconds: Decimal) -> str:
    """`PT24H`, `PT1M30.5S`: Java's text of a duration."""
    if not seconds:
        return "PT0S"
    whole = int(seconds.to_integral_value(rounding="ROUND_DOWN"))
    rest = seconds - whole
    minutes, second = abs(whole) // 60, abs(whole) % 60
    sign = "-" if seconds < 0 else ""
    hour, minute = divmod(minutes, 60)
    text = "PT" + (f"{sign}{hour}H" if hour else "") + (f"{sign}{minute}M" if minute else "")
    if not second and not rest:
        return text
    fraction = f"{abs(rest):.9f}"[1:].rstrip("0").rstrip(".")
    return f"{text}{sign}{second}{fraction}S"


def _branches(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    names = ask.kept(BRANCH_FIELDS[0], store.branches())
    columns = {
        "branch_name": lambda found: pa.array(found, pa.string()),
        "create_time": _moments(lambda name: _branched(store, name)),
    }
    yield from listed(BRANCH_FIELDS, ask, names, columns)


def _branched(store: Store, name: str) -> int:
    """When a branch was made: the time of its oldest schema file."""
    infos = store.env.storage.list(f"{store.paths.branch(name)}/schema")
    return min((info.modified_millis for info in infos if not info.is_dir), default=0)


def _consumers(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    found = list(store.consumers().items())
    columns = {"consumer_id": texts(lambda one: one[0]), "next_snapshot_id": longs(lambda one: one[1])}
    yield from listed(CONSUMER_FIELDS, ask, found, columns)


# ---------------------------------------------------------------------------------------------- statistics

STATISTICS_FIELDS = columns_table(
    ("snapshot_id", LONG, False),
    ("schema_id", LONG, False),
    ("mergedRecordCount", LONG, True),
    ("mergedRecordSize", LONG, True),
    ("colstat", TEXT, True),
)


def _statistics(store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    snapshot = shown_selection(store).snapshot
    if snapshot is None or snapshot.statistics is None:
        return
    path = store.paths.statistics(snapshot.statistics)
    try:
        data = store.env.storage.read(path)
    except NotFoundError as error:
        raise CorruptError("the table's statistics are missing", path=path, remedy=ANEW) from error
    decode_statistics(data, path)
    found = json_object(data)
    stats = pretty_json(found.get("colStats") or {})
    columns = {
        "snapshot_id": longs(lambda one: one["snapshotId"]),
        "schema_id": longs(lambda one: one["schemaId"]),
        "mergedRecordCount": longs(lambda one: one.get("mergedRecordCount")),
        "mergedRecordSize": longs(lambda one: one.get("mergedRecordSize")),
        "colstat": lambda items: pa.array([stats] * len(items), pa.string()),
    }
    yield from listed(STATISTICS_FIELDS, ask, [found], columns)


# ---------------------------------------------------------------------------------------------- the tables

SNAPSHOTS = SystemTable(
    "snapshots",
    SNAPSHOT_FIELDS,
    _snapshots,
    ("snapshot_id",),
    about={
        "snapshot_id": "number of the snapshot; a condition on it leaves out the others' files",
        "schema_id": "schema that was in force",
        "commit_user": "who committed: the name that the writer gave itself",
        "commit_identifier": "number of the commit within that writer",
        "commit_kind": "APPEND, COMPACT, OVERWRITE or ANALYZE",
        "commit_time": "when, by the clock of the reader's time zone",
        "base_manifest_list": "file that lists what was there before",
        "delta_manifest_list": "file that lists what the commit changed",
        "changelog_manifest_list": "file that lists the changelog, where there is one",
        "total_record_count": "records in all files, before merging",
        "delta_record_count": "records that the commit added, less those that it removed",
        "changelog_record_count": "records of the changelog",
        "watermark": "watermark of the input, in milliseconds",
        "next_row_id": "first row id that is free, of tables with row tracking",
        "operation": "what the commit was made for: WRITE, DELETE, …",
        "writer_version": "version of the writer, where it left one",
    },
)
SCHEMAS = SystemTable(
    "schemas",
    SCHEMA_FIELDS,
    _schemas,
    ("schema_id",),
    about={
        "schema_id": "number of the schema; a condition on it leaves out the others' files",
        "fields": "columns, as JSON",
        "partition_keys": "partition columns, as JSON",
        "primary_keys": "primary key, as JSON",
        "options": "options of the table, as JSON",
        "comment": "comment of the table",
        "update_time": "when the schema was made",
    },
)
OPTIONS = SystemTable(
    "options",
    OPTION_FIELDS,
    _options,
    ("key",),
    about={"key": "option of the newest schema", "value": "its value"},
)
AGGREGATIONS = SystemTable(
    "aggregation_fields",
    AGGREGATION_FIELDS,
    _aggregations,
    ("field_name",),
    about={
        "field_name": "column",
        "field_type": "its type",
        "function": "values of its options `fields.<column>.…`: `[sum]`",
        "function_options": "names of these options",
        "comment": "its comment",
    },
)
TAGS = SystemTable(
    "tags",
    TAG_FIELDS,
    _tags,
    ("tag_name",),
    about={
        "tag_name": "name of the tag; a condition on it leaves out the others' files",
        "snapshot_id": "snapshot that it holds",
        "schema_id": "schema of that snapshot",
        "commit_time": "when the snapshot was committed",
        "record_count": "records in all files of the snapshot, before merging",
        "create_time": "when the tag was made, if that was recorded",
        "time_retained": "how long it is kept (`PT24H`), null for ever",
    },
)
BRANCHES = SystemTable(
    "branches",
    BRANCH_FIELDS,
    _branches,
    ("branch_name",),
    about={"branch_name": "name of the branch", "create_time": "when it was made: the time of its oldest schema file"},
)
CONSUMERS = SystemTable(
    "consumers",
    CONSUMER_FIELDS,
    _consumers,
    ("consumer_id",),
    about={"consumer_id": "name of the consumer", "next_snapshot_id": "snapshot that it reads next"},
)
STATISTICS = SystemTable(
    "statistics",
    STATISTICS_FIELDS,
    _statistics,
    ("snapshot_id",),
    travels=True,
    about={
        "snapshot_id": "snapshot that was analysed",
        "schema_id": "its schema",
        "mergedRecordCount": "rows, after merging",
        "mergedRecordSize": "bytes of these rows",
        "colstat": "statistics of columns, as JSON",
    },
)
