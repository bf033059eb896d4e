"""Apache Paimon on Flink reads tables that Bucketlake has rescaled, writes on, and rescales in its turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.cases import Case, Maker
from tests.interop.catalogue import KV, kv
from tests.interop.engines import DATABASE, listed_here, listing, read_by_flink
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon
from tests.profile import SOAK, first

import bucketlake
from bucketlake.schema.change import SetOption

pytestmark = [pytest.mark.peer, pytest.mark.slow]
TABLES = {
    "vectors": {"deletion-vectors.enabled": "true"},
    "plain": {},
    "lookup": {"changelog-producer": "lookup"},
    "summed": {"merge-engine": "partial-update"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(list(TABLES), 1))
def test_both_rescale_and_write_on(flink: FlinkPaimon, tmp_path: Path, kind: str) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    case = Case("rescaled", "", KV, lambda maker: None, keys=["k"], options={"bucket": "4", **TABLES[kind]})
    maker = Maker(case.create(catalog, DATABASE))
    name = maker.table.name

    def agree(number: int) -> None:
        table = maker.table = maker.table.refresh()
        assert {file.total_buckets for file in table.files()} == {number}
        assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == maker.expected()
        assert read_by_flink(flink, [table])[name] == maker.expected()
        assert listing(flink, [name])[name] == listed_here(table)

    def theirs(rows: list[tuple[int, str]]) -> None:
        flink.sql(f"INSERT INTO {name} VALUES " + ", ".join(f"({key}, '{value}')" for key, value in rows))
        maker._put(rows)

    maker.write(*kv(0, 40, "ours"))
    theirs(kv(20, 60, "theirs"))
    for number in (8, 2, 3) if SOAK else (8, 3):
        maker.table = maker.table.refresh().alter(SetOption("bucket", str(number)))
        maker.table.rescale()
        agree(number)
        theirs(kv(number, 30 + number, f"theirs {number}"))
        agree(number)
        maker.write(*kv(10 + number, 70, f"ours {number}"))
        agree(number)
    maker.table = maker.table.refresh().alter(SetOption("bucket", "5"))
    flink.sql(f"CALL sys.rescale(`table` => '{name}', `bucket_num` => 5)")
    agree(5)
    maker.write(*kv(0, 9, "ours again"))
    maker.table.rescale(5)
    agree(5)
    theirs(kv(5, 80, "theirs again"))
    agree(5)
