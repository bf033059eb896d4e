"""What a table's schema and options must satisfy, in Paimon's words, and what this engine does not do yet.

Spec: docs/spec/schema.md#validation
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.options.merge import COMPUTING
from bucketlake.options.options import TableOptions, refuse_options, written_formats
from bucketlake.schema.blobs import check_blobs, refuse_blobs
from bucketlake.schema.chain import check_chain
from bucketlake.schema.clustering import check_clustered
from bucketlake.schema.external_folders import external_folders
from bucketlake.schema.file_indexes import validate_file_indexes
from bucketlake.schema.keyed_indexes import check_keyed_indexes
from bucketlake.schema.map_layouts import check_map_layouts
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.vectors import check_vector_columns
from bucketlake.types.model import DataType, Root, refuse_type
from bucketlake.types.parse import MOST_DEPTH

_SYSTEM_NAMES = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID")
_MOST_BUCKETS = 2**31 - 1
_DEEPEST = {
    "avro": 24,
    "parquet": 49,
}  # maps within maps that their readers take: a level there is two or three of a file
_NESTED = {
    Root.MAP: "MapType",
    Root.ARRAY: "ArrayType",
    Root.ROW: "RowType",
    Root.MULTISET: "MultisetType",
    Root.VECTOR: "VectorType",
    Root.VARIANT: "VariantType",
}


def validate_schema(schema: TableSchema) -> None:
    """Check one schema as a whole: keys, buckets, column names, options against columns.

    Raises: InvalidError in Paimon's words.
    Spec: docs/spec/schema.md#validation
    """
    options = schema.table_options
    _check_depths(schema, options)
    _check_keys(schema)
    _check_bucket_key(schema)
    _check_bucket(schema, options)
    _check_upsert_key(schema, options)
    check_scan_mode(options)
    _check_column_names(schema)
    _check_field_options(schema)
    _check_sequence(schema, options)
    _check_snapshot_ordering(schema, options)
    _check_merge_engine(schema, options)
    _check_changelog(schema, options)
    _check_retention(options)
    _check_special_columns(schema, options)
    _check_deletion_vectors(schema, options)
    _check_row_tracking(schema, options)
    check_blobs(schema)
    check_vector_columns(schema)
    _check_clustering(schema, options)
    _check_formats(schema, options)
    _check_manifest_sort(schema, options)
    check_chain(schema)
    external_folders(options)
    check_map_layouts(schema)
    validate_file_indexes(schema.options, schema.fields)


def _listed(names: Sequence[str]) -> str:
    return "[" + ", ".join(names) + "]"


def _need(condition: bool, message: str, remedy: str | None = None) -> None:
    if not condition:
        raise InvalidError(message, remedy=remedy)


def _need_column(name: str, schema: TableSchema, message: str) -> None:
    if not schema.has_column(name):
        known = schema.field_names
        raise InvalidError(message, remedy=did_you_mean(name, known) or f"columns: {', '.join(known)}")


def _check_keys(schema: TableSchema) -> None:
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidError(
            f"Primary key constraint {_listed(schema.primary_keys)} should not be same with partition fields "
            f"{_listed(schema.partition_keys)}, this will result in only one record in a partition"
        )
    for names, what in ((schema.primary_keys, "primary key"), (schema.partition_keys, "partition")):
        for name in names:
            nested = _NESTED.get(schema.field(name).type.root)
            _need(nested is None, f"The type {nested} in {what} field {name} is unsupported")


def _check_bucket_key(schema: TableSchema) -> None:
    text = schema.options.get("bucket-key", "")
    if not text.strip():
        return
    names, keys = schema.field_names, text.split(",")
    _need(set(keys) <= set(names), f"Field names {_listed(names)} should contains all bucket keys {_listed(keys)}.")
    _need(
        not set(keys) & set(schema.partition_keys),
        f"Bucket keys {_listed(keys)} should not in partition keys {_listed(schema.partition_keys)}.",
    )
    _need(
        not schema.primary_keys or set(keys) <= set(schema.primary_keys),
        f"Primary keys {_listed(schema.primary_keys)} should contains all bucket keys {_listed(keys)}.",
    )


def _check_upsert_key(schema: TableSchema, options: TableOptions) -> None:
    keys = options.names("upsert-key")
    if not keys:
        return
    _need(
        not schema.primary_keys,
        f"Cannot define 'upsert-key' {_listed(keys)} with 'primary-key' {_listed(schema.primary_keys)}.",
    )
    unknown = [name for name in keys if not schema.has_column(name)]
    _need(not unknown, f"Upsert key names no columns of the table: {_listed(unknown)}")
    nested = [name for name in keys if schema.field(name).type.root in _NESTED]
    _need(not nested, f"nested type can not in upsert-key, in your table these key are {_listed(nested)}")


def _check_bucket(schema: TableSchema, options: TableOptions) -> None:
    bucket = schema.bucket
    _need(
        not options.get("bucket.auto") or (bool(schema.primary_keys) and bucket > 0),
        "'bucket.auto' = 'true' needs a primary key and a bucket number greater than 0.",
    )
    _need(bucket <= _MOST_BUCKETS, f"The number of buckets ({bucket}) must not be greater than {_MOST_BUCKETS}.")
    if bucket == -1:
        _need(
            "bucket-key" not in schema.options,
            "Cannot define 'bucket-key' with bucket = -1, please remove the 'bucket-key' setting or specify a bucket "
            "number.",
        )
        _need(
            bool(schema.primary_keys) or not options.is_set("full-compaction.delta-commits"),
            "AppendOnlyTable of unaware or dynamic bucket does not support 'full-compaction.delta-commits'",
        )
        return
    postpone = bucket == -2 and bool(schema.primary_keys)
    _need(bucket >= 1 or postpone, "The number of buckets needs to be greater than 0.")
    _need(
        bool(schema.bucket_keys) or (bucket == 1 and schema.version == 1),
        "You should define a 'bucket-key' for bucketed append mode.",
    )
    nested = [name for name in schema.bucket_keys if schema.field(name).type.root in _NESTED]
    _need(not nested, f"nested type can not in bucket-key, in your table these key are {_listed(nested)}")
    if options.get("bucket-function.type") == "mod":
        kinds = [schema.field(name).type.root for name in schema.bucket_keys]
        _need(
            len(kinds) == 1 and kinds[0] in (Root.INT, Root.BIGINT),
            "bucket key must have one bucket key of INT or BIGINT type in mod bucket function",
        )


_INCREMENTAL = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
_STARTS = {
    "from-timestamp": ("scan.timestamp-millis", "scan.timestamp"),
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "from-file-creation-time": ("scan.file-creation-time-millis",),
    "incremental": _INCREMENTAL,
}


def check_scan_mode(options: TableOptions) -> None:
    """Whether the options name what their `scan.mode` begins with, and nothing else. `scan.version` may stand for what
    from-snapshot asks for: which option it is depends on the table's tags. Errors: InvalidError."""
    mode = options.get("scan.mode")
    if not options.is_set("scan.mode"):
        return
    wanted = _STARTS.get(mode)
    if wanted is not None:
        found = [key for key in wanted if options.is_set(key)]
        later = mode == "from-snapshot" and not found and options.is_set("scan.version")
        _need(
            later or len(found) == 1, f"must set only one key in [{','.join(wanted)}] when you use {mode} for scan.mode"
        )
        others = ("scan.version", *dict.fromkeys(key for keys in _STARTS.values() for key in keys if key not in wanted))
        given = [key for key in others[mode != "incremental" :] if options.is_set(key)]
        _need(not given, f"[{','.join(given)}] must be null when you set [{','.join(found)}]")
        return
    for keys in _STARTS.values():
        for key in keys:
            _need(
                mode in ("default", "from-creation-timestamp") or not options.is_set(key),
                f"{key} must be null when you use {mode} for scan.mode",
            )


