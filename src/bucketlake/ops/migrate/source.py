"""What lies in a Hive-style folder: data files, in one folder a partition.

    <location>/[<column>=<value>/…]<file>      names that begin with "." or "_" are no data, as for Hive and Spark

What cannot be placed (a file between partitions, a folder that is no partition, a link) is refused by name: to leave it
out would lose rows.

Spec: docs/spec/migration.md#source
"""

from __future__ import annotations

from collections.abc import Iterator

from bucketlake.env.storage import FileInfo, Storage
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.paths import unescape
from bucketlake.values import dataclass

JOURNAL = "_bucketlake_migration"
HIVE_DEFAULT = "__HIVE_DEFAULT_PARTITION__"
FORMATS = ("parquet", "orc")


# Kinds of tables -> a folder in theirs, and how names of files in it begin and end.
_TABLES = {
    "Delta Lake": ("_delta_log", "", ""),
    "Hudi": (".hoodie", "", ""),
    "Iceberg": ("metadata", "", ".metadata.json"),
    "Paimon": ("schema", "schema-", ""),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A folder whose files are to become a table's. `partition_keys`: in the order of the folders. `declared`: the
    table's columns are what somebody says that the files hold, and not what one of them holds."""

    location: str
    file_format: str
    partition_keys: tuple[str, ...] = ()
    declared: bool = True


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file. `name`: its path below the location; `values`: a text a partition column, None for null."""

    path: str
    name: str
    size: int
    values: tuple[str | None, ...]

    @property
    def target_name(self) -> str:
        """Its name without folders."""
        return self.name.rsplit("/", 1)[-1]


def check_source(storage: Storage, source: Source) -> None:
    """UnsupportedError for formats whose files cannot be taken over as they are, and for folders of tables whose
    metadata say which of their files and rows count."""
    if source.file_format not in FORMATS:
        raise UnsupportedError(
            f"files of this format cannot be migrated: {source.file_format}",
            location=source.location,
            remedy="CREATE TABLE … AS SELECT copies the rows",
        )
    refuse_tables(storage, source.location)


def refuse_tables(storage: Storage, location: str) -> None:
    """UnsupportedError for a folder that is, or lies in, a table whose metadata say which files and rows count."""
    folder, plain = location.rstrip("/"), 0
    while plain < 2 and folder and not folder.endswith(":/"):  # its partitions, and what is around them ("data")
        plain += "=" not in folder.rpartition("/")[2]
        kind = _table_at(storage, folder)
        if kind is not None:
            raise UnsupportedError(
                f"the folder is of a {kind} table, whose files may hold rows that are deleted or replaced",
                path=folder,
                remedy="read it with its own reader and write the rows: lake.write_table(frame, name)",
            )
        folder = folder.rpartition("/")[0]


def _table_at(storage: Storage, folder: str) -> str | None:
    """Of which kind a table in this folder is; None where there is none."""
    for kind, (place, begin, end) in _TABLES.items():
        found = storage.info(f"{folder}/{place}")
        if found is not None and found.is_dir:
            names = [info.name for info in storage.list(found.path)]
            if any(name.startswith(begin) and name.endswith(end) for name in names):
                return kind
    return None


def data_files(storage: Storage, source: Source) -> list[SourceFile]:
    """All data files of the folder, sorted by name. InvalidError names what is neither data nor a partition."""
    found = storage.info(source.location)
    if found is None or not found.is_dir:
        raise NotFoundError("no such folder", path=source.location)
    return sorted(_walked(storage, source, source.location, ()), key=lambda file: file.name)


def is_hidden(name: str) -> bool:
    """Whether Hive and Spark pass over a file or folder of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _walked(storage: Storage, source: Source, folder: str, values: tuple[str | None, ...]) -> Iterator[SourceFile]:
    keys, depth = source.partition_keys, len(values)
    for info in storage.list(folder):
        if is_hidden(info.name):
            continue
        if info.is_link:
            raise _misplaced("a link, which is not followed", info, source)
        if depth == len(keys):
            if info.is_dir:
                raise _misplaced("a folder among the data files", info, source)
            yield _file(info, source, values)
        elif not info.is_dir:
            raise _misplaced("a file outside of the partitions", info, source)
        else:
            yield from _walked(storage, source, info.path, (*values, _value(info, source, keys[depth])))


def _file(info: FileInfo, source: Source, values: tuple[str | None, ...]) -> SourceFile:
    return SourceFile(info.path, info.path[len(source.location) :].strip("/"), info.size, values)


def _value(info: FileInfo, source: Source, key: str) -> str | None:
    name, equals, text = info.name.partition("=")
    if not equals or unescape(name).lower() != key.lower():
        raise _misplaced(f"no folder of the partition column '{key}'", info, source)
    value = unescape(text)
    return None if value in (HIVE_DEFAULT, "") else value


def _misplaced(what: str, info: FileInfo, source: Source) -> InvalidError:
    return InvalidError(
        f"{what} in a folder that is to be migrated; nothing was moved",
        path=info.path,
        partition_keys=list(source.partition_keys),
        remedy="move it away, or name the partition columns as the folders have them",
    )


def partition_keys_of(storage: Storage, location: str) -> tuple[str, ...]:
    """The columns that the folders of a location name, level by level; () where files lie in it at once."""
    keys: list[str] = []
    folder = location
    while True:
        shown = [info for info in storage.list(folder) if not is_hidden(info.name)]
        first = min((info for info in shown if info.is_dir and "=" in info.name), key=lambda i: i.name, default=None)
        if first is None:
            return tuple(keys)
        keys.append(unescape(first.name.partition("=")[0]))
        folder = first.path
