"""Every table of the corpus is read as Flink read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests import corpus
from tests.interop.values import arrow_rows, canonical, shortest

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError
from bucketlake.table import Table

# TIMESTAMP(7..9) is held in nanoseconds of 64 bits: years outside 1677 to 2262 are refused, never wrapped.
OUT_OF_RANGE = {
    "types_far_parquet": ("c_timestamp_9",),
    "types_far_orc": ("c_timestamp_9",),
}
PENDING = {"postpone_mixed", "postpone_pending"}  # what is written to them is not read before it is compacted


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The corpus, unpacked."""
    return bucketlake.open(corpus.unpack(tmp_path_factory.mktemp("corpus")))


def _table(catalog: Catalog, name: str) -> Table:
    return catalog.table(f"{corpus.DATABASE}.{name}")


@pytest.mark.parametrize("name", sorted(set(corpus.names()) - set(OUT_OF_RANGE)))
def test_rows_are_as_flink_read_them(catalog: Catalog, name: str) -> None:
    table, truth = _table(catalog, name), corpus.expected(name)
    assert list(table.schema.field_names) == truth.columns
    assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == canonical(shortest(truth.rows, truth.types))


@pytest.mark.parametrize("name", sorted(OUT_OF_RANGE))
def test_instants_beyond_64_bit_nanoseconds_are_refused_not_wrapped(catalog: Catalog, name: str) -> None:
    table, truth = _table(catalog, name), corpus.expected(name)
    for column in OUT_OF_RANGE[name]:
        with pytest.raises(BucketlakeError, match="does not fit 64-bit nanoseconds"):
            table.to_arrow(columns=[column])
    kept = [field for field in table.schema.fields if field.name not in OUT_OF_RANGE[name]]
    at = [truth.columns.index(field.name) for field in kept]
    mine = arrow_rows(table.to_arrow(columns=[field.name for field in kept]), kept)
    assert canonical(mine) == canonical(tuple(row[i] for i in at) for row in truth.rows)


def _versions() -> list[tuple[str, str]]:
    found = [(name, label) for name in corpus.names() for label in corpus.expected(name).versions]
    return [(name, label) for name, label in found if label != "merge on read"]


@pytest.mark.parametrize(("name", "label"), _versions())
def test_versions_are_as_flink_read_them(catalog: Catalog, name: str, label: str) -> None:
    """Flink reads an old snapshot with the newest schema, Bucketlake with the snapshot's: compared by field id."""
    kind, value = label.split(" ", 1)
    newest, truth = _table(catalog, name), corpus.expected(name).versions[label]
    if kind == "branch":
        newest, read = catalog.table(f"{corpus.DATABASE}.{name}$branch_{value}"), {}
    else:
        read = {"scan.snapshot-id": value} if kind == "snapshot" else {"scan.tag-name": value}
    past, _ = newest.as_of(read)
    mine = arrow_rows(
        newest.to_arrow(**{key.replace("-", "_").replace(".", "_"): v for key, v in read.items()}), past.schema.fields
    )
    assert canonical(_by_id(past, newest, mine)) == canonical(truth.rows)


def _by_id(past: Table, newest: Table, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    at = {field.id: number for number, field in enumerate(past.schema.fields)}
    wanted = [at.get(field.id) for field in newest.schema.fields]
    return [tuple(None if number is None else row[number] for number in wanted) for row in rows]


FILE_FACTS = {
    "bucket": lambda found: found.bucket,
    "schema_id": lambda found: found.file.schema_id,
    "level": lambda found: found.file.level,
    "record_count": lambda found: found.file.row_count,
    "file_size_in_bytes": lambda found: found.file.file_size,
    "min_sequence_number": lambda found: found.file.min_sequence_number,
    "max_sequence_number": lambda found: found.file.max_sequence_number,
    "deleteRowCount": lambda found: found.file.delete_row_count,
    "file_source": lambda found: found.file.file_source.name,
}


@pytest.mark.parametrize("name", corpus.names())
def test_files_and_buckets_are_those_that_flink_lists(catalog: Catalog, name: str) -> None:
    table, truth = _table(catalog, name), corpus.expected(name)
    mine = {found.file.file_name: found for found in table.files()}
    assert sorted(mine) == sorted(file["file_name"] for file in truth.files)
    for file in truth.files:
        found = mine[file["file_name"]]
        assert {key: fact(found) for key, fact in FILE_FACTS.items()} == {key: file[key] for key in FILE_FACTS}
        assert Path(found.path).stat().st_size == found.file.file_size


@pytest.mark.parametrize("name", corpus.names())
def test_snapshots_are_those_that_flink_lists(catalog: Catalog, name: str) -> None:
    mine = [
        (each.id, each.schema_id, each.commit_user, each.commit_identifier, each.commit_kind.value)
        for each in _table(catalog, name).snapshots()
    ]
    keys = ("snapshot_id", "schema_id", "commit_user", "commit_identifier", "commit_kind")
    assert mine == sorted(tuple(each[key] for key in keys) for each in corpus.expected(name).snapshots)


@pytest.mark.parametrize("name", sorted(set(corpus.names()) - PENDING - set(OUT_OF_RANGE)))
def test_rows_written_back_are_the_same_rows(catalog: Catalog, name: str) -> None:
    """A whole overwrite of a copy by its own rows: what Bucketlake reads of Paimon's values, it can write."""
    table, truth = _table(catalog, name), corpus.expected(name)
    path = f"copies.{name}"
    catalog.create_database("copies", ignore_if_exists=True)
    copy = catalog.create_table(path, table.schema)
    copy.write_arrow(table.to_arrow())
    assert canonical(arrow_rows(copy.to_arrow(), copy.schema.fields)) == canonical(shortest(truth.rows, truth.types))
