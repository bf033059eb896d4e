"""Every engine gives what a fold over a key's rows in plain Python gives, however the rows are cut into flushes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profile import examples as amount

from bucketlake.errors import InvalidError
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.merge import BlockSize, merge_runs, sort_and_merge
from bucketlake.ops.write.write import key_values
from bucketlake.schema.schema import KIND_FIELD, TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import BIGINT, INT, DataField

from . import engine_model as model
from .engine_model import DELETE, Group, Partial, Refused, Row

COLUMNS = ("k", "a", "b", "c", "g", "h", "i")
Engine = Callable[[Sequence[Row]], Row | None]
examples = settings(deadline=None, max_examples=amount(30))


def schema_of(**options: str) -> TableSchema:
    fields = [DataField(i, name, INT if name == "k" else BIGINT) for i, name in enumerate(COLUMNS)]
    return create_schema(fields, primary_keys=("k",), options={"bucket": 1, **named(options)})


def named(options: Mapping[str, str]) -> dict[str, str]:
    """Options by Python names: two underscores are a dot, one is a dash, `f_` begins a column's option."""
    return {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}


def batch_of(schema: TableSchema, rows: Sequence[Row], first: int) -> pa.RecordBatch:
    arrays = {item.name: pa.array([row.values[item.name] for row in rows], type_of(item)) for item in schema.fields}
    arrays[KIND_FIELD.name] = pa.array([row.kind for row in rows], pa.int8())
    sequence = np.arange(first, first + len(rows), dtype=np.int64)
    return key_values(pa.RecordBatch.from_pydict(arrays), sequence, schema)


def type_of(item: DataField) -> pa.DataType:
    return pa.int32() if item.type.root is INT.root else pa.int64()


def rows_of(batches: Sequence[pa.RecordBatch]) -> dict[int, Row]:
    found = {}
    for batch in batches:
        for values in batch.to_pylist():
            assert values["k"] == values["_KEY_k"], "key and value belong to one row"
            assert values["k"] not in found, "one row a key"
            found[values["k"]] = Row(values["_VALUE_KIND"], {name: values[name] for name in COLUMNS})
    return found


def flushed(schema: TableSchema, flushes: Sequence[Sequence[Row]]) -> list[pa.RecordBatch]:
    """Each flush as a sorted, merged run."""
    order, engine = order_of(schema, schema.table_options), engine_of(schema, schema.table_options)
    runs, first = [], 0
    for rows in flushes:
        runs.append(sort_and_merge(batch_of(schema, rows, first), order, engine))
        first += len(rows)
    return runs


def expected(flushes: Sequence[Sequence[Row]], engine: Engine) -> list[dict[int, Row]]:
    """The model's runs."""
    runs = []
    for rows in flushes:
        keys: dict[int, list[Row]] = {}
        for row in rows:
            keys.setdefault(row.values["k"], []).append(row)
        merged = {key: model.fold(own, engine) for key, own in keys.items()}
        runs.append({key: row for key, row in merged.items() if row is not None})
    return runs


def check(schema: TableSchema, flushes: Sequence[Sequence[Row]], engine: Engine, block: int = 5) -> None:
    """Flushes one by one, then the merge of all, compacted in part and at once, read with and without deletes."""
    try:
        wanted = expected(flushes, engine)
        whole = [row for run in wanted for row in run.values()]
        everything = expected([whole], engine)[0]
    except Refused:
        with pytest.raises(InvalidError):
            runs = flushed(schema, flushes)
            list(merge_runs([[run] for run in runs], *rule(schema)))
        return
    runs = flushed(schema, flushes)
    for run, own in zip(runs, wanted, strict=True):
        assert rows_of([run]) == own
    size = BlockSize(rows=block)
    found = list(merge_runs([[run] for run in runs], *rule(schema), block=size))
    assert rows_of(found) == everything
    kept = {key: row for key, row in everything.items() if not row.retracts}
    assert rows_of(list(merge_runs([[run] for run in runs], *rule(schema), drop_deletes=True, ordered=False))) == kept


def rule(schema: TableSchema) -> tuple[Any, Any]:
    return order_of(schema, schema.table_options), engine_of(schema, schema.table_options)


NUMBERS = st.none() | st.integers(-4, 9)
ADDS, ALL = (0, 0, 2), (0, 0, 0, 2, 1, 3, 3)


