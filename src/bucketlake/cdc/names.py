"""Which tables of a source are taken, and what their tables in the lake are called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from bucketlake.catalogs.names import check_name
from bucketlake.errors import InvalidError
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class TableNames:
    """Names of a whole-database synchronisation. Patterns are regular expressions that match a whole name; `mapping`:
    by source table, whatever the case; `prefix_of`, `suffix_of`: by source database; `merge_shards`: tables of the same
    name in several databases are one table, else each is `<database>_<table>`."""

    prefix: str = ""
    suffix: str = ""
    prefix_of: Mapping[str, str] = field(default_factory=dict)
    suffix_of: Mapping[str, str] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)
    including_tables: str = ".*"
    excluding_tables: str | None = None
    including_dbs: str = ".*"
    excluding_dbs: str | None = None
    merge_shards: bool = True
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        for name in ("including_tables", "excluding_tables", "including_dbs", "excluding_dbs"):
            _pattern(name, getattr(self, name))
        before = (self.prefix, *self.prefix_of.values())
        behind = (self.suffix, *self.suffix_of.values())
        for name in (*self.mapping.values(), *(f"{text}t" for text in before), *(f"t{text}" for text in behind)):
            check_name(name, "table")

    def takes(self, database: str | None, table: str | None) -> bool:
        """Whether events of a source table are taken; what an event does not say hinders nothing."""
        return _taken(database, self.including_dbs, self.excluding_dbs) and _taken(
            table, self.including_tables, self.excluding_tables
        )

    def target(self, database: str, table: str) -> str:
        """The name of the table in the lake."""
        name = table if self.merge_shards else f"{database}_{table}"
        mapped = _lowered(self.mapping).get(name.lower())
        if mapped is not None:
            return mapped if self.case_sensitive else mapped.lower()
        prefix = _lowered(self.prefix_of).get(database.lower(), self.prefix)
        suffix = _lowered(self.suffix_of).get(database.lower(), self.suffix)
        return prefix + (name if self.case_sensitive else name.lower()) + suffix


def _taken(name: str | None, including: str, excluding: str | None) -> bool:
    if name is None:
        return True
    return bool(re.fullmatch(including, name)) and not (excluding and re.fullmatch(excluding, name))


def _lowered(given: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in given.items()}


def _pattern(name: str, text: str | None) -> None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise InvalidError("not a regular expression", **{name: text}, reason=str(error)) from error
