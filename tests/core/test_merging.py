"""What rows bring that a table lacks: rules over types, no session needed."""

from __future__ import annotations

import pytest

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import TableOptions
from bucketlake.schema.change import changed
from bucketlake.schema.merging import Merging, merging
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import DataField, type_text
from bucketlake.types.parse import parse_type_text

KEEP, WIDEN, ANY = Merging(), Merging(widen=True), Merging(widen=True, explicit=True)


def fields(**columns: str) -> list[DataField]:
    return [DataField(place, name, parse_type_text(text)) for place, (name, text) in enumerate(columns.items())]


def after(own: list[DataField], given: list[DataField], rules: Merging) -> dict[str, str]:
    schema = create_schema(own)
    found = changed(schema, merging(schema.fields, given, rules), has_snapshots=True, table="t")
    return {item.name: type_text(item.type) for item in found.fields}


@pytest.mark.parametrize(
    ("own", "given", "rules", "expected"),
    [
        ("INT", "BIGINT", KEEP, "INT"),
        ("INT", "BIGINT", WIDEN, "BIGINT"),
        ("INT NOT NULL", "BIGINT", WIDEN, "BIGINT NOT NULL"),
        ("BIGINT", "INT", WIDEN, None),
        ("BIGINT", "INT", ANY, "INT"),
        ("BIGINT", "DECIMAL(38, 18)", WIDEN, "DECIMAL(38, 18)"),
        ("DECIMAL(38, 18)", "DECIMAL(20, 18)", WIDEN, "DECIMAL(38, 18)"),
        ("DECIMAL(10, 2)", "DECIMAL(20, 3)", ANY, None),
        ("STRING", "DATE", WIDEN, None),
        ("STRING", "DATE", ANY, "DATE"),
        ("VARCHAR(5)", "STRING", WIDEN, "STRING"),
        ("STRING", "VARCHAR(5)", WIDEN, None),
        ("INT", "STRUCT<a: INT>", ANY, None),
        ("INT", "STRUCT<a: INT>", KEEP, "INT"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", KEEP, "ARRAY<INT>"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", WIDEN, None),
        ("STRUCT<a: INT>", "STRUCT<b: STRING, A: BIGINT>", WIDEN, "ROW<`a` BIGINT, `b` STRING>"),
        ("ARRAY<STRUCT<a: INT>>", "ARRAY<STRUCT<b: INT>>", KEEP, "ARRAY<ROW<`a` INT, `b` INT>>"),
        (
            "MAP<STRING, STRUCT<a: INT>>",
            "MAP<STRING, STRUCT<b: INT>>",
            KEEP,
            "MAP<STRING NOT NULL, ROW<`a` INT, `b` INT>>",
        ),
    ],
)
def test_types(own: str, given: str, rules: Merging, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(UnsupportedError, match="Failed to merge"):
            merging(fields(x=own), fields(x=given), rules)
    else:
        found = after(fields(x=own), fields(X=given), rules)
        assert list(found) == ["x"]
        assert found["x"].replace(" NOT NULL,", ",") == expected.replace(" NOT NULL,", ",")


def test_columns() -> None:
    own = fields(id="INT NOT NULL", name="STRING")
    assert after(own, fields(extra="INT NOT NULL", ID="INT"), KEEP) == {
        "id": "INT NOT NULL",
        "name": "STRING",
        "extra": "INT",
    }
    assert list(after(own, fields(ID="INT"), Merging(sensitive=True))) == ["id", "name", "ID"]
    assert merging(own, fields(NAME="STRING", id="INT"), WIDEN) == []
    with pytest.raises(InvalidError, match="ambiguous"):
        merging(own, fields(new="INT", NEW="INT"), KEEP)


def test_options() -> None:
    assert Merging.of(TableOptions({})) is None
    assert Merging.of(TableOptions({"write.merge-schema.type-widening": "true"})) is None
    assert Merging.of(TableOptions({"write.merge-schema": "true"}), True) == Merging(sensitive=True)
