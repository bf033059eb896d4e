"""Every file name of a table and every partition path; nothing else in the package builds one.

    <root>/schema/schema-<id>                       <root>/index/index-<uuid>-<n>
    <root>/snapshot/{snapshot-<id>, LATEST, EARLIEST}   <root>/statistics/stat-<uuid>
    <root>/manifest/{manifest, manifest-list, index-manifest}-<uuid>-<n>    <root>/tag/tag-<name>
    <root>/changelog/{changelog-<id>, LATEST, EARLIEST}  <root>/consumer/consumer-<id>
    <root>/stream/stream-<query>                         (not Paimon's: docs/spec/streaming.md#batches)
    <root>/branch/branch-<name>/{schema, snapshot, tag, …}
    <root>/[<data directory>/][<column>=<value>/…]bucket-<n>/data-<uuid>-<n>.<format>

Spec: docs/spec/paths.md
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from bucketlake.env.clients import spelled_as
from bucketlake.env.env import Env
from bucketlake.errors import CorruptError, InvalidError
from bucketlake.file_names import (
    check_name,
    check_path_options,
    fault_of_path,
    lies_in,
    lies_in_any,
    listed_roots,
)
from bucketlake.format.data.pieces import piece_of
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileRef
from bucketlake.format.row.binary_row import from_serialized, serialized
from bucketlake.format.row.texts import cast_text, internal_text, parse_value
from bucketlake.redaction import repr_of
from bucketlake.types.model import DataField, DataType
from bucketlake.values import dataclass

MAIN = "main"  # the branch that lies in the table's own folder
POSTPONE_BUCKET = -2
PENDING = "bucket-postpone"
FILE_INDEX_SUFFIX = ".index"  # of a data file's index, beside it
BLOB_REFERENCES_SUFFIX = ".blobref"  # of what says which packs of blobs its rows point at
DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
EXTERNAL = "data-file.external-paths"
INDEXES_EXTERNAL = "global-index.external-path"
_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{}\\[\\]^]")
_HEX = re.compile("%([0-9A-Fa-f]{2})")
_COMPRESSION_SUFFIX = {"none": "", "gzip": "gz", "bzip2": "bz2", "zstd": "zst"}  # others go by their own name
_NOT_BLANK = "\u00a0\u2007\u202f\x85"  # white to Python, not to Java


@dataclass(frozen=True)
class TablePaths:
    """Where one table's files lie. `root` without trailing slash; `partition_fields` in partition order.

    `options`: the table's options that decide on paths, as text: `partition.default-name`, `partition.legacy-name`,
    `data-file.path-directory`, `data-file.prefix`, `changelog-file.prefix`, `file.suffix.include.compression`,
    `branch`, `data-file.external-paths`. What among them leads out of the table's folder is refused (InvalidError), and
    so is every name that cannot be a file's.
    `external`: folders outside that the session lets the table's files lie in.
    """

    root: str
    partition_fields: Sequence[DataField] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    external: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse options that would build paths outside of the table's folder."""
        check_path_options(self.options)

    def __repr__(self) -> str:
        """Without the secrets that options may hold."""
        return repr_of(self)

    # ---- metadata

    @property
    def branch_name(self) -> str:
        """The branch that these files are of."""
        return self.options.get("branch", MAIN)

    @property
    def meta_root(self) -> str:
        """Where schemas, snapshots and tags of the branch lie: the root, for the main branch."""
        return self.root if self.branch_name == MAIN else self.branch(self.branch_name)

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

    @property
    def changelog_latest_hint(self) -> str:
        """The file that may hold the id of the newest changelog without snapshot."""
        return f"{self.changelog_dir}/LATEST"

    @property
    def changelog_earliest_hint(self) -> str:
        """The file that may hold the id of the oldest changelog without snapshot."""
        return f"{self.changelog_dir}/EARLIEST"

    @property
    def changelog_dir(self) -> str:
        """The folder of changelogs that outlive their snapshots, and their hints."""
        return f"{self.meta_root}/changelog"

    @property
    def tag_dir(self) -> str:
        """The folder of tags."""
        return f"{self.meta_root}/tag"

    @property
    def consumer_dir(self) -> str:
        """The folder of consumers' progress."""
        return f"{self.meta_root}/consumer"

    @property
    def branch_dir(self) -> str:
        """The folder of branches; it lies in the root for all of them."""
        return f"{self.root}/branch"

    def schema(self, schema_id: int) -> str:
        """A schema file."""
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """A snapshot file."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def changelog(self, snapshot_id: int) -> str:
        """A changelog file: what an expired snapshot left of its changes."""
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    def tag(self, name: str) -> str:
        """A tag file."""
        return f"{self.tag_dir}/tag-{check_name(name, 'tag')}"

    def tag_success(self, name: str) -> str:
        """What says that a tag is there."""
        return f"{self.tag_dir}/tag-success-file/{check_name(name, 'tag')}_SUCCESS"

    def partition_success(self, partition_path: str) -> str:
        """What says that a partition is done."""
        return f"{self.root}/{partition_path}/_SUCCESS"

    def stream(self, query: str) -> str:
        """What is known of the batches that a streaming query has written."""
        return f"{self.meta_root}/stream/stream-{check_name(query, 'query')}"

    def consumer(self, name: str) -> str:
        """A consumer's progress."""
        return f"{self.consumer_dir}/consumer-{check_name(name, 'consumer')}"

    def branch(self, name: str) -> str:
        """The folder of a branch."""
        return f"{self.branch_dir}/branch-{check_name(name, 'branch')}"

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest by its name."""
        return f"{self.root}/manifest/{check_name(name, 'manifest')}"

    def index(self, name: str) -> str:
        """A hash index or deletion vector file by its name."""
        return f"{self.root}/index/{check_name(name, 'index file')}"

    def statistics(self, name: str) -> str:
        """A table statistics file by its name."""
        return f"{self.root}/statistics/{check_name(name, 'statistics file')}"

    @property
    def load_history_dir(self) -> str:
        """Where COPY INTO remembers what it has loaded, for all branches."""
        return f"{self.root}/copy-into/history"

    @property
    def load_intents_dir(self) -> str:
        """Where COPY INTO says what it is about to commit, for all branches."""
        return f"{self.root}/copy-into/intents"

    @property
    def key_index_dir(self) -> str:
        """Where the cached key index of a cross-partition table lies: Paimon's orphan cleaner does not look there."""
        return f"{self.meta_root}/key-index"

    def key_index(self, name: str) -> str:
        """A file of the cached key index by its name."""
        return f"{self.key_index_dir}/{check_name(name, 'key index')}"

    # ---- data

    @property
    def data_root(self) -> str:
        """The folder of the partitions, or of the buckets: the root, or `data-file.path-directory` in it."""
        directory = (self.options.get("data-file.path-directory") or "").strip("/")
        return f"{self.root}/{directory}" if directory else self.root

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """The folder of a bucket. `partition`: stored BinaryRow bytes."""
        name = PENDING if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        parts = [self.data_root, self.partition_path(partition), name]
        return "/".join(part for part in parts if part)

    def file_path(self, bucket_path: str, file: DataFile | FileRef) -> str:
        """Where a data file lies: in its bucket, or at its external path; of a piece of a merged changelog file, where
        that lies.

        Raises for an external path: CorruptError where the table does not declare it, InvalidError where the session
        does not allow it.
        """
        if file.external_path:
            return self.outside(_whole(file.external_path))  # looked at where it leads: a piece's folder is beside it
        return _whole(f"{bucket_path}/{check_name(file.file_name, 'data file')}")

    def extra_path(self, bucket_path: str, file: DataFile | FileRef, name: str) -> str:
        """Where one of a data file's `extra_files` lies: beside it."""
        return f"{self.file_path(bucket_path, file).rsplit('/', 1)[0]}/{check_name(name, 'file beside a data file')}"

    def file_index(self, data_path: str) -> str:
        """The index of a data file, beside it."""
        return data_path + FILE_INDEX_SUFFIX

    def blob_references(self, data_path: str) -> str:
        """Which packs of blobs a data file's rows point at, beside it."""
        return data_path + BLOB_REFERENCES_SUFFIX

    def index_path(self, partition: bytes, bucket: int, file: IndexFile) -> str:
        """Where an index file lies: at its external path, in `index/`, or with `index-file-in-data-file-dir` in its
        bucket, but for global indexes, which are of no bucket's files."""
        if file.external_path:
            return self.outside(file.external_path)
        of_bucket = file.global_index is None or file.global_index.get("_SOURCE_META") is not None
        if of_bucket and self._flag("index-file-in-data-file-dir", "false"):
            return f"{self.bucket_dir(partition, bucket)}/{check_name(file.file_name, 'index file')}"
        return self.index(file.file_name)

    @property
    def external_roots(self) -> tuple[str, ...]:
        """The folders outside of the table that its files may lie in: declared by the table, allowed by the session."""
        declared, allowed = self._declared, self._allowed
        inner = [root for root in declared if root in allowed or lies_in_any(root, allowed)]
        return tuple(dict.fromkeys([*inner, *(root for root in allowed if lies_in_any(root, declared))]))

    @cached_property
    def _declared(self) -> list[str]:
        found = [*listed_roots(self.options.get(EXTERNAL)), *listed_roots(self.options.get(INDEXES_EXTERNAL))]
        return [spelled_as(self.root, root) for root in found]

    @cached_property
    def _allowed(self) -> list[str]:
        return [spelled_as(self.root, root) for root in self.external]

    def outside(self, path: str) -> str:
        """An external path as the storage takes it. Errors: those of `file_path`."""
        fault = fault_of_path(path)
        path = spelled_as(self.root, path)
        if fault is None and lies_in(path, self.root):
            return path
        if fault is not None or not lies_in_any(path, self._declared):
            raise CorruptError(
                "a manifest names a file outside of the table's folder",
                path=path,
                table=self.root,
                reason=fault or f"no folder of '{EXTERNAL}' holds it",
                remedy="do not trust the table, or declare the folder",
            )
        if not lies_in_any(path, self._allowed):
            raise InvalidError(
                "the table keeps files outside of its folder, which this session does not allow",
                path=path,
                table=self.root,
                remedy="if the folder is the table's to read, write and remove: open with the option "
                "'allowed-external-paths', a list of folders",
            )
        return path

    # Looked up once: a plan names as many folders as there are partitions.

    @cached_property
    def _partition_types(self) -> list[DataType]:
        return [item.type for item in self.partition_fields]

    @cached_property
    def _partition_naming(self) -> tuple[bool, str]:
        """Whether values are named in Paimon's old way, and the name of null and blank ones."""
        legacy = self._flag("partition.legacy-name", "true")
        return legacy, self.options.get("partition.default-name", DEFAULT_PARTITION)

    def _flag(self, key: str, usual: str) -> bool:
        return self.options.get(key, usual).strip().lower() == "true"

    def partition_texts(self, partition: bytes) -> dict[str, str]:
        """Column -> text of a stored partition, unescaped; the default name for null and blank."""
        fields = self.partition_fields
        if not fields:
            return {}
        values = from_serialized(partition, self._partition_types)
        return {item.name: self._text(value, item.type) for item, value in zip(fields, values, strict=True)}

    def shown_texts(self, partition: bytes) -> dict[str, str]:
        """Column -> text of a stored partition as SQL casts it, whatever its folder is named; the default name for
        null. Specs take these texts, too."""
        fields = self.partition_fields
        values = from_serialized(partition, [item.type for item in fields]) if fields else ()
        default = self.options.get("partition.default-name", DEFAULT_PARTITION)
        pairs = zip(fields, values, strict=True)
        return {item.name: default if v is None else cast_text(v, item.type) for item, v in pairs}

    def partition_path(self, partition: bytes) -> str:
        """`dt=2024-01-01/hour=5`, escaped; empty for tables without partitions."""
        texts = self.partition_texts(partition)
        return "/".join(f"{escape(name)}={escape(text)}" for name, text in texts.items())

    def _text(self, value: Any, kind: DataType) -> str:
        legacy, default = self._partition_naming
        if value is None:
            return default
        text = internal_text(value, kind) if legacy else cast_text(value, kind)
        return default if all(sign.isspace() and sign not in _NOT_BLANK for sign in text) else text

    def partition_bytes(self, texts: Mapping[str, str]) -> bytes:
        """The stored form of the partition with these texts, as paths and specs write them; the default name is null.

        Raises: InvalidError for a text that is no value of its column, or if columns are missing or unknown.
        """
        fields = self.partition_fields
        names = [item.name for item in fields]
        if set(texts) != set(names):
            raise InvalidError("not all partition columns, or others", given=sorted(texts), partition_keys=names)
        default = self.options.get("partition.default-name", DEFAULT_PARTITION)
        values = [None if texts[f.name] == default else parse_value(texts[f.name], f.type) for f in fields]
        return serialized(values, [item.type for item in fields])

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

    def new_global_index(self, env: Env, kind: str) -> str:
        """A name for a new file of a global index."""
        return f"{kind}-global-index-{env.clock.new_uuid()}.index"

    def external_index(self, name: str) -> str | None:
        """Where a new file of a global index lies, if outside of the table: in `global-index.external-path`."""
        root = self.options.get(INDEXES_EXTERNAL)
        return f"{root.rstrip('/')}/{check_name(name, 'index file')}" if root else None

    def new_index(self, env: Env) -> str:
        """A name for a new hash index or deletion vector file."""
        return f"index-{env.clock.new_uuid()}-0"

    def new_key_layer(self, env: Env) -> str:
        """A name for a new layer of the cached key index."""
        return f"layer-{env.clock.new_uuid()}"

    def new_key_index(self, env: Env, snapshot_id: int) -> str:
        """A name for the cached key index of a snapshot."""
        return f"index-{snapshot_id}-{env.clock.new_uuid()}.json"

    def data_file_name(
        self, unique: str, number: int, file_format: str, compression: str, changelog: bool = False
    ) -> str:
        """The name of file `number` of a writer that drew the identifier `unique`."""
        key, usual = ("changelog-file.prefix", "changelog-") if changelog else ("data-file.prefix", "data-")
        prefix = self.options.get(key, usual)
        suffix = file_format
        extension = _COMPRESSION_SUFFIX.get(compression.lower(), compression)
        if extension and self._flag("file.suffix.include.compression", "false"):
            suffix = f"{extension}.{file_format}"
        return check_name(f"{prefix}{unique}-{number}.{suffix}", "data file")


def _whole(path: str) -> str:
    """Where the file lies that a piece is of, by the path that the piece's name makes."""
    folder, _, name = path.rpartition("/")
    piece = piece_of(name)
    return path if piece is None else f"{folder.rpartition('/')[0]}/bucket-{piece.bucket}/{piece.file_name}"


def is_pending(bucket_path: str) -> bool:
    """Whether a bucket's folder is that of pending rows."""
    return bucket_path.rpartition("/")[2] == PENDING


def escape(text: str) -> str:
    """A path segment as Hive and Paimon escape it: `%XX` for signs that paths or shells mind."""
    if not text:
        raise InvalidError("partition value is empty", remedy="a null or blank value takes the default partition name")
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", text)


def unescape(segment: str) -> str:
    """What `escape` was given."""
    return _HEX.sub(lambda found: chr(int(found[1], 16)), segment)
