"""Names that types have in other databases, for the error that says what to write here."""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import did_you_mean

_HERE = {
    **dict.fromkeys(("TEXT", "NVARCHAR", "CLOB", "UUID", "ENUM", "LONGTEXT", "MEDIUMTEXT", "JSON", "JSONB"), "STRING"),
    **dict.fromkeys(("DATETIME", "TIMESTAMPTZ"), "TIMESTAMP"),
    **dict.fromkeys(("SERIAL", "BIGSERIAL", "INT8", "INT64", "UINT32"), "BIGINT"),
    **dict.fromkeys(("INT4", "INT32", "MEDIUMINT"), "INT"),
    **dict.fromkeys(("NUMBER", "MONEY"), "DECIMAL"),
    **dict.fromkeys(("FLOAT8", "FLOAT64"), "DOUBLE"),
    **dict.fromkeys(("BYTEA", "VARBYTE"), "BINARY"),
    **{"BOOL": "BOOLEAN", "FLOAT4": "FLOAT"},
}


def meant(word: str, known: Sequence[str]) -> str | None:
    """A remedy for a name that is no type here. `known`: those that are."""
    return f"write {_HERE[word]}" if word in _HERE else did_you_mean(word, [*known, "STRING"])
