"""`spark.catalog` of an attached session: Spark's, with the databases and tables of the lake.

A subclass of the session's own catalog class, made for one attachment; what is no name of the lake's is asked below.
"""

from __future__ import annotations

import fnmatch
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql import catalog as values

from bucketlake.errors import AlreadyExistsError, BucketlakeError, UnsupportedError
from bucketlake.spark.instants import shown_type
from bucketlake.spark.raised import as_sparks
from bucketlake.spark.session import Saving
from bucketlake.spark.types import spark_type
from bucketlake.sql import statements
from bucketlake.sql.attached.layer import Layer, parts_of, when_idle
from bucketlake.sql.attached.said import write_table

if TYPE_CHECKING:
    from bucketlake.sql.text.names import LakeName


def catalog_class(layer: Layer, base: type, theirs: Any) -> type:
    """The class of `spark.catalog` of an attachment over `theirs`, an object of class `base`."""
    asked = {
        name: getattr(_Answers, name) for name in vars(_Answers) if not name.startswith("_") and hasattr(base, name)
    }

    def method(name: str) -> Any:
        def own(self: Any, *args: Any, **named: Any) -> Any:
            return getattr(_Answers(layer, theirs), name)(*args, **named)

        return when_idle(layer, own, getattr(base, name))

    own = {name: method(name) for name in asked}
    own |= {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), own)


