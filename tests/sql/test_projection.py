"""Statements of columns of one table, whose rows are its frame: as Spark gives them where it reads their text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bucketlake.spark.session import Lake
from bucketlake.sql.query import projection, query

pytestmark = pytest.mark.spark

PLAIN = [
    "SELECT * FROM t",
    "select v, k from db.t",
    "SELECT K FROM `db`.`t`;",
    "SELECT k, `a b`, k FROM t LIMIT 1",
    "SELECT\n*\nFROM t LIMIT 0",
    "TABLE t",
    "SELECT user, `current_date` FROM t",
    "SELECT k FROM t VERSION AS OF 1",
    "SELECT said FROM t",  # a variable of the session
    "SELECT commit_kind FROM `t$snapshots`",
]
OTHERS = [
    "SELECT current_date FROM t",
    "SELECT null FROM t",
    "SELECT k AS x FROM t",
    "SELECT t.k FROM t",
    "SELECT DISTINCT k FROM t",
    "SELECT *, k FROM t",
    "SELECT k FROM t u",
    "SELECT v FROM t, u",
    "SELECT k FROM t WHERE k = 1",
    "SELECT k FROM t LIMIT 1 + 1",
    "SELECT k /* a comment */ FROM t",
    "FROM t",
]


@contextmanager
def watched(given: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each query was plain; none is taken for it unless `given`."""
    seen: list[bool] = []

    def projected(*asked: object) -> object:
        found = projection.projected(*asked) if given else None  # type: ignore[arg-type]
        seen.append(found is not None)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(query, "projected", projected)
        yield seen


def test_as_spark_gives_them(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    classic.sql("USE db")
    classic.sql("CREATE TABLE t (k INT COMMENT 'key', v STRING, `a b` CHAR(3), `user` INT, `current_date` INT)")
    classic.sql("CREATE TABLE u (k INT)")
    classic.sql("INSERT INTO t VALUES (1, 'x', 'y', 3, 4)")
    classic.sql("INSERT INTO u VALUES (1)")
    classic.spark.sql("DECLARE OR REPLACE VARIABLE said INT DEFAULT 5")
    for statement in PLAIN + OTHERS:
        found = []
        for given in (True, False):
            with watched(given, monkeypatch) as seen:
                rows = classic.sql(statement)
            assert seen == [given and statement in PLAIN], statement
            qualified = "`t$snapshots`.commit_kind" if "$" in statement else f"t.{rows.columns[0]}"
            named = statement in PLAIN and "said" not in statement
            found.append((rows.schema.json(), rows.collect(), rows.select(qualified).columns if named else []))
        assert found[0] == found[1], statement
    classic.spark.sql("DROP TEMPORARY VARIABLE said")


def test_reserved_words_are_left_to_spark(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    classic.sql("CREATE TABLE db.t (`user` INT)")
    classic.sql("INSERT INTO db.t VALUES (3)")
    key = "spark.sql.ansi.enforceReservedKeywords"
    try:
        classic.spark.conf.set(key, "true")
        with watched(True, monkeypatch) as seen:
            assert classic.sql("SELECT user FROM db.t").collect() != [(3,)]
            assert classic.sql("SELECT `user` FROM db.t").collect() == [(3,)]
        assert seen == [False, True]
    finally:
        classic.spark.conf.unset(key)


def test_only_the_letters_and_spaces_of_spark() -> None:
    frames: Any = {"t0": None}
    session: Any = None
    for text in ("\u017felect k FROM {t0} AS `t`", "SELECT\u00a0k FROM {t0} AS `t`", "SELECT k FROM {t0} AS `t`\x0b"):
        assert projection.projected(session, text, frames) is None


def test_what_spark_refuses_is_told_of_the_statement(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (k INT)")
    with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN.*nope(.|\n)*SELECT nope FROM db.t(.|\n)*\^\^\^\^"):
        classic.sql("SELECT nope FROM db.t")
