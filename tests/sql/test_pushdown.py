"""What is left out of a lake table's plan for a statement, without Spark: only what is proved."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from types import SimpleNamespace

import pytest
from sqlglot import exp

from bucketlake.predicate.tree import (
    And,
    Compare,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from bucketlake.sql.query.parser import Settings, Source, parse
from bucketlake.sql.query.pushdown import condition, proof
from bucketlake.sql.text import lexemes
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

TYPES = {
    "id": "BIGINT",
    "n": "INT",
    "name": "STRING",
    "score": "DOUBLE",
    "f": "FLOAT",
    "price": "DECIMAL(10,2)",
    "wide": "DECIMAL(38,18)",
    "day": "DATE",
    "at": "TIMESTAMP",
    "zt": "TIMESTAMP_LTZ",
    "ok": "BOOLEAN",
    "fine": "TIMESTAMP(9)",
    "Über": "INT",
}
FIELDS = [DataField(place, name, parse_type_text(kind, "flink")) for place, (name, kind) in enumerate(TYPES.items())]
BOTH = [DataField(0, "a", parse_type_text("INT")), DataField(1, "A", parse_type_text("INT"))]


class _Conf(dict[str, str]):
    def get(self, key: str, *default: str) -> str:  # type: ignore[override]
        return super().get(key, *(default or ("UTC",)))

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self)


def settings(**given: str) -> Settings:
    known = {"functionResolution_sessionOrder": "second", **given}
    conf = _Conf({"spark.sql." + key.replace("_", "."): value for key, value in known.items()})
    return Settings(SimpleNamespace(conf=conf))  # type: ignore[arg-type]


def need(
    statement: str, table: str = "t", fields: list[DataField] = FIELDS, **given: str
) -> tuple[list[str] | None, Predicate | None, int | None]:
    """Columns, predicate and limit of the first use of a table."""
    parsed = parse(statement)
    found = proof(parsed, settings(**given)) if parsed is not None else None
    if parsed is None or found is None:
        return None, None, None
    node = next((node for node in parsed.tree.find_all(exp.Table) if node.name == table), None)
    source = Source(node, node.alias_or_name if node is not None else table, fields)
    return found.columns(source), found.predicate(source), found.limit(source)


def rows(where: str, **given: str) -> Predicate | None:
    return need(f"SELECT id FROM t WHERE {where}", **given)[1]


# ---- a number of rows


@pytest.mark.parametrize(
    ("statement", "limit"),
    [
        ("SELECT id FROM t LIMIT 5", 5),
        ("SELECT *, t.id AS x FROM t AS t LIMIT 5 -- c", 5),
        ("SELECT count(*) FROM (SELECT id FROM t LIMIT 5)", 5),
        ("WITH c AS (SELECT id FROM t LIMIT 5) SELECT * FROM c ORDER BY id", 5),
        ("SELECT c FROM (SELECT count(*) AS c FROM t) LIMIT 1", None),
        ("SELECT id FROM (SELECT id FROM t ORDER BY id) LIMIT 1", None),
        ("SELECT id FROM (SELECT DISTINCT id FROM t) LIMIT 1", None),
        ("SELECT id FROM (SELECT id FROM t EXCEPT SELECT n FROM u) LIMIT 1", None),
        ("SELECT id FROM t UNION SELECT id FROM u LIMIT 1", None),
        ("(SELECT id FROM u) UNION ALL SELECT id FROM t LIMIT 1", None),
        ("SELECT t.id FROM t, u LIMIT 1", None),
        ("SELECT id FROM t WHERE id = 1 LIMIT 1", None),
        ("SELECT id FROM t WHERE upper(name) = 'X' LIMIT 1", None),
        ("SELECT id FROM t LIMIT 1 OFFSET 1", None),
        ("SELECT id FROM t ORDER BY id LIMIT 1", None),
        ("SELECT id FROM t TABLESAMPLE (1 ROWS) LIMIT 1", None),
        ("SELECT id FROM t AS x(id, n) LIMIT 1", None),
        ("SELECT max(id) FROM t LIMIT 1", None),
        ("SELECT explode(array(id, n)) FROM t LIMIT 1", None),
        ("SELECT row_number() OVER (ORDER BY id) FROM t LIMIT 1", None),
        ("SELECT id FROM t LIMIT 1 + 1", None),
        ("SELECT id FROM t LIMIT ALL", None),
        ("FROM t |> LIMIT 3 |> WHERE id = 1", None),
        ("SELECT id FROM t LATERAL VIEW explode(array(1)) LIMIT 1", None),
    ],
)
def test_limit(statement: str, limit: int | None) -> None:
    assert need(statement)[2] == limit


# ---- columns


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("SELECT id FROM t", ["id"]),
        ("SELECT count(*) FROM t", ["id"]),
        ("SELECT N, `name` FROM t z JOIN u USING (day)", ["n", "name", "day"]),
        ("SELECT über FROM t", ["Über"]),
        ("SELECT * FROM t", None),
        ("SELECT t.* EXCEPT (id) FROM t", None),
        ("SELECT struct(*) FROM t", None),
        ("SELECT count(DISTINCT *) FROM t", None),
        ("SELECT count(*, 1) FROM t", None),
        ("SELECT count(* EXCEPT (id)) FROM t", None),
        ("SELECT id FROM t NATURAL JOIN u", None),
        ("SELECT b FROM t AS z(a, b, c, d, e, g, h, i, j, k, l, m, o)", None),
        ("SELECT x FROM t UNPIVOT (x FOR y IN (id, n))", None),
        ("SELECT id FROM t PIVOT (sum(n) FOR name IN ('a'))", None),
        ("FROM t |> WHERE id = 1", None),
        ("FROM t", None),
        ("SELECT IDENTIFIER('n') FROM t", None),
        ("SELECT IDENTIFIER(:c) FROM t", None),
        ("SELECT id FROM (t JOIN u ON true)", None),
        ("SELECT x FROM some_function(TABLE(t))", None),
        ("SELECT id -- \\\n, n\n FROM t", None),
    ],
)
def test_columns(statement: str, columns: list[str] | None) -> None:
    assert need(statement)[0] == columns


def test_columns_by_quotes_that_the_session_reads_otherwise() -> None:
    assert need('SELECT "n" FROM t')[0] == ["n"]
    assert need('SELECT "n" FROM t', ansi_doubleQuotedIdentifiers="true")[0] is None
    assert need("SELECT `(id)?+.+` FROM t")[0] == ["id"]
    assert need("SELECT `(id)?+.+` FROM t", parser_quotedRegexColumnNames="true")[0] is None


def test_a_column_that_begins_with_a_digit_is_seen() -> None:
    fields = [DataField(0, "1a", parse_type_text("INT")), DataField(1, "b`c", parse_type_text("INT"))]
    assert need("SELECT 1a FROM t", fields=fields)[0] == ["1a"]
    assert need("SELECT `b``c` FROM t", fields=fields)[0] == ["b`c"]


# ---- rows


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        ("id = 5", Compare("id", "=", 5)),
        ("5 < ID", Compare("id", ">", 5)),
        ("t.id <> -5", Compare("id", "<>", -5)),
        ("NOT id = 5", Compare("id", "<>", 5)),
        ("id <=> 5", Compare("id", "<=>", 5)),
        ("id = 5 AND upper(name) = 'X'", Compare("id", "=", 5)),
        ("(id = 5 OR n = 1) AND rand() > 0.5", Or((Compare("id", "=", 5), Compare("n", "=", 1)))),
        ("id = 5 OR upper(name) = 'X'", None),
        ("NOT (id = 5 AND upper(name) = 'X')", None),
        ("name = 'O''Brien'", Compare("name", "=", "O'Brien")),
        ('name = "O\'Brien"', Compare("name", "=", "O'Brien")),
        ('name = "a""b"', Compare("name", "=", 'a"b')),
        ("name = r'a\\'", Compare("name", "=", "a\\")),
        ("name = 'a\\'b'", None),
        ("name = '\\u0041'", None),
        ("name = 'a' 'b'", None),
        ("name = 'a' /* c */ 'b'", None),
        ("name = concat('a', 'b')", None),
        ("name = 5", None),
        ("id = '5'", None),
        ("id = 5L", None),
        ("id = CAST('5' AS INT)", Compare("id", "=", 5)),
        ("id > TRY_CAST('-5' AS SMALLINT)", Compare("id", ">", -5)),
        ("id IN (CAST(5 AS BIGINT), 6::tinyint, NULL)", In("id", (5, 6, None))),
        ("id = CAST(CAST('5' AS INT) AS BIGINT)", Compare("id", "=", 5)),
        ("price = CAST(5 AS INT)", Compare("price", "=", Decimal("5.00"))),
        ("id = CAST('5.0' AS INT)", None),
        ("id = CAST(' 5' AS INT)", None),
        ("id = CAST(1.5 AS INT)", None),
        ("id = CAST(300 AS TINYINT)", None),
        ("id = CAST(true AS INT)", None),
        ("id = CAST(n AS INT)", None),
        ("id = CAST('5' AS DECIMAL(10, 2))", None),
        ("id = CAST('5' AS STRING)", None),
        ("name = CAST('x' AS VARCHAR(3))", None),
        ("name = CAST(5 AS INT)", None),
        ("day = CAST('2020-01-02' AS DATE)", Compare("day", "=", dt.date(2020, 1, 2))),
        ("day = CAST('2020-1-2' AS DATE)", None),
        ("at = '2020-01-02 03:04:05'::timestamp_ntz", Compare("at", "=", dt.datetime(2020, 1, 2, 3, 4, 5))),
        ("id = 5.5", In("id", ())),
        ("id < 5.5", Compare("id", "<=", 5)),
        ("n > 3000000000", In("n", ())),
        ("n <= 2147483647.5", Not(In("n", ()))),
        ("id = 1e0", None),
        ("id IN (1, 2, NULL)", In("id", (1, 2, None))),
        ("id NOT IN (1, 2)", Not(In("id", (1, 2)))),
        ("id IN (1, '2')", None),
        ("id IN (SELECT 1)", None),
        ("id BETWEEN 1 AND 3 AND n = 2", "three"),
        ("id BETWEEN SYMMETRIC 3 AND 1", None),
        ("score = 1.5", Compare("score", "=", 1.5)),
        ("score > 1e3", Compare("score", ">", 1000.0)),
        ("score > 9007199254740993", None),
        ("f = 16777217", None),
        ("score > rand()", None),
        ("score = 1.5D", None),
        ("price = 1.5", Compare("price", "=", Decimal("1.50"))),
        ("price > 1.505", Compare("price", ">=", Decimal("1.51"))),
        ("price = 1e0", None),
        ("wide = -99999999999999999999.999999999999999999", "wide"),
        ("wide = 1.0000000000000000005", None),
        ("price IN (1.500000000000000001, 123456789012345678901.5)", None),
        ("n IN (1.000000000000000001, 123456789012345678901.5)", None),
        ("n IN (1.5, 12345678901234567.5)", In("n", ())),
        ("price IN ('1.5')", None),
        ("n < 9223372036854775806.5", Not(In("n", ()))),
        ("n < 9223372036854775807.5", None),
        ("log10(id) = 3", None),
        ("day = DATE '2020-01-02'", Compare("day", "=", dt.date(2020, 1, 2))),
        ("day >= '2020-01-02'", Compare("day", ">=", dt.date(2020, 1, 2))),
        ("day = '2020-1-2'", None),
        ("day = '2020-02-30'", None),
        ("day IN ('2020-01-02')", None),
        ("day = TIMESTAMP '2020-01-02 00:00:00'", None),
        ("at = TIMESTAMP_NTZ '2020-01-02 03:04:05.5'", Compare("at", "=", dt.datetime(2020, 1, 2, 3, 4, 5, 500_000))),
        ("at = TIMESTAMP '2020-01-02 03:04:05'", None),
        ("fine = TIMESTAMP_NTZ '2020-01-02 03:04:05'", None),
        ("zt < TIMESTAMP '2020-01-02 03:04:05'", Compare("zt", "<", dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc))),
        ("ok", Compare("ok", "=", True)),
        ("NOT ok", Compare("ok", "<>", True)),
        ("name IS NULL", IsNull("name")),
        ("name IS NOT NULL", IsNotNull("name")),
        ("name LIKE 'a%'", StartsWith("name", "a")),
        ("name LIKE '%a'", EndsWith("name", "a")),
        ("name NOT LIKE '%a%'", Not(Contains("name", "a"))),
        ("name LIKE 'a_'", None),
        ("name LIKE 'a\\\\%'", None),
        ("name LIKE 'a!%' ESCAPE '!'", None),
        ("startswith(name, 'a') AND NOT contains(name, 'b%')", "calls"),
        ("endswith(name, 'a')", EndsWith("name", "a")),
        ("startswith(name, '')", None),
        ("startswith(name, NULL)", None),
        ("startswith('abc', name)", None),
        ("startswith(id, '1')", None),
        ("id = 5 IS NULL", None),
        ("id = :p", None),
        ("id = ?", None),
        ("x.id = 5", None),
        ("db.t.id = 5", None),
        ("id = 5 -- or n = 1", Compare("id", "=", 5)),
        ("id /* a /* nested */ = 6 and n */ = 5", None),
        ("id = 5 --\\\n or n = 1", None),
    ],
)  # fmt: skip
def test_conjuncts(where: str, predicate: object) -> None:
    found = rows(where)
    if predicate == "three":
        assert found is not None and len(found.children) == 3  # type: ignore[attr-defined]
    elif predicate == "calls":
        assert found == And((StartsWith("name", "a"), Not(Contains("name", "b%"))))
    elif predicate == "wide":
        assert isinstance(found, Compare) and str(found.literal) == "-99999999999999999999.999999999999999999"
    else:
        assert found == predicate


@pytest.mark.parametrize(
    ("where", "given"),
    [
        ("ID = 5", {"caseSensitive": "true"}),
        ("day = '2020-01-02'", {"legacy_typeCoercion_datetimeToString_enabled": "true"}),
        ("zt = TIMESTAMP '2020-01-02 03:04:05'", {"session_timeZone": "Europe/Paris"}),
        ("zt = '2020-01-02 03:04:05'", {"session_timeZone": "Europe/Paris"}),
        ("zt = TIMESTAMP '2020-01-02 03:04:05'", {"timestampType": "TIMESTAMP_NTZ"}),
        ("name = 'O''Brien'", {"legacy_consecutiveStringLiterals_enabled": "true"}),
        ('name = "x"', {"ansi_doubleQuotedIdentifiers": "true"}),
        ("startswith(name, 'a')", {"functionResolution_sessionOrder": "first"}),
    ],
)
def test_settings_that_change_a_meaning(where: str, given: dict[str, str]) -> None:
    assert rows(where) is not None
    assert rows(where, **given) is None


@pytest.mark.parametrize(
    ("statement", "pushed"),
    [
        ("SELECT t.id FROM t JOIN u ON t.id = u.id WHERE t.n = 1", True),
        ("SELECT t.id FROM u, t WHERE t.n = 1", True),
        ("SELECT t.id FROM t LEFT JOIN u ON t.id = u.id WHERE t.n = 1", True),
        ("SELECT t.id FROM u RIGHT JOIN t ON t.id = u.id WHERE t.n = 1", True),
        ("SELECT t.id FROM t LEFT ANTI JOIN u ON t.id = u.id WHERE t.n = 1", True),
        ("SELECT t.id FROM t JOIN u ON t.id = u.id AND t.n = 1", True),
        ("SELECT t.id FROM u JOIN t ON t.n = 1 LEFT JOIN v ON v.id = t.id", True),
        ("SELECT t.id FROM t LEFT SEMI JOIN u ON t.id = u.id AND t.n = 1", True),
        ("SELECT u.id FROM u LEFT JOIN t ON t.id = u.id AND t.n = 1", True),
        ("SELECT u.id FROM u LEFT ANTI JOIN t ON t.id = u.id AND t.n = 1", True),
        ("SELECT u.id FROM u LEFT SEMI JOIN t ON t.id = u.id AND t.n = 1", True),
        ("SELECT u.id FROM u LEFT JOIN t ON t.n = 1 FULL JOIN v ON v.id = t.id", True),
        ("SELECT x FROM (SELECT id AS x FROM t WHERE n = 1) ORDER BY x LIMIT 3", True),
        ("WITH c AS (SELECT id, count(*) FROM t WHERE n = 1 GROUP BY id) SELECT * FROM c", True),
        ("SELECT id FROM u UNION SELECT id FROM t WHERE n = 1", True),
        ("SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM t WHERE n = 1 AND t.id = u.id)", True),
        ("SELECT t.id FROM u LEFT JOIN t ON t.id = u.id WHERE t.n = 1", False),
        ("SELECT t.id FROM t RIGHT JOIN u ON t.id = u.id WHERE t.n = 1", False),
        ("SELECT t.id FROM t FULL JOIN u ON t.id = u.id WHERE t.n = 1", False),
        ("SELECT t.id FROM t JOIN u ON true FULL JOIN v ON true WHERE t.n = 1", False),
        ("SELECT u.id FROM u LEFT JOIN (v JOIN t ON v.id = t.id) ON u.id = v.id WHERE t.n IS NULL", False),
        ("SELECT u.id FROM u LEFT SEMI JOIN t ON u.id = t.id WHERE t.n = 1", False),
        ("SELECT t.id FROM t LEFT JOIN u ON t.id = u.id AND t.n = 1", False),
        ("SELECT t.id FROM t LEFT ANTI JOIN u ON t.id = u.id AND t.n = 1", False),
        ("SELECT t.id FROM u RIGHT JOIN t ON t.id = u.id AND t.n = 1", False),
        ("SELECT t.id FROM u FULL JOIN t ON t.id = u.id AND t.n = 1", False),
        ("SELECT t.id FROM t JOIN u ON t.n = 1 RIGHT JOIN v ON v.id = t.id", False),
        ("SELECT t.id FROM t JOIN u USING (n) WHERE n = 1", False),
        ("SELECT t.id FROM t NATURAL JOIN u WHERE t.n = 1", False),
        ("SELECT t.id FROM t JOIN other.t ON true WHERE t.n = 1", False),
        ("SELECT t.id FROM t TABLESAMPLE (5 ROWS) WHERE t.n = 1", False),
        ("SELECT z.id FROM t AS z(n, id, a, b, c, d, e, g, h, i, j, k, l) WHERE z.n = 1", False),
        ("SELECT * FROM t UNPIVOT (v FOR n IN (id, price)) WHERE n = 1", False),
        ("SELECT * FROM t PIVOT (sum(id) FOR name IN ('a')) WHERE n = 1", False),
        ("SELECT id FROM t LATERAL VIEW explode(array(1)) l AS n WHERE n = 1", False),
        ("FROM t |> LIMIT 1 |> WHERE n = 1", False),
        ("SELECT id FROM t WHERE IDENTIFIER('n') = 1", False),
        ("SELECT id FROM t WHERE n = 1 AND IDENTIFIER('id') = 1", False),
        ("SELECT t.id FROM t JOIN LATERAL (SELECT 1 AS n) t2 WHERE t.n = 1", False),
    ],
)
def test_which_relation_a_conjunct_reaches(statement: str, pushed: bool) -> None:
    assert (need(statement)[1] is not None) == pushed


def test_a_table_with_both_cases_of_a_name() -> None:
    assert need("SELECT a FROM t WHERE a = 1", fields=BOTH)[:2] == (["a", "A"], None)
    assert need("SELECT a FROM t WHERE a = 1", fields=BOTH, caseSensitive="true")[1] is None


def test_a_condition_alone() -> None:
    source = Source(None, "x", FIELDS)
    assert condition("x.id = 5 AND name = 'O''Brien'", source, settings()) is not None
    for text in ("id = 5 LIMIT 1", "id = 5 UNION SELECT 1", "id = 5) OR (n = 1", "id = 5 ORDER BY n", "id ="):
        assert type(condition(text, source, settings())).__name__ == "Opaque"


# ---- text


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "a $$ b",
        "http://x",
        "a /* b /* c */ */ d",
        "a \\ b",
        "'open",
    ],
)
def test_what_is_not_read_as_spark_reads_it(text: str) -> None:
    assert not lexemes.cuts_alike(text, [])


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'a'", "a"),
        ("'it''s'", "it's"),
        ("'a\"\"b'", 'a""b'),
        ('"a""b"', 'a"b'),
        ("r'\\n'", "\\n"),
        ('R"it\'s"', "it's"),
        ("'a\\n'", None),
        ("X'1F'", None),
        ("'", None),
        ("r''", ""),
        ("''", ""),
    ],
)
def test_strings(source: str, value: str | None) -> None:
    assert lexemes.string(source) == value


@pytest.mark.parametrize(
    ("source", "value"),
    [("5", 5), ("5.", Decimal("5")), (".5", Decimal("0.5")), ("1e3", 1000.0), ("5L", None), ("1_0", None), ("٣", None)],
)
def test_numbers(source: str, value: object) -> None:
    assert lexemes.number(source) == value


def test_what_the_parser_does_not_know_is_not_told_to_the_user(caplog: pytest.LogCaptureFixture) -> None:
    for statement in ("SHOW VIEWS LIKE 'w*'", "SHOW FUNCTIONS", "CALL sys.help()", "DESCRIBE FUNCTION abs"):
        parse(statement)
    for statement in ("SELECT map(id) FROM t", "SELECT date_trunc() FROM t"):  # which break the parser
        assert parse(statement) is None
    assert caplog.records == []
