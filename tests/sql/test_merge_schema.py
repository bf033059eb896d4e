"""MERGE of sources that bring columns and lack some."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import pytest
from tests.sql.merges import TWO, content, made, view

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def evolving(classic: Lake) -> Iterator[Lake]:
    """Sessions in which writes bring columns."""
    classic.spark.conf.set("spark.paimon.write.merge-schema", "true")
    yield classic
    classic.spark.conf.unset("spark.paimon.write.merge-schema")


BROUGHT = [
    (
        "WHEN MATCHED THEN UPDATE SET b = source.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (source.a, source.b)",
        [(1, "u1"), (2, "v2"), (3, "u3")],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT (a, b) VALUES (source.a, source.b)",
        [(1, "u1", 10), (2, "v2", None), (3, "u3", None)],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET b = source.b WHEN NOT MATCHED THEN INSERT *",
        [(1, "u1", None), (2, "v2", None), (3, "u3", 30)],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, "u1", 10), (2, "v2", None), (3, "u3", 30)],
    ),
    (
        "WHEN MATCHED THEN UPDATE SET t.C = source.c + 1 WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 'kept'",
        [(1, "v1", 11), (2, "kept", None)],
    ),
    ("WHEN NOT MATCHED THEN INSERT (a, c) VALUES (a, c)", [(1, "v1", None), (2, "v2", None), (3, None, 30)]),
]


def test_columns_that_the_source_brings(evolving: Lake) -> None:
    view(evolving, [(1, "u1", 10), (3, "u3", 30)], "a int, b string, c int")
    for (clauses, expected), kind in zip(BROUGHT, cycle(("keyed", "append", "marked")), strict=False):
        made(evolving, kind, [(1, "v1"), (2, "v2")], "a INT, b STRING")
        evolving.sql(f"MERGE INTO db.t USING source ON t.a = source.a {clauses}")
        assert content(evolving) == expected, clauses
        evolving.sql("DROP TABLE db.t")
    made(evolving, "keyed", [(1, "v1")], "a INT, b STRING")
    with pytest.raises(InvalidError, match="nope"):
        evolving.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET nope = 1")
    evolving.spark.conf.set("spark.paimon.write.merge-schema", "false")
    evolving.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN NOT MATCHED THEN INSERT *")
    assert content(evolving) == [(1, "v1"), (3, "u3")]
    evolving.sql("MERGE WITH SCHEMA EVOLUTION INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET *")
    assert content(evolving) == [(1, "u1", 10), (3, "u3", 30)]


def test_columns_that_the_source_lacks(evolving: Lake) -> None:
    for kind in ("keyed", "append"):
        made(evolving, kind, TWO)
        view(evolving, [(1, "c11"), (3, "c33")], "A int, c string")
        evolving.sql(
            "MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert content(evolving) == [(1, 10, "c11"), (2, 20, "c2"), (3, None, "c33")]
        evolving.sql("DROP TABLE db.t")


MEMBERS = [
    (
        "UPDATE SET i = source.i",
        "INSERT (a, i) VALUES (a, i)",
        "struct<p:string,q:struct<c:int,z:int>,n:string,more:int>",
    ),
    (
        "UPDATE SET t.I = `Source`.i",
        "INSERT (a) VALUES (a)",
        "struct<p:string,q:struct<c:int,z:int>,n:string,more:int>",
    ),
    (
        "UPDATE SET i.n = source.i.n, i.p = source.i.p, i.q.z = source.i.q.z, l = source.l, m = source.m",
        "INSERT (a) VALUES (source.a)",
        "struct<p:string,q:struct<c:int,z:int>,n:string>",
    ),
]


def test_members_that_a_column_of_the_same_name_brings(evolving: Lake) -> None:
    """As Spark has it: what is assigned to a column of the same name adds its members, at any depth."""
    own = "a INT, i STRUCT<p: STRING, q: STRUCT<c: INT>>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>"
    brought = "a int, i struct<n: string, p: string, q: struct<c: bigint, z: int>, more: int>, "
    brought += "l array<struct<x: int, y: int>>, m map<string, struct<x: int, y: int>>, b int"
    view(evolving, [(key, (f"n{key}", "P", (7, 8), 9), [(1, 2)], {"k": (3, 4)}, 5) for key in (1, 2)], brought)
    for kind, (update, insert, expected) in zip(("keyed", "append", "marked"), MEMBERS, strict=True):
        made(evolving, kind, [(1, ("a", (1,)), [(0,)], {"j": (0,)})], own)
        evolving.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN {update} "
            f"WHEN NOT MATCHED THEN {insert}"
        )
        found = {row.a: row for row in evolving.sql("SELECT * FROM db.t").collect()}
        assert evolving.table("db.t").read().schema["i"].dataType.simpleString() == expected, update
        assert found[1].asDict().keys() == {"a", "i", "l", "m"}
        assert (found[2].i is None) == ("i" not in insert), insert
        if "more" in expected:
            assert found[1][1:] == (("P", (7, 8), "n1", 9), [(0,)], {"j": (0,)}), update
        else:  # other members stay
            assert found[1][1:] == (("P", (1, 8), "n1"), [(1, 2)], {"k": (3, 4)})
        evolving.sql("DROP TABLE db.t")


def test_members_that_other_values_bring_are_refused(evolving: Lake) -> None:
    made(evolving, "append", [(1, ("a",))], "a INT, i STRUCT<p: STRING>")
    view(evolving, [(1, ("b", "c"))], "a int, j struct<p: string, n: string>")
    for merge in ("MERGE", "MERGE WITH SCHEMA EVOLUTION"):
        with pytest.raises(InvalidError, match=r"extra struct fields at `i`: `n`.* column of the same name"):
            evolving.sql(f"{merge} INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET i = source.j")
    assert content(evolving) == [(1, ("a",))]


def test_members_that_the_source_brings_and_lacks(evolving: Lake) -> None:
    for kind in ("keyed", "append"):
        made(
            evolving,
            kind,
            [(1, ("a", ("c", "d"))), (2, ("x", None)), (4, None)],
            "a INT, i STRUCT<p: STRING, q: STRUCT<c: STRING, d: STRING>>",
        )
        view(
            evolving,
            [(1, (("C", "N"), "A"), 7), (2, None, 8), (3, (("n", "m"), "P"), 9), (4, None, 9)],
            "a int, i struct<q: struct<c: string, n: string>, P: string>, more int",
        )
        evolving.sql(
            "MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert content(evolving) == [
            (1, ("A", ("C", "d", "N")), 7),
            (2, (None, None), 8),
            (3, ("P", ("n", None, "m")), 9),
            (4, None, 9),
        ]
        evolving.sql("DROP TABLE db.t")
    made(evolving, "keyed", [(1, ("a", "b"))], "a INT, i STRUCT<p: STRING, q: STRING>")
    view(evolving, [(1, None)], "a int, i struct<p: string, q: string>")
    evolving.sql("MERGE INTO db.t USING source ON t.a = source.a WHEN MATCHED THEN UPDATE SET *")
    assert content(evolving) == [(1, None)]
