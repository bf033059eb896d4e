"""What a case of a fault is, and the tables that are spoilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.check.forged import Row, live, path_of, some, table_of

from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.table import Table

MOVED = 3600 * 1000


@dataclass(frozen=True)
class Case:
    """`make` spoils a table of its own and says which rows it shall have once it is mended, None where that cannot be
    said. `also`: codes that come with it."""

    code: str
    make: Callable[[Path], tuple[Table, list[Row] | None]]
    also: frozenset[str] = frozenset()


CASES: list[Case] = []


def case(code: str, *also: str) -> Callable[[Callable[[Path], tuple[Table, list[Row] | None]]], object]:
    def take(make: Callable[[Path], tuple[Table, list[Row] | None]]) -> object:
        CASES.append(Case(code, make, frozenset(also)))
        return make

    return take


def keyed(folder: Path, **options: str) -> Table:
    """Two commits of overlapping keys in one bucket."""
    table = table_of(folder, **{"bucket": "1", **options})
    table.write_arrow(some(0, 10))
    table.write_arrow(some(5, 12, "b"))
    return table


def appended(folder: Path, **options: str) -> Table:
    table = table_of(folder, (), **{"bucket": "-1", **options})
    table.write_arrow(some(0, 10))
    table.write_arrow(some(10, 20, "b"))
    return table


def dynamic(folder: Path) -> Table:
    table = table_of(folder, bucket="-1", **{"dynamic-bucket.target-row-num": "5"})
    table = table.with_options({})
    table.write_arrow(some(0, 10))
    return table


def marked(folder: Path) -> Table:
    """An append table with deletion vectors."""
    table = appended(folder, **{"deletion-vectors.enabled": "true"})
    table.delete("k IN (1, 2, 11)")
    return table


def packed(folder: Path, **options: str) -> Table:
    """A bucket that is one run of the top level."""
    table = keyed(folder, **options)
    table.compact()
    return table


def later(table: Table) -> list[ManifestEntry]:
    """The files whose rows came with a table's second commit."""
    names = {e.file.file_name: pq.read_table(path_of(table, e)).column("k")[0].as_py() for e in live(table)}
    return [e for e in live(table) if names[e.file.file_name] >= 10]


def read_all(*parts: pa.Table) -> list[Row]:
    """The rows of several tables, in order."""
    return sorted(tuple(row.values()) for part in parts for row in part.to_pylist())
