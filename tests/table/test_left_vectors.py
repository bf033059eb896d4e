"""Deletion vectors that Apache Paimon before 2.0 left over from files that compaction replaced: nobody takes them for
damage, and compaction drops them. What may be damage of a vector that marks something is still refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.check.forged import indexes, live, read, settle, some, table_of

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.format.index.deletion_vector import vector_of
from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.ops.rows.deletions import load_vectors, write_vectors
from bucketlake.table import Table

AGES = "01234567-89ab-cdef-0123-456789abcdef"  # of a writer that nobody else knows


def marked(folder: Path) -> Table:
    """A table of one bucket whose top level has rows marked."""
    table = table_of(
        folder, bucket="1", **{"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "9"}
    )
    table.write_arrow(some(0, 30))
    table.compact(full=True)
    table.write_arrow(some(0, 3, "b"))
    table.compact(full=False)
    assert [part.cardinality for entry in indexes(table) for part in entry.file.dv_ranges or ()] == [3]
    return table


def named(table: Table, name: Callable[[str], str], *, beside: bool) -> list[IndexEntry]:
    """The bucket's vectors with one of another name: `beside` them, or in the place of that."""
    (entry,) = indexes(table)
    ((file, vector),) = load_vectors(table.store, [entry]).items()
    found = {name(file): vector_of(np.array([1, 2]), bits64=False) if beside else vector}
    vectors = {file: vector, **found} if beside else found
    (made,) = write_vectors(table.store, entry.partition, entry.bucket, vectors)
    return [IndexEntry(FileKind.ADD, entry.partition, entry.bucket, made)]


def vectors_of(table: Table) -> set[str]:
    return {part.data_file_name for entry in indexes(table) for part in entry.file.dv_ranges or ()}


CALLS: dict[str, Callable[[Table], object]] = {
    "nothing": lambda table: None,
    "compact": lambda table: table.compact(full=True),
    "upsert": lambda table: (table.write_arrow(some(3, 6, "a")), table.compact(full=False)),
    "rescale": lambda table: table.rescale(2),
    "expire": lambda table: table.expire_snapshots(retain_max=1, retain_min=1),
    "repair": lambda table: table.repair(table.fsck("metadata"), dry_run=False),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_was_left_over_is_in_nobodys_way(tmp_path: Path, call: str) -> None:
    table = marked(tmp_path)
    rows = read(table)
    settle(table, index=named(table, lambda _: f"data-{AGES}-0.parquet", beside=True))
    assert read(table) == rows
    assert [row for row in rows if row[1] == 2] == read(table, where="k = 2")
    assert {found.code for found in table.fsck("rows").findings} == {"vector-left"}
    CALLS[call](table.refresh())
    assert read(table) == rows
    left = f"data-{AGES}-0.parquet" in vectors_of(table)
    assert left == (call in ("nothing", "expire"))
    assert {found.code for found in table.fsck("rows").findings} == ({"vector-left"} if left else set())


@pytest.mark.parametrize("beside", [True, False])
def test_a_clone_has_none_of_them(tmp_path: Path, beside: bool) -> None:
    table = marked(tmp_path)
    if not beside:
        table.compact(full=True)
    left = f"data-{AGES}-0.parquet"
    index = named(table, lambda _: left, beside=True) if beside else [only(table, left)]
    rows = read(table)
    settle(table, index=index)
    catalog = bucketlake.open(tmp_path)
    catalog.clone_table(table.refresh(), "copied")
    copied = catalog.table("copied")
    assert read(copied) == rows
    assert left not in vectors_of(copied) and not copied.fsck("rows").findings


def only(table: Table, name: str) -> IndexEntry:
    """An index file with a vector of one file, in the table's bucket."""
    partition, vectors = live(table)[0].partition, {name: vector_of(np.array([1, 2]), bits64=False)}
    (made,) = write_vectors(table.store, partition, 0, vectors)
    return IndexEntry(FileKind.ADD, partition, 0, made)


def other_digit(place: int) -> Callable[[str], str]:
    return lambda name: f"{name[:place]}{'1' if name[place] == '0' else '0'}{name[place + 1 :]}"


DAMAGES: dict[str, Callable[[str], str]] = {
    "a digit": other_digit(len("data-0")),
    "the last digit": other_digit(len("data-") + 35),
    "the counter": lambda name: name.replace("-0.parquet", "-4.parquet"),
    "no name of a file": lambda name: f"data-{AGES[:-1]}%-0.parquet",
    "seven digits": lambda name: f"data-{''.join('1' if c == '0' else '0' for c in name[5:12])}{name[12:]}",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_names_that_damage_makes_are_refused(tmp_path: Path, damage: str) -> None:
    table = marked(tmp_path)
    settle(table, index=named(table, DAMAGES[damage], beside=False))
    newest = table.store.latest_snapshot()
    for call in (read, lambda table: table.refresh().compact(full=True)):
        with pytest.raises(CorruptError, match=r"vector of a file that is not there.*bucketlake repair"):
            call(table)
    assert table.refresh().latest_snapshot() == newest
    assert "vector-dangling" in {found.code for found in table.fsck("metadata").findings}


def test_what_one_writer_left_over_is_told_by_manifests(tmp_path: Path) -> None:
    """Files of one writer differ in their numbers alone, and so do names that damage makes."""
    table = marked(tmp_path)
    rows = read(table)
    new = max(live(table), key=lambda entry: entry.file.max_sequence_number)  # it has no vector
    left = new.file.file_name.replace("-0.parquet", "-7.parquet")
    index = named(table, lambda _: left, beside=True)
    settle(table, index=index)
    with pytest.raises(CorruptError, match="vector of a file that is not there"):
        read(table)
    settle(table, [*live(table), *gone(new, left)], index=index)
    assert read(table) == rows
    table.refresh().compact(full=True)
    assert read(table) == rows and vectors_of(table) == set()


def gone(like: ManifestEntry, name: str) -> list[ManifestEntry]:
    """A file that came and went."""
    file = replace(like.file, file_name=name, row_count=0)
    return [replace(like, kind=kind, file=file) for kind in (FileKind.ADD, FileKind.DELETE)]


def test_a_vector_of_another_partition_is_not_dropped_as_left_over(tmp_path: Path) -> None:
    """A compaction of the partition that it came to would drop it, and deleted rows of the other would be back."""
    table = marked(tmp_path)
    table.write_arrow(some(0, 9, part="y"))
    table.compact(full=True, partitions=[{"p": "y"}])
    table.write_arrow(some(0, 3, "b", part="y"))
    (other,) = {entry.partition for entry in live(table)} - {entry.partition for entry in indexes(table)}
    settle(table, index=[replace(entry, partition=other) for entry in indexes(table)])
    newest = table.store.latest_snapshot()
    with pytest.raises(CorruptError, match="vector of a file that is not there"):
        table.refresh().compact(full=True, partitions=[{"p": "y"}])
    assert table.refresh().latest_snapshot() == newest
