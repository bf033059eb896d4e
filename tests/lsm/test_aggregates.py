"""One table a function: rows of a key in, one value out; and what is refused."""

from __future__ import annotations

import ast
import pickle
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lsm.aggregates.functions import FUNCTIONS, Aggregate, AggregateOptions, aggregate
from bucketlake.options.options import TableOptions
from bucketlake.schema.validation import AGGREGATE_FUNCTIONS
from bucketlake.types.model import DataField, arrow_type
from bucketlake.types.parse import parse_type_text

# function | type | options | rows of one group: kind value, …  | result, or ! and a part of the error
# kinds: + add (+I, +U), - retract (-U, -D), < late (older in its sequence group), = seed
TABLE = r"""
sum                  | INT             |                | + 1, + None, + 4                 | 5
sum                  | INT             |                | + None, + None                   | None
sum                  | INT             |                | - 3                              | -3
sum                  | INT             |                | - 3, + 5, - None                 | 2
sum                  | INT             |                | = 5, - 5, + 3                    | 3
sum                  | INT             | ignore-retract | + 1, - 1, + 2                    | 3
sum                  | INT             | ignore-retract | - 1                              | None
sum                  | INT             |                | + 2147483647, + 1, - 1           | !overflows its column
sum                  | INT             |                | - -2147483648                    | !overflows its column
sum                  | BIGINT          |                | + 9223372036854775807, + 1       | !overflows its column
sum                  | TINYINT         |                | + 100, + 27                      | 127
sum                  | TINYINT         |                | + 100, + 28                      | !overflows its column
sum                  | DOUBLE          |                | + 0.1, + 0.2, + 0.3              | 0.6000000000000001
sum                  | DECIMAL(4, 2)   |                | + Decimal('99.98'), + Decimal('0.01') | Decimal('99.99')
sum                  | DECIMAL(4, 2)   |                | + Decimal('99.99'), + Decimal('0.01') | !overflows its column
sum                  | DECIMAL(38, 0)  |                | + Decimal('9' * 38), - Decimal('9' * 38) | Decimal('0')
sum                  | DECIMAL(38, 0)  |                | + Decimal('9' * 38), + Decimal('1') | !overflows its column
product              | INT             |                | + 2, + None, + 7                 | 14
product              | INT             |                | - 2, + 7, - 2                    | 3
product              | INT             |                | + -7, - 2                        | -3
product              | INT             |                | + 7, - 0                         | !divides by zero
product              | INT             |                | + 65536, + 32768                 | !overflows its column
product              | INT             |                | + 0, + 65536, + 65536            | 0
product              | INT             |                | - 2                              | None
product              | DECIMAL(5, 2)   |                | + Decimal('1.15'), + Decimal('1.10') | Decimal('1.27')
product              | DECIMAL(5, 2)   |                | + Decimal('1.00'), - Decimal('0.03') | !non-terminating
product              | DECIMAL(5, 2)   |                | + Decimal('100.00'), + Decimal('10.00') | !overflows its column
max                  | INT             |                | + 1, + 3, + None, + 2            | 3
max                  | STRING          |                | + 'a', + 'b\0', + 'b'            | 'b\x00'
max                  | DOUBLE          |                | + -0.0, + 0.0, + -1.5            | 0.0
max                  | TIMESTAMP(3)    |                | + datetime(2024, 1, 2), + datetime(2023, 1, 2) | datetime(2024, 1, 2)
max                  | INT             |                | + 1, - 1                         | !does not support retraction
max                  | INT             | ignore-retract | + 1, - 9                         | 1
min                  | INT             |                | + 1, + 3, + None                 | 1
min                  | BYTES           |                | + b'\xff', + b'\x01\x02', + b'\x01' | b'\x01'
bool_and             | BOOLEAN         |                | + True, + None, + False          | False
bool_and             | BOOLEAN         |                | + None                           | None
bool_or              | BOOLEAN         |                | + False, + True                  | True
bool_or              | BOOLEAN         |                | - True                           | !does not support retraction
first_value          | INT             |                | + None, + 1                      | None
first_value          | INT             |                | + 1, < 7                         | 7
first_value          | INT             |                | = 1, + 7, + 8                    | 7
first_value          | INT             |                | + 5, = 1, + 7                    | 1
first_value          | INT             |                | + 5, - 5                         | !does not support retraction
first_non_null_value | INT             |                | + None, + 1, + 2                 | 1
first_not_null_value | INT             |                | + None, + 1, + 2                 | 1
last_value           | INT             |                | + 1, + None                      | None
last_value           | INT             |                | + 1, - 1                         | None
last_value           | INT             |                | + 1, < 2                         | 1
last_non_null_value  | INT             |                | + 1, + None                      | 1
last_non_null_value  | INT             |                | + 1, - None                      | 1
last_non_null_value  | INT             |                | + 1, - 7                         | None
last_non_null_value  | INT             |                | + None, < 2, < 3                 | 2
primary-key          | INT             |                | + 1, - 1                         | 1
listagg              | STRING          |                | + 'a', + None, + 'b'             | 'a,b'
listagg              | STRING          |                | + 'a', + '', + ' ', + 'b'        | 'a,b'
listagg              | STRING          |                | + '', + ' '                      | None
listagg              | STRING          |                | + 'a', < 'b', < 'c', + 'd'       | 'c,b,a,d'
listagg              | STRING          | list-agg-delimiter=;  | + 'a', + 'b'              | 'a;b'
listagg              | STRING          | distinct       | + 'a,a', + 'b,a,,b', + 'c'       | 'a,a,b,c'
listagg              | STRING          |                | + 'a', - 'a'                     | !does not support retraction
collect              | ARRAY<INT>      |                | + [1, 2], + None, + [2, None]    | [1, 2, 2, None]
collect              | ARRAY<INT>      |                | + None                           | None
collect              | ARRAY<INT>      |                | + []                             | []
collect              | ARRAY<INT>      |                | + [1, 2, 1, 3], - [1, 9, 3]      | [2, 1]
collect              | ARRAY<INT>      |                | - [1], + [1]                     | [1]
collect              | ARRAY<INT>      |                | + [1], - [1]                     | []
collect              | ARRAY<INT>      |                | - [1]                            | None
collect              | ARRAY<INT>      | distinct       | + [1, 2, 1], + [2, 3]            | [1, 2, 3]
collect              | ARRAY<INT>      | distinct       | + [1, 2, 1], - [1], + [3, 1]     | [2, 3, 1]
collect              | ARRAY<ROW<a INT, b STRING>> | distinct | + [{'a': 1, 'b': None}], + [{'a': 1, 'b': None}] | [{'a': 1, 'b': None}]
merge_map            | MAP<INT, STRING> |               | + [(1, 'a'), (2, 'b')], + [(1, None), (3, 'c')] | [(1, None), (2, 'b'), (3, 'c')]
merge_map            | MAP<INT, STRING> |               | + [(1, 'a'), (2, 'b')], - [(1, 'x')] | [(2, 'b')]
merge_map            | MAP<INT, STRING> |               | + [(1, 'a')], < [(1, 'x'), (2, 'y')] | [(1, 'a'), (2, 'y')]
merge_map            | MAP<INT, STRING> |               | - [(1, 'a')], + None             | None
merge_map_with_keytime | MAP<STRING, ROW<v STRING, ts STRING>> | | + [('p', {'v': 'iPhone', 'ts': '100'}), ('c', {'v': 'Black', 'ts': '100'})], + [('p', {'v': 'iPad', 'ts': '200'}), ('q', {'v': '9', 'ts': '200'})], + [('c', {'v': 'White', 'ts': '50'})] | [('p', {'v': 'iPad', 'ts': '200'}), ('c', {'v': 'White', 'ts': '50'}), ('q', {'v': '9', 'ts': '200'})]
merge_map_with_keytime | MAP<STRING, ROW<v STRING, ts STRING>> | | + [('p', {'v': 'a', 'ts': '1'}), ('q', {'v': 'b', 'ts': '1'})], + [('p', None), ('q', {'v': 'c', 'ts': None})] | [('q', {'v': 'b', 'ts': '1'})]
merge_map_with_keytime | MAP<STRING, ROW<ts STRING, v STRING>> | ts-field=ts | + [('p', {'ts': '2', 'v': 'a'})], + [('p', {'ts': '2', 'v': 'b'})] | [('p', {'ts': '2', 'v': 'a'})]
merge_map_with_keytime | MAP<STRING, ROW<v STRING, ts STRING>> | | + [], - [] | !does not support retraction
nested_update        | ARRAY<ROW<k INT, v INT>> |       | + [{'k': 1, 'v': 1}, None], + [{'k': 1, 'v': 1}] | [{'k': 1, 'v': 1}, {'k': 1, 'v': 1}]
nested_update        | ARRAY<ROW<k INT, v INT>> |       | + [{'k': 1, 'v': 1}, {'k': 1, 'v': 2}, {'k': 1, 'v': 1}], - [{'k': 1, 'v': 1}] | [{'k': 1, 'v': 2}]
nested_update        | ARRAY<ROW<k INT, v INT>> | nested-key=k | + [{'k': 1, 'v': 1}, {'k': 2, 'v': 2}], + [{'k': 1, 'v': 3}] | [{'k': 1, 'v': 3}, {'k': 2, 'v': 2}]
nested_update        | ARRAY<ROW<k INT, v INT>> | nested-key=k | + [{'k': 1, 'v': 1}, {'k': 2, 'v': 2}], - [{'k': 1, 'v': 9}] | [{'k': 2, 'v': 2}]
nested_update        | ARRAY<ROW<k INT, v INT>> | nested-key=k nested-sequence-field=v | + [{'k': 1, 'v': 5}], + [{'k': 1, 'v': 3}], + [{'k': 1, 'v': None}] | [{'k': 1, 'v': 5}]
nested_update        | ARRAY<ROW<k INT, v INT>> | count-limit=2 | + [{'k': 1, 'v': 1}], + [{'k': 2, 'v': 2}, {'k': 3, 'v': 3}] | [{'k': 1, 'v': 1}, {'k': 2, 'v': 2}]
nested_update        | ARRAY<ROW<k INT, v INT>> | nested-key=k count-limit=1 | + [{'k': 1, 'v': 1}], + [{'k': 2, 'v': 2}, {'k': 1, 'v': 3}] | [{'k': 1, 'v': 3}]
nested_update        | ARRAY<ROW<k INT, v INT>> | nested-key=k count-limit=2 | + [{'k': 1, 'v': 1}, {'k': 2, 'v': 2}, {'k': 3, 'v': 3}], - [{'k': 1, 'v': 1}] | [{'k': 2, 'v': 2}]
nested_update        | ARRAY<ROW<k INT, v INT>> | nested-key=k nested-key-null-strategy=ignore | + [{'k': None, 'v': 1}] | []
nested_update        | ARRAY<ROW<k INT, v INT>> | nested-key=k nested-key-null-strategy=error | + [{'k': None, 'v': 1}] | !Nested key contains null values
nested_partial_update | ARRAY<ROW<k INT, a INT, b INT>> | nested-key=k | + [{'k': 1, 'a': 1, 'b': None}], + [{'k': 1, 'a': None, 'b': 2}, {'k': 2, 'a': 3, 'b': None}] | [{'k': 1, 'a': 1, 'b': 2}, {'k': 2, 'a': 3, 'b': None}]
nested_partial_update | ARRAY<ROW<k INT, a INT, b INT>> | nested-key=k | + [], - [] | !does not support retraction
"""