def _check_column_names(schema: TableSchema) -> None:
    for name in schema.field_names:
        _need(bool(name.strip()), "Field names must contain at least one non-whitespace character.")
        _need(name not in _SYSTEM_NAMES, f"Field name[{name}] in schema cannot be exist in {_listed(_SYSTEM_NAMES)}")
        _need(not name.startswith("_KEY_"), f"Field name[{name}] in schema cannot start with [_KEY_]")
    for item in schema.fields:
        _check_members(item.type)


def _check_members(t: DataType) -> None:
    repeated = sorted(name for name, times in Counter(item.name for item in t.fields).items() if times > 1)
    _need(not repeated, f"Field names must be unique. Found duplicates: {_listed(repeated)}")
    # Parquet has no such group, avro's take no bytes: how many there are would be anybody's word.
    _need(t.root is not Root.ROW or bool(t.fields), "A ROW needs a member.", "give it one, or take a MAP")
    for part in t.parts:
        _check_members(part)


def _check_field_options(schema: TableSchema) -> None:
    for key in schema.options:
        if not key.startswith("fields."):
            continue
        segments = key.split(".")
        for name in segments[1].split(","):
            if name != "default-aggregate-function":
                _need_column(name, schema, f"Field {name} can not be found in table schema.")
        _need(
            len(segments) <= 3
            or not schema.has_column(segments[1])
            or schema.field(segments[1]).type.root is not Root.ROW,
            f"Nested-field path is not supported on ROW field '{segments[1]}': {key}",
        )


