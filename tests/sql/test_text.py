"""Tokens, cursor, hints and splicing."""

from __future__ import annotations

import pytest

from bucketlake.errors import InvalidError
from bucketlake.sql.query.travel import travels
from bucketlake.sql.rows import merge_forms, update
from bucketlake.sql.text.cursor import Cursor, option_hints
from bucketlake.sql.text.plain import plain_pieces, with_quoted
from bucketlake.sql.text.scripts import split_statements
from bucketlake.sql.text.tokens import blank, splice, tokenize


def test_tokens_know_their_places() -> None:
    statement = "SHOW TABLES IN `my``db` -- trailing\n LIKE 'it''s'"
    tokens = tokenize(statement)
    assert [(t.kind, t.value) for t in tokens] == [
        ("word", "SHOW"),
        ("word", "TABLES"),
        ("word", "IN"),
        ("quoted", "my`db"),
        ("word", "LIKE"),
        ("string", "it's"),
    ]
    assert statement[tokens[3].start : tokens[3].end] == "`my``db`"


@pytest.mark.parametrize(
    "comment", ["/**/", "/*/**/*/", "/*/*a*/*/", "/* /* a */ */", "/*/ a */", "/*/* a */ DELETE FROM t; */", "--/*/*\n"]
)
def test_comments_end_where_sparks_do(comment: str) -> None:
    """One that begins right behind the sign that opens another was missed: what follows was a statement."""
    text = f"SELECT '/*/*' {comment}AS `/*/*`, 1 {comment}"
    assert [token.value for token in tokenize(text)] == ["SELECT", "/*/*", "AS", "/*/*", ",", "1"]


def test_words_that_the_tokenizer_joins_are_apart() -> None:
    assert [t.value for t in tokenize("GROUP BY a ORDER  BY b")] == ["GROUP", "BY", "a", "ORDER", "BY", "b"]


def test_statements_are_cut_outside_literals() -> None:
    script = "SELECT ';' ; -- a; comment\n;; INSERT INTO t VALUES (1); "
    assert split_statements(script)[0] == "SELECT ';'"
    assert len(split_statements(script)) == 2


def test_unterminated_literal_is_named() -> None:
    with pytest.raises(InvalidError, match="cannot be read"):
        tokenize("SELECT 'abc")


def _meant(char: str) -> str:
    return {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}.get(char, char)


def test_literals_mean_what_spark_reads() -> None:
    literals = {f"'a\\{char}z'": f"a{_meant(char)}z" for char in map(chr, range(33, 127))}
    literals |= {
        r"'\u0041\U0001F600\101'": "A😀A",
        r"r'\n'": r"\n",
        "'it''s'": "it's",
        '"a""b\'"': "a\"b'",
        "\"''\"": "''",
    }
    for literal, value in literals.items():
        assert [token.value for token in tokenize(literal)] == [value], literal
    assert [token.value for token in tokenize("'a'\"b\"")] == ["a", "b"]  # as 'a' "b": Spark joins them


def test_hints() -> None:
    statement = "SELECT /*+ BROADCAST(x) */ '/*+ OPTIONS(no) */' FROM t /*+ OPTIONS('a'='1', 'b.c' = 'x,y') */ x"
    (hint,) = option_hints(statement, tokenize(statement))
    assert hint.options == {"a": "1", "b.c": "x,y"}
    assert statement[hint.start : hint.end].startswith("/*+ OPTIONS")


def test_options_in_every_spelling() -> None:
    assert Cursor("('a'='b', c.d-e = 1, f true, `g` = -2)").options() == {
        "a": "b",
        "c.d-e": "1",
        "f": "true",
        "g": "-2",
    }


def test_failure_names_the_place() -> None:
    cursor = Cursor("CREATE\n  TABEL x")
    cursor.expect("CREATE")
    with pytest.raises(InvalidError, match=r"line=2, column=3"):
        cursor.expect("TABLE")


