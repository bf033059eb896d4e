"""Rarer changes of a schema, as Bucketlake and as Paimon's API take them: members, places, defaults, options."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.interop.random_tables import kind_of, some_kind

from bucketlake.schema.change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SetOption,
    UpdateColumnDefault,
    UpdateColumnType,
    UpdatePosition,
)
from bucketlake.types.model import BIGINT, DataField, DataType, Root, format_type, type_text

Changed = tuple[Any, list[Any]]
OPTIONS = {
    "num-sorted-run.compaction-trigger": ["2", "4"],
    "file.format": ["parquet", "orc", "avro"],
    "metadata.stats-mode": ["none", "full"],
    "target-file-size": ["1 kb", "1 mb"],
    "write-only": ["true", "false"],
    "data-file.prefix": ["other-"],
    "file.compression": ["zstd", "snappy"],
    "manifest.merge-min-count": ["2"],
    "data-file.thin-mode": ["true", "false"],
    "compaction.min.file-num": ["2"],
    "file-index.bloom-filter.columns": ["v", "w"],
    "changelog-producer.row-deduplicate": ["true"],
}


def typed(kind: DataType) -> str:
    """A type as Paimon's API takes it here."""
    return f"type:{json.dumps(format_type(kind))}"


def rarer_change(
    chance: random.Random, columns: dict[str, str], free: Sequence[str], number: int, options: dict[str, str]
) -> Changed | None:
    """A change, which `columns` follow; None where there is none of the drawn kind. `free`: columns that nothing names;
    `number`: makes names new; `options`: of the table."""
    lot = chance.random()
    if lot < 0.45:
        rows = [name for name in free if _row_of(kind_of(columns[name])) is not None]
        return _member(chance, columns, chance.choice(rows), number) if rows else None
    if lot < 0.65:
        return _placed(chance, columns)
    if lot < 0.72:
        plain = {"INT": "7", "BIGINT": "-3", "STRING": "dflt", "DATE": "2024-02-29", "BOOLEAN": "true"}
        found = [name for name in free if columns[name] in plain]
        if not found:
            return None
        name = chance.choice(found)
        text = plain[columns[name]]
        return UpdateColumnDefault(name, text), ["updateColumnDefaultValue", ["path", name], text]
    key = chance.choice([key for key in OPTIONS if key != "file.format" or "(9)" not in "".join(columns.values())])
    if key == "write-only" and "sequence.snapshot-ordering" in options:
        return None
    value = chance.choice(OPTIONS[key])
    return SetOption(key, value), ["setOption", key, value]


def _placed(chance: random.Random, columns: dict[str, str]) -> Changed:
    if chance.random() < 0.5:  # a new column among the others
        name, text = f"n{len(columns)}x{chance.randrange(10**6)}", some_kind(chance, False)
        where = chance.choice(list(columns))
        first = chance.random() < 0.4
        columns[name] = text
        change = AddColumn(name, kind_of(text), first=first, after=None if first else where)
        move = ["move", "first", name] if first else ["move", "after", name, where]
        return change, ["addColumn", name, typed(kind_of(text)), None, move]
    name, other = chance.sample(list(columns), 2)
    if chance.random() < 0.4:
        return UpdatePosition(name, first=True), ["updateColumnPosition", ["move", "first", name]]
    return UpdatePosition(name, after=other), ["updateColumnPosition", ["move", "after", name, other]]


def _row_of(kind: DataType) -> tuple[list[str], DataType] | None:
    """Where a column's ROW is: itself, its elements or its values."""
    path: list[str] = []
    while kind.root is not Root.ROW:
        if kind.root not in (Root.ARRAY, Root.MAP) or kind.element is None:
            return None
        path.append("element" if kind.root is Root.ARRAY else "value")
        kind = kind.element
    return path, kind


def _with_row(kind: DataType, row: DataType) -> DataType:
    if kind.root is Root.ROW:
        return row
    assert kind.element is not None
    return replace(kind, element=_with_row(kind.element, row))


def _member(chance: random.Random, columns: dict[str, str], name: str, number: int) -> Changed:
    kind = kind_of(columns[name])
    found = _row_of(kind)
    assert found is not None
    path, row = [name, *found[0]], found[1]
    members = list(row.fields)
    lot = chance.random()
    if lot < 0.4 or (len(members) == 1 and lot < 0.6):
        new = kind_of(some_kind(chance, False, 1))
        members.append(DataField(0, f"m{number}", new))
        change: Any = AddColumn((*path, f"m{number}"), new)
        theirs: list[Any] = ["addColumn", ["path", *path, f"m{number}"], typed(new), None, None]
    elif lot < 0.6:
        gone = members.pop(chance.randrange(len(members)))
        change, theirs = DropColumn((*path, gone.name)), ["dropColumn", ["path", *path, gone.name]]
    elif lot < 0.8 or not any(item.type.root is Root.INT for item in members):
        at = chance.randrange(len(members))
        old = members[at]
        members[at] = replace(old, name=f"m{number}")
        change = RenameColumn((*path, old.name), f"m{number}")
        theirs = ["renameColumn", ["path", *path, old.name], f"m{number}"]
    else:
        at = next(at for at, item in enumerate(members) if item.type.root is Root.INT)
        old = members[at]
        wide = BIGINT.with_nullable(old.type.nullable)
        members[at] = replace(old, type=wide)
        change = UpdateColumnType((*path, old.name), wide)
        theirs = ["updateColumnType", ["path", *path, old.name], typed(wide), True]
    columns[name] = type_text(_with_row(kind, replace(row, fields=tuple(members))))
    return change, theirs