def flushes_of(kinds: Sequence[int], most: int = 4) -> st.SearchStrategy[list[list[Row]]]:
    values = st.fixed_dictionaries({"k": st.integers(0, 3), **dict.fromkeys(COLUMNS[1:], NUMBERS)})
    row = st.builds(Row, st.sampled_from(kinds), values)
    return st.lists(st.lists(row, min_size=1, max_size=12), min_size=1, max_size=most)


@examples
@given(flushes=flushes_of(ALL), ignore=st.booleans())
def test_deduplicate(flushes: list[list[Row]], ignore: bool) -> None:
    schema = schema_of(ignore_delete=str(ignore).lower())
    if ignore:  # a lone delete is left out at once here, which no reader can tell
        flushes = [[row for row in rows if not row.retracts] for rows in flushes]
    check(schema, flushes, lambda rows: model.deduplicate(rows, ignore))


@examples
@given(flushes=flushes_of(ADDS))
def test_first_row(flushes: list[list[Row]]) -> None:
    check(schema_of(merge_engine="first-row"), flushes, model.first_row)


@examples
@given(flushes=flushes_of(ALL))
def test_first_row_does_not_take_deletes(flushes: list[list[Row]]) -> None:
    check(schema_of(merge_engine="first-row"), flushes, model.first_row)


FUNCTIONS = {"a": "sum", "b": "max", "c": "last_value", "g": "first_value", "h": "first_non_null_value"}


def functions_of(functions: Mapping[str, str]) -> dict[str, str]:
    return {f"fields__{name}__aggregate_function": function for name, function in functions.items()}


@examples
@given(flushes=flushes_of(ADDS))
def test_aggregation(flushes: list[list[Row]]) -> None:
    schema = schema_of(merge_engine="aggregation", **functions_of(FUNCTIONS))
    functions = {**FUNCTIONS, "i": "last_non_null_value"}
    check(schema, flushes, lambda rows: model.aggregation(rows, functions))


@examples
@given(flushes=flushes_of(ALL), removes=st.booleans())
def test_aggregation_with_deletes(flushes: list[list[Row]], removes: bool) -> None:
    functions = {"a": "sum", "b": "sum", "c": "last_value", "g": "last_value", "h": "sum", "i": "last_non_null_value"}
    options = {"aggregation__remove_record_on_delete": str(removes).lower()}
    schema = schema_of(merge_engine="aggregation", **functions_of(functions), **options)
    check(schema, flushes, lambda rows: model.aggregation(rows, functions, removes))


@examples
@given(flushes=flushes_of((0, 0, 3)))
def test_aggregation_that_removes_records(flushes: list[list[Row]]) -> None:
    options = {"aggregation__remove_record_on_delete": "true"}
    schema = schema_of(merge_engine="aggregation", **functions_of(FUNCTIONS), **options)
    functions = {**FUNCTIONS, "i": "last_non_null_value"}
    check(schema, flushes, lambda rows: model.aggregation(rows, functions, True))


@examples
@given(flushes=flushes_of(ALL), mode=st.sampled_from(["refuses", "ignores", "removes"]))
def test_partial_update(flushes: list[list[Row]], mode: str) -> None:
    options = {"ignores": {"ignore_delete": "true"}, "removes": {"partial_update__remove_record_on_delete": "true"}}
    schema = schema_of(merge_engine="partial-update", **options.get(mode, {}))
    check(schema, flushes, Partial(ignores=mode == "ignores", removes=mode == "removes"))


GROUPS = [
    [Group(("g",), ("a", "b"))],
    [Group(("g", "h"), ("a", "b"))],
    [Group(("g",), ("a",)), Group(("h", "i"), ("b", "c"))],
]


def group_options(groups: Sequence[Group]) -> dict[str, str]:
    options = {f"fields__{','.join(group.fields)}__sequence_group": ",".join(group.columns) for group in groups}
    removing = [group.fields[-1] for group in groups if group.removes]
    if removing:
        options["partial_update__remove_record_on_sequence_group"] = ",".join(removing)
    return options


@examples
@given(flushes=flushes_of(ALL), groups=st.sampled_from(GROUPS), ignores=st.booleans())
def test_sequence_groups(flushes: list[list[Row]], groups: list[Group], ignores: bool) -> None:
    options = {**group_options(groups), **({"ignore_delete": "true"} if ignores else {})}
    schema = schema_of(merge_engine="partial-update", **options)
    check(schema, flushes, Partial(groups, ignores=ignores))


