"""INSERT … VALUES of plain literals, which Spark does not read: the same rows and errors as where it does."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

NUMBERS = [
    "0",
    "7",
    "-7",
    "007",
    "127",
    "128",
    "-128",
    "-129",
    "32767",
    "32768",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "10L",
    "3S",
]
BIG = ["9223372036854775807", "9223372036854775808", "-9223372036854775807", "-9223372036854775808"]
DECIMALS = ["1.5", "-0.0", "0.05", ".5", "1.", "12.25", "99999.99", "123456.7", "1.5BD", "1.5D", "1e3"]
LONG = ["123456789012345.123456789012345", "1234567890123456.5", "0.1234567890123456", "0.1"]
TEXTS = [
    "'x'",
    "''",
    "'it''s'",
    "'a\\tb'",
    "'\u00fcn\u00ef \U0001f600'",
    '"dq"',
    "r'x'",
    "'a' 'b'",
    "'a -- b'",
    "' 1 '",
]
DAYS = ["DATE '2024-02-29'", "DATE '2023-02-29'", "'2024-01-01'", "'2024-1-1'", "DATE '0001-01-01'", "date'1999-12-31'"]
OTHERS = ["TRUE", "false", "X'1F'", "TIMESTAMP '2024-01-01 00:00:00'", "1 + 1", "CAST(1 AS INT)", "DEFAULT", "null"]
COLUMNS = {
    "i": ("INT", NUMBERS[:11]),
    "l": ("BIGINT", [*NUMBERS, *BIG]),
    "s": ("SMALLINT", NUMBERS[:10]),
    "t": ("TINYINT", NUMBERS[:8]),
    "d": ("DECIMAL(9, 2)", ["0", "7", "-7", *DECIMALS[:7], "1234567"]),
    "w": ("DECIMAL(38, 18)", ["1", *BIG, *DECIMALS[:7], *LONG]),
    "x": ("DOUBLE", [*NUMBERS[:12], *DECIMALS, *LONG, *BIG]),
    "f": ("FLOAT", ["1", "1.5"]),
    "v": ("STRING", TEXTS),
    "c": ("VARCHAR(4)", ["'x'", "'abcd'", "'abcd '"]),
    "b": ("BOOLEAN", ["TRUE", "false"]),
    "y": ("DATE", DAYS),
    "z": ("TIMESTAMP", ["TIMESTAMP '2024-01-01 00:00:00'"]),
    "n": ("INT DEFAULT 5", ["1", "NULL", "DEFAULT"]),
}
EVERY = [*NUMBERS, *BIG, *DECIMALS, *LONG, *TEXTS, *DAYS, *OTHERS]
PLAIN = [name for name in COLUMNS if name not in "cfz"]
SETTINGS = [
    {},
    {"spark.sql.storeAssignmentPolicy": "STRICT"},
    {"spark.sql.storeAssignmentPolicy": "LEGACY"},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.parser.escapedStringLiterals": "true"},
    {"spark.sql.ansi.doubleQuotedIdentifiers": "true"},
    {"spark.sql.session.timeZone": "America/Los_Angeles"},
]


@contextmanager
def session(lake: Lake, settings: dict[str, str]) -> Iterator[None]:
    for key, value in settings.items():
        lake.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            lake.spark.conf.unset(key)


def told(lake: Lake, text: str, table: str) -> str:
    """What the statement comes to: its error, as it would be of any table, or none."""
    try:
        lake.sql(text)
    except Exception as error:
        found = re.sub(r"\n\n.*|SQLSTATE.*|line \d.*", "", str(error), flags=re.DOTALL)
        return f"{type(error).__name__} {found}".replace(table, "t")
    return ""


@pytest.mark.parametrize("keyed", [False, True])
def test_plain_values_are_sparks(classic: Lake, keyed: bool) -> None:
    lake, draw = classic, random.Random(11 + keyed)
    lake.sql("USE db")
    columns = "k BIGINT NOT NULL, " + ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    keys = "'primary-key' = 'k', 'bucket' = '2'" if keyed else "'bucket' = '-1'"
    for table in ("plain", "sparks"):
        lake.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ({keys}, 'write-only' = 'true')")
    written = 0
    for case in range(36):
        some = list(COLUMNS) if draw.random() < 0.2 else PLAIN
        names = draw.sample(some, draw.randint(1, 5))
        listed = ["k", *names] if draw.random() < 0.95 else names
        rows = []
        for place in range(draw.choice([1, 1, 2, 3])):
            row = [str(case * 10 + place)] if listed[0] == "k" else []
            for name in names:
                row.append(draw.choice(COLUMNS[name][1]) if draw.random() < 0.95 else draw.choice([*EVERY, "NULL"]))
            rows.append(f"({', '.join(row)})")
        text = f"({', '.join(listed)}) VALUES {', '.join(rows)}"
        with session(lake, draw.choice(SETTINGS) if draw.random() < 0.3 else {}):
            plain = told(lake, f"INSERT INTO plain {text}", "plain")
            assert plain == told(lake, f"INSERT INTO sparks {text} -- not plain", "sparks"), text
        written += not plain
    assert written > 9
    exact = "SELECT * EXCEPT (x, z), hex(CAST(CAST(x AS STRING) AS BINARY)) AS x, CAST(z AS STRING) AS z FROM"
    found, wanted = (sorted(map(str, lake.sql(f"{exact} {table}").collect())) for table in ("plain", "sparks"))
    assert found == wanted


def test_many_rows_and_parameters(classic: Lake) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql("CREATE TABLE many (k BIGINT NOT NULL, v STRING, PRIMARY KEY (k) NOT ENFORCED)")
    lake.sql("INSERT INTO many VALUES " + ", ".join(f"({k}, 'v{k}')" for k in range(3000)))
    lake.sql("INSERT INTO many VALUES (?, ?), (:b, NULL)".replace(":b", "?"), args=[1, "it's", 2])
    lake.sql("INSERT INTO many (v, k) VALUES ('q', 3);")
    lake.sql("SET spark.paimon.write-only = true")
    try:
        lake.sql("INSERT INTO many TABLE many")
    finally:
        lake.sql("RESET spark.paimon.write-only")
    assert lake.sql("SELECT count(*), max(v) FROM many").collect()[0][:] == (3000, "v999")
    found = lake.sql("SELECT k, v FROM many WHERE k < 4").collect()
    assert sorted(map(tuple, found)) == [(0, "v0"), (1, "it's"), (2, None), (3, "q")]