@pytest.mark.parametrize(
    ("statement", "quoted"),
    [
        ("SELECT * FROM db.t$branch_b$files s JOIN u$files", "SELECT * FROM db.`t$branch_b$files` s JOIN `u$files`"),
        (
            "INSERT INTO `db`.t$branch_b VALUES ('a$b', \"c$d\")",
            "INSERT INTO `db`.`t$branch_b` VALUES ('a$b', \"c$d\")",
        ),
        ("SELECT `x$y`, ${v}, a${v}, $1 FROM t $ x -- t$x", None),
    ],
)
def test_names_with_a_dollar_need_no_backticks(statement: str, quoted: str | None) -> None:
    assert with_quoted(statement) == (quoted or statement)


def test_splice_and_blank_keep_the_rest() -> None:
    assert splice("abcdef", [(1, 2, "XX"), (4, 6, "")]) == "aXXcd"
    assert blank("ab\ncd", [(1, 4)]) == "a \n d"


@pytest.mark.parametrize(
    ("clause", "kind", "value"),
    [
        ("VERSION AS OF 3", "version", "3"),
        ("FOR VERSION AS OF 'tag'", "version", "'tag'"),
        ("FOR SYSTEM_VERSION AS OF 3", "version", "3"),
        ("TIMESTAMP AS OF '2024-01-01'", "timestamp", "'2024-01-01'"),
        ("TIMESTAMP AS OF TIMESTAMP '2024-01-01'", "timestamp", "TIMESTAMP '2024-01-01'"),
        ("FOR SYSTEM_TIME AS OF date_sub(current_date(), 1)", "timestamp", "date_sub(current_date(), 1)"),
        ("TIMESTAMP AS OF now() - INTERVAL 1 DAY", "timestamp", "now() - INTERVAL 1 DAY"),
        ("TIMESTAMP AS OF now() - INTERVAL '1' HOUR", "timestamp", "now() - INTERVAL '1' HOUR"),
        ("TIMESTAMP AS OF now() - INTERVAL -1 DAY", "timestamp", "now() - INTERVAL -1 DAY"),
        ("TIMESTAMP AS OF now() - INTERVAL 1 DAY 2 HOURS", "timestamp", "now() - INTERVAL 1 DAY 2 HOURS"),
        ("TIMESTAMP AS OF now() - INTERVAL '1 2' DAY TO HOUR", "timestamp", "now() - INTERVAL '1 2' DAY TO HOUR"),
        ("TIMESTAMP AS OF now() - INTERVAL '1 day'", "timestamp", "now() - INTERVAL '1 day'"),
        (
            "TIMESTAMP AS OF CASE WHEN a IN (1) THEN '2024-01-01' ELSE CASE b WHEN 2 THEN c END END",
            "timestamp",
            "CASE WHEN a IN (1) THEN '2024-01-01' ELSE CASE b WHEN 2 THEN c END END",
        ),
    ],
)
@pytest.mark.parametrize("after", ["", " x", " AS x", " WHERE a = 1", ", u", " JOIN u ON 1 = 1", ") y"])
def test_time_travel_ends_where_its_value_ends(clause: str, kind: str, value: str, after: str) -> None:
    statement = f"SELECT * FROM t {clause}{after}"
    (found,) = travels(statement, tokenize(statement))
    assert (found.kind, found.value) == (kind, value)
    assert statement[found.start : found.end] == clause


@pytest.mark.parametrize("literal", [r"r'\n'", 'r"a b"', "R''", "X'0aFF'", "x''", "N'é'", "1.5e3"])
def test_a_literal_with_a_prefix_is_one_token(literal: str) -> None:
    statement = f"UPDATE t SET a = {literal}"
    last = tokenize(statement)[-1]
    assert statement[last.start : last.end] == literal
    assert last.kind in ("string", "number")


