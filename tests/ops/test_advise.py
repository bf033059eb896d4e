"""The recommended number of buckets: simulated over growing and shrinking partitions, and on tables."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import create_table, data_file, message, partition, table_schema

from bucketlake import Table
from bucketlake.errors import InvalidError
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.rescale.advise import TARGET_BYTES, TARGET_ROWS, advise, recommended
from bucketlake.schema.change import SetOption

GB, MB = 1 << 30, 1 << 20


@given(st.integers(1, 2000), st.integers(0, 1 << 45), st.integers(0, 10**11))
def test_the_advice_is_local_and_stands(buckets: int, size: int, rows: int) -> None:
    number, reason = recommended(buckets, size, rows)
    assert 1 <= number <= 32767 and reason
    assert number % buckets == 0 or buckets % number == 0
    assert recommended(number, size, rows)[0] == number, "what it gives stays"
    load = max(size / TARGET_BYTES, rows / TARGET_ROWS)
    if number > buckets:
        assert load > 2 * buckets and number >= 2 * buckets
    if number < buckets:
        assert load < 0.4 * buckets and 2 * number <= buckets and load <= 2 * number


@pytest.mark.parametrize(
    ("buckets", "size", "rows", "wanted"),
    [
        (1, 10 * MB, 1000, 1),
        (8, 10 * MB, 1000, 1),
        (4, 2 * GB, 1000, 4),
        (4, 64 * GB, 1000, 128),
        (16, 4 * GB, 1000, 16),
        (16, 3 * GB, 1000, 8),
        (7, 1536 * MB, 1000, 7),
        (2, 100 * MB, 90_000_000, 8),
        (32, 0, 0, 1),
    ],
)
def test_examples(buckets: int, size: int, rows: int, wanted: int) -> None:
    assert recommended(buckets, size, rows)[0] == wanted


def test_a_partition_that_grows_and_shrinks_is_rescaled_seldom() -> None:
    sizes = [step * GB // 4 for step in (*range(1, 2000), *range(2000, 1, -1))]
    buckets, changes = 1, 0
    for size in sizes:
        number, _ = recommended(buckets, size, 0)
        changes += number != buckets
        buckets = number
        assert size / buckets <= 2 * TARGET_BYTES
    assert buckets <= 2 and changes <= 2 * 11


@pytest.mark.parametrize(
    ("rows", "held"), [(0, "and 0 rows"), (1, "and less than one row"), (2, "and one row"), (7, "4 rows")]
)
def test_a_bucket_of_few_rows_is_not_said_to_hold_none(rows: int, held: str) -> None:
    assert held in recommended(2, 1448, rows)[1].partition(",")[0]


def test_a_table_of_many_files() -> None:
    store = create_table(MapStorage(), FakeClock(), table_schema(bucket=4))
    big = [
        message(
            *[
                data_file(
                    f"f{bucket}-{n}", sequences=(10 * n, 10 * n + 9), file_size=(1 + 9 * (bucket == 2)) * 100 * MB
                )
                for n in range(25)
            ],
            bucket=bucket,
            total=4,
        )
        for bucket in range(4)
    ]
    small = [message(data_file("s", level=5), part=partition(2), bucket=1, total=4)]
    Commit(store, "me").commit([*big, *small])
    large, little = advise(store)
    assert (large.partition, little.partition) == ({"pt": "1"}, {"pt": "2"})
    assert (large.buckets, large.rows, large.sorted_runs) == (4, 1000, 25)
    assert large.bytes == 13 * 25 * 100 * MB and large.skew == round(10 * 4 / 13, 3)
    assert large.recommended == 64 and "too much" in large.reason and "times the mean" in large.reason
    assert (little.buckets, little.sorted_runs, little.recommended) == (4, 1, 1) and "too little" in little.reason


def test_tables_whose_buckets_look_after_themselves() -> None:
    for keyed, why in ((True, "dynamic"), (False, "no buckets")):
        store = create_table(MapStorage(), FakeClock(), table_schema(keyed=keyed, bucket=-1))
        Commit(store, "me").commit([message(data_file("f"), total=-1)])
        (found,) = advise(store)
        assert found.recommended == found.buckets == 1 and why in found.reason
    assert advise(create_table(MapStorage(), FakeClock(), table_schema())) == []


def test_bucket_auto() -> None:
    table = Table(create_table(MapStorage(), FakeClock(7), table_schema(bucket=6)), "t")
    schema = pa.schema([("pt", pa.int32()), ("k", pa.int64()), ("v", pa.string())])

    def write(part: int, keys: range, text: str) -> None:
        columns = [pa.array([part] * len(keys), pa.int32()), pa.array(keys, pa.int64()), pa.array([text] * len(keys))]
        table.write_arrow(pa.table(columns, schema=schema))

    write(1, range(30), "a")
    table = table.alter(SetOption("bucket.auto", "true"))
    table.compact(where="pt = 2")
    assert {f.total_buckets for f in table.files()} == {6}
    table.compact()
    assert {f.total_buckets for f in table.files()} == {1}
    write(1, range(20, 40), "b")
    write(2, range(40), "c")
    assert {f.partition["pt"]: f.total_buckets for f in table.files()} == {"1": 1, "2": 6}
    found = table.to_arrow(where="pt = 1").to_pylist()
    assert sorted((row["k"], row["v"]) for row in found) == [(k, "b" if k >= 20 else "a") for k in range(40)]
    assert table.to_arrow(where="pt = 1 AND k = 25").num_rows == 1


def test_tables_that_cannot_be_rescaled_are_compacted_as_they_are() -> None:
    options = {"bucket.auto": "true", "pk-clustering-override": "true", "clustering.columns": "v"}
    schema = table_schema(bucket=6, options={**options, "deletion-vectors.enabled": "true"})
    table = Table(create_table(MapStorage(), FakeClock(7), schema), "t")
    table.write_arrow([{"pt": 1, "k": key, "v": "a"} for key in range(30)])
    (found,) = advise(table.store)
    assert (found.recommended, found.buckets) == (6, 6) and "pk-clustering-override" in found.reason
    table.compact(full=True)
    assert table.to_arrow().num_rows == 30 and {file.level for file in table.files()} != {0}
    assert not any("rescale" in step for advice in table.advise() for step in advice.steps)


@pytest.mark.parametrize(("keyed", "bucket"), [(True, -1), (False, -1), (False, 4)])
def test_bucket_auto_is_refused_where_it_means_nothing(keyed: bool, bucket: int) -> None:
    with pytest.raises(InvalidError, match=r"'bucket\.auto' = 'true' needs a primary key and a bucket number"):
        table_schema(keyed=keyed, bucket=bucket, options={"bucket.auto": "true"})


def test_a_rescale_that_is_advised_leaves_a_table_that_takes_rows() -> None:
    """Writers refuse partitions that have another number of buckets than the option says."""
    table = Table(create_table(MapStorage(), FakeClock(7), table_schema(partitioned=False, bucket=6)), "t")
    table.write_arrow([{"pt": 1, "k": key, "v": "a"} for key in range(30)])
    (found,) = [one for one in table.advise() if one.topic == "buckets"]
    assert tuple(step.sql for step in found.steps) == (
        "ALTER TABLE t SET TBLPROPERTIES ('bucket' = '1')",
        "CALL sys.rescale(table => 't', bucket_num => 1)",
    )
    table.alter(SetOption("bucket", "1")).rescale(1)
    table.refresh().write_arrow([{"pt": 1, "k": 30, "v": "a"}])
    divided = Table(create_table(MapStorage(), FakeClock(7), table_schema(bucket=6)), "t")
    divided.write_arrow([{"pt": 1, "k": key, "v": "a"} for key in range(30)])
    (found,) = [one for one in divided.advise() if one.topic == "buckets"]
    assert "writers refuse it then while the option bucket is 6" in found.reason
