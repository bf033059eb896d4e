"""Rolling: sizes of files, and what the manifests say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.format.reading import read_data_file

from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import InvalidError, StorageError
from bucketlake.format.data.datafile import format_of
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.format.metadata.stats import EMPTY_STATS, StatsMode, decode_stats
from bucketlake.format.row.binary_row import EMPTY_ROW, encode_row, with_arity_header
from bucketlake.ops.rows.roll import Roller, Rolling, rolled, stats_modes
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_from_epoch
from bucketlake.options.options import TableOptions
from bucketlake.paths import TablePaths
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import BIGINT, INT, STRING, DataField, arrow_schema

FIELDS = (DataField(0, "k", BIGINT.with_nullable(False)), DataField(1, "v", STRING), DataField(2, "n", INT))
NO_PARTITION = with_arity_header(encode_row((), []), 0)


def store(folder: Path, keys: tuple[str, ...] = ("k",), **options: str) -> Store:
    texts = {key.replace("__", "."): value for key, value in options.items()}
    texts = {key.replace("_", "-"): value for key, value in texts.items()}
    schema = create_schema(FIELDS, (), keys, {"bucket": "1" if keys else "-1", **texts})
    paths = TablePaths(str(folder), schema.partition_fields, schema.options)
    return Store(Env(), paths, schema, TableOptions(schema.options))


def rows(keyed: bool, keys: Any, sequence: int = 0, kinds: Any = 0, values: Any = None) -> pa.RecordBatch:
    keys = np.asarray(keys, np.int64)
    count = len(keys)
    if values is None:
        values = [f"value {key * 2654435761 % 1000003}" for key in keys.tolist()]
    columns: dict[str, Any] = {"k": keys, "v": values, "n": keys.astype(np.int32)}
    if keyed:
        numbers = np.arange(sequence, sequence + count)
        kinds = np.full(count, kinds, np.int8) if np.isscalar(kinds) else np.asarray(kinds, np.int8)
        columns = {"_KEY_k": keys, "_SEQUENCE_NUMBER": numbers, "_VALUE_KIND": kinds, **columns}
    schema = create_schema(FIELDS, (), ("k",) if keyed else (), {"bucket": "1" if keyed else "-1"})
    layout = arrow_schema(schema.key_value_fields if keyed else schema.fields)
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in layout], schema=layout)


def roll(where: Store, *batches: pa.RecordBatch, **rolling: Any) -> list[DataFile]:
    roller = Roller(where, NO_PARTITION, 0, Rolling(**rolling))
    for batch in batches:
        roller.write(batch)
    return roller.close()


def key(value: int) -> bytes:
    return with_arity_header(encode_row((value,), [BIGINT]), 1)


def test_a_file_of_a_keyed_table_is_described(tmp_path: Path) -> None:
    where = store(tmp_path)
    (file,) = roll(where, rows(True, [1, 2], 10, [0, 3]), rows(True, [5, 9], 7, [1, 2]))
    path = tmp_path / "bucket-0" / file.file_name
    assert file.file_size == path.stat().st_size
    assert (file.row_count, file.delete_row_count, file.level, file.schema_id) == (4, 2, 0, 0)
    assert (file.min_key, file.max_key) == (key(1), key(9))
    assert (file.min_sequence_number, file.max_sequence_number) == (7, 11)
    assert file.file_source is FileSource.APPEND
    assert file.embedded_index is None
    (stats,) = decode_stats(file.key_stats, [BIGINT])
    assert (stats.min, stats.max, stats.null_count) == (1, 9, 0)
    assert file.value_stats_cols is None
    assert [(s.min, s.max) for s in decode_stats(file.value_stats, [BIGINT, STRING, INT])][0::2] == [(1, 9), (1, 9)]
    assert file.file_name.startswith("data-")
    assert file.file_name.endswith("-0.parquet")
    assert file.creation_time == pytest.approx(local_from_epoch(where.env.clock.now_millis()), abs=60_000)


def test_a_file_of_an_append_table_is_described(tmp_path: Path) -> None:
    (file,) = roll(store(tmp_path, ()), rows(False, [3, 1]))
    assert (file.min_key, file.max_key, file.key_stats) == (EMPTY_ROW, EMPTY_ROW, EMPTY_STATS)
    assert (file.min_sequence_number, file.max_sequence_number, file.delete_row_count) == (0, 1, 0)


def test_long_keys_are_whole_and_their_statistics_cut(tmp_path: Path) -> None:
    schema = create_schema([DataField(0, "k", STRING)], (), ("k",), {"bucket": "1"})
    where = Store(Env(), TablePaths(str(tmp_path)), schema, TableOptions(schema.options))
    low, high = "a" * 300, "b" * 300
    columns = [[low, high], [1, 2], [0, 0], [low, high]]
    layout = arrow_schema(schema.key_value_fields)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, layout, strict=True)]
    (file,) = roll(where, pa.RecordBatch.from_arrays(arrays, schema=layout))
    assert file.max_key == with_arity_header(encode_row((high,), [STRING]), 1)
    assert decode_stats(file.key_stats, [STRING])[0].max == "b" * 127 + "c"
    assert decode_stats(file.value_stats, [STRING])[0].max == "b" * 15 + "c"


def test_thin_files_keep_key_statistics(tmp_path: Path) -> None:
    where = store(tmp_path, data_file__thin_mode="true", metadata__stats_mode="none")
    (file,) = roll(where, rows(True, [4, 8]))
    assert (file.min_key, file.max_key) == (key(4), key(8))
    (stats,) = decode_stats(file.key_stats, [BIGINT])
    assert (stats.min, stats.max) == (4, 8)
    assert file.value_stats_cols == ("k",)


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("step", [700, 400_000])
def test_files_end_near_the_target(tmp_path: Path, name: str, step: int) -> None:
    target = 1 << 18
    where = store(tmp_path, (), file__format=name, target_file_size="256 kb")
    total = 400_000
    whole = rows(False, np.arange(total))
    files = roll(where, *[whole.slice(start, step) for start in range(0, total, step)])
    assert len(files) > 2
    slack = 0.3 if name == "orc" else 0.15  # whole stripes, which are coarse in files as small as these
    assert all(abs(file.file_size - target) < target * slack for file in files[:-1]), [f.file_size for f in files]
    assert files[-1].file_size < target * (1 + slack)
    found = [
        number
        for file in files
        for part in read_data_file(
            LocalStorage(), f"{tmp_path}/bucket-0/{file.file_name}", format_of(file.file_name), FIELDS, ["k"]
        )
        for number in part.column(0).to_pylist()
    ]
    assert found == list(range(total))
    assert [f.file_name.rsplit("-", 1)[1] for f in files] == [f"{i}.{name}" for i in range(len(files))]


def test_keys_of_rolled_files_do_not_overlap(tmp_path: Path) -> None:
    files = roll(store(tmp_path, target_file_size="64 kb"), rows(True, np.arange(100_000)))
    assert len(files) > 3
    edges = [bound for file in files for bound in (file.min_key, file.max_key)]
    starts = np.cumsum([0, *[file.row_count for file in files]])
    assert edges == [key(int(k)) for a, b in pairwise(starts) for k in (a, b - 1)]


def test_files_roll_by_rows_unless_compacted(tmp_path: Path) -> None:
    where = store(tmp_path, target_file_row_num="300")
    assert [f.row_count for f in roll(where, rows(True, np.arange(1000)))] == [300, 300, 300, 100]
    (compacted,) = roll(where, rows(True, np.arange(1000)), level=5, source=FileSource.COMPACT)
    assert (compacted.level, compacted.file_source) == (5, FileSource.COMPACT)
    assert len(roll(where, rows(True, np.arange(1000)), changelog=True)) == 1


def test_nothing_written_makes_no_file(tmp_path: Path) -> None:
    where = store(tmp_path)
    assert roll(where) == []
    assert roll(where, rows(True, [])) == []
    assert not list(tmp_path.rglob("*.parquet"))


def test_abort_removes_open_and_finished_files(tmp_path: Path) -> None:
    where = store(tmp_path, target_file_row_num="10")
    roller = Roller(where, NO_PARTITION, 0)
    roller.write(rows(True, np.arange(25)))
    assert list(tmp_path.rglob("data-*"))
    roller.abort()
    assert not list(tmp_path.rglob("data-*"))
    with pytest.raises(InvalidError):
        Roller(where, NO_PARTITION, 0).write(rows(True, [1]).select(["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND"]))


class Undeletable(LocalStorage):
    """Files stay, and who deletes them is told so."""

    def delete(self, path: str) -> None:
        raise StorageError("no file can be deleted", path=path)

    def delete_all(self, paths: Sequence[str]) -> int:
        return len(paths)


def test_what_failed_is_said_though_files_cannot_be_removed(tmp_path: Path) -> None:
    where = store(tmp_path, target_file_row_num="10")
    where = replace(where, env=replace(where.env, storage=Undeletable()))
    good, bad = rows(True, np.arange(25)), rows(True, [30]).select(["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND"])
    with pytest.raises(InvalidError):
        rolled(where, NO_PARTITION, 0, [good, bad])
    assert list(tmp_path.rglob("data-*")), "what stays is an orphan"


def test_levels_and_changelogs_have_formats_of_their_own(tmp_path: Path) -> None:
    options = {
        "file__format__per__level": "0:avro,5:parquet",
        "changelog_file__format": "orc",
        "metadata__stats_mode__per__level": "0:none",
        "changelog_file__stats_mode": "counts",
        "file__suffix__include__compression": "true",
    }
    where = store(tmp_path, **options)
    (low,) = roll(where, rows(True, [1]))
    (high,) = roll(where, rows(True, [1]), level=5)
    (log,) = roll(where, rows(True, [1]), changelog=True)
    assert [f.file_name.split(".", 1)[1] for f in (low, high, log)] == ["zst.avro", "zst.parquet", "zst.orc"]
    assert log.file_name.startswith("changelog-")
    assert (low.value_stats_cols, high.value_stats_cols, log.value_stats_cols) == ((), None, None)
    assert decode_stats(low.key_stats, [BIGINT])[0].null_count is None
    assert decode_stats(log.value_stats, [BIGINT, STRING, INT])[0].max is None


def test_statistics_modes_by_column(tmp_path: Path) -> None:
    where = store(tmp_path, **{"metadata__stats_keep_first_n_columns": "2", "fields__n__stats_mode": "full"})
    none, usual = StatsMode("none"), StatsMode("truncate", 16)
    assert stats_modes(where.schema, where.options)[3:] == (usual, usual, StatsMode("full"))
    where = store(tmp_path, **{"metadata__stats_keep_first_n_columns": "1"})
    assert stats_modes(where.schema, where.options)[3:] == (usual, none, none)
    (file,) = roll(where, rows(True, [1]))
    assert file.value_stats_cols == ("k",)
    plain = store(tmp_path, **{"metadata__stats_keep_first_n_columns": "1", "metadata__stats_dense_store": "false"})
    (file,) = roll(plain, rows(True, [1]))
    assert file.value_stats_cols is None
    assert [s.null_count for s in decode_stats(file.value_stats, [BIGINT, STRING, INT])] == [0, None, None]