@pytest.mark.parametrize(
    ("statement", "plain"),
    [
        ("TABLE d.u", "SELECT * FROM d.u"),
        ("table `a` UNION ALL TABLE b", "SELECT * FROM `a` UNION ALL SELECT * FROM b"),
        ("(SELECT 1) MINUS TABLE x ORDER BY 1", "(SELECT 1) MINUS SELECT * FROM x ORDER BY 1"),
        (
            "SELECT * FROM (TABLE a) x JOIN ((TABLE b)) y",
            "SELECT * FROM (SELECT * FROM a) x JOIN ((SELECT * FROM b)) y",
        ),
        ("SELECT k IN (TABLE a), (TABLE b) FROM t", "SELECT k IN (SELECT * FROM a), (SELECT * FROM b) FROM t"),
        ("WITH a AS (TABLE b) TABLE a", "WITH a AS (SELECT * FROM b) SELECT * FROM a"),
        ("WITH a(x) AS (SELECT (1)) TABLE d.u", "WITH a(x) AS (SELECT (1)) SELECT * FROM d.u"),
        ("EXPLAIN EXTENDED TABLE u", "EXPLAIN EXTENDED SELECT * FROM u"),
        ("DESCRIBE QUERY TABLE u", "DESCRIBE QUERY SELECT * FROM u"),
        ("SELECT * FROM f(TABLE(d.u))", "SELECT * FROM f(TABLE(SELECT * FROM d.u))"),
        (
            "SELECT * FROM f(1, t => TABLE(`u`) PARTITION BY k)",
            "SELECT * FROM f(1, t => TABLE(SELECT * FROM `u`) PARTITION BY k)",
        ),
        ("SELECT * FROM f(TABLE(SELECT 1))", None),
        ("SELECT TABLE(a, b)", None),
        ("SELECT a AS table FROM t", None),
        ("SELECT count(*) table FROM t", None),
        ("SELECT ')' table FROM t", None),
        ("SELECT * FROM f(TABLE t)", None),
        ("SELECT 'UNION TABLE x'", None),
        ("CREATE TABLE a AS SELECT 1", None),
    ],
)
def test_tables_as_queries(statement: str, plain: str | None) -> None:
    assert splice(statement, plain_pieces(statement)) == (plain or statement)


@pytest.mark.parametrize(
    ("clause", "near", "meant"),
    [
        ("WHEN MATCHED THEN UPDAET SET *", "UPDAET", "UPDATE"),
        ("WHEN MATCHED THEN DELTE", "DELTE", "DELETE"),
        ("WHEN MATCHED THEN UPDATE STE *", "STE", "SET"),
        ("WHEN NOT MATCHED THEN INSRT *", "INSRT", "INSERT"),
        ("WHEN NOT MATCHED THEN INSERT (k) VALEUS (1)", "VALEUS", "VALUES"),
        ("WHEN NOT MATCHED BY SORCE THEN DELETE", "SORCE", "SOURCE"),
        ("WHEN NOT MATCHED BY TRAGET THEN INSERT *", "TRAGET", "TARGET"),
        ("WHEN NTO MATCHED THEN INSERT *", "NTO", "NOT"),
        ("WHEN MATCHED THE DELETE", "THE", "THEN"),
    ],
)
def test_a_misspelt_keyword_of_a_clause_is_told(clause: str, near: str, meant: str) -> None:
    """They were answered with what a MERGE looks like, or with "correct the statement"."""
    with pytest.raises(InvalidError, match=f"near={near}.*: did you mean {meant}[?]$"):
        merge_forms.parse(Cursor(f"MERGE INTO t USING s ON t.k = s.k {clause}"))


def test_a_misspelt_keyword_that_was_read_as_an_alias_is_told() -> None:
    with pytest.raises(InvalidError, match=r"expected SET .*: did you mean SET[?]$"):
        update.parse(Cursor("UPDATE t SE v = 1"))
    with pytest.raises(InvalidError, match=r"expected THEN .*WHEN MATCHED THEN UPDATE"):
        merge_forms.parse(Cursor("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED UPDATE SET *"))
