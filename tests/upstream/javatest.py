"""What upstream's suites in Java stand on, natively: rows with kinds, folders, streams of Java; names of a `Bench`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row

from .library import Lazy, Package
from .tables import Place, TableWords
from .values import JavaList, Unknown, shown

if TYPE_CHECKING:
    from .harness import Bench

KINDS = {"INSERT": 0, "UPDATE_BEFORE": 1, "UPDATE_AFTER": 2, "DELETE": 3}


class GivenRow(tuple[Any, ...]):
    """`GenericRow.of(…)`, or `ofKind(kind, …)`."""

    kind = 0


class Collector:
    """What `stream.collect` is given."""

    collector = True

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, held: Any) -> Any:
        return self.function(held)


def of_kind(kind: str, *values: Any) -> GivenRow:
    made = GivenRow(values)
    made.kind = KINDS[kind]
    return made


class Builder:
    """`SparkSession.builder()`, whose every setting the bench has made."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def config(self, key: str, value: Any) -> Builder:
        if key.startswith("spark.sql.catalog.") and key.count(".") > 3 and not key.endswith(BUILT):
            raise Unknown(f"a catalog's {key.split('.', 4)[-1]}")
        self.bench.spark.own_catalog |= key == "spark.sql.catalog.spark_catalog"
        return self

    def master(self, *_: Any) -> Builder:
        return self

    enableHiveSupport = appName = master

    def getOrCreate(self) -> Any:
        for key in dict(self.bench.session.conf.getAll):
            if key.startswith("spark.paimon."):
                self.bench.session.conf.unset(key)
        return self.bench.spark


BUILT = (
    ".warehouse",
    ".metastore",
    ".uris",
    ".uri",
    ".format-table.enabled",
    ".token",
    ".token.provider",
    ".cache-enabled",
)


def cause_matches(*words: Any) -> Any:
    """`anyCauseMatches(kind, message)`."""

    def check(error: Any) -> None:
        if isinstance(words[-1], str) and words[-1] not in str(error):
            raise AssertionError(f"message {words[-1]!r}, but it was: {error}")

    return check


def javatest(bench: Bench) -> dict[str, Any]:
    """The words of `SparkReadTestBase` and of the suites beside it."""

    def write(name: str, *rows: Any) -> None:
        if all(isinstance(one, str) for one in rows):
            bench.spark.sql(f"INSERT INTO paimon.default.{name} VALUES {','.join(rows)}")
            return
        table = bench.lake.catalog.table(f"default.{name}")
        names = table.arrow_schema.names
        data = pa.Table.from_pylist([dict(zip(names, one, strict=True)) for one in rows], table.arrow_schema)
        if any(one.kind for one in rows):
            data = data.append_column("_VALUE_KIND", pa.array([one.kind for one in rows], pa.int8()))
        table.write_arrow(data)

    return {
        "writeTable": write,
        "getTable": lambda name: TableWords(bench, f"{bench.lake.current_database}.{name}"),
        "Comparator": SimpleNamespace(comparingInt=lambda key: key, comparing=lambda key: key),
        "row": lambda *values: Row(*values),
        "array": lambda *values: list(values),
        "newFolder": lambda: Place(bench.new_folder()),
        "warehousePath": Lazy(lambda: Place(bench.warehouse)),
        "foreachIndexReader": lambda *_: None,  # how an index's file reads is upstream's own
        "GenericRow": SimpleNamespace(of=lambda *values: GivenRow(values), ofKind=of_kind),
        "RowKind": SimpleNamespace(**{one: one for one in KINDS}),
        "BinaryString": SimpleNamespace(fromString=str),
        "SparkSession": SimpleNamespace(builder=lambda: Builder(bench)),
        "SparkGenericCatalog": Package("SparkGenericCatalog"),
        "anyCauseMatches": cause_matches,
        "assertThatNoException": lambda: SimpleNamespace(isThrownBy=lambda body: body()),
        "RowTestHelper": SimpleNamespace(checkRowEquals=bench.answer),
        "FileStoreTableFactory": SimpleNamespace(
            create=lambda io, place: TableWords(bench, ".".join(str(place).replace(".db/", "/").split("/")[-2:]))
        ),
        "Collectors": SimpleNamespace(
            toList=lambda: Collector(JavaList),
            toSet=lambda: Collector(set),
            joining=lambda by="", start="", end="": Collector(
                lambda held: start + by.join(shown(one) for one in held) + end
            ),
        ),
    }