REMOVING = [
    [Group(("g",), ("a", "b"), True)],
    [Group(("g", "h"), ("a", "b"), True)],
    [Group(("g",), ("a",), True), Group(("h", "i"), ("b", "c"))],
    [Group(("g",), ("a",), True), Group(("h",), ("b", "c"), True)],
    [Group(("g",), ("a",), True), Group(("h",), ("b",), True), Group(("i",), ("c",), True)],
]


@settings(deadline=None, max_examples=amount(60))
@given(flushes=flushes_of((0, 0, 0, 3, 3, 1)), groups=st.sampled_from(REMOVING))
def test_sequence_groups_that_remove_records(flushes: list[list[Row]], groups: list[Group]) -> None:
    check(schema_of(merge_engine="partial-update", **group_options(groups)), flushes, Partial(groups))


@settings(deadline=None, max_examples=amount(50))
@given(
    flushes=flushes_of(ADDS),
    groups=st.sampled_from(GROUPS),
    names=st.tuples(*[st.sampled_from(["", "sum", "max", "last_value", "first_value", "first_non_null_value"])] * 2),
)
def test_aggregates_in_sequence_groups(flushes: list[list[Row]], groups: list[Group], names: tuple[str, str]) -> None:
    functions = {name: function for name, function in zip("ab", names, strict=True) if function}
    options = {**group_options(groups), **functions_of(functions)}
    check(schema_of(merge_engine="partial-update", **options), flushes, Partial(groups, functions))


@settings(deadline=None, max_examples=amount(50))
@given(
    flushes=flushes_of(ALL),
    groups=st.sampled_from(GROUPS + REMOVING),
    names=st.tuples(*[st.sampled_from(["", "sum", "last_value", "last_non_null_value"])] * 2),
)
def test_retractions_in_sequence_groups(flushes: list[list[Row]], groups: list[Group], names: tuple[str, str]) -> None:
    functions = {name: function for name, function in zip("ab", names, strict=True) if function}
    options = {**group_options(groups), **functions_of(functions)}
    check(schema_of(merge_engine="partial-update", **options), flushes, Partial(groups, functions))


@settings(deadline=None, max_examples=amount(15))
@given(flushes=flushes_of(ADDS), columns=st.sets(st.sampled_from(COLUMNS[1:])))
def test_columns_not_asked_for_change_nothing(flushes: list[list[Row]], columns: set[str]) -> None:
    groups = [Group(("g",), ("a",), True), Group(("h", "i"), ("b", "c"))]
    schema = schema_of(merge_engine="partial-update", **group_options(groups))
    order, engine = rule(schema)
    runs = flushed(schema, flushes)
    names = [name for name in COLUMNS if name in columns]
    read = ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", *names, *engine.requires(names)]
    whole = pa.Table.from_batches(merge_runs([[run] for run in runs], order, engine))
    part = pa.Table.from_batches(merge_runs([[run.select(read)] for run in runs], order, engine))
    assert part.select(["_KEY_k", "_VALUE_KIND", *names]) == whole.select(["_KEY_k", "_VALUE_KIND", *names])
    assert set(engine.requires(names)) & set(names) == set()


def test_long_keys() -> None:
    """One key with many rows, most of them null."""
    rows = [
        Row(0, dict.fromkeys(COLUMNS[1:], None) | {"k": 1, "a": 5 if number == 3 else None}) for number in range(99)
    ]
    check(schema_of(merge_engine="partial-update"), [rows, rows[4:]], Partial())
    many = [Row(DELETE if n % 2 else 0, dict.fromkeys(COLUMNS, 1) | {"g": n, "h": n % 7}) for n in range(200)]
    check(schema_of(merge_engine="partial-update", **group_options(REMOVING[3])), [many], Partial(REMOVING[3]))


GROUPED = {"merge_engine": "partial-update", **group_options(GROUPS[2])}


def test_engines_travel() -> None:
    for options in ({"merge_engine": "first-row"}, {"merge_engine": "aggregation"}, GROUPED):
        engine = engine_of(schema_of(**options), schema_of(**options).table_options)
        assert pickle.loads(pickle.dumps(engine)) == engine
