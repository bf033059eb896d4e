"""Which table a name means: a temp view of the session, a table of the lake, or a table of Spark's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from bucketlake.catalog import SYSTEM_DATABASE
from bucketlake.catalog_tables import CATALOG_TABLES
from bucketlake.catalogs.names import DATABASE_SUFFIX, name_of_folder, written
from bucketlake.env.object_store import places
from bucketlake.env.storage import threads_for
from bucketlake.errors import InvalidError
from bucketlake.ops.table.parallel import parallel
from bucketlake.options.session import CATALOG_NAMES
from bucketlake.spark.settings import once
from bucketlake.spark.types import quoted
from bucketlake.sql.text.cursor import Cursor
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

DEFAULT_DATABASE = "default"
CATALOG = "paimon"  # the name by which Spark's own statements would know this catalog
SPARK_CATALOG = "spark_catalog"  # the name of Spark's own


@dataclass(frozen=True, slots=True)
class LakeName:
    """A table of the lake: `table` may carry `$branch_…` or a system table's `$…` suffix."""

    database: str
    table: str

    @property
    def full(self) -> str:
        """`db.t`, as `Lake.table` takes it."""
        return written(self.database, self.table)

    @property
    def base(self) -> str:
        """The table's name without its suffix."""
        return self.table.split("$", 1)[0]


def parts_of(text: str) -> tuple[str, ...]:
    """The parts of a table's name that a literal holds, in backticks or without, `$` in them too; InvalidError."""
    if "`" not in text:
        return tuple(part.strip() for part in text.split("."))
    cursor = Cursor(text)
    parts = cursor.name()
    cursor.end()
    return parts


def own_catalog(lake: Lake) -> str:
    """The name by which statements know the lake: that of an attached session, else as Paimon's users have it."""
    return CATALOG if lake.catalog_names == CATALOG_NAMES else lake.catalog_names[0]


def target(lake: Lake, parts: tuple[str, ...]) -> LakeName:
    """The lake table that a statement is to create, change or write, whether or not it exists."""
    if lake.in_spark_catalog and len(parts) < 3:
        catalog = lake.catalog_names[0]
        raise InvalidError(
            "names are those of Spark's catalog now",
            name=".".join(parts),
            remedy=f"USE {catalog}.{lake.current_database} first, or name the table {catalog}.db.table",
        )
    if len(parts) == 1:
        return LakeName(lake.current_database, parts[0])
    if len(parts) == 2:
        return LakeName(parts[0], parts[1])
    if len(parts) == 3 and parts[0].lower() in lake.catalog_names:
        return LakeName(parts[1], parts[2])
    raise InvalidError(
        "no such catalog", name=".".join(parts), remedy=f"use db.table or {lake.catalog_names[0]}.db.table"
    )


def find(lake: Lake, parts: tuple[str, ...]) -> LakeName | None:
    """The lake table that a query's name means; None if it is a temp view's or Spark's.

    Temp views hide lake tables of the same unqualified name; lake tables hide Spark's."""
    return find_all(lake, [parts])[0]


def find_all(lake: Lake, several: Sequence[tuple[str, ...]]) -> list[LakeName | None]:
    """As `find`, of several names; on object stores all are looked for at once."""
    meant = [_meant(lake, parts) for parts in several]
    asked = list(dict.fromkeys(name for name in meant if name is not None and name.database != SYSTEM_DATABASE))

    def is_there(name: LakeName) -> bool:
        return lake.catalog.table_exists(LakeName(name.database, name.base).full)

    there = parallel(is_there, asked, threads_for(lake.catalog.warehouse))
    gone = {name for name, found in zip(asked, there, strict=True) if not found}
    return [None if name in gone else name for name in meant]


def _meant(lake: Lake, parts: tuple[str, ...]) -> LakeName | None:
    """The lake table that a query's name means, if it is there."""
    if len(parts) > 3 or (len(parts) == 3 and parts[0].lower() not in lake.catalog_names):
        return None
    if (lake.in_spark_catalog and len(parts) < 3) or (len(parts) == 2 and "/" in parts[1]):
        return None  # parquet.`/data/files` is Spark's
    if len(parts) == 1 and is_temp_view(lake, parts[0]):
        return None
    name = target(lake, parts)
    if name.database == SYSTEM_DATABASE:
        return name if name.table.lower() in CATALOG_TABLES or not is_sparks(lake, parts) else None
    return name