CASES = [[part.strip() for part in re.split(r"(?<= )\|(?= )", line)] for line in TABLE.strip().splitlines()]


def options_of(text: str) -> AggregateOptions:
    pairs = (word.partition("=") for word in text.split())
    return AggregateOptions.of(TableOptions({f"fields.f.{key}": value or "true" for key, _, value in pairs}), "f")


def rows_of(text: str) -> list[tuple[str, Any]]:
    """The rows "kind value, kind value"."""
    names = {"Decimal": Decimal, "datetime": datetime}
    starts = [at for at in range(len(text)) if text[at] in "+-<=" and text[at + 1] == " " and _outside(text[:at])]
    parts = [text[a:b].rstrip().removesuffix(",") for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [(part[0], eval(part[2:], names)) for part in parts]


def _outside(before: str) -> bool:
    """Whether a text ends outside of brackets and quotes."""
    try:
        ast.parse(f"({before.rstrip().removesuffix(',')[2:]})" if before.strip() else "0", mode="eval")
    except SyntaxError:
        return before.count("(") == before.count(")") and before.count("[") == before.count("]")
    return True


def result_of(one: Aggregate, rows: list[tuple[str, Any]]) -> Any:
    """The fold of one group, computed between two other groups of the same rows."""
    kinds = np.array([what for what, _ in rows] * 3)
    values = pa.array([value for _, value in rows] * 3, arrow_type(one.field.type))
    starts = np.array([0, len(rows), 2 * len(rows)])
    found = one.apply(values, kinds == "-", starts, late=kinds == "<", seed=kinds == "=")
    assert len(set(map(str, found.to_pylist()))) == 1
    return found[1].as_py()


@pytest.mark.parametrize("case", CASES, ids=lambda case: " | ".join(case[:4]))
def test_table(case: list[str]) -> None:
    name, kind, options, rows, expected = case
    one = aggregate(name, DataField(7, "f", parse_type_text(kind, "flink")), options_of(options))
    assert pickle.loads(pickle.dumps(one)) == one
    if expected.startswith("!"):
        with pytest.raises(InvalidError, match=expected[1:]) as caught:
            result_of(one, rows_of(rows))
        assert caught.value.details["field"] == "f"
        assert caught.value.details["function"] == name
    else:
        assert result_of(one, rows_of(rows)) == eval(expected, {"Decimal": Decimal, "datetime": datetime})


def test_every_function_is_in_the_table() -> None:
    sketches = {"rbm32", "rbm64", "hll_sketch", "theta_sketch"}
    assert {case[0] for case in CASES} | sketches == set(FUNCTIONS) == {*AGGREGATE_FUNCTIONS, "primary-key"}


def test_groups_without_rows_left_are_null() -> None:
    one = aggregate("sum", DataField(1, "f", parse_type_text("INT", "flink")), AggregateOptions(ignore_retract=True))
    retract = np.array([True, False, True, True])
    found = one.apply(pa.array([1, 2, 3, 4], pa.int32()), retract, np.array([0, 1, 3]))
    assert found.to_pylist() == [None, 2, None]
    assert one.apply(pa.array([], pa.int32()), np.zeros(0, bool), np.zeros(0, np.int64)).to_pylist() == []


REFUSED = """
count | INT | | Use unsupported aggregation: count
sum | STRING | | Data type for sum column must be 'NumericType' but was 'STRING'
product | DATE | | Data type for product column must be 'NumericType' but was 'DATE'
max | BOOLEAN | | Incomparable type: 'BOOLEAN'
min | ARRAY<INT> | | Incomparable type
bool_and | INT | | Data type for bool and column must be 'BooleanType' but was 'INT'
bool_or | INT NOT NULL | | Data type for bool or column must be 'BooleanType' but was 'INT NOT NULL'
listagg | INT | | Data type for list agg column must be 'VarCharType' but was 'INT'
listagg | VARCHAR(9) | | must be STRING \\(unbounded VARCHAR\\), but was VARCHAR\\(9\\)
collect | INT | | Data type for collect column must be 'Array' but was 'INT'
merge_map | INT | | Data type for merge map column must be 'MAP' but was 'INT'
merge_map_with_keytime | MAP<INT, INT> | | Value type of MAP for field 'f' must be ROW but was 'INT'
merge_map_with_keytime | MAP<INT, ROW<a INT>> | | must have at least 2 fields, but found 1
merge_map_with_keytime | MAP<INT, ROW<a INT, b STRING>> | ts-field=c | Timestamp field 'c' not found
merge_map_with_keytime | MAP<INT, ROW<a STRING, b INT>> | | must be a string but was 'INT'
nested_update | ARRAY<INT> | | must be 'Array<Row>' but was 'ARRAY<INT>'
nested_update | ARRAY<ROW<a INT>> | nested-key=b | Nested field 'b' not found
nested_update | ARRAY<ROW<a INT>> | nested-sequence-field=a | nested-sequence-field' requires
nested_update | ARRAY<ROW<a INT>> | nested-key-null-strategy=merge | nested-key-null-strategy' requires
nested_partial_update | ARRAY<ROW<a INT>> | | requires 'fields.f.nested-key'
rbm32 | STRING | | Data type for roaring bitmap column must be 'VarBinaryType' but was 'STRING'
rbm64 | BINARY(8) | | Data type for roaring bitmap column must be 'VarBinaryType'
hll_sketch | INT | | Data type for hll sketch column must be 'VarBinaryType'
theta_sketch | INT | | Data type for theta sketch column must be 'VarBinaryType'
"""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_refused_columns(line: str) -> None:
    name, kind, options, message = (part.strip() for part in line.split("|"))
    with pytest.raises(InvalidError, match=message):
        aggregate(name, DataField(7, "f", parse_type_text(kind, "flink")), options_of(options))


def test_distinct_needs_a_delimiter() -> None:
    with pytest.raises(UnsupportedError, match="empty delimiter"):
        aggregate(
            "listagg",
            DataField(7, "f", parse_type_text("STRING", "flink")),
            AggregateOptions(distinct=True, delimiter=""),
        )


@pytest.mark.parametrize(
    ("key", "value"), [("ignore-retract", "yes"), ("count-limit", "few"), ("nested-key-null-strategy", "drop")]
)
def test_malformed_options(key: str, value: str) -> None:
    with pytest.raises(InvalidError, match=f"option=fields.f.{key}"):
        AggregateOptions.of(TableOptions({f"fields.f.{key}": value}), "f")


def test_options() -> None:
    raw = {
        "fields.f.ignore-retract": "TRUE",
        "fields.f.list-agg-delimiter": " | ",
        "fields.f.nested-key": "a, b",
        "fields.f.nested-key-null-strategy": "IGNORE",
        "fields.f.nested-sequence-field": "s",
        "fields.f.count-limit": "3",
        "fields.f.ts-field": "t",
        "fields.g.distinct": "true",
    }
    assert AggregateOptions.of(TableOptions(raw), "f") == AggregateOptions(
        ignore_retract=True,
        delimiter=" | ",
        nested_key=("a", "b"),
        nested_key_null_strategy="ignore",
        nested_sequence_field=("s",),
        count_limit=3,
        ts_field="t",
    )
    assert AggregateOptions.of(TableOptions(raw), "g") == AggregateOptions(distinct=True)
    assert AggregateOptions.of(TableOptions({}), "f") == AggregateOptions()
