"""Every statement of the table language is read to its end before anything happens. No Spark: nothing may get there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from bucketlake.catalog import open_catalog
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.session import Lake
from bucketlake.sql import FRONT, statements
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

# Statements that change something, each whole as it stands.
FORMS = [
    "CREATE DATABASE e",
    "CREATE DATABASE IF NOT EXISTS e COMMENT 'c' WITH DBPROPERTIES ('k'='v')",
    "DROP DATABASE db CASCADE",
    "DROP DATABASE IF EXISTS db",
    "USE e",
    "USE DATABASE e",
    "CREATE TABLE db.u (a INT, b STRING NOT NULL COMMENT 'b' DEFAULT 'x')",
    "CREATE TABLE db.u (a INT, dt STRING) USING paimon PARTITIONED BY (dt) COMMENT 'c' TBLPROPERTIES ('k'='v')",
    "CREATE TABLE db.u (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('bucket'='1')",
    "CREATE TABLE db.u LIKE db.t",
    "DROP TABLE db.t",
    "DROP TABLE IF EXISTS db.t PURGE",
    "TRUNCATE TABLE db.t",
    "TRUNCATE TABLE db.t PARTITION (dt = 'x')",
    "ALTER TABLE db.t SET TBLPROPERTIES ('target-file-size' = '1 mb')",
    "ALTER TABLE db.t SET ('comment' = 'c')",
    "ALTER TABLE db.t UNSET TBLPROPERTIES IF EXISTS ('target-file-size')",
    "ALTER TABLE db.t RESET ('target-file-size')",
    "ALTER TABLE db.t RENAME TO db.u",
    "ALTER TABLE db.t RENAME COLUMN n TO m",
    "ALTER TABLE db.t ADD COLUMN z INT COMMENT 'c' AFTER k",
    "ALTER TABLE db.t ADD COLUMNS (z INT FIRST, y STRING)",
    "ALTER TABLE db.t DROP COLUMN n",
    "ALTER TABLE db.t DROP COLUMNS IF EXISTS (n, m)",
    "ALTER TABLE db.t ALTER COLUMN n TYPE BIGINT",
    "ALTER TABLE db.t ALTER COLUMN n COMMENT 'c'",
    "ALTER TABLE db.t ALTER COLUMN n SET DEFAULT 5",
    "ALTER TABLE db.t ALTER COLUMN n DROP DEFAULT",
    "ALTER TABLE db.t ALTER COLUMN n FIRST",
    "ALTER TABLE db.t CHANGE COLUMN n SET NOT NULL",
    "ALTER TABLE db.t DROP PARTITION (dt = 'x')",
    "ALTER TABLE db.t DROP IF EXISTS PARTITION (dt = 'x'), PARTITION (dt = 'y') PURGE",
    "ALTER DATABASE db SET DBPROPERTIES ('k'='v')",
    "COMMENT ON TABLE db.t IS 'c'",
    "DELETE FROM db.t",
    "DELETE FROM db.t WHERE k = 5",
    "DELETE FROM db.t AS x WHERE x.k = 5",
    "DELETE FROM db.t WHERE dt = 'x'",
    "UPDATE db.t SET n = 1",
    "UPDATE db.t AS x SET n = 1, k = 2 WHERE dt = 'x'",
    "CALL sys.compact('db.t')",
    "CALL sys.compact(table => 'db.t', partitions => 'dt=x')",
    "CALL sys.expire_snapshots('db.t', 1)",
    "SET 'spark.some.key' = 'v'",
    "SHOW DATABASES LIKE 'd*'",
    "SHOW TABLES IN db",
    "SHOW CREATE TABLE db.t",
    "SHOW COLUMNS IN db.t",
    "SHOW PARTITIONS db.t PARTITION (dt = 'x')",
    "SHOW TBLPROPERTIES db.t ('k')",
    "DESCRIBE TABLE EXTENDED db.t",
    "DESCRIBE db.t k",
    "DESCRIBE DATABASE db",
]
TAILS = [
    *("WHERE k = 5 garbage", ", u", "CASCADE garbage", "LIMIT 10", "ORDER BY k", "GROUP BY k", "HAVING k = 1"),
    *("UNION SELECT 1", "UNION ALL SELECT * FROM db.t", "INTERSECT SELECT 1", "PARTITON (dt = 'x')", ")", "(", "]"),
    *("; DROP TABLE db.t", "; SELECT 1", "'text", "garbage garbage", "AND", "SORT BY k", "OFFSET 1", ") OR (1 = 1"),
]


class ReachedSpark(Exception):
    """Nothing here needs Spark, but for the conditions of DELETE and UPDATE: it parses them whole, before any effect."""


class NoSpark:
    """Spark, which no broken statement may reach; it has no table of its own, and nothing is set."""

    catalog = property(lambda self: self)
    conf = property(lambda self: self)
    getAll: ClassVar[dict[str, str]] = {}
    _jconf = None

    def tableExists(self, name: str) -> bool:
        return False

    def get(self, key: str, default: str | None = None) -> str | None:
        return default

    def __getattr__(self, name: str) -> Any:
        raise ReachedSpark(name)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    catalog = open_catalog(tmp_path / "warehouse")
    catalog.create_database("db")
    catalog.create_database("e2")
    fields = [DataField(i, name, parse_type_text(kind)) for i, (name, kind) in enumerate(COLUMNS)]
    table = catalog.create_table("db.t", fields, partition_keys=["dt"])
    table.write_arrow(pa.table({"k": [1, 5, 7], "n": [1, 2, 3], "dt": ["x", "x", "y"]}))
    return Lake(NoSpark(), catalog, FRONT)  # type: ignore[arg-type]


COLUMNS = [("k", "INT"), ("n", "INT"), ("dt", "STRING")]


def stored(lake: Lake) -> dict[str, bytes]:
    root = Path(lake.catalog.warehouse)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def read(text: str) -> Statement | None:
    cursor = Cursor(text)
    found = statements.ROOMS[text.split()[0].upper()](cursor)
    cursor.end()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_statement_with_more_behind_it_does_nothing(lake: Lake, form: str) -> None:
    before, database = stored(lake), lake.current_database
    refused = (InvalidError, UnsupportedError, NotFoundError)  # the last where the tail reads as the name of a column
    for tail in TAILS:
        with pytest.raises((*refused, ReachedSpark) if form.startswith(("DELETE", "UPDATE")) else refused):
            lake.sql(f"{form} {tail}")
        assert stored(lake) == before, tail
        assert lake.current_database == database


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", ["", ";", " ; -- done", " -- done", " /* done */ ;"])
def test_what_spark_takes_for_the_end_is_the_end(form: str, end: str) -> None:
    assert read(form + end) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE db.t WHERE k = 5",
        "TRUNCATE TABLE db.t, db.u",
        "TRUNCATE TABLE db.t PARTITION",
        "TRUNCATE TABLE db.t PARTITION ()",
        "TRUNCATE TABLE db.t PARTITION (dt)",
        "TRUNCATE TABLE db.t PARTITION (dt = x)",
        "TRUNCATE TABLE db.t PARTITION (dt = 'x', dt = 'y')",
        "TRUNCATE TABLE db.t PARTITION (dt = 'x',)",
        "TRUNCATE TABLE db.t PARTITION (dt = 'x' OR dt = 'y')",
        "ALTER TABLE db.t DROP PARTITION ()",
        "ALTER TABLE db.t DROP PARTITION (dt = 'x'), PARTITION ()",
        "ALTER TABLE db.t DROP PARTITION (dt = 'x') CASCADE",
        "ALTER TABLE db.t DROP PARTITION (dt > 'x')",
        "ALTER TABLE db.t DROP COLUMN n CASCADE",
        "ALTER TABLE db.t ADD COLUMN z INT DEFAULT 5",
        "ALTER TABLE db.t ADD COLUMNS (y INT, z INT DEFAULT 5)",
        "ALTER TABLE db.t ADD COLUMN z INT COMMENT 'a' COMMENT 'b'",
        "ALTER TABLE db.t ADD COLUMN z INT FIRST AFTER n",
        "ALTER TABLE db.t ADD COLUMN z INT CASCADE",
        "ALTER TABLE db.t ADD COLUMNS (z INT,)",
        "ALTER TABLE db.t ADD COLUMNS (z INT",
        "ALTER TABLE db.t RENAME TO db.u CASCADE",
        "ALTER TABLE db.t RENAME COLUMN n TO m, k TO l",
        "ALTER TABLE db.t SET ('a'='b') CASCADE",
        "ALTER TABLE db.t SET ('a'='b',)",
        "ALTER TABLE db.t SET ('a'='b', 'a'='c')",
        "ALTER TABLE db.t SET ()",
        "ALTER TABLE db.t ALTER COLUMN n TYPE BIGINT garbage",
        "ALTER TABLE db.t ALTER COLUMN n SET DEFAULT 5 garbage",
        "ALTER TABLE db.t ALTER COLUMN n SET DEFAULT (SELECT max(k) FROM db.t)",
        "ALTER DATABASE db SET DBPROPERTIES ('k'='v') garbage",
        "DELETE FROM db.t WHERE dt = 'x' LIMIT 10",
        "DELETE FROM db.t WHERE dt = 'x' ORDER BY k",
        "DELETE FROM db.t WHERE dt = 'x' GROUP BY k HAVING count(*) > 1",
        "DELETE FROM db.t WHERE dt = 'x' UNION SELECT 1",
        "DELETE FROM db.t WHERE dt = 'x' WINDOW w AS (ORDER BY k)",
        "DELETE FROM db.t WHERE dt = 'x') OR (1 = 1",
        "DELETE FROM db.t WHERE",
        "DELETE FROM db.t LIMIT",
        "DELETE FROM db.t CASCADE",
        "DELETE FROM db.t wher",
        "DELETE FROM db.t wher dt = 'x'",
        "DELETE FROM db.t, db.u",
        "DELETE FROM db.t USING db.u",
        "UPDATE db.t SET n = 1 WHERE dt = 'x' LIMIT 10",
        "UPDATE db.t SET n = 1 WHERE",
        "UPDATE db.t SET n = 1,",
        "UPDATE db.t SET n = (1",
        "UPDATE db.t SET n = 1)",
        "UPDATE db.t SET",
        "CREATE TABLE db.u (a INT) (b INT)",
        "CREATE TABLE db.u (a INT,)",
        "CREATE TABLE db.u (a INT) COMMENT 'a' COMMENT 'b'",
        "CREATE TABLE db.u (a INT PRIMARY KEY, b INT PRIMARY KEY)",
        "CREATE TABLE db.u LIKE db.t PARTITIONED BY (k)",
        "CREATE TABLE db.u (a INT) LOCAL",
        "CREATE TABLE db.u (a INT DEFAULT (SELECT max(k) FROM db.t))",
        "CREATE TABLE db.u (a INT DEFAULT 1 DEFAULT 2) garbage",
        "DROP TABLE db.t, db.u",
        "DROP TABLE db.t CASCADE",
        "DROP DATABASE db CASCADE RESTRICT",
        "COMMENT ON TABLE db.t IS 'c' garbage",
        "COMMENT ON TABLE db.t IS c",
        "CALL sys.compact('db.t') garbage",
        "CALL sys.compact('db.t',)",
        "CALL sys.expire_snapshots('db.t', 1))",
        "SET 'a' = 'b' garbage 'c'",
        "SET 'a' 'b'",
        "INSERT INTO db.t PARTITION () VALUES (1)",
        "INSERT INTO db.t PARTITION (dt = 'x', dt = 'y') VALUES (1)",
        "INSERT INTO db.t PARTITION (dt = (SELECT 1)) VALUES (1)",
        "INSERT INTO db.t (k,) VALUES (1)",
        "INSERT INTO db.t VALUES (1, 2, 'x'); TRUNCATE TABLE db.t",
        "MERGE INTO db.t USING db.t s ON t.k = s.k WHEN MATCHED THEN DELETE nonsense",
        "MERGE INTO db.t USING db.t s ON t.k = s.k WHEN MATCHED THEN DELETE WHEN NOT",
        "MERGE INTO db.t USING db.t s ON t.k = s.k WHEN MATCHED THEN DELETE; TRUNCATE TABLE db.t",
        "MERGE INTO db.t USING db.t s ON t.k = s.k) WHEN MATCHED THEN DELETE",
    ],
)
def test_broken_statements_do_nothing(lake: Lake, statement: str) -> None:
    before = stored(lake)
    with pytest.raises((InvalidError, UnsupportedError)):
        lake.sql(statement)
    assert stored(lake) == before


def test_no_partition_specification_means_all_partitions(lake: Lake) -> None:
    table = lake.catalog.table("db.t")
    for call in (table.drop_partitions, lambda specs: table.drop_partitions([{"dt": "x"}, *specs])):
        with pytest.raises(InvalidError, match="names no column"):
            call([{}])
    assert table.to_arrow().num_rows == 3


def test_reading_a_statement_gets_no_lake(lake: Lake) -> None:
    """The mechanism: a room is given text alone, and what it makes of it is run by the one door."""
    for word, parse in statements.ROOMS.items():
        assert list(inspect.signature(parse).parameters) == ["cursor"], word


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("ALTER TABLE db.t DROP COLUMNS IF EXISTS (n, nope)", lambda t: t.schema.field_names == ("k", "dt")),
        ("ALTER TABLE db.t ADD COLUMN z INT FIRST COMMENT 'c'", lambda t: t.schema.fields[0].description == "c"),
        ("ALTER TABLE db.t ADD COLUMN z INT COMMENT 'c' AFTER k", lambda t: t.schema.field_names[1] == "z"),
        ("ALTER TABLE db.t SET TBLPROPERTIES ('comment'='hello', 'k.x'='v')", lambda t: t.schema.comment == "hello"),
        ("COMMENT ON TABLE db.t IS 'it''s'", lambda t: t.schema.comment == "it's"),
        ("ALTER TABLE db.t ALTER COLUMN n SET DEFAULT 1 + 1", lambda t: t.schema.field("n").default == "2"),
        ("TRUNCATE TABLE db.t PARTITION (dt = 'x');", lambda t: t.to_arrow().num_rows == 1),
        ("ALTER TABLE IF EXISTS db.gone DROP COLUMN n", lambda t: True),
    ],
)
def test_whole_statements_do_what_they_say(lake: Lake, statement: str, check: Callable[[Any], bool]) -> None:
    with pytest.raises(ReachedSpark, match="createDataFrame"):  # the empty result: all is done by then
        lake.sql(statement)
    table = lake.catalog.table("db.t")
    assert check(table), table.schema
    assert "comment" not in table.schema.options


def test_comments_of_tables_come_and_go(lake: Lake) -> None:
    def sql(text: str) -> None:
        with pytest.raises(ReachedSpark, match="createDataFrame"):
            lake.sql(text)

    sql("CREATE TABLE db.c (a INT) TBLPROPERTIES ('comment'='first')")
    sql("CREATE TABLE db.d LIKE db.c")
    sql("CREATE TABLE db.e LIKE db.c COMMENT 'own'")
    sql("ALTER TABLE db.c UNSET TBLPROPERTIES ('comment')")
    comments = {name: lake.catalog.table(f"db.{name}").schema.comment for name in "cde"}
    assert comments == {"c": None, "d": "first", "e": "own"}


def test_errors_say_where(lake: Lake) -> None:
    with pytest.raises(BucketlakeError, match=r"near=WHERE k = 5"):
        lake.sql("TRUNCATE TABLE db.t WHERE k = 5")
