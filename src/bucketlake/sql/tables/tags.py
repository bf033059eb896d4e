"""Tags in SQL: ALTER TABLE … TAG, SHOW TAGS.

    ALTER TABLE t CREATE TAG [IF NOT EXISTS] name [AS OF VERSION id] [RETAIN n DAYS | HOURS | MINUTES]
    ALTER TABLE t [CREATE OR] REPLACE TAG name [AS OF VERSION id] [RETAIN …]
    ALTER TABLE t DELETE TAG [IF EXISTS] name {, name}
    ALTER TABLE t RENAME TAG name TO name
    SHOW TAGS t

Spec: docs/sql/tags.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from bucketlake.errors import AlreadyExistsError
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_UNITS = {"DAYS": timedelta(days=1), "HOURS": timedelta(hours=1), "MINUTES": timedelta(minutes=1)}


@dataclass(frozen=True, slots=True)
class _SetTag:
    """CREATE and REPLACE; `replace`: one that is there is replaced, one that is not is made."""

    tag: str
    snapshot: int | None
    retained: timedelta | None
    replace: bool = False
    if_not_exists: bool = False

    def run(self, lake: Lake, name: names.LakeName) -> None:
        table = lake.table(name.full)
        if self.replace and self.tag in table.tags():
            table.replace_tag(self.tag, self.snapshot, self.retained)
            return
        try:
            table.create_tag(self.tag, self.snapshot, self.retained, if_not_exists=self.if_not_exists)
        except AlreadyExistsError as error:
            raise AlreadyExistsError(
                f"Tag {self.tag} is exists.", table=name.full, remedy="write CREATE OR REPLACE TAG, or IF NOT EXISTS"
            ) from error


@dataclass(frozen=True, slots=True)
class _DeleteTags:
    """A tag that is not there is passed over either way, as upstream does."""

    tags: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        table = lake.table(name.full)
        there = table.tags()
        for text in self.tags:
            for tag in listed_names(text, there):
                table.delete_tag(tag)


@dataclass(frozen=True, slots=True)
class _RenameTag:
    tag: str
    target: str

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.table(name.full).rename_tag(self.tag, self.target)


@dataclass(frozen=True, slots=True)
class _ShowTags:
    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        found = [(tag,) for tag in sorted(lake.table(name.full).tags())]
        return lake.spark.createDataFrame(found, "tag string not null")


def listed_names(text: str, there: Collection[str]) -> list[str]:
    """The names in a list with commas between, each once; a name that is there and has commas itself is one."""
    return [text] if text in there else list(dict.fromkeys(part.strip() for part in text.split(",")))


def show_tags(cursor: Cursor) -> Statement:
    """What follows SHOW TAGS."""
    cursor.table()
    return _ShowTags()


def _create(cursor: Cursor) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    return _SetTag(_name(cursor), *_options(cursor), if_not_exists=if_not_exists)


def _replace(cursor: Cursor) -> Statement:
    return _SetTag(_name(cursor), *_options(cursor), replace=True)


def _delete(cursor: Cursor) -> Statement:
    cursor.accept("IF", "EXISTS")
    return _DeleteTags(tuple(cursor.listed(lambda: _name(cursor))))


def _rename(cursor: Cursor) -> Statement:
    tag = _name(cursor)
    cursor.expect("TO")
    return _RenameTag(tag, _name(cursor))


def _name(cursor: Cursor) -> str:
    """A tag's name: in backticks, or letters, digits and underscores, digits first too."""
    token = cursor.peek()
    if token is None or token.kind not in ("word", "number"):
        return cursor.identifier()
    found = cursor.next()
    text = cursor.text[found.start : found.end]
    while (token := cursor.peek()) is not None and token.start == found.end and token.kind in ("word", "number"):
        found = cursor.next()
        text += cursor.text[found.start : found.end]
    if not all(sign.isalnum() or sign == "_" for sign in text):
        cursor.fail("expected a name; others than letters and digits stand in backticks")
    return text


def _options(cursor: Cursor) -> tuple[int | None, timedelta | None]:
    snapshot, retained = None, None
    if cursor.accept("AS", "OF", "VERSION"):
        snapshot = _number(cursor)
    if cursor.accept("RETAIN"):
        count = _number(cursor)
        unit = next((span for word, span in _UNITS.items() if cursor.accept(word)), None)
        if unit is None:
            cursor.fail("expected DAYS, HOURS or MINUTES")
        assert unit is not None
        try:
            retained = count * unit
        except OverflowError:
            cursor.fail("this time is too long")
    return snapshot, retained


def _number(cursor: Cursor) -> int:
    token = cursor.peek()
    text = "" if token is None else token.value.upper().removesuffix("L")
    if token is None or token.kind != "number" or not text.isdigit():
        cursor.fail("expected a whole number")
    found = cursor.next()
    while (more := cursor.peek()) is not None and more.start == found.start:
        cursor.next()  # `3L` is cut into a number and the cast that it stands for
    return int(text)


ALTERATIONS: tuple[tuple[tuple[str, ...], Callable[[Cursor], Statement]], ...] = (
    (("CREATE", "OR", "REPLACE", "TAG"), _replace),
    (("CREATE", "TAG"), _create),
    (("REPLACE", "TAG"), _replace),
    (("DELETE", "TAG"), _delete),
    (("RENAME", "TAG"), _rename),
)
