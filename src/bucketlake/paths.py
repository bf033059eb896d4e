"""Every file name of a table and every partition path; nothing else in the package builds one.

    <root>/schema/schema-<id>                       <root>/index/index-<uuid>-<n>
    <root>/snapshot/{snapshot-<id>, LATEST, EARLIEST}   <root>/statistics/stat-<uuid>
    <root>/manifest/{manifest, manifest-list, index-manifest}-<uuid>-<n>    <root>/tag/tag-<name>
    <root>/changelog/changelog-<id>                 <root>/consumer/consumer-<id>
    <root>/branch/branch-<name>/{schema, snapshot, tag, …}
    <root>/[<data directory>/][<column>=<value>/…]bucket-<n>/data-<uuid>-<n>.<format>

Spec: docs/spec/paths.md
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_to_bytes

from bucketlake.env import Env
from bucketlake.errors import InvalidError
from bucketlake.format.binary_row import decode_row, without_arity_header
from bucketlake.format.manifest import DataFile
from bucketlake.types import DataField, DataType, Root

POSTPONE_BUCKET = -2
DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{}\\[\\]^]")
_COMPRESSION_SUFFIX = {
    "none": "",
    "uncompressed": "",
    "snappy": "snappy",
    "gzip": "gz",
    "bzip2": "bz2",
    "deflate": "deflate",
    "lzo": "lzo",
    "lz4": "lz4",
    "zstd": "zst",
    "zstandard": "zst",
}


@dataclass(frozen=True)
class TablePaths:
    """Where one table's files lie. `root` without trailing slash; `partition_fields` in partition order.

    `options`: the table's options that decide on paths, as text: `partition.default-name`, `partition.legacy-name`,
    `data-file.path-directory`, `data-file.prefix`, `changelog-file.prefix`, `file.suffix.include.compression`,
    `branch`.
    """

    root: str
    partition_fields: Sequence[DataField] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    # ---- metadata

    @property
    def meta_root(self) -> str:
        """Where schemas, snapshots and tags of the branch lie: the root, for the main branch."""
        branch = self.options.get("branch", "main")
        return self.root if branch == "main" else self.branch(branch)

    @property
    def schema_dir(self) -> str:
        """The folder of schemas."""
        return f"{self.meta_root}/schema"

    @property
    def snapshot_dir(self) -> str:
        """The folder of snapshots and hints."""
        return f"{self.meta_root}/snapshot"

    @property
    def latest_hint(self) -> str:
        """The file that may hold the newest snapshot's id."""
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """The file that may hold the oldest snapshot's id."""
        return f"{self.snapshot_dir}/EARLIEST"

    def schema(self, schema_id: int) -> str:
        """A schema file."""
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """A snapshot file."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def changelog(self, snapshot_id: int) -> str:
        """A changelog file: what an expired snapshot left of its changes."""
        return f"{self.meta_root}/changelog/changelog-{snapshot_id}"

    def tag(self, name: str) -> str:
        """A tag file."""
        return f"{self.meta_root}/tag/tag-{name}"

    def consumer(self, name: str) -> str:
        """A consumer's progress."""
        return f"{self.meta_root}/consumer/consumer-{name}"

    def branch(self, name: str) -> str:
        """The folder of a branch."""
        return f"{self.root}/branch/branch-{name}"

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest by its name."""
        return f"{self.root}/manifest/{name}"

    def index(self, name: str) -> str:
        """A hash index or deletion vector file by its name."""
        return f"{self.root}/index/{name}"

    def statistics(self, name: str) -> str:
        """A table statistics file by its name."""
        return f"{self.root}/statistics/{name}"

    # ---- data

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """The folder of a bucket. `partition`: stored BinaryRow bytes."""
        name = "postpone" if bucket == POSTPONE_BUCKET else str(bucket)
        directory = self.options.get("data-file.path-directory")
        parts = [self.root, *([directory.strip("/")] if directory else []), self.partition_path(partition), f"bucket-{name}"]
        return "/".join(part for part in parts if part)

    def file_path(self, bucket_path: str, file: DataFile) -> str:
        """Where a data file lies: in its bucket, or at its external path."""
        return file.external_path or f"{bucket_path}/{file.file_name}"

    def partition_texts(self, partition: bytes) -> dict[str, str]:
        """Column -> text of a stored partition, unescaped; the default name for null and blank."""
        fields = self.partition_fields
        if not fields:
            return {}
        values = decode_row(without_arity_header(partition), [item.type for item in fields])
        return {item.name: self._text(value, item.type) for item, value in zip(fields, values, strict=True)}

    def partition_path(self, partition: bytes) -> str:
        """`dt=2024-01-01/hour=5`, escaped; empty for tables without partitions."""
        texts = self.partition_texts(partition)
        return "/".join(f"{escape(name)}={escape(text)}" for name, text in texts.items())

    def _text(self, value: Any, kind: DataType) -> str:
        default = self.options.get("partition.default-name", DEFAULT_PARTITION)
        if value is None:
            return default
        legacy = self.options.get("partition.legacy-name", "true").lower() == "true"
        text = _legacy_text(value, kind) if legacy else _cast_text(value, kind)
        return text if text.strip(" \t\n\r\f\v\x1c\x1d\x1e\x1f") else default

    # ---- fresh names

    def new_manifest(self, env: Env) -> str:
        """A name for a new manifest."""
        return f"manifest-{env.clock.new_uuid()}-0"

    def new_manifest_list(self, env: Env) -> str:
        """A name for a new manifest list."""
        return f"manifest-list-{env.clock.new_uuid()}-0"

    def new_index_manifest(self, env: Env) -> str:
        """A name for a new index manifest."""
        return f"index-manifest-{env.clock.new_uuid()}-0"

    def new_index(self, env: Env) -> str:
        """A name for a new hash index or deletion vector file."""
        return f"index-{env.clock.new_uuid()}-0"

    def data_file_name(self, unique: str, number: int, file_format: str, compression: str, changelog: bool = False) -> str:
        """The name of file `number` of a writer that drew the identifier `unique`."""
        key, usual = ("changelog-file.prefix", "changelog-") if changelog else ("data-file.prefix", "data-")
        prefix = self.options.get(key, usual)
        suffix = file_format
        if self.options.get("file.suffix.include.compression", "false").lower() == "true":
            extension = _COMPRESSION_SUFFIX.get(compression.lower(), compression.lower())
            if extension:
                suffix = f"{file_format}.{extension}" if file_format in ("json", "csv", "text") else f"{extension}.{file_format}"
        return f"{prefix}{unique}-{number}.{suffix}"


def escape(text: str) -> str:
    """A path segment as Hive and Paimon escape it: `%XX` for signs that paths or shells mind."""
    if not text:
        raise InvalidError("partition value is empty", remedy="a null or blank value takes the default partition name")
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", text)


def unescape(segment: str) -> str:
    """What `escape` was given."""
    return unquote_to_bytes(segment).decode("utf-8", "replace")


def parse_partition_path(path: str) -> dict[str, str]:
    """`dt=2024-01-01/hour=5` -> column -> text, unescaped. InvalidError if a segment is no `column=value`."""
    found: dict[str, str] = {}
    for segment in path.strip("/").split("/"):
        name, equals, value = segment.partition("=")
        if not equals:
            raise InvalidError("not a partition path", path=path, remedy="write column=value/…")
        found[unescape(name)] = unescape(value)
    return found


def _legacy_text(value: Any, kind: DataType) -> str:
    """Java's toString of the internal value: dates are epoch days, times milliseconds, timestamps ISO with T."""
    if kind.root is Root.DATE:
        return str(value.toordinal() - dt.date(1970, 1, 1).toordinal())
    if kind.root is Root.TIME:
        return str(value)
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return _iso(value, kind)
    return _plain_text(value, kind)