def _check_sequence(schema: TableSchema, options: TableOptions) -> None:
    names = options.names("sequence.field")
    times = Counter(names)
    for name in names:
        _need_column(name, schema, f"Sequence field: '{name}' can not be found in table schema.")
        _need(
            f"fields.{name}.aggregate-function" not in schema.options,
            f"Should not define aggregation on sequence field: '{name}'.",
        )
        _need(times[name] == 1, f"Sequence field '{name}' is defined repeatedly.")
    if names:
        _need(
            options.get("merge-engine") != "first-row", "Do not support use sequence field on FIRST_ROW merge engine."
        )
        _need(
            not schema.cross_partition,
            "You can not use sequence.field in cross partition update case (Primary key constraint "
            f"'{_listed(schema.primary_keys)}' not include all partition fields '{_listed(schema.partition_keys)}').",
        )


def _check_snapshot_ordering(schema: TableSchema, options: TableOptions) -> None:
    if not options.get("sequence.snapshot-ordering"):
        return
    key = "sequence.snapshot-ordering = true"
    _need(
        bool(schema.primary_keys),
        f"{key} requires a primary-key table; append-only tables cannot use snapshot-based sequence ordering.",
    )
    _need(
        not options.names("sequence.field"),
        f"{key} is mutually exclusive with sequence.field; the snapshot id is the sole tiebreaker.",
    )
    _need(
        bool(options.get("write-only")),
        f"{key} requires write-only = true. Snapshot ordering relies on snapshot id to determine record order, but "
        "inline compaction happens before snapshot creation — files have not been stamped with the correct snapshot "
        "id yet. Use dedicated compaction job instead.",
    )


AGGREGATE_FUNCTIONS = (
    "bool_and",
    "bool_or",
    "collect",
    "first_non_null_value",
    "first_not_null_value",
    "first_value",
    "hll_sketch",
    "last_non_null_value",
    "last_value",
    "listagg",
    "max",
    "merge_map",
    "merge_map_with_keytime",
    "min",
    "nested_partial_update",
    "nested_update",
    "product",
    "rbm32",
    "rbm64",
    "sum",
    "theta_sketch",
)
_GROUP = ".sequence-group"
_PARTIAL_ON_DELETE = "partial-update.remove-record-on-delete"
_PARTIAL_ON_GROUP = "partial-update.remove-record-on-sequence-group"
_AGGREGATION_ON_DELETE = "aggregation.remove-record-on-delete"


