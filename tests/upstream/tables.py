"""Paimon's objects that tests ask about tables and files, over the same catalog."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bucketlake.format.data import descriptor
from bucketlake.ops.commit.analyze import statistics_of

from .values import Long, Option, Unknown
from .words import JavaMap

if TYPE_CHECKING:
    from .harness import Bench


class Place(os.PathLike[str]):
    """A file's path: java.io.File, java.nio.file.Path and Paimon's Path in one."""

    def __init__(self, first: Any, *rest: Any) -> None:
        self.path = os.path.join(strip(first), *(str(one) for one in rest))

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def toString(self) -> str:
        return self.path

    getAbsolutePath = getCanonicalPath = toAbsolutePath = getPath = toURI = toUri = toPath = toString

    def toFile(self) -> Place:
        return self

    def getName(self) -> str:
        return os.path.basename(self.path)

    getFileName = getName

    def getParent(self) -> Place:
        return Place(os.path.dirname(self.path))

    getParentFile = getParent

    def resolve(self, other: Any) -> Place:
        return Place(self.path, other)

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def mkdirs(self) -> bool:
        os.makedirs(self.path, exist_ok=True)
        return True

    mkdir = mkdirs

    def isDirectory(self) -> bool:
        return os.path.isdir(self.path)

    def isFile(self) -> bool:
        return os.path.isfile(self.path)

    def length(self) -> Long:
        return Long(os.path.getsize(self.path))

    def listFiles(self, *test: Any) -> list[Place]:
        return [Place(self.path, one) for one in sorted(os.listdir(self.path))]

    def list(self) -> list[str]:
        return sorted(os.listdir(self.path))

    def renameTo(self, other: Any) -> bool:
        os.rename(self.path, strip(other))
        return True

    def delete(self) -> bool:
        shutil.rmtree(self.path) if os.path.isdir(self.path) else os.remove(self.path)
        return True


def strip(word: Any) -> str:
    found = str(word)
    return found[5:] if found.startswith("file:/") else found


class Status:
    def __init__(self, place: Place) -> None:
        self.place = place

    def getPath(self) -> Place:
        return self.place

    def isDir(self) -> bool:
        return self.place.isDirectory()

    def getLen(self) -> Long:
        return self.place.length()

    def getModificationTime(self) -> Long:
        return Long(os.path.getmtime(self.place) * 1000)


class PrintWriter:
    """java.io.PrintWriter into a file."""

    def __init__(self, place: Any, *_: Any) -> None:
        self.file = open(Place(place), "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed by the test

    def write(self, content: Any) -> None:
        self.file.write(str(content))

    def println(self, content: Any = "") -> None:
        self.file.write(f"{content}\n")

    def close(self) -> None:
        self.file.close()

    print = write


class BytesOut:
    """An output stream into a file."""

    def __init__(self, place: Any) -> None:
        self.file = open(Place(place), "wb")  # noqa: SIM115 - closed by the test

    def write(self, data: Any) -> None:
        self.file.write(bytes(one & 255 for one in data))

    def close(self) -> None:
        self.file.close()


class FileIO:
    def newOutputStream(self, place: Any, overwrite: bool = False) -> BytesOut:
        return BytesOut(place)

    def createTempDirectory(self, prefix: str) -> Place:
        return Place(tempfile.mkdtemp(prefix=prefix))

    def exists(self, place: Any) -> bool:
        return Place(place).exists()

    def listStatus(self, place: Any) -> list[Status]:
        return [Status(one) for one in Place(place).listFiles()] if Place(place).exists() else []

    def listDirectories(self, place: Any) -> list[Status]:
        return [one for one in self.listStatus(place) if one.isDir()]

    def getFileStatus(self, place: Any) -> Status:
        return Status(Place(place))

    def mkdirs(self, place: Any) -> bool:
        return Place(place).mkdirs()

    createDirectories = mkdirs

    def tryToWriteAtomic(self, place: Any, content: str) -> bool:
        Path(Place(place)).write_text(content)
        return True

    def writeFile(self, place: Any, content: str, overwrite: bool = False) -> None:
        Path(Place(place)).write_text(content)

    def write(self, place: Any, content: Any, *_: Any) -> None:
        Path(Place(place)).write_bytes(content if isinstance(content, bytes) else str(content).encode())

    def readFileUtf8(self, place: Any) -> str:
        return Path(Place(place)).read_text()

    def delete(self, place: Any, recursive: bool = False) -> bool:
        return Place(place).delete()

    def deleteDirectoryQuietly(self, place: Any) -> None:
        shutil.rmtree(Place(place), ignore_errors=True)

    def deleteQuietly(self, place: Any) -> None:
        Path(Place(place)).unlink(missing_ok=True)


class Identifier:
    def __init__(self, database: str, name: str) -> None:
        self.database, self.name = database, name

    def getDatabaseName(self) -> str:
        return self.database

    def getObjectName(self) -> str:
        return self.name

    getTableName = getObjectName

    def getFullName(self) -> str:
        return f"{self.database}.{self.name}"


class BlobPlace:
    """BlobDescriptor."""

    def __init__(self, uri: Any, offset: int, length: int) -> None:
        self.said = (str(uri), int(offset), int(length))

    def uri(self) -> str:
        return self.said[0]

    def offset(self) -> Long:
        return Long(self.said[1])

    def length(self) -> Long:
        return Long(self.said[2])

    def serialize(self) -> bytes:
        uri, offset, length = self.said
        return bytes(descriptor.describe(uri, np.array([offset]), np.array([length]))[0].as_py())

    def toString(self) -> str:
        return str(descriptor.shown(pa.array([self.serialize()]))[0].as_py())

    @staticmethod
    def deserialize(data: Any) -> BlobPlace:
        uris, offsets, lengths = descriptor.parsed(pa.array([bytes(data)]))
        return BlobPlace(uris[0].as_py(), int(offsets[0]), int(lengths[0]))

    @staticmethod
    def fromDescriptor(reader: Any, place: BlobPlace) -> Any:
        uri, offset, length = place.said
        data = Path(strip(uri)).read_bytes()[offset:][: None if length < 0 else length]
        return SimpleNamespace(toData=lambda: data)


class SnapshotWords:
    def __init__(self, snapshot: Any) -> None:
        self.snapshot = snapshot

    def id(self) -> Long:
        return Long(self.snapshot.id)

    def commitKind(self) -> str:
        return str(self.snapshot.commit_kind.value)

    def timeMillis(self) -> Long:
        return Long(self.snapshot.time_millis)

    def schemaId(self) -> Long:
        return Long(self.snapshot.schema_id)

    def totalRecordCount(self) -> Long:
        return Long(self.snapshot.total_record_count)

    def deltaRecordCount(self) -> Long:
        return Long(self.snapshot.delta_record_count)

    def watermark(self) -> Any:
        return self.snapshot.watermark

    def commitUser(self) -> str:
        return str(self.snapshot.commit_user)

    def operation(self) -> Any:
        return self.snapshot.operation

    def nextRowId(self) -> Any:
        return self.snapshot.next_row_id

    def statistics(self) -> Any:
        return self.snapshot.statistics

    def indexManifest(self) -> Any:
        return self.snapshot.index_manifest

    def changelogManifestList(self) -> Any:
        return self.snapshot.changelog_manifest_list

    def properties(self) -> Any:
        return JavaMap(self.snapshot.properties or {})

    def trimToSnapshot(self) -> SnapshotWords:
        return self

    def getTagCreateTime(self) -> Any:
        raise Unknown("a tag's own times")


class Managed:
    """SnapshotManager, TagManager and BranchManager in one; each asks for its own words."""

    def __init__(self, table: TableWords) -> None:
        self.table = table

    def all(self) -> list[Any]:
        return list(self.table.now().snapshots())

    def latestSnapshotId(self) -> Any:
        found = self.all()
        return Long(found[-1].id) if found else None

    def latestSnapshot(self) -> Any:
        found = self.all()
        return SnapshotWords(found[-1]) if found else None

    def earliestSnapshotId(self) -> Any:
        found = self.all()
        return Long(found[0].id) if found else None

    def earliestSnapshot(self) -> Any:
        found = self.all()
        return SnapshotWords(found[0]) if found else None

    def snapshotCount(self) -> Long:
        return Long(len(self.all()))

    def snapshot(self, at: int) -> SnapshotWords:
        return SnapshotWords(next(one for one in self.all() if one.id == at))

    def snapshotExists(self, at: int) -> bool:
        return any(one.id == at for one in self.all())

    def snapshots(self) -> list[Any]:
        return [SnapshotWords(one) for one in self.all()]

    def snapshotPath(self, at: int) -> Place:
        return Place(self.table.location(), "snapshot", f"snapshot-{at}")

    def fileIO(self) -> FileIO:
        return FileIO()

    def tagExists(self, name: str) -> bool:
        return name in self.table.now().tags()

    def tagObjects(self) -> list[Any]:
        return [(SnapshotWords(one), name) for name, one in self.table.now().tags().items()]

    def tagCount(self) -> Long:
        return Long(len(self.table.now().tags()))

    def getOrThrow(self, name: str) -> SnapshotWords:
        return SnapshotWords(self.table.now().tags()[name])

    def allTagNames(self) -> list[str]:
        return list(self.table.now().tags())

    def branchExists(self, name: str) -> bool:
        return name in self.table.now().branches()

    def branches(self) -> list[str]:
        return list(self.table.now().branches())


class ColumnWords:
    """ColStats; its ends as texts or numbers."""

    def __init__(self, number: Any, distinct: Any, low: Any, high: Any, *rest: Any) -> None:
        self.said = (number, distinct, self.end(low), self.end(high), *rest)

    @staticmethod
    def stored(one: Any) -> ColumnWords:
        return ColumnWords(
            *(one.column_id, one.distinct_count, one.minimum, one.maximum),
            *(one.null_count, one.average_length, one.maximum_length),
        )

    @staticmethod
    def end(value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return None if value is None else str(value).lower()
        try:
            return float(value)
        except (TypeError, ValueError):
            return str(value).removesuffix(".000000")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnWords) and self.said == other.said

    def __hash__(self) -> int:
        return hash(self.said)

    def __repr__(self) -> str:
        return f"ColStats{self.said}"


def counted(number: int | None) -> Option:
    return Option() if number is None else Option(Long(number))


class TableWords:
    """`loadTable(name)`."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench, self.named = bench, name
        self.held = bench.lake.catalog.table(name)

    def now(self) -> Any:
        return self.bench.lake.catalog.table(self.named)

    def location(self) -> Place:
        return Place(self.held.path)

    def options(self) -> JavaMap:
        return JavaMap({**self.held.schema.options, "path": self.held.path})

    def name(self) -> str:
        return self.named.split(".")[-1]

    def fullName(self) -> str:
        return self.named

    def primaryKeys(self) -> list[str]:
        return list(self.held.schema.primary_keys)

    def partitionKeys(self) -> list[str]:
        return list(self.held.schema.partition_keys)

    def comment(self) -> Option:
        found = self.held.schema.comment
        return Option(found) if found else Option()

    def schema(self) -> Any:
        found = self.held.schema
        return SimpleNamespace(
            id=lambda: Long(found.id),
            fieldNames=lambda: [one.name for one in found.fields],
            primaryKeys=self.primaryKeys,
            partitionKeys=self.partitionKeys,
            options=self.options,
            comment=lambda: found.comment,
            fields=lambda: list(found.fields),
        )

    def rowType(self) -> Any:
        found = self.held.schema
        return SimpleNamespace(
            getFieldNames=lambda: [one.name for one in found.fields],
            getFieldCount=lambda: len(found.fields),
        )

    def fileIO(self) -> FileIO:
        return FileIO()

    def coreOptions(self) -> Any:
        return SimpleNamespace(bucket=lambda: self.held.options.get("bucket"))

    def snapshotManager(self) -> Managed:
        return Managed(self)

    tagManager = branchManager = snapshotManager

    def latestSnapshot(self) -> Option:
        found = Managed(self).latestSnapshot()
        return Option(found) if found is not None else Option()

    def snapshot(self, at: int) -> SnapshotWords:
        return Managed(self).snapshot(at)

    def statistics(self) -> Option:
        store = self.now().store
        found = statistics_of(store, self.now().snapshots()[-1])
        if found is None:
            return Option()
        columns = JavaMap({name: ColumnWords.stored(one) for name, one in found.columns.items()})
        return Option(
            SimpleNamespace(
                mergedRecordCount=lambda: counted(found.merged_record_count),
                mergedRecordSize=lambda: counted(found.merged_record_size),
                colStats=lambda: columns,
            )
        )

    def newSnapshotReader(self) -> Any:
        """One split a bucket."""
        held: dict[tuple[tuple[str, ...], int], list[Any]] = {}
        for one in self.now().files():
            held.setdefault((tuple(one.partition.values()), one.bucket), []).append(one.file)
        splits = [
            SimpleNamespace(
                bucket=lambda at=bucket: at,
                partition=lambda row=partition: SimpleNamespace(
                    getString=lambda at: row[at], getInt=lambda at: int(row[at])
                ),
                dataFiles=lambda files=files: files,
            )
            for (partition, bucket), files in held.items()
        ]
        return SimpleNamespace(read=lambda: SimpleNamespace(dataSplits=lambda: splits, splits=lambda: splits))

    def createTag(self, name: str, *at: Any) -> None:
        self.now().create_tag(name, *at[:1])

    def deleteTag(self, name: str) -> None:
        self.now().delete_tag(name)

    def createBranch(self, name: str, *tag: Any) -> None:
        self.now().create_branch(name, *tag)

    def refreshed(self) -> TableWords:
        return self

    def __getattr__(self, word: str) -> Any:
        raise Unknown(f"Table.{word}")


class CatalogWords:
    """`paimonCatalog`."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def getTable(self, name: Identifier) -> TableWords:
        return TableWords(self.bench, name.getFullName())

    def dropTable(self, name: Identifier, missing: bool) -> None:
        self.bench.lake.catalog.drop_table(name.getFullName(), ignore_if_missing=missing)

    def listTables(self, database: str) -> list[str]:
        return list(self.bench.lake.catalog.list_tables(database))

    def listDatabases(self) -> list[str]:
        return list(self.bench.lake.catalog.list_databases())

    def getDatabase(self, name: str) -> Any:
        found = JavaMap(self.bench.lake.catalog.database_properties(name))
        return SimpleNamespace(options=lambda: found, name=lambda: name)

    def warehouse(self) -> str:
        return str(self.bench.warehouse)

    def __getattr__(self, word: str) -> Any:
        raise Unknown(f"Catalog.{word}")
