"""INSERT of nested values beside nulls: members that Spark knows to be there, of a row that is not."""

from __future__ import annotations

from bucketlake import Lake


def test_null_beside_whole_members(classic: Lake) -> None:
    classic.sql("CREATE DATABASE IF NOT EXISTS db")
    classic.sql("CREATE TABLE db.t (k INT, s STRUCT<a: BIGINT, b: STRING>, l ARRAY<STRUCT<c: INT>>)")
    classic.sql(
        "INSERT INTO db.t VALUES (1, struct(1, 'x'), array(struct(1))), (2, NULL, NULL), (3, NULL, array(NULL))"
    )
    classic.sql("INSERT INTO db.t SELECT 4, named_struct('a', 5L, 'b', 'y'), array(named_struct('c', 2))")
    rows = {row.k: (row.s and tuple(row.s), row.l) for row in classic.sql("SELECT * FROM db.t").collect()}
    assert {k: s for k, (s, _) in rows.items()} == {1: (1, "x"), 2: None, 3: None, 4: (5, "y")}
    assert [found and found[0] and found[0].c for _, found in sorted(rows.items()) for found in [found[1]]] == [
        1,
        None,
        None,
        2,
    ]
