"""The schema of a table: columns, keys and options of one version, and its file form.

    {version, id, fields, highestFieldId, partitionKeys, primaryKeys, options, comment?, timeMillis}

Spec: docs/spec/schema.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import Any

from bucketlake.errors import (
    BucketlakeError,
    CorruptError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
    did_you_mean,
    names_listed,
)
from bucketlake.options.options import TableOptions, near_misses, option_text
from bucketlake.redaction import redact_options
from bucketlake.types.ids import highest_id
from bucketlake.types.model import DataField, DataType, Root, format_field, in_blob_file, type_text
from bucketlake.types.parse import MOST_DEPTH, parse_field
from bucketlake.types.wall_clock import EARLIEST_MILLIS, LATEST_MILLIS
from bucketlake.values import dataclass

VERSION = 3
KEY_FIELD_ID_START = 1073741823
SEQUENCE_FIELD = DataField(2147483646, "_SEQUENCE_NUMBER", DataType(Root.BIGINT, nullable=False))
KIND_FIELD = DataField(2147483645, "_VALUE_KIND", DataType(Root.TINYINT, nullable=False))
ROW_ID_FIELD = DataField(2147483642, "_ROW_ID", DataType(Root.BIGINT, nullable=False))
TRACKING_FIELDS = (ROW_ID_FIELD, SEQUENCE_FIELD)
TRACKING = tuple(item.name for item in TRACKING_FIELDS)


class BucketMode(str, Enum):
    """How rows find their bucket."""

    FIXED = "fixed"  # bucket > 0: hash of the bucket key
    DYNAMIC = "dynamic"  # -1, primary key holds all partition columns: hash index
    KEY_DYNAMIC = "key-dynamic"  # -1, primary key across partitions: key index
    UNAWARE = "unaware"  # -1, no primary key: all in bucket 0
    POSTPONE = "postpone"  # -2: written aside, bucketed by compaction


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema. Field ids are unique, nested ones included, and at most `highest_field_id`.

    `time_millis`: epoch milliseconds of its making, 0 if unknown.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = None  # type: ignore[assignment]
    comment: str | None = None
    time_millis: int = 0
    version: int = VERSION

    def __post_init__(self) -> None:
        """Lists become tuples, options a dict of their own."""
        for name in ("fields", "partition_keys", "primary_keys"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "options", dict(self.options or {}))

    def __repr__(self) -> str:
        """What people look for, without the secrets that options may hold; `dataclasses.asdict` has all fields."""
        columns = ", ".join(f"{item.name} {type_text(item.type)}" for item in self.fields)
        told: dict[str, Any] = {"partition_keys": [*self.partition_keys], "primary_keys": [*self.primary_keys]}
        told |= {"options": redact_options(self.options), "comment": self.comment}
        return f"TableSchema(id={self.id}, [{columns}]{''.join(f', {k}={v!r}' for k, v in told.items() if v)})"

    def __hash__(self) -> int:
        return hash((self.id, self.fields, self.partition_keys, self.primary_keys, self.time_millis))

    def __getstate__(self) -> dict[str, Any]:
        """Only the fields travel; cached properties are made again."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    # ---- columns and keys

    @cached_property
    def _by_name(self) -> dict[str, DataField]:
        return {item.name: item for item in self.fields}

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(item.name for item in self.fields)

    def field(self, name: str) -> DataField:
        """The column of this name; NotFoundError if there is none."""
        found = self._by_name.get(name)
        if found is None:
            names = list(self.field_names)
            raise NotFoundError("no such column", column=name, columns=names, remedy=did_you_mean(name, names))
        return found

    def select(self, names: Sequence[str]) -> tuple[DataField, ...]:
        """The columns of these names, in the order given."""
        return tuple(self.field(name) for name in names)

    @property
    def next_field_id(self) -> int:
        """The id of the next new column: above all that columns have, also where the file says less than they have."""
        return max(self.highest_field_id, highest_id(self.fields)) + 1

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in key order."""
        return self.select(self.partition_keys)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary-key columns without partition columns: what orders and identifies rows inside a partition."""
        partitions = set(self.partition_keys)
        return tuple(name for name in self.primary_keys if name not in partitions)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns whose hash is the bucket: option 'bucket-key', else the trimmed primary key; empty if unaware."""
        text = self.options.get("bucket-key", "")
        return tuple(text.split(",")) if text.strip() else self.trimmed_primary_keys

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The key columns of data files: "_KEY_<name>", id + 1073741823, one per trimmed primary key."""
        keys = self.select(self.trimmed_primary_keys)
        return tuple(replace(f, id=f.id + KEY_FIELD_ID_START, name=f"_KEY_{f.name}", description=None) for f in keys)

    @cached_property
    def clustered(self) -> bool:
        """Whether files of keyed rows above level 0 are in the order of other columns than the key's: option
        'pk-clustering-override'."""
        return bool(self.primary_keys) and bool(self.table_options.get("pk-clustering-override"))

    def bound_fields(self, level: int) -> tuple[DataField, ...]:
        """The columns of a file's `min_key` and `max_key`: of its first and last row."""
        if not self.clustered or level == 0:
            return self.key_fields
        return tuple(self.select(self.table_options.names("clustering.columns")))

    @cached_property
    def key_value_fields(self) -> tuple[DataField, ...]:
        """The layout of primary-key rows in memory: keys, _SEQUENCE_NUMBER, _VALUE_KIND, then all columns."""
        return (*self.key_fields, SEQUENCE_FIELD, KIND_FIELD, *self.fields)

    @cached_property
    def file_fields(self) -> tuple[DataField, ...]:
        """The columns of data files written with this schema; 'data-file.thin-mode' leaves the keys out."""
        if not self.primary_keys:
            return self.fields
        return self.key_value_fields[len(self.key_fields) :] if self.thin_mode else self.key_value_fields

    @cached_property
    def tracks_rows(self) -> bool:
        """Whether rows have ids: option 'row-tracking.enabled'."""
        return bool(self.table_options.get("row-tracking.enabled"))

    @cached_property
    def data_evolution(self) -> bool:
        """Whether a row may have its columns in several files: option 'data-evolution.enabled'."""
        return bool(self.table_options.get("data-evolution.enabled"))

    @cached_property
    def blob_fields(self) -> tuple[DataField, ...]:
        """The columns whose values lie in blob files, row by row."""
        return () if self.primary_keys else self._blobs

    @cached_property
    def managed_fields(self) -> tuple[DataField, ...]:
        """The columns of a table with a primary key whose values lie in packs, and descriptors of them in the rows."""
        return self._blobs if self.primary_keys else ()

    @cached_property
    def _blobs(self) -> tuple[DataField, ...]:
        apart = self.table_options.names("blob-descriptor-field")
        return tuple(item for item in self.fields if in_blob_file(item.type) and item.name not in apart)

    @cached_property
    def described_fields(self) -> tuple[DataField, ...]:
        """The columns that hold descriptors of blobs, which lie elsewhere: option 'blob-descriptor-field'."""
        names = self.table_options.names("blob-descriptor-field")
        return tuple(item for item in self.fields if item.type.root is Root.BLOB and item.name in names)

    @cached_property
    def without_blobs(self) -> TableSchema:
        """The columns that lie in files of the table's format."""
        apart = set(self.blob_fields)
        return replace(self, fields=tuple(item for item in self.fields if item not in apart)) if apart else self

    def stats_fields(self, names: Sequence[str] | None) -> tuple[DataField, ...]:
        """The columns that statistics with these names (`DataFile.stats_columns`) speak of. CorruptError where this, by
        which the file was written, has them not."""
        if names is None:
            return self.fields
        known = {item.name: item for item in (*self.fields, *(TRACKING_FIELDS if self.tracks_rows else ()))}
        if unknown := [name for name in names if name not in known]:
            raise CorruptError(
                "a manifest says that a file has columns which its schema has not",
                column=unknown[0][:100],
                schema=self.id,
                remedy="see `bucketlake fsck`",
            )
        return tuple(known[name] for name in names)

    def has_column(self, path: str | Sequence[str]) -> bool:
        """Whether there is a column of this name, or a member of ROW columns at this path."""
        first, *inner = (path,) if isinstance(path, str) else path
        kind = self._by_name[first].type if first in self._by_name else None
        for name in inner:
            members = {} if kind is None else {item.name: item.type for item in kind.fields}
            kind = members.get(name)
        return kind is not None

    # ---- what the options mean

    @cached_property
    def table_options(self) -> TableOptions:
        """Typed access to the options."""
        return TableOptions(self.options)

    @cached_property
    def bucket(self) -> int:
        """Option 'bucket': n > 0, -1 or -2."""
        number: int = self.table_options.get("bucket")
        return number

    @cached_property
    def thin_mode(self) -> bool:
        """Whether new data files leave out the key columns."""
        return bool(self.table_options.get("data-file.thin-mode"))

    @property
    def cross_partition(self) -> bool:
        """Whether the primary key leaves out a partition column, so that a row can move between partitions."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def bucket_mode(self) -> BucketMode:
        """See BucketMode."""
        if self.bucket == -2:
            return BucketMode.POSTPONE
        if self.bucket != -1:
            return BucketMode.FIXED
        if not self.primary_keys:
            return BucketMode.UNAWARE
        return BucketMode.KEY_DYNAMIC if self.cross_partition else BucketMode.DYNAMIC

    @property
    def warnings(self) -> list[str]:
        """Options that look like typing errors, one sentence each."""
        return near_misses(self.options)

    # ---- the file

    def encode(self) -> bytes:
        """The bytes of the schema file, as Paimon writes it. CorruptError where no reader would take its numbers."""
        if not _is_id(self.id) or self.highest_field_id >= KEY_FIELD_ID_START:
            what = "refused to write a schema with numbers that are out of range"
            raise CorruptError(what, schema=self.id, highest_field=self.highest_field_id)
        tree: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [format_field(item) for item in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            tree["comment"] = self.comment
        tree["timeMillis"] = self.time_millis
        return pretty_json(tree).encode()

    @classmethod
    def decode(cls, data: bytes | str, path: str | None = None, number: int | None = None) -> TableSchema:
        """A schema file's content; versions 1 and 2 get the defaults that they were written under.

        `path` is for errors, `number` the id in its name. Raises: CorruptError; UnsupportedError for a version newer
        than this code.
        """
        try:
            tree = json.loads(data)
            found = cls._from_tree(tree, path)
            _require(number is None or found.id == number, "id", found.id)
            return found
        except UnsupportedError:
            raise
        except (BucketlakeError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            detail = str(error)
            shown = detail if len(detail) <= SHOWN else detail[:SHOWN] + "…"
            raise CorruptError("not a schema file", path=path, detail=shown) from error

    @classmethod
    def _from_tree(cls, tree: dict[str, Any], path: str | None) -> TableSchema:
        version = tree.get("version", 1)
        _require(_is_id(version) and version > 0, "version", version)
        if version > VERSION:
            raise UnsupportedError(
                "schema file of a newer format",
                version=version,
                known=VERSION,
                path=path,
                remedy="upgrade bucketlake",
            )
        for name in ("id", "highestFieldId"):
            _require(_is_id(tree[name], -1 if name == "highestFieldId" else 0), name, tree[name])
        millis = tree.get("timeMillis") or 0
        _require(_is_id(millis, EARLIEST_MILLIS, LATEST_MILLIS), "timeMillis", millis)
        comment = tree.get("comment")
        _require(comment is None or isinstance(comment, str), "comment", comment)
        given = tree.get("options", {})
        _require(isinstance(given, dict), "options", given)
        _require(all(isinstance(value, (str, int, float, bool)) for value in given.values()), "options", given)
        options = {key: option_text(value) for key, value in given.items()}
        if version <= 1:
            options.setdefault("bucket", "1")
        if version <= 2:
            options.setdefault("file.format", "orc")
        fields = tuple(parse_field(item) for item in tree["fields"])
        for item in fields:
            _check_field(item)
        names = [item.name for item in fields]
        _require(len(set(names)) == len(names), "fields", "columns of one name")
        ids = [item.id for item in fields]
        _require(len(set(ids)) == len(ids), "fields", "columns of one id")
        for key in ("partitionKeys", "primaryKeys"):
            keys = tree[key]
            _require(isinstance(keys, list) and all(isinstance(name, str) for name in keys), key, keys)
            _require(set(keys) <= set(names) and len(set(keys)) == len(keys), key, keys)
        partitions, primary = tuple(tree["partitionKeys"]), tuple(tree["primaryKeys"])
        _require(not primary or bool(set(primary) - set(partitions)), "primaryKeys", primary)
        schema = cls(tree["id"], fields, tree["highestFieldId"], partitions, primary, options, comment, millis, version)
        _require(set(schema.bucket_keys) <= set(names), "bucket-key", schema.bucket_keys)
        _require(-2 <= schema.bucket < 1 << 31, "bucket", schema.bucket)
        return schema


SHOWN = 300  # characters of an error's reason


def _check_field(item: DataField, depth: int = 0) -> None:
    """What a parsed field does not have by its class alone: types of its texts, ranges, bounded nesting."""
    _require(_is_id(item.id, high=KEY_FIELD_ID_START - 1), "field id", item.id)  # above: system columns
    _require(isinstance(item.name, str), "field name", item.name)
    _require(item.description is None or isinstance(item.description, str), "description", item.description)
    _require(item.default is None or isinstance(item.default, str), "defaultValue", item.default)
    _check_depth(item.type, depth)


def _check_depth(kind: DataType, depth: int) -> None:
    _require(depth <= MOST_DEPTH, "nesting of types", depth)
    for part in (kind.key, kind.element):
        if part is not None:
            _check_depth(part, depth + 1)
    for item in kind.fields:
        _check_field(item, depth + 1)


def _require(holds: bool, name: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r:.100}")


def _is_id(value: Any, low: int = 0, high: int = (1 << 31) - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def column_names(schema: TableSchema, columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, all by default; InvalidError for one that the table does not have, and for a text, which
    would be a list of its letters."""
    known = [item.name for item in schema.fields]
    if columns is None:
        return known
    there, found = set(known), names_listed(columns)
    for name in found:
        if name not in there:
            remedy = did_you_mean(name, known) or f"choose from {known}"
            raise InvalidError("no such column", column=name, remedy=remedy)
    return found


# ---------------------------------------------------------------------------------------------- JSON text


def pretty_json(value: Any) -> str:
    """JSON in the layout of Paimon's metadata files: objects a member a line, arrays in one line, `"key" : value`."""
    return _pretty(value, "\n")


def _pretty(value: Any, line: str) -> str:
    if isinstance(value, Mapping):
        inner = line + "  "
        members = [f"{inner}{json.dumps(key, ensure_ascii=False)} : {_pretty(v, inner)}" for key, v in value.items()]
        return "{" + ",".join(members) + line + "}" if members else "{ }"
    if isinstance(value, list):
        return "[ " + ", ".join(_pretty(item, line) for item in value) + " ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)