def sequence_groups(options: TableOptions) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The sequence groups of a partial-update table: (fields compared, the other columns, which follow them)."""
    found = []
    for key in options.raw:
        if key.startswith("fields.") and key.endswith(_GROUP):
            fields = tuple(key.removeprefix("fields.").removesuffix(_GROUP).split(","))
            compared = set(fields)
            found.append((fields, tuple(name for name in options.names(key) if name not in compared)))
    return found


def aggregate_function(options: TableOptions, column: str) -> str | None:
    """The aggregate function that is set for a column, or for all columns."""
    return options.text(f"fields.{column}.aggregate-function") or options.text("fields.default-aggregate-function")


def _check_merge_engine(schema: TableSchema, options: TableOptions) -> None:
    engine = options.get("merge-engine")
    if not schema.primary_keys or engine not in COMPUTING:
        return
    if engine == "partial-update":
        _check_sequence_groups(schema, options)
        _check_partial_deletes(options)
    for name in schema.field_names:
        function = aggregate_function(options, name)
        _need(
            function is None or function in AGGREGATE_FUNCTIONS,
            f"Could not find any factory for identifier '{function}' that implements 'FieldAggregatorFactory'.\n\n"
            "Available factory identifiers are:\n\n" + "\n".join(AGGREGATE_FUNCTIONS),
            did_you_mean(function or "", AGGREGATE_FUNCTIONS),
        )
        ignores = f"fields.{name}.ignore-retract"
        both = options.get(_AGGREGATION_ON_DELETE) and (options.text(ignores) or "").strip().lower() == "true"
        _need(not both, _conflict(_AGGREGATION_ON_DELETE, ignores))


def _check_sequence_groups(schema: TableSchema, options: TableOptions) -> None:
    grouped: set[str] = set()
    sequence: set[str] = set()
    keys = {*schema.primary_keys}
    for fields, columns in sequence_groups(options):
        times = Counter((*fields, *columns))
        key = f"fields.{','.join(fields)}{_GROUP}"
        for name in (*fields, *columns):
            _need_column(name, schema, f"Field {name} can not be found in table schema")
            _need(
                name not in keys,
                f"The sequence-group '{key}' contains primary key field '{name}', which is not allowed. Primary key "
                "columns cannot be put in sequence-group.",
            )
            _need(
                name not in grouped and name not in sequence and times[name] == 1,
                f"Field {name} is defined repeatedly by multiple groups: {key}",
            )
        grouped.update(columns)
        sequence.update(fields)
    for name in schema.field_names:
        function = None if name in sequence or name in keys else aggregate_function(options, name)
        _need(
            function in (None, "last_non_null_value") or name in grouped,
            f"Must use sequence group for aggregation functions but not found for field {name}.",
        )
    on_group = options.text(_PARTIAL_ON_GROUP)
    _need(
        set(options.names(_PARTIAL_ON_GROUP)) <= sequence,
        f"field '{on_group}' defined in '{_PARTIAL_ON_GROUP}' option must be part of sequence groups",
    )


def _check_partial_deletes(options: TableOptions) -> None:
    ignores, removes = bool(options.get("ignore-delete")), bool(options.get(_PARTIAL_ON_DELETE))
    _need(not (ignores and removes), _conflict("ignore-delete", _PARTIAL_ON_DELETE))
    _need(not (ignores and options.is_set(_PARTIAL_ON_GROUP)), _conflict("ignore-delete", _PARTIAL_ON_GROUP))
    _need(not (removes and sequence_groups(options)), _conflict("sequence-group", _PARTIAL_ON_DELETE))


def _conflict(one: str, other: str) -> str:
    return f"{one} and {other} have conflicting behavior so should not be enabled at the same time."


def _check_changelog(schema: TableSchema, options: TableOptions) -> None:
    producer = options.get("changelog-producer")
    _need(
        bool(schema.primary_keys) or producer == "none",
        "Can not set changelog-producer on table without primary keys, please define primary keys.",
    )
    overwrite = options.get("streaming-read-overwrite")
    _need(
        not (overwrite and producer in ("full-compaction", "lookup")),
        "Cannot set streaming-read-overwrite to true when changelog producer is full-compaction or lookup because it "
        "will read duplicated changes.",
    )
    _need(
        bool(schema.primary_keys) or not overwrite,
        "Doesn't support streaming read the changes from overwrite when the primary keys are not defined. Please use "
        "streaming-read-append-overwrite to enable the streaming read overwrite commit for append table.",
    )
    _need(
        not (options.is_set("full-compaction.delta-commits") and producer == "lookup"),
        "'full-compaction.delta-commits' is incompatible with 'changelog-producer'='lookup'.",
    )
    sequence = "table-read.sequence-number.enabled"
    _need(
        bool(schema.primary_keys) or not options.get(sequence),
        f"Cannot enable '{sequence}' for non-primary-key table. Sequence number is only available for primary key "
        "tables.",
    )
    _need(
        options.get("merge-engine") != "first-row" or producer in ("none", "lookup"),
        "Only support 'none' and 'lookup' changelog-producer on FIRST_ROW merge engine",
    )


def _check_retention(options: TableOptions) -> None:
    _need(options.get("target-file-row-num") > 0, "target-file-row-num should be at least 1")
    for what in ("snapshot", "changelog"):
        low_key, high_key = f"{what}.num-retained.min", f"{what}.num-retained.max"
        low = options.get(low_key) if options.is_set(low_key) else options.get("snapshot.num-retained.min")
        high = options.get(high_key) if options.is_set(high_key) else options.get("snapshot.num-retained.max")
        _need(low > 0, f"{low_key} should be at least 1")
        _need(low <= high, f"{low_key} should not be larger than {high_key}")


def _check_special_columns(schema: TableSchema, options: TableOptions) -> None:
    time_field = options.get("record-level.time-field")
    if time_field is not None:
        _need(schema.has_column(time_field), f"Can not find time field {time_field} for record level expire.")
        root = schema.field(time_field).type.root
        _need(
            root in (Root.INT, Root.BIGINT, Root.TIMESTAMP, Root.TIMESTAMP_LTZ),
            "The record level time field type should be one of INT, BIGINT, or TIMESTAMP, but field type is "
            f"{root.value}.",
        )
    kind = options.get("rowkind.field")
    if kind is not None:
        _need_column(kind, schema, f"Rowkind field: '{kind}' can not be found in table schema.")
        root = schema.field(kind).type.root
        _need(
            root in (Root.CHAR, Root.VARCHAR),
            f"only support string type for rowkind, but {kind} is {root.value}",
        )


def _check_deletion_vectors(schema: TableSchema, options: TableOptions) -> None:
    check_clustered(schema)
    check_keyed_indexes(schema)
    if not options.get("deletion-vectors.enabled"):
        return
    _need(
        options.get("changelog-producer") != "full-compaction",
        "Deletion vectors mode is only supported for NONE/INPUT/LOOKUP changelog producer now.",
    )
    _need(
        options.get("merge-engine") != "first-row" or not schema.primary_keys or schema.clustered,
        "First row merge engine does not need deletion vectors because there is no deletion of old data in this merge "
        "engine.",
    )


def _check_row_tracking(schema: TableSchema, options: TableOptions) -> None:
    if options.get("row-tracking.enabled"):
        _need(not schema.primary_keys, "Cannot define primary-key for row tracking table.")
        _need(schema.bucket == -1, "Cannot define bucket for row tracking table, it only support bucket = -1")
    if options.get("data-evolution.enabled"):
        tracked = bool(options.get("row-tracking.enabled"))
        _need(tracked, "Data evolution config must enabled with row-tracking.enabled")
        _need(
            not options.get("clustering.incremental"),
            "Data evolution config must disabled with clustering.incremental",
        )


def _check_clustering(schema: TableSchema, options: TableOptions) -> None:
    if not options.get("clustering.incremental"):
        return
    _need(not schema.primary_keys, "Cannot define primary-key for incremental clustering table.")
    if schema.bucket == -1:
        return
    what = "bucket-append-ordered must be false for incremental clustering table."
    _need(not options.get("bucket-append-ordered"), what)
    _need(
        not options.get("deletion-vectors.enabled"),
        "Cannot enable deletion-vectors for incremental clustering table which bucket is not -1.",
    )


def _check_depths(schema: TableSchema, options: TableOptions) -> None:
    """What is nested deeper is written, but can be read by nobody here: neither the schema nor the rows."""
    formats = written_formats(options)
    most = min([MOST_DEPTH, *(_DEEPEST[name] for name in formats if name in _DEEPEST)])
    for item in schema.fields:
        _need(
            not item.type.is_deeper(most),
            f"Types can be nested {most} deep in {', '.join(sorted(formats))}, column '{item.name}' is nested deeper.",
            "take its inner types apart, or store them as text",
        )


def _check_formats(schema: TableSchema, options: TableOptions) -> None:
    formats = written_formats(options)
    for item in schema.fields:
        precise = item.type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (item.type.precision or 0) > 6
        _need(
            not (precise and "avro" in formats),
            f"Avro supports timestamp precision up to 6, column '{item.name}' has {item.type.precision}.",
        )
    without = sorted(formats - {"parquet"}) if any(item.type.holds(Root.VARIANT) for item in schema.fields) else []
    _need(not without, f"VARIANT is supported by file.format parquet alone, not by {', '.join(without)}.")
    vectors = any(item.type.root is Root.VECTOR for item in schema.fields)
    without = sorted(formats - {"parquet", "avro"}) if vectors else []
    _need(not without, f"VECTOR is supported by file.format parquet and avro, not by {', '.join(without)}.")


# ---------------------------------------------------------------------------------------------- not yet


def _check_manifest_sort(schema: TableSchema, options: TableOptions) -> None:
    sorts = options.get("manifest-sort.enabled") and not options.get("data-evolution.enabled")
    _need(not sorts or bool(schema.partition_keys), "Cannot enable 'manifest-sort.enabled' for non-partition table.")
    name = options.get("manifest-sort.partition-field")
    known = f"'manifest-sort.partition-field' must be one of the partition fields {list(schema.partition_keys)}"
    _need(name is None or name in schema.partition_keys, f"{known}, but is '{name}'.")


def refuse_nameless_folders(schema: TableSchema) -> None:
    """InvalidError for a new table of which no row with a value could be written: what Java prints of bytes is another
    text each time, and names no folder."""
    binary = next(
        (n for n in schema.partition_keys if schema.field(n).type.root in (Root.BINARY, Root.VARBINARY)), None
    )
    if binary is not None and schema.table_options.get("partition.legacy-name"):
        raise nameless_folder(column=binary)


def nameless_folder(**details: str) -> InvalidError:
    """The error about a BINARY partition column."""
    return InvalidError(
        "BINARY columns cannot partition a table whose folders are named as Java prints values",
        remedy="create the table with 'partition.legacy-name' = 'false', or partition by another column",
        **details,
    )


def refuse_undelivered(schema: TableSchema, for_writing: bool = True) -> None:
    """Raise UnsupportedError by name for what this engine cannot do yet, before anything is read or written.

    For reading only what could make rows wrong is refused. A line goes when its feature is delivered.
    """
    refuse_options(schema.options, for_writing=for_writing)
    refuse_shape(schema)


def refuse_shape(schema: TableSchema) -> None:
    """As `refuse_undelivered`, but for what one option alone says: for a schema whose new options were validated."""
    for item in schema.fields:
        refuse_type(item.type)
    refuse_blobs(schema)
    options, keyed = schema.table_options, bool(schema.primary_keys)
    _refuse_orders(schema, options)
    ordered = bool(options.get("sequence.snapshot-ordering")) and schema.bucket == -2
    _refuse(keyed and ordered, "sequence.snapshot-ordering", "true with bucket = -2")


def _refuse_orders(schema: TableSchema, options: TableOptions) -> None:
    """Nested types have no order here: they cannot say which row is newer."""
    if not schema.primary_keys:
        return
    ordering = {"sequence.field": options.names("sequence.field")}
    if options.get("merge-engine") == "partial-update":
        ordering.update({f"fields.{','.join(fields)}{_GROUP}": list(fields) for fields, _ in sequence_groups(options)})
    for key, names in ordering.items():
        nested = [name for name in names if schema.has_column(name) and schema.field(name).type.root in _NESTED]
        _refuse(bool(nested), key, options.text(key))


def _refuse(found: bool, option: str, value: object) -> None:
    if found:
        raise UnsupportedError(
            f"'{option}' = '{str(value).lower()}' is not supported yet", remedy="use a table without it"
        )
