"""Bucketlake and Apache Paimon on Flink write the same table in turns, several rounds; both read the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop.cases import Case, Maker
from tests.interop.catalogue import KV, kv
from tests.interop.engines import DATABASE, listed_here, listing, read_by_flink
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon
from tests.profile import first

import bucketlake

pytestmark = pytest.mark.peer


@dataclass
class Pair:
    """One table under both engines' hands. `model`: key -> value."""

    flink: FlinkPaimon
    maker: Maker

    @property
    def name(self) -> str:
        """`database.table`."""
        return self.maker.table.name

    def ours(self, rows: list[tuple[int, str]]) -> None:
        """Bucketlake upserts."""
        self.maker.table = self.maker.table.refresh()
        self.maker.write(*rows)

    def theirs(self, rows: list[tuple[int, str]]) -> None:
        """Flink upserts."""
        values = ", ".join(f"({key}, '{value}')" for key, value in rows)
        self.flink.sql(f"INSERT INTO {self.name} VALUES {values}")
        self.maker._put(rows)

    def agree(self) -> None:
        """Both read the model, and list the same files."""
        table = self.maker.table.refresh()
        assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == self.maker.expected()
        assert read_by_flink(self.flink, [table])[self.name] == self.maker.expected()
        assert listing(self.flink, [self.name])[self.name] == listed_here(table)

    def compact(self) -> None:
        """Flink compacts everything."""
        self.flink.sql(f"CALL sys.compact(`table` => '{self.name}')")


def _pair(flink: FlinkPaimon, folder: Path, name: str, **options: str) -> Pair:
    catalog = bucketlake.open(folder)
    catalog.create_database(DATABASE)
    flink.use(folder)
    spelled = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    keys = ["k"] if options["bucket"] != "-1" else []
    return Pair(
        flink, Maker(Case(name, "", KV, lambda maker: None, keys=keys, options=spelled).create(catalog, DATABASE))
    )


@pytest.mark.parametrize("form", first(["orc", "parquet", "avro"], 1))
def test_upserts_deletes_and_compactions_in_turns(flink: FlinkPaimon, tmp_path: Path, form: str) -> None:
    pair = _pair(flink, tmp_path, f"turns_{form}", bucket="2", file__format=form)
    pair.ours(kv(0, 30, "ours"))
    pair.theirs(kv(10, 40, "theirs"))
    pair.ours(kv(5, 15, "ours again"))
    pair.agree()
    pair.maker.table = pair.maker.table.refresh()
    pair.maker.delete("k in (1, 11, 39)", lambda row: row["k"] in (1, 11, 39))
    flink.sql(f"DELETE FROM {pair.name} WHERE k IN (2, 12, 38)")
    pair.maker._remove(lambda row: row["k"] in (2, 12, 38))
    pair.agree()
    pair.compact()
    assert {file.file.level for file in pair.maker.table.files()} == {5}
    assert sum(file.file.row_count for file in pair.maker.table.files()) == len(pair.maker.rows)
    pair.ours(kv(11, 13, "back"))
    pair.theirs(kv(12, 14, "back too"))
    pair.agree()
    pair.compact()
    pair.agree()


def test_sequence_numbers_never_go_back(flink: FlinkPaimon, tmp_path: Path) -> None:
    pair = _pair(flink, tmp_path, "sequences", bucket="1", write_only="true")
    for turn in range(3):
        pair.ours(kv(0, 4, f"ours {turn} "))
        pair.theirs(kv(0, 4, f"theirs {turn} "))
    ranges = [(file.file.min_sequence_number, file.file.max_sequence_number) for file in pair.maker.table.files()]
    assert ranges == [(turn * 4, turn * 4 + 3) for turn in range(6)]
    pair.agree()


@pytest.mark.slow
def test_overwrites_truncates_and_appends_in_turns(flink: FlinkPaimon, tmp_path: Path) -> None:
    pair = _pair(flink, tmp_path, "appends", bucket="-1", compaction__min__file_num="2")
    for turn in range(3):
        pair.ours(kv(turn * 10, turn * 10 + 5, "ours"))
        pair.theirs(kv(turn * 10 + 5, turn * 10 + 10, "theirs"))
    pair.agree()
    pair.compact()
    pair.ours(kv(100, 102, "after"))
    pair.agree()
    flink.sql(f"INSERT OVERWRITE {pair.name} VALUES (7, 'whole')")
    pair.maker.rows.clear()
    pair.maker._put([(7, "whole")])
    pair.ours(kv(8, 9, "after"))
    pair.agree()
    pair.maker.overwrite(*kv(20, 22, "ours whole"))
    pair.theirs(kv(22, 23, "after"))
    pair.agree()
    flink.sql(f"TRUNCATE TABLE {pair.name}")
    pair.maker.rows.clear()
    pair.ours(kv(1, 2, "last"))
    pair.agree()


def test_each_alters_the_schema_under_the_other(flink: FlinkPaimon, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    case = Case("altered", "", KV, lambda maker: None, keys=["k"], options={"bucket": "1"})
    table = case.create(catalog, DATABASE)
    maker = Maker(table)
    maker.write(*kv(0, 2, "old"))
    flink.run(
        [
            f"ALTER TABLE {table.name} ADD (w BIGINT)",
            f"ALTER TABLE {table.name} RENAME v TO renamed",
            f"INSERT INTO {table.name} VALUES (1, 'theirs', 5)",
        ]
    )
    table = table.refresh()
    assert sorted(arrow_rows(table.to_arrow(), table.schema.fields)) == [(0, "old0", None), (1, "theirs", 5)]
    altered = table.alter(bucketlake.schema.DropColumn(("w",)), bucketlake.schema.RenameColumn(("renamed",), "v"))
    again = Maker(altered)
    again.write(*kv(2, 3, "ours"))
    assert flink.sql(f"SELECT * FROM {table.name} ORDER BY k").rows == [(0, "old0"), (1, "theirs"), (2, "ours2")]
