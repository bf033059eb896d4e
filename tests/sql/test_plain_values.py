"""INSERT … VALUES of plain literals, which Spark does not read: the same rows and errors as where it does."""

from __future__ import annotations

import random
import re

import pytest
from tests.sql.sessions import session

from bucketlake.spark.session import Lake
from bucketlake.sql.rows import insert

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
    for case in range(24):
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
    assert written > 6
    exact = "SELECT * EXCEPT (x, z), hex(CAST(CAST(x AS STRING) AS BINARY)) AS x, CAST(z AS STRING) AS z FROM"
    found, wanted = (sorted(map(str, lake.sql(f"{exact} {table}").collect())) for table in ("plain", "sparks"))
    assert found == wanted


def test_spark_reads_no_long_list_of_literals(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.long (k BIGINT, v STRING)")
    with monkeypatch.context() as patch:
        patch.setattr(insert.query, "run", lambda *_: pytest.fail("Spark is asked"))
        lake.sql("INSERT INTO db.long VALUES " + ", ".join(f"({k}, 'v{k}')" for k in range(20_000)))
    assert lake.sql("SELECT count(*), sum(k), max(v) FROM db.long").collect()[0][:] == (20_000, 199_990_000, "v9999")


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


KINDS = {
    "append": "'bucket' = '-1'",
    "marked": "'deletion-vectors.enabled' = 'true'",
    "bucketed": "'bucket' = '2', 'bucket-key' = 'l'",
    "keyed": "'primary-key' = 'k', 'bucket' = '2'",
    "keyed_marked": "'primary-key' = 'k', 'bucket' = '1', 'deletion-vectors.enabled' = 'true'",
    "keyed_logged": "'primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'input'",
    "tracked": "'row-tracking.enabled' = 'true'",
}
CONDITIONS = ["k = 1", "k > 2 AND l <> 9", "k IN (1, 3, 5)", "v IS NULL", "v = 'x' OR k < 3", "k % 2 = 0", "k = 100"]


@pytest.mark.parametrize(
    ("kind", "parted"), [*((kind, False) for kind in KINDS), ("append", True), ("keyed", True), ("keyed_marked", True)]
)
def test_rows_set_to_literals_are_sparks(classic: Lake, kind: str, parted: bool) -> None:
    """The rows of an UPDATE, in brackets for Spark to read the values; of tables with keys also their kinds."""
    lake, draw = classic, random.Random(f"{kind}{parted}")
    lake.sql("USE db")
    keyed = kind.startswith("keyed")
    columns = (
        f"k INT{' NOT NULL' if keyed else ''}, l BIGINT, v STRING, d DECIMAL(9, 2), y DATE, n INT DEFAULT 5, p INT"
    )
    options = KINDS[kind].replace("'k'", "'k,p'") if parted else KINDS[kind]
    for table in ("plain", "sparks"):
        by = "PARTITIONED BY (p)" if parted else ""
        lake.sql(f"CREATE TABLE {table} ({columns}) {by} TBLPROPERTIES ({options})")
        texts = ["'x'", "NULL"] * 3
        rows = ", ".join(f"({k}, {k * 3}, {text}, {k}.5, NULL, {k}, {k % 2})" for k, text in enumerate(texts))
        lake.sql(f"INSERT INTO {table} VALUES {rows}")
    fitting = {"l": ["9", "-1"], "v": ["'y'", "''"], "d": ["1", "2.25"], "y": DAYS[:1], "n": ["7"], "p": ["0", "3"]}
    for _ in range(4):
        some = draw.sample(list(fitting), draw.randint(1, 3))
        odd = draw.random() < 0.2
        values = {
            name: draw.choice(["NULL", *(text for text in EVERY if text != "DEFAULT")] if odd else fitting[name])
            for name in some
        }
        where, errors = draw.choice(CONDITIONS), {}
        for table, form in (("plain", "{}"), ("sparks", "({})")):
            sets = ", ".join(f"{name} = {form.format(text)}" for name, text in values.items())
            errors[table] = re.sub(r"[()]", "", told(lake, f"UPDATE {table} SET {sets} WHERE {where}", table))
        assert errors["plain"] == errors["sparks"], (values, where)
    found, wanted = (sorted(map(str, lake.sql(f"SELECT * FROM {table}").collect())) for table in ("plain", "sparks"))
    assert found == wanted
    if keyed:
        found, wanted = (
            sorted(map(str, lake.sql(f"SELECT * FROM `{table}$audit_log`").collect())) for table in ("plain", "sparks")
        )
        assert found == wanted
