"""Apache Paimon's own Java API in the Flink peer's JVM, without a job: a write or a read costs a tenth of a second.

Rows come from a data file that lies in a table made for it, and leave in a parquet file that Paimon writes; a row costs
a few calls of Java. Runs in the driver's process, beside tests.peers.flink_driver.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import tempfile
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError

DYNAMIC_ROWS = 2_000_000


class PaimonApi:
    """Operations on the tables of one warehouse at a time; names are `database.table`, with `$system` or `$branch_x`."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._paimon = jvm.org.apache.paimon
        self._catalogs: dict[str, Any] = {}
        self._scratch = tempfile.mkdtemp(prefix="paimon-api-")
        self._numbers = itertools.count()

    def _catalog(self, warehouse: str) -> Any:
        if warehouse not in self._catalogs:
            options = self._paimon.options.Options()
            options.set("warehouse", f"file:{warehouse}")
            options.set("cache-enabled", "false")
            context = self._paimon.catalog.CatalogContext.create(options)
            self._catalogs[warehouse] = self._paimon.catalog.CatalogFactory.createCatalog(context)
        return self._catalogs[warehouse]

    def _table(self, warehouse: str, name: str, options: dict[str, str] | None = None) -> Any:
        table = self._catalog(warehouse).getTable(self._paimon.catalog.Identifier.fromString(name))
        return self._call("table.Table", table, "copy", dict(options)) if options else table

    def _call(self, interface: str, target: Any, method: str, *arguments: Any) -> Any:
        """A method of an interface, of an object whose class is not public: py4j looks at classes alone."""
        methods = self._jvm.java.lang.Class.forName(f"org.apache.paimon.{interface}").getMethods()
        found = [each for each in methods if each.getName() == method and each.getParameterCount() == len(arguments)]
        if not found:
            raise AttributeError(f"{interface} has no {method} of {len(arguments)}")
        return self._invoke(found, target, self._objects(*arguments))

    def _invoke(self, methods: list[Any], target: Any, arguments: Any) -> Any:
        for number, method in enumerate(methods):
            try:
                return method.invoke(target, arguments)
            except Py4JJavaError as error:
                # What the method itself raises comes inside an InvocationTargetException.
                mismatch = error.java_exception.toString().startswith("java.lang.IllegalArgumentException")
                if not mismatch or number == len(methods) - 1:
                    raise
        raise AssertionError

    def write(
        self,
        warehouse: str,
        name: str,
        staged: str,
        options: dict[str, str],
        overwrite: dict[str, str] | None,
        kinds: bool,
    ) -> None:
        """Commit the rows of the table `staged`. `overwrite`: a partition's values, {} for the table's own rule; `kinds`:
        the last column of `staged` says the kind of each row."""
        table = self._table(warehouse, name, options)
        write, commit, messages = self._written(warehouse, table, staged, overwrite, kinds)
        try:
            commit.commit(messages)
        finally:
            write.close()
            commit.close()

    def begin(self, warehouse: str, name: str, staged: str, options: dict[str, str], kinds: bool) -> None:
        """As `write`, up to the commit, which `finish` does."""
        table = self._table(warehouse, name, options)
        self._begun = self._written(warehouse, table, staged, None, kinds)

    def finish(self) -> None:
        """Commit what was begun."""
        write, commit, messages = self._begun
        try:
            commit.commit(messages)
        finally:
            write.close()
            commit.close()

    def _written(
        self, warehouse: str, table: Any, staged: str, overwrite: dict[str, str] | None, kinds: bool
    ) -> tuple[Any, Any, Any]:
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(table)
        if overwrite is not None:
            builder = builder.withOverwrite(dict(overwrite))
        write, commit = builder.newWrite(), builder.newCommit()
        write.withIOManager(self._paimon.disk.IOManager.create(self._scratch))
        if overwrite is not None:
            write.withIgnorePreviousFiles(True)
        place = self._placing(table, write)
        count = self._call("table.Table", table, "rowType").getFieldCount()
        projected = self._projected(count)
        source = self._paimon.table.source.ReadBuilderImpl(self._table(warehouse, staged))
        rows = self._reader(source)
        try:
            while rows.hasNext():
                row = rows.next()
                projected.replaceRow(row)
                projected.setRowKind(
                    self._paimon.types.RowKind.fromByteValue(row.getInt(count)) if kinds else self._insert()
                )
                place(projected)
        finally:
            rows.close()
        return write, commit, write.prepareCommit()

    def _insert(self) -> Any:
        return self._paimon.types.RowKind.INSERT

    def _projected(self, count: int) -> Any:
        numbers = self._jvm.java.lang.reflect.Array.newInstance(self._jvm.java.lang.Integer.TYPE, count)
        for at in range(count):
            numbers[at] = at
        return getattr(self._paimon.utils.ProjectedRow, "from")(numbers)

    def _placing(self, table: Any, write: Any) -> Any:
        """What writes a row: with dynamic buckets, into that which Paimon's assigner chooses."""
        of = partial(self._call, "table.FileStoreTable", table)
        if of("bucketMode").toString() != "HASH_DYNAMIC":
            return write.write
        core = of("coreOptions")
        rows, limit = core.dynamicBucketTargetRowNum(), core.dynamicBucketMaxBuckets()
        indexes = self._call("FileStore", of("store"), "newIndexFileHandler")
        assigner = self._paimon.index.HashBucketAssigner(
            of("snapshotManager"), "assigner", indexes, 1, 1, 0, rows, limit
        )
        keys = self._paimon.table.sink.RowPartitionKeyExtractor(of("schema"))

        def place(row: Any) -> None:
            hashed = keys.trimmedPrimaryKey(row).hashCode()
            write.write(row, assigner.assign(keys.partition(row), hashed))

        return place

    def read(self, warehouse: str, name: str, path: str, options: dict[str, str]) -> list[list[str]]:
        """Write the table's rows, those of kind -U and -D left out, to the parquet file `path`; its columns, [name, type]
        each."""
        table = self._table(warehouse, name, options)
        builder = self._paimon.table.source.ReadBuilderImpl(table)
        reader = self._reader(builder)
        kind = builder.readType()
        files = self._paimon.fs.local.LocalFileIO.create()
        out = files.newOutputStream(self._paimon.fs.Path(path), True)
        form = self._paimon.format.FileFormat.fromIdentifier("parquet", self._paimon.options.Options())
        writer = form.createWriterFactory(kind).create(out, "zstd")
        rows = reader
        try:
            while rows.hasNext():
                row = rows.next()
                if row.getRowKind().isAdd():
                    writer.addElement(row)
        finally:
            rows.close()
            writer.close()
            out.close()
        return [[field.name(), field.type().asSQLString()] for field in kind.getFields()]

    def _reader(self, builder: Any) -> Any:
        """An iterator of rows."""
        plan = self._call("table.source.TableScan", builder.newScan(), "plan")
        splits = self._call("table.source.TableScan$Plan", plan, "splits")
        reader = self._call("table.source.TableRead", builder.newRead(), "createReader", splits)
        return self._call("reader.RecordReader", reader, "toCloseableIterator")

    def compact(self, warehouse: str, name: str, options: dict[str, str], full: bool) -> None:
        """Compact every bucket of a table with keys or buckets; of others what Paimon's coordinator finds worth it."""
        table = self._table(warehouse, name, {**options, "write-only": "false"})
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(table)
        write, commit = builder.newWrite(), builder.newCommit()
        write.withIOManager(self._paimon.disk.IOManager.create(self._scratch))
        of = partial(self._call, "table.FileStoreTable", table)
        try:
            if of("bucketMode").toString() == "BUCKET_UNAWARE":
                if of("coreOptions").rowTrackingEnabled():
                    fields = self._paimon.table.SpecialFields.rowTypeWithRowTracking(of("rowType"))
                    write.getWrite().withWriteType(fields)
                messages = self._jvm.java.util.ArrayList()
                for task in self._coordinated(table):
                    messages.add(task.doCompact(table, write.getWrite()))
            else:
                reader = self._call("table.DataTable", table, "newSnapshotReader")
                for entry in self._call("table.source.snapshot.SnapshotReader", reader, "bucketEntries"):
                    write.compact(entry.partition(), entry.bucket(), full)
                messages = write.prepareCommit()
            commit.commit(messages)
        finally:
            write.close()
            commit.close()

    def _coordinated(self, table: Any) -> list[Any]:
        """What an append table's compaction coordinator finds worth it."""
        try:
            return list(self._paimon.append.AppendCompactCoordinator(table, False).run())
        except Py4JJavaError as error:
            if "EndOfScanException" in error.java_exception.toString():  # there is no snapshot yet
                return []
            raise

    def alter(self, warehouse: str, name: str, changes: list[list[Any]]) -> None:
        """Change the schema: [method of SchemaChange, arguments…] each; types are spelled as JSON after "type:", the
        path to a member as ["path", name…], places as ["move", "first" or "after", names…]."""
        found = []
        for method, *given in changes:
            arguments = [self._argument(each) for each in given]
            found.append(getattr(self._paimon.schema.SchemaChange, method)(*arguments))
        self._catalog(warehouse).alterTable(self._paimon.catalog.Identifier.fromString(name), found, False)

    def _argument(self, given: Any) -> Any:
        if isinstance(given, list) and given[0] == "path":
            names = self._jvm.java.lang.reflect.Array.newInstance(
                self._jvm.java.lang.Class.forName("java.lang.String"), len(given) - 1
            )
            for at, name in enumerate(given[1:]):
                names[at] = name
            return names
        if isinstance(given, list):
            return getattr(self._paimon.schema.SchemaChange.Move, given[1])(*given[2:])
        if isinstance(given, str) and given.startswith("type:"):
            parser = self._paimon.types.DataTypeJsonParser
            text = json.loads(given[5:])
            node = self._jvm.org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper().readTree(
                json.dumps(text)
            )
            return parser.parseDataType(node)
        return given

    def call(self, warehouse: str, name: str, method: str, arguments: list[Any]) -> None:
        """A method of Paimon's Table: createTag, deleteTag, createBranch, rollbackTo …"""
        self._call("table.Table", self._table(warehouse, name), method, *arguments)

    def rollback(self, warehouse: str, name: str, snapshot: int) -> None:
        """Back to a snapshot."""
        table = self._table(warehouse, name)
        method = self._jvm.java.lang.Class.forName("org.apache.paimon.table.Table").getMethods()
        found = [
            each
            for each in method
            if each.getName() == "rollbackTo" and each.getParameterTypes()[0].toString() == "long"
        ]
        self._invoke(found, table, self._objects(self._jvm.java.lang.Long.valueOf(str(snapshot))))

    def _objects(self, *arguments: Any) -> Any:
        objects = self._jvm.java.util.ArrayList()
        for each in arguments:
            objects.add(each)
        return objects.toArray()

    def committed(self, warehouse: str, name: str, method: str, arguments: list[Any]) -> None:
        """A method of a batch commit: truncateTable, truncatePartitions, compactManifests."""
        commit = self._paimon.table.sink.BatchWriteBuilderImpl(self._table(warehouse, name)).newCommit()
        try:
            getattr(commit, method)(*arguments)
        finally:
            commit.close()

    def expire(self, warehouse: str, name: str, keep: int) -> int:
        """Expire all snapshots but the newest `keep`."""
        config = self._paimon.options.ExpireConfig.builder()
        day = self._jvm.java.time.Duration.ofMillis(0)
        config = config.snapshotRetainMax(keep).snapshotRetainMin(keep).snapshotTimeRetain(day)
        config = config.changelogRetainMax(keep).changelogRetainMin(keep).changelogTimeRetain(day)
        expiry = self._call("table.Table", self._table(warehouse, name), "newExpireSnapshots")
        return int(expiry.config(config.build()).expire())

    def close(self) -> None:
        for catalog in self._catalogs.values():
            with contextlib.suppress(Exception):
                catalog.close()
