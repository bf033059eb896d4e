"""KeyOrder sorts as Paimon's comparators do."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import InvalidError
from bucketlake.format.row.binary_row import encode_row, encode_rows
from bucketlake.format.row.order import ranked_row
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.words import words_of
from bucketlake.types.model import BIGINT, INT, STRING, DataField, DataType, Root

from .model import KINDS, Kind, Row, batch_of, examples, fields_of, ordered

SETS = st.one_of(
    st.sampled_from(list(KINDS.values())).map(lambda kind: [kind]),
    st.lists(st.sampled_from(list(KINDS.values())), min_size=2, max_size=4),
)


@st.composite
def keyed_rows(draw: st.DrawFn, kinds: list[Kind]) -> list[Row]:
    pool = draw(st.lists(st.tuples(*(kind.values for kind in kinds)), min_size=1, max_size=20))
    picks = draw(st.lists(st.tuples(st.sampled_from(pool), st.integers(-3, 3)), max_size=60))
    return [Row(key, sequence, 0, i) for i, (key, sequence) in enumerate(picks)]


def check_sort(kinds: list[Kind], rows: list[Row]) -> None:
    order, starts = KeyOrder(fields_of(kinds)).sort(batch_of(kinds, rows))
    expected = sorted(range(len(rows)), key=lambda i: (ordered(kinds, rows[i].key), rows[i].sequence, i))
    found = list(range(len(rows))) if order is None else order.tolist()
    assert found == expected
    groups = list(range(len(rows))) if starts is None else starts.tolist()
    keys = [ordered(kinds, rows[i].key) for i in expected]
    assert groups == [i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]]


@pytest.mark.parametrize("name", KINDS)
@examples
@given(data=st.data())
def test_each_type_sorts_in_its_order(name: str, data: st.DataObject) -> None:
    check_sort([KINDS[name]], data.draw(keyed_rows([KINDS[name]])))


@examples
@given(data=st.data(), kinds=SETS)
def test_composite_keys_sort_column_by_column(data: st.DataObject, kinds: list[Kind]) -> None:
    check_sort(kinds, data.draw(keyed_rows(kinds)))


def test_sorting_a_slice_does_not_look_at_its_neighbours() -> None:
    for kind in KINDS.values():
        rows = [Row((value,), i, 0, i) for i, value in enumerate(sample(kind))]
        whole = batch_of([kind], rows)
        order, _ = KeyOrder(fields_of([kind])).sort(whole.slice(3, 5))
        expected = sorted(range(5), key=lambda i: (kind.order(rows[3 + i].key[0]), i))
        assert (list(range(5)) if order is None else order.tolist()) == expected


def sample(kind: Kind) -> list[Any]:
    texts = ["b", "a\0", "a", "", "zzzzzzzzz", "zzzzzzzz", "ü", "z" * 20]
    values: dict[pa.DataType, list[Any]] = {pa.string(): texts, pa.binary(): [text.encode() for text in texts]}
    arrow = kind.array([]).type
    if arrow in values:
        return values[arrow]
    if pa.types.is_boolean(arrow):
        return [True, False] * 4
    if pa.types.is_floating(arrow):
        return [float("nan"), 1.0, -0.0, 0.0, -1.0, float("-inf"), 2.0, float("inf")]
    return [5, -3 if not pa.types.is_time(arrow) else 3, 0, 7, 1, 2, 100, 4]


@examples
@given(data=st.data(), kinds=SETS)
def test_bounds_compare_between_batches_as_keys_do(data: st.DataObject, kinds: list[Kind]) -> None:
    order = KeyOrder(fields_of(kinds))
    left, right = data.draw(keyed_rows(kinds)), data.draw(keyed_rows(kinds))
    one, two = order.view(batch_of(kinds, left)), order.view(batch_of(kinds, right))
    for i, a in enumerate(left[:8]):
        for j, b in enumerate(right[:8]):
            mine, theirs = ordered(kinds, a.key), ordered(kinds, b.key)
            assert (one.at(i) < two.at(j)) == (mine < theirs)
            assert (one.at(i) == two.at(j)) == (mine == theirs)


@examples
@given(data=st.data(), kinds=SETS)
def test_upper_is_the_first_row_beyond_a_bound(data: st.DataObject, kinds: list[Kind]) -> None:
    rows = sorted(data.draw(keyed_rows(kinds)), key=lambda row: ordered(kinds, row.key))
    view = KeyOrder(fields_of(kinds)).view(batch_of(kinds, rows))
    keys = [ordered(kinds, row.key) for row in rows]
    for i in range(len(rows)):
        beyond = [j for j in range(len(rows)) if keys[j] > keys[i]]
        assert view.upper(view.at(i)) == (beyond[0] if beyond else len(rows))


@examples
@given(data=st.data(), kinds=SETS)
def test_strict_means_ascending_without_equals(data: st.DataObject, kinds: list[Kind]) -> None:
    rows = data.draw(keyed_rows(kinds))
    if data.draw(st.booleans()):
        rows = list({ordered(kinds, row.key): row for row in rows}.values())
        rows.sort(key=lambda row: ordered(kinds, row.key))
    keys = [ordered(kinds, row.key) for row in rows]
    expected = all(a < b for a, b in itertools.pairwise(keys)) if rows else True
    assert KeyOrder(fields_of(kinds)).is_strict(batch_of(kinds, rows)) == expected


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", KINDS)
@examples
@given(data=st.data())
def test_sequence_fields_order_equal_keys_nulls_oldest(name: str, descending: bool, data: st.DataObject) -> None:
    kind = KINDS[name]
    values = data.draw(st.lists(st.one_of(st.none(), kind.values), min_size=1, max_size=20))
    keys = data.draw(st.lists(st.integers(0, 1), min_size=len(values), max_size=len(values)))
    rows = batch_of([KINDS["bigint"]], [Row((key,), 7, 0, i) for i, key in enumerate(keys)])
    rows = rows.append_column("version", kind.array(values))
    order = KeyOrder(fields_of([KINDS["bigint"]]), [DataField(9, "version", kind.type)], descending)
    found, _ = order.sort(rows)
    present = sorted({kind.order(value) for value in values if value is not None}, reverse=descending)
    rank = [-1 if value is None else present.index(kind.order(value)) for value in values]
    expected = sorted(range(len(values)), key=lambda i: (keys[i], rank[i], i))
    assert (list(range(len(values))) if found is None else found.tolist()) == expected


def test_nulls_in_a_key_are_refused_by_name() -> None:
    batch = pa.RecordBatch.from_pydict({"_KEY_id": pa.array([1, None]), "_SEQUENCE_NUMBER": pa.array([1, 2])})
    order = KeyOrder([DataField(0, "_KEY_id", BIGINT)])
    with pytest.raises(InvalidError, match=r"null in primary key.*column=id"):
        order.sort(batch)
    with pytest.raises(InvalidError, match="column=id"):
        order.view(batch)


@pytest.mark.parametrize("name", KINDS)
@examples
@given(data=st.data())
def test_bytes_of_keys_rank_as_their_values(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    values = data.draw(st.lists(kind.values, min_size=2, max_size=12))
    rows = encode_rows([kind.array(values)], [kind.type])
    ranks = [ranked_row(rows.row(i), [kind.type]) for i in range(len(values))]
    for one, left in zip(ranks, values, strict=True):
        for two, right in zip(ranks, values, strict=True):
            first, second = kind.order(left), kind.order(right)
            assert (one < two, one == two) == (first < second, first == second)


def test_null_ranks_below_everything() -> None:
    types = [INT, STRING, DataType(Root.DOUBLE)]
    null = ranked_row(encode_row([None] * 3, types), types)
    least = ranked_row(encode_row([-(1 << 31), "", -math.inf], types), types)
    assert null < least
    assert not least < null
    assert all(one < two and two > one and one <= one and one == one for one, two in zip(null, least, strict=True))


def test_an_order_travels_to_tasks() -> None:
    order = pickle.loads(pickle.dumps(KeyOrder(fields_of([KINDS["int"]]), [DataField(1, "v", BIGINT)], True)))
    assert (order.columns, order.descending) == (["_KEY_k0", "v", "_SEQUENCE_NUMBER"], True)


def test_wide_keys_of_many_rows() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 5000, 20_000)
    kinds = [KINDS["string"], KINDS["bigint"], KINDS["bytes"]]
    rows = [Row((f"customer-{n % 7:09d}", int(n) * 0x1E3779B97F4A7, bytes([n % 3]) * 11), 0, 0, i)
            for i, n in enumerate(numbers)]  # fmt: skip
    check_sort(kinds, rows)


@pytest.mark.parametrize("name", ["string", "bytes"])
def test_keys_longer_than_their_words(name: str) -> None:
    """What differs behind a thousand bytes or more, by its length alone, or by the zeros at its end."""
    kind, ends = KINDS[name], ["", "a", "b", "\0", "\0\0", "a\0", "ü", "zzzzzzzz", "\0" * 2000]
    values: list[Any] = [lead + end for lead in ("", "x", "x" * 1020, "x" * 1024, "x" * 5000) for end in ends]
    if name == "bytes":
        values = [value.encode() for value in values]
    rows = [Row((values[i * 7 % len(values)],), i % 3, 0, i) for i in range(3 * len(values))]
    check_sort([kind], rows)
    check_sort([KINDS["int"], kind], [Row((1, *row.key), row.sequence, 0, row.id) for row in rows])
    batch = batch_of([kind], [Row((value,), 0, 0, 0) for value in sorted(values)])
    assert KeyOrder(fields_of([kind])).is_strict(batch) == (len(set(values)) == len(values))
    assert len(words_of(kind.array(["y" * 1_000_000, "x"] if name == "string" else [b"y" * 1_000_000]))) < 200