def _cast_text(value: Any, kind: DataType) -> str:
    """The value cast to a string as SQL does it."""
    if kind.root is Root.DATE:
        return str(value.isoformat())
    if kind.root is Root.TIME:
        clock = (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)).time()
        precision = kind.precision or 0
        return clock.strftime("%H:%M:%S") + (f".{value % 1000:03d}"[: precision + 1] if precision else "")
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        seconds, nanos = _seconds(value)
        precision = 6 if kind.precision is None else kind.precision
        fraction = f".{nanos:09d}"[: precision + 1] if precision else ""
        return seconds.strftime("%Y-%m-%d %H:%M:%S") + fraction
    return _plain_text(value, kind)


def _plain_text(value: Any, kind: DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return _java_float(value, kind)
    if isinstance(value, bytes):
        raise InvalidError("BINARY columns cannot partition a table", remedy="partition by another column")
    return str(value)


def _java_float(value: float, kind: DataType) -> str:
    """Java's Double.toString / Float.toString: shortest digits, scientific outside [1e-3, 1e7)."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    shortest = repr(value) if kind.root is Root.DOUBLE else _shortest_float(value)
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(str(digit) for digit in digits)
    stripped = text.rstrip("0") or "0"
    point = len(text) + int(exponent)
    minus = "-" if sign else ""
    if value == 0:
        return minus + "0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{stripped}"
        whole = stripped[:point].ljust(point, "0")
        return f"{minus}{whole}.{stripped[point:] or '0'}"
    return f"{minus}{stripped[0]}.{stripped[1:] or '0'}E{point - 1}"


def _shortest_float(value: float) -> str:
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _as_float32(float(text)) == _as_float32(value):
            return text
    return repr(value)


def _as_float32(value: float) -> bytes:
    return struct.pack("<f", value)


def _seconds(value: Any) -> tuple[dt.datetime, int]:
    """A timestamp's whole seconds and its nanoseconds of the second."""
    if isinstance(value, int):
        return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=value // 1_000_000_000), value % 1_000_000_000
    return value.replace(microsecond=0, tzinfo=None), value.microsecond * 1000


def _iso(value: Any, kind: DataType) -> str:
    """Java's LocalDateTime.toString: seconds and fraction only where they are not zero."""
    seconds, nanos = _seconds(value)
    text = seconds.strftime("%Y-%m-%dT%H:%M")
    if seconds.second or nanos:
        text += f":{seconds.second:02d}"
    if nanos:
        fraction = f"{nanos:09d}"
        text += "." + (fraction[:3] if fraction.endswith("000000") else fraction[:6] if fraction.endswith("000") else fraction)
    return text
