"""Rows with awkward values of every type, tables of many kinds that hold them, and conditions over them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from tests.queries import conditions
from tests.queries.conditions import Column

from bucketlake import Catalog, Table

_UTC = dt.timezone.utc
_NAN, _INF = float("nan"), float("inf")


def _decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


def _moments(zone: dt.tzinfo | None, *texts: str) -> list[dt.datetime]:
    return [dt.datetime.fromisoformat(text).replace(tzinfo=zone) for text in texts]


_TIMES = ("1582-10-04 23:59:59.999999", "1900-01-01", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00.000001")
_TIMES += (
    "2020-01-02 18:30:00",
    "2020-01-03",
    "2020-01-03 01:30:00",
    "2020-01-03 01:30:00.500001",
    "2020-10-25 01:30:00",
)
# Name, kind of its literals, type, and values in their order.
COLUMNS: list[tuple[str, str, str, pa.DataType, list[Any]]] = [
    ("i8", "int", "TINYINT", pa.int8(), [-128, -127, -1, 0, 1, 2, 5, 126, 127]),
    ("i16", "int", "SMALLINT", pa.int16(), [-32768, -129, -1, 0, 1, 128, 300, 32767]),
    ("i32", "int", "INT", pa.int32(), [-(1 << 31), -32769, 0, 1, 2, 300, 16777217, (1 << 31) - 1]),
    ("i64", "int", "BIGINT", pa.int64(), [-(1 << 63), -1, 0, 2, 300, 1 << 31, (1 << 53) + 1, (1 << 63) - 1]),
    ("f4", "double", "FLOAT", pa.float32(), [-_INF, -1.5, -0.0, 0.0, 1e-45, 0.1, 1.5, 16777216.0, 3.4028234663852886e38, _INF, _NAN]),
    ("f8", "double", "DOUBLE", pa.float64(), [-_INF, -1.5, -5e-324, -0.0, 0.0, 0.1, 1.5, 9007199254740994.0, 1.7976931348623157e308, _NAN]),
    ("d4", "decimal", "DECIMAL(4,2)", pa.decimal128(4, 2), _decimals("-99.99", "-0.01", "0.00", "1.50", "1.51", "2.00", "99.99")),
    ("d38", "decimal", "DECIMAL(38,10)", pa.decimal128(38, 10), _decimals("-9999999999999999999999999999.9999999999", "0E-10", "1E-10", "1.5000000000", "9223372036854775808.0000000000")),
    ("c3", "text", "CHAR(3)", pa.string(), ["", " a", "A", "a", "ab", "ab ", "abc", "x", "é", "ééé"]),
    ("v5", "text", "VARCHAR(5)", pa.string(), ["", " ", "1", "A", "a", "a ", "ab", "abcde", "x", "é"]),
    ("s", "text", "STRING", pa.string(), ["", " ", " 1", "-0", "1", "1.0", "1e0", "2020-01-03", "A", "NaN", "O'Brien", "a", "a ", "a%b", "ab", "back\\slash", "null", "é", "\uffff", "\U0001f600"]),
    ("bi", "bytes", "BINARY", pa.binary(), [b"", b"\x00", b"1", b"a", b"a\x00", b"\x7f", b"\x80", b"\xff\xff"]),
    ("dt", "date", "DATE", pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2020, 1, 2), dt.date(2020, 1, 3), dt.date(9999, 12, 31)]),
    ("tn", "local", "TIMESTAMP_NTZ", pa.timestamp("us"), _moments(None, "0001-01-01", *_TIMES, "9999-12-31 23:59:59.999999")),
    ("ts", "zoned", "TIMESTAMP", pa.timestamp("us", "UTC"), _moments(_UTC, "0001-01-02", *_TIMES, "9999-12-30 23:59:59.999999")),
    ("b", "flag", "BOOLEAN", pa.bool_(), [False, True]),
]  # fmt: skip
NAMES = [name for name, *_ in COLUMNS]
SHOWN = [Column("id", "int"), *(Column(name, kind) for name, kind, *_ in COLUMNS)]
DDL = "id INT NOT NULL, " + ", ".join(f"{name} {kind}" for name, _, kind, *_ in COLUMNS)
SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), *((name, kind) for name, _, _, kind, _ in COLUMNS)])
_FILE = 15  # rows of one


def rows(count: int = 150) -> pa.Table:
    """Rows by id: most values grow with it, so that files differ in their bounds; some columns are null throughout a file."""
    chance = Random(1)
    found: dict[str, list[Any]] = {"id": list(range(count))}
    for place, (name, _, _, _, values) in enumerate(COLUMNS):
        found[name] = []
        for i in range(count):
            kind = chance.random()
            near = i * len(values) // count + chance.choice((-1, 0, 0, 1))
            value = chance.choice(values) if kind < 0.2 else values[min(max(near, 0), len(values) - 1)]
            found[name].append(None if kind > 0.9 or i // _FILE % len(COLUMNS) == place else value)
    return pa.table(found, SCHEMA)


_INDEXED = "'file-index.{0}.columns' = '{1}'"
_WORDS = "i8,i16,i32,i64,f4,f8,c3,v5,s,dt,tn,ts"
KINDS = {
    "keyed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'write-only' = 'true')",
    "by_ts": "PARTITIONED BY (ts) TBLPROPERTIES ('bucket' = '-1', 'write-only' = 'true')",
    "ranged": f"TBLPROPERTIES ('metadata.stats-mode' = 'none', {_INDEXED.format('range-bitmap', _WORDS)})",
    "bloomed": f"TBLPROPERTIES ('metadata.stats-mode' = 'none', {_INDEXED.format('bloom-filter', _WORDS + ',bi')})",
    "mapped": f"TBLPROPERTIES ('metadata.stats-mode' = 'none', {_INDEXED.format('bitmap', _WORDS + ',b')})",
    "cut": "TBLPROPERTIES ('metadata.stats-mode' = 'truncate(1)')",
    "avro": "TBLPROPERTIES ('file.format' = 'avro')",
    "vectors": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true')",
    **{f"by_{name}": f"PARTITIONED BY ({name}) TBLPROPERTIES ('bucket' = '-1', 'write-only' = 'true')" for name in ("dt", "s", "c3", "d4", "f4", "i64", "tn", "b")},
    **{f"in_{name}": f"TBLPROPERTIES ('bucket' = '5', 'bucket-key' = '{name}')" for name in ("i8", "s", "dt", "ts", "tn", "d4", "d38", "c3", "f8")},
    **{f"key_{name}": f"TBLPROPERTIES ('primary-key' = '{name},id', 'bucket' = '3', 'bucket-key' = '{name}', 'write-only' = 'true')" for name in ("s", "ts", "d38", "c3", "bi", "f8", "dt")},
}  # fmt: skip


def filled(table: Table, every: pa.Table) -> None:
    """Write the rows that the table can hold, file by file; those of a primary key after an older version of each."""
    for name in table.schema.primary_keys:
        every = every.filter(every[name].is_valid())
    if table.schema.primary_keys:
        older = every.slice(every.num_rows // 2)
        keys = {name: older[name] for name in table.schema.primary_keys}
        table.write_arrow(
            pa.table([keys.get(name, every[name].slice(0, len(older))) for name in every.column_names], SCHEMA)
        )
    for start in range(0, every.num_rows, _FILE):
        table.write_arrow(every.slice(start, _FILE))


def handle(catalog: Catalog, kind: str) -> Table:
    """The table of a kind."""
    return catalog.table(f"db.{kind}")


# ---- conditions

_AWKWARD = {
    "int": "128 300 2147483648 9223372036854775806.5 -9223372036854775808 1.0 1.5 -128.5 1e0 1.5e0 1L 2S 1D 1.000000000000000001 '1' CAST('5'\u00a0AS\u00a0INT) CAST(300\u00a0AS\u00a0BIGINT)",
    "double": "0 -0.0 0.1 0.1F 1.5D 16777217 9007199254740993 1e308 1e-400 1e-45 double('NaN') float('NaN') double('-Infinity') '1.5' 100000000000000000000",
    "decimal": "0 1.5 1.505 99.995 -100.001 1e0 1.5D 0.00000000005 9999999999999999999999999999.99999999991 9223372036854775808 '1.5' 0.1F",
    "text": "'' '\u00a0' 1 1.5 'a\u00a0' 'ab' 'abcd' 'é' '\\u00e9' 'O\\'Brien' R'back\\slash' '😀' X'61' true CAST('a'\u00a0AS\u00a0STRING) concat('a','b')",
    "bytes": "X'' X'00' X'61' X'6100' X'80' X'ff' '1' CAST('a'\u00a0AS\u00a0BINARY)",
    "date": "DATE'2020-01-03' DATE'1582-10-10' DATE'0001-01-01' '2020-1-3' '2020' '2020-01-03\u00a000:00:00' TIMESTAMP'2020-01-03\u00a000:30:00' CAST('2020-01-03'\u00a0AS\u00a0DATE) make_date(2020,1,3)",
    "flag": "true FALSE 'true' 1 0",
}
_AWKWARD["local"] = _AWKWARD["zoned"] = (
    "TIMESTAMP'2020-01-03\u00a001:30:00' TIMESTAMP_NTZ'2020-01-03\u00a001:30:00' '2020-01-03\u00a001:30:00.5' '2020-01-03' DATE'2020-01-03' '2020-01-03T01:30' TIMESTAMP'2020-01-03\u00a001:30:00+02:00' "
    "'2020-10-25\u00a002:30:00' TIMESTAMP'2020-03-29\u00a002:30:00' CAST('2020-01-03\u00a001:30:00'\u00a0AS\u00a0TIMESTAMP_NTZ) TIMESTAMP_NTZ'1969-12-31\u00a023:59:59.999999'"
)  # fmt: skip


def _spelled(chance: Random, value: Any) -> str:
    if isinstance(value, str):
        return conditions.text_literal(chance, value) if value != "back\\slash" else "'back\\\\slash'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return chance.choice(
            (f"TIMESTAMP '{text}{'+00:00' if value.tzinfo else ''}'", f"TIMESTAMP_NTZ '{text}'", f"'{text}'")
        )
    if isinstance(value, dt.date):
        return chance.choice((f"DATE '{value}'", f"'{value}'"))
    if isinstance(value, float):
        return f"double('{value}')" if value != value or abs(value) == _INF else repr(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def literal(chance: Random, kind: str) -> str:
    """A constant: a value that columns of the kind have, an awkward one, or any."""
    how = chance.random()
    if how < 0.6:
        values = [value for _, theirs, _, _, some in COLUMNS if theirs == kind for value in some]
        return _spelled(chance, chance.choice(values))
    if how < 0.85 or kind == "bytes":
        return chance.choice(_AWKWARD[kind].split(" ")).replace("\u00a0", " ")
    return conditions.literal(chance, kind)


def condition(seed: int) -> str:
    """The condition of a seed."""
    chance = Random(seed)
    if chance.random() < 0.1:
        call = f"{chance.choice(('startswith', 'endswith', 'contains'))}({chance.choice(('s', 'v5', 'c3'))}, "
        return call + f"{_spelled(chance, chance.choice(COLUMNS[10][4]))})"
    return conditions.condition(chance, SHOWN, literal=literal)
