"""Store assignment as rules over types, no session needed."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from bucketlake.errors import InvalidError
from bucketlake.spark.assignment import Rules, check_assignment, matched, positional
from bucketlake.spark.types import spark_type
from bucketlake.types.parse import parse_type_text


def parsed(ddl: str) -> T.DataType:
    return spark_type(parse_type_text(ddl, "spark"))


@pytest.mark.parametrize(
    ("source", "target", "policies"),
    [
        ("BIGINT", "INT", "ANSI LEGACY"),
        ("INT", "BIGINT", "ANSI STRICT LEGACY"),
        ("DOUBLE", "INT", "ANSI LEGACY"),
        ("INT", "STRING", "ANSI STRICT LEGACY"),
        ("STRING", "INT", "LEGACY"),
        ("STRING", "DATE", "LEGACY"),
        ("BOOLEAN", "INT", "LEGACY"),
        ("DATE", "TIMESTAMP", "ANSI STRICT LEGACY"),
        ("TIMESTAMP", "DATE", "ANSI LEGACY"),
        ("DECIMAL(5,2)", "DECIMAL(4,2)", "ANSI LEGACY"),
        ("DECIMAL(5,2)", "DECIMAL(8,2)", "ANSI STRICT LEGACY"),
        ("DECIMAL(9,0)", "INT", "ANSI STRICT LEGACY"),
        ("BIGINT", "DOUBLE", "ANSI STRICT LEGACY"),
        ("BINARY", "STRING", "STRICT LEGACY"),
        ("VARIANT", "STRING", "ANSI LEGACY"),
        ("BIGINT", "TIMESTAMP_LTZ", "STRICT LEGACY"),
        ("TIMESTAMP_LTZ", "BIGINT", "STRICT LEGACY"),
        ("ARRAY<BIGINT>", "ARRAY<INT>", "ANSI LEGACY"),
        ("ARRAY<STRING>", "ARRAY<INT>", "LEGACY"),
        ("ARRAY<INT>", "STRING", "LEGACY"),
        ("MAP<INT,BIGINT>", "MAP<INT,INT>", "ANSI LEGACY"),
        ("STRUCT<b: INT, a: STRING>", "STRUCT<a: STRING, b: INT>", "ANSI STRICT LEGACY"),
        ("STRUCT<B: INT, A: STRING>", "STRUCT<a: STRING, b: INT>", "ANSI STRICT LEGACY"),
        ("STRUCT<a: STRING>", "STRUCT<a: STRING, b: INT>", ""),
        ("STRUCT<a: STRING, b: INT, c: INT>", "STRUCT<a: STRING, b: INT>", ""),
        ("ARRAY<STRUCT<c: INT, a: STRING>>", "ARRAY<STRUCT<a: STRING, b: INT>>", ""),
    ],
)
def test_policies(source: str, target: str, policies: str) -> None:
    for policy in ("ANSI", "STRICT", "LEGACY"):
        allowed = policy in policies.split()
        try:
            check_assignment(parsed(source), parsed(target), "x", Rules(policy))
        except InvalidError:
            assert not allowed, policy
        else:
            assert allowed, policy


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("STRING", "INT", True),
        ("STRING", "DATE", True),
        ("STRING", "BOOLEAN", True),
        ("BOOLEAN", "INT", True),
        ("TIMESTAMP", "BIGINT", True),
        ("ARRAY<STRING>", "ARRAY<INT>", True),
        ("STRUCT<a: INT>", "STRING", True),
        ("ARRAY<ARRAY<INT>>", "VARIANT", True),
        ("VARIANT", "ARRAY<STRUCT<a: MAP<STRING, INT>>>", True),
        ("VARIANT", "MAP<INT, INT>", False),
        ("MAP<STRING, INT>", "VARIANT", False),
        ("ARRAY<STRUCT<a: INT>>", "VARIANT", False),
        ("DATE", "INT", False),
        ("INT", "DATE", False),
        ("INT", "BINARY", False),
        ("STRUCT<a: INT>", "INT", False),
        ("INT", "STRUCT<a: INT>", False),
        ("ARRAY<INT>", "MAP<INT,INT>", False),
    ],
)
def test_a_session_takes_what_spark_casts(source: str, target: str, allowed: bool) -> None:
    try:
        check_assignment(parsed(source), parsed(target), "x", Rules("CAST"))
    except InvalidError as error:
        assert "cast" in str(error)
        assert not allowed
    else:
        assert allowed


def test_names_are_matched_by_case_or_not() -> None:
    assert matched(["B", "a"], ["a", "b", "c"], Rules()) == {"a": 1, "b": 0}
    assert matched(["a", "b"], ["a", "b"], Rules(sensitive=True)) == {"a": 0, "b": 1}
    assert matched(["A", "a"], ["a", "A"], Rules()) == {"a": 1, "A": 0}
    for given, rules in (
        (["a", "A"], Rules()),
        (["a", "a"], Rules(sensitive=True)),
        (["A"], Rules(sensitive=True)),
        (["x"], Rules()),
    ):
        with pytest.raises(InvalidError):
            matched(given, ["a", "b"], rules)
    with pytest.raises(InvalidError, match="extra columns: `A`"):
        matched(["A"], ["a", "A", "b"][:1] + ["B", "b"], Rules())


def test_positions_become_names_at_every_level() -> None:
    source = parsed("ARRAY<STRUCT<x: STRING, y: STRUCT<p: INT, q: INT>>>")
    target = parsed("ARRAY<STRUCT<a: STRING, b: STRUCT<c: BIGINT, d: BIGINT>>>")
    assert positional(source, target) == parsed("ARRAY<STRUCT<a: STRING, b: STRUCT<c: INT, d: INT>>>")
    wider = parsed("STRUCT<a: STRING, b: INT>")
    assert positional(wider, parsed("STRUCT<z: INT>")) == parsed("STRUCT<z: STRING, b: INT>")