def of_folder(lake: Lake, path: Any) -> LakeName | None:
    """The lake table whose folder a path is, however it is spelled; None where it is another place."""
    if not isinstance(path, str) or not lake.catalog.metastore.has_folder:
        return None
    meant = places(path)
    for found in map(name_of_folder, meant):
        if found is None or found.system is not None:
            continue
        name = LakeName(found.database, found.table)
        with suppress(InvalidError):
            if lake.catalog.table_exists(name.full) and not {*meant}.isdisjoint(
                places(lake.catalog.table_path(name.full))
            ):
                return name
    return None


def table_folders(path: str) -> Iterator[str]:
    """The folders of tables, by their names, that a path is or lies in."""
    for place in places(path):
        parts = place.split("/")
        for at, part in enumerate(parts[:-1]):
            if part.endswith(DATABASE_SUFFIX) and parts[at + 1]:
                yield "/".join(parts[: at + 2])


def holds_tables(lake: Lake, path: str) -> bool:
    """Whether a path is a folder of a database, of the warehouse, or one that this lies in, however it is spelled."""
    if not lake.catalog.metastore.has_folder:
        return False
    return any(
        _holds(lake, place.rstrip("/") + "/", warehouse.rstrip("/") + "/")
        for place in places(path)
        for warehouse in places(lake.catalog.warehouse)
    )


def _holds(lake: Lake, place: str, warehouse: str) -> bool:
    name = place.removeprefix(warehouse).rstrip("/") if place.startswith(warehouse) else ""
    is_database = name.endswith(DATABASE_SUFFIX) and "/" not in name
    return warehouse.startswith(place) or (
        is_database and lake.catalog.database_exists(name.removesuffix(DATABASE_SUFFIX))
    )


def is_elsewhere(lake: Lake, parts: tuple[str, ...]) -> bool:
    """Whether the name says that it is of another catalog that the session has."""
    return len(parts) > 2 and parts[0].lower() in {*lake.other_catalogs, SPARK_CATALOG}


def is_sparks(lake: Lake, parts: tuple[str, ...]) -> bool:
    """Whether Spark itself has a table or view of this name."""
    try:
        return bool(lake.spark.catalog.tableExists(".".join(map(quoted, parts))))
    except AnalysisException as error:
        if error.getCondition() != "REQUIRES_SINGLE_PART_NAMESPACE":
            raise
        return False  # the first part names no catalog


def is_temp_view(lake: Lake, name: str) -> bool:
    """Whether the session has a temporary view of this name; asked once a statement."""
    return once(lake.spark, ("temporary view", name), partial(_is_temp_view, lake, name))


def _is_temp_view(lake: Lake, name: str) -> bool:
    if "$" in name or not is_sparks(lake, (name,)):
        return False
    try:
        return bool(lake.spark.catalog.getTable(quoted(name)).isTemporary)
    except AnalysisException:  # dropped meanwhile
        return False


def catalog_of(parts: tuple[str, ...] | None) -> tuple[str, ...]:
    """The parts of a database's name that stand before it: the catalog that is named, if any."""
    return parts[:-1] if parts else ()


def database(lake: Lake, parts: tuple[str, ...]) -> str:
    """The database that `db` or `catalog.db` names."""
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2 and parts[0].lower() in lake.catalog_names:
        return parts[1]
    raise InvalidError("no such catalog", name=".".join(parts), remedy=f"use db or {lake.catalog_names[0]}.db")


def own_spelling(spec: Mapping[str, str | None], keys: Sequence[str]) -> dict[str, str | None]:
    """A partition specification under the columns' own names: those that are written so, else whatever their case;
    unknown ones stay. InvalidError for a column that is named twice."""
    by_case = {key.lower(): key for key in keys}
    found: dict[str, str | None] = {}
    for name, value in spec.items():
        own = name if name in keys else by_case.get(name.lower(), name)
        if own in found:
            raise InvalidError(f"[DUPLICATE_KEY] SQL: partition column {own} is given twice", partition_keys=list(keys))
        found[own] = value
    return found
