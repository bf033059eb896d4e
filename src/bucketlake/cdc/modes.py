"""`type_mapping`: how types of a source become a table's where there is more than one way."""

from __future__ import annotations

from collections.abc import Iterable

from bucketlake.errors import InvalidError, did_you_mean

MODES = {
    "tinyint1-not-bool": "MySQL's TINYINT(1) is TINYINT, not BOOLEAN",
    "to-nullable": "columns may be null, whatever the source says, but for those of the primary key (always so here)",
    "to-string": "every column is STRING",
    "char-to-string": "CHAR(n) and VARCHAR(n) are STRING",
    "longtext-to-bytes": "LONGTEXT is BYTES",
    "bigint-unsigned-to-bigint": "BIGINT UNSIGNED is BIGINT, not DECIMAL(20, 0)",
    "decimal-no-change": "a DECIMAL column keeps its type, whatever the source says later",
    "allow-non-string-to-string": "a column may become STRING",
}


def parse_modes(given: str | Iterable[str]) -> frozenset[str]:
    """The modes that a text ("to-string,char-to-string") or list names; InvalidError for one that there is not."""
    names = given.split(",") if isinstance(given, str) else list(given)
    found = {name.strip().lower().replace("_", "-") for name in names if name.strip()}
    for name in sorted(found - MODES.keys()):
        raise InvalidError("no such type mapping", mode=name, modes=sorted(MODES), remedy=did_you_mean(name, MODES))
    return frozenset(found)