class _Answers:
    """Each method answers as the method of Spark's catalog of that name; `theirs` answers for all else."""

    def __init__(self, layer: Layer, theirs: Any) -> None:
        self._layer, self._theirs, self._lake = layer, theirs, layer.lake

    # ---- where

    def currentCatalog(self) -> str:
        return str(self._theirs.currentCatalog()) if self._lake.in_spark_catalog else self._layer.catalog

    def setCurrentCatalog(self, catalogName: str) -> None:
        if catalogName.lower() in self._lake.catalog_names:
            self._lake.in_spark_catalog = False
            return
        self._theirs.setCurrentCatalog(catalogName)
        self._lake.in_spark_catalog = True

    def listCatalogs(self, pattern: str | None = None) -> list[values.CatalogMetadata]:
        own = values.CatalogMetadata(self._layer.catalog, f"Bucketlake: {self._lake.catalog.warehouse}")
        found = [] if not _matches(own.name, pattern) else [own]
        return found + list(self._theirs.listCatalogs(pattern))

    def currentDatabase(self) -> str:
        return str(self._theirs.currentDatabase()) if self._lake.in_spark_catalog else self._lake.current_database

    def setCurrentDatabase(self, dbName: str) -> None:
        found = self._layer.has_database(dbName)
        if found is None:
            self._theirs.setCurrentDatabase(dbName)
            self._lake.in_spark_catalog = True
            return
        self._lake.catalog.database_properties(found)  # NotFoundError
        self._lake.current_database, self._lake.in_spark_catalog = found, False

    # ---- databases

    def listDatabases(self, pattern: str | None = None) -> list[values.Database]:
        if self._lake.in_spark_catalog:
            return list(self._theirs.listDatabases(pattern))
        return [self._database(name) for name in self._lake.catalog.list_databases() if _matches(name, pattern)]

    def getDatabase(self, dbName: str) -> values.Database:
        found = self._layer.has_database(dbName)
        if found is None:
            return self._theirs.getDatabase(dbName)
        self._lake.catalog.database_properties(found)
        return self._database(found)

    def databaseExists(self, dbName: str) -> bool:
        found = self._layer.has_database(dbName)
        if found is not None and self._lake.catalog.database_exists(found):
            return True
        return found is None and bool(self._theirs.databaseExists(dbName))

    def createDatabase(self, dbName: str, ifNotExists: bool = False, properties: Any = None) -> None:
        parts = parts_of(dbName)
        own = parts is not None and (len(parts) == 1 or parts[0].lower() in self._lake.catalog_names)
        if parts is None or not own or (len(parts) == 1 and self._lake.in_spark_catalog):
            self._theirs.createDatabase(dbName, ifNotExists, properties)
        else:
            self._lake.catalog.create_database(parts[-1], ifNotExists, properties)

    def dropDatabase(self, dbName: str, ifExists: bool = False, cascade: bool = False) -> None:
        found = self._layer.has_database(dbName)
        if found is None:
            self._theirs.dropDatabase(dbName, ifExists, cascade)
        else:
            self._lake.catalog.drop_database(found, cascade, ifExists)

    def _database(self, name: str) -> values.Database:
        return values.Database(name, self._layer.catalog, None, self._lake.catalog.database_path(name))

    # ---- tables

    def listTables(self, dbName: str | None = None, pattern: str | None = None) -> list[values.Table]:
        database = self._layer.has_database(dbName)
        if database is None:
            return list(self._theirs.listTables(dbName, pattern))
        found = [one for one in self._lake.catalog.list_tables(database) if _matches(one, pattern)]
        own = [self._table(database, name) for name in found]
        both = bool(self._theirs.databaseExists(database))  # Spark's tables are found where no lake table hides them
        hidden = {name.lower() for name in found}
        others = self._theirs.listTables(database if both else None, pattern)
        return own + [one for one in others if one.isTemporary or (both and one.name.lower() not in hidden)]

    def listViews(self, dbName: str | None = None, pattern: str | None = None) -> list[values.Table]:
        database = self._layer.has_database(dbName)
        if database is None:
            return list(self._theirs.listViews(dbName, pattern))
        found = [name for name in self._lake.catalog.list_views(database) if _matches(name, pattern)]
        own = [values.Table(name, self._layer.catalog, [database], None, "VIEW", False) for name in found]
        return own + [one for one in self._theirs.listViews(None, pattern) if one.isTemporary]

    def listFunctions(self, dbName: str | None = None, pattern: str | None = None) -> list[values.Function]:
        theirs = dbName is not None and self._layer.has_database(dbName) is None  # a lake's database holds none
        return list(self._theirs.listFunctions(dbName if theirs else None, pattern))

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:
        name = _in(dbName, tableName)
        known = self._layer.find(name) is not None or self._layer.has_view(name)
        return known or bool(self._theirs.tableExists(tableName, dbName))

    def getTable(self, tableName: str) -> values.Table:
        found = self._layer.find(tableName)
        if found is None:
            return self._theirs.getTable(tableName)
        return self._table(found.database, found.table)

    def listColumns(self, tableName: str, dbName: str | None = None) -> list[values.Column]:
        found = self._layer.find(_in(dbName, tableName))
        if found is None:
            return list(self._theirs.listColumns(tableName, dbName))
        with self._layer.inside() as lake:
            table = lake.table(found.full)
        schema = table.schema
        return [
            values.Column(
                name=field.name,
                description=field.description,
                dataType=spark_type(shown_type(field.type, table.options)).simpleString(),
                nullable=field.type.nullable,
                isPartition=field.name in schema.partition_keys,
                isBucket=False,
                isCluster=False,
            )
            for field in schema.fields
        ]

    def listPartitions(self, tableName: str) -> Any:
        found = self._layer.find(tableName)
        if found is None:
            return self._theirs.listPartitions(tableName)
        rows = self._run(f"SHOW PARTITIONS {_quoted(found)}").collect()
        return [values.TablePartition(row[0]) for row in rows]

    def getTableProperties(self, tableName: str) -> dict[str, str]:
        found = self._layer.find(tableName)
        if found is None:
            return dict(self._theirs.getTableProperties(tableName))
        return {row[0]: row[1] for row in self._run(f"SHOW TBLPROPERTIES {_quoted(found)}").collect()}

    def getCreateTableString(self, tableName: str, asSerde: bool = False) -> str:
        found = self._layer.find(tableName)
        if found is None:
            return str(self._theirs.getCreateTableString(tableName, asSerde))
        return str(self._run(f"SHOW CREATE TABLE {_quoted(found)}").collect()[0][0])

    def createTable(
        self,
        tableName: str,
        path: str | None = None,
        source: str | None = None,
        schema: Any = None,
        description: str | None = None,
        **options: str,
    ) -> Any:
        found = self._layer.to_make(tableName, source)
        if found is None:
            more = {"path": path, "source": source, "schema": schema, "description": description}
            return self._theirs.createTable(tableName, **more, **options)
        if path is not None or schema is None:
            raise UnsupportedError("a lake table by its path, or without a schema", table=found.full)
        if self._lake.catalog.table_exists(found.full):
            what = "[TABLE_OR_VIEW_ALREADY_EXISTS] table already exists"
            raise as_sparks(AlreadyExistsError(what, table=found.full))
        with self._layer.inside() as lake:
            frame = lake.spark.createDataFrame([], schema)
            given: dict[str, Any] = {**options, **({} if description is None else {"comment": description})}
            write_table(lake, frame, Saving(found.full, "create", options=given))
            return lake.read_table(found.full)

    def createExternalTable(self, tableName: str, *args: Any, **named: Any) -> Any:
        return self.createTable(tableName, *args, **named)

    def dropTable(self, tableName: str, ifExists: bool = False, purge: bool = False) -> None:
        found = self._layer.find(tableName)
        if found is None:
            self._theirs.dropTable(tableName, ifExists, purge)
        else:
            self._lake.catalog.drop_table(found.full, ifExists)

    def truncateTable(self, tableName: str) -> None:
        found = self._layer.find(tableName)
        if found is None:
            self._theirs.truncateTable(tableName)
        else:
            self._run(f"TRUNCATE TABLE {_quoted(found)}")

    def analyzeTable(self, tableName: str, noScan: bool = False) -> None:
        found = self._layer.find(tableName)
        if found is None:
            self._theirs.analyzeTable(tableName, noScan)
        else:
            self._run(f"ANALYZE TABLE {_quoted(found)} COMPUTE STATISTICS{' NOSCAN' if noScan else ''}")

    # ---- cached, refreshed

    def isCached(self, tableName: str) -> bool:
        found = self._layer.find(tableName)
        return bool(self._theirs.isCached(tableName)) if found is None else found.full in self._lake.cached

    def cacheTable(self, tableName: str, storageLevel: Any = None) -> None:
        found = self._layer.find(tableName)
        if found is None:
            self._theirs.cacheTable(tableName, storageLevel)
        elif storageLevel is not None:
            raise UnsupportedError("a lake table cached at a level", table=found.full, remedy="leave the level out")
        else:
            self._run(f"CACHE TABLE {_quoted(found)}")

    def uncacheTable(self, tableName: str) -> None:
        found = self._layer.find(tableName)
        if found is None:
            self._theirs.uncacheTable(tableName)
        else:
            self._run(f"UNCACHE TABLE IF EXISTS {_quoted(found)}")

    def clearCache(self) -> None:
        self._theirs.clearCache()
        self._lake.cached.clear()

    def refreshTable(self, tableName: str) -> None:
        if self._layer.find(tableName) is None:  # tables of the lake are looked up anew by every statement
            self._theirs.refreshTable(tableName)

    def recoverPartitions(self, tableName: str) -> None:
        found = self._layer.find(tableName)
        if found is not None:
            raise UnsupportedError("partitions are what rows say: there is nothing to recover", table=found.full)
        self._theirs.recoverPartitions(tableName)

    def _table(self, database: str, name: str) -> values.Table:
        comment = None
        with suppress(BucketlakeError):  # dropped meanwhile, or not to be read here: its name is there all the same
            comment = self._lake.catalog.table(f"`{database}`.`{name}`").schema.comment
        return values.Table(name, self._layer.catalog, [database], comment, "MANAGED", False)

    def _run(self, statement: str) -> Any:
        with self._layer.inside() as lake:
            return statements.run(lake, statement)


def _in(database: str | None, table: str) -> str:
    return table if database is None else f"{database}.{table}"


def _matches(name: str, pattern: str | None) -> bool:
    """Spark's pattern: `a*|b*`."""
    if pattern is None:
        return True
    return any(fnmatch.fnmatchcase(name.lower(), part.strip().lower()) for part in pattern.split("|"))


def _quoted(name: LakeName) -> str:
    return f"`{name.database}`.`{name.table}`"
